"""The numbers of sources in an answer: those that were not offered are taken out and reported.

A citation is ``[2]``, ``[1, 3]`` or ``[1-3]`` in the text; what stands in code or in a formula, and the
text of a link, is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from lmm.markdown.inline import BLANK_LINES

_SAME = r"(?!\n\s*\n|\n {0,3}(?:```|~~~))"  # inline marks close in their own paragraph, before a fence
_SKIPPED = (
    r"(?P<fence>^ {0,3}(?P<marks>```++|~~~++)[^\n]*\n(?:.*?\n)?? {0,3}(?P=marks)[`~]*[ \t]*(?=\n|\Z))"
    r"|(?P<open_fence>^ {0,3}(?:```|~~~).*\Z)"
    rf"|(?P<code>(?<!`)(?P<ticks>`+)(?!`)(?:{_SAME}.)+?(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<display>\$\$(?:{_SAME}.)+?\$\$)"
    rf"|(?P<math>\$(?=[^\s$])(?:{_SAME}[^$])*?(?<=\S)\$(?!\d))"
)
_CITATION = r"(?P<space>(?<![ \t])[ \t]+)?\[(?P<numbers>\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\](?!\()"
_TOKEN = re.compile(f"{_SKIPPED}|{_CITATION}", re.MULTILINE | re.DOTALL)
# What may still become a citation, or whose next character decides whether it is one.
_BEGUN = re.compile(r"\[[\d\s,;–-]*\]?\Z")
_SPECIAL = frozenset("[`$~")  # without one of these, a text is plain
_OPENER = re.compile(r"`+|\$|~+")
_FENCE = re.compile(r" {0,3}(```++|~~~++)[^\n]*\n")
_LOOKS = 16  # an end that stays undecided is looked at again when it has grown by this part of its length


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text, the numbers that it cites in the order of first use, and those that were taken out."""

    text: str
    cited: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def clean(text: str, offered: Collection[int]) -> Cleaned:
    """`text` without the citations of sources that were not offered.

    >>> clean("Leaves are green [1, 7]. They fall [9]. In R, `x[9]` is the ninth.", {1, 2})
    Cleaned(text='Leaves are green [1]. They fall. In R, `x[9]` is the ninth.', cited=(1,), removed=(7, 9))
    """
    return _cleaned(text, 0, len(text), offered)


def citations(text: str) -> list[tuple[int, int, list[int]]]:
    """Where a text cites: from where to where, and which sources.

    >>> citations("Green [1, 3]. `x[9]`")
    [(6, 12, [1, 3])]
    """
    found = (match for match in _TOKEN.finditer(text) if match["numbers"] is not None)
    return [(m.start() + len(m["space"] or ""), m.end(), _expanded(m["numbers"])) for m in found]


def _cleaned(text: str, start: int, end: int, offered: Collection[int]) -> Cleaned:
    """The same for a part of a text; what stands before it may be looked at."""
    cited: dict[int, None] = {}
    removed: dict[int, None] = {}
    parts, at = list[str](), start
    for match in _TOKEN.finditer(text, start, end):
        if match["numbers"] is None:
            continue
        numbers = _expanded(match["numbers"])
        kept = [n for n in numbers if n in offered]
        cited.update(dict.fromkeys(kept))
        removed.update(dict.fromkeys(n for n in numbers if n not in offered))
        if len(kept) < len(numbers):
            instead = f"{match['space'] or ''}[{', '.join(map(str, kept))}]" if kept else ""
            parts += [text[at : match.start()], instead]
            at = match.end()
    return Cleaned("".join([*parts, text[at:end]]), tuple(cited), tuple(removed))


def _expanded(numbers: str) -> list[int]:
    """The numbers meant by ``1, 3-5``; a range that runs backwards or too far is its two ends.

    >>> _expanded("1, 3-5"), _expanded("1-2000")
    ([1, 3, 4, 5], [1, 2000])
    """
    found: list[int] = []
    for part in re.split(r"[,;]", numbers):
        ends = [int(n) for n in re.split(r"[–-]", part)]
        close = len(ends) == 2 and 0 <= ends[1] - ends[0] <= 20
        found += range(ends[0], ends[1] + 1) if close else ends
    return list(dict.fromkeys(found))


