"""What sections require, and an order in which everything comes after what it requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm_education.ingestion.outline import Heading, Text
from lmm_education.study.material import StudyDocument
from lmm_education.study.toc import anchor_of

KEYS = ("prerequisites", "requires")


@dataclass(slots=True)
class Unit:
    """A section to be put in order: its heading (the root for what stands above the first), its texts, its headings
    (its own first, then the deeper ones in it), and the section above it."""

    document: StudyDocument
    heading: Heading
    texts: list[Text]
    headings: list[Heading]
    above: Unit | None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.heading.title or self.document.title

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.document.file}:{self.heading.line if self.heading.level else 1}"

    def is_in(self, other: Unit) -> bool:
        """Whether this is `other`, or a part of it."""
        unit: Unit | None = self
        while unit is not None and unit is not other:
            unit = unit.above
        return unit is other


@dataclass(frozen=True, slots=True)
class Required:
    """What a unit requires: the units it names, by number; all units that must come before; what is not in the course;
    names that mean several sections."""

    named: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    elsewhere: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def find_prerequisites(documents: Sequence[StudyDocument], units: Sequence[Unit]) -> list[Required]:
    """What each unit requires, itself or a deeper section in it."""
    numbers = {id(unit): number for number, unit in enumerate(units)}
    return [_required(unit, units, numbers) for unit in units]


def _required(unit: Unit, units: Sequence[Unit], numbers: Mapping[int, int]) -> Required:
    named, elsewhere, problems = list[int](), list[str](), list[str]()
    for name in _names(unit):
        found = _find(name, unit, units)
        if not found:
            elsewhere.append(name)
        elif len(found) > 1:
            places = ", ".join(units[i].place for i in found)
            problems.append(f"{unit.place}: '{name}' names several sections ({places}); write document#section")
        else:
            named += found
    parent = [numbers[id(unit.above)]] if unit.above is not None else []
    parts = [j for i in named for j, other in enumerate(units) if other.is_in(units[i])]
    before = tuple(dict.fromkeys((*parent, *parts)))
    return Required(tuple(dict.fromkeys(named)), before, tuple(dict.fromkeys(elsewhere)), tuple(problems))


def _names(unit: Unit) -> Iterator[str]:
    for own in (*(heading.own for heading in unit.headings), *(text.own for text in unit.texts)):
        for key in KEYS:
            yield from _texts(own.get(key))


def _texts(value: Any) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if item is not None and str(item).strip():
            yield str(item).strip()


def _find(name: str, unit: Unit, units: Sequence[Unit]) -> list[int]:
    """The units that a name means: a document, else a section of this document, else one of any."""
    document, _, section = name.partition("#")
    documents = [i for i, u in enumerate(units) if u.above is None and _is_called(u.document, document.strip())]
    if "#" in name and section.strip():
        inside = [i for i, u in enumerate(units) if any(u.document is units[d].document for d in documents)]
        return _sections(section, inside or [i for i, u in enumerate(units) if u.document is unit.document], units)
    if documents:
        return documents
    own = [i for i, u in enumerate(units) if u.document is unit.document and u is not unit]
    return _sections(name, own, units) or _sections(name, range(len(units)), units)


def _is_called(document: StudyDocument, name: str) -> bool:
    file = document.file.rpartition("/")[2]
    stem = file.rpartition(".")[0]
    return bool(name) and name.casefold() in {
        n.casefold() for n in (document.id, document.file, file, stem, document.title)
    }


def _sections(name: str, among: Sequence[int] | range, units: Sequence[Unit]) -> list[int]:
    wanted = name.strip().casefold()
    return [i for i in among if any(wanted in (h.title.casefold(), anchor_of(h)) for h in units[i].headings if h.level)]


# -- order -----------------------------------------------------------------------------------------


def in_reading_order(units: Sequence[Unit], required: Sequence[Required]) -> tuple[list[int], list[str]]:
    """The numbers of the units in order, and the circles among them, where one requirement is passed over each.

    Every unit comes as early as its place in the files allows, after what it requires.
    """
    order: list[int] = []
    state = dict.fromkeys(range(len(units)), "new")
    circles: dict[frozenset[str], str] = {}
    for start in range(len(units)):
        path = [(start, iter(sorted(required[start].before)))] if state[start] == "new" else []
        state[start] = "open" if path else state[start]
        while path:
            unit, rest = path[-1]
            following = next((i for i in rest if state[i] != "done"), None)
            if following is None:
                state[unit] = "done"
                order.append(unit)
                path.pop()
            elif state[following] == "open":
                names = _circle([i for i, _ in path], following, units)
                circles.setdefault(frozenset(names), f"{units[unit].place}: {_told(names)}")
            else:
                state[following] = "open"
                path.append((following, iter(sorted(required[following].before))))
    return order, list(circles.values())


def _circle(path: Sequence[int], again: int, units: Sequence[Unit]) -> list[str]:
    names = [units[i].name for i in (*path[path.index(again) :], again)]
    return [name for name, before in zip(names, (None, *names), strict=False) if name != before]


def _told(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]!r} requires itself"
    return f"sections require each other in a circle: {' > '.join(map(repr, names))}"
