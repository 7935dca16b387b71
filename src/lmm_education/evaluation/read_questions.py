"""Question files on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lmm.disk.files import read_document
from lmm.errors import ConfigError, LmmError
from lmm_education.evaluation.questions import READERS, Problem, Question, parse_questions


def read_questions(files: Iterable[Path]) -> tuple[list[Question], list[Problem]]:
    """The questions of all files, in order, and the rows that cannot be used.

    Raises:
        ConfigError: a file's suffix is none of `READERS`.
        FileReadError: a file cannot be read.
    """
    questions: list[Question] = []
    problems: list[Problem] = []
    for file in files:
        if file.suffix.lower() not in READERS:
            raise ConfigError("this is no question file", where=str(file), hint=f"use {', '.join(READERS)}")
        good, bad = parse_questions(read_document(file), file.suffix.lower(), name=str(file))
        questions += good
        problems += bad
    return questions, problems


def read_usable(files: Iterable[Path]) -> list[Question]:
    """The questions of all files.

    Raises:
        LmmError: a row cannot be used; or as `read_questions`.
    """
    questions, problems = read_questions(files)
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise LmmError(f"a question cannot be used: {problems[0]}{more}", hint="mend the row, or take it out")
    return questions
