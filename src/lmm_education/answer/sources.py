"""The sources of an answer: passages and sections with the numbers that the answer cites them by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from lmm.messages import Attachment
from lmm_education.material import Hit, Place, Section

LABEL = "source"


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
