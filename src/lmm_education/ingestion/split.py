"""Split a text that is too large by itself: between rows, lines, items or sentences, if need be words.

A table repeats its header in each part, code its fence line and an equation its ``$$``, so that each part is
valid markdown. Where to split is chosen as for paragraphs, so that a new row does not move all later parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from semantic_text_splitter import TextSplitter

from lmm_education.ingestion.kinds import ITEM, Kind, kind_of
from lmm_education.ingestion.packing import Limits, cut, key_of

_LINE = re.compile(r"[^\n]*(?:\n+|\Z)")
_ITEM_START = re.compile(rf"(?<=\n) {{0,1}}(?={ITEM})")
_CLOSERS = r"[*_)\"'”’»\]]*"
_ABBREVIATED = (
    *("e.g", "i.e", "cf", "vs", "etc", "Fig", "Figs", "Eq", "Tab", "Sec", "Dr", "Mr", "Mrs", "Ms", "Prof", "No"),
    *("z.B", "d.h", "u.a", "vgl", "bzw", "ca", "Nr", "Abb"),
)
_NOT_ABBREVIATED = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in _ABBREVIATED)
_SENTENCE_END = re.compile(rf"(?<=[.!?…]){_NOT_ABBREVIATED}{_CLOSERS}\s+(?:>[ \t]*)*(?=\S)(?![a-z])|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
# The splitter's time grows faster than the text (an image in base64 is one word of a megabyte).
_WINDOW = 20
_TABLE_HEAD = re.compile(r"[^\n]*\n[^\n]*(?=\n)")
_FENCE = re.compile(r"(?P<head>[^\n]*)\n.*\n(?P<foot>[^\n]*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a text: `text` is ``source[start:end]``, with what is repeated before and after it.

    `repeated` counts the lines that are repeated before it.
    """

    start: int
    end: int
    text: str
    repeated: int = 0


Ranges = Iterator[tuple[int, int]]
Finder = Callable[[str], Ranges]


def split(text: str, limits: Limits) -> list[Slice]:
    """The parts of a text, in order, none larger than `limits.high`; between them is only white space.

    >>> rows = "\\n".join(f"| {n} | {n * n} |" for n in range(40))
    >>> [part.text[:16] for part in split(f"| n | nn |\\n|---|----|\\n{rows}", Limits(100, 300))][1]
    '| n | nn |\\n|---|'
    """
    if limits.measure(text) <= limits.high:
        return [Slice(0, len(text), text)]
    kind = kind_of(text)
    head, foot = _frame(kind, text)
    room = limits.high - sum(limits.measure(part) + limits.joint for part in (head, foot) if part)
    if room < limits.high // 2:  # nothing worth repeating fits
        head, foot, room = "", "", limits.high
    start, end = len(head), len(text) - len(foot)
    inner = replace(limits, low=min(limits.low, room // 2), high=room)
    parts = [(start + a, start + b) for a, b in _parts(text[start:end], _FINDERS[kind], inner)]
    return _framed(text, parts, head, foot)


def _frame(kind: Kind, text: str) -> tuple[str, str]:
    """What stands at the start and the end of each part."""
    if kind == "table":
        head = _TABLE_HEAD.match(text)
        return (head[0], "") if head else ("", "")
    if kind == "equation" and text.startswith("$$"):
        return "$$", text[text.rindex("$$") :]
    fence = _FENCE.match(text) if kind == "code" and text.lstrip().startswith(("`", "~")) else None
    return (fence["head"], fence["foot"]) if fence else ("", "")


def _framed(text: str, parts: Sequence[tuple[int, int]], head: str, foot: str) -> list[Slice]:
    slices = []
    for number, (start, end) in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        start, end = 0 if first else start, len(text) if last else end
        shown = text[start:end]
        repeated = 0 if first or not head else head.count("\n") + 1
        shown = f"{head}\n{shown}" if repeated else shown
        slices.append(Slice(start, end, shown if last or not foot else f"{shown}\n{foot}", repeated))
    return slices


def _parts(text: str, finders: Sequence[Finder], limits: Limits) -> list[tuple[int, int]]:
    """Ranges of parts within the limits, white space at their ends left out."""
    atoms = [atom for atom in _atoms(text, 0, finders, limits) if text[atom[0] : atom[1]].strip()]
    sizes = [limits.measure(text[start:end]) for start, end in atoms]
    # After a blank line is the best place.
    keys = [key_of(text[start:end]) + ((text[max(start - 2, 0) : start] == "\n\n") << 64) for start, end in atoms]
    parts = []
    for first, last in cut(sizes, keys, limits.low, limits.high):
        start, end = atoms[first][0], atoms[last - 1][1]
        indented = text[start:end].lstrip("\n")  # the first line's indentation belongs to code
        parts.append((end - len(indented), start + len(text[start:end].rstrip())))
    return parts


def _atoms(text: str, offset: int, finders: Sequence[Finder], limits: Limits) -> Ranges:
    """The smallest ranges that are not split further: what the first finder finds, unless that is too large."""
    for start, end in finders[0](text) if finders else _words(text, limits):
        piece = text[start:end]
        if finders and limits.measure(piece) > limits.high:
            yield from _atoms(piece, offset + start, finders[1:], limits)
        else:
            yield offset + start, offset + end


def _words(text: str, limits: Limits) -> Ranges:
    """Parts of a sentence or line that is too long: at words, or within one that is longer than all limits."""
    if limits.measure is len:
        splitter = TextSplitter(limits.high, trim=False)
    else:
        splitter = TextSplitter.from_callback(limits.measure, limits.high, trim=False)
    at = 0
    while at < len(text):
        end = _window_end(text, at, _WINDOW * limits.high)
        for start, piece in splitter.chunk_indices(text[at:end]):
            yield at + start, at + start + len(piece)
        at = end


def _window_end(text: str, start: int, size: int) -> int:
    """Where to end a piece of about `size` characters: after white space, if there is any."""
    end = start + size
    if end >= len(text):
        return len(text)
    spaces = [match.end() for match in _SPACE.finditer(text, start, end)]
    return spaces[-1] if spaces else end


def _between(text: str, places: Iterator[int]) -> Ranges:
    start = 0
    for place in places:
        if place > start:
            yield start, place
            start = place
    if start < len(text):
        yield start, len(text)


def _lines(text: str) -> Ranges:
    return _between(text, (match.end() for match in _LINE.finditer(text)))


def _items(text: str) -> Ranges:
    return _between(text, (match.end() for match in _ITEM_START.finditer(text)))


def _sentences(text: str) -> Ranges:
    return _between(text, (match.end() for match in _SENTENCE_END.finditer(text)))


_FINDERS: dict[Kind, tuple[Finder, ...]] = {
    "code": (_lines,),
    "equation": (_lines,),
    "table": (_lines,),
    "list": (_items, _sentences),
    "quote": (_sentences,),
    "html": (_lines, _sentences),
    "prose": (_sentences,),
}
