"""`import_image` shows only images below its roots."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.chatmd.content.places import place
from unit.chatmd.content.test_image_data import png

from chatmd.language.agent import Tool
from chatmd.tools.files import open_import_image
from lmm.errors import LmmError
from lmm.messages import Image, ToolOutput
from lmm.models.port import RunnableTool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    (notes / "pictures").mkdir(parents=True)
    (notes / "pictures" / "a.jpg").write_bytes(png(3, 2))
    (tmp_path / "secret.png").write_bytes(png(1, 1))
    return notes


def look(folder: Path, path: str, **declared: tuple[str, ...]) -> ToolOutput:
    opened = open_import_image(Tool("builtin", "import_image", **declared), place(folder))  # type: ignore[arg-type]

    async def call() -> ToolOutput:
        async with opened as tools:
            one: Sequence[RunnableTool] = tools
            return await one[0].call({"path": path})

    return asyncio.run(call())


def test_an_image_is_shown_as_what_it_is(folder: Path) -> None:
    output = look(folder, "pictures/a.jpg")
    assert output == ToolOutput("pictures/a.jpg: PNG, 73 bytes", (Image(png(3, 2)),))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../secret.png", "this is outside of what the tool may use"),
        ("link.png", "this is outside of what the tool may use"),
        ("pictures/../../secret.png", "this is outside of what the tool may use"),
        ("none.png", "there is no such file"),
        ("pictures", "this is a folder"),
        ("pipe.png", "a device or a pipe"),
        ("notes.png", "this is text, not an image"),
        ("big.png", "the limit is 100 kB"),
        ("server.key", "files of this name usually contain keys"),
        ("", "this path is empty"),
    ],
)
def test_what_is_not_shown(folder: Path, path: str, message: str) -> None:
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "notes.png").write_text("notes")
    (folder / "server.key").write_bytes(png(1, 1))
    (folder / "big.png").write_bytes(png(1, 1) + bytes(100_001))
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(LmmError, match=message):
        look(folder, path)


def test_other_roots(folder: Path) -> None:
    assert look(folder, "../secret.png", roots=("..",)).images
