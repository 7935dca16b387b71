"""``Recorded/FILE``: replies that were recorded before, for demonstrations and tutorials without a model.

The file is JSON: a list of objects with ``prompt`` and ``reply``. A request gets the reply whose prompt its
last message contains. Every reply carries the name ``Recorded/…``, so that nobody takes it for a model's.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from lmm.errors import ModelNotFound, ModelRejected
from lmm.files import read_document
from lmm.models.port import ChatEvent, ChatRequest, Reply, TextDelta, Usage


class RecordedModel:
    """Answers from a file of recorded replies.

    Raises:
        ModelNotFound: the file is not a list of prompts and replies.
    """

    def __init__(self, file: Path) -> None:
        self.name = f"Recorded/{file}"
        try:
            records = json.loads(read_document(file))
            self._replies = [(str(record["prompt"]), str(record["reply"])) for record in records]
        except (ValueError, TypeError, KeyError) as error:
            raise ModelNotFound(
                "this is not a file of recorded replies", where=str(file),
                hint='write [{"prompt": "…", "reply": "…"}]',
            ) from error  # fmt: skip

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """The reply recorded for this prompt, word by word; `ModelRejected` if there is none."""
        asked = request.messages[-1].text
        reply = next((reply for prompt, reply in self._replies if prompt in asked), None)
        if reply is None:
            raise ModelRejected(f"{self.name} has no reply to this", hint="recorded replies fit recorded prompts only")
        for piece in re.findall(r"\S+\s*|\s+", reply):
            yield TextDelta(piece)
        yield Reply(reply, self.name, Usage(0, 0, 0.0, 1))
