"""The table of file formats that can be imported: what reads each, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from lmm.errors import ConfigError

EXTRA = "pip install 'lmmarkdown[import]'"


@dataclass(frozen=True, slots=True)
class Format:
    """One row: `module` has a function ``read(data, context)``; `needs` are the packages that it imports."""

    name: str
    module: str
    needs: tuple[str, ...]
    most: int  # bytes
    help: str


_HTML = Format("HTML", "lmm.importing.read_html", ("selectolax",), 40_000_000, "web pages that were saved")
_EPUB = Format("EPUB", "lmm.importing.read_epub", ("selectolax",), 500_000_000, "books without copy protection")
_WORD = Format("Word", "lmm.importing.read_docx", ("mammoth", "selectolax"), 500_000_000, "Word since 2007")
_PDF = Format(
    "PDF", "lmm.importing.read_pdf", ("pypdfium2",), 1_000_000_000, "with text in it, not only pictures of it"
)
_NOTEBOOK = Format("Jupyter", "lmm.importing.read_notebook", ("selectolax",), 200_000_000, "notebooks; no code is run")

FORMATS: dict[str, Format] = {
    ".pdf": _PDF,
    ".docx": _WORD,
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    ".ipynb": _NOTEBOOK,
    ".epub": _EPUB,
}
# What to do with files that people try all the same.
_OTHERS = {
    **dict.fromkeys((".doc", ".rtf", ".odt", ".pages"), "open it in a word processor and save it as .docx"),
    **dict.fromkeys((".ppt", ".pptx", ".odp", ".key"), "export it as PDF"),
    **dict.fromkeys(
        (".png", ".jpg", ".jpeg", ".tif", ".tiff"), "recognise its text: ocrmypdf --image-dpi 300 IN OUT.pdf"
    ),
    **dict.fromkeys((".md", ".markdown", ".rmd", ".qmd"), "it is markdown already: lmm scan or lmm ingest take it"),
    **dict.fromkeys((".rst", ".tex", ".org", ".textile", ".adoc"), "Pandoc can: pandoc IN -t markdown -o OUT.md"),
}


def format_of(name: str) -> Format:
    """The format of a file by its name.

    Raises:
        ConfigError: files of this kind cannot be imported; the hint says what can be done instead.

    >>> format_of("Report.PDF").name
    'PDF'
    """
    suffix = "." + name.lower().rpartition(".")[2] if "." in name else ""
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        hint = _OTHERS.get(suffix, f"lmm import reads {known}")
        raise ConfigError(f"files of this kind cannot be imported{suffix and f' ({suffix})'}", where=name, hint=hint)
    return FORMATS[suffix]
