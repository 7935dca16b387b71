"""Split an answer that arrives in pieces into finished blocks, which are verified, rendered and sent once."""

from __future__ import annotations

import re

from lmm.markdown.parse_markdown import unclosed_construct

_FENCE, _ITEM = re.compile(r" {0,3}(?:```|~~~)"), re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_CLOSERS = {"\\[": "\\]", "\\begin{": "\\end{"}


class BlockStream:
    """Splits a text that arrives in pieces wherever a block has certainly ended.

    >>> stream = BlockStream()
    >>> stream.feed("One.\\n\\nTw"), stream.feed("o."), stream.rest
    ('One.\\n\\n', '', 'Two.')
    """

    def __init__(self) -> None:
        self.rest = ""
        self._read = 0  # up to here, `rest` was searched for the end of a block

    def feed(self, piece: str) -> str:
        """Add a piece; return the blocks that it completes, or nothing."""
        self.rest += piece
        end = self.rest.rfind("\n\n", self._read) + 2
        if end < 2:
            return ""
        if not _is_whole(self.rest[:end]):
            self._read = end + end // 16  # a long block is not checked again after every line
            return ""
        ended, self.rest, self._read = self.rest[:end], self.rest[end:], 0
        return ended


def finished_part(text: str) -> str:
    """Return what is finished of a block that is not: whole lines of code, whole items of a list.

    >>> finished_part("```r\\nx <- 1\\ny <-"), finished_part("- One\\n- Two\\n- Th"), finished_part("Two\\nlines")
    ('```r\\nx <- 1\\n', '- One\\n- Two\\n', '')
    """
    if _FENCE.match(text):
        return text[: text.rfind("\n") + 1] if unclosed_construct(text) else ""
    *_, last = [match.start() for match in _ITEM.finditer(text)] if _ITEM.match(text) else [0]
    return text[:last] if last and not unclosed_construct(text[:last]) else ""


def _is_whole(text: str) -> bool:
    """Return whether a text ends outside of code and formulas."""
    lines = f"\n{text}"
    closed = (lines.count(f"\n{mark}") <= text.count(closer) for mark, closer in _CLOSERS.items())
    return unclosed_construct(text) is None and all(closed)
