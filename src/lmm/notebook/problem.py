"""Problems of a document: their place, a message, and a correction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Replacement(NamedTuple):
    """Text that replaces the characters from `start` to `end` of a document."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `line` and `column` count from 1. An ``error`` makes `lmm scan` exit with 1.

    `fix` is the correction, if it is certain.
    """

    line: int
    column: int
    message: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    fix: tuple[Replacement, ...] = ()


def apply_fixes(text: str, problems: Iterable[Finding]) -> str:
    """Apply the fixes of problems to a document; a replacement shared by several problems is applied once.

    >>> apply_fixes("Query: why", [Finding(1, 1, "…", "…", fix=(Replacement(0, 5, "query"),))])
    'query: why'
    """
    parts, at = [], 0
    for start, end, new in sorted({replacement for problem in problems for replacement in problem.fix}):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])
