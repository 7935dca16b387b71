"""Step 2, documents: the larger texts that are retrieved whole.

A part of a document becomes a stored section, and chunks are cut from it, never across parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from semantic_text_splitter import TextSplitter

from lmm.markdown.sentences import sentence_ends
from lmm_education.config import DocumentSplit, Preparation
from lmm_education.ingestion.kinds import ITEM, Kind, kind_of
from lmm_education.ingestion.outline import Heading, Item, Outline, TextItem
from lmm_education.ingestion.packing import Limits, cut, key_of
from lmm_education.material import Lines


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a document: the heading it belongs to, and its texts with the headings between them.

    `opening` are headings that stand before the items: the section's own, or none where a part was cut at a
    size (`by_size`), which may begin in the middle of a section and has its headings among the items.
    """

    heading: Heading
    items: tuple[Item, ...]
    opening: tuple[Heading, ...] = ()
    by_size: bool = False

    @property
    def text(self) -> str:
        """The texts, with the lines of headings that stand between them."""
        return "\n\n".join(item.text if isinstance(item, TextItem) else item.source for item in self.items)

    @property
    def lines(self) -> Lines:
        """From the heading, or the first text, to the end of the last text."""
        held = [*(heading for heading in self.opening if heading.level), *self.items]
        return Lines(_lines(held[0]).first, _lines(held[-1]).last) if held else Lines(1, 1)


def _lines(item: Item) -> Lines:
    return item.lines if isinstance(item, TextItem) else Lines(item.line, item.line)


def divide(outline: Outline, items: Sequence[Item], settings: Preparation) -> list[Part]:
    """The parts of a document, in order, for the way of dividing that is chosen.

    Each heading has its part, also one without text; what stands above the first heading has one if there is
    something, or if a summary of the document has to have a place.

    >>> from lmm_education.ingestion.outline import read_outline
    >>> outline = read_outline("# A\\n\\none\\n\\n## B\\n\\ntwo\\n\\n# C\\n\\nthree\\n")
    >>> [part.text for part in divide(outline, outline.items, Preparation(documents="level", level=1))]
    ['one\\n\\n## B\\n\\ntwo', 'three']
    """
    return list(_DIVIDE[settings.documents](outline, items, settings))


def _by_level(outline: Outline, items: Sequence[Item], level: int) -> Iterator[Part]:
    heading, held = outline.root, list[Item]()
    for item in items:
        if isinstance(item, Heading) and item.level <= level:
            if _has_place(heading, held):
                yield Part(heading, tuple(held), (heading,))
            heading, held = item, []
        else:
            held.append(item)
    if _has_place(heading, held):
        yield Part(heading, tuple(held), (heading,))


def _has_place(heading: Heading, items: Sequence[Item]) -> bool:
    return heading.level > 0 or bool(items) or bool(heading.own.get("summary"))


