"""Step 1, pool: texts that say little alone join their neighbours, so that context is not lost.

Two things happen here. What blank lines have torn is put together again, always: what Pandoc takes as one block (see
`lmm.markdown.units`), an HTML element over several paragraphs; the fences of a div that is too long are left out. Then,
if asked for, equations, code and very short texts join the text before them, or at the start of a section the one after
them. Nothing is joined across a heading, or with a text that has properties of its own; the texts of one stretch that
has a type (a solution) are joined among themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby

from lmm.markdown import spans
from lmm.markdown.units import div_ends, unit_ends
from lmm_education.ingestion.kinds import kind_of
from lmm_education.ingestion.outline import Item, TextItem
from lmm_education.ingestion.packing import Limits, cut
from lmm_education.material import Lines

Joins = Callable[[Sequence[TextItem], TextItem], bool]
"""Whether a text joins the group of texts before it."""

_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


def pool(items: Iterable[Item], limits: Limits, *, shorter_than: int | None) -> list[Item]:
    """The items with texts joined; a group that is longer than `limits` allow is joined in parts.

    Args:
        shorter_than: below so many characters a text is too short to stand alone; None joins torn texts only.

    >>> from lmm_education.ingestion.outline import read_outline
    >>> outline = read_outline("# A\\n\\nThe area of a circle is\\n\\n$$ \\\\pi r^2 $$\\n")
    >>> [item.lines for item in pool(outline.items, Limits(0, 2000), shorter_than=10) if isinstance(item, TextItem)]
    [Lines(first=3, last=5)]
    """
    units = list(_units(list(_in_stretches(items, limits, shorter_than)), limits))
    whole = list(_by_heading(units, lambda texts: _joined(texts, _Continues(), limits, tear=True)))
    if shorter_than is None:
        return whole

    def needs_context(text: TextItem) -> bool:
        return len(text.text) < shorter_than or kind_of(text.text) in ("code", "equation")

    def joins(group: Sequence[TextItem], text: TextItem) -> bool:
        return needs_context(text) or all(map(needs_context, group))

    return list(_by_heading(whole, lambda texts: _joined(texts, joins, limits)))


def _in_stretches(items: Iterable[Item], limits: Limits, shorter_than: int | None) -> Iterator[Item]:
    """The items, those of each stretch pooled among themselves."""
    for stretch, run in groupby(items, key=lambda item: item.stretch if isinstance(item, TextItem) else 0):
        held = list(run)
        texts = [item for item in held if isinstance(item, TextItem)]
        if stretch and len(texts) > 1:
            pooled = pool([replace(text, own={}) for text in texts], limits, shorter_than=shorter_than)
            yield from (replace(item, own=texts[0].own) for item in pooled)
        else:
            yield from held


def _units(items: Sequence[Item], limits: Limits) -> Iterator[Item]:
    """The items with each unit joined that fits; of a div that does not, or has a heading in it, what is inside."""
    texts = [f"{item.text}\n" if isinstance(item, TextItem) else None for item in items]
    alone = [
        text if isinstance(item, TextItem) and not item.own else None for item, text in zip(items, texts, strict=True)
    ]
    divs = div_ends(texts)
    ends, fences = unit_ends(alone, divs), {*divs, *divs.values()}
    sizes = [limits.measure(item.text) + limits.joint if isinstance(item, TextItem) else 0 for item in items]
    before = [0, *accumulate(sizes)]
    at = 0
    while at < len(items):
        end = ends[at]
        unit = [item for item in items[at:end] if isinstance(item, TextItem) and not item.own]
        whole = len(unit) == end - at and before[end] - before[at] <= limits.high + limits.joint
        if at in fences and (end == at + 1 or not whole):
            end = at + 1
        elif whole:
            yield join(unit)
        else:
            yield from (_unfenced(item, limits) for item in items[at:end])
        at = end


def _unfenced(item: Item, limits: Limits) -> Item:
    """A text that is a whole div and too long, without its fences."""
    if not isinstance(item, TextItem) or not item.text.startswith(":::") or limits.measure(item.text) <= limits.high:
        return item
    inside, _, last = item.text.partition("\n")[2].rpartition("\n")
    if not last.lstrip().startswith(":::"):
        return item
    return replace(item, text=inside.strip("\n"), lines=Lines(item.lines.first + 1, item.lines.last - 1))


def _by_heading(items: Iterable[Item], change: Callable[[list[TextItem]], Iterable[TextItem]]) -> Iterator[Item]:
    """The items, with `change` applied to each run of texts that may be joined."""
    for is_text, run in groupby(items, key=lambda item: isinstance(item, TextItem) and not item.own):
        if is_text:
            yield from change([item for item in run if isinstance(item, TextItem)])
        else:
            yield from run


def _joined(texts: Sequence[TextItem], joins: Joins, limits: Limits, *, tear: bool = False) -> Iterator[TextItem]:
    """`texts`, each group joined; a group that is too long is cut, or with `tear` not joined at all."""
    group: list[TextItem] = []
    for text in texts:
        if group and not joins(group, text):
            yield from _within(group, limits, tear)
            group = []
        group.append(text)
    if group:
        yield from _within(group, limits, tear)


def _within(group: Sequence[TextItem], limits: Limits, tear: bool) -> Iterator[TextItem]:
    if len(group) == 1:
        yield group[0]
        return
    sizes = [limits.measure(text.text) + limits.joint for text in group]
    if tear and sum(sizes) > limits.high + limits.joint:
        yield from group
        return
    for start, end in cut(sizes, [text.key for text in group], limits.low, limits.high + limits.joint):
        yield join(group[start:end])


def join(texts: Sequence[TextItem]) -> TextItem:
    """Texts that follow each other, as one."""
    if len(texts) == 1:
        return texts[0]
    gaps: list[tuple[int, int]] = []
    at, line = 0, texts[0].lines.first - texts[0].repeated
    for text in texts:
        first = text.lines.first - text.repeated
        gaps += [(at, first - line)] if first != line else []
        gaps += [(at + inside, lines) for inside, lines in text.gaps]
        at, line = at + len(text.text) + 2, first + text.count_lines(0, len(text.text)) + 2
    lines = Lines(texts[0].lines.first, texts[-1].lines.last)
    return replace(texts[0], text="\n\n".join(text.text for text in texts), lines=lines, gaps=tuple(gaps))


class _Continues:
    """Whether a text goes on with the HTML element that a group began; asked for each text in turn."""

    def __init__(self) -> None:
        self._tag = ""
        self._open = 0  # elements of that name that are not closed yet

    def __call__(self, group: Sequence[TextItem], text: TextItem) -> bool:
        first, last = group[0].text, group[-1].text
        if len(group) == 1:
            self._tag, self._open = _element(first), 0
        if self._tag:
            self._open += len(re.findall(rf"<{self._tag}\b[^<>]*(?<!/)>", last, re.IGNORECASE))
            self._open -= len(re.findall(rf"</{self._tag}\s*>", last, re.IGNORECASE))
            return self._open > 0
        return False


def _element(text: str) -> str:
    """The name of the HTML element that a text begins with."""
    first = next(iter(spans(text.partition("\n\n")[0])), None) if text.lstrip(" ").startswith("<") else None
    is_element = first is not None and first.kind == "html" and first.target.replace("-", "").isalnum()
    return first.target if first and is_element and first.target not in _VOID else ""
