"""``Recorded/FILE``: replies that were recorded before, for demonstrations and tutorials without a model.

The file is JSON: a list of objects with ``prompt`` and ``reply``, ``calls`` (objects with ``name`` and
``arguments``), or both; ``"cut": true`` marks a reply that stops at the output limit. A request gets the first
record whose prompt its last message contains, be it what the user said or what a tool returned. Every reply
carries the name ``Recorded/…``, so that nobody takes it for a model's.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmm.disk.files import read_document
from lmm.errors import ModelNotFound, ModelRejected
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, TextDelta, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class _Record:
    prompt: str
    reply: str
    calls: tuple[tuple[str, str], ...]
    cut: bool

    @staticmethod
    def read(values: Mapping[str, Any]) -> _Record:
        calls = tuple((str(call["name"]), json.dumps(call["arguments"])) for call in values.get("calls", ()))
        reply = values.get("reply", "") if calls else values["reply"]
        return _Record(str(values["prompt"]), str(reply), calls, values.get("cut") is True)


class RecordedModel:
    """Answers from a file of recorded replies.

    Raises:
        ModelNotFound: the file is not a list of prompts and replies.
    """

    def __init__(self, file: Path) -> None:
        self.name = f"Recorded/{file}"
        try:
            self._records = [_Record.read(values) for values in json.loads(read_document(file))]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ModelNotFound(
                "this is not a file of recorded replies", where=str(file),
                hint='write [{"prompt": "…", "reply": "…"}]',
            ) from error  # fmt: skip

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """What was recorded for this request, word by word; `ModelRejected` if there is nothing."""
        asked = _said(request.messages[-1])
        record = next((record for record in self._records if record.prompt in asked), None)
        if record is None:
            raise ModelRejected(f"{self.name} has no reply to this", hint="recorded replies fit recorded prompts only")
        for piece in re.findall(r"\S+\s*|\s+", record.reply):
            yield TextDelta(piece)
        turn = len(request.messages)  # so that a call's id is its own in the whole conversation
        calls = tuple(ToolCall(f"call-{turn}-{n}", *call) for n, call in enumerate(record.calls, 1))
        for call in calls:
            yield call
        yield Reply(record.reply, self.name, Usage(0, 0, 0.0, 1), cut=record.cut, calls=calls)


def _said(message: Message) -> str:
    parts = [message.text, *(part for part in message.content if isinstance(part, str))]
    return "\n".join([*parts, *(result.text for result in message.results)])
