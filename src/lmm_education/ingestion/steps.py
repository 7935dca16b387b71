"""The three steps from a document's items to what is stored: pool texts, divide into sections, cut into chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from lmm.markdown.sentences import sentence_ends
from lmm.markdown.units import div_ends, unit_ends
from lmm_education.books.rendered_text import rendered_text
from lmm_education.config import Preparation
from lmm_education.ingestion.block_kinds import OWN_WORDS, kind_of
from lmm_education.ingestion.outline import Heading, Item, Outline, TextItem
from lmm_education.ingestion.packing import Limits, cut, key_of
from lmm_education.ingestion.splitting import split
from lmm_education.material import Lines

# -- step 1: pool ----------------------------------------------------------------------------------
# Step 1, pooling: texts that mean little by themselves join their neighbours, so that context is not lost.
#
# Texts that blank lines separate are always rejoined if they belong together: what Pandoc parses as one block (see
# `lmm.markdown.units`); the fences of a div that is too long are left out.
# Then, if enabled, equations, code and very short texts join the text before them, or at the start of a section the one
# after them. Nothing is joined across a heading, or with a text that has properties of its own; the texts of one
# stretch with a type (a solution) are joined with each other.


def pool(items: Iterable[Item], limits: Limits, *, shorter_than: int) -> Iterator[Item]:
    """Iterate over the blocks with texts joined that are shorter than that; a group that exceeds `limits` is joined in
    parts.

    >>> from lmm_education.ingestion.outline import read_outline
    >>> outline = read_outline("# A\\n\\nThe area of a circle is\\n\\n$$ \\\\pi r^2 $$\\n")
    >>> [item.lines for item in pool(outline.items, Limits(0, 2000), shorter_than=10) if isinstance(item, TextItem)]
    [Lines(first=3, last=5)]
    """

    def needs_context(text: TextItem) -> bool:
        return len(text.text) < shorter_than or kind_of(text.text) in ("code", "equation")

    for stretch, run in groupby(items, key=lambda item: item.stretch if isinstance(item, TextItem) else None):
        if stretch is None:
            yield from run
            continue
        groups = list[list[TextItem]]()
        for text in run:
            assert isinstance(text, TextItem)
            is_below = groups and text.heading is groups[-1][0].heading
            if is_below and (needs_context(text) or all(map(needs_context, groups[-1]))):
                groups[-1].append(text)
            else:
                groups.append([text])
        for group in groups:
            yield from _in_parts(group, limits)


def _in_parts(texts: Sequence[TextItem], limits: Limits) -> Iterator[TextItem]:
    """Iterate over consecutive texts, joined as far as they fit into the limits together."""
    sizes = [limits.measure(text.text) + limits.joint for text in texts]
    for start, end in cut(sizes, [text.key for text in texts], limits.low, limits.high + limits.joint):
        yield join(texts[start:end])


def whole_blocks(outline: Outline, limits: Limits) -> Outline:
    """Return the outline with the texts of each unit joined, if they fit into a chunk together; other divs, or those
    with headings, are split, and their first text begins with what names them: the title of a callout."""
    items = list(outline.items)
    kin = [item.stretch if isinstance(item, TextItem) else None for item in items]
    texts = [f"{item.text}\n" if isinstance(item, TextItem) else None for item in items]
    alone = [None if key is None else text for key, text in zip(kin, texts, strict=True)]
    divs = div_ends(texts)
    ends, fences = unit_ends(alone, divs), {*divs, *divs.values()}
    at, blocks = 0, list[Item]()
    while at < len(items):
        end = ends[at]
        unit = [item for item in items[at:end] if isinstance(item, TextItem)]
        size = sum(limits.measure(item.text) + limits.joint for item in unit)
        is_one = len(unit) == end - at and kin[at] is not None and len({*kin[at:end]}) == 1
        whole = is_one and size <= limits.high + limits.joint
        if at in fences and (end == at + 1 or not whole):
            end = at + 1
            if at in divs and end < len(items):
                items[end] = _after_title(items[at], items[end])
        else:
            blocks += [join(unit)] if whole else items[at:end]
        at = end
    return replace(outline, items=tuple(blocks))


_LONGEST_TITLE = 500  # characters of the fences of divs that begin together


def _after_title(fence: Item, text: Item) -> Item:
    """Return the first text of a div, after what readers see of the div alone."""
    opened = f"{fence.text}\n:::"
    if isinstance(text, Heading) or text.types != fence.types or len(opened) > _LONGEST_TITLE:
        return text
    if kind_of(text.text) in ("table", "code", "equation") or not rendered_text(opened):
        return text
    return replace(text, text=f"{opened}\n\n{text.text}", lines=Lines(fence.lines.first, text.lines.last))


def join(texts: Sequence[TextItem]) -> TextItem:
    """Return consecutive texts as one."""
    if len(texts) == 1:
        return texts[0]
    lines = Lines(texts[0].lines.first, texts[-1].lines.last)
    blocks = tuple(block for text in texts for block in text.blocks or (text,))
    return replace(texts[0], text="\n\n".join(text.text for text in texts), lines=lines, blocks=blocks)


# -- step 2: documents -----------------------------------------------------------------------------
# Step 2, sections: the larger texts that are retrieved whole.
#
# A part of a document becomes a stored section, and chunks are cut from it, never across parts.


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a document: the heading it belongs to, and its texts with the headings between them.

    `opening` are headings before the items: the section's own, or none if the part was cut by size (`by_size`), which
    may begin in the middle of a section and has its headings among the items.
    """

    heading: Heading
    items: tuple[Item, ...]
    opening: tuple[Heading, ...] = ()
    by_size: bool = False

    @property
    def text(self) -> str:
        """The texts, with the lines of headings between them."""
        return "\n\n".join(item.text for item in self.items)

    @property
    def lines(self) -> Lines:
        """The lines from the heading, or the first text, to the end of the last text."""
        held = [*(heading for heading in self.opening if heading.level), *self.items]
        return Lines(held[0].lines.first, held[-1].lines.last) if held else Lines(1, 1)


