"""A study plan: the sections of documents in the order in which to read them, with what helps to decide.

Sections come in the order of the files, each after what it requires: ``prerequisites:`` (or ``requires:``) in
the metadata of a document or a heading names documents by docid, file or title, and sections by title, id or
``document#section``. What no document of the course is called is asked for before one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from lmm_education.ingestion.outline import Heading, Text
from lmm_education.study.material import StudyDocument, is_special, type_of
from lmm_education.study.prerequisites import Required, Unit, find_prerequisites, in_reading_order
from lmm_education.study.reading_time import minutes_to_read, words_to_read


@dataclass(frozen=True, slots=True)
class Step:
    """A section to read, with the deeper ones in it.

    `words` counts what is read (see `reading_time`), without special material, which `material` counts by
    type. `requires` are sections of the plan that come before, `beforehand` what is not in the course.
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
class Plan:
    """Steps in order. `minutes` is the time for all of them; `problems` are circular or ambiguous requirements."""

    steps: tuple[Step, ...]
    words_per_minute: int
    words: int
    minutes: int
    problems: tuple[str, ...] = ()


def study_plan(
    documents: Iterable[StudyDocument], *, depth: int = 2, words_per_minute: int = 200, keep: Collection[str] = ()
) -> Plan:
    """The plan of some documents, a step for each section down to level `depth`.

    `keep` are types of material that are read with the text.

    >>> from lmm_education.study.material import study_document
    >>> later = study_document("---\\nprerequisites: Leaves\\n---\\n# Trees\\n\\nOaks.\\n", file="a.md")
    >>> plan = study_plan([later, study_document("# Leaves\\n\\nGreen.\\n", file="b.md")])
    >>> [(step.title, step.minutes, step.requires) for step in plan.steps]
    [('Leaves', 1, ()), ('Trees', 1, ('Leaves',))]
    """
    documents = list(documents)
    units = [unit for document in documents for unit in _units(document, depth)]
    required = find_prerequisites(documents, units)
    order, circles = in_reading_order(units, required)
    made = [_step(unit, each, units, words_per_minute, keep) for unit, each in zip(units, required, strict=True)]
    steps = tuple(step for i in order if (step := _shown(i, made)) is not None)
    words = sum(step.words for step in steps)
    problems = (*circles, *(problem for each in required for problem in each.problems))
    return Plan(steps, words_per_minute, words, minutes_to_read(words, words_per_minute), problems)


def _shown(number: int, steps: Sequence[Step]) -> Step | None:
    """A step as it is shown: a document without a text above its first heading is told of at that heading."""
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


def _is_bare(step: Step) -> bool:
    return step.level == 0 and not step.words and not step.material


def _units(document: StudyDocument, depth: int) -> list[Unit]:
    """A document cut at its headings down to level `depth`."""
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


def _step(unit: Unit, required: Required, units: Sequence[Unit], pace: int, keep: Collection[str]) -> Step:
    read = [text for text in unit.texts if not is_special(type_of(text), keep)]
    words = sum(words_to_read(text.text) for text in read)
    others: list[Text] = [text for text in unit.texts if is_special(type_of(text), keep)]
    summary = unit.heading.own.get("summary")
    return Step(
        title=unit.heading.title or unit.document.title,
        level=unit.heading.level,
        headings=unit.heading.path,
        document=unit.document.title,
        file=unit.document.file,
        line=unit.heading.line if unit.heading.level else 1,
        words=words,
        minutes=minutes_to_read(words, pace),
        summary=" ".join(map(str, summary)) if isinstance(summary, list) else str(summary or ""),
        requires=tuple(dict.fromkeys(units[i].name for i in required.named)),
        beforehand=required.elsewhere,
        material=_counted(others),
    )


def _counted(texts: Iterable[Text]) -> dict[str, int]:
    """How much there is of each type; all that has its type from one heading is one."""
    owners = {id(text) if text.own.get("type") else text.heading.line: type_of(text) for text in texts}
    return dict(Counter(owners.values()))


# -- ways to write it ------------------------------------------------------------------------------


def time_text(minutes: int) -> str:
    """Minutes for people.

    >>> time_text(7), time_text(60), time_text(135)
    ('7 min', '1 h', '2 h 15 min')
    """
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])


def plan_as_markdown(plan: Plan) -> str:
    """The plan, a heading for each document, its sections as a list."""
    time = f"about {time_text(plan.minutes)} to read, at {plan.words_per_minute} words a minute"
    parts = ["# Study plan", f"{len(plan.steps)} sections, {time}."]
    before = tuple(dict.fromkeys(name for step in plan.steps for name in step.beforehand))
    if before:
        parts.append(f"Before you begin: {', '.join(before)}.")
    for (title, file), steps in groupby(plan.steps, key=lambda step: (step.document, step.file)):
        held = list(steps)
        minutes = minutes_to_read(sum(step.words for step in held), plan.words_per_minute)
        parts.append(f"## {title} ({file}, {time_text(minutes)})")
        top = min(step.level for step in held)
        parts.append("\n".join(_line(step, top) for step in held))
    return "\n\n".join(parts) + "\n"


def _line(step: Step, top: int) -> str:
    indent = "  " * (step.level - top)
    about = [time_text(step.minutes)] if step.words else []
    about += [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in step.material.items()]
    lines = [f"{indent}- [ ] {step.title}" + (f" ({', '.join(about)})" if about else "")]
    if step.requires:
        lines.append(f"{indent}  *After:* {', '.join(step.requires)}.")
    if step.summary:
        lines.append(f"{indent}  {' '.join(step.summary.split())}")
    return "\\\n".join(lines)


def plan_as_values(plan: Plan) -> dict[str, Any]:
    """As JSON holds it."""
    steps = [
        {
            "title": step.title,
            "level": step.level,
            "headings": list(step.headings),
            "document": step.document,
            "file": step.file,
            "line": step.line,
            "words": step.words,
            "minutes": step.minutes,
            "summary": step.summary,
            "requires": list(step.requires),
            "beforehand": list(step.beforehand),
            "material": step.material,
        }
        for step in plan.steps
    ]
    about = {"words_per_minute": plan.words_per_minute, "words": plan.words, "minutes": plan.minutes}
    return about | {"steps": steps, "problems": list(plan.problems)}
