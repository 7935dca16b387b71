"""The numbers of sources in an answer: those that were not offered are taken out and reported.

A citation is ``[2]``, ``[1, 3]`` or ``[1-3]`` in the text; what stands in code or in a formula, and the
text of a link, is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_SAME = r"(?!\n\s*\n|\n {0,3}(?:```|~~~))"  # inline marks close in their own paragraph, before a fence
_SKIPPED = (
    r"(?P<fence>^ {0,3}(?P<marks>```+|~~~+)[^\n]*\n(?:.*?\n)?? {0,3}(?P=marks)[`~]*[ \t]*(?=\n|\Z))"
    r"|(?P<open_fence>^ {0,3}(?:```|~~~).*\Z)"
    rf"|(?P<code>(?<!`)(?P<ticks>`+)(?!`)(?:{_SAME}.)+?(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<display>\$\$(?:{_SAME}.)+?\$\$)"
    rf"|(?P<math>\$(?=[^\s$])(?:{_SAME}[^$])*?(?<=\S)\$(?!\d))"
)
_CITATION = r"(?P<space>[ \t]*)\[(?P<numbers>\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\](?!\()"
_TOKEN = re.compile(f"{_SKIPPED}|{_CITATION}", re.MULTILINE | re.DOTALL)
# The end of a text that may still become a citation, or whose next character decides whether it is one.
_UNDECIDED = re.compile(r"[ \t]*(?:\[[\d\s,;–-]*\]?)?\Z")
_BLANK_LINE = re.compile(r"\n\s*\n")
_SPECIAL = re.compile(r"[\[`$~]")  # without one of these, a text is plain
_OPENER = re.compile(r"`+|\$|~+")


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
    cited: dict[int, None] = {}
    removed: dict[int, None] = {}

    def replacement(match: re.Match[str]) -> str:
        if match["numbers"] is None:
            return match[0]
        numbers = _expanded(match["numbers"])
        kept = [n for n in numbers if n in offered]
        cited.update(dict.fromkeys(kept))
        removed.update(dict.fromkeys(n for n in numbers if n not in offered))
        if len(kept) == len(numbers):
            return match[0]
        return f"{match['space']}[{', '.join(map(str, kept))}]" if kept else ""

    return Cleaned(_TOKEN.sub(replacement, text), tuple(cited), tuple(removed))


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


def decided(text: str) -> int:
    """How much of the beginning of a text reads the same whatever follows it.

    >>> decided("They are green [1"), decided("They are `gre"), decided("They are green, ")
    (14, 9, 15)
    """
    undecided = _UNDECIDED.search(text)
    end = undecided.start() if undecided else len(text)
    paragraph = max((match.end() for match in _BLANK_LINE.finditer(text)), default=0)
    spans = [match.span() for match in _TOKEN.finditer(text) if match["numbers"] is None]
    for match in _OPENER.finditer(text, paragraph):
        inside = next(((start, stop) for start, stop in spans if start <= match.start() < stop), None)
        # Closed for certain only if something follows that could not prolong the closing mark.
        if inside is None or (inside[1] == len(text) and text[inside[0] : inside[0] + 3] not in ("```", "~~~")):
            return min(end, match.start() if inside is None else inside[0])
    fence = next((start for start, stop in spans if stop == len(text)), None)
    return end if fence is None else min(end, text.rfind("\n", 0, len(text)) + 1 if "\n" in text[fence:] else fence)


@dataclass(slots=True)
class CitationStream:
    """Cleans an answer while it arrives: what `feed` and `finish` return is the cleaned text, piece by piece.

    Paragraphs that are over are not looked at again, so that a long answer costs no more a piece than a short one.
    """

    offered: Collection[int]
    _raw: list[str] = field(default_factory=list)
    _open: str = ""  # the end of the text, from the last place on that nothing reaches over
    _sent: int = 0  # characters of what `_open` is cleaned to

    def feed(self, piece: str) -> str:
        """The part of the cleaned text that is certain now and was not given yet."""
        self._raw.append(piece)
        self._open += piece
        if _SPECIAL.search(self._open) is None:  # plain words: certain but for blanks, which may precede a citation
            certain = self._open.rstrip(" \t")
            rest = self._rest(certain)
            self._forget(len(certain), len(certain), ())
            return rest
        end = decided(self._open)
        cleaned = clean(self._open[:end], self.offered).text
        rest = self._rest(cleaned)
        self._forget(end, 0, [match.span() for match in _TOKEN.finditer(self._open)])
        return rest

    def finish(self) -> tuple[str, Cleaned]:
        """The rest, and the whole."""
        return self._rest(clean(self._open, self.offered).text), clean("".join(self._raw), self.offered)

    def _rest(self, cleaned: str) -> str:
        rest = cleaned[self._sent :]
        self._sent = max(self._sent, len(cleaned))
        return rest

    def _forget(self, certain: int, plain: int, spans: Collection[tuple[int, int]]) -> None:
        """Drop what ends with a blank line that is certain, and in nothing that goes on."""
        for match in reversed([*_BLANK_LINE.finditer(self._open, 0, certain)]):
            place = match.end()
            if not any(start < place and (place < stop or stop == len(self._open)) for start, stop in spans):
                before = place if plain else len(clean(self._open[:place], self.offered).text)
                self._open, self._sent = self._open[place:], self._sent - before
                return
