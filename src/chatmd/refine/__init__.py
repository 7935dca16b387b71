"""Refinement: a prompt measured on cases, and better versions of it, proposed by a model and measured likewise."""
