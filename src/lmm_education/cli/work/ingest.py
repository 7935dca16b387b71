"""What is done by `lmm ingest`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from lmm.cli import console
from lmm.cli.work.live import clipped
from lmm.errors import ConfigError, LmmError
from lmm_education.ingestion import report as happened
from lmm_education.ingestion.report import DocumentReport, IngestReport, State
from lmm_education.ingestion.run import folder_of, ingest_into
from lmm_education.ingestion.running import IngestOptions
from lmm_education.ingestion.watching import watch as watch_paths
from lmm_education.open_course import Course, open_course


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
    with open_course(config=config, course=course, folder=folder_of(paths)) as opened:
        for hint in opened.models.hints:
            console.say(f"{hint}\n", sys.stderr)
        if watch:
            return _watch(opened, paths, options, as_json, quiet)
        return _once(opened, paths, options, as_json, quiet)


def _check(options: IngestOptions, watch: bool) -> None:
    if not options.ingest and (options.prune or options.again):
        raise ConfigError("--no-ingest changes no store", hint="leave out --prune and --again")
    if watch and (options.dry_run or options.again):
        raise ConfigError("--watch goes with neither --dry-run nor --again", hint="run them first, then --watch")


def _once(course: Course, paths: list[Path], options: IngestOptions, as_json: bool, quiet: bool) -> int:
    ask = _ask if sys.stdin.isatty() and sys.stderr.isatty() and not as_json else None
    show = _Show(lines=not (as_json or quiet), dry_run=options.dry_run)
    try:
        report = ingest_into(course, paths, options, listener=show, ask=ask)
    except KeyboardInterrupt:
        show.clear()
        console.say("\nlmm: interrupted; run it again to go on\n", sys.stderr)
        return console.INTERRUPTED
    finally:
        show.clear()
    _tell(report, as_json)
    _notices(course, report)
    return console.FAILED if report.failed else console.DONE


def _ask(question: str) -> bool:
    console.say(f"\r\x1b[K{question} [y/N] ", sys.stderr)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _watch(course: Course, paths: list[Path], options: IngestOptions, as_json: bool, quiet: bool) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.say("watching; Ctrl-C stops\n", sys.stderr)
    told: set[str] = set()

    def work(documents: Collection[Path] | None, stopped: threading.Event) -> None:
        show = _Show(lines=not (as_json or quiet), dry_run=False, stopped=stopped)
        try:
            report = ingest_into(course, paths, options, listener=show, only=documents)
        except KeyboardInterrupt:
            return
        except LmmError as error:  # it may be mended until the next save
            show.clear()
            console.tell_error(error)
            return
        show.clear()
        if report.documents or report.lost:
            _tell(report, as_json)
        _notices(course, report, told)

    watch_paths(paths, work, on_poll=lambda reason: console.say(f"no file notifications ({reason})\n", sys.stderr))
    return console.DONE


# -- what is said ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Show:
    """A line for every document that something happened to; a progress bar on a terminal."""

    lines: bool
    dry_run: bool
    stopped: threading.Event | None = None
    total: int = 0
    done: int = 0
    doing: str = ""
    bar: bool = field(default_factory=lambda: sys.stderr.isatty())

    def __call__(self, event: happened.Event) -> None:
        if self.stopped is not None and self.stopped.is_set():
            raise KeyboardInterrupt
        match event:
            case happened.Begun(documents):
                self.total = documents
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
            self.clear()
            console.tell_error(document.error)
        elif self.lines and (line := describe(document, would=self.dry_run)):
            self.clear()
            console.say(f"{line}\n", sys.stdout)

    def _draw(self) -> None:
        if self.bar and self.total:
            filled = 30 * min(self.done, self.total) // self.total
            text = f"[{'█' * filled}{'·' * (30 - filled)}] {self.done}/{self.total} {self.doing}"
            console.say(f"\r\x1b[K{clipped(text, 78)}", sys.stderr)

    def clear(self) -> None:
        """Take the bar away."""
        if self.bar:
            console.say("\r\x1b[K", sys.stderr)


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
        parts = [f"{console.count(document.chunks, 'chunk')} in {console.count(document.sections, 'section')}"]
    else:
        parts = [
            f"{document.embedded} of {console.count(document.chunks, 'chunk')} {'to embed' if would else 'embedded'}"
        ]
        for number, what in ((document.reused, "reused"), (document.updated, "updated"), (document.removed, "removed")):
            parts += [f"{number} {'to be ' if would else ''}{what}"] if number else []
    moved = f"was {document.moved_from}; " if document.moved_from else ""
    new = "new, " if document.state == "new" else ""
    return f"{document.path}: {moved}{new}{', '.join(parts)}{saved}"


def _tell(report: IngestReport, as_json: bool) -> None:
    if as_json:
        console.say(json.dumps(report.as_json(), ensure_ascii=False) + "\n", sys.stdout)
    else:
        console.say("".join(f"{line}\n" for line in summary(report)), sys.stdout)


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
    parts = [f"{console.count(len(shown), 'document')}" + (f": {', '.join(states)}" if states else "")]
    if any(d.state in ("new", "changed") for d in shown):
        verb = "would be embedded" if report.dry_run else "embedded"
        parts.append(f"{report.embedded} of {console.count(sum(d.chunks for d in shown), 'chunk')} {verb}")
    if ours := sum(d.reason == happened.OUR_OWN for d in report.documents):
        parts.append(f"passed over {console.count(ours, 'prepared file')}")
    return parts


def _notices(course: Course, report: IngestReport, told: set[str] | None = None) -> None:
    for error in report.errors:
        console.tell_error(error)
    notices = [*report.notices, *(course.encoder.notices if report.location else ())]
    for notice in dict.fromkeys(notices):
        if told is None or notice not in told:
            console.say(f"{notice}\n", sys.stderr)
    if told is not None:
        told.update(notices)
