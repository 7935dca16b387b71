from .formats import FORMATS as FORMATS, Format as Format, format_of as format_of
from .import_document import ImportReport as ImportReport, import_file as import_file
