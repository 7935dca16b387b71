"""Requirements on the last reply of a run: data that fits a schema, text that a check accepts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from chatmd import Chat
from chatmd.errors import AnswerRejected, ConsentNeeded
from lmm.messages import Reply, ToolCall
from lmm.testing import ScriptedModel

ASK = "<system>Be brief.</system><user>A tree?</user>"
SCHEMA = {"type": "object", "properties": {"height": {"type": "integer"}}, "required": ["height"]}


class Tree(BaseModel):
    name: str
    height: int


def test_a_typed_answer_is_asked_for_until_it_fits() -> None:
    model = ScriptedModel(
        ["An oak.", '{"name": "Oak", "height": "tall"}', '```json\n{"name": "Oak", "height": 30}\n```']
    )
    assert Chat.from_text(ASK).ask(schema=Tree, model=model) == Tree(name="Oak", height=30)
    first, _, last = model.seen
    assert all(request.schema == first.schema and request.messages[:3] == first.messages for request in model.seen)
    assert [message.role for message in first.messages] == ["system", "system", "user"]
    assert "height" in last.messages[-1].text  # what was wrong


def test_lists_and_json_schemas_and_the_event_loop() -> None:
    chat = Chat.from_text(ASK)
    assert chat.ask(schema=list[int], model=ScriptedModel(["[1, 2]"])) == [1, 2]
    assert asyncio.run(chat.aask(schema=SCHEMA, model=ScriptedModel(['{"height": 3}']))) == {"height": 3}


def test_the_file_names_schema_and_check_and_holds_what_was_asked_again(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text(json.dumps(SCHEMA))
    path = tmp_path / "tree.chatmd"
    path.write_text(f'<output schema="tree.json" check="grep -q 30" retries="3"/>{ASK}')
    with pytest.raises(ConsentNeeded, match="<output> runs grep -q 30"):
        Chat.open(path).run(model=ScriptedModel([]))
    model = ScriptedModel(["Tall.", '{"height": 3}', '{"height": 30}'])
    chat = Chat.open(path)
    assert chat.run(model=model, yes=True).answer == '{"height": 30}'
    assert "exit code 1" in model.seen[-1].messages[-1].text
    assert path.read_text().count("This reply is not what was asked for") == 2
    assert [one.message.role for one in chat.render().messages][:3] == ["system", "system", "user"]


def test_a_check_that_ends_with_0_passes_whatever_it_leaves_running() -> None:
    """Remaining processes are killed; the reply still passes."""
    chat = Chat.from_text(f"""<output check="sh -c 'sleep 60 &gt;/dev/null 2&gt;&amp;1 &amp;'" retries="0"/>{ASK}""")
    assert chat.run(model=ScriptedModel(["An oak."]), yes=True).answer == "An oak."


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (lambda answer: "birch" in answer, "The check failed."),
        (lambda answer: None if "birch" in answer else "name a birch", "name a birch"),
        (lambda answer: int("x"), "invalid literal"),
    ],
)
def test_a_check_of_python_says_what_is_wrong_and_the_limit_holds(check: Any, why: str) -> None:
    model = ScriptedModel(["Oak.", "Elm."])
    chat = Chat.from_text(ASK)
    with pytest.raises(AnswerRejected, match=why):
        chat.run(model=model, check=check, retries=1)
    assert why in model.seen[1].messages[-1].text
    assert chat.answer == "Elm."


def test_retries_of_the_caller_count_more_than_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text(json.dumps(SCHEMA))
    chat = Chat.from_text(f'<output schema="tree.json"/>{ASK}', folder=tmp_path)
    model = ScriptedModel(["Tall.", '{"height": 3}'])
    with pytest.raises(AnswerRejected):
        chat.run(model=model, retries=0)
    assert len(model.seen) == 1


def test_only_the_last_reply_counts_also_of_single_steps(tmp_path: Path) -> None:
    """Nobody is asked again in a step; the error names the transcript only where there is one."""
    call = Reply("Let me look.", "m", calls=(ToolCall("c", "no_such_tool", "{}"),))
    chat = Chat.from_text(ASK)
    assert chat.ask(schema=int, model=ScriptedModel([call, "7"])) == 7
    with pytest.raises(AnswerRejected, match=r"The check failed\. \(run without --once\)"):
        chat.run(model=ScriptedModel(["x"]), check=lambda answer: False, once=True)
    assert chat.answer == "x"
    (tmp_path / "a.chatmd").write_text(f'<output check="false"/>{ASK}')
    chat = Chat.open(tmp_path / "a.chatmd")
    chat.run(model=ScriptedModel([call]), yes=True, once=True)
    with pytest.raises(AnswerRejected, match="it is in the transcript; say what is wrong with it, or run without"):
        chat.run(model=ScriptedModel(["x"]), yes=True, once=True)


def test_what_cannot_be_asked_for_is_an_error_of_the_file(tmp_path: Path) -> None:
    for output, why in (
        ("<output/>", "this <output> asks for nothing"),
        ('<output schema="none.json"/>', "there is no such file"),
        ('<output schema="os:path"/>', "is not a JSON file"),
        ('<output check="a | b"/>', "there is no shell"),
        ('<output schema="../x.json"/>', "is outside"),
    ):
        (problem,) = Chat.from_text(output + ASK, folder=tmp_path).problems()
        assert why in problem.message
