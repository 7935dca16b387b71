"""The table of file formats that can be imported: the reader and the limit of each, and how files are recognised."""

from __future__ import annotations

from dataclasses import dataclass

from lmm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table: `module` has a function ``read(data, context)``, by default that of Pandoc; `needs` are the
    packages that it imports.

    `reader` is Pandoc's name of its input format: that of the file, or of the HTML that the module makes. `called` is
    the common name of such a file, `types` are the media types used by servers; `is_text` if it is readable as it is.
    """

    name: str
    help: str
    reader: str = ""
    called: str = ""
    types: tuple[str, ...] = ()
    is_text: bool = False
    module: str = "lmm.importing.pandoc"
    needs: tuple[str, ...] = ()
    most: int = 200_000_000  # bytes


COUNT_KEY = "~~import"
"""The key in the header of an imported document that says how many words of its source were not read."""

_OFFICE = "application/vnd.openxmlformats-officedocument."
_PACKAGE = "lmm.importing.read_"
_ROWS = {
    ".pdf": Format("PDF", "with text in it, not only pictures of it", "html", "a PDF file", ("application/pdf",),
                   module=f"{_PACKAGE}pdf", needs=("pypdfium2", "PIL"), most=1_000_000_000),
    ".docx": Format("Word", "Word since 2007", "docx", "a Word file", (f"{_OFFICE}wordprocessingml.document",),
                    needs=("lxml",)),
    ".pptx": Format("PowerPoint", "slides as sections, with their notes", "html", "a PowerPoint file",
                    (f"{_OFFICE}presentationml.presentation",), module=f"{_PACKAGE}pptx", needs=("pptx",)),
    ".xlsx .xlsm": Format("Excel", "each sheet as a section, its values as shown", "", "an Excel file",
                          (f"{_OFFICE}spreadsheetml.sheet",), module=f"{_PACKAGE}xlsx", needs=("openpyxl",)),
    ".odt": Format("OpenDocument", "LibreOffice Writer", "odt", "an OpenDocument text",
                   ("application/vnd.oasis.opendocument.text",), needs=("lxml",)),
    ".ods": Format("OpenDocument sheet", "LibreOffice Calc", "", "an OpenDocument sheet",
                   ("application/vnd.oasis.opendocument.spreadsheet",), module=f"{_PACKAGE}opendocument",
                   needs=("pptx", "openpyxl")),
    ".odp": Format("OpenDocument slides", "LibreOffice Impress", "html", "OpenDocument slides",
                   ("application/vnd.oasis.opendocument.presentation",), module=f"{_PACKAGE}opendocument",
                   needs=("pptx", "openpyxl")),
    ".rtf": Format("RTF", "of any word processor", "rtf", "an RTF file", ("application/rtf", "text/rtf")),
    ".html .htm .xhtml": Format("HTML", "web pages, saved or at a URL", "html", "HTML",
                                ("text/html", "application/xhtml+xml"), is_text=True,
                                module=f"{_PACKAGE}html", most=40_000_000),
    ".ipynb": Format("Jupyter", "notebooks; no code is run", "", "a Jupyter notebook", ("application/x-ipynb+json",),
                     is_text=True, module=f"{_PACKAGE}notebook"),
    ".vtt .srt": Format("subtitles", "what is said, with its minutes", is_text=True, module=f"{_PACKAGE}subtitles"),
    ".epub": Format("EPUB", "books without copy protection", "epub", "an EPUB book", ("application/epub+zip",),
                    module=f"{_PACKAGE}epub", most=500_000_000),
    ".tex .latex": Format("LaTeX", "without what it includes", "latex", is_text=True),
    ".org": Format("Org", "Emacs", "org", is_text=True),
    ".rst": Format("reStructuredText", "Sphinx", "rst", is_text=True),
    ".adoc .asciidoc": Format("AsciiDoc", "without what it includes", "asciidoc", is_text=True),
    ".wiki .mediawiki": Format("MediaWiki", "the source of a page", "mediawiki", is_text=True),
    ".dbk .docbook": Format("DocBook", "XML", "docbook", is_text=True),
}  # fmt: skip
FORMATS: dict[str, Format] = {suffix: format for suffixes, format in _ROWS.items() for suffix in suffixes.split()}
# Hints for other files that users may try to import.
_OTHERS = {
    ".doc .pages": "open it in a word processor and save it as .docx",
    ".ppt .key": "save it as .pptx, or export it as PDF",
    ".xls .numbers": "save it as .xlsx",
    ".png .jpg .jpeg .tif .tiff": "recognise its text: ocrmypdf --image-dpi 300 IN OUT.pdf",
    ".md .markdown .rmd .qmd": "it is markdown already: use lmm scan or lmm ingest",
    ".textile .typ .fb2 .xml": "Pandoc can: pandoc IN -t markdown -o OUT.md",
}


def format_of(name: str) -> Format:
    """Return the format of a file, by its name.

    Raises:
        ConfigError: files of this kind cannot be imported; the hint says what can be done instead.

    >>> format_of("Report.PDF").name
    'PDF'
    """
    suffix = "." + name.lower().rpartition(".")[2] if "." in name else ""
    if suffix not in FORMATS:
        others = (hint for suffixes, hint in _OTHERS.items() if suffix in suffixes.split())
        hint = next(others, f"lmm import reads {', '.join(FORMATS)}")
        raise ConfigError(f"files of this kind cannot be imported{suffix and f' ({suffix})'}", where=name, hint=hint)
    return FORMATS[suffix]


# -- kinds of files, recognised by their first bytes, by the server's media type, and by their name ----------------


_UNKNOWN = "application/octet-stream"
MARKDOWN = (".md", ".markdown", ".mdown", ".rmd", ".qmd", ".chatmd")
"""Suffixes of files that are markdown already."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: `suffix` is that of a format that is converted to markdown, else empty; `name` is for messages.

    `is_text` says that the document can be read as it is.
    """

    suffix: str
    name: str
    is_text: bool

    @property
    def is_page(self) -> bool:
        """Whether the file is HTML."""
        return self.suffix == ".html"


TEXT = FileKind("", "text", True)
_CALLED = {suffix: format for suffix, format in FORMATS.items() if format.called}
_KINDS = {each.name: FileKind(suffix, each.called, each.is_text) for suffix, each in reversed(_CALLED.items())}
HTML = _KINDS["HTML"]
CONVERTED = {suffix: _KINDS[format.name] for suffix, format in _CALLED.items()}
"""The kinds of files that must be converted to be read, by their suffixes; markup that is readable, such as LaTeX, is
not among them."""
_BY_TYPE = {type: _KINDS[format.name] for format in _CALLED.values() for type in format.types}
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"\x7fELF": "a program",
    b"SQLite format 3": "a database",
}
_BEGINS = {b"%PDF-": ".pdf", b"{\\rtf": ".rtf"}
# Archives are recognised by the names of their members, which are not compressed, or by their first member.
_ODF = b"application/vnd.oasis.opendocument."
_FIRST = {b"application/epub+zip": ".epub", _ODF + b"text": ".odt", _ODF + b"spreadsheet": ".ods",
          _ODF + b"presentation": ".odp"}  # fmt: skip
_MEMBERS = {b"word/document.xml": ".docx", b"ppt/presentation.xml": ".pptx", b"xl/workbook.xml": ".xlsx"}
_ARCHIVES = (*_FIRST.values(), *_MEMBERS.values())


def file_kind(data: bytes, *, name: str, media_type: str = "") -> FileKind:
    """Determine the kind of a document: by its bytes if possible, then by a specific media type, then by its name.

    >>> [file_kind(data, name=name).name for data, name in ((b"%PDF-1.7", "a.md"), (b"# A", "a.md"), (b"a\\0", "a"))]
    ['a PDF file', 'text', 'a binary file']
    """
    suffix = suffix_of(name)
    by_name, by_type = CONVERTED.get(suffix), _BY_TYPE.get(media_type)
    begins = next((told for start, told in _BEGINS.items() if data.startswith(start)), "")
    if begins:
        return CONVERTED[begins]
    if data.startswith(b"PK\x03\x04"):
        if (named := by_type or by_name) is not None and named.suffix in _ARCHIVES:
            return named
        found = next((suffix for mark, suffix in _FIRST.items() if mark in data[:200]), "")
        if not found and b"[Content_Types].xml" in data:
            found = next((suffix for mark, suffix in _MEMBERS.items() if mark in data), "")
        return CONVERTED[found] if found else FileKind("", "a ZIP archive", False)
    magic = next((what for start, what in _MAGIC.items() if data.startswith(start)), "")
    if magic or (b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return FileKind("", magic or "a binary file", False)
    if by_type is not None and by_type.is_text:
        return by_type
    if by_name is not None and by_name.is_text and media_type in ("", "text/plain", "application/json", _UNKNOWN):
        return by_name
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    is_page = start.startswith((b"<!doctype html", b"<html"))
    return HTML if is_page and media_type in ("", _UNKNOWN) and suffix not in MARKDOWN else TEXT


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name, with its dot, in lower case.

    >>> suffix_of("Notes.MD"), suffix_of("Makefile")
    ('.md', '')
    """
    stem, dot, suffix = name.lower().rpartition(".")
    return f".{suffix}" if dot and stem else ""
