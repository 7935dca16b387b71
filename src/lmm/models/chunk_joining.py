"""Pieces of a streamed answer, joined where several have arrived: each costs half a millisecond to take apart.

Of OpenAI's Chat Completions, only chunks are joined that hold a piece of text and nothing else; all other bytes pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

_PLAIN = {"content", "role"}
_MARK = b"data: {"


@dataclass(slots=True)
class ChunkJoiner:
    """Joins chunks in a stream of server-sent events, given in pieces as they are cut by the network.

    >>> def chunk(text): return b'data: {"choices": [{"delta": {"content": "%s"}}]}\\n\\n' % text
    >>> ChunkJoiner().join(chunk(b"A ") + chunk(b"leaf") + b"data: [DONE]\\n\\n")
    b'data: {"choices": [{"delta": {"content": "A leaf"}}]}\\n\\ndata: [DONE]\\n\\n'
    """

    _inside: bool = False  # the bytes before ended within an event
    _waiting: dict[str, Any] | None = None
    _texts: list[str] = field(default_factory=list)

    def join(self, data: bytes) -> bytes:
        """The same events in fewer bytes; nothing is held back."""
        *events, rest = data.split(b"\n\n")
        if not events:
            self._inside = self._inside or bool(rest)
            return data
        if len(events) == 1:
            self._inside = bool(rest)
            return data
        joined: list[bytes] = []
        for number, event in enumerate(events):
            chunk = None if self._inside and number == 0 else _plain_chunk(event)
            if chunk is None:
                self._flush(joined)
                joined.append(event)
                continue
            self._waiting = self._waiting or chunk
            self._texts.append(chunk["choices"][0]["delta"]["content"])
        self._flush(joined)
        self._inside = bool(rest)
        return b"\n\n".join([*joined, rest])

    def _flush(self, joined: list[bytes]) -> None:
        if self._waiting is not None:
            self._waiting["choices"][0]["delta"]["content"] = "".join(self._texts)
            joined.append(b"data: " + json.dumps(self._waiting).encode())
            self._waiting = None
            self._texts.clear()


def _plain_chunk(event: bytes) -> dict[str, Any] | None:
    """A chunk with a piece of text and nothing else that would be lost; None if it is something else."""
    if not event.startswith(_MARK):
        return None
    try:
        chunk = json.loads(event.removeprefix(b"data: "))
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        plain = set(delta) <= _PLAIN and isinstance(delta["content"], str)
        last = choice.get("finish_reason") or choice.get("logprobs") or choice.get("index") or chunk.get("usage")
        return chunk if plain and not last and not chunk.get("error") else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
