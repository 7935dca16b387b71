"""Joined or not, a stream says the same: every event but plain text is as it was, and nothing waits."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from lmm.models.event_stream import ChunkJoiner


def chunk(delta: dict[str, Any], **more: Any) -> bytes:
    """A chunk as servers send it."""
    choice = {"index": 0, "delta": delta, "finish_reason": None} | more
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}, ensure_ascii=False).encode() + b"\n\n"


texts = st.text(st.characters(codec="utf-8"), max_size=8).map(lambda text: chunk({"content": text}))
others = st.sampled_from(
    [
        chunk({"role": "assistant", "content": ""}), chunk({}, finish_reason="stop"), chunk({"content": None}),
        chunk({"content": "x"}, finish_reason="length"), chunk({"content": "x", "reasoning_content": "y"}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]}),
        chunk({"content": "x"}, logprobs={"content": []}), chunk({"content": "x"}, index=1),
        b'data: {"choices": [], "usage": {"total_tokens": 3}}\n\n', b"data: [DONE]\n\n", b": ping\n\n", b"data: {\n\n",
        b'data: {"error": {"message": "no"}}\n\n', b"event: x\ndata: {}\n\n", b"\n\n", b'data: {"choices": 3}\n\n',
    ]
)  # fmt: skip
streams = st.lists(texts | others, max_size=12).map(b"".join)


def events(stream: bytes) -> list[str]:
    """The events of a stream, texts that follow one another as one."""
    told: list[str] = []
    text: list[str] = []
    for event in [*stream.split(b"\n\n"), b"end"]:
        content = plain_text(event)
        if content is not None:
            text.append(content)
            continue
        if text:
            told.append(f"text: {''.join(text)}")
            text.clear()
        told.append(event.decode())
    return told


def plain_text(event: bytes) -> str | None:
    """The text of a chunk that has nothing else."""
    try:
        values = json.loads(event.removeprefix(b"data: "))
        (choice,) = values["choices"]
        rest = choice["finish_reason"], choice.get("logprobs"), choice["index"] or None, values.get("usage")
        plain = rest == (None,) * 4 and set(choice["delta"]) <= {"content", "role"}
        return choice["delta"]["content"] if plain else None
    except (ValueError, KeyError, TypeError):
        return None


@given(streams, st.lists(st.integers(0, 400), max_size=8))
def test_the_same_is_said(stream: bytes, cuts: list[int]) -> None:
    """However the network cuts it; and all that was given has been handed on."""
    joiner, last, joined = ChunkJoiner(), 0, b""
    for cut in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        joined += joiner.join(stream[last:cut])
        last = cut
    assert events(joined) == events(stream)
    assert len(joined.split(b"\n\n")) <= len(stream.split(b"\n\n"))


@given(st.binary(max_size=100))
def test_other_bytes_pass(data: bytes) -> None:
    """Whatever they are."""
    assert ChunkJoiner().join(data) == data or b"data: {" in data


def test_lines_that_end_otherwise_pass() -> None:
    """With a carriage return, events are as they were."""
    stream = chunk({"content": "a"}).replace(b"\n", b"\r\n") * 3
    assert ChunkJoiner().join(stream) == stream


def test_text_in_pieces_is_joined() -> None:
    """Which is what all of this is for."""
    stream = b"".join(chunk({"content": word}) for word in ("A ", "leaf ", "is ", "green."))
    (event, _) = ChunkJoiner().join(stream).split(b"\n\n")
    assert plain_text(event) == "A leaf is green."
