"""Step 3, chunks: the texts that are embedded and found.

Texts under one heading are packed until they have the size that is asked for; a text with properties of its
own stands alone; only a text that is too large by itself is split. A chunk's text is its texts, a blank line
between them. Summaries of sections are chunks too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

from lmm.markdown.sentences import sentence_ends
from lmm_education.ingestion.documents import Part, pieces_of
from lmm_education.ingestion.outline import Heading, Item, TextItem
from lmm_education.ingestion.packing import Limits, cut
from lmm_education.ingestion.pool import join
from lmm_education.material import Lines
from lmm_education.payloads import types_in

SUMMARY = "summary"
_WORD_START = re.compile(r"\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A chunk in the making: its text and where it stands. `own` are the properties of this text alone.

    `is_summary` tells the summary of a section from a text that its author gave that type.
    """

    text: str
    lines: Lines
    heading: Heading
    own: Mapping[str, Any]
    values: Mapping[str, Any]
    kind: str = "text"
    overlap: str = ""
    is_summary: bool = False
    owner: int = 0


def passages_of(part: Part, limits: Limits, *, whole: bool = False, overlap: int = 0) -> Iterator[ChunkDraft]:
    """The chunks of a part, in order, each section's summary before its texts.

    With `whole`, nothing is cut: the part is one chunk, texts with properties of their own aside.
    """
    for heading in part.opening:
        yield from _summary(heading)
    if whole:
        yield from _whole(part)
        return
    for run in _runs(part.items):
        if isinstance(run, Heading):
            yield from _summary(run)
            continue
        before = ""
        for text in _packed(run, limits):
            yield _passage(text, _tail(before, overlap, limits) if overlap else "")
            before = text.text


def _passage(text: TextItem, overlap: str = "") -> ChunkDraft:
    kind = next(iter(types_in(text.own) or types_in(text.heading.all)), "text")
    return ChunkDraft(
        text=text.text,
        lines=text.lines,
        heading=text.heading,
        own=text.own,
        values=text.values,
        kind=kind,
        overlap=overlap,
        owner=text.owner,
    )


def _summary(heading: Heading) -> Iterator[ChunkDraft]:
    summary = heading.own.get(SUMMARY)
    text = "\n".join(map(str, summary)) if isinstance(summary, list) else str(summary or "")
    if text.strip():
        lines = Lines(min(heading.metadata_line, heading.line), heading.line)
        yield ChunkDraft(
            text=text.strip(), lines=lines, heading=heading, own={}, values={}, kind=SUMMARY, is_summary=True
        )


def _runs(items: Iterable[Item]) -> Iterator[Heading | list[TextItem]]:
    """Headings, and between them the texts that may be packed together."""
    for together, run in groupby(items, key=_run_key):
        held = list(run)
        if isinstance(together, int):
            yield [item for item in held if isinstance(item, TextItem)]
        else:
            for item in held:
                yield item if isinstance(item, Heading) else [item]


def _run_key(item: Item) -> int | str:
    """What texts have in common that may be packed: that they have nothing of their own, or a stretch."""
    if isinstance(item, Heading):
        return "heading"
    return item.stretch or ("alone" if item.own else 0)


def _packed(texts: Sequence[TextItem], limits: Limits) -> Iterator[TextItem]:
    """`texts` packed into chunks. What was split from one text is never packed with more of it."""
    held: list[TextItem] = []
    for text in texts:
        first, *more = pieces_of(text, limits)
        held.append(first)
        for piece in more:
            yield from _cut(held, limits)
            held = [piece]
    yield from _cut(held, limits)


def _cut(texts: Sequence[TextItem], limits: Limits) -> Iterator[TextItem]:
    sizes = [limits.measure(text.text) + limits.joint for text in texts]
    for start, end in cut(sizes, [text.key for text in texts], limits.low, limits.high + limits.joint):
        yield join(texts[start:end])


def _whole(part: Part) -> Iterator[ChunkDraft]:
    held: list[Item] = []
    for item in part.items:
        if isinstance(item, Heading):
            yield from _summary(item)
        if isinstance(item, TextItem) and (item.own or types_in(item.heading.all) != types_in(part.heading.all)):
            yield from _as_one(part, held)
            yield _passage(item)
            held = []
        else:
            held.append(item)
    yield from _as_one(part, held)


def _as_one(part: Part, items: Sequence[Item]) -> Iterator[ChunkDraft]:
    texts = [item for item in items if isinstance(item, TextItem)]
    if texts:
        one = Part(part.heading, tuple(items), by_size=True)
        kind = next(iter(types_in(part.heading.all)), "text")
        owner = texts[0].owner
        yield ChunkDraft(
            text=one.text, lines=one.lines, heading=part.heading, own={}, values={}, kind=kind, owner=owner
        )


def _tail(text: str, size: int, limits: Limits) -> str:
    """The end of a text, at most `size` long: whole sentences if there is one, else whole words.

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