def _by_size(outline: Outline, items: Sequence[Item], size: int) -> Iterator[Part]:
    """Parts of at most `size` characters: cut before a heading if possible, and never just after one."""
    limits = Limits(size // 2, size)
    elements = list(_elements(items, limits))
    sizes = [sum(len(i.text if isinstance(i, TextItem) else i.source) + 2 for i in element) for element in elements]
    for start, end in cut(sizes, [_key(element) for element in elements], limits.low, size + 2):
        held = tuple(item for element in elements[start:end] for item in element)
        first, opening = held[0], () if start else (outline.root,)
        yield Part(first if isinstance(first, Heading) else first.heading, held, opening, by_size=True)
    if not elements and _has_place(outline.root, ()):
        yield Part(outline.root, (), (outline.root,))


def _elements(items: Sequence[Item], limits: Limits) -> Iterator[list[Item]]:
    """What is not taken apart: a text with the headings right before it; headings at the end by themselves."""
    headings: list[Heading] = []
    for item in items:
        if isinstance(item, Heading):
            headings.append(item)
            continue
        above = sum(len(heading.source) + limits.joint for heading in headings)
        room = replace(limits, high=max(limits.high // 2, limits.high - above))
        for piece in pieces_of(item, room):
            yield [*headings, piece]
            headings = []
    if headings:
        yield [*headings]


def _key(element: Sequence[Item]) -> int:
    """Higher headings are better places to cut, and any heading is better than none."""
    first = element[0]
    if isinstance(first, TextItem):
        return first.key
    return ((7 - first.level) << 64) + key_of("\n".join(first.path))


def pieces_of(text: TextItem, limits: Limits) -> list[TextItem]:
    """A text as it is, or if it is too large by itself the parts of it."""
    if limits.measure(text.text) <= limits.high:
        return [text]
    pieces: list[TextItem] = []
    line, at = text.lines.first - text.repeated, 0
    for part in split(text.text, limits):
        first = line + text.count_lines(at, part.start)
        line, at = first + text.count_lines(part.start, part.end), part.end
        # What an earlier split repeated stands on no line of its own.
        lines = Lines(max(first, text.lines.first), min(max(line, text.lines.first), text.lines.last))
        repeated = part.repeated or (0 if part.start else text.repeated)
        moved = part.text.find(text.text[part.start : part.end]) - part.start
        gaps = tuple((gap + moved, more) for gap, more in text.gaps if part.start < gap < part.end)
        pieces.append(replace(text, text=part.text, lines=lines, key=key_of(part.text), repeated=repeated, gaps=gaps))
    return pieces


_Divide = Callable[[Outline, Sequence[Item], Preparation], Iterator[Part]]
_DIVIDE: dict[DocumentSplit, _Divide] = {
    "heading": lambda outline, items, settings: _by_level(outline, items, 6),
    "level": lambda outline, items, settings: _by_level(outline, items, settings.level),
    "size": lambda outline, items, settings: _by_size(outline, items, settings.document_size),
    # Nothing is stored then, but chunks still vote for the section that they stand in.
    "none": lambda outline, items, settings: _by_level(outline, items, 6),
}


# -- what is too large by itself -------------------------------------------------------------------
# Between rows, lines, items or sentences, if need be words. A table repeats its header in each part, code its fence
# line and an equation its ``$$``, so that each part is valid markdown. Where to split is chosen as for paragraphs, so
# that a new row does not move all later parts.

_LINE = re.compile(r"[^\n]*(?:\n+|\Z)")
_ITEM_START = re.compile(rf"(?<=\n) {{0,1}}(?={ITEM})")
# The splitter's time grows faster than the text (an image in base64 is one word of a megabyte).
_WINDOW = 20


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
        *head, _ = text.split("\n", 2)
        return "\n".join(head) if len(head) == 2 else "", ""
    if kind == "equation" and text.startswith("$$"):
        return "$$", text[text.rindex("$$") :]
    if kind == "code" and text.lstrip().startswith(("`", "~")):
        return text.partition("\n")[0], text.rpartition("\n")[2]
    return "", ""


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
    last = text[start:end].split()[-1:]
    cut = end - len(last[0]) if last and text.endswith(last[0], start, end) else end
    return cut if cut > start else end


def _between(text: str, places: Iterator[int]) -> Ranges:
    start = 0
    for place in places:
        if place > start:
            yield start, place
            start = place
    if start < len(text):
        yield start, len(text)


def _line_units(text: str) -> Ranges:
    return _between(text, (match.end() for match in _LINE.finditer(text)))


def _items(text: str) -> Ranges:
    return _between(text, (match.end() for match in _ITEM_START.finditer(text)))


def _sentences(text: str) -> Ranges:
    return _between(text, (begin for _, begin in sentence_ends(text)))


_FINDERS: dict[Kind, tuple[Finder, ...]] = {
    "code": (_line_units,),
    "equation": (_line_units,),
    "table": (_line_units,),
    "list": (_items, _sentences),
    "quote": (_line_units, _sentences),
    "html": (_line_units, _sentences),
    "prose": (_sentences,),
}
