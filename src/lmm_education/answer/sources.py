"""The sources of an answer: passages and sections with the numbers that the answer cites them by.

The model is shown whole sections where they fit, else their best passages. The budget is in tokens, and is kept: what
is counted is the very text that is sent, tags included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from lmm.messages import Attachment, Message, render
from lmm_education.material import Hit, Place, Section
from lmm_education.search.found import FoundSection

LABEL = "source"
_JOIN = 4  # tokens that joining texts, tags and sources may add
_WHOLE = 0.6  # the largest share of the budget that one section may take while others wait


@dataclass(frozen=True, slots=True)
class Source:
    """What the model was shown under a number. `id` is a chunk's or a section's, as `what` says.

    `section` is the id of the section it belongs to; `level` is its heading's; `before` and `after` are the
    titles of the neighbouring sections.
    """

    number: int
    id: str
    what: Literal["chunk", "section"]
    place: Place
    text: str
    section: str = ""
    title: str = ""
    kind: str = "text"
    level: int = 0
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, hit: Hit, number: int = 0, text: str | None = None) -> Source:
        """A passage that was found; `text` is the part of it that is shown."""
        return cls(
            number=number,
            id=hit.id,
            what=hit.what,
            place=hit.place,
            text=hit.text if text is None else text,
            section=hit.section,
            title=hit.title,
            kind=hit.kind,
        )

    @classmethod
    def of_section(cls, section: Section, title: str, text: str) -> Source:
        """A section of the document with this title; `text` is the part of it that is shown."""
        return cls(0, section.id, "section", section.place, text, section.id, title, level=section.level)

    @property
    def path(self) -> str:
        """The document's title and the headings above the passage.

        >>> from lmm_education.material import Lines
        >>> Source(1, "x", "chunk", Place("d", "a.md", Lines(3, 4), ("Leaves", "Colour")), "", title="Botany").path
        'Botany > Leaves > Colour'
        """
        return " > ".join(self.place.path(self.title))

    def as_document(self) -> Attachment:
        """The source as the model sees it: its text between tags that say where it stands."""
        parts = [str(self.place), self.path, f"level {self.level}" if self.level else ""]
        if self.kind != "text":
            parts.append(f"type: {self.kind}")
        neighbours = (("section before", self.before), ("section after", self.after))
        parts.append("; ".join(f"{name}: {title}" for name, title in neighbours if title))
        return Attachment(self.text, LABEL, ", ".join(part for part in parts if part), self.number)


@dataclass(slots=True)
class Sources:
    """The sources offered so far; what is offered twice keeps its number."""

    _by_id: dict[str, Source] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Source]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def numbers(self) -> set[int]:
        """The numbers that may be cited."""
        return {source.number for source in self}

    def offer(self, source: Source) -> Source:
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

    def add(self, source: Source) -> Source:
        """Offer a source, under its number if it was offered before."""
        return self._by_id.setdefault(source.id, source)

    def cited(self, numbers: tuple[int, ...]) -> tuple[Source, ...]:
        """The sources with these numbers, in that order."""
        by_number = {source.number: source for source in self}
        return tuple(by_number[number] for number in numbers if number in by_number)


# -- what is shown ---------------------------------------------------------------------------------


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
