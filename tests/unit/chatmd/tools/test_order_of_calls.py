"""Calls of one reply that depend on each other: what is written is there for the calls after it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from unit.chatmd.tools.file_tools import workplace
from unit.chatmd.tools.turns import results_of

from chatmd.language.agent import WRITING, Tool
from chatmd.language.transcript import INTERRUPTED, NOT_STARTED, repair
from chatmd.tools.calling import may_write
from chatmd.tools.registry import BUILTINS

SLOW_CAT = '<tool name="show" command="sh -c \'cat a.txt\'"/>'
PATCH = "*** Begin Patch\n*** Update File: a.txt\n-old\n+new\n*** End Patch"


@pytest.mark.parametrize("name", ["write_file", "apply_patch", "find_and_replace", "append_to_file"])
def test_a_program_reads_what_a_call_before_it_wrote(tmp_path: Path, name: str) -> None:
    """As when a model patches a file and runs its tests in one reply; the call after the program is made after it."""
    (tmp_path / "a.txt").write_text("old\n")
    given: dict[str, dict[str, Any]] = {
        "write_file": {"path": "a.txt", "content": "new\n", "overwrite": True},
        "apply_patch": {"patch": PATCH},
        "find_and_replace": {"path": "a.txt", "find": "old", "replace": "new"},
        "append_to_file": {"path": "a.txt", "content": "new\n"},
    }
    names = dict.fromkeys((name, "write_file", "read_file"))
    last = {"path": "a.txt", "content": "last\n", "overwrite": True}
    wrote, shown, _, read = results_of(
        tmp_path,
        SLOW_CAT + "".join(f'<tool name="{one}"/>' for one in names),
        (name, given[name]),
        ("show", {"arguments": []}),
        ("write_file", last),
        ("read_file", {"path": "a.txt"}),
    )
    assert not wrote.failed
    assert "new" in shown.text
    assert "last" in read.text
    assert "new" not in read.text


def test_a_call_that_reads_first_sees_the_old_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    before, _, after = results_of(
        tmp_path,
        '<tool name="read_file"/><tool name="apply_patch"/>',
        ("read_file", {"path": "a.txt"}),
        ("apply_patch", {"patch": PATCH}),
        ("read_file", {"path": "a.txt"}),
    )
    assert "old" in before.text
    assert "new" in after.text


def test_functions_of_python_are_called_in_order(tmp_path: Path) -> None:
    """What they do is not known."""
    called: list[int] = []

    def note(n: int) -> str:
        threading.Event().wait(0.02 if n == 0 else 0)
        called.append(n)
        return ""

    results_of(tmp_path, "", *(("note", {"n": n}) for n in range(4)), chat_tools=[note])
    assert called == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("<system>Only answer.</system>", False),
        ('<tool name="read_file"/><tool name="webpage_to_markdown"/>', False),
        ('<tool name="apply_patch"/>', True),
        ('<tool name="test" command="make test"/>', True),
        ('<tool name="read_file"/><tool mcp_server="https://mcp.example.org"/>', True),
        ('<tool name="other" agent="reader.chatmd" local/>', False),
        ('<tool name="other" agent="writer.chatmd" local/>', True),
        ('<tool name="other" agent="https://example.org/a.chatmd"/>', False),
        ('<system>Ask <agent src="writer.chatmd" local></agent></system>', True),
        ('<tool name="itself" agent="a.chatmd" local/>', False),
        ('<output schema="s.json" check="./check.sh"/>', True),
        ("<user>", True),
    ],
)
def test_agents_whose_tools_only_read_are_readers(tmp_path: Path, text: str, writes: bool) -> None:
    """Also through the agents that they ask; one with errors could do anything."""
    (tmp_path / "a.chatmd").write_text(text)
    (tmp_path / "reader.chatmd").write_text('<tool name="search_files"/>')
    (tmp_path / "writer.chatmd").write_text('<tool name="append_to_file"/>')
    assert may_write(Tool("agent", "a", agent="a.chatmd", local=True), workplace(tmp_path)) is writes


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("apply_patch", "read_file", NOT_STARTED),
        ("read_file", "sh", NOT_STARTED),
        ("of_a_server", "of_a_server", NOT_STARTED),
        ("read_file", "read_file", INTERRUPTED),
        ("read_file", "helper", INTERRUPTED),
    ],
)
def test_a_call_that_waited_when_the_run_was_killed_was_not_started(first: str, second: str, text: str) -> None:
    declared = '<tool name="read_file"/><tool name="apply_patch"/><tool name="sh" command="sh"/>'
    declared += '<tool name="helper" agent="a.chatmd" local/><user>A</user>\n'
    calls = "".join(f'<tool_call tool_call_id="{name}{n}" function_name="{name}">{{}}</tool_call>\n'
                    for n, name in enumerate((first, second)))  # fmt: skip
    one, two = repair(declared + calls).text.partition(calls)[2].split("</tool_response>")[:2]
    assert INTERRUPTED in one
    assert text in two


def test_which_built_in_tools_write() -> None:
    assert {name for name, kind in BUILTINS.items() if not kind.powers <= {"read", "network"}} == set(WRITING)
