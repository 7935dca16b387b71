"""LM Markdown for courses: prepare and store documents, search them, ask them questions. See `Course`.

Importing this package reads and writes no file and opens no connection.

>>> import lmm_education
>>> "ingest" in dir(lmm_education)
True
"""

from lmm.lazy_names import lazy_names

# Everything is imported on first use; the stub file beside this one lists the names and their modules.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
