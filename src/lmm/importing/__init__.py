"""Office files, PDF, web pages, books, notebooks to markdown, to be read before anything is built on it."""

from lmm.importing.formats import FORMATS, Format, format_of
from lmm.importing.import_document import ImportReport, import_file

__all__ = ["FORMATS", "Format", "ImportReport", "format_of", "import_file"]
