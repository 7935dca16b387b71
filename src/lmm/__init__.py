"""LM Markdown: markdown in which people and language models work together.

`lmm.markdown` reads and changes documents, `lmm.scan` works on whole files, `lmm.models` talks to
language models. Importing this package reads no file, writes no file and opens no connection.
"""
