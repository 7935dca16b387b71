"""After a compaction, the model finds what its summary forgot; and a cancelled reply is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from chatmd import Chat
from lmm.messages import ChatEvent, ChatRequest, Reply, RunResult, TextDelta, ToolCall
from lmm.testing import ScriptedModel

DULL = "## Goal\nThe work goes on."
LONG = "A leaf is an organ of a plant. " * 40


def talk(path: Path) -> Chat:
    """Write a long conversation in which a port was found out."""
    turns = f"<user>Go on.</user><assistant>{LONG}</assistant>" * 4
    found = "<assistant>The port was 8471, not the default.</assistant><user>Why 8471?</user><assistant>So.</assistant>"
    path.write_text(f"<system>Help.</system>{turns}{found}<user>And now?</user><assistant>Chapter 1</assistant>")
    return Chat.open(path)


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
