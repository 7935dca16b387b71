"""A problem of a document: where it is, what is wrong, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Replacement(NamedTuple):
    """Text to put in place of the characters from `start` to `end` of a document."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `line` and `column` count from 1. An ``error`` makes `lmm scan` exit with 1.

    `fix` is how to mend it where that is certain.
    """

    line: int
    column: int
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    fix: tuple[Replacement, ...] = ()


def apply_fixes(text: str, problems: Iterable[Finding]) -> str:
    """A document with the fixes of its problems applied; problems that share a replacement have it once.

    >>> apply_fixes("Query: why", [Finding(1, 1, "…", "…", fix=(Replacement(0, 5, "query"),))])
    'query: why'
    """
    parts, at = [], 0
    for start, end, new in sorted({replacement for problem in problems for replacement in problem.fix}):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])
