"""A transcript as a test: report what a run today would do differently."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatmd import Chat
from lmm.messages import Reply, ToolCall
from lmm.testing import ScriptedModel

PROMPT = """<config model="Ollama/x"/>
<output schema="s.json"/>
<tool name="read_file"/>
<user>See <doc src="notes.md" local/></user>
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A finished run in which a file was read."""
    (tmp_path / "notes.md").write_text("Leaves\nare green.")
    (tmp_path / "plants.md").write_text("A leaf.\nA root.")
    (tmp_path / "s.json").write_text('{"type": "object", "required": ["n"]}')
    path = tmp_path / "p.chatmd"
    path.write_text(PROMPT)
    call = ToolCall("c1", "read_file", '{"path": "plants.md"}')
    Chat.open(path).run(model=ScriptedModel([Reply("", "m", calls=(call,)), '{"n": 2}']))
    return path


def found(path: Path) -> list[str]:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    problems = [f"{one.severity}: {one.message}" for one in Chat.open(path).problems(replay=True)]
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    return problems


def test_nothing_is_told_of_a_run_that_would_be_the_same(path: Path) -> None:
    assert found(path) == []


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        (
            "notes.md",
            "Leaves\nare red.",
            "'notes.md' has changed: 'are red.', not 'are green.'",
        ),
        (
            "plants.md",
            "A leaf.\nA stem.",
            "read_file returns something else today: '     2\tA stem.', not '     2\tA root.'",
        ),
        ("s.json", '{"type": "object", "required": ["m"]}', "the last reply no longer fits the schema"),
    ],
)
def test_what_would_differ_is_told_where_it_stands(path: Path, file: str, text: str, told: str) -> None:
    (path.parent / file).write_text(text)
    (problem,) = found(path)
    assert problem.startswith(f"error: {told}")


def test_tools_that_are_gone_or_take_something_else(path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace('<tool name="read_file"/>', ""))
    assert found(path) == ["error: there is no longer a tool 'read_file'"]
    path.write_text(text.replace('<tool name="read_file"', '<tool name="read_file" roots="none"'))
    assert found(path) == ['error: roots="none" is not a folder']
    path.write_text(text.replace('function_name="read_file"', 'function_name="read_directory"').replace(
        '<tool name="read_file"/>', '<tool name="read_directory"/><tool name="write_file"/>'))  # fmt: skip
    assert [one.partition(" today")[0] for one in found(path)] == ["error: read_directory returns something else"]


def test_calls_that_share_an_id_have_each_its_own_result(path: Path) -> None:
    """Some servers number the calls of each reply from the start."""
    call = ToolCall("c1", "read_file", '{"path": "notes.md"}')
    chat = Chat.open(path)
    chat.say("And the notes?")
    chat.run(model=ScriptedModel([Reply("", "m", calls=(call,)), '{"n": 3}']))
    assert found(path) == []


def test_what_a_run_itself_changed_is_a_warning(path: Path) -> None:
    chat = Chat.open(path)
    path.write_text(path.read_text().replace("<tool ", '<tool name="write_file"/><tool ', 1))
    call = ToolCall("c2", "write_file", '{"path": "plants.md", "content": "None.", "overwrite": true}')
    chat.say("Empty it.")
    chat.run(model=ScriptedModel([Reply("", "m", calls=(call,)), '{"n": 0}']), yes=True)
    assert [one.partition(":")[0] for one in found(path)] == ["warning"]


@pytest.mark.parametrize("declared", ["", '<tool name="read_file"/>\n'])
def test_a_python_tool_is_known_and_not_called(tmp_path: Path, declared: str) -> None:
    """The effects of a function are not known, so its results are the transcript's."""
    calls = []

    def add(a: int) -> int:
        """Add."""
        calls.append(a)
        return a

    text = f"{declared}<user>Add 2.</user>"
    replies: list[str | Exception | Reply] = [Reply("", "m", calls=(ToolCall("c1", "add", '{"a": 2}'),)), "2."]
    chat = Chat.from_text(text, folder=tmp_path, tools=[add])
    chat.run(model=ScriptedModel(replies))
    assert (chat.problems(replay=True), calls) == ((), [2])
    (problem,) = Chat.from_text(chat.text, folder=tmp_path).problems(replay=True)
    assert problem.message == "there is no longer a tool 'add'"


def test_a_document_inside_an_agent_that_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Leaves\nare green.")
    (tmp_path / "reader.chatmd").write_text("<user>Read:</user>")
    (path := tmp_path / "p.chatmd").write_text(
        '<config model="Ollama/x"/>\n<user><agent src="reader.chatmd" local>'
        'See <doc src="notes.md" local/></agent></user>\n'
    )
    Chat.open(path).run(model=ScriptedModel(["Green.", "Yes."]))
    assert found(path) == []
    (tmp_path / "notes.md").write_text("Leaves\nare red.")
    assert found(path) == ["error: 'notes.md' has changed: 'are red.', not 'are green.', on line 2"]
