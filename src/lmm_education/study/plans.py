"""A study plan: the sections of documents in the order of the files, with reading times, and with the prerequisites
that ``prerequisites:`` (or ``requires:``) in the metadata of a document or a heading names.
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
from lmm.type_names import is_one_of
from lmm_education.ingestion.outline import Heading, TextItem
from lmm_education.material import is_called, named
from lmm_education.study.exercises import Exercise, find_exercises
from lmm_education.study.study_documents import StudyDocument, is_special, texts_of

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


# -- the plan --------------------------------------------------------------------------------------


KEYS = ("prerequisites", "requires")


@dataclass(slots=True)
class Unit:
    """A section: its heading (the root for text above the first one), its texts, and its headings (its own first, then
    the deeper ones)."""

    document: StudyDocument
    heading: Heading
    texts: list[TextItem]
    headings: list[Heading]


@dataclass(frozen=True, slots=True)
class StudyStep:
    """A section to read, with its subsections.

    `words` counts what is read (see `words_to_read`), without special material, which `material` counts by type.
    `requires` are its prerequisites, documents of the course by their titles.
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
    material: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class StudyPlan:
    """Steps in order. `minutes` is their total time."""

    steps: tuple[StudyStep, ...]
    words_per_minute: int
    words: int
    minutes: int

    def __repr__(self) -> str:
        return f"StudyPlan({count(len(self.steps), 'step')}, {time_text(self.minutes)})"

    def _repr_markdown_(self) -> str:
        """Return the plan, as a notebook shows it."""
        return plan_as_markdown(self)


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
    >>> later = study_document("---\\nprerequisites: leaves\\n---\\n# Trees\\n\\nOaks.\\n", file="b.md")
    >>> plan = study_plan([study_document("# Leaves\\n\\nGreen.\\n", file="a.md"), later])
    >>> [(step.title, step.minutes, step.requires) for step in plan.steps]
    [('Leaves', 1, ()), ('Trees', 1, ('Leaves',))]
    """
    documents = list(documents)
    units = [unit for document in documents for unit in _units(document, depth)]
    made, solved = [_step(unit, documents, words_per_minute, keep) for unit in units], set[int]()
    if counted := [kind for kind in exercises if not is_one_of(kind, keep)]:
        found = find_exercises(documents, kinds=counted, solutions=solutions)
        places = Counter(_unit_of(each, units) for each in found)
        for i, step in enumerate(made):
            others = {k: n for k, n in step.material.items() if not is_one_of(k, (*counted, *solutions))}
            material = others | ({counted[0]: places[i]} if places[i] else {})
            solved |= {i} if step.material and not (material or step.words) else set()
            made[i] = replace(step, material=material)
    steps = tuple(shown for i in range(len(made)) if i not in solved and (shown := _shown(i, made)))
    words = sum(step.words for step in steps)
    return StudyPlan(steps, words_per_minute, words, minutes_to_read(words, words_per_minute))


def _shown(number: int, steps: Sequence[StudyStep]) -> StudyStep | None:
    """Return a step as it is shown: a document without text above its first heading is described at that heading."""
    step, before = steps[number], steps[number - 1] if number else None
    if _is_bare(step):
        return None
    if before is None or before.file != step.file or not _is_bare(before):
        return step
    requires = tuple(dict.fromkeys((*before.requires, *step.requires)))
    return replace(step, summary=step.summary or before.summary, requires=requires)


def _is_bare(step: StudyStep) -> bool:
    return step.level == 0 and not step.words and not step.material


def _units(document: StudyDocument, depth: int) -> list[Unit]:
    """Split a document at its headings down to level `depth`, counted from its own top level."""
    units = [Unit(document, document.outline.root, [], [document.outline.root])]
    deepest = depth - 1 + min((item.level for item in document.outline.items if isinstance(item, Heading)), default=1)
    for item in document.outline.items:
        if isinstance(item, Heading) and item.level <= deepest:
            units.append(Unit(document, item, [], [item]))
        elif isinstance(item, Heading):
            units[-1].headings.append(item)
        else:
            units[-1].texts.append(item)
    return units


def _step(unit: Unit, documents: Sequence[StudyDocument], pace: int, keep: Collection[str]) -> StudyStep:
    words = sum(words_to_read(text.text) for text in unit.texts if not is_special(text.type, keep))
    others = [text for text in unit.texts if is_special(text.type, keep)]
    summary = unit.heading.own.get("summary")
    owned = (*(heading.own for heading in unit.headings), *(text.own for text in unit.texts))
    names = [name for own in owned for key in KEYS for name in texts_of(own.get(key))]
    titles = [next((d.title for d in documents if is_called(name, d.id, d.file, d.title)), name) for name in names]
    return StudyStep(
        title=named(unit.document.number(unit.heading), unit.heading.title or unit.document.title),
        level=unit.heading.level,
        headings=unit.heading.path,
        document=named(unit.document.number(unit.document.outline.root), unit.document.title),
        file=unit.document.file,
        line=unit.heading.line if unit.heading.level else 1,
        words=words,
        minutes=minutes_to_read(words, pace),
        summary=" ".join(map(str, summary)) if isinstance(summary, list) else str(summary or ""),
        requires=tuple(dict.fromkeys(titles)),
        # texts that have their type from one place count as one
        material=dict(Counter({text.owner or text.heading.line: text.type for text in others}.values())),
    )


def _unit_of(exercise: Exercise, units: Sequence[Unit]) -> int:
    """Return the number of the unit that an exercise is in."""
    return max(
        (i for i, u in enumerate(units) if u.document.file == exercise.file and u.heading.line <= exercise.line),
        key=lambda i: (units[i].heading.line, i),
    )


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
    parts = ["# Study plan", f"{count(len(plan.steps), 'step')}, {time}."]
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
    return about | {"steps": [asdict(step) for step in plan.steps]}
