"""What is done by `lmm accept`, `lmm reject` and `lmm undo`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.disk.undo import take_back
from lmm.errors import LmmError
from lmm.scan import accept_edits, reject_edits


def accept(files: list[Path], line: int | None) -> int:
    """Keep the new text of waiting edits, with your own changes to it."""
    return _resolve(files, line, accept_edits, "accepted")


def reject(files: list[Path], line: int | None) -> int:
    """Restore the old text of waiting edits, byte for byte."""
    return _resolve(files, line, reject_edits, "rejected")


def _resolve(files: list[Path], line: int | None, work: Callable[..., int], done: str) -> int:
    for path in files:
        count = work(path, line=line)
        told = f"{done} {terminal.count(count, 'edit')}" if count else "no edit waits"
        terminal.say(f"{path}: {told}")
    return console.DONE


def undo(files: list[Path]) -> int:
    """Take back the last change that lmm made to each file."""
    code = console.DONE
    for path in files:
        try:
            change = take_back(path)
        except LmmError as error:
            terminal.tell_error(error)
            code = console.FAILED
            continue
        told = f"took back the change of {change.made:%Y-%m-%d %H:%M:%S} ({terminal.count(change.lines, 'line')})"
        more = f"; {change.left} before it can be taken back too" if change.left else ""
        terminal.say(f"{path}: {told}{more}")
    return code
