"""Convert Office files, PDF, web pages, books and notebooks to markdown; check the result before building on it."""

from lmm.importing.formats import FORMATS, Format, format_of
from lmm.importing.import_document import ImportReport, import_file

__all__ = ["FORMATS", "Format", "ImportReport", "format_of", "import_file"]
