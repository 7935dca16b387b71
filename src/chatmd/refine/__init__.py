"""Refinement: measure a prompt on cases, and search for better versions, which a model proposes."""
