"""Compaction: the older part of a conversation replaced by a summary, so that it fits the model again."""
