"""A study plan: the sections of documents in the order in which to read them, with reading times.

Sections are in the order of the files, but after those that they require: ``prerequisites:`` (or ``requires:``) in the
metadata of a document or a heading names documents by docid, file or title, and sections by title, id or
``document#section``. Names that match nothing in the course are listed as previous knowledge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from lmm.markdown import WORDS, Span, replace_spans
from lmm.markdown.tree import count_words
from lmm.terminal import count
from lmm_education.ingestion.outline import Heading, TextItem
from lmm_education.material import is_called, named
from lmm_education.payloads import is_one_of
from lmm_education.study.exercises import Exercise, find_exercises
from lmm_education.study.study_documents import StudyDocument, anchor_of, is_special, texts_of, type_of

# -- reading time ----------------------------------------------------------------------------------

# Reading time is computed from words, at a pace in words per minute. Other content counts as the number of words that
# take as long: a line of code is read more slowly than a line of text, a formula more slowly than its length suggests,
# and a picture takes a moment. URLs, attributes and comments are not counted.


CODE_LINE = 8  # words per line of code
FORMULA = 4  # words per inline formula
EQUATION = 16  # words per displayed formula, and per further row of it
PICTURE = 30


def words_to_read(text: str) -> int:
    """Return the number of words of a text, including the equivalents of code, formulas and pictures.

    >>> words_to_read("Leaves are [green](https://example.org/a-long-address)."), words_to_read("$x$ and $$x = y$$")
    (3, 21)
    >>> words_to_read("```r\\nx <- 1\\n\\nplot(x)\\n```")
    16
    """
    counted = 0

    def count(span: Span) -> str | None:
        nonlocal counted
        worth = _WORTH.get(span.kind)
        counted += worth(span) if worth else 0
        if span.kind in ("link", "image") and span.text != span.target:
            return WORDS
        return " " if span.kind in _NO_WORDS or worth else None

    words = replace_spans(text, count).replace("|", " ").split()
    read = (w for w in words if any(map(str.isalnum, w)) and not w.startswith(("http://", "https://")))
    return counted + count_words(" ".join(read))


_NO_WORDS = ("comment", "html", "attributes", "definition", "shortcode", "link")
_WORTH: Mapping[str, Callable[[Span], int]] = {
    "code": lambda span: max(1, count_words(span.text)),
    "code_block": lambda span: CODE_LINE * sum(bool(line.strip()) for line in span.text.splitlines()),
    "math": lambda span: EQUATION * (1 + span.text.count(r"\\")) if span.target == "display" else FORMULA,
    "image": lambda span: PICTURE,
}


def minutes_to_read(words: int, words_per_minute: int) -> int:
    """Return whole minutes, at least one if there is anything to read.

    >>> minutes_to_read(0, 200), minutes_to_read(10, 200), minutes_to_read(500, 200)
    (0, 1, 3)
    """
    return math.floor(words / words_per_minute + 0.5) or min(words, 1)


# -- requirements ----------------------------------------------------------------------------------


KEYS = ("prerequisites", "requires")


@dataclass(slots=True)
class Unit:
    """A section to be ordered: its heading (the root for text above the first one), its texts, its headings (its own
    first, then the deeper ones), and the section above it."""

    document: StudyDocument
    heading: Heading
    texts: list[TextItem]
    headings: list[Heading]
    above: Unit | None

    @property
    def name(self) -> str:
        """The numbered title of the section."""
        return named(self.document.number(self.heading), self.heading.title or self.document.title)

    @property
    def place(self) -> str:
        """The file and line of the section."""
        return f"{self.document.file}:{self.heading.line if self.heading.level else 1}"

    def is_in(self, other: Unit) -> bool:
        """Return whether this is `other`, or a part of it."""
        unit: Unit | None = self
        while unit is not None and unit is not other:
            unit = unit.above
        return unit is other


@dataclass(frozen=True, slots=True)
class Required:
    """The requirements of a unit: the units that it names, by number; all units that must precede it; names that are
    not in the course; ambiguous names."""

    named: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    elsewhere: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def _required(unit: Unit, units: Sequence[Unit], numbers: Mapping[int, int]) -> Required:
    """Return the requirements of a unit and of the deeper sections in it."""
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
            yield from texts_of(own.get(key))


def _find(name: str, unit: Unit, units: Sequence[Unit]) -> list[int]:
    """Return the units that a name refers to: a document, else a section of this document, else one of any."""
    document, _, section = name.partition("#")
    documents = [
        i
        for i, u in enumerate(units)
        if u.above is None and is_called(document, u.document.id, u.document.file, u.document.title)
    ]
    if "#" in name and section.strip():
        inside = [i for i, u in enumerate(units) if any(u.document is units[d].document for d in documents)]
        return _sections(section, inside or [i for i, u in enumerate(units) if u.document is unit.document], units)
    if documents:
        return documents
    own = [i for i, u in enumerate(units) if u.document is unit.document and u is not unit]
    return _sections(name, own, units) or _sections(name, range(len(units)), units)


def _sections(name: str, among: Sequence[int] | range, units: Sequence[Unit]) -> list[int]:
    wanted = name.strip().casefold()
    return [i for i in among if any(wanted in (h.title.casefold(), anchor_of(h)) for h in units[i].headings if h.level)]


# -- order -----------------------------------------------------------------------------------------


def in_reading_order(units: Sequence[Unit], required: Sequence[Required]) -> tuple[list[int], list[str]]:
    """Return the numbers of the units in reading order, and messages about circles, where one requirement is ignored.

    Every unit is as early as its place in the files allows, after those that it requires.
    """
    done, skipped = dict[int, None](), set[tuple[int, int]]()
    circles: dict[frozenset[str], str] = {}
    for start in range(len(units)):
        path = [start] if start not in done else []
        while path:
            unit = path[-1]
            waiting = [i for i in sorted(required[unit].before) if i not in done and (unit, i) not in skipped]
            if not waiting:
                done[path.pop()] = None
            elif waiting[0] in path:
                names = [units[i].name for i in (*path[path.index(waiting[0]) :], waiting[0])]
                names = [name for name, before in zip(names, (None, *names), strict=False) if name != before]
                circles.setdefault(frozenset(names), f"{units[unit].place}: {_circle_text(names)}")
                skipped.add((unit, waiting[0]))
            else:
                path.append(waiting[0])
    return list(done), list(circles.values())


def _circle_text(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]!r} requires itself"
    return f"sections require each other in a circle: {' > '.join(map(repr, names))}"


# -- the plan --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StudyStep:
    """A section to read, with its subsections.

    `words` counts what is read (see `words_to_read`), without special material, which `material` counts by type.
    `requires` are preceding sections of the plan, `beforehand` requirements that are not in the course.
    """

    title: str
    level: int
    headings: tuple[str, ...]
    document: str
    file: str
    line: int
    words: int
    minutes: int
    summary: str = ""
    requires: tuple[str, ...] = ()
    beforehand: tuple[str, ...] = ()
    material: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Steps in order. `minutes` is their total time; `problems` are circular or ambiguous requirements."""

    steps: tuple[StudyStep, ...]
    words_per_minute: int
    words: int
    minutes: int
    problems: tuple[str, ...] = ()


