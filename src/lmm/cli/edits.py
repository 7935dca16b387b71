"""`lmm accept`, `lmm reject` and `lmm undo`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import each
from lmm.cli.options import change
from lmm.errors import EditError, LmmError
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from lmm.document import Document

_files = options.documents("Documents with pending edits, or folders with such documents.")
_line = click.option("--line", metavar="N", type=int, help="Only the edit that covers this line.")
_hunk = click.option(
    "--hunk", metavar="N", type=int, help="Only this change of the edit, from 1; the others stay pending."
)


@options.command()
@_files
@_line
@_hunk
@options.flag("--force", help="Accept even where text would be lost.")
@options.flag("--metadata", help="Keep metadata and prompts that the model wrote; otherwise they become comments.")
@options.json_lines
def accept(*, files: tuple[Path, ...], as_json: bool, hunk: int | None, **how: Any) -> int:
    """Keep the new text of pending edits, with your own changes to it.

    An edit by which text would be lost is named and not accepted, and the exit code is 1: the reply was cut off or
    drops headings, tables, code, links, labels, citations or the like, which --force accepts, or you changed the old
    text after the model saw it.
    """

    return _resolve(files, "accepted", lambda document: document.accept(hunk=hunk, **how), as_json, hunk)


@options.command()
@_files
@_line
@_hunk
@options.flag("--again", help="Also restore the prompt, so that it is asked again.")
@options.json_lines
def reject(*, files: tuple[Path, ...], as_json: bool, hunk: int | None, **how: Any) -> int:
    """Restore the old text of pending edits, byte for byte."""
    return _resolve(files, "rejected", lambda document: document.reject(hunk=hunk, **how), as_json, hunk)


def _resolve(files: Sequence[Path], done: str, verb: Callable[[Document], int], as_json: bool, hunk: int | None) -> int:
    from lmm import Document

    def act(path: Path) -> int:
        refused: list[EditError] = []

        def attempt(document: Document) -> int:
            try:
                return verb(document)
            except EditError as error:
                refused.append(error)
                return error.accepted

        count = change(path, attempt, err=as_json)
        for error in refused:
            _tell_losses(path, error)
        if as_json:
            terminal.say_json({"path": str(path), done: count}, line=True)
        else:
            number = terminal.count(count, "edit" if hunk is None else "change")
            left = (
                ", ".join(str(edit.line) for edit in Document.open(path).edits) if hunk is None and not refused else ""
            )
            pending = f"; pending at line {left}" if left else ""  # their lines have moved
            if count or not refused:
                told = f"{done} {number}{pending}" if count else "no edits are pending"
                terminal.say(f"{terminal.path_text(path)}: {told}")
        return FAILED if refused else DONE

    return each(files, act)


def _tell_losses(path: Path, error: EditError) -> None:
    """Print what would be lost, and both texts if the author changed the old one."""
    from lmm import Document
    from lmm.notebook.edits import OLD_CHANGED

    for line, loss in error.losses:
        terminal.tell_error(LmmError(f"accepting would lose text: {loss}", where=f"{path}:{line}"))
    changed = {line for line, loss in error.losses if loss == OLD_CHANGED}
    for edit in Document.open(path).edits:
        if edit.line in changed:
            terminal.say(textwrap.indent(edit.difference(err=True), "  "), err=True)
    refused = terminal.count(len({line for line, _ in error.losses}), "edit")
    terminal.say(f"{terminal.path_text(path)}: {refused} not accepted ({error.hint})", err=True)


@options.command()
@options.documents("Files that lmm has changed, ChatMD files that were run, or folders with such documents.")
def undo(*, files: tuple[Path, ...]) -> int:
    """Take back the last change that lmm made to each file, byte for byte; your own changes elsewhere stay.

    For a ChatMD file that was run, take back what the file tools changed in its last turn, in all files; a file that
    you changed in the same place since is named, and left as it is. What commands and MCP servers changed stays.
    Repeat it to go further back.
    """
    from lmm.disk.undo import take_back  # unlike this, opening a document does not wait for an editor that is saving it

    def act(path: Path) -> int:
        change = take_back(path)
        told = f"took back the change of {change.made:%Y-%m-%d %H:%M:%S} ({terminal.count(change.lines, 'line')})"
        named = f" in {', '.join(map(str, change.files))}" if change.files else ""
        more = f"; {change.left} earlier can be taken back too" if change.left else ""
        if change.files or not change.failures:
            terminal.say(f"{terminal.path_text(path)}: {told}{named}{more}")
        for failure in change.failures:
            terminal.tell_error(failure)
        return FAILED if change.failures else DONE

    return each(files, act)
