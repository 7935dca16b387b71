"""`course_search` as a declaration opens it: which course, which of its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from memory import temporary_folder

from lmm.config import load_settings
from lmm.errors import LmmError
from lmm_education import ingest
from lmm_education.agent_tools import course_folder, open_course_search
from lmm_education.answer.lookup import ROWS


@dataclass(frozen=True)
class Declared:
    """What a prompt declares."""

    name: str = "course_search"
    include: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    course: str = ""


@dataclass(frozen=True)
class Place:
    """Where the prompt stands."""

    folder: Path
    settings: Any = field(default_factory=lambda: load_settings(env={}))
    environment: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def notes() -> Iterator[Path]:
    """A folder with a course in ``notes``, and prompts in and beside it."""
    with temporary_folder() as folder:
        (folder / "notes" / ".lmm").mkdir(parents=True)
        (folder / "notes" / "prompts").mkdir()
        (folder / "elsewhere").mkdir()
        (folder / "empty").mkdir()
        (folder / "notes" / "config.toml").write_text('[storage]\ncourse = "biology"\n')
        (folder / "notes" / "cells.md").write_text("# Mitosis\n\nA cell divides into two.\n")
        ingest(folder / "notes" / "cells.md", config=folder / "notes" / "config.toml")
        yield folder


def names(declared: Declared, folder: Path) -> list[str]:
    """What is offered, after a search with the first of the tools."""

    async def run() -> list[str]:
        async with open_course_search(declared, Place(folder)) as tools:
            if tools[0].definition.name == "course_search":
                assert "cells.md:3" in (await tools[0].call({"query": "division of cells"})).text
            return [tool.definition.name for tool in tools]

    return asyncio.run(run())


def test_the_course_is_named_relative_to_the_prompt(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever one stands; its own settings count, not those of another configuration."""
    (notes / "elsewhere" / "config.toml").write_text('[storage]\ncourse = "other"\n')
    monkeypatch.chdir(notes / "elsewhere")
    monkeypatch.setenv("LMM_CONFIG", str(notes / "elsewhere" / "config.toml"))
    assert names(Declared(course="../notes"), notes / "elsewhere") == list(ROWS)


def test_without_a_name_it_is_the_course_that_the_prompt_lies_in(notes: Path) -> None:
    """In its folder, or below it."""
    assert names(Declared(), notes / "notes" / "prompts") == list(ROWS)
    assert course_folder("", notes / "notes") == notes / "notes"
    with pytest.raises(LmmError, match="is not in a course"):
        course_folder("", notes / "empty")


def test_some_of_its_tools_can_be_chosen(notes: Path) -> None:
    """In the order of the declaration; others do not exist."""
    chosen = ("course_contents", "course_search")
    assert names(Declared(course="notes", include=chosen), notes) == list(chosen)
    with pytest.raises(LmmError, match="has no tool 'search'"):
        names(Declared(course="notes", include=("search",)), notes)


@pytest.mark.parametrize(
    ("course", "says"),
    [("gone", "there is no folder"), ("x" * 300, "there is no folder"), ("empty", "nothing has been ingested")],
)
def test_a_course_that_is_not_there(notes: Path, course: str, says: str) -> None:
    """Is told of before the run begins."""
    with pytest.raises(LmmError, match=says):
        names(Declared(course=course), notes)