def decided(text: str, start: int = 0) -> int:
    """Where the part of a text ends, from `start` on, that reads the same whatever follows it.

    >>> decided("They are green [1"), decided("They are `gre"), decided("They are green, ")
    (14, 8, 15)
    """
    bracket = text.rfind("[", start)
    end = bracket if bracket >= 0 and _BEGUN.match(text, bracket) else len(text)
    # Blanks belong to the citation or to the fence that may follow.
    return start + len(text[start : min(end, _open_mark(text, start))].rstrip(" \t"))


def _open_mark(text: str, start: int) -> int:
    """Where code, a formula or a fence begins that may go on, or may be none."""
    spans = [match.span() for match in _TOKEN.finditer(text, start) if match["numbers"] is None]
    paragraph = max((match.end() for match in BLANK_LINES.finditer(text, start)), default=start)
    around = 0  # the first span that ends behind the opener
    for match in _OPENER.finditer(text, paragraph):
        while around < len(spans) and spans[around][1] <= match.start():
            around += 1
        inside = spans[around] if around < len(spans) and spans[around][0] <= match.start() else None
        # Closed for certain only if something follows that could not prolong the closing mark.
        if inside is None or inside[1] == len(text):
            return match.start() if inside is None else inside[0]
    return spans[-1][0] if spans and spans[-1][1] == len(text) else len(text)


@dataclass(slots=True)
class CitationStream:
    """Cleans an answer while it arrives: what `feed` and `finish` return is the cleaned text, piece by piece.

    What is certain is not looked at again, and what is not, less often the longer it becomes: the work for a text
    grows with its length, however it is written and cut into pieces.
    """

    offered: Collection[int]
    _raw: list[str] = field(default_factory=list)
    _open: str = "\n"  # what was not given yet, behind the character before it
    _looked: int = 0  # how long that was when it was last looked at
    _fence: str = ""  # the marks of the fence that it stands in

    def feed(self, piece: str) -> str:
        """The part of the cleaned text that is certain now and was not given yet."""
        self._raw.append(piece)
        self._open += piece
        if len(self._open) - self._looked < self._looked // _LOOKS:
            return ""
        given = []
        while text := self._lines_of_code() if self._fence else self._certain():
            given.append(text)
        self._looked = len(self._open)
        return "".join(given)

    def finish(self) -> tuple[str, Cleaned]:
        """The rest, and the whole."""
        rest = self._open[1:] if self._fence else _cleaned(self._open, 1, len(self._open), self.offered).text
        return rest, clean("".join(self._raw), self.offered)

    def _certain(self) -> str:
        """What is certain of text that stands in no fence; with the first line of the fence that follows it."""
        if _SPECIAL.isdisjoint(self._open[1:]):  # plain words, but for blanks, which may precede a citation
            return self._given(len(self._open.rstrip(" \t")))
        end = decided(self._open, 1)
        cleaned = _cleaned(self._open, 1, end, self.offered).text
        fence = _FENCE.match(self._open, end) if self._open[end - 1] == "\n" else None
        self._fence = fence[1] if fence else ""
        opening = fence[0] if fence else ""
        self._given(end + len(opening))
        return cleaned + opening

    def _lines_of_code(self) -> str:
        """The whole lines of code, to the one that closes it."""
        last = self._open.rfind("\n", 1) + 1
        closing = re.compile(rf"^ {{0,3}}{self._fence}[`~]*[ \t]*\n", re.MULTILINE).search(self._open, 1, max(last, 1))
        if closing is None:
            return self._given(last)
        self._fence = ""
        return self._given(closing.end() - 1)

    def _given(self, end: int) -> str:
        """Give the open text up to there as it is."""
        end = max(end, 1)
        given, self._open = self._open[1:end], self._open[end - 1 :]
        return given
