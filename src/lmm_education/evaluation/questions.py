"""Question files: JSON lines or CSV; each row is a question with what is known about the place of its answer.

A row has ``question`` and any of ``document``, ``section``, ``passage``, ``answers``, ``facts``. A row whose document
is empty, ``null`` or ``none``, without other fields, is a question that the course does not answer.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lmm.disk.files import read_document
from lmm.errors import ConfigError, LmmError
from lmm.terminal import count


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what is known about the place of its answer; all fields except the text may be empty.

    `document` is a document's id, file or title. `section` is a heading, or a path of headings, outermost first. Each
    of `passages` answers the question by itself, and so does a text that contains one of `answers`. An answer is right
    if it contains one of `answers`, and all of `facts`. `where` is the row's path:line. For an `unanswerable` question,
    no document is right.
    """

    text: str
    where: str = ""
    document: str = ""
    section: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    unanswerable: bool = False

    @property
    def gold(self) -> dict[str, Any]:
        """The data about its answer, as in a row."""
        texts = {"section": self.section, "passage": self.passages, "answers": self.answers, "facts": self.facts}
        return {"document": self.document} | {name: list(value) for name, value in texts.items()}


class BadRow(NamedTuple):
    """A row that cannot be used, shown as ``path:line: message``."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


FIELDS = ("question", "document", "section", "passage", "answers", "facts")
_NOTHING = ("", "none", "null")
_CSV_LIST = "|"

Row = tuple[int, Mapping[str, Any] | str]
"""A line number, and the row that begins there, or an error message."""


def parse_questions(text: str, kind: str, *, name: str) -> tuple[list[Question], list[BadRow]]:
    """Parse the text of a question file; return the questions, and the invalid rows. `kind` is a suffix in `READERS`.

    >>> rows = '{"question": "Why?", "document": "a.md"}\\n{"question": "Why not?"}\\n'
    >>> good, bad = parse_questions(rows, ".jsonl", name="q.jsonl")
    >>> [(question.text, question.where, question.document) for question in good]
    [('Why?', 'q.jsonl:1', 'a.md')]
    >>> print(bad[0])
    q.jsonl:2: this row does not say where the answer is; add one of document, section, passage, answers, facts
    """
    questions: list[Question] = []
    problems: list[BadRow] = []
    for line, row in READERS[kind](text.removeprefix("\ufeff")):
        where = f"{name}:{line}"
        made = row if isinstance(row, str) else _question(row, where)
        if isinstance(made, str):
            problems.append(BadRow(where, made))
        else:
            questions.append(made)
    if not questions and not problems:
        problems.append(BadRow(f"{name}:1", "this file has no questions"))
    return questions, problems


def _question(row: Mapping[str, Any], where: str) -> Question | str:
    """Return the question of a row, or an error message."""
    fields = {name: value for key, value in row.items() if (name := str(key).strip().casefold()) in FIELDS}
    wrong = [name for name, value in fields.items() if not _is_text(value, many=name not in ("question", "document"))]
    if wrong:
        return f"'{wrong[0]}' must be text{'' if wrong[0] in ('question', 'document') else ', or a list of texts'}"
    text = _text(fields.get("question"))
    if not text:
        known = ", ".join(map(str, row)) or "nothing"
        none = f"a row needs 'question'; this one has {known}"
        return "this row has no question" if "question" in fields else none
    document = _text(fields.get("document"))
    section, passages, answers, facts = (
        _texts(fields.get(name)) for name in ("section", "passage", "answers", "facts")
    )
    empty = document.casefold() in _NOTHING
    if empty and not (section or passages or answers or facts):
        if "document" in fields:
            return Question(text, where, unanswerable=True)
        return "this row does not say where the answer is; add one of document, section, passage, answers, facts"
    return Question(
        text=text,
        where=where,
        document="" if empty else document,
        section=_path(section),
        passages=passages,
        answers=answers,
        facts=facts,
    )


def _is_text(value: Any, *, many: bool) -> bool:
    """Return whether a value is text; numbers count as text, since an answer may be a year."""
    if many and isinstance(value, list):
        return all(_is_text(item, many=False) for item in value)
    return value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(text for text in map(_text, items) if text)


def _path(section: tuple[str, ...]) -> tuple[str, ...]:
    """Split a path of headings that is written as one text, with `` > `` between them."""
    if len(section) != 1:
        return section
    return tuple(part.strip() for part in section[0].split(" > ") if part.strip())


# -- file formats ----------------------------------------------------------------------------------


def _jsonl(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, f"not JSON: {getattr(error, 'msg', error)}"
            continue
        yield number, value if isinstance(value, dict) else "a line must be a JSON object"


def _csv(text: str) -> Iterator[Row]:
    """Iterate over rows of CSV: the first row names the columns; ``|`` separates several texts in a cell."""
    first = text.split("\n", 1)[0]
    reader = csv.reader((f"{row}\n" for row in text.split("\n")), delimiter=max(",;\t", key=first.count), strict=True)
    columns: list[str] = []
    line = 1
    try:
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = cells
            elif len(cells) != len(columns):
                yield start, f"{count(len(cells), 'cell')} under {count(len(columns), 'column')}"
            else:
                yield start, {name: _cell(name, cell) for name, cell in zip(columns, cells, strict=True)}
    except csv.Error as error:
        yield line, f"not CSV: {error}"


def _cell(name: str, cell: str) -> str | list[str]:
    many = name.strip().casefold() in ("answers", "passage", "facts") and _CSV_LIST in cell
    return cell.split(_CSV_LIST) if many else cell


READERS: dict[str, Callable[[str], Iterable[Row]]] = {".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv}


# -- files -----------------------------------------------------------------------------------------


def read_questions(files: Iterable[Path]) -> tuple[list[Question], list[BadRow]]:
    """Read question files; return the questions in order, and the invalid rows.

    Raises:
        ConfigError: a file's suffix is not in `READERS`.
        FileReadError: a file cannot be read.
    """
    questions: list[Question] = []
    problems: list[BadRow] = []
    for file in files:
        if file.suffix.lower() not in READERS:
            raise ConfigError("this is not a question file", where=str(file), hint=f"use {', '.join(READERS)}")
        good, bad = parse_questions(read_document(file), file.suffix.lower(), name=str(file))
        questions += good
        problems += bad
    return questions, problems


def read_usable(files: Iterable[Path]) -> list[Question]:
    """Read question files; return their questions.

    Raises:
        LmmError: a row is invalid, or one of the errors of `read_questions`.
    """
    questions, problems = read_questions(files)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise LmmError(f"the questions cannot be used: {problems[0]}{more}", hint="correct the file")
    return questions
