"""What is done by `lmm accept`, `lmm reject` and `lmm undo`."""

from __future__ import annotations

import textwrap
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.word_diff import word_diff
from lmm.disk.files import read_document
from lmm.disk.undo import take_back
from lmm.errors import EditError, LmmError
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.scan import accept_edits, reject_edits
from lmm.scan.edits import find_edits, visible_text


def accept(files: list[Path], line: int | None, force: bool) -> int:
    """Keep the new text of waiting edits, with your own changes to it."""
    code = console.DONE
    for path in files:
        try:
            _tell(path, accept_edits(path, line=line, force=force), "accepted")
        except EditError as error:
            _tell_losses(path, error)
            code = console.FAILED
    return code


def reject(files: list[Path], line: int | None, again: bool) -> int:
    """Restore the old text of waiting edits, byte for byte."""
    for path in files:
        _tell(path, reject_edits(path, line=line, again=again), "rejected")
    return console.DONE


def _tell(path: Path, count: int, done: str) -> None:
    told = f"{done} {terminal.count(count, 'edit')}" if count else "no edit waits"
    terminal.say(f"{path}: {told}")


def _tell_losses(path: Path, error: EditError) -> None:
    """What would be lost, and both texts where the author changed the old one."""
    for line, loss in error.losses:
        terminal.tell_error(LmmError(f"accepting would lose text: {loss}", where=f"{path}:{line}"))
    lines = {line for line, _ in error.losses}
    for edit in find_edits(parse_markdown_text(read_document(path))):
        if edit.line in lines and edit.old_changed:
            shown = word_diff(visible_text(edit.old).strip(), visible_text(edit.new).strip(), err=True)
            terminal.say(textwrap.indent(shown, "  "), err=True)
    terminal.say(f"{path}: nothing was accepted ({error.hint})", err=True)


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
