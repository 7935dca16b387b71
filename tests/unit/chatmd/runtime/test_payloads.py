"""Payloads are files that are named by their content, and read back exactly."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from chatmd.errors import ChatmdError
from chatmd.language.transcript import items_of, lines_of, messages_of
from chatmd.sidecar import Payloads
from lmm.errors import LinkOutside
from lmm.messages import Image, Message, ToolCall, ToolResult

PNG, TEXT = Image(b"\x89PNG\r\n\x1a\n"), "a\r\n|RAW \ufeff</tool_response>"


@pytest.mark.parametrize("inline", [True, False])
def test_what_is_stored_is_read_back(tmp_path: Path, inline: bool) -> None:
    """Every character of a text, every byte of an image; only the owner can read the folder."""
    payloads = Payloads(tmp_path, inline)
    call = ToolCall("c1", "look", '{"a": "\r\n"}')
    result = ToolResult("c1", "look", TEXT, (PNG, Image(b"BM", media_type="image/bmp"), Image(url="https://a.example")))
    text = lines_of([payloads.call(call), payloads.result(result)])
    assert ("RAW" in text) == inline
    items = items_of(text)
    parts = [part for item in items for part in getattr(item, "arguments", getattr(item, "content", ()))]
    stored = {part: read for part in parts if not isinstance(part, str) and (read := payloads.read(part)) is not None}
    assert messages_of(items, expand=stored.__getitem__) == (
        Message("assistant", "", calls=(call,)), Message("tool", "", results=(result,)),
    )  # fmt: skip
    folder = tmp_path / ".chatmd"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    files = {path.name: path.stat().st_ino for path in folder.iterdir()}
    lines_of([payloads.result(result)])
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == files


def test_in_memory_nothing_is_stored() -> None:
    """The content stays in the text."""
    text = lines_of([Payloads(None, inline=False).result(ToolResult("c1", "look", TEXT, (PNG,)))])
    assert "<doc" not in text
    assert 'src="data:image/png;base64,' in text


def test_a_payload_that_is_gone(tmp_path: Path) -> None:
    """The error names the place of the reference."""
    payloads = Payloads(tmp_path, inline=False)
    (item,) = items_of(lines_of([payloads.call(ToolCall("c1", "look", "{}"))]))
    for path in (tmp_path / ".chatmd").iterdir():
        path.unlink()
    with pytest.raises(ChatmdError, match="no such file"):
        payloads.read(getattr(item, "arguments")[0])  # noqa: B009


def test_a_payload_that_is_another_file(tmp_path: Path) -> None:
    """A link in place of a payload shows the model nothing."""
    (tmp_path / "key").write_text("secret-1")
    payloads = Payloads(tmp_path, inline=False)
    (item,) = items_of(lines_of([payloads.call(ToolCall("c1", "look", "{}"))]))
    (kept,) = (tmp_path / ".chatmd").iterdir()
    kept.unlink()
    kept.symlink_to(tmp_path / "key")
    with pytest.raises(LinkOutside, match="links are not allowed"):
        payloads.read(getattr(item, "arguments")[0])  # noqa: B009
