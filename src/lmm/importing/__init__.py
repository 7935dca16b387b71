"""Convert Office files, PDF, web pages, books and notebooks to markdown; check the result before building on it."""

from lmm.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
