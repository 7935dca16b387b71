"""The types of texts, as ``type:`` in metadata names them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TypeNames:
    """The types that extend over more than one text, because students must not see them, and those of exercises."""

    lasting: tuple[str, ...] = ("solution",)
    exercises: tuple[str, ...] = ("exercise",)

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.lasting, *self.exercises)


DEFAULT = TypeNames()


def types_in(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types in ``type:``, if any; the first one is the type of the text.

    >>> types_in({"type": ["exercise", "exam"]}), types_in({"type": "exercise"}), types_in({"type": None})
    (('exercise', 'exam'), ('exercise',), ())
    """
    if not (given := values.get("type")):
        return ()
    return tuple(str(each) for each in (given if isinstance(given, list) else [given]) if each)


def is_one_of(type: object, types: Collection[str]) -> bool:
    """Return whether a type is one of several, ignoring case."""
    return str(type).strip().casefold() in {each.strip().casefold() for each in types}
