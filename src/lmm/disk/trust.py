"""What the user has agreed to, kept in the state folder.

A ``config.toml`` may have come with somebody's repository. What it asks for that reaches beyond its folder (see
`lmm.config.Power`) has to be approved: for the text that the file has now, and for each thing that was shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmm.disk.files import document_lock, read_document, replace, state_folder
from lmm.errors import FileReadError

_APPROVALS = "trust.json"


@dataclass(frozen=True, slots=True)
class Approval:
    """What was agreed to for a file: the digest of its text at that time, and what it asked for, in words."""

    digest: str
    granted: tuple[str, ...] = ()


def digest_of(text: str) -> str:
    """The digest by which the text of a file is known."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def approve(file: Path, digest: str, granted: Iterable[str]) -> None:
    """Remember that the user agreed to what a file with this text asks for, in place of an earlier answer.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    remember(_APPROVALS, _subject(file), json.dumps({"digest": digest, "granted": sorted(granted)}, ensure_ascii=False))


def revoke(file: Path) -> bool:
    """Forget what was agreed to for a file; whether there was something.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    return forget(_APPROVALS, _subject(file))


def approval_of(file: Path) -> Approval | None:
    """What was agreed to for a file, if anything ever was; its text may be another one by now."""
    return approvals().get(Path(_subject(file)))


def is_approved(file: Path, digest: str, wanted: str) -> bool:
    """Whether the user agreed to this, for the file with this text."""
    found = approval_of(file)
    return found is not None and found.digest == digest and wanted in found.granted


def approvals() -> Mapping[Path, Approval]:
    """Everything that was agreed to, by file; an entry that is damaged approves nothing."""
    found = {}
    for subject, record in remembered(_APPROVALS).items():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            values = json.loads(record)
            found[Path(subject)] = Approval(str(values["digest"]), tuple(str(one) for one in values["granted"]))
    return found


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


def forget(store: str, subject: str) -> bool:
    """Take an answer out of a list; whether there was one.

    Raises:
        FileWriteError: the state folder cannot be written.
    """
    if subject not in remembered(store):
        return False
    _change(store, lambda answers: {key: value for key, value in answers.items() if key != subject})
    return True


def _change(store: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    path = state_folder() / store
    with document_lock(path):
        replace(path, json.dumps(change(remembered(store)), indent=1))
