"""An agent as a value: a fold over inputs gives the same as a conversation in a file."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from chatmd import Chat
from chatmd.errors import ChatmdError
from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, ToolCall

BEGIN = '<config show_tool_call/>\n<tool name="read_file"/>\n<system>Be brief.</system>\n'
INPUTS = ["one </user>", "two\r\n", "three |RAW"]


class Counts:
    """Reads a file before it answers with the number of messages that it got."""

    name = "Scripted/counts"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """First a call, then an answer to its result."""
        if request.messages[-1].role == "user":
            yield Reply("", self.name, calls=(ToolCall(f"c{len(request.messages)}", "read_file", '{"path": "n.txt"}'),))
        else:
            text = f"{len(request.messages)} messages, {request.messages[-1].results[0].text}"
            yield TextDelta(text)
            yield Reply(text, self.name)


def test_a_fold_is_a_conversation(tmp_path: Path) -> None:
    """The text equals the file's, except for the blank message at the end; nothing is written."""
    (tmp_path / "n.txt").write_text("a note")
    first = Chat.from_text(BEGIN, folder=tmp_path)
    answer, last = functools.reduce(lambda state, input: state[1].reply(input, model=Counts()), INPUTS, ("", first))
    assert answer.startswith("12 messages")
    assert (first.text, [path.name for path in tmp_path.iterdir()]) == (BEGIN, ["n.txt"])
    assert first.ask(INPUTS[0], model=Counts()) == first.ask(INPUTS[0], model=Counts())
    path, said = tmp_path / "a.chatmd", iter([*INPUTS, None])
    path.write_text(BEGIN)

    async def ask() -> str | None:
        return next(said)

    result = Chat.open(path).run(model=Counts(), ask_user=ask)
    assert result.text == f"{last.text}\n<user>\n\n</user>\n"


def test_a_function_of_an_event_loop(tmp_path: Path) -> None:
    """Several at once do not affect each other."""
    (tmp_path / "a.chatmd").write_text("<system>x</system>\n<user>\n\n</user>\n")
    chat = Chat.open(tmp_path / "a.chatmd")

    async def main() -> list[str]:
        return await asyncio.gather(*(chat.aask(input, model=Counts()) for input in INPUTS))

    with pytest.raises(ChatmdError, match="was asked nothing"):
        chat.ask(" ", model=Counts())
    assert len(asyncio.run(main())) == 3


def test_a_reply_that_was_cancelled_waits_for_what_the_user_says(tmp_path: Path) -> None:
    cut = f'{BEGIN}<user>Why?</user>\n<assistant status="incomplete">\nRAW|I beg|RAW</assistant>\n\n<user>\n\n</user>\n'
    (path := tmp_path / "p.chatmd").write_text(cut)

    async def ask() -> str | None:
        assert path.read_text() == cut
        return None

    result = Chat.open(path).run(model=Counts(), ask_user=ask)
    assert result.turns == 0
    assert path.read_text() == cut
