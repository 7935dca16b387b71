"""The table of file formats that can be imported: what reads each, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from lmm.errors import ConfigError

EXTRA = "pip install 'lmmarkdown[import]'"


@dataclass(frozen=True, slots=True)
class Format:
    """One row: `module` has a function ``read(data, context)``; `needs` are the packages that it imports.

    `reader` is Pandoc's name of the format, where Pandoc reads it.
    """

    name: str
    module: str
    needs: tuple[str, ...]
    most: int  # bytes
    help: str
    reader: str = ""


def _by_pandoc(name: str, reader: str, help: str) -> Format:
    return Format(name=name, module="lmm.importing.pandoc", needs=(), most=200_000_000, help=help, reader=reader)


_HTML = Format("HTML", "lmm.importing.read_html", ("selectolax",), 40_000_000, "web pages that were saved")
_EPUB = Format("EPUB", "lmm.importing.read_epub", ("selectolax",), 500_000_000, "books without copy protection")
_PDF = Format(
    "PDF", "lmm.importing.read_pdf", ("pypdfium2",), 1_000_000_000, "with text in it, not only pictures of it"
)
_NOTEBOOK = Format("Jupyter", "lmm.importing.read_notebook", ("selectolax",), 200_000_000, "notebooks; no code is run")

FORMATS: dict[str, Format] = {
    ".pdf": _PDF,
    ".docx": _by_pandoc("Word", "docx", "Word since 2007"),
    ".pptx": _by_pandoc("PowerPoint", "pptx", "slides as sections, with their notes"),
    ".xlsx": _by_pandoc("Excel", "xlsx", "a table of each sheet"),
    ".odt": _by_pandoc("OpenDocument", "odt", "LibreOffice Writer"),
    ".rtf": _by_pandoc("RTF", "rtf", "of any word processor"),
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    ".ipynb": _NOTEBOOK,
    ".epub": _EPUB,
    **dict.fromkeys((".tex", ".latex"), _by_pandoc("LaTeX", "latex", "without what it includes")),
    ".org": _by_pandoc("Org", "org", "Emacs"),
    ".rst": _by_pandoc("reStructuredText", "rst", "Sphinx"),
    **dict.fromkeys((".adoc", ".asciidoc"), _by_pandoc("AsciiDoc", "asciidoc", "without what it includes")),
    **dict.fromkeys((".wiki", ".mediawiki"), _by_pandoc("MediaWiki", "mediawiki", "the source of a page")),
    **dict.fromkeys((".dbk", ".docbook"), _by_pandoc("DocBook", "docbook", "XML")),
}
# What to do with files that people try all the same.
_OTHERS = {
    **dict.fromkeys((".doc", ".pages"), "open it in a word processor and save it as .docx"),
    **dict.fromkeys((".ppt", ".odp", ".key"), "save it as .pptx, or export it as PDF"),
    **dict.fromkeys((".xls", ".ods", ".numbers"), "save it as .xlsx"),
    **dict.fromkeys(
        (".png", ".jpg", ".jpeg", ".tif", ".tiff"), "recognise its text: ocrmypdf --image-dpi 300 IN OUT.pdf"
    ),
    **dict.fromkeys((".md", ".markdown", ".rmd", ".qmd"), "it is markdown already: lmm scan or lmm ingest take it"),
    **dict.fromkeys((".textile", ".typ", ".fb2", ".xml"), "Pandoc can: pandoc IN -t markdown -o OUT.md"),
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
