"""LM Markdown for courses: prepare documents, store them, search and ask them. `Course` has it all.

Importing this package reads no file, writes no file and opens no connection.

>>> import lmm_education
>>> "ingest" in dir(lmm_education)
True
"""

import lazy_loader

# Nothing is loaded before it is used; the file beside this one says what there is, and where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
