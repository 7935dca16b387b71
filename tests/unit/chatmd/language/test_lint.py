"""What `chatmd.check` finds: tests/golden/chatmd/check/*.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_files import GOLDEN, Case, read_cases

from chatmd.language.lint import check
from chatmd.language.syntax import parse


def described(source: str, *, strict: bool = False) -> Iterator[str]:
    """Findings, one a line."""
    for problem in check(parse(source, strict=strict)):
        place = f"{problem.span.line}:{problem.span.column}"
        yield f"{place}: {problem.severity}: {problem.message} ({problem.hint})"


@pytest.mark.parametrize("case", read_cases("chatmd/check"), ids=str)
def test_golden(case: Case) -> None:
    assert tuple(described(case.source)) == case.expected


@pytest.mark.parametrize("folder", ["chatmd", "chatmd/strict", "chatmd/meaning"])
def test_problems_of_other_cases_are_found_too(folder: str) -> None:
    """Whatever parsing or reading finds, checking tells."""
    assert (GOLDEN / folder).is_dir()
    for case in read_cases(folder):
        document = parse(case.source, strict=folder.endswith("strict"))
        assert set(document.problems) <= set(check(document))


def test_strict_wants_a_configuration() -> None:
    """As published: once, near the top."""
    assert list(described("<user>x</user>", strict=True)) == [
        '1:1: error: there is no <config> (write <config model="…"/> at the top)'
    ]
    twice = list(described('<config model="a"/><config model="b"/>', strict=True))
    assert twice == ["1:20: error: there is a <config> already, and this one is ignored (delete one of them)"]


def test_what_it_says_of_a_file_names_the_file(tmp_path: Path) -> None:
    (problem,) = check(parse("<user>", file="dir/x.chatmd"))
    assert problem.span.where == "dir/x.chatmd:1:1"
