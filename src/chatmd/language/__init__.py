"""The language: text to a tree and back, what the tree means, what is wrong with it. No file is written here."""