def divide(root: Heading, items: Sequence[Item], settings: Preparation, limits: Limits) -> Iterator[Part]:
    """Iterate over the parts of a document, in order, divided as the settings say.

    Each heading has its part, even without text, except for those in a small entry (see `inner_headings`); the text
    above the first heading has one if there is any, or if the document has a summary.

    >>> from lmm_education.ingestion.outline import read_outline
    >>> outline = read_outline("# A\\n\\none\\n\\n## B\\n\\ntwo\\n\\n# C\\n\\nthree\\n")
    >>> [part.text for part in divide(outline.root, outline.items, Preparation(), Limits(0, 2000))]
    ['one\\n\\n## B\\n\\ntwo', 'three']
    >>> [part.text for part in divide(outline.root, outline.items, Preparation(), Limits(0, 5))]
    ['one', 'two', 'three']
    """
    if settings.documents == "size":
        yield from _by_size(root, items, settings.document_size)
        return
    # With "none", no section is stored, but chunks still vote for those that contain them.
    level = settings.level if settings.documents == "level" else 6
    inner, parts = inner_headings(items, limits), [(root, list[Item]())]
    held = {id(root): parts[0][1]}  # by heading: after a div, texts belong to a section outside it
    for item in items:
        if isinstance(item, Heading) and item.level <= level and id(item) not in inner:
            parts.append((item, held.setdefault(id(item), [])))
            continue
        own = parts[-1][1] if isinstance(item, Heading) else held.get(id(item.heading), parts[-1][1])
        own.append(item)
        if isinstance(item, Heading):
            held[id(item)] = own
    for heading, own in parts:
        if heading.level or own or heading.own.get(SUMMARY):
            yield Part(heading, tuple(own), (heading,))


def inner_headings(items: Iterable[Item], limits: Limits) -> frozenset[int]:
    """Return the ids of the headings inside small entries: a heading is a small entry if all that is below it fits into
    a chunk. Such an entry is one unit, because its parts mean little without its name."""
    sizes: dict[int, int] = {}
    open_: list[Heading] = []
    for item in items:
        if isinstance(item, Heading):
            while open_ and open_[-1].level >= item.level:
                open_.pop()
        size = limits.measure(item.text) + limits.joint
        for heading in open_:
            sizes[id(heading)] += size
        if isinstance(item, Heading):
            open_.append(item)
            sizes[id(item)] = 0
    inner, entry = set[int](), 7
    for item in items:
        if isinstance(item, Heading) and item.level > entry:
            inner.add(id(item))
        elif isinstance(item, Heading):
            entry = item.level if item.level and sizes[id(item)] <= limits.high + limits.joint else 7
    return frozenset(inner)


