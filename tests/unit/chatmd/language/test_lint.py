"""The findings of `chatmd.check`, by the golden files tests/golden/chatmd/check/*.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from golden_files import GOLDEN, Case, read_cases
from growth import is_linear

from benchmarks.chatmd_parse import HOSTILE, checked
from chatmd.language.lint import check
from chatmd.language.nodes import Problem
from chatmd.language.syntax import parse


def described(problems: Iterable[Problem]) -> Iterator[str]:
    """Describe findings, one per line."""
    for problem in problems:
        place = f"{problem.span.line}:{problem.span.column}"
        yield f"{place}: {problem.severity}: {problem.message} ({problem.hint})"


@pytest.mark.parametrize("case", read_cases("chatmd/check"), ids=str)
def test_golden(case: Case) -> None:
    assert tuple(described(check(parse(case.source)))) == case.expected


@pytest.mark.parametrize("folder", ["chatmd", "chatmd/meaning"])
def test_problems_of_other_cases_are_found_too(folder: str) -> None:
    """Checking reports whatever parsing or reading finds."""
    assert (GOLDEN / folder).is_dir()
    for case in read_cases(folder):
        document = parse(case.source)
        assert set(document.problems) <= set(check(document))


def test_what_it_says_of_a_file_names_the_file(tmp_path: Path) -> None:
    (problem,) = check(parse("<user>", file="dir/x.chatmd"))
    assert problem.span.where == "dir/x.chatmd:1:1"


def test_time_is_linear() -> None:
    """Of each text that the benchmark repeats: a tag of 200,000 attributes, each wrong, took ten minutes."""
    pieces = [(piece, "<doc" if piece[0] == " " else "", ">" if piece[0] == " " else "") for piece in HOSTILE.values()]
    assert [each for each in pieces if not is_linear(checked, *each)] == []
