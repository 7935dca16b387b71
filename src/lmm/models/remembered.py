"""Ask a model, unless the journal knows the reply: what arrived once is never paid again."""

from __future__ import annotations

import asyncio
import contextlib

from lmm.disk import journal
from lmm.errors import LmmError
from lmm.messages import ChatRequest, Reply
from lmm.models.port import ChatModel, ask


async def ask_once(model: ChatModel, request: ChatRequest, key: str, *, again: bool = False) -> tuple[Reply, bool]:
    """The reply journaled under `key` (with no usage), else the model's, journaled as it arrives.

    The second value says whether the model was asked. `again` asks anew what the journal could answer.
    """
    match None if again else journal.get(key):
        case {"text": str(text), "model": str(name), **rest}:
            return Reply(text, name, cut=rest.get("cut") is True), False
    reply = await ask(model, request)
    with contextlib.suppress(LmmError, OSError):  # a full disk must not cost the reply
        entry = {"text": reply.text, "model": reply.model} | ({"cut": True} if reply.cut else {})
        await asyncio.to_thread(journal.put, key, entry)  # it waits for the disk; other calls go on meanwhile
    return reply, True
