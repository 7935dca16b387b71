"""Vignettes of R packages, PDF files that LaTeX made, to markdown: their headings, code, tables and words.

The files are those that R and its packages have on this machine; `R_LIBS` names more libraries, as for R itself.
Without any there is nothing to measure. True are the headings of the outline, or of the source that lies beside the
file, the tables of the source, and the lines behind R's prompt and all words that PDFium sees.
``python -m benchmarks.vignettes`` shows each file.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.measure import Row

_LIBRARIES = ("/usr/lib/R/library", "/usr/lib/R/site-library", "/usr/local/lib/R/site-library")
_PROMPT = re.compile(r"^ ?> ?\S", re.MULTILINE)
_LIGATURES = dict(zip(range(0x1B, 0x20), ("ff", "fi", "fl", "ffi", "ffl"), strict=True))  # as LaTeX's fonts have them
_FENCE = re.compile(r"^(`{3,})[^\n`]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^\|(?: ?:?-+:? ?\|)+$", re.MULTILINE)
_SOURCE_TABLE = re.compile(r"\\begin\{(?:tabular|longtable|array)|xtable\(|kable\(")
_SOURCE_HEADING = re.compile(r"^[^%\n]*\\(?:chapter|(?:sub)*section)\*?\s*\{((?:[^{}]|\{[^{}]*\})*)\}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Counts:
    """What is true of files, and what their import has of it."""

    headings: int = 0
    found: int = 0
    more: int = 0  # headings that are none
    prompts: int = 0
    fenced: int = 0
    tables: int = 0  # of files whose source is here
    made: int = 0
    words: int = 0
    missing: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.found} of {self.headings} headings and {self.more} others, {self.fenced} of {self.prompts} lines "
            f"with a prompt in fences, {self.made} tables where the sources have {self.tables}, "
            f"{self.missing:,} of {self.words:,} words not whole"
        )


def rows() -> list[Row]:
    """One row for all files that are here."""
    start = time.perf_counter()
    counts = [measure(file) for file in vignettes()]
    if not counts:
        return []
    took = (time.perf_counter() - start) / len(counts)
    return [Row(f"{len(counts)} vignettes of R packages (PDF)", ours=f"{sum(counts, Counts())}, {took:.1f} s each")]


def vignettes() -> list[Path]:
    """The vignettes on this machine that have text; figures lie beside them."""
    libraries = [*filter(None, os.environ.get("R_LIBS", "").split(os.pathsep)), *_LIBRARIES]
    found = {file.resolve() for library in libraries for file in Path(library).glob("*/doc/*.pdf")}
    return sorted(file for file in found if len(_plain(file)) > 1_000)


def measure(file: Path) -> Counts:
    """The counts of one file."""
    from lmm.importing.imported import Context
    from lmm.importing.read_pdf import read

    markdown = read(file.read_bytes(), Context(file.name)).body
    plain, source = _plain(file), _source(file)
    titles = Counter(_outline(file) or map(_letters, _SOURCE_HEADING.findall(source)))
    code = [match[2] for match in _FENCE.finditer(markdown)]
    prose = _FENCE.sub("", markdown)
    ours = Counter(_letters(title) for title in re.findall(r"^#{1,6} (.+)", prose, re.MULTILINE))
    words = _words(plain)
    return Counts(
        headings=titles.total(),
        found=(titles & ours).total(),
        more=(ours - titles).total() if titles else 0,
        prompts=len(_PROMPT.findall(plain)),
        fenced=sum(len(_PROMPT.findall(block)) for block in code),
        tables=len(_SOURCE_TABLE.findall(source)),
        made=len(_TABLE.findall(prose)) if source else 0,
        words=words.total(),
        missing=(words - _words(markdown)).total(),
    )


def _source(file: Path) -> str:
    source = file.with_suffix(".Rnw")
    return source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""


def _outline(file: Path) -> list[str]:
    import pypdfium2 as pdfium

    with pdfium.PdfDocument(file) as document:
        return [title for entry in document.get_toc() if (title := _letters(entry.get_title()))]


def _plain(file: Path) -> str:
    import pypdfium2 as pdfium

    with pdfium.PdfDocument(file) as document:
        texts = [page.get_textpage().get_text_range() for page in document]
    return "\n".join(texts).replace("\r", "").translate(_LIGATURES)


def _letters(title: str) -> str:
    """A title by its letters, without its number and TeX's commands."""
    title = re.sub(r"\\[a-zA-Z]+\*?|\$", "", title)
    return "".join(re.findall(r"[^\W\d_]", re.sub(r"^(?:[A-Z]|\d+)(?:\.\d+)*\.?\s", "", title))).lower()


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W\d_]{3,}", text))


if __name__ == "__main__":
    for each in vignettes():
        print(f"{each.parents[1].name}/{each.name}: {measure(each)}", flush=True)
    print(rows())
