"""Facts survive a compaction, even by a model that forgets everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from chatmd import Chat
from chatmd.compaction.summary import is_summary, memory_of, read_summary
from chatmd.language.agent import CallItem, MessageItem, OutputItem
from chatmd.runtime.events import RunResult
from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, ToolCall
from lmm.testing import ScriptedModel

DULL = "## Goal\nThe work goes on."
FACTS = ["At most 200 words.", "Tables in German, always.", "Never touch intro.md.", "My name is Ada Byron."]
LONG = "A leaf is an organ of a plant. " * 40


def talk(path: Path) -> Chat:
    """Write a conversation with facts that the user states, and a file."""
    turns = "".join(f"<user>{fact} Go on.</user><assistant>{LONG}</assistant>" for fact in FACTS)
    call = (
        '<tool_call tool_call_id="c" function_name="read_file">{"path": "notes/leaves.md"}</tool_call>'
        '<tool_response tool_call_id="c">Green.</tool_response><assistant>Read.</assistant>'
    )
    found = "<assistant>The port was 8471, not the default.</assistant><user>Why 8471?</user><assistant>So.</assistant>"
    path.write_text(f"<system>Help.</system>{turns}{call}{found}<user>And now?</user><assistant>Chapter 1</assistant>")
    return Chat.open(path)


def kept(chat: Chat) -> str:
    return "\n".join(read_summary(next(item for item in chat.agent.items if is_summary(item))).kept)


def test_a_dull_summary_loses_none_of_what_was_said(tmp_path: Path) -> None:
    chat = talk(tmp_path / "a.chatmd")
    chat.compact(keep=1, model=ScriptedModel([DULL]))
    lines = kept(chat)
    assert all(fact in lines for fact in FACTS)
    assert "file: notes/leaves.md (read_file)" in lines


def test_decisions_survive_a_second_compaction_unless_they_are_revoked(tmp_path: Path) -> None:
    chat = talk(tmp_path / "a.chatmd")
    chat.compact(keep=1, model=ScriptedModel([f"{DULL}\n## Decisions\n- Blue covers.\n- Red titles."]))
    for reply in (f"{DULL}\n## No longer holds\n- Red titles.", DULL):
        for _ in range(2):
            chat.say("More.")
            chat.run(model=ScriptedModel([LONG]))
        chat.compact(keep=1, model=ScriptedModel([reply]))
        assert "decided: Blue covers." in kept(chat)
        assert "Red titles." not in kept(chat)
        assert all(fact in kept(chat) for fact in FACTS)


def test_what_is_kept_has_a_limit_and_the_latest_and_the_decided_count_more() -> None:
    items = [MessageItem("user", (f"Word number {n}.",)) for n in range(100)]
    lines = memory_of([CallItem("c", "f", ('{"path": "a.md"}',)), OutputItem("c"), *items], {}, "", 200)
    assert sum(map(len, lines)) <= 200
    assert lines[-1] == "the user: Word number 99."
    assert len(lines) > 5


def test_the_model_looks_back_into_what_was_folded(tmp_path: Path) -> None:
    chat = talk(tmp_path / "a.chatmd")
    chat.compact(keep=1, model=ScriptedModel([DULL]))
    chat.say("More.")
    chat.run(model=ScriptedModel([LONG]))
    chat.compact(keep=1, model=ScriptedModel([DULL]))
    chat.say("Which port?")
    call = ToolCall("l", "look_back", '{"text": "the PORT was"}')
    model = ScriptedModel([Reply("", "m", calls=(call,)), "8471."])
    assert chat.run(model=model).answer == "8471."
    assert [tool.name for tool in model.seen[0].tools] == ["look_back"]
    assert "The port was 8471" in model.seen[1].messages[-1].results[0].text


def test_looking_back_into_what_was_deleted_says_so(tmp_path: Path) -> None:
    """The original is gone: that nothing is found does not mean that nobody said it."""
    chat = talk(tmp_path / "a.chatmd")
    done = chat.compact(keep=1, model=ScriptedModel([DULL]))
    assert done.original is not None
    (tmp_path / done.original).unlink()
    chat.say("Which port?")
    call = ToolCall("l", "look_back", '{"text": "the PORT was"}')
    model = ScriptedModel([Reply("", "m", calls=(call,)), "Nobody knows."])
    chat.run(model=model)
    assert "1 file of it cannot be read any more" in model.seen[1].messages[-1].results[0].text


class Slow:
    """A model that sends a word, and then nothing."""

    name = "Test/slow"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        yield TextDelta("One two three ")
        await asyncio.sleep(60)
        yield Reply("", self.name)


def test_a_cancelled_reply_counts() -> None:
    async def go() -> RunResult:
        chat = Chat.from_text("<user>Count slowly to one hundred.</user>")
        async for event, _ in chat.stream(model=Slow()):
            if isinstance(event, TextDelta):
                chat.cancel()
        assert isinstance(event, RunResult)
        return event

    usage = asyncio.run(go()).usage
    assert (usage.estimated, usage.requests, usage.input_tokens > 3, usage.output_tokens > 1) == (True, 1, True, True)
