"""What programs and readers are given of passages, sections and sources, byte for byte, as golden files.

``LMM_TEST_GOLDEN=write`` writes them anew: read what changed, it is a change of the contract.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from edge.serving import serving
from edge.support import copy_course, run_here, wait_until
from edge.test_serve_log import Visitor
from fakes.openai_server import ScriptedServer
from golden_files import GOLDEN

import lmm_education
from lmm_education import Course
from lmm_education.agent_tools import open_published_course
from lmm_education.exchange_log.log_file import read_log

DOCUMENTS = {
    "notes/botany.md": (
        "---\ntitle: Botany\ndocid: botany\n---\nPlants live on light.\n\n# Leaves\n\n"
        "A leaf is green because chlorophyll absorbs red and blue light.\n\n## Colour\n\n"
        "In autumn the *chlorophyll* decays, and other colours are seen.\n\n"
        "---\ntype: exercise\ntopic: colour\n---\nPut a leaf into alcohol and describe the chlorophyll.\n\n"
        "# Roots\n\nRoots take up water and minerals.\n"
    ),
    "law.md": "# Tax\n\nThe tax of a couple is computed jointly.\n",
}
QUESTIONS = (
    '{"question": "Why is a leaf green?", "document": "botany", "section": ["Leaves"]}\n'
    '{"question": "What does a couple pay?", "document": "botany", "section": ["Roots"]}\n'
)
_CHANGES = {"created", "time", "first_word", "total", "session", "exchange", "latency", "cost"}


def check(name: str, given: Any) -> None:
    """Compare with a golden file."""
    text = given if isinstance(given, str) else json.dumps(given, indent=1, ensure_ascii=False) + "\n"
    file = GOLDEN / "passages" / name
    if os.environ.get("LMM_TEST_GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def steady(value: Any) -> Any:
    """Values without what is another each time."""
    if isinstance(value, Mapping):
        own = re.compile(r"chatcmpl-.*|[0-9a-f]{20}")
        return {
            key: None if key in _CHANGES or (key == "id" and own.fullmatch(str(inner))) else steady(inner)
            for key, inner in value.items()
        }
    return [steady(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents and their store, made once."""
    folder = tmp_path_factory.mktemp("passages")
    (folder / "notes").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lmm_education.ingest(".")
    return folder


@pytest.fixture
def course(folder: Path, server: ScriptedServer, made: Path) -> ScriptedServer:
    """A copy of it in the current folder; the scripted server is the model."""
    copy_course(made, folder)
    (folder / "questions.jsonl").write_text(QUESTIONS)
    with (folder / "config.toml").open("a") as file:
        file.write('[serve]\nlog = "log.sqlite"\ncached_answers = 0\n')
    return server


def test_the_command_line(course: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `lmm search`, `ask` and `eval` print, and the line of a conversation."""

    def ran(*words: str) -> str:
        return run_here(capsys, *words).out

    question = "chlorophyll of a leaf"
    check("search.json", ran("search", question, "--json", "--limit", "3", "--fields", "topic,file"))
    check("search_sections.json", ran("search", question, "--json", "--limit", "2", "--documents"))
    check("search.txt", ran("search", question, "--limit", "2", "--sections"))
    course.queue("Because of chlorophyll [3].", "Of chlorophyll [2] [9].")
    check("ask.txt", ran("ask", "Why is a leaf green?", "--history", "talk.jsonl"))
    check("history.jsonl", (folder / "talk.jsonl").read_text())
    check("ask.json", ran("ask", "Why is a leaf green in the *exercise*?", "--json"))
    check("quoted.json", ran("ask", "Why is a leaf green?", "--json", "--model", "Builtin/extractive"))
    evaluated = ran("eval", "questions.jsonl", "--json", "--failures")
    check("eval.json", steady(json.loads(evaluated)))


def test_the_tools_of_a_course(course: ScriptedServer, folder: Path) -> None:
    """What agents and MCP clients read."""

    async def texts() -> str:
        async with open_published_course(folder / "config.toml", None, None) as published:
            tools = {tool.definition.name: tool for tool in published.tools}
            calls: list[tuple[str, dict[str, Any]]] = [
                ("search", {"query": "chlorophyll", "limit": 2}),
                ("mentions", {"term": "chlorophyll"}),
                ("open_section", {"place": "notes/botany.md#Leaves"}),
                ("open_section", {"place": "botany", "offset": 1}),
                ("contents", {}),
                ("contents", {"document": "law"}),
                ("ask", {"question": "Why is a leaf green?"}),
            ]
            return "\n".join([f"== {name} {given}\n{(await tools[name].call(given)).text}" for name, given in calls])

    course.queue("Because of chlorophyll [3].")
    check("tools.txt", asyncio.run(texts()) + "\n")


def test_the_server_and_its_log(course: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the API, the page and the log hold of sources."""
    course.queue("Because of chlorophyll [3].", "Because of chlorophyll [2].")
    asked = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
    with serving(folder / "config.toml") as address:
        visitor = Visitor(address)
        completed = json.dumps(visitor.send("/v1/chat/completions", asked)[1]).replace(address, "http://course")
        check("completion.json", steady(json.loads(completed)))
        check("page.json", steady(visitor.ask()))
        check("served_search.json", visitor.send("/search", {"query": "chlorophyll", "limit": 1})[1])
        check("contents.json", visitor.send("/contents")[1])
        section = visitor.send("/contents")[1]["documents"][0]["section"]
        check("section.json", visitor.send(f"/sections/{section}?searched=green")[1] if section else {})
        wait_until(lambda: len(read_log(folder / "log.sqlite")) == 2)
    check("log.json", steady(json.loads(run_here(capsys, "log", "show", "--json").out)))
    for kind in ("csv", "jsonl", "questions"):
        assert run_here(capsys, "log", "export", "--output", f"log.{kind}", "--as", kind).code == 0
    (first, *_) = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    check("log_sources.json", first["sources"])
    check("log_questions.jsonl", (folder / "log.questions").read_text())
    shown = run_here(capsys, "log", "show", first["id"]).out
    check("log_sources.txt", "".join(line + "\n" for line in shown.splitlines() if line.startswith("[")))
    assert "notes/botany.md: Leaves" in (folder / "log.csv").read_text()


def test_values_of_a_course(course: ScriptedServer, folder: Path) -> None:
    """The same from Python: what is found for no question, and passages by their ids."""
    with Course.open(folder) as opened:
        listed = opened.search(types=["exercise"])
        check("listed.json", listed.as_json())
        assert opened.fetch(*(hit.id for hit in listed.hits)).hits[0].text == listed.hits[0].text
