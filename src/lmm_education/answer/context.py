"""From what was found to what the model is shown: whole sections where they fit, else their best passages.

The budget is in tokens, and is kept: what is counted is the very text that is sent, tags included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmm.messages import Message, render
from lmm_education.answer.sources import Source, Sources
from lmm_education.material import Hit
from lmm_education.search.found import FoundSection

_JOIN = 4  # tokens that joining texts, tags and sources may add
_WHOLE = 0.6  # the largest share of the budget that one section may take while others wait


def choose_sources(sections: Sequence[FoundSection], budget: int, count: Callable[[str], int]) -> Sources:
    """The sources to show, numbered from 1 in the order of relevance; `count` gives the tokens of a text.

    >>> from lmm_education.material import Lines, Place
    >>> place = Place("d", "a.md", Lines(1, 9), ("Leaves",))
    >>> hit = Hit("c", 1.0, "chunk", place, "Leaves are green.", section="s")
    >>> section = FoundSection("s", 1.0, place, text="Leaves are green. They fall.", hits=[hit])
    >>> [s.what for s in choose_sources([section], 100, lambda text: len(text.split()))]
    ['section']
    >>> [s.what for s in choose_sources([section], 13, lambda text: len(text.split()))]
    ['chunk']
    """
    sources, left = Sources(), budget
    for index, found in enumerate(sections):
        room = left if index == len(sections) - 1 else min(left, int(budget * _WHOLE))
        whole = _whole(found, sources.next_number)
        if whole is not None and (cost := cost_of(whole, count)) <= room:
            sources.add(whole)
            left -= cost
            continue
        for hit in found.hits:
            passage = _passage(found, hit, sources.next_number)
            if hit.text and (cost := cost_of(passage, count)) <= left and sources.number_of(hit.id) is None:
                sources.add(passage)
                left -= cost
    best = next((_passage(found, hit, 1) for found in sections for hit in found.hits if hit.text), None)
    if not sources and best is not None and (cut := _shortened(best, budget, count)) is not None:
        sources.add(cut)
    return sources


def _shortened(source: Source, budget: int, count: Callable[[str], int]) -> Source | None:
    """The beginning of a source that alone is more than the budget; None if not even that fits."""
    words = source.text.split(" ")
    while words:
        words = words[: len(words) * 3 // 4]
        shorter = replace(source, text=" ".join(words) + " …")
        if words and cost_of(shorter, count) <= budget:
            return shorter
    return None


def cost_of(source: Source, count: Callable[[str], int]) -> int:
    """What showing a source takes of the budget: its text and its tags, counted apart, since texts come again."""
    return count(source.text) + count(shown(replace(source, text=""))) + _JOIN


def shown(source: Source) -> str:
    """The text that the model sees of a source, tags included."""
    return render(Message("tool", "", (source.as_document(),))).rstrip()


def _whole(found: FoundSection, number: int) -> Source | None:
    if not found.text:
        return None
    special = {hit.kind for hit in found.hits if hit.kind not in ("text", "summary")}
    if special:  # what was asked for by its type is shown as such, not inside a section
        return None
    return Source(
        number=number,
        id=found.id,
        what="section",
        place=found.place,
        text=found.text,
        section=found.id,
        title=found.title,
        level=found.level,
        before=found.before,
        after=found.after,
    )


def _passage(found: FoundSection, hit: Hit, number: int) -> Source:
    return replace(
        Source.of(hit, number),
        section=found.id,
        title=hit.title or found.title,
        level=found.level,
        before=found.before,
        after=found.after,
    )
