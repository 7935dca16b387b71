"""Markdown that arrives piece by piece: what of it is final and can be printed, and what may still change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markdown_it.tree import SyntaxTreeNode

from chatmd.terminal.markdown_lines import first_number, markdown_lines, top_nodes
from chatmd.terminal.styled import Line, clean

_LONG = 2000  # characters
_LISTS = ("bullet_list", "ordered_list")


class _Cut(NamedTuple):
    """A line where a text can be parted, whether a blank line belongs there, and the number of the item that begins."""

    line: int
    gap: bool
    number: int | None = None


@dataclass(slots=True)
class Arriving:
    r"""A text that grows. Blocks, and items of lists, are final once the next one has begun.

    >>> text = Arriving()
    >>> text.feed("# Leaves\n\nThey are\ngr")
    >>> text.final(40), text.rest(40)
    ([(Span(text='# ', style='bold'), Span(text='Leaves', style='bold underline'))], [(), (Span(text='They are gr', style=''),)])
    """  # noqa: E501

    text: str = ""  # what is not final yet
    gap: bool = False  # whether a blank line belongs before it
    number: int | None = None  # of the item that it begins with
    shown: int = 0  # so many of its lines have been printed: it is longer than the screen
    begun: bool = False
    _seen: int = 0  # where the last look for blocks ended
    _measured: int = 0  # how long it was when its lines were counted
    _cache: tuple[tuple[str, int, int | None], list[Line]] = field(default=(("", 0, None), []))

    def feed(self, piece: str) -> None:
        """More of it."""
        self.text += piece
        self.begun = self.begun or bool(piece.strip())

    def final(self, width: int, room: int = 1000) -> list[Line]:
        """The lines that have become final, each once; at most about `room` lines are left to `rest`."""
        lines: list[Line] = []
        whole = self.text.rfind("\n") + 1  # a line that is not complete may turn out to be anything
        if whole - self._seen > self._step:
            self._seen = whole
            source = self.text.split("\n")
            if (cut := _last_cut(top_nodes(clean(self.text[:whole])), source, self.number)) is not None:
                lines += self._part("\n".join(source[: cut.line]), width)
                self._begin("\n".join(source[cut.line :]), cut.gap, cut.number)
        if len(self.text) - self._measured > max(width, self._step):
            self._measured = len(self.text)
            lines += self._overflow(width, room)
        return lines

    def rest(self, width: int) -> list[Line]:
        """What else there is to be seen, as it looks now, or looked a moment ago."""
        source = self._cache[0][0]
        recent = self.text.startswith(source) and len(self.text) - len(source) <= self._step
        return self._part(source if recent else self.text, width)

    @property
    def _step(self) -> int:
        """So many characters may come before a text is looked at again: else a long block would take for ever."""
        return len(self.text) // 30 if len(self.text) > _LONG else 0

    def end(self, width: int) -> list[Line]:
        """The rest, which is final now; then begins another text."""
        lines = self._part(self.text, width)
        self._begin("", False)
        self.begun = False
        return lines

    def _begin(self, text: str, gap: bool, number: int | None = None) -> None:
        self.text, self.gap, self.number, self.shown, self._seen = text, gap, number, 0, text.rfind("\n") + 1
        self._measured = 0

    def _part(self, source: str, width: int) -> list[Line]:
        key = (source, width, self.number)
        if self._cache[0] != key:
            self._cache = (key, markdown_lines(clean(source), width, self.number))
        lines = self._cache[1][self.shown :]
        return [(), *lines] if self.gap and lines and not self.shown else lines

    def _overflow(self, width: int, room: int) -> list[Line]:
        """Lines of a block that is longer than the screen: those that will hardly change."""
        lines = self._part(self.text, width)
        if len(lines) <= room:
            return []
        nodes = top_nodes(clean(self.text))
        if nodes[-1].type == "table":  # its columns may become wider: it is printed when it ends
            return []
        if len(nodes) == 1 and (start := _open_fence(nodes[0])) is not None:
            return self._code_so_far(start, width)
        keep = max(2, room // 2)
        ready = lines[: len(lines) - keep]
        self.shown += len(ready) - (1 if self.gap and not self.shown else 0)
        return ready

    def _code_so_far(self, start: int, width: int) -> list[Line]:
        """The complete lines of code; what follows goes on as a block of its own."""
        fence, *code = self.text.split("\n")[start:]
        lines = self._part("\n".join((fence, *code[:-1])), width)
        self._begin(f"{fence}\n{code[-1]}", False)
        return lines


def _open_fence(node: SyntaxTreeNode) -> int | None:
    """The line where a block of code begins that has not ended."""
    if node.type != "fence" or node.map is None:
        return None
    return node.map[0] if node.map[1] - node.map[0] == node.content.count("\n") + 1 else None


def _last_cut(nodes: list[SyntaxTreeNode], source: Sequence[str], number: int | None) -> _Cut | None:
    """Where the last block begins, or the last item of a list, if something stands before it."""
    if not nodes or nodes[-1].map is None:
        return None
    last = nodes[-1]
    if last.type in _LISTS and len(last.children) > 1 and (place := last.children[-1].map):
        first = number if number is not None and len(nodes) == 1 else first_number(last)
        return _Cut(place[0], not source[place[0] - 1].strip(), first + len(last.children) - 1)
    return _Cut(nodes[-1].map[0], gap=True) if len(nodes) > 1 else None