def _by_size(root: Heading, items: Sequence[Item], size: int) -> Iterator[Part]:
    """Iterate over parts of at most `size` characters: cut before a heading if possible, and never just after one."""
    limits = Limits(size // 2, size)
    elements = list(_elements(items, limits))
    sizes = [sum(len(i.text) + 2 for i in element) for element in elements]
    keys = [first.key for first, *_ in elements]
    for start, end in cut(sizes, keys, limits.low, size + 2):
        held = tuple(item for element in elements[start:end] for item in element)
        first, opening = held[0], () if start else (root,)
        yield Part(first if isinstance(first, Heading) else first.heading, held, opening, by_size=True)
    if not elements and root.own.get(SUMMARY):
        yield Part(root, (), (root,))


def _elements(items: Sequence[Item], limits: Limits) -> Iterator[list[Item]]:
    """Iterate over units that stay together: a text with the headings directly before it; trailing headings."""
    headings: list[Heading] = []
    for item in items:
        if isinstance(item, Heading):
            headings.append(item)
            continue
        above = sum(len(heading.text) + limits.joint for heading in headings)
        room = replace(limits, high=max(limits.high // 2, limits.high - above))
        for piece in pieces_of(item, room):
            yield [*headings, piece]
            headings = []
    if headings:
        yield [*headings]


def pieces_of(text: TextItem, limits: Limits) -> list[TextItem]:
    """Return the parts of a text that is too large: its blocks, and the parts of one that is too large by itself.

    The parts of a block whose lines moved have the lines of the whole block.
    """
    if limits.measure(text.text) <= limits.high:
        return [text]
    if text.blocks:
        return [piece for block in text.blocks for piece in pieces_of(block, limits)]
    pieces: list[TextItem] = []
    begin = text.lines.first - text.repeated
    for part in split(text.text, limits):
        first = begin + text.text.count("\n", 0, part.start)
        last = first + text.text.count("\n", part.start, part.end)
        # Lines that an earlier split repeated do not count.
        lines = Lines(max(first, text.lines.first), min(max(last, text.lines.first), text.lines.last))
        repeated = part.repeated or (0 if part.start else text.repeated)
        lines = text.lines if text.moved else lines
        pieces.append(replace(text, text=part.text, lines=lines, key=key_of(part.text), repeated=repeated))
    return pieces


# -- step 3: chunks --------------------------------------------------------------------------------
# Step 3, chunks: the texts that are embedded and searched.
#
# Texts under one heading are packed up to the configured size; a text with properties of its own is a chunk by itself;
# only a text that is too large by itself is split. A chunk's text is its texts, separated by blank lines. Summaries of
# sections are chunks, too.


SUMMARY = "summary"
_WORD_START = re.compile(r"\s+(?=\S)")


def passages_of(part: Part, limits: Limits, settings: Preparation) -> Iterator[TextItem]:
    """Iterate over the texts of the chunks of a part, in order, each section's summary before its texts.

    With the splitter ``none``, nothing is cut: the part is one chunk, except for texts with properties of their own.
    Properties that are generated for a heading in a small entry do not make its text one with properties of its own.
    """
    whole, overlap = settings.splitter == "none", settings.overlap
    for heading in part.opening:
        yield from _summary(heading)
    inner = inner_headings([part.heading, *part.items], limits) if not whole else frozenset(map(id, part.items))
    ignored = frozenset((*settings.annotation_model.generated, SUMMARY))

    def given(heading: Heading) -> object:
        return heading.types if whole else {k: value for k, value in heading.all.items() if k not in ignored}

    for entry, run in _runs(part, inner, given):
        for item in run:
            yield from _summary(item) if isinstance(item, Heading) else ()
        texts = [item for item in run if isinstance(item, TextItem)]
        if entry and texts and (len({id(text.heading) for text in texts}) > 1 or whole):
            yield _as_one(entry, run)
            continue
        before = ""
        for text in texts if whole else _packed(texts, limits):
            yield replace(text, overlap=_tail(before, overlap, limits)) if overlap else text
            before = text.text


def _summary(heading: Heading) -> Iterator[TextItem]:
    summary = heading.own.get(SUMMARY)
    text = "\n".join(map(str, summary)) if isinstance(summary, list) else str(summary or "")
    if text.strip():
        lines = Lines(min(heading.metadata_line, heading.line), heading.line)
        yield TextItem(text.strip(), lines, heading, 0, types=(SUMMARY, *heading.types))


def _runs(
    part: Part, inner: Collection[int], given: Callable[[Heading], object]
) -> Iterator[tuple[Heading | None, list[Item]]]:
    """Iterate over the items in groups that may be packed together: below one heading, without properties of their own
    or of one stretch; or in one entry (with the headings `inner` to it) whose heading is `given` the same properties,
    and comes with the group."""
    entry = part.heading

    def key(item: Item) -> tuple[int, object]:
        nonlocal entry
        heading = item if isinstance(item, Heading) else item.heading
        if heading is item and id(item) not in inner:
            entry = heading
        if isinstance(item, TextItem) and item.own:
            return id(heading), item.stretch or id(item)
        return (id(entry), entry) if heading is entry or given(heading) == given(entry) else (id(heading), None)

    for (_, whole), run in groupby(part.items, key):
        yield whole if isinstance(whole, Heading) else None, list(run)


def _packed(texts: Sequence[TextItem], limits: Limits) -> Iterator[TextItem]:
    """Iterate over `texts` packed into chunks. Parts of a split text are never packed with each other."""
    groups = list[list[TextItem]]([[]])
    for text in texts:
        first, *more = pieces_of(text, limits)
        groups[-1].append(first)
        groups += [[piece] for piece in more]
    for group in groups:
        yield from _in_parts(group, limits)


def _as_one(heading: Heading, items: Sequence[Item]) -> TextItem:
    """Return the texts of an entry with the headings between them as one chunk."""
    items = [item for item in items if item is not heading]
    last = max(at for at, item in enumerate(items) if isinstance(item, TextItem))
    one = Part(heading, tuple(items[: last + 1]))
    owner = next(item.owner for item in items if isinstance(item, TextItem))
    inner = tuple(item for item in one.items if isinstance(item, Heading))
    return TextItem(one.text, one.lines, heading, 0, types=heading.types, owner=owner, inner=inner)


# -- an entry's own words --------------------------------------------------------------------------


def own_words(root: Heading, items: Iterable[Item]) -> dict[int, tuple[TextItem, ...]]:
    """Return the texts that belong to each heading and what is below it, by the heading's id: those directly below it
    and below the headings above it, if these are short."""
    texts: dict[int, list[TextItem]] = {id(root): []}
    open_, above = [root], {id(root): tuple[int, ...]([id(root)])}
    for item in items:
        if isinstance(item, TextItem):
            texts[id(item.heading)] += [] if item.own else [item]
            continue
        while open_[-1].level >= item.level:
            open_.pop()
        above[id(item)] = (*above[id(open_[-1])], id(item))
        open_.append(item)
        texts[id(item)] = []
    short = {name for name, held in texts.items() if sum(len(text.text) for text in held) <= OWN_WORDS}
    return {name: tuple(text for each in path if each in short for text in texts[each]) for name, path in above.items()}


def _tail(text: str, size: int, limits: Limits) -> str:
    """Return the end of a text, at most `size` long: whole sentences if one fits, or else whole words.

    >>> _tail("Leaves are green. Roots are brown. Stems vary.", 30, Limits(0, 100))
    'Roots are brown. Stems vary.'
    """
    near = max(0, len(text) - size - 1) if limits.measure is len else 0
    for starts in (
        [begin for _, begin in sentence_ends(text, near)],
        [match.end() for match in _WORD_START.finditer(text, near)],
    ):
        tails = [text[start:] for start in starts]
        fitting = list(takewhile(lambda tail: limits.measure(tail) <= size, reversed([text, *tails])))
        if fitting:
            return fitting[-1]
    return ""
