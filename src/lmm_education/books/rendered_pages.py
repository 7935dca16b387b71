"""What code showed in rendered pages: Quarto's, bookdown's and R Markdown's HTML.

Code in a page is known by its text alone, so that neither names of pages nor labels have to be guessed.
"""

from __future__ import annotations

import html.parser
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.markdown.blocks import fenced

_MOST_OF_A_PAGE = 5_000_000  # bytes of a page
_MOST_PAGES = 500
_MOST_PIECES = 20  # that knitr makes of the code of one cell
_OUTPUT = re.compile(r"##(?: |$)", re.MULTILINE)
_SILENT = ("summary", "button", "script", "style")
Piece = tuple[str, str]  # code, or a part of it, and what that showed
_State = tuple[int, int]


def unambiguous(shown: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What was shown for each code; of code that showed two things, nothing is known."""
    found: dict[str, str] = {}
    doubtful = set[str]()
    for code, text in shown:
        if found.setdefault(code, text) != text:
            doubtful.add(code)
    return {code: text for code, text in found.items() if code not in doubtful}


def in_pages(top: Path, names: Iterable[str], since: int, codes: Mapping[str, str]) -> Mapping[str, str]:
    """What code, whose language is known, showed in pages that are not older than a time (`st_mtime_ns`).

    It is markdown, with the code. Of code that showed two things, nothing is known.
    """
    wanted = {_lines(code): code for code in codes if code.strip()}
    runs = _runs(top, names, since) if wanted else ()
    found = ((wanted[lines], pieces) for run in runs for lines, pieces in _in_run(run, wanted))
    return unambiguous((code, "\n\n".join(_shown(*piece, codes[code]) for piece in pieces)) for code, pieces in found)


def _runs(top: Path, names: Iterable[str], since: int) -> Iterator[tuple[Piece, ...]]:
    for name in list(names)[:_MOST_PAGES]:
        try:
            found = Folder(top).stat(name)
            if found is not None and found.st_mtime_ns >= since:
                yield from _runs_of(top, name, (found.st_mtime_ns, found.st_size))
        except LmmError:
            continue


def _in_run(run: tuple[Piece, ...], wanted: Collection[str]) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """The code of cells that showed something, among pieces that follow each other, and the pieces of each."""
    at = 0
    while at < len(run):
        joined = accumulate((_lines(code) for code, _ in run[at : at + _MOST_PIECES]), lambda a, b: f"{a}\n{b}")
        size, lines = next(((n, lines) for n, lines in enumerate(joined, 1) if lines in wanted), (1, ""))
        pieces = run[at : at + size]
        if lines and any(shown for _, shown in pieces):
            yield lines, pieces
        at += size


def _shown(code: str, shown: str, language: str) -> str:
    return f"{fenced(code, language)}\n\n{fenced(shown)}" if shown else fenced(code, language)


def _lines(code: str) -> str:
    """Code without what knitr leaves out where it cuts it: lines without anything, blanks at the end of others."""
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


@lru_cache(maxsize=_MOST_PAGES)
def _runs_of(top: Path, name: str, state: _State) -> tuple[tuple[Piece, ...], ...]:
    page = _Page()
    page.feed(Folder(top).read(name, most=_MOST_OF_A_PAGE).decode("utf-8", "replace"))
    return tuple(map(tuple, filter(None, page.runs)))


class _Page(html.parser.HTMLParser):
    """Code and what it showed, in `runs` between which something else stands."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[Piece]] = [[]]
        self._divs: list[bool] = []  # for each that is open: is it what a cell of Quarto showed?
        self._silent = 0
        self._pre: list[str] | None = None
        self._is_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "div":
            self._divs.append(any(name.startswith("cell-output") for name in classes))
        elif tag == "pre":
            self._pre, self._is_code = [], bool(classes)
        elif tag in _SILENT:
            self._silent += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._divs:
            self._divs.pop()
        elif tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "pre" and self._pre is not None:
            text, self._pre = "".join(self._pre).strip("\n"), None
            self._take(text)

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._pre is not None:
            self._pre.append(data)
        elif data.strip() and not any(self._divs):
            self.runs.append([])

    def _take(self, text: str) -> None:
        run = self.runs[-1]
        if self._is_code and not any(self._divs):
            run.append((text, ""))
        elif run and (any(self._divs) or _OUTPUT.match(text)):
            code, shown = run.pop()
            run.append((code, f"{shown}\n{text}".strip("\n")))
        else:
            self.runs.append([])
