"""Who may read what: types of texts that reach no student, decided when a document is ingested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lmm_education.material import Audience
from lmm_education.payloads import is_one_of, types_in

EVERYONE: Audience = "everyone"
TEACHER: Audience = "teacher"


@dataclass(frozen=True, slots=True)
class Withholding:
    """Types of texts that are kept from students (`withhold`, of [serve]), and that solve exercises (`solutions`, of
    [study]). Upper and lower case are the same.

    >>> withholding = Withholding(withhold=("solution", "exam"))
    >>> withholding.of(["exercise", "Exam "]), withholding.of(["exercise"])
    ('teacher', 'everyone')
    >>> withholding.shown({"solution": "Because.", "topic": "colour"})
    {'topic': 'colour'}
    """

    withhold: tuple[str, ...] = ("solution",)
    solutions: tuple[str, ...] = ("solution",)

    @property
    def lasting(self) -> tuple[str, ...]:
        """The types that reach over more than one text (see `ingestion.stretches`)."""
        return (*self.withhold, *self.solutions)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What is withheld, as the record of a document says it."""
        return tuple(sorted({kind.strip().casefold() for kind in self.withhold}))

    def of(self, types: Iterable[object]) -> Audience:
        """Who may read a text of these types: of several, each counts."""
        return TEACHER if any(is_one_of(kind, self.withhold) for kind in types) else EVERYONE

    def of_metadata(self, metadata: Mapping[str, Any]) -> Audience:
        """Who may read what has these properties."""
        return self.of(types_in(metadata))

    def shown(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Properties without those that are called like a type that is withheld (``solution:``)."""
        return {name: value for name, value in metadata.items() if self.of([name]) == EVERYONE}


DEFAULT = Withholding()
