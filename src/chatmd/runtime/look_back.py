"""The tool `look_back`: the model finds in a compacted conversation what the summary left out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from chatmd.compaction.compact import known_texts
from chatmd.compaction.summary import attachment_of, is_summary, read_summary
from chatmd.language.agent import Item
from chatmd.language.transcript import items_of
from chatmd.sidecar import FOLDER
from chatmd.tools.registry import FunctionTool
from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.messages import Attachment, Message, ToolDefinition, object_schema, render

NAME = "look_back"
_MOST_FILES, _MOST, _LONGEST = 20, 5, 3000
_ABOUT = (
    "Find what was said and done in the part of this conversation that a summary stands for: the messages, calls and "
    "results that contain a text, the latest first, as they were."
)
_TEXT = {"type": "string", "minLength": 1, "description": "The words to look for, as they were written; not a pattern."}


def look_back_in(items: Sequence[Item], folder: Path | None) -> FunctionTool | None:
    """The tool, if a summary among `items` says where the whole conversation is kept."""
    if folder is None or not any(_sources(items)):
        return None
    whole: Path = folder

    async def look_back(text: str) -> str:
        found = [one for one in _folded(items, whole) if text.casefold() in one.text.casefold()][-_MOST:]
        if not found:
            return "Nothing in what was summarised contains this text. Try fewer words."
        return render(Message("user", "", tuple(reversed(found)))).strip()

    return FunctionTool(ToolDefinition(NAME, _ABOUT, object_schema(("text",), text=_TEXT)), look_back)


def _sources(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        source = PurePosixPath(read_summary(item).source if is_summary(item) else "")
        if source.parent == PurePosixPath(FOLDER):
            yield str(source)


def _folded(items: Sequence[Item], folder: Path) -> list[Attachment]:
    """What was said and done before, oldest first, in all conversations that were compacted into this one."""
    waiting, seen, found = list(_sources(items)), set[str](), list[Attachment]()
    while waiting and len(seen) < _MOST_FILES:
        source = waiting.pop()
        if source in seen:
            continue
        seen.add(source)
        with contextlib.suppress(LmmError):  # it was deleted
            before = items_of(Folder(folder).read(source).decode("utf-8", "replace"))
            waiting += _sources(before)
            texts = known_texts(before, folder / PurePosixPath(source).name)
            kept = (attachment_of(item, texts, _LONGEST) for item in before if not is_summary(item))
            found = [*(one for one in kept if one is not None), *found]
    return found
