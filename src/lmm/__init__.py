"""LM Markdown: markdown in which people and language models work together.

`Document` is a markdown file that talks. `lmm.markdown` reads and changes documents block by block, `lmm.scan` works on
whole files, `lmm.models` talks to language models. Importing this package reads no file, writes no file and opens no
connection.

>>> import lmm
>>> "Document" in dir(lmm)
True
"""

from lmm.lazy_names import lazy_names

# Submodules are loaded when they are first used; the stub file beside this one lists the public names.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
