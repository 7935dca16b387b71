"""Save what a scan made of a document, into whatever the author has made of it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from lmm.disk import files
from lmm.errors import DocumentBusy, FileReadError
from lmm.markdown.merge import Merged, merge
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.scan.edits import EDIT, damaged_edits, orphaned_marks

_LOCK_POLL = 0.1  # seconds
_SETTLE_ROUNDS = 60  # an author who never stops does not get the reply never


@contextlib.asynccontextmanager
async def locked(path: Path, on_wait: Callable[[], None]) -> AsyncGenerator[None]:
    """The document's lock, waited for without blocking the loop; `on_wait` is called once."""
    with contextlib.ExitStack() as stack:
        waited = False
        while True:
            try:
                stack.enter_context(files.document_lock(path, timeout=0))
                break
            except DocumentBusy:
                if not waited:
                    on_wait()
                waited = True
                await asyncio.sleep(_LOCK_POLL)
        yield


async def settled(path: Path, base: str, seconds: float) -> bool:
    """Wait until a file is as we read it (`base`), or has not changed for so many seconds.

    An editor may be in the middle of writing it, or between removing the old file and writing the new one;
    what it writes after we replaced the file would be lost. False if the wait was cut short by cancellation:
    then is the last chance to save.
    """
    before, now = base, _text_now(path)
    try:
        for _ in range(_SETTLE_ROUNDS):
            if now in (base, before):
                break
            await asyncio.sleep(seconds)
            before, now = now, _text_now(path)
    except asyncio.CancelledError:
        return False
    return True


def _text_now(path: Path) -> str:
    with contextlib.suppress(FileReadError):  # it is gone, or ends inside a character
        return files.read_document(path)
    return ""


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a save: the text now on disk, and the side file that holds what found no place."""

    text: str
    merged: bool = False
    side_file: Path | None = None


def save_merged(path: Path, base: str, ours: str) -> Saved:
    """Write `ours`, which was made from `base`, into a file that may have changed meanwhile.

    What the author wrote since stays; what cannot be placed goes to ``FILE.unplaced``.

    Raises:
        FileReadError, FileWriteError: the file is gone, became unreadable, or cannot be written.
    """
    while True:
        theirs = files.read_document(path)
        merged = _sound(merge(base, ours, theirs), ours, theirs)
        side = _write_side_file(path, merged.unplaced) if merged.unplaced else None
        if merged.text == theirs:
            return Saved(theirs, theirs != base, side)
        if files.read_document(path) != theirs:
            continue  # the author saved while we merged
        files.replace(path, merged.text)
        files.remove_leftovers(path.resolve().parent)
        return Saved(merged.text, theirs != base, side)


def _sound(merged: Merged, ours: str, theirs: str) -> Merged:
    """`merged`, unless an edit is whole in it no more: then their text, and all of ours goes to the side file."""
    if any(EDIT in piece for piece in merged.unplaced) or _broken_edits(merged.text) > _broken_edits(theirs):
        return Merged(theirs, (ours,))
    return merged


def _broken_edits(text: str) -> int:
    if "<!-- lmm:" not in text and EDIT not in text:
        return 0
    blocks = parse_markdown_text(text)
    return len(damaged_edits(blocks)) + len(orphaned_marks(blocks))


def _write_side_file(path: Path, pieces: tuple[str, ...]) -> Path:
    side = path.with_name(path.name + ".unplaced")
    before = side.read_text(encoding="utf-8", errors="surrogateescape") if side.exists() else ""
    new = "".join(piece for piece in pieces if piece not in before)
    if new:
        files.replace(side, before + new)
    return side
