"""`lmm lsp`: `Document`, `Chat` and `Course` in any editor, by the Language Server Protocol.

The server writes no file. It works on the text that the editor has open, saved or not, and sends what it would change.
"""
