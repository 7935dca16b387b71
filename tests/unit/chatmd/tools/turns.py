"""Shared by tests of what a model gets for its calls: one reply of calls in a chat, and their results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chatmd import Chat
from lmm.messages import Listener, Reply, ToolCall, ToolResult, ignore
from lmm.testing import ScriptedModel

Call = tuple[str, dict[str, Any] | str]


def results_of(
    folder: Path, tools: str, *calls: Call, chat_tools: Sequence[Any] = (), file: str = "", listener: Listener = ignore
) -> list[ToolResult]:
    """Let a model make these calls in one reply, and return the results that it is sent, in the order of the calls.

    The chat is in memory, or in a `file` of the folder.
    """
    made = [
        ToolCall(f"c{n}", name, given if isinstance(given, str) else json.dumps(given))
        for n, (name, given) in enumerate(calls)
    ]
    model = ScriptedModel([Reply("", "Scripted/replies", calls=tuple(made)), "Done."])
    text, setup = f"{tools}\n<user>Go.</user>\n", {"tools": chat_tools, "listener": listener}
    if file:
        (folder / file).write_text(text)
    chat = Chat.open(folder / file, **setup) if file else Chat.from_text(text, folder=folder, **setup)
    chat.run(model=model, yes=True)
    sent = [result for message in model.seen[-1].messages for result in message.results]
    assert [result.call for result in sent] == [call.id for call in made]
    return sent
