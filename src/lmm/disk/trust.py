"""What the user has agreed to, kept in the state folder.

A ``config.toml`` may have come with somebody's repository. What it asks for that reaches beyond its folder (see
`lmm.permissions`) counts only once the file was approved, for the text that it had then.
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
    """Remember that the user agreed to a file with this text, in place of an earlier answer.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    remember(_APPROVALS, _subject(file), digest(text))


def revoke(file: Path) -> bool:
    """Forget what was agreed to for a file; whether there was something.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    if not digest_for(file):
        return False
    _change(_APPROVALS, lambda answers: {key: value for key, value in answers.items() if key != _subject(file)})
    return True


def digest_for(file: Path) -> str:
    """The digest of the text that was agreed to for a file, if any ever was; it may have another one by now."""
    return remembered(_APPROVALS).get(_subject(file), "")


def is_approved(file: Path, text: str) -> bool:
    """Whether the user agreed to a file with this text."""
    return digest_for(file) == digest(text)


def approved_files() -> tuple[Path, ...]:
    """Every file that was agreed to."""
    return tuple(map(Path, remembered(_APPROVALS)))


def _subject(file: Path) -> str:
    """The file by its folder's real path: what is relative in it is relative to that."""
    return str(file.parent.resolve() / file.name)


# -- lists of answers --------------------------------------------------------------------------------------


def remembered(store: str) -> dict[str, str]:
    """What was agreed to, by its subject; a list that is missing or damaged approves nothing.

    `store` is the name of a list in the state folder: each kind of approval has its own.
    """
    with contextlib.suppress(FileReadError, ValueError):
        answers = json.loads(read_document(state_folder() / store))
        if isinstance(answers, dict) and all(isinstance(value, str) for value in answers.values()):
            return answers
    return {}


def remember(store: str, subject: str, agreed: str) -> None:
    """Add an answer to a list, in place of an earlier one of the same subject.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    _change(store, lambda answers: answers | {subject: agreed})


def _change(store: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    path = state_folder() / store
    with document_lock(path):
        replace(path, json.dumps(change(remembered(store)), indent=1))
