"""`lmm messages` and `lmm watch` answer pending questions, now or on every save; `lmm accept`, `lmm reject` and
`lmm undo` decide what becomes of edits."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import each
from lmm.cli.options import change, exit_code, work
from lmm.errors import ConfigError, EditError, Failure, LmmError, PartlyFailed, Place
from lmm.event_printer import EventPrinter
from lmm.messages import Asked, Event, Failed, Notice, Reply, Retrying, Usage, Waiting, dialogue_text
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from lmm.document import Document
    from lmm.notebook.answers import AnsweredPrompt
    from lmm.pipeline import Report
    from lmm.watcher import WatchReport

STDIN = Path("-")


@options.command()
@options.documents("Markdown files, or folders; - reads standard input and writes standard output.")
@click.option("--at", metavar="LINE", type=int, help="Answer only the metadata block on this line.")
@options.model
@options.config
@options.again
@options.flag("--stale", help="Also ask again the prompts whose text has changed since the answer.")
@options.budget()
@options.flag("--dry-run", help="Show what would be sent, without asking a model.")
@options.flag("--diff", help="Show the changes of pending edits, word by word; several with their numbers, for --hunk.")
@options.json_lines
def messages(
    *, files: tuple[Path, ...], config: Path | None, budget: str, dry_run: bool, diff: bool, as_json: bool, **how: Any
) -> int:
    """Answer every pending ?:, +: and =: (query:, message:, edit:) of the files, inside the files.

    Nothing else in a file changes. An edit is shown beside the old text until lmm accept or lmm reject. A prompt
    whose call fails stays pending, and the exit code is 1. With --again --at LINE, the last answered prompt of
    the block on that line is asked again; the old answer stays above the new one.
    """
    from lmm import Document
    from lmm.disk.files import decode_document
    from lmm.models.budget import SharedBudget
    from lmm.pipeline import ParsedDocument

    if as_json and STDIN in files:
        raise ConfigError("- and --json both write to standard output", hint="name a file")

    spent = SharedBudget.of(budget)
    hints: dict[str, None] = {}

    def act(path: Path) -> int:
        listener = options.show_progress if as_json else EventPrinter(err=path == STDIN)
        if path == STDIN:
            version = ParsedDocument(decode_document(sys.stdin.buffer.read(), "-"), "standard input", "-")
            document = Document(version, config=config, listener=listener)
        else:
            document = Document.open(path, config=config, listener=listener)
        if dry_run:
            return _show_requests(document, path, **how)
        report = work(document, lambda it: it.answer(budget=spent, **how))
        options.print_hints(report, hints)
        if path == STDIN:
            terminal.say_document(document.text)
        name, err = terminal.path_text(path), path == STDIN
        if not as_json:
            _tell_edits(name, document, diff, err=err)
        code = _tell_unasked(name, document)
        if as_json:
            waiting = [
                {"line": edit.line, "prompt": edit.prompt, "remark": edit.remark, "warnings": edit.warnings}
                for edit in document.edits
            ]
            terminal.say_json({"path": str(path), **report.as_json(), "edits": waiting}, line=True)
        else:
            _summary(name, report, err=err)
        return exit_code(report) or code

    return each(files, act)


def _tell_unasked(name: str, document: Document) -> int:
    """Print which prompts will not be asked, so that nobody waits for an answer; return the exit code."""
    from lmm.notebook.problems import unasked_prompts

    unasked = unasked_prompts(document.blocks)
    for problem in unasked:
        where = f"{name}:{problem.line}:{problem.column}"
        terminal.tell_error(LmmError(problem.message, where=where, hint=problem.hint))
    return FAILED if any(problem.severity == "error" for problem in unasked) else DONE


def _tell_edits(
    name: str, document: Document, diff: bool = False, *, err: bool = False, of: Collection[str] | None = None
) -> None:
    """Print the pending edits of a document, or those asked for by the prompts `of`, with their warnings."""
    edits = [edit for edit in document.edits if of is None or edit.prompt in of]
    for edit in edits:
        terminal.say(f"{terminal.styled(f'{name}:{edit.line}', 'cyan', err=err)} pending edit: {edit.prompt}", err=err)
        if diff:
            terminal.say(textwrap.indent(edit.difference(err=err), "  "), err=err)
        if edit.remark:
            terminal.say(textwrap.indent(f"remark: {edit.remark}", "  "), err=err)
        for warning in edit.warnings:
            terminal.say(terminal.styled(f"  warning: {warning}", "yellow", err=err), err=err)
    if edits:
        one = f"; --line {edits[-1].line}: only that one" if len(edits) > 1 else ""
        terminal.say(f"{name}: lmm accept keeps the new text, lmm reject restores the old{one}", err=err)


def _summary(name: str, report: Report[AnsweredPrompt], *, err: bool = False) -> None:
    if not report.results and not report.failures and not report.interrupted:
        terminal.say(f"{name}: no questions are pending", err=err)
        return
    parts = [terminal.count(len(report.results), "reply")]
    unsaved = sum(failure.unsaved for failure in report.failures)
    if unsaved:
        parts.append(f"{unsaved} not saved")
    if len(report.failures) > unsaved:
        parts.append(f"{len(report.failures) - unsaved} not answered")
    if report.usage != Usage():
        parts.append(terminal.usage_text(report.usage))
    if report.interrupted:
        parts.append("interrupted; only complete replies are saved")
    terminal.say(f"{name}: {', '.join(parts)}", err=err)


def _show_requests(document: Document, path: Path, *, model: str | None, **how: Any) -> int:
    failures: tuple[Failure, ...] = ()
    try:
        requests = document.requests(model=model, **how)
    except PartlyFailed as error:
        requests, failures = error.report.results, error.report.failures
    name = model or str(document.settings.major.model)
    for ask in requests:
        terminal.say(f"── {terminal.path_text(path)}:{ask.place.line} → {name} · {ask.about.rpartition(', ')[0]}")
        terminal.say(f"{dialogue_text(ask.request.messages)}\n")
    terminal.say(f"{terminal.path_text(path)}: {terminal.count(len(requests), 'request')} would be sent to {name}")
    for failure in failures:
        terminal.tell_failed(failure.error, failure.what, failure.place)
    return max(FAILED if failures else DONE, _tell_unasked(terminal.path_text(path), document))


# -- on every save ---------------------------------------------------------------------------------


@options.command()
@options.argument(
    "paths",
    "PATH",
    "Markdown files, or folders: their .md, .Rmd, .qmd and .markdown files.",
    many=True,
    type=options.PATH,
)
@click.option(
    "--quiet",
    metavar="SECONDS",
    type=click.FloatRange(min=0.0),
    default=1.0,
    help="Answer when a document has not been saved for this long.",
)
@options.flag("--poll", help="Check the files repeatedly, for folders that do not report changes.")
@options.model
@options.config
def watch(*, paths: tuple[Path, ...], quiet: float, poll: bool, model: str | None, config: Path | None) -> int:
    """Answer pending prompts now and after every save; Ctrl-C stops.

    A prompt whose call fails stays pending and is asked again at the next save.
    """
    from lmm.watcher import watch_documents

    report = watch_documents(paths, model=model, config=config, quiet=quiet, poll=poll, listener=_tell_event)
    over_the_echo = terminal.ERASE_LINE if terminal.is_terminal() else ""  # the ^C that a terminal shows
    terminal.say(f"{over_the_echo}{_watch_summary(report)}")
    return DONE


def _tell_event(event: Event, place: Place) -> None:
    """Print an event, and new edits with their warnings; failures go to standard error."""
    from lmm import Document
    from lmm.watcher import Scanned

    match event:
        case Waiting() | Notice():
            terminal.tell_notice(event, place)
        case Asked(text=text):
            terminal.say(f"{place} {' '.join(text.split())}")
        case Retrying():
            terminal.say(f"{place} {event}")
        case Reply():
            terminal.say(f"{place} answered ({terminal.reply_note(event)})")
        case Failed(error=error, what=what):
            terminal.tell_failed(error, what, place)
        case Scanned(report=report, text=text) if report is not None:
            asked = [answered.prompt.text for answered in report.results if answered.prompt.is_edit]
            _tell_edits(terminal.path_text(place.file), Document.from_text(text), of=asked)


def _watch_summary(report: WatchReport) -> str:
    parts = [terminal.count(report.answered - report.remembered, "reply")]
    if report.remembered:
        parts.append(f"{report.remembered} remembered")
    if report.failed:
        parts.append(f"{report.failed} not answered")
    if report.usage != Usage():
        parts.append(terminal.usage_text(report.usage))
    return f"stopped: {', '.join(parts)}"


# -- accepting, rejecting, undoing ------------------------------------------------------------------

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
                summary = f"{done} {number}{pending}" if count else "no edits are pending"
                terminal.say(f"{terminal.path_text(path)}: {summary}")
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
        summary = f"took back the change of {change.made:%Y-%m-%d %H:%M:%S} ({terminal.count(change.lines, 'line')})"
        named = f" in {', '.join(map(str, change.files))}" if change.files else ""
        more = f"; {change.left} earlier can be taken back too" if change.left else ""
        if change.files or not change.failures:
            terminal.say(f"{terminal.path_text(path)}: {summary}{named}{more}")
        for failure in change.failures:
            terminal.tell_error(failure)
        return FAILED if change.failures else DONE

    return each(files, act)
