"""The contents of documents, images and agents in messages."""
