"""The exercises of documents, by section, each with its solution if there is one.

Which texts are exercises and solutions is decided in `ingestion.outline.stretches`. A section of exercises is one
exercise, or one for each subheading and each list item. An exercise's solution is ``solution:`` in its metadata, or the
texts of type ``solution`` that follow, where the items of a list are matched with as many exercises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

import msgspec

from lmm.markdown.spans import spans
from lmm.markdown.units import ITEM
from lmm.notebook.text_types import label_of
from lmm.terminal import clipped
from lmm.type_names import is_one_of, named_type
from lmm_education.ingestion.outline import Heading, Item, TextItem
from lmm_education.study.cards import card_id
from lmm_education.study.study_documents import StudyDocument, texts_of

_SOLUTION = "solution"


@dataclass(frozen=True, slots=True)
class Exercise:
    """An exercise: its number in the document, its text and solution (empty if there is none) as markdown.

    `headings` are those of the section that it belongs to; `title` is its own heading, if it has one. `choices` are
    answers to choose from, `tolerance` how far a number may be from the solution. `id` is that of the metadata, else it
    stays the same as long as the text does.
    """

    number: int
    type: str
    text: str
    solution: str
    document: str
    file: str
    line: int
    headings: tuple[str, ...]
    title: str = ""
    choices: tuple[str, ...] = ()
    tolerance: str = ""
    id: str = ""

    def __repr__(self) -> str:
        return f"Exercise({self.name!r}, {f'{self.file}:{self.line}'!r}, {clipped(self.text, 60)!r})"

    @property
    def name(self) -> str:
        """The title, after the number unless the title has one.

        >>> [Exercise(2, "exercise", "", "", "", "", 1, (), title).name for title in ("Exercise 4", "Leaves", "")]
        ['Exercise 4', '2 Leaves', '2']
        """
        return self.title if _NUMBERED.match(self.title) else f"{self.number} {self.title}".rstrip()


_NUMBERED = re.compile(r"(?:[^\W\d]+\.? )?\(?\d")


def find_exercises(
    documents: Iterable[StudyDocument],
    *,
    kinds: Collection[str] = ("exercise",),
    solutions: Collection[str] = ("solution",),
) -> list[Exercise]:
    """Return the exercises in the order of the documents; with other `kinds`, the texts of those types.

    >>> from lmm_education.study.study_documents import study_document
    >>> text = "# A\\n\\n---\\ntype: exercise\\n---\\nWhy?\\n\\n---\\ntype: solution\\n---\\nBecause.\\n"
    >>> [(e.number, e.text, e.solution) for e in find_exercises([study_document(text, file="a.md")])]
    [(1, 'Why?', 'Because.')]
    """
    return [exercise for document in documents for exercise in _in(document, kinds, solutions)]


def _in(document: StudyDocument, kinds: Collection[str], solutions: Collection[str]) -> list[Exercise]:
    found: list[Exercise] = []
    last: object = None
    listed = 1  # how many of the last exercises are items under one heading
    for source, run in groupby(_owned(document), key=lambda each: _source(each[0])):
        owned = list(run)
        owner, first, kind = owned[0]
        is_list = isinstance(owner, Heading) and bool(owner.level and named_type(owner.title, [kind], plural=True))
        pieces = _items([text for _, text, _ in owned], is_list)
        if is_one_of(kind, solutions) and found:
            parts = pieces if len(pieces) == listed else [("\n\n".join(text for text, _ in pieces), 0)]
            for at, (text, _) in enumerate(parts, len(found) - len(parts)):
                found[at] = replace(found[at], solution=_join(found[at].solution, text))
        elif is_one_of(kind, kinds):
            is_next = is_list and bool(found and found[-1].solution) and pieces[0][0][:1].isdigit()
            if source != last:
                exercise, listed = _exercise(document, len(found) + 1, kind, owner, first), len(pieces)
                found.append(replace(exercise, text=pieces.pop(0)[0]))
            elif is_next:  # the next items of a list with solutions in between
                listed = len(pieces)
            else:  # another text of the same stretch, or under the same heading
                found[-1] = replace(found[-1], text=_join(found[-1].text, pieces.pop(0)[0]))
            for text, line in pieces:
                bare = replace(found[-1], title="", solution="", choices=(), tolerance="", id="")
                found.append(replace(bare, number=len(found) + 1, text=text, line=line))
            last = source
    texts = Counter[str]()
    for at, each in enumerate(found):
        texts.update([identity := each.id or each.text])
        found[at] = replace(each, id=card_id(document.id, identity, texts[identity]))
    return found


# Pandoc reads "1\." as text, but some books number their exercises in this way.
_ITEM = re.compile(rf"^(?! )(?:(?P<number>\(?(?:\d+|[#@][\w-]*)\\?[.)](?!\S))|(?={ITEM.pattern}))", re.MULTILINE)


def _items(texts: Sequence[TextItem], is_list: bool) -> list[tuple[str, int]]:
    """Return texts as one, or split where list items begin, each with its line; text above the list joins the first.

    If there are numbers, letters and bullets are taken as the choices of an exercise.
    """
    markers = [_markers(text.text) if is_list else [] for text in texts]
    numbered = any(marker["number"] for each in markers for marker in each)
    found: list[tuple[str, int]] = []
    begun = False
    for text, each in zip(texts, markers, strict=True):
        starts = [marker.start() for marker in each if bool(marker["number"]) == numbered]
        for start, end in pairwise([*sorted({0, *starts}), len(text.text)]):
            piece, line = text.text[start:end].strip("\n"), text.lines.first + text.text.count("\n", 0, start)
            if found and not (begun and start in starts):
                found[-1] = (_join(found[-1][0], piece), found[-1][1])
            else:
                found.append((piece, line))
            begun = begun or start in starts
    return found


def _markers(text: str) -> list[re.Match[str]]:
    """Return the list markers at the beginning of lines, outside of code, formulas and comments."""
    opaque = [span for span in spans(text, in_list=True) if span.kind in ("code_block", "math", "comment", "raw")]
    return [found for found in _ITEM.finditer(text) if not any(s.start < found.start() < s.end for s in opaque)]


def _source(owner: Item) -> tuple[str, int]:
    """Return a key that distinguishes exercises."""
    return ("stretch", owner.owner) if isinstance(owner, TextItem) and owner.owner else ("itself", id(owner))


def _owned(document: StudyDocument) -> Iterator[tuple[Item, TextItem, str]]:
    """Iterate over what makes each text an exercise (itself, or a heading above it), the text, and its type."""
    above = [document.outline.root]
    for item in document.outline.items:
        if isinstance(item, Heading):
            while above[-1].level >= item.level:
                del above[-1]
            above.append(item)
            continue
        typed = max((i for i, heading in enumerate(above) if heading.own.get("type")), default=0)
        owner = item if item.own.get("type") else above[min(typed + 1, len(above) - 1)]
        yield owner, item, item.type


def _exercise(document: StudyDocument, number: int, kind: str, owner: Item, first: TextItem) -> Exercise:
    headings, title, line = first.heading.path, "", first.lines.first
    if isinstance(owner, Heading) and owner.level:
        headings, title, line = owner.path[:-1], owner.title, owner.line

    def value(key: str) -> Any:
        return owner.own.get(key) or first.own.get(key) or None

    solution = "\n\n".join(texts_of(value(_SOLUTION)))
    return Exercise(
        number=number,
        type=kind,
        text=first.text,
        solution=solution,
        document=document.title,
        file=document.file,
        line=line,
        headings=headings,
        title=title,
        choices=tuple(map(str, value("choices") if isinstance(value("choices"), list) else texts_of(value("choices")))),
        tolerance="".join(texts_of(value("tolerance"))),
        id="".join(texts_of(value("id"))),
    )


def _join(one: str, other: str) -> str:
    return f"{one}\n\n{other}" if one else other


# -- output formats --------------------------------------------------------------------------------


def exercises_as_markdown(exercises: Sequence[Exercise], *, solutions: bool = False) -> str:
    """Return a worksheet: a heading for each document and section, with the exercises below.

    >>> exercise = Exercise(1, "exercise", "Why green?", "", "Leaves", "a.md", 5, ("Colour",))
    >>> print(exercises_as_markdown([exercise]).replace("\\n\\n", "\\n"), end="")
    # Leaves
    ## Colour
    ### 1
    Why green?
    """
    parts: list[str] = []
    for (title, _), of_document in groupby(exercises, key=lambda e: (e.document, e.file)):
        parts.append(f"# {title}")
        for headings, in_section in groupby(of_document, key=lambda e: e.headings):
            parts += [f"## {' › '.join(headings)}"] if headings else []
            for exercise in in_section:
                shown = with_choices(exercise.text, exercise.choices)
                parts += [f"### {exercise.name}", shown]
                if solutions and exercise.solution:
                    label = label_of(
                        exercise.solution.partition("\n\n")[0], ["solution"]
                    )  # or the name of an environment
                    is_named = label is not None and (label.type or label.is_emphasized)
                    parts.append(exercise.solution if is_named else f"**Solution.** {exercise.solution}")
    return "\n\n".join(parts) + ("\n" if parts else "")


def with_choices(text: str, choices: Sequence[str]) -> str:
    """Return the text of an exercise with the answers to choose from.

    >>> with_choices("Which?", ["a", "b"])
    'Which?\\n\\n- a\\n- b'
    """
    return "\n\n".join(filter(None, (text, "\n".join(f"- {choice}" for choice in choices))))


def right_choices(choices: Sequence[str], answer: str) -> list[str]:
    """Return the paragraphs of a solution, or of an answer, that are choices.

    >>> right_choices(["Red", "Green"], "green\\n\\nChlorophyll does it.")
    ['green']
    """
    known = set(map(folded, choices))
    return [part for part in answer.split("\n\n") if folded(part) in known]


def folded(text: str) -> str:
    """Return a choice as it is compared."""
    return " ".join(text.split()).casefold()


def exercises_as_values(exercises: Iterable[Exercise], *, solutions: bool = False) -> list[dict[str, Any]]:
    """Return the exercises as plain values."""
    return [_values(exercise, solutions) for exercise in exercises]


def _values(exercise: Exercise, solutions: bool) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(exercise)
    solution, tolerance = values.pop("solution"), values.pop("tolerance")
    values |= {"has_solution": bool(solution)}
    return values | ({"solution": solution, "tolerance": tolerance} if solutions else {})
