"""Which texts students may read: decided by their types when a document is ingested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lmm.type_names import SPEAKER_NOTE, TypeNames, is_one_of
from lmm_education.material import Audience

EVERYONE: Audience = "everyone"
TEACHER: Audience = "teacher"


@dataclass(frozen=True, slots=True)
class Withholding:
    """The types of texts that are withheld from students (`withhold`, of [serve]), and those that are solutions
    (`solutions`, of [study]); `exercises` are those of exercises. Case is ignored.

    >>> withholding = Withholding(withhold=("solution", "exam"))
    >>> withholding.of(["exercise", "Exam "]), withholding.of(["exercise"])
    ('teacher', 'everyone')
    >>> withholding.shown({"solution": "Because.", "topic": "colour"})
    {'topic': 'colour'}
    """

    withhold: tuple[str, ...] = ("solution",)
    solutions: tuple[str, ...] = ("solution",)
    exercises: tuple[str, ...] = ("exercise",)

    @property
    def lasting(self) -> tuple[str, ...]:
        """The types that extend over more than one text (see `stretches`)."""
        return (*self.withhold, *self.solutions)

    @property
    def names(self) -> TypeNames:
        """The types by which `stretches` decides what is an exercise, and what a solution."""
        return TypeNames(self.lasting, self.exercises)

    @property
    def withheld(self) -> tuple[str, ...]:
        """The withheld types as they are recorded with a document."""
        return tuple(sorted({kind.strip().casefold() for kind in self.withhold}))

    def of(self, types: Iterable[object]) -> Audience:
        """Return who may read a text of these types: one withheld type is enough."""
        return TEACHER if types and any(is_one_of(kind, (SPEAKER_NOTE, *self.withhold)) for kind in types) else EVERYONE

    def shown(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return properties without those named after a withheld type (``solution:``)."""
        return {name: value for name, value in metadata.items() if self.of([name]) == EVERYONE}


DEFAULT = Withholding()
