"""Write the files that show what each step made: never over a file that is not ours, never over an edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmm.disk import files
from lmm_education.errors import IngestError


@dataclass(frozen=True, slots=True)
class StepFile:
    """A file that was written, or was there already; `backup` is the edited one that stood in its place."""

    path: Path
    backup: Path | None = None


def write_step_files(
    texts: Mapping[str, str], folder: Path, *, is_ours: Callable[[str], bool], is_edited: Callable[[str], bool]
) -> list[StepFile]:
    """Write texts under their names into `folder`, which is made where it is missing.

    A file of ours that somebody edited is kept, under its name with ``.bak``.

    Raises:
        IngestError: a file of that name is not ours; nothing is written then.
        FileReadError, FileWriteError: it cannot be read or written.
    """
    before = {name: _read(folder / name) for name in texts}
    for name, old in before.items():
        if old is not None and not is_ours(old):
            raise IngestError(
                "this file was not written by lmm ingest, so it is not replaced",
                where=str(folder / name),
                hint="rename it, or choose another folder with --output",
            )
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / name, text, before[name], is_edited) for name, text in texts.items()]


def _read(path: Path) -> str | None:
    return files.read_document(path) if path.exists() else None


def _write(path: Path, text: str, old: str | None, is_edited: Callable[[str], bool]) -> StepFile:
    if old == text:
        return StepFile(path)
    backup = None
    if old is not None and is_edited(old):
        backup = _free_name(path)
        files.replace(backup, old)
    files.replace(path, text)
    return StepFile(path, backup)


def _free_name(path: Path) -> Path:
    """``NAME.bak``, or the first of ``NAME.bak2``, … that is not there."""
    number, backup = 1, path.with_name(f"{path.name}.bak")
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak{number}")
    return backup
