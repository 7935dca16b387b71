"""The tools that a model may call, each confined to what its declaration allows."""
