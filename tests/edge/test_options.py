"""An option of a search or a question means the same in Python, on the command line and in a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge.serving import serving
from edge.support import copy_course, run_here
from edge.test_serve import send
from fakes.openai_server import ScriptedServer

from lmm_education import Course

QUESTION = "What becomes green in alcohol?"


@pytest.fixture
def config(ingested: Path, folder: Path) -> Path:
    """A course, which is the current folder."""
    copy_course(ingested, folder)
    (folder / "config.toml").touch()
    return folder / "config.toml"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 1}, ["--limit", "1"]),
        ({"types": ["exercise"]}, ["--type", "exercise"]),
        ({"types": "exercise"}, ["--type", "exercise"]),
        ({"documents": ["botany.md"]}, ["--doc", "botany.md"]),
        ({"documents": "botany.md"}, ["--doc", "botany.md"]),
        ({"where": {"type": ["exercise"]}}, ["--where", "type=exercise"]),
        ({"where": {"type": "text", "headings": "Leaves"}}, ["--where", "type=text", "--where", "headings=Leaves"]),
        ({"companion": True}, ["--documents"]),
        ({"companion": False}, ["--chunks"]),
        ({"here": "notes/botany.md#roots"}, ["--here", "notes/botany.md#roots"]),
    ],
    ids=str,
)
def test_an_option_means_the_same_everywhere(
    config: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], words: list[str]
) -> None:
    with Course.open(config=config) as course:
        found = [hit.id for hit in course.search(QUESTION, **options).hits]
        plain = [hit.id for hit in course.search(QUESTION).hits]
    ran = json.loads(run_here(capsys, "search", QUESTION, "--json", *words).out)
    with serving(config) as address:
        status, answered = send(f"{address}/search", {"query": QUESTION, **options})
    assert status == 200
    assert found == [hit["id"] for hit in ran["hits"]] == [hit["id"] for hit in answered["hits"]] != []
    assert found != plain or options in ({"companion": False}, {"documents": ["botany.md"]}, {"documents": "botany.md"})


@pytest.mark.parametrize(
    ("options", "words", "wanted"),
    [
        ({"limt": 3}, ["--limt", "3"], "limit"),
        ({"limit": "many"}, ["--limit", "many"], "limit"),
        ({"limit": 0}, ["--limit", "0"], "limit"),
        ({"type": ["exercise"]}, ["--types", "exercise"], "type"),
        ({"where": "level"}, ["--where", "level"], "such as"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named_everywhere(
    config: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], words: list[str], wanted: str
) -> None:
    with Course.open(config=config) as course:
        with pytest.raises(TypeError, match=wanted):
            course.search(QUESTION, **options)
        with pytest.raises(TypeError, match=wanted):
            course.ask(QUESTION, **options)
    for command in ("search", "ask"):
        assert wanted in run_here(capsys, command, QUESTION, *words).err or command == "ask"
    with serving(config) as address:
        status, answered = send(f"{address}/search", {"query": QUESTION, **options})
    assert (status, answered["error"]["param"]) == (400, next(iter(options)))
    assert wanted in answered["error"]["message"]


def test_a_question_and_a_search_share_their_options(
    config: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an answer is made from is what a search with the same options finds."""
    server.queue(*["So it is [1]."] * 3)
    for options, words in (
        ({"types": ("exercise",)}, ["--type", "exercise"]),
        ({"where": {"type": "exercise"}}, ["--where", "type=exercise"]),
        ({"here": "notes/botany.md#roots"}, ["--here", "notes/botany.md#roots"]),
    ):
        with Course.open(config=config) as course:
            asked = course.ask("What is this about?", context_tokens=60, **options)
        ran = json.loads(run_here(capsys, "ask", "What is this about?", "--json", "--context-tokens", "60", *words).out)
        assert [source.id for source in asked.offered] == [source["id"] for source in ran["offered"]] != []


def test_a_folder_for_the_steps_is_a_text_or_a_path(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In Python and on the command line."""
    with Course.open(config=config) as course:
        for number, output in enumerate(("out0", Path("out1"))):
            course.ingest(output=output, ingest=False)
            assert list(Path(f"out{number}").rglob("*.chunks.md"))
    assert run_here(capsys, "ingest", "notes", "--no-ingest", "--output", "out2").code == 0
    assert list(Path("out2").rglob("*.chunks.md"))
