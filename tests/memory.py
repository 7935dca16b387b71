"""Folders in memory, where there is room: what syncs its files, such as a store, waits milliseconds for a disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that goes, with all in it; not for ChatMD's file tools, to which ``/dev`` is closed."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
