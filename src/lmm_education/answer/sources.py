"""The sources of an answer: passages and sections with the numbers that the answer cites them by.

The model is shown whole sections where they fit, else their best passages. The budget is in tokens, and is kept: what
is counted is the very text that is sent, tags included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lmm.messages import Attachment, Message, render
from lmm_education.material import Passage

LABEL = "source"
_JOIN = 4  # tokens that joining texts, tags and sources may add
_ORDINARY = ("text", "summary")
_WHOLE = 0.6  # the largest share of the budget that one section may take while others wait


def as_document(source: Passage) -> Attachment:
    """A source as the model sees it: its text between tags that say where it stands."""
    parts = [str(source.place), source.path, f"level {source.level}" if source.level else ""]
    if source.kind != "text":
        parts.append(f"type: {source.kind}")
    neighbours = (("section before", source.before), ("section after", source.after))
    parts.append("; ".join(f"{name}: {title}" for name, title in neighbours if title))
    return Attachment(source.text, LABEL, ", ".join(part for part in parts if part), source.number)


@dataclass(slots=True)
class Sources:
    """The sources offered so far; what is offered twice keeps its number."""

    _by_id: dict[str, Passage] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def numbers(self) -> set[int]:
        """The numbers that may be cited."""
        return {source.number for source in self}

    def offer(self, source: Passage) -> Passage:
        """Offer a source with a number: its own if it was offered before, else the next; as it is shown now."""
        shown = replace(source, number=self.number_of(source.id) or self.next_number)
        self.add(shown)
        return shown

    @property
    def next_number(self) -> int:
        """The number of the source that is added next."""
        return len(self._by_id) + 1

    def number_of(self, id: str) -> int | None:
        """The number under which this chunk or section was offered; None if it was not."""
        return self._by_id[id].number if id in self._by_id else None

    def add(self, source: Passage) -> Passage:
        """Offer a source, under its number if it was offered before."""
        return self._by_id.setdefault(source.id, source)

    def cited(self, numbers: tuple[int, ...]) -> tuple[Passage, ...]:
        """The sources with these numbers, in that order."""
        by_number = {source.number: source for source in self}
        return tuple(by_number[number] for number in numbers if number in by_number)


# -- what is shown ---------------------------------------------------------------------------------


def choose_sources(sections: Sequence[Passage], budget: int, count: Callable[[str], int]) -> Sources:
    """The sources to show, numbered from 1 in the order of relevance; `count` gives the tokens of a text.

    >>> from lmm_education.material import Lines, Location
    >>> place = Location("d", "a.md", Lines(1, 9), ("Leaves",))
    >>> hit = Passage("c", place, "Leaves are green.", section="s")
    >>> section = Passage("s", place, "Leaves are green. They fall.", what="section", section="s", hits=[hit])
    >>> [s.what for s in choose_sources([section], 100, lambda text: len(text.split()))]
    ['section']
    >>> [s.what for s in choose_sources([section], 13, lambda text: len(text.split()))]
    ['chunk']
    """
    sources, left = Sources(), budget
    for index, found in enumerate(sections):
        room = left if index == len(sections) - 1 else min(left, int(budget * _WHOLE))
        # What was asked for by its type is shown as such, not inside a section.
        if found.text and count(found.text) <= room and all(hit.kind in _ORDINARY for hit in found.hits):
            whole = replace(found, number=sources.next_number, hits=())
            if (cost := cost_of(whole, count)) <= room:
                sources.add(whole)
                left -= cost
                continue
        for hit in found.hits:
            if hit.text and count(hit.text) <= left and sources.number_of(hit.id) is None:
                passage = _passage(found, hit, sources.next_number)
                if (cost := cost_of(passage, count)) <= left:
                    sources.add(passage)
                    left -= cost
    best = next((_passage(found, hit, 1) for found in sections for hit in found.hits if hit.text), None)
    if not sources and best is not None and (cut := _shortened(best, budget, count)) is not None:
        sources.add(cut)
    return sources


def _shortened(source: Passage, budget: int, count: Callable[[str], int]) -> Passage | None:
    """The beginning of a source that alone is more than the budget; None if not even that fits."""
    words = source.text.split(" ")
    while words:
        words = words[: len(words) * 3 // 4]
        shorter = replace(source, text=" ".join(words) + " …")
        if words and cost_of(shorter, count) <= budget:
            return shorter
    return None


def cost_of(source: Passage, count: Callable[[str], int]) -> int:
    """What showing a source takes of the budget: its text and its tags, counted apart, since texts come again."""
    return count(source.text) + count(shown(replace(source, text=""))) + _JOIN


def shown(source: Passage) -> str:
    """The text that the model sees of a source, tags included."""
    return render(Message("tool", "", (as_document(source),))).rstrip()


def _passage(found: Passage, hit: Passage, number: int) -> Passage:
    return replace(
        hit,
        number=number,
        section=found.id,
        title=hit.title or found.title,
        level=found.level,
        before=found.before,
        after=found.after,
    )
