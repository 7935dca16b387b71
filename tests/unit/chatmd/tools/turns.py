"""Shared by tests of what a model gets for its calls: one reply of calls in a chat, and their results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chatmd import Chat
from lmm.messages import Reply, ToolCall, ToolResult
from lmm.testing import ScriptedModel

Call = tuple[str, dict[str, Any] | str]


def results_of(folder: Path, tools: str, *calls: Call, chat_tools: Sequence[Any] = ()) -> list[ToolResult]:
    """Let a model make these calls in one reply, and return the results that it is sent, in the order of the calls."""
    made = [
        ToolCall(f"c{n}", name, given if isinstance(given, str) else json.dumps(given))
        for n, (name, given) in enumerate(calls)
    ]
    model = ScriptedModel([Reply("", "Scripted/replies", calls=tuple(made)), "Done."])
    chat = Chat.from_text(f"{tools}\n<user>Go.</user>\n", folder=folder, tools=chat_tools)
    chat.run(model=model, yes=True)
    sent = [result for message in model.seen[-1].messages for result in message.results]
    assert [result.call for result in sent] == [call.id for call in made]
    return sent
