"""Split an answer that arrives in pieces into finished blocks, which are verified, rendered and sent once."""

from __future__ import annotations

from lmm.markdown.parse_markdown import unclosed_construct

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


def _is_whole(text: str) -> bool:
    """Return whether a text ends outside of code and formulas."""
    lines = f"\n{text}"
    closed = (lines.count(f"\n{mark}") <= text.count(closer) for mark, closer in _CLOSERS.items())
    return unclosed_construct(text) is None and all(closed)
