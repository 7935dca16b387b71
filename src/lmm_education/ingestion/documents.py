"""Step 2, documents: the larger texts that are retrieved whole.

A part of a document becomes a stored section, and chunks are cut from it, never across parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lmm_education.config import DocumentSplit, Preparation
from lmm_education.ingestion.outline import Heading, Item, Outline, Text
from lmm_education.ingestion.packing import Limits, cut, key_of
from lmm_education.ingestion.split import split
from lmm_education.material import Lines


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a document: the heading it belongs to, and its texts with the headings between them.

    `opening` are headings that stand before the items: the section's own, or none where a part was cut at a
    size (`by_size`), which may begin in the middle of a section and has its headings among the items. `id` is
    its section's, where a prepared file tells.
    """

    heading: Heading
    items: tuple[Item, ...]
    opening: tuple[Heading, ...] = ()
    by_size: bool = False
    id: str = ""

    @property
    def text(self) -> str:
        """The texts, with the lines of headings that stand between them."""
        return "\n\n".join(item.text if isinstance(item, Text) else item.source for item in self.items)

    @property
    def lines(self) -> Lines:
        """From the heading, or the first text, to the end of the last text."""
        held = [*(heading for heading in self.opening if heading.level), *self.items]
        return Lines(_lines(held[0]).first, _lines(held[-1]).last) if held else Lines(1, 1)


def _lines(item: Item) -> Lines:
    return item.lines if isinstance(item, Text) else Lines(item.line, item.line)


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
    sizes = [sum(len(i.text if isinstance(i, Text) else i.source) + 2 for i in element) for element in elements]
    for start, end in cut(sizes, [_key(element) for element in elements], limits.low, size + 2):
        held = tuple(item for element in elements[start:end] for item in element)
        first, opening = held[0], () if start else (outline.root,)
        yield Part(first if isinstance(first, Heading) else first.heading, held, opening, by_size=True)
    if not elements and _has_place(outline.root, ()):
        yield Part(outline.root, (), (outline.root,))


def _elements(items: Sequence[Item], limits: Limits) -> Iterator[list[Item]]:
    """What is not taken apart: a text with the headings right before it; headings at the end by themselves."""
    headings: list[Item] = []
    for item in items:
        if isinstance(item, Heading):
            headings.append(item)
            continue
        above = sum(len(heading.source) + limits.joint for heading in _only(headings))
        room = replace(limits, high=max(limits.high // 2, limits.high - above))
        for piece in pieces_of(item, room):
            yield [*headings, piece]
            headings = []
    if headings:
        yield headings


def _only(items: Sequence[Item]) -> list[Heading]:
    return [item for item in items if isinstance(item, Heading)]


def _key(element: Sequence[Item]) -> int:
    """Higher headings are better places to cut, and any heading is better than none."""
    first = element[0]
    if isinstance(first, Text):
        return first.key
    return ((7 - first.level) << 64) + key_of("\n".join(first.path))


def pieces_of(text: Text, limits: Limits) -> list[Text]:
    """A text as it is, or if it is too large by itself the parts of it."""
    if limits.measure(text.text) <= limits.high:
        return [text]
    pieces: list[Text] = []
    line, at = text.lines.first - text.repeated, 0
    for part in split(text.text, limits):
        first = line + text.text.count("\n", at, part.start)
        line, at = first + text.text.count("\n", part.start, part.end), part.end
        # What an earlier split repeated stands on no line of its own.
        lines = Lines(max(first, text.lines.first), min(max(line, text.lines.first), text.lines.last))
        repeated = part.repeated or (0 if part.start else text.repeated)
        pieces.append(replace(text, text=part.text, lines=lines, key=key_of(part.text), repeated=repeated))
    return pieces


_Divide = Callable[[Outline, Sequence[Item], Preparation], Iterator[Part]]
_DIVIDE: dict[DocumentSplit, _Divide] = {
    "heading": lambda outline, items, settings: _by_level(outline, items, 6),
    "level": lambda outline, items, settings: _by_level(outline, items, settings.level),
    "size": lambda outline, items, settings: _by_size(outline, items, settings.document_size),
    # Nothing is stored then, but chunks still vote for the section that they stand in.
    "none": lambda outline, items, settings: _by_level(outline, items, 6),
}
