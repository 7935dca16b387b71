"""Agents to start from, one file each: `lmm agents` lists and copies them."""
