"""The journal of replies, so that nothing is paid twice after a crash or an overwritten file.

One small file per reply, named by a digest of what was asked, written whole and flushed before anything
else happens with the reply. The journal lives in the user's state folder, readable by the user only.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from lmm.disk import digest
from lmm.disk.files import read_document, replace, state_errors, state_folder
from lmm.errors import LmmError

KEEP_DAYS = 90


def key_of(*parts: Any) -> str:
    """Return a digest of what was asked: prompt, text, earlier exchanges, system message, model."""
    return digest(json.dumps(parts, ensure_ascii=False))


def put(key: str, reply: dict[str, Any]) -> None:
    """Record a reply. On return it is on the disk.

    Raises:
        FileWriteError: the state folder cannot be written to.
    """
    path = _path(key)
    with state_errors(_folder()):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(path, json.dumps(reply, ensure_ascii=True), private=True)


def get(key: str) -> dict[str, Any] | None:
    """Return the reply recorded under `key`, or None. A damaged entry counts as none."""
    with contextlib.suppress(LmmError, ValueError):
        reply = json.loads(read_document(_path(key)))
        return reply if isinstance(reply, dict) else None
    return None


def forget_old() -> None:
    """Delete replies that are too old."""
    limit = time.time() - KEEP_DAYS * 86400
    for path in _folder().glob("*/*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()


def _folder() -> Path:
    return state_folder() / "journal"


def _path(key: str) -> Path:
    return _folder() / key[:2] / f"{key}.json"
