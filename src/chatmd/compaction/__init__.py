"""Compaction: replace the older part of a conversation by a summary, so that it fits the model again."""
