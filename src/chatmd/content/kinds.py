"""What a document is, told by its first bytes, by what a server says, and by its name."""

from __future__ import annotations

from dataclasses import dataclass

_UNKNOWN = "application/octet-stream"
# Kinds that can be turned into markdown: the suffix under which `lmm.importing` knows them.
_IMPORTED_TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
    "application/x-ipynb+json": ".ipynb",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
}
IMPORTED_SUFFIXES = {
    **{suffix: suffix for suffix in (".pdf", ".docx", ".epub", ".ipynb", ".html")},
    ".htm": ".html",
    ".xhtml": ".html",
}
_LANGUAGES = {
    **{".py": "python", ".js": "javascript", ".ts": "typescript", ".rs": "rust", ".rb": "ruby", ".sh": "bash"},
    **{".h": "c", ".hpp": "cpp", ".cc": "cpp", ".cs": "csharp", ".kt": "kotlin", ".yml": "yaml", ".tex": "latex"},
    **{".ml": "ocaml", ".hs": "haskell", ".jl": "julia", ".pl": "perl", ".txt": "text", ".log": "text"},
}
MARKDOWN = (".md", ".markdown", ".mdown", ".rmd", ".qmd", ".chatmd")


@dataclass(frozen=True, slots=True)
class Kind:
    """`suffix` is that of a format that can be turned into markdown, else empty; `name` is for people.

    `is_text` if the document can be read as it is.
    """

    suffix: str
    name: str
    is_text: bool

    @property
    def is_page(self) -> bool:
        """Whether it is HTML."""
        return self.suffix == ".html"


TEXT = Kind("", "text", True)
HTML = Kind(".html", "HTML", True)
_NOTEBOOK = Kind(".ipynb", "a Jupyter notebook", True)
_BINARY = Kind("", "a binary file", False)
_BY_SUFFIX = {
    ".html": HTML,
    ".ipynb": _NOTEBOOK,
    ".pdf": Kind(".pdf", "a PDF file", False),
    ".docx": Kind(".docx", "a Word file", False),
    ".epub": Kind(".epub", "an EPUB book", False),
}
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


def kind_of(data: bytes, *, name: str, media_type: str = "") -> Kind:
    """What a document is. The bytes decide where they can, then a telling media type, then the name.

    >>> kind_of(b"%PDF-1.7", name="a.md").name, kind_of(b"# A", name="a.md").name, kind_of(b"a\\0", name="a").name
    ('a PDF file', 'text', 'a binary file')
    """
    suffix = suffix_of(name)
    by_name = _BY_SUFFIX.get(IMPORTED_SUFFIXES.get(suffix, ""))
    by_type = _BY_SUFFIX.get(_IMPORTED_TYPES.get(media_type, ""))
    if data.startswith(b"%PDF-"):
        return _BY_SUFFIX[".pdf"]
    if data.startswith(b"PK\x03\x04"):
        return _archive(data, by_type or by_name)
    magic = next((what for start, what in _MAGIC.items() if data.startswith(start)), "")
    if magic or (b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return Kind("", magic, False) if magic else _BINARY
    if by_type is not None and by_type.is_text:
        return by_type
    if by_name is not None and by_name.is_text and media_type in ("", "text/plain", "application/json", _UNKNOWN):
        return by_name
    if media_type in ("", _UNKNOWN) and suffix not in MARKDOWN and _looks_like_html(data):
        return HTML
    return TEXT


def _archive(data: bytes, named: Kind | None) -> Kind:
    if named is not None and named.suffix in (".docx", ".epub"):
        return named
    if b"application/epub+zip" in data[:200]:
        return _BY_SUFFIX[".epub"]
    if b"[Content_Types].xml" in data and b"word/document.xml" in data:
        return _BY_SUFFIX[".docx"]
    return Kind("", "a ZIP archive", False)


def _looks_like_html(data: bytes) -> bool:
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html"))


def suffix_of(name: str) -> str:
    """The suffix of a file's name, with its dot, in lower case.

    >>> suffix_of("Notes.MD"), suffix_of("Makefile")
    ('.md', '')
    """
    stem, dot, suffix = name.lower().rpartition(".")
    return f".{suffix}" if dot and stem else ""


def language_of(name: str, media_type: str = "") -> str:
    """What the code block is called in which a text is shown that is no markdown.

    >>> language_of("a.py"), language_of("a.toml"), language_of("data", "application/json")
    ('python', 'toml', 'json')
    """
    suffix = suffix_of(name)
    for word in ("json", "xml", "yaml", "javascript", "css", "csv"):
        if not suffix and word in media_type:
            return word
    return _LANGUAGES.get(suffix, suffix.removeprefix(".") if suffix[1:].isalnum() else "")
