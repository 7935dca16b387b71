"""Conversations of other programs become ChatMD that can be continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatmd import Chat
from chatmd.errors import ChatmdError
from chatmd.sessions import import_session, read_session
from lmm.cli.main import main
from lmm.errors import FileWriteError
from lmm.testing import ScriptedModel


def claude(role: str, content: object, **more: object) -> dict[str, object]:
    return {"type": role, "message": {"role": role, "content": content}, "uuid": "u", **more}


def codex(**payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01", "type": "response_item", "payload": payload}


CLAUDE = [
    {"type": "summary", "summary": "Plants"},
    claude("user", "What is in a.md? </user>"),
    claude("assistant", [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Let me look."}]),
    claude("assistant", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.md"}}]),
    claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "A leaf."}]}]),
    claude("user", "Something else", isSidechain=True),
    claude("assistant", [{"type": "text", "text": "A leaf."}]),
    claude("assistant", [{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]),  # interrupted
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "s"}},
    codex(type="message", role="user", content=[{"type": "input_text", "text": "What is in a.md? </user>"}]),
    {"type": "event_msg", "payload": {"type": "agent_message", "message": "Let me look."}},
    codex(type="reasoning", summary=[]),
    codex(type="message", role="assistant", content=[{"type": "output_text", "text": "Let me look."}]),
    codex(type="function_call", name="Read", arguments='{"file_path": "a.md"}', call_id="t1"),
    codex(type="function_call_output", call_id="t1", output="A leaf."),
    codex(type="function_call_output", call_id="unknown", output="of a call that is not there"),
    codex(type="message", role="assistant", content=[{"type": "output_text", "text": "A leaf."}]),
]
LLM = [
    {"model": "m", "system": "Be brief.", "prompt": "Hi?", "response": "Yes."},
    {"prompt": "More", "response": "No."},
]


@pytest.mark.parametrize("records", [CLAUDE, CODEX])
def test_a_session_goes_on_with_its_calls_and_results(records: list[object], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join([*map(json.dumps, records), '{"type": "torn']))
    assert main(["import", str(path)]) == 0
    chat = Chat.open(tmp_path / "s.chatmd")
    assert (chat.problems(), chat.turn_of) == ((), "user")
    chat.say("And now?")
    model = ScriptedModel(["Go on."])
    chat.run(model=model)
    sent = model.seen[0].messages
    assert [message.text for message in sent if message.text][:2] == ["What is in a.md? </user>", "Let me look."]
    assert [(call.name, call.arguments) for message in sent for call in message.calls] == [
        ("Read", '{"file_path": "a.md"}')
    ]
    assert [(result.name, result.text) for message in sent for result in message.results] == [("Read", "A leaf.")]
    assert [sent[-2].text, sent[-1].text] == ["A leaf.", "And now?"]
    with pytest.raises(FileWriteError, match="already"):
        import_session(path)


def test_what_llm_logs_is_read_as_a_list_or_by_lines() -> None:
    said = [("system", "Be brief."), ("user", "Hi?"), ("assistant", "Yes."), ("user", "More"), ("assistant", "No.")]
    for text in (json.dumps(LLM), "\n".join(map(json.dumps, LLM))):
        assert [(message.role, message.text) for message in read_session(text)] == said


def test_a_log_of_llm_with_tools_and_several_conversations() -> None:
    """As llm 0.36 writes it: the last conversation, with its calls and results, and its instructions once."""

    def logged(conversation: str, prompt: str, response: str, **more: object) -> dict[str, object]:
        return {"conversation_id": conversation, "prompt": prompt, "system": "Be brief.", "response": response, **more}

    call = {"id": 8, "tool_id": 1, "name": "add", "arguments": {"a": 3}, "tool_call_id": "c1", "server_executed": False}
    result = {"id": 9, "name": "add", "output": "7", "tool_call_id": "c1", "exception": None, "attachments": []}
    log = [
        logged("one", "Hi", "Hello"),
        logged("two", "Add 3", "Let me add. ", tool_calls=[call], tool_results=[]),
        logged("two", "", "It is 7.", tool_calls=[], tool_results=[result]),
    ]
    messages = read_session(json.dumps(log))
    assert [(message.role, message.text) for message in messages if message.text] == [
        ("system", "Be brief."), ("user", "Add 3"), ("assistant", "Let me add. "), ("assistant", "It is 7.")
    ]  # fmt: skip
    assert [(call.name, call.arguments) for message in messages for call in message.calls] == [("add", '{"a": 3}')]
    assert [(result.name, result.text) for message in messages for result in message.results] == [("add", "7")]


def test_a_file_without_a_conversation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n[]\n3\n')
    with pytest.raises(ChatmdError, match="no conversation"):
        import_session(tmp_path / "x.jsonl")


def test_a_line_that_cannot_be_read_is_told_and_not_left_out() -> None:
    """Except the last one, which a running session may still be writing. Other separators do not end a line."""
    lines = [json.dumps(claude("user", text), ensure_ascii=False) for text in ("One", "Two\u2028", "Three")]
    with pytest.raises(ChatmdError, match="line 2 is not JSON"):
        read_session("\n".join([lines[0], lines[1][:-9], "", lines[2]]))
    with pytest.raises(ChatmdError, match="line 1 is not JSON"):
        read_session("\n".join([lines[0][:-9], lines[1]]))
    found = read_session("\n".join([*lines, lines[0][:-9], ""]))
    assert [message.text for message in found] == ["One", "Two\u2028", "Three"]
