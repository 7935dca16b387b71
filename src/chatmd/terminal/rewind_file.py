"""Take back the last message of the user in a file: what it was stays beside it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from chatmd.compaction.compact_file import free_name, keep
from chatmd.terminal.messages import Draft, rewound
from chatmd.workplace import FOLDER
from lmm.disk.files import check_writable, document_lock, read_document, replace
from lmm.errors import Changed, DocumentBusy


class TakenBack(NamedTuple):
    """The message, and where the whole file is kept."""

    draft: Draft
    original: Path


def rewind_file(path: Path) -> TakenBack | None:
    """Cut a file before its last message of the user, in one step; None if it has none.

    Raises:
        DocumentBusy: another process works on it, or somebody changed it meanwhile.
        DocumentError: it cannot be read or written.
    """
    with document_lock(path, timeout=0):
        check_writable(path)
        text = read_document(path)
        done = rewound(text, str(path))
        if done is None:
            return None
        original = free_name(path.resolve().parent / FOLDER, path, datetime.now())
        keep(text, original)
        try:
            replace(path, done.text, expected=text.encode("utf-8"))
        except Changed as error:
            raise DocumentBusy(
                "the file was changed meanwhile; it stays as it is", where=str(path), hint="try again"
            ) from error
        return TakenBack(done.draft, original)
