"""`lmm ingest`: prepare documents and store them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import code_of
from lmm.errors import ConfigError, LmmError
from lmm.terminal import DONE, FAILED, INTERRUPTED
from lmm_education.cli import course_options
from lmm_education.options import IngestOptions

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.ingestion.reports import DocumentReport, Event, IngestReport

_SOON = 5.0  # seconds


@options.command()
@course_options.paths
@course_options.of(IngestOptions, "dry_run", "save_files", "output", "ingest")
@options.flag("--watch", help="Ingest again on every save; Ctrl-C stops.")
@course_options.of(IngestOptions, "prune", "annotate", "again")
@options.flag("--quiet", "-q", help="Print only the summary and problems, no line for each document.")
@options.verbose
@options.flag("--json", "as_json", help="Report as JSON.")
@course_options.hinting
def ingest(
    course: Course,
    *,
    paths: tuple[Path, ...],
    watch: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **how: Any,
) -> int:
    """Prepare documents and store them, so that they can be searched.

    A second run embeds only what changed, and removes what is gone from a document.
    Folders are searched for .md, .markdown, .Rmd and .qmd files. A document that cannot be read is
    reported, the others continue, and the exit code is 1; it is 2 for a path that is not there.
    """
    dry_run = how["dry_run"]
    if not how["ingest"] and (how["prune"] or how["again"]):
        raise ConfigError("--no-ingest changes no store", hint="leave out --prune and --again")
    if watch and (dry_run or how["again"]):
        raise ConfigError("--watch cannot be combined with --dry-run or --again", hint="run these first, then --watch")
    printer = IngestPrinter(lines=not (as_json or quiet), left_out=not as_json, verbose=verbose, dry_run=dry_run)
    if watch:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        terminal.say("watching; Ctrl-C stops", err=True)
        course.watch(
            *paths,
            **how,
            listener=printer,
            on_result=_each_time(course, printer, as_json),
            on_poll=lambda reason: terminal.say(f"no file notifications ({reason})", err=True),
        )
        return DONE
    return print_ingest(course, lambda: course.ingest(*paths, **how, listener=printer), printer, as_json=as_json)


def print_ingest(
    course: Course, verb: Callable[[], IngestReport], printer: IngestPrinter, *, as_json: bool = False
) -> int:
    """Ingest, and report the result for each document."""
    try:
        report = verb()
    except KeyboardInterrupt:
        printer.end()
        terminal.say("\nlmm: interrupted; run it again to continue", err=True)
        return INTERRUPTED
    finally:
        printer.end()
    _print_report(report, as_json)
    _notices(course, report, printer)
    return max(code_of(report.errors), FAILED if report.failed else DONE)


def _each_time(course: Course, printer: IngestPrinter, as_json: bool) -> Callable[[IngestReport | LmmError], None]:
    """Return a function that reports each run, and each notice once."""
    printed: set[str] = set()

    def ended(result: IngestReport | LmmError) -> None:
        printer.end()
        if isinstance(result, LmmError):  # it may be corrected before the next save
            terminal.tell_error(result)
            return
        if result.documents or result.lost:
            _print_report(result, as_json)
        _notices(course, result, printer, printed)

    return ended


# -- output ----------------------------------------------------------------------------------------


class IngestPrinter:
    """Prints a line for every document that changed or failed, or only for those that a book leaves out, and a progress
    bar on a terminal."""

    def __init__(self, *, lines: bool, left_out: bool = True, verbose: bool = False, dry_run: bool = False) -> None:
        self.lines, self.left_out, self.dry_run = lines, left_out, dry_run
        self.documents = terminal.SimilarLines(verbose=verbose, most=20, noun="document")
        self.notices = terminal.SimilarLines(verbose=verbose, err=True)
        self.total, self.done, self.doing = 0, 0, ""
        self.worked, self.begun = 0, time.monotonic()

    def __call__(self, event: Event) -> None:
        """Print an event."""
        from lmm.messages import Waiting
        from lmm_education.ingestion.reports import Annotating, Begun, Embedding, Ended

        match event:
            case Begun(documents):
                self.total, self.done, self.doing = documents, 0, ""
                self.worked, self.begun = 0, time.monotonic()
            case Annotating(path):
                self.doing = f"{path}: annotations"
            case Embedding(path, done, total):
                self.doing = f"{path}: {done}/{total} chunks"
            case Waiting(reason):
                terminal.erase_bar()
                terminal.say(reason, err=True)
            case Ended(document):
                self.done += document.state != "skipped"
                self.worked += document.state in ("new", "changed", "prepared")
                if not self.worked:  # unchanged documents come first, and take no time
                    self.begun = time.monotonic()
                self._print_document(document)
        if self.total:
            left = time_left(time.monotonic() - self.begun, self.worked, self.total - self.done)
            terminal.show_bar(self.done, self.total, after=", ".join(filter(None, (left, self.doing))))

    def _print_document(self, document: DocumentReport) -> None:
        from lmm_education.ingestion.source_files import NO_CHAPTER

        if document.error is not None:
            terminal.erase_bar()
            terminal.tell_error(document.error)
        elif line := describe(document, would=self.dry_run) if self.lines else "":
            terminal.erase_bar()
            self.documents.say(line)
            for each in document.withheld:
                terminal.say(f"{document.path}:{each.lines}: kept from students ({', '.join(each.types)})")
        elif self.left_out and document.reason.startswith(NO_CHAPTER):
            terminal.erase_bar()
            terminal.say(describe(document), err=True)

    def end(self) -> None:
        """Erase the bar, and print how many lines of documents were left out."""
        terminal.erase_bar()
        self.documents.end()


def time_left(taken: float, worked: int, documents: int) -> str:
    """Return an estimate of the remaining time; empty in the first seconds, or if little is left.

    >>> time_left(20.0, 2, 30), time_left(2.0, 2, 30)
    ('about 5 min left', '')
    """
    seconds = taken / worked * documents if worked and taken > _SOON else 0
    if seconds < _SOON:
        return ""
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"


def describe(document: DocumentReport, *, would: bool = False) -> str:
    """Return a line about what happened to a document; empty if it is unchanged.

    >>> from lmm_education.ingestion.reports import DocumentReport
    >>> describe(DocumentReport(Path("a.md"), "a.md", "a.md", "changed", chunks=40, embedded=2, removed=1))
    'a.md: 2 of 40 chunks embedded, 1 removed'
    """
    from lmm_education.ingestion.source_files import OUR_OWN

    saved = f"; wrote {', '.join(path.name for path in document.saved)}" if document.saved else ""
    if document.state == "skipped":
        return "" if document.reason == OUR_OWN else f"{document.path}: skipped: {document.reason}"
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


def _print_report(report: IngestReport, as_json: bool) -> None:
    if as_json:
        terminal.say_json(report.as_json(), line=True)
    else:
        terminal.say("".join(f"{line}\n" for line in summary(report)), end="")


def summary(report: IngestReport) -> list[str]:
    """Return the summary lines."""
    pruned = f"gone; {'would be ' if report.dry_run else ''}removed from the store"
    gone = [f"{lost.file}: {pruned if lost.pruned else 'gone, and still stored'}" for lost in report.lost]
    if any(not lost.pruned for lost in report.lost):
        gone.append("(--prune removes what is gone from the store)")
    return [*gone, f"{'; '.join(report.counts())} ({report.seconds:.1f} s)"]


def _notices(course: Course, report: IngestReport, printer: IngestPrinter, printed: set[str] | None = None) -> None:
    for error in report.errors:
        terminal.tell_error(error)
    notices = [*report.notices, *(course.encoder.notices if report.location else ())]
    new = report.count("new")
    if report.location and not report.dry_run and course.root in Path.cwd().parents:
        notices.append(f"stored in {report.location}, with the course in {course.root}")
    if report.location and new and not report.dry_run and new == len(course.documents()) and course.embedding_note:
        notices.append(course.embedding_note)  # only for a new store
    for notice in dict.fromkeys(notices):
        if printed is None or notice not in printed:
            printer.notices.say(notice)
    printer.notices.end()
    if printed is not None:
        printed.update(notices)
