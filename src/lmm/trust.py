"""Approval of configuration files that would send a key from the environment to another server.

A ``config.toml`` may have come with somebody's repository. If it names a server that is not on this
machine, and the request would carry a key from the environment, the file must have been approved once,
in its present content, with ``lmm trust``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from urllib.parse import urlsplit

from lmm import listening
from lmm.config import ModelSettings
from lmm.disk.files import document_lock, read_document, replace, state_folder
from lmm.errors import FileReadError, UntrustedConfig

_FILES = "trusted.json"


def is_loopback(url: str) -> bool:
    """Whether a URL points to this machine.

    >>> is_loopback("http://127.0.0.1:11434/v1"), is_loopback("http://[::1]:1/v1"), is_loopback("https://localhost.example.com")
    (True, True, False)
    """
    try:
        return listening.is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def check(settings: ModelSettings) -> None:
    """Raise `UntrustedConfig` if these settings would send a key where nobody approved it."""
    if settings.api_key:
        check_key(settings.base_url_file, settings.api_key.variable, settings.base_url)


def check_key(file: Path | None, variable: str, url: str) -> None:
    """Raise `UntrustedConfig` if a file that nobody approved would send a key to another machine.

    `file` is where `url` stands (None: not in a file), `variable` the name of the key in the environment.
    """
    if file is None or is_loopback(url) or is_trusted(file):
        return
    raise UntrustedConfig(
        f"it would send your {variable} to {url}",
        where=str(file),
        hint=f"if you trust that server: lmm trust {file}",
    )


def is_trusted(file: Path) -> bool:
    """Whether this file was approved with the content that it has now."""
    return remembered(_FILES).get(str(file.resolve())) == _digest(file)


def approve(file: Path) -> None:
    """Remember this file's present content as approved."""
    remember(_FILES, str(file.resolve()), _digest(file))


def remembered(store: str) -> dict[str, str]:
    """What was approved, by its subject; a list that is missing or damaged approves nothing.

    `store` is the name of a list in the state folder: each kind of approval has its own.
    """
    with contextlib.suppress(FileReadError, ValueError):
        approvals = json.loads(read_document(state_folder() / store))
        if isinstance(approvals, dict) and all(isinstance(value, str) for value in approvals.values()):
            return approvals
    return {}


def remember(store: str, subject: str, approved: str) -> None:
    """Add an approval to a list, in place of an earlier one of the same subject.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    path = state_folder() / store
    with document_lock(path):
        replace(path, json.dumps(remembered(store) | {subject: approved}, indent=1))


def _digest(file: Path) -> str:
    return hashlib.sha256(read_document(file).encode()).hexdigest()