def study_plan(
    documents: Iterable[StudyDocument],
    *,
    depth: int = 2,
    words_per_minute: int = 200,
    keep: Collection[str] = (),
    exercises: Sequence[str] = ("exercise",),
    solutions: Collection[str] = ("solution",),
) -> StudyPlan:
    """Return the study plan of some documents, a step for each section down to level `depth`.

    `keep` are types of material that are read with the text; `exercises` are counted as `find_exercises` finds them.

    >>> from lmm_education.study.study_documents import study_document
    >>> later = study_document("---\\nprerequisites: Leaves\\n---\\n# Trees\\n\\nOaks.\\n", file="a.md")
    >>> plan = study_plan([later, study_document("# Leaves\\n\\nGreen.\\n", file="b.md")])
    >>> [(step.title, step.minutes, step.requires) for step in plan.steps]
    [('Leaves', 1, ()), ('Trees', 1, ('Leaves',))]
    """
    documents = list(documents)
    units = [unit for document in documents for unit in _units(document, depth)]
    numbers = {id(unit): number for number, unit in enumerate(units)}
    required = [_required(unit, units, numbers) for unit in units]
    order, circles = in_reading_order(units, required)
    made = [_step(unit, each, units, words_per_minute, keep) for unit, each in zip(units, required, strict=True)]
    if counted := [kind for kind in exercises if not is_one_of(kind, keep)]:
        found = find_exercises(documents, kinds=counted, solutions=solutions)
        places = Counter(_unit_of(each, units) for each in found)
        before, made = (
            made,
            [
                replace(step, material=_with_exercises(step, places[i], counted, solutions))
                for i, step in enumerate(made)
            ],
        )
        solved = {i for i, step in enumerate(made) if before[i].material and not (step.material or step.words)}
        order = [i for i in order if i not in solved]
    steps = tuple(step for i in order if (step := _shown(i, made)) is not None)
    words = sum(step.words for step in steps)
    problems = (*circles, *(problem for each in required for problem in each.problems))
    return StudyPlan(steps, words_per_minute, words, minutes_to_read(words, words_per_minute), problems)


def _shown(number: int, steps: Sequence[StudyStep]) -> StudyStep | None:
    """Return a step as it is shown: a document without text above its first heading is described at that heading."""
    step, before = steps[number], steps[number - 1] if number else None
    if _is_bare(step):
        return None
    if before is None or before.file != step.file or not _is_bare(before):
        return step
    return replace(
        step,
        summary=step.summary or before.summary,
        requires=tuple(dict.fromkeys((*before.requires, *step.requires))),
        beforehand=tuple(dict.fromkeys((*before.beforehand, *step.beforehand))),
    )


