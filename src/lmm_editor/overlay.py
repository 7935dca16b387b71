"""What a reply that is still arriving shows in a buffer, apart from what its author wrote: either may change. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmm.disk.diff import hunks
from lmm.errors import Changed
from lmm.pipeline import ParsedDocument, Rewrite
from lmm_editor.buffer import common_prefix


@dataclass(eq=False)
class Overlay:
    """A buffer that shows more than its author wrote: `shown` stands there, without us it would be `author`.

    `sent` is what was sent to the editor and has not been seen in the buffer yet.

    >>> overlay = Overlay("?: why\\n\\nGreen.\\n", "?: why\\n~reply: Be\\n\\nGreen.\\n")
    >>> overlay.typed("?: why\\n~reply: Be\\n\\nGreen leaves.\\n")
    >>> overlay.author
    '?: why\\n\\nGreen leaves.\\n'
    """

    author: str
    shown: str
    sent: str | None = None

    @property
    def line(self) -> int:
        """The line, from 1, where it begins to show something; 0 if it shows nothing."""
        before = common_prefix(self.author, self.shown)
        return self.shown.count("\n", 0, before) + 1 if self.author != self.shown else 0

    def typed(self, now: str) -> None:
        """Take the buffer's new text: somebody typed, or what was sent has arrived, or both.

        Raises:
            Changed: what the reply shows was changed itself.
        """
        possible = [self.shown] if self.sent is None else [self.sent, self.shown]
        for shown in sorted(possible, key=lambda text: _distance(text, now)):
            try:
                self.author = without(self.author, shown, now)
            except Changed as error:
                last = error
            else:
                self.sent = None if shown == self.sent else self.sent
                self.shown = now
                return
        raise last


def _distance(shown: str, now: str) -> int:
    """How many lines differ: of the texts that may have been typed in, it is the nearer one."""
    if shown == now:
        return 0
    changed = hunks(shown.splitlines(keepends=True), now.splitlines(keepends=True))
    return sum(end - start + last - first for start, end, first, last in changed)


def without(author: str, shown: str, now: str) -> str:
    """`now`, which was `shown`, without what `shown` has more than `author`.

    Raises:
        Changed: somebody changed that.
    """
    if now == shown:
        return author
    if author == shown:
        return now
    ours = _line_hunks(author, shown)
    for start, end, text in _typings(shown, now):
        if (place := _place(ours, shown, start, end, text)) is not None:
            return author[: place[0]] + text + author[place[1] :]
    version = ParsedDocument(now)
    return "".join(block.source for block in Rewrite(shown, author)(version).blocks)  # several places at once


def _line_hunks(author: str, shown: str) -> list[tuple[int, int, int, int]]:
    """Which characters of the author's are which of those shown, in whole lines, where they differ."""
    old, new = author.splitlines(keepends=True), shown.splitlines(keepends=True)
    found, a, s, line, line_shown = [], 0, 0, 0, 0
    for first, last, begin, end in hunks(old, new):
        a += sum(map(len, old[line:first]))
        s += sum(map(len, new[line_shown:begin]))
        a_end, s_end = a + sum(map(len, old[first:last])), s + sum(map(len, new[begin:end]))
        found.append((a, a_end, s, s_end))
        a, s, line, line_shown = a_end, s_end, last, end
    return found


def _typings(shown: str, now: str) -> list[tuple[int, int, str]]:
    """The one change from one text to the other, as it could have been made: as far down as possible, and up."""
    before = common_prefix(shown, now)
    after = common_prefix(shown[before:][::-1], now[before:][::-1])
    low = (before, len(shown) - after, now[before : len(now) - after])
    after = common_prefix(shown[::-1], now[::-1])
    before = common_prefix(shown[: len(shown) - after], now[: len(now) - after])
    return [low, (before, len(shown) - after, now[before : len(now) - after])]


def _place(
    ours: Sequence[tuple[int, int, int, int]], shown: str, start: int, end: int, text: str
) -> tuple[int, int] | None:
    """Where in the author's text something was typed; None if that is in ours."""
    shift = 0  # how much further a character stands in what is shown
    for _, a_end, s_start, s_end in ours:
        whole_lines = text.endswith("\n") or (not text and shown[start - 1 : start] in ("", "\n"))
        if end < s_start or (end == s_start and whole_lines):
            break
        if start < s_end:
            return None
        shift = s_end - a_end
    return start - shift, end - shift
