"""Marks for the pages, slides and minutes of an original from which a document was imported.

A mark is an HTML comment of its own, ``<!-- p. 7 -->``, before the first text of a page, or directly below the heading
that begins it. Pandoc, knitr and Quarto show no comments, and formatters keep them where they are (mdformat deletes a
link definition, a span becomes an empty paragraph). What runs over two pages has one mark, ``<!-- p. 6–7 -->``, so that
no mark cuts a paragraph, a list or a table.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple, Self

from lmm.markdown.blocks import Block, HeadingBlock, TextBlock

_TIME = r"(?:\d{1,3}:)?\d{1,3}:\d\d"
_NAME = rf"(?:(?:p\.|slide) \d{{1,5}}(?:–\d{{1,5}})?|{_TIME}(?:–{_TIME})?)"
PAGE_MARK = re.compile(rf" {{0,3}}<!-- (?P<name>{_NAME}) -->[ \t]*(?=\r?\n|\Z)")
"""A mark, at the beginning of a block."""


class Pages(NamedTuple):
    """A range of an original: `unit` is ``p.``, ``slide``, or empty for seconds.

    >>> str(Pages("p.", 7, 7)), str(Pages("slide", 2, 3)), str(Pages("", 754, 3723))
    ('p. 7', 'slide 2–3', '12:34–1:02:03')
    """

    unit: str
    first: int
    last: int

    @classmethod
    def read(cls, name: str) -> Self:
        """Return the range with this name.

        >>> Pages.read("p. 6–7"), Pages.read("1:02:03")
        (Pages(unit='p.', first=6, last=7), Pages(unit='', first=3723, last=3723))
        """
        unit, _, numbers = name.rpartition(" ")
        first, _, last = numbers.partition("–")
        return cls(unit, _number(first), _number(last or first))

    @property
    def mark(self) -> str:
        """The comment that marks it."""
        return f"<!-- {self} -->"

    def __str__(self) -> str:
        names = dict.fromkeys(str(each) if self.unit else _time(each) for each in (self.first, self.last))
        return f"{self.unit} {'–'.join(names)}".lstrip()


def _number(name: str) -> int:
    return reduce(lambda number, part: number * 60 + int(part), name.split(":"), 0)


def _time(seconds: int) -> str:
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def page_marks(blocks: Iterable[Block]) -> tuple[tuple[int, Pages], ...]:
    """Return the marks of a document, each with the first line that it applies to.

    >>> from lmm.markdown import parse_markdown_text
    >>> page_marks(parse_markdown_text("# A\\n\\n<!-- p. 7 -->\\n\\none\\n\\n<!-- p. 8 -->\\n\\ntwo\\n"))
    ((1, Pages(unit='p.', first=7, last=7)), (7, Pages(unit='p.', first=8, last=8)))
    """
    found, before = list[tuple[int, Pages]](), None
    for block in blocks:
        if isinstance(block, TextBlock) and (mark := PAGE_MARK.match(block.content)):
            found.append((before.line if isinstance(before, HeadingBlock) else block.line, Pages.read(mark["name"])))
        before = block
    return tuple(found)


def pages_of(first: int, last: int, marks: Sequence[tuple[int, Pages]]) -> Pages | None:
    """Return the pages that the lines from `first` to `last` come from, None above the first mark.

    >>> marks = [(3, Pages("p.", 6, 7)), (9, Pages("p.", 7, 7)), (12, Pages("p.", 8, 8))]
    >>> [str(pages_of(*lines, marks)) for lines in ((1, 2), (5, 5), (10, 11), (1, 12), (5, 99))]
    ['None', 'p. 6–7', 'p. 7', 'p. 6–8', 'p. 6–8']
    """
    begin, end = (bisect_right(marks, line, key=lambda mark: mark[0]) for line in (first, last))
    around = [pages for _, pages in marks[max(begin - 1, 0) : end]]
    same = [pages for pages in around if pages.unit == around[0].unit]
    return Pages(around[0].unit, min(p.first for p in same), max(p.last for p in same)) if around else None