def _is_bare(step: StudyStep) -> bool:
    return step.level == 0 and not step.words and not step.material


def _units(document: StudyDocument, depth: int) -> list[Unit]:
    """Split a document at its headings down to level `depth`."""
    units = [Unit(document, document.outline.root, [], [document.outline.root], None)]
    above = [0]
    for item in document.outline.items:
        if isinstance(item, Heading) and item.level <= depth:
            while units[above[-1]].heading.level >= item.level:
                above.pop()
            above.append(len(units))
            units.append(Unit(document, item, [], [item], units[above[-2]]))
        elif isinstance(item, Heading):
            units[-1].headings.append(item)
        else:
            units[-1].texts.append(item)
    return units


def _step(unit: Unit, required: Required, units: Sequence[Unit], pace: int, keep: Collection[str]) -> StudyStep:
    words = sum(words_to_read(text.text) for text in unit.texts if not is_special(type_of(text), keep))
    others = [text for text in unit.texts if is_special(type_of(text), keep)]
    summary = unit.heading.own.get("summary")
    return StudyStep(
        title=unit.name,
        level=unit.heading.level,
        headings=unit.heading.path,
        document=named(unit.document.numbers.get(0, ""), unit.document.title),
        file=unit.document.file,
        line=unit.heading.line if unit.heading.level else 1,
        words=words,
        minutes=minutes_to_read(words, pace),
        summary=" ".join(map(str, summary)) if isinstance(summary, list) else str(summary or ""),
        requires=tuple(dict.fromkeys(units[i].name for i in required.named)),
        beforehand=required.elsewhere,
        material=_counted(others),
    )


def _unit_of(exercise: Exercise, units: Sequence[Unit]) -> int:
    """Return the number of the unit that an exercise is in."""
    return max(
        (i for i, u in enumerate(units) if u.document.file == exercise.file and u.heading.line <= exercise.line),
        key=lambda i: (units[i].heading.line, i),
    )


def _with_exercises(step: StudyStep, number: int, kinds: Sequence[str], solutions: Collection[str]) -> dict[str, int]:
    others = {kind: count for kind, count in step.material.items() if not is_one_of(kind, (*kinds, *solutions))}
    return others | ({kinds[0]: number} if number else {})


def _counted(texts: Iterable[TextItem]) -> dict[str, int]:
    """Count the material of each type; texts that have their type from one place count as one."""
    owners = {text.owner or text.heading.line: type_of(text) for text in texts}
    return dict(Counter(owners.values()))


# -- output formats --------------------------------------------------------------------------------


def time_text(minutes: int) -> str:
    """Return minutes as readable text.

    >>> time_text(7), time_text(60), time_text(135)
    ('7 min', '1 h', '2 h 15 min')
    """
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])


def by_document(plan: StudyPlan) -> Iterator[tuple[list[StudyStep], int]]:
    """Iterate over the steps of each document that follow each other, with the minutes to read them together."""
    for _, steps in groupby(plan.steps, key=lambda step: (step.document, step.file)):
        held = list(steps)
        yield held, minutes_to_read(sum(step.words for step in held), plan.words_per_minute)


def plan_as_markdown(plan: StudyPlan) -> str:
    """Return the plan as markdown: a heading for each document, its sections as a list."""
    time = f"about {time_text(plan.minutes)} to read, at {plan.words_per_minute} words a minute"
    parts = ["# Study plan", f"{count(len(plan.steps), 'section')}, {time}."]
    before = tuple(dict.fromkeys(name for step in plan.steps for name in step.beforehand))
    if before:
        parts.append(f"Before you begin: {', '.join(before)}.")
    for steps, minutes in by_document(plan):
        parts.append(f"## {steps[0].document} ({steps[0].file}, {time_text(minutes)})")
        top = min(step.level for step in steps)
        parts.append("\n".join(_line(step, top) for step in steps))
    return "\n\n".join(parts) + "\n"


def _line(step: StudyStep, top: int) -> str:
    indent = "  " * (step.level - top)
    about = [time_text(step.minutes)] if step.words else []
    about += [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in step.material.items()]
    lines = [f"{indent}- [ ] {step.title}" + (f" ({', '.join(about)})" if about else "")]
    if step.requires:
        lines.append(f"{indent}  *After:* {', '.join(step.requires)}.")
    if step.summary:
        lines.append(f"{indent}  {' '.join(step.summary.split())}")
    return "\\\n".join(lines)


def plan_as_values(plan: StudyPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    about = {"words_per_minute": plan.words_per_minute, "words": plan.words, "minutes": plan.minutes}
    return about | {"steps": [asdict(step) for step in plan.steps], "problems": list(plan.problems)}
