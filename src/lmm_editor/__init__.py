"""`lmm lsp`: `Document`, `Chat` and `Course` in any editor, through the Language Server Protocol.

The server writes no files. It works on the text that is open in the editor, saved or not, and sends its changes.
"""
