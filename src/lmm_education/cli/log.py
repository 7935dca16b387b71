"""`lmm log`: what students asked `lmm serve`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, LmmError
from lmm.extras import check_installed
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from lmm_education.course import Course
    from lmm_education.exchange_log.exchanges import LogFilter, LoggedExchange
    from lmm_education.exchange_log.figures import Figures
    from lmm_education.exchange_log.open_questions import NotedQuestion, NotedQuestions

_THUMBS = {1: "up", -1: "down", 0: ""}
_WIDTH = 100
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

_chosen = options.together(
    click.option("--since", metavar="TIME", help="Only since then: 2026-11-01, 7d, 12h."),
    click.option("--until", metavar="TIME", help="Only until then."),
    options.flag("--unanswered", help="Only where nothing was found, or the answer cites nothing."),
    options.flag("--unverified", help="Only where the answer says something that its sources do not."),
    options.flag("--up", help="Only with thumbs up."),
    options.flag("--down", help="Only with thumbs down."),
    options.flag("--errors", help="Only those that failed."),
    click.option("--contains", metavar="TEXT", help="Only with this text in question, answer or comment."),
)
_file = options.together(
    click.option(
        "--log", "file", metavar="FILE", type=options.PATH, help="Use this log instead of the configured one."
    ),
    options.config,
)


@options.group()
def log() -> None:
    """Show, export or delete what students asked, if 'log' under [serve] in config.toml names a file."""


@log.command()
@options.argument(
    "exchange",
    "[ID]",
    "Show this exchange in full; the beginning of its id is enough.",
    required=False,
    default="",
)
@click.option(
    "--latest", "-n", metavar="N", type=click.IntRange(min=1), default=50, help="Show this many of the latest."
)
@_chosen
@options.flag("--outdated", help="Only where a cited section is gone, or its file has changed since lmm ingest.")
@options.as_json
@_file
def show(
    *,
    exchange: str,
    latest: int,
    outdated: bool,
    as_json: bool,
    file: Path | None,
    config: Path | None,
    **chosen: Any,
) -> int:
    """Show the latest exchanges as a table, or one of them with its answer."""
    from lmm_education.errors import LogError
    from lmm_education.exchange_log.exchanges import as_values
    from lmm_education.exchange_log.figures import figures
    from lmm_education.exchange_log.log_file import read_log

    path, _ = _log_file(file, config)
    if exchange:
        found = [each for each in read_log(path) if each.id.startswith(exchange)]
        if len(found) != 1:
            raise LogError(f"{len(found) or 'no'} exchanges have ids that begin with '{exchange}'", where=str(path))
    else:
        found = read_log(path, _filter(None if outdated else latest, **chosen))
        found = _outdated(found, config)[-latest:] if outdated else found
    if as_json:
        terminal.say_json([as_values(each) for each in found])
    elif exchange:
        terminal.say(exchange_text(found[0]), end="")
    else:
        terminal.say(table_text(found), end="")
        terminal.say(f"{figures_text(figures(found))}", err=True)
    return DONE


def _outdated(exchanges: Sequence[LoggedExchange], config: Path | None) -> list[LoggedExchange]:
    """Return the exchanges whose answers cite what is not in the course any more, or not as it was."""
    from lmm_education.course import Course

    with Course.open(config=config) as course, course.view() as catalogue:
        changed, stored = catalogue.outdated(course.root), {section.id for section, _ in catalogue.sections}
    return [
        exchange
        for exchange in exchanges
        if any(each.cited and (each.file in changed or each.section not in stored) for each in exchange.sources)
    ]


@log.command()
@click.option(
    "--as",
    "kind",
    type=click.Choice(["csv", "jsonl", "questions"]),
    default="csv",
    help="The format: a table, JSON lines, a question file for lmm eval.",
)
@click.option("--output", "-o", metavar="FILE", type=options.PATH, help="Write to this file.")
@_chosen
@_file
def export(
    *,
    kind: Literal["csv", "jsonl", "questions"],
    output: Path | None,
    file: Path | None,
    config: Path | None,
    **chosen: Any,
) -> int:
    """Write the exchanges as CSV, as JSON lines, or their questions for lmm eval.

    In a question file, each question has the section that its answer cites; check it.
    """
    from lmm.disk.files import replace
    from lmm_education.exchange_log.exchanges import WRITERS
    from lmm_education.exchange_log.log_file import read_log

    path, _ = _log_file(file, config)
    found = read_log(path, _filter(**chosen))
    text = WRITERS[kind](found)
    if output is None:
        terminal.say_document(text)
    else:
        replace(output, text)
        rows = (text.count("\n"), "question") if kind == "questions" else (len(found), "exchange")
        terminal.say(f"{output}: {terminal.count(*rows)}")
    return DONE


@log.command()
@click.option(
    "--into",
    metavar="FOLDER",
    type=options.PATH,
    help="Write them into the metadata of the nearest sections of these documents.",
)
@click.option("--since", metavar="TIME", help="Asked since then: 2026-11-01, 7d, 12h.")
@options.budget()
@options.as_json
@_file
def questions(
    *, into: Path | None, since: str | None, budget: str, as_json: bool, file: Path | None, config: Path | None
) -> int:
    """List questions that the course did not answer, or answered badly.

    With --into, each question is written into the metadata of the nearest section. Run it again when you have
    written more and ingested it: questions whose section changed are asked again, and removed if the
    answer cites the course and nothing in it is unverified.
    """
    from lmm_education.course import Course
    from lmm_education.encode.bm25 import bm25
    from lmm_education.exchange_log.exchanges import LogFilter
    from lmm_education.exchange_log.log_file import read_log
    from lmm_education.exchange_log.open_questions import (
        QUESTIONS,
        NotedQuestions,
        open_questions,
        questions_marked_wrong,
    )

    path, _ = _log_file(file, config)
    begin = time_of(since, datetime.now().astimezone(), where="--since") if since else None
    with Course.open(config=config) as course:
        stems, wrong = bm25(course.settings.preparation.language), questions_marked_wrong(course.root / QUESTIONS)
        exchanges = read_log(path, LogFilter(since=begin), answers=False)
        groups = open_questions(exchanges, lambda text: stems.embed_document(text).indices, wrong)
        writer = _writer(course, into, path, budget) if into else NotedQuestions()
        writer.wrong = wrong
        noted = writer.write(groups)
    for each in noted if not as_json else ():
        terminal.say(_noted_text(each))
    if as_json:
        terminal.say_json([asdict(each) for each in noted])
    for waiting in sorted(writer.waiting):
        terminal.say(f"{waiting}: changed since lmm ingest; run that first, then this again", err=True)
    for error in writer.failures:
        terminal.tell_error(error)
    summary = f"{terminal.count(len(noted), 'question')}, answered now: {sum(each.answered for each in noted)}"
    lost = sum(not each.line and not each.answered for each in noted) if into else 0
    terminal.say(summary + (f", beside no section: {lost}" if lost else ""), err=True)
    return FAILED if writer.failures else DONE


def _writer(course: Course, into: Path, log: Path | str, budget: str) -> NotedQuestions:
    """Return an object that writes questions into the documents of a folder, and asks the course as a student would."""
    from lmm import Document
    from lmm.disk.folder import check_named
    from lmm.models.budget import SharedBudget
    from lmm_education.exchange_log.exchanges import AUTHOR
    from lmm_education.exchange_log.log_file import LogFile
    from lmm_education.exchange_log.open_questions import NotedQuestions
    from lmm_education.ingestion.source_files import find_sources
    from lmm_education.web.questions import ServedQuestion, logged_source

    students, spent = course.for_students(), SharedBudget.of(budget)

    def is_answered(question: str) -> bool:
        asked = ServedQuestion(question, AUTHOR, AUTHOR)
        asked.note(students.ask(question, budget=spent))
        exchange = asked.as_exchange()
        good = exchange.is_answered and not exchange.unverified
        if good:  # logged, so that it is known the next time
            with LogFile(log) as opened:
                opened.add([(exchange, AUTHOR)])
        return good

    @functools.cache
    def unread() -> frozenset[str]:
        report = course.ingest(into, dry_run=True)
        return frozenset(d.file for d in report.documents if d.error or d.embedded or d.reused or d.removed)

    sources = find_sources([check_named(into)], course.root)
    writer = NotedQuestions(
        nearest=lambda question: [logged_source(found, False) for found in students.search(question).sections],
        is_answered=is_answered,
        unread=unread,
        failures=list(sources.errors),
    )
    for source in sources.documents:
        try:
            writer.documents[source.file] = Document.open(source.path)
        except LmmError as error:
            writer.failures.append(error)
    return writer


def _noted_text(noted: NotedQuestion) -> str:
    """Return a line about a question.

    >>> from lmm_education.exchange_log.open_questions import NotedQuestion
    >>> _noted_text(NotedQuestion("Why?", 2, "not found", "a.md", line=3))
    'a.md:3: Why? (2 times, not found)'
    """
    where = f"{noted.file}:{noted.line}: " if noted.line else ""
    state = "answered now" if noted.answered else f"{terminal.count(noted.asked, 'time')}, {noted.answer}"
    return f"{where}{terminal.clipped(noted.question, _WIDTH)} ({state})"


@log.command()
@click.option(
    "--before", metavar="TIME", help="Delete what is older: 2026-11-01, 30d. [default: older than 'log_days']"
)
@options.flag("--all", "everything", help="Delete everything.")
@options.as_json
@_file
def clear(*, before: str | None, everything: bool, as_json: bool, file: Path | None, config: Path | None) -> int:
    """Delete old exchanges and overwrite them in the file. The server does this every hour."""
    import time

    from lmm_education.errors import LogMissing
    from lmm_education.exchange_log.log_file import DAY, LogFile

    if before and everything:
        raise ConfigError("--before and --all cannot be used together")
    path, days = _log_file(file, config)
    if isinstance(path, Path) and not path.is_file():
        raise LogMissing("there is no log yet", where=str(path))
    now = time.time()
    limit = time_of(before, datetime.now().astimezone(), where="--before") if before else now - days * DAY
    with LogFile(path) as opened:
        deleted = opened.delete(before=float("inf") if everything else limit, now=now, compact=True)
    if as_json:
        terminal.say_json({"deleted": deleted.exchanges, "gone": deleted.gone})
    else:
        terminal.say(f"{terminal.count(deleted.exchanges, 'exchange')} deleted")
    if not deleted.gone:
        terminal.say("another program is reading the log: run this again to overwrite what was deleted", err=True)
    return DONE


def _filter(latest: int | None = None, *, up: bool, down: bool, contains: str | None, **others: Any) -> LogFilter:
    """Return the options of `_chosen` as a filter for the log.

    Raises:
        ConfigError: a time is invalid, or two options exclude each other.
    """
    from lmm_education.exchange_log.exchanges import LogFilter

    if up and down:
        raise ConfigError("--up and --down cannot be used together")
    now, reaction = datetime.now().astimezone(), 1 if up else -1 if down else None
    for name in ("since", "until"):
        if others[name]:
            others[name] = time_of(others[name], now, where=f"--{name}")
    return LogFilter(reaction=reaction, contains=contains or "", latest=latest, **others)


def time_of(text: str, now: datetime, *, where: str) -> float:
    """Parse a day (``2026-11-01``), a time (``2026-11-01T12:00``), or a duration before now (``7d``, ``12h``, ``2w``);
    return seconds since 1970. The zone of `now` applies to days.

    Raises:
        ConfigError: the text is none of these.

    >>> from datetime import UTC
    >>> time_of("2d", datetime(1970, 1, 3, 1, tzinfo=UTC), where="--since")
    3600.0
    """
    text = text.strip()
    if text[:-1].isdecimal() and len(text) < 7 and text[-1] in _UNITS:
        return (now - int(text[:-1]) * _UNITS[text[-1]]).timestamp()
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        hint = "such as 2026-11-01, 2026-11-01T12:00, 7d, 12h"
        raise ConfigError(f"'{text}' is not a time", where=where, hint=hint) from None
    return (given if given.tzinfo else given.replace(tzinfo=now.tzinfo)).timestamp()


def _log_file(log: Path | None, config: Path | None) -> tuple[Path | str, int]:
    """Return the log, and the number of days for which it is kept."""
    from lmm.disk.folder import check_named

    check_installed("web", "lmm log needs", "sqlalchemy")
    from lmm_education.exchange_log.log_file import log_place
    from lmm_education.parts import find_course

    file, settings = find_course(config)
    if log is not None:
        return check_named(log), settings.serve.log_days
    if not settings.serve.log:
        hint = 'set log = "course-log.sqlite" under [serve], or give one with --log'
        raise ConfigError("no log is kept", where=str(file.path or "config.toml"), hint=hint)
    return log_place(settings.serve, settings.root), settings.serve.log_days


# -- text output -----------------------------------------------------------------------------------


def table_text(exchanges: Sequence[LoggedExchange]) -> str:
    """Return a line for each exchange, with a comment and the error below it.

    >>> from lmm_education.exchange_log.exchanges import LoggedExchange
    >>> table_text([LoggedExchange("1f00aa", 0.0, "Why green?", outcome="not found")]).splitlines()[1].split()[2:]
    ['1f00aa', 'not', 'found', 'Why', 'green?']
    """
    lines = [f"{'time':<16}  {'id':<6}  {'outcome':<9}  {'thumbs':<6}  {'question'}"] if exchanges else []
    for each in exchanges:
        when = datetime.fromtimestamp(each.time).strftime("%Y-%m-%d %H:%M")
        outcome = "uncited" if each.outcome == "answered" and not each.is_answered else each.outcome
        question = terminal.clipped(" ".join(each.question.split()), _WIDTH)
        lines.append(f"{when:<16}  {each.id[:6]:<6}  {outcome:<9}  {_THUMBS[each.reaction]:<6}  {question}")
        for mark, more in ((">", each.comment), ("!", each.error)):
            lines += [f"{'':<45}  {mark} {terminal.clipped(' '.join(more.split()), _WIDTH)}"] if more else []
    return "".join(f"{line.rstrip()}\n" for line in lines)


def exchange_text(exchange: LoggedExchange) -> str:
    """Return an exchange in full."""
    waited = "" if exchange.first_word is None else f", first word after {exchange.first_word:.1f} s"
    known = "" if exchange.cost is None else f", {exchange.cost:.4f} $"
    price = ", price unknown" if exchange.is_unpriced else known
    tokens = exchange.input_tokens + exchange.output_tokens
    rows = [
        ("id", exchange.id),
        ("time", f"{datetime.fromtimestamp(exchange.time):%Y-%m-%d %H:%M:%S} ({exchange.via}, {exchange.session})"),
        ("question", exchange.question),
        ("here", exchange.here),
        ("searched", exchange.searched if exchange.searched != exchange.question else ""),
        ("outcome", f"{exchange.outcome}{waited}, {exchange.total:.1f} s in all"),
        ("error", exchange.error),
        *(("unverified", line) for line in exchange.unverified.splitlines()),
        ("model", f"{exchange.model}, {tokens} tokens{price}" if exchange.model else ""),
        ("reaction", _THUMBS[exchange.reaction]),
        ("comment", exchange.comment),
    ]
    lines = [f"{name + ':':<10} {value}" for name, value in rows if value]
    for source in exchange.sources:
        mark = "cited" if source.cited else "shown"
        lines.append(f"{f'[{source.number}]':<10} {mark}: {' > '.join((source.file, *source.headings))}")
    return "\n".join(lines) + (f"\n\n{exchange.answer}\n" if exchange.answer else "\n")


def figures_text(of: Figures) -> str:
    """Return the figures in one line.

    >>> from lmm_education.exchange_log.figures import Figures
    >>> figures_text(Figures(questions=1, answered=1, up=1, students=1))
    '1 question, answered: 1, not found: 0, refused: 0, without a source: 0, failed: 0, left: 0; thumbs up: 1, down: 0'
    """
    return (
        f"{terminal.count(of.questions, 'question')}, answered: {of.answered}, not found: {of.not_found}, "
        f"refused: {of.refused}, without a source: {of.uncited}, failed: {of.failed}, left: {of.left}; "
        f"thumbs up: {of.up}, down: {of.down}"
    )
