"""What is done by `lmm ingest`."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError, LmmError
from lmm_education.course import Course
from lmm_education.ingestion import report as happened
from lmm_education.ingestion.report import DocumentReport, IngestReport, State
from lmm_education.ingestion.run import ingest_into, watch_course
from lmm_education.ingestion.running import IngestOptions
from lmm_education.parts import config_for


def ingest(
    paths: list[Path],
    *,
    dry_run: bool,
    save_files: bool,
    output: Path | None,
    no_ingest: bool,
    watch: bool,
    prune: bool,
    moved: bool | None,
    annotate: bool,
    again: bool,
    course: str | None,
    config: Path | None,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Prepare documents and store them, so that they can be searched."""
    options = IngestOptions(save_files, output, not no_ingest, prune, moved, annotate, again, dry_run)
    _check(options, watch)
    with Course.open(config=config_for(paths, config), course=course) as opened:
        for hint in opened.models.hints:
            terminal.say(hint, err=True)
        if watch:
            return _watch(opened, paths, options, as_json, quiet)
        return ingest_once(opened, paths, options, as_json=as_json, quiet=quiet)


def _check(options: IngestOptions, watch: bool) -> None:
    if not options.ingest and (options.prune or options.again):
        raise ConfigError("--no-ingest changes no store", hint="leave out --prune and --again")
    if watch and (options.dry_run or options.again):
        raise ConfigError("--watch goes with neither --dry-run nor --again", hint="run them first, then --watch")


def ingest_once(
    course: Course, paths: list[Path], options: IngestOptions, *, as_json: bool = False, quiet: bool = False
) -> int:
    """Ingest, showing what happens, and report."""
    ask = _ask if sys.stdin.isatty() and terminal.is_terminal(err=True) and not as_json else None
    show = _Show(lines=not (as_json or quiet), dry_run=options.dry_run)
    try:
        report = ingest_into(course, paths, options, listener=show, ask=ask)
    except KeyboardInterrupt:
        terminal.erase_bar()
        terminal.say("\nlmm: interrupted; run it again to go on", err=True)
        return console.INTERRUPTED
    finally:
        terminal.erase_bar()
    _tell(report, as_json)
    _notices(course, report)
    return console.FAILED if report.failed else console.DONE


def _ask(question: str) -> bool:
    terminal.say(f"{terminal.ERASE_LINE}{question} [y/N] ", err=True, end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _watch(course: Course, paths: list[Path], options: IngestOptions, as_json: bool, quiet: bool) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    terminal.say("watching; Ctrl-C stops", err=True)
    told: set[str] = set()

    def ended(result: IngestReport | LmmError) -> None:
        terminal.erase_bar()
        if isinstance(result, LmmError):  # it may be mended until the next save
            terminal.tell_error(result)
            return
        if result.documents or result.lost:
            _tell(result, as_json)
        _notices(course, result, told)

    shown = _Show(lines=not (as_json or quiet), dry_run=False)
    watch_course(
        course,
        paths,
        options,
        listener=shown,
        told=ended,
        on_poll=lambda reason: terminal.say(f"no file notifications ({reason})", err=True),
    )
    return console.DONE


# -- what is said ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Show:
    """A line for every document that something happened to; a progress bar on a terminal."""

    lines: bool
    dry_run: bool
    total: int = 0
    done: int = 0
    doing: str = ""

    def __call__(self, event: happened.Event) -> None:
        match event:
            case happened.Begun(documents):
                self.total, self.done, self.doing = documents, 0, ""
            case happened.Annotating(path):
                self.doing = f"{path}: annotations"
            case happened.Embedding(path, done, total):
                self.doing = f"{path}: {done}/{total} chunks"
            case happened.Ended(document):
                self.done += document.state != "skipped"
                self._tell(document)
        self._draw()

    def _tell(self, document: DocumentReport) -> None:
        if document.error is not None:
            terminal.erase_bar()
            terminal.tell_error(document.error)
        elif self.lines and (line := describe(document, would=self.dry_run)):
            terminal.erase_bar()
            terminal.say(line)

    def _draw(self) -> None:
        if self.total:
            terminal.show_bar(self.done, self.total, after=self.doing)


def describe(document: DocumentReport, *, would: bool = False) -> str:
    """What happened to a document, in a line; nothing about one that stayed as it was.

    >>> describe(DocumentReport(Path("a.md"), "a.md", "a.md", "changed", chunks=40, embedded=2, removed=1))
    'a.md: 2 of 40 chunks embedded, 1 removed'
    """
    saved = f"; wrote {', '.join(path.name for path in document.saved)}" if document.saved else ""
    if document.state == "skipped":
        return "" if document.reason == happened.OUR_OWN else f"{document.path}: skipped: {document.reason}"
    if document.state == "unchanged":
        return f"{document.path}: unchanged{saved}" if saved else ""
    if document.state == "prepared":
        parts = [f"{terminal.count(document.chunks, 'chunk')} in {terminal.count(document.sections, 'section')}"]
    else:
        parts = [
            f"{document.embedded} of {terminal.count(document.chunks, 'chunk')} {'to embed' if would else 'embedded'}"
        ]
        for number, what in ((document.reused, "reused"), (document.updated, "updated"), (document.removed, "removed")):
            parts += [f"{number} {'to be ' if would else ''}{what}"] if number else []
    moved = f"was {document.moved_from}; " if document.moved_from else ""
    new = "new, " if document.state == "new" else ""
    return f"{document.path}: {moved}{new}{', '.join(parts)}{saved}"


def _tell(report: IngestReport, as_json: bool) -> None:
    if as_json:
        terminal.say_json(report.as_json())
    else:
        terminal.say("".join(f"{line}\n" for line in summary(report)), end="")


def summary(report: IngestReport) -> list[str]:
    """The lines at the end."""
    gone = [
        f"{lost.file}: gone; {_pruned(report)}" if lost.pruned else f"{lost.file}: gone, and still stored"
        for lost in report.lost
    ]
    if any(not lost.pruned for lost in report.lost):
        gone.append("(--prune removes what is gone from the store)")
    return [*gone, f"{'; '.join(_counts(report))} ({report.seconds:.1f} s)"]


def _pruned(report: IngestReport) -> str:
    return "would be removed from the store" if report.dry_run else "removed from the store"


_STATES: tuple[State, ...] = ("new", "changed", "unchanged", "prepared", "failed")


def _counts(report: IngestReport) -> list[str]:
    shown = [d for d in report.documents if d.state != "skipped"]
    states = [f"{n} {state}" for state in _STATES if (n := report.count(state))]
    parts = [f"{terminal.count(len(shown), 'document')}" + (f": {', '.join(states)}" if states else "")]
    if any(d.state in ("new", "changed") for d in shown):
        verb = "would be embedded" if report.dry_run else "embedded"
        parts.append(f"{report.embedded} of {terminal.count(sum(d.chunks for d in shown), 'chunk')} {verb}")
    if ours := sum(d.reason == happened.OUR_OWN for d in report.documents):
        parts.append(f"passed over {terminal.count(ours, 'prepared file')}")
    return parts


def _notices(course: Course, report: IngestReport, told: set[str] | None = None) -> None:
    for error in report.errors:
        terminal.tell_error(error)
    notices = [*report.notices, *(course.encoder.notices if report.location else ())]
    for notice in dict.fromkeys(notices):
        if told is None or notice not in told:
            terminal.say(notice, err=True)
    if told is not None:
        told.update(notices)
