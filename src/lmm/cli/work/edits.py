"""What is done by `lmm accept`, `lmm reject` and `lmm undo`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.cli.work.word_diff import word_diff
from lmm.document import Document
from lmm.errors import EditError, LmmError
from lmm.notebook.edits import find_edits, visible_text


def accept(files: list[Path], line: int | None, force: bool) -> int:
    """Keep the new text of waiting edits, with your own changes to it."""

    def work(path: Path) -> int:
        try:
            return _resolve(path, "accepted", lambda document: document.accept(line=line, force=force))
        except EditError as error:
            _tell_losses(path, error)
            return console.FAILED

    return console.each(files, work)


def reject(files: list[Path], line: int | None, again: bool) -> int:
    """Restore the old text of waiting edits, byte for byte."""
    return console.each(
        files, lambda path: _resolve(path, "rejected", lambda document: document.reject(line=line, again=again))
    )


def _resolve(path: Path, done: str, verb: Callable[[Document], int]) -> int:
    with Document.open(path, listener=terminal.EventPrinter()) as document:
        document.reload()
        count = verb(document)
        document.save().check()
    told = f"{done} {terminal.count(count, 'edit')}" if count else "no edit waits"
    terminal.say(f"{path}: {told}")
    return console.DONE


def _tell_losses(path: Path, error: EditError) -> None:
    """What would be lost, and both texts where the author changed the old one."""
    for line, loss in error.losses:
        terminal.tell_error(LmmError(f"accepting would lose text: {loss}", where=f"{path}:{line}"))
    lines = {line for line, _ in error.losses}
    for edit in find_edits(Document.open(path).blocks):
        if edit.line in lines and edit.old_changed:
            shown = word_diff(visible_text(edit.old).strip(), visible_text(edit.new).strip(), err=True)
            terminal.say(textwrap.indent(shown, "  "), err=True)
    terminal.say(f"{path}: nothing was accepted ({error.hint})", err=True)


def undo(files: list[Path]) -> int:
    """Take back the last change that lmm made to each file."""

    def work(path: Path) -> int:
        change = Document.open(path).undo()
        told = f"took back the change of {change.made:%Y-%m-%d %H:%M:%S} ({terminal.count(change.lines, 'line')})"
        more = f"; {change.left} before it can be taken back too" if change.left else ""
        terminal.say(f"{path}: {told}{more}")
        return console.DONE

    return console.each(files, work)
