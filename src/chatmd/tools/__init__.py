"""Tools: what a model may ask for, each confined to what its declaration allows."""
