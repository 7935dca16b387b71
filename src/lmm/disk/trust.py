"""The user's approvals of configuration files, kept in the state folder.

A ``config.toml`` may have come with somebody's repository. Its settings that reach beyond its folder (see
`lmm.permissions`) take effect only after the file was approved, and only for the text that was approved.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from lmm.disk import digest
from lmm.disk.files import document_lock, read_document, replace, state_folder
from lmm.errors import FileReadError

_APPROVALS = "trust.json"


def approve(file: Path, text: str) -> None:
    """Record that the user approved a file with this text, replacing an earlier answer.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    remember(_APPROVALS, _subject(file), digest(text))


def revoke(file: Path) -> bool:
    """Remove the approval of a file; return whether there was one.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    if not digest_for(file):
        return False
    _change(_APPROVALS, lambda answers: {key: value for key, value in answers.items() if key != _subject(file)})
    return True


def digest_for(file: Path) -> str:
    """Return the digest of the approved text of a file (it may have changed since); empty if it was never approved."""
    return remembered(_APPROVALS).get(_subject(file), "")


def is_approved(file: Path, text: str) -> bool:
    """Return whether the user approved a file with this text."""
    return digest_for(file) == digest(text)


def approved_files() -> tuple[Path, ...]:
    """Return every approved file."""
    return tuple(map(Path, remembered(_APPROVALS)))


def _subject(file: Path) -> str:
    """Return the file's path by its folder's real path, to which relative paths in the file refer."""
    return str(file.parent.resolve() / file.name)


# -- lists of answers --------------------------------------------------------------------------------------


def remembered(store: str) -> dict[str, str]:
    """Return the approvals in a list, by subject; a list that is missing or damaged approves nothing.

    `store` is the name of a list in the state folder: each kind of approval has its own.
    """
    with contextlib.suppress(FileReadError, ValueError):
        answers = json.loads(read_document(state_folder() / store))
        if isinstance(answers, dict) and all(isinstance(value, str) for value in answers.values()):
            return answers
    return {}


def remember(store: str, subject: str, agreed: str) -> None:
    """Add an answer to a list, replacing an earlier one of the same subject.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    _change(store, lambda answers: answers | {subject: agreed})


def _change(store: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    path = state_folder() / store
    with document_lock(path):
        replace(path, json.dumps(change(remembered(store)), indent=1))
