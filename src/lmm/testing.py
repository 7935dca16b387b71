"""Models for tests, shipped so that your tests can use them, too: deterministic and without network."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Iterable, Sequence

from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, Usage, render
from lmm.models.port import Progress, Side


class ScriptedModel:
    """A model that answers with the given texts in turn and records its requests.

    An exception in the script is raised instead of an answer; a `Reply` is sent as it is, its calls first. Its replies
    are not journaled: they would answer the requests of other tests.

    >>> import asyncio
    >>> from lmm.messages import Message
    >>> from lmm.models.port import ask
    >>> model = ScriptedModel(["Four."])
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "How many phases?"),)))).text
    'Four.'
    >>> model.seen[0].messages[0].text
    'How many phases?'
    """

    journaled = False

    def __init__(self, replies: Iterable[str | Exception | Reply], *, name: str = "Scripted/replies") -> None:
        self._replies = iter(replies)
        self.name = name
        self.seen: list[ChatRequest] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        self.seen.append(request)
        reply = next(self._replies, None)
        if reply is None:
            raise AssertionError(f"the script has no reply number {len(self.seen)}")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reply):
            for call in reply.calls:
                yield call
            yield reply
            return
        for piece in re.findall(r"\S+\s*|\s+", reply):
            yield TextDelta(piece)
        tokens = sum(len(render(m).split()) for m in request.messages)
        yield Reply(reply, self.name, Usage(tokens, len(reply.split()), None, 1))


class HashEmbedder:
    """An embedder that adds up signed hashes of words: texts with equal words have near vectors; it knows no meaning.

    >>> e = HashEmbedder()
    >>> a, b, c = e.embed(["a red fox", "the red fox", "tax law"], kind="document")
    >>> sum(x * y for x, y in zip(a, b)) > sum(x * y for x, y in zip(a, c))
    True
    """

    def __init__(self, dimensions: int = 64) -> None:
        self.dimensions = dimensions
        self.name = self.space = f"Testing/hash-{dimensions}"

    def embed(self, texts: Sequence[str], *, kind: Side, on_progress: Progress | None = None) -> list[list[float]]:
        """Return one unit vector per text; `kind` makes no difference."""
        if on_progress is not None:
            on_progress(len(texts), len(texts))
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[int.from_bytes(digest[:4]) % self.dimensions] += 1.0 if digest[4] & 1 else -1.0
        length = math.sqrt(sum(x * x for x in vector)) or 1.0
        return [x / length for x in vector]
