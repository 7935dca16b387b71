"""What is done by `lmm log`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lmm import terminal
from lmm.cli import console
from lmm.disk.files import replace
from lmm.disk.folder import check_named, configured
from lmm.errors import ConfigError
from lmm.powers import require
from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log.dates import time_of
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.export import WRITERS, as_values
from lmm_education.exchange_log.figures import Figures, figures
from lmm_education.exchange_log.log_file import LogFile, read_log
from lmm_education.exchange_log.schema import LogFilter
from lmm_education.exchange_log.writer import DAY
from lmm_education.parts import find_course

_THUMBS = {1: "up", -1: "down", 0: ""}
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which exchanges are wanted, as the options say it."""

    since: str = ""
    until: str = ""
    unanswered: bool = False
    up: bool = False
    down: bool = False
    errors: bool = False
    contains: str = ""

    def as_filter(self, latest: int | None = None) -> LogFilter:
        """The same for the log.

        Raises:
            ConfigError: a time is none, or two options exclude each other.
        """
        if self.up and self.down:
            raise ConfigError("--up and --down exclude each other")
        now = datetime.now().astimezone()
        since = time_of(self.since, now, where="--since") if self.since else None
        until = time_of(self.until, now, where="--until") if self.until else None
        reaction = 1 if self.up else -1 if self.down else None
        return LogFilter(since, until, self.unanswered, reaction, self.errors, self.contains, latest)


def show(
    exchange: str, latest: int, chosen: tuple[Any, ...], as_json: bool, log: Path | None, config: Path | None
) -> int:
    """Print the latest exchanges, or one."""
    file, _ = _log_file(log, config)
    if exchange:
        found = [each for each in read_log(file) if each.id.startswith(exchange)]
        if len(found) != 1:
            raise LogError(f"{len(found) or 'no'} exchanges have ids that begin with '{exchange}'", where=str(file))
        _print_json([as_values(found[0])]) if as_json else _print(exchange_text(found[0]))
        return console.DONE
    found = read_log(file, Chosen(*chosen).as_filter(latest))
    if as_json:
        _print_json([as_values(each) for each in found])
    else:
        _print(table_text(found))
        terminal.say(f"{figures_text(figures(found))}", err=True)
    return console.DONE


def export(kind: str, output: Path | None, chosen: tuple[Any, ...], log: Path | None, config: Path | None) -> int:
    """Write exchanges for other programs."""
    file, _ = _log_file(log, config)
    found = read_log(file, Chosen(*chosen).as_filter())
    text = WRITERS[kind](found)
    if output is None:
        terminal.say_document(text)
    else:
        replace(output, text)
        terminal.say(f"{output}: {terminal.count(len(found), 'exchange')}")
    return console.DONE


def clear(before: str, everything: bool, as_json: bool, log: Path | None, config: Path | None) -> int:
    """Delete old exchanges."""
    if before and everything:
        raise ConfigError("--before and --all exclude each other")
    file, days = _log_file(log, config)
    if not file.is_file():
        raise LogMissing("there is no log yet", where=str(file))
    now = time.time()
    limit = time_of(before, datetime.now().astimezone(), where="--before") if before else now - days * DAY
    with LogFile(file) as opened:
        deleted = opened.delete(before=float("inf") if everything else limit, now=now, compact=True)
    if as_json:
        _print_json({"deleted": deleted.exchanges, "gone": deleted.gone})
    else:
        _print(f"{terminal.count(deleted.exchanges, 'exchange')} deleted\n")
    if not deleted.gone:
        terminal.say("somebody is reading the log: to overwrite what was deleted, do this again", err=True)
    return console.DONE


def _log_file(log: Path | None, config: Path | None) -> tuple[Path, int]:
    """The log, and for how many days it is kept."""
    file, settings = find_course(config)
    if log is not None:
        return check_named(log), settings.serve.log_days
    if not settings.serve.log:
        hint = 'set log = "course-log.sqlite" under [serve], or name one with --log'
        raise ConfigError("no log is kept", where=str(file.path or "config.toml"), hint=hint)
    require(settings.serve.powers, "serve.log")
    return configured(settings.root, settings.serve.log), settings.serve.log_days


# -- for people ------------------------------------------------------------------------------------


def table_text(exchanges: Sequence[LoggedExchange]) -> str:
    """A line for each exchange.

    >>> table_text([LoggedExchange("1f00aa", 0.0, "Why green?", outcome="not found")]).splitlines()[1].split()[2:]
    ['1f00aa', 'not', 'found', 'Why', 'green?']
    """
    lines = [f"{'time':<16}  {'id':<6}  {'outcome':<9}  {'thumbs':<6}  {'question'}"] if exchanges else []
    for each in exchanges:
        when = datetime.fromtimestamp(each.time).strftime("%Y-%m-%d %H:%M")
        outcome = "uncited" if each.outcome == "answered" and not each.is_answered else each.outcome
        question = terminal.clipped(" ".join(each.question.split()), _WIDTH)
        lines.append(f"{when:<16}  {each.id[:6]:<6}  {outcome:<9}  {_THUMBS[each.reaction]:<6}  {question}")
        if each.comment:
            lines.append(f"{'':<45}  > {terminal.clipped(' '.join(each.comment.split()), _WIDTH)}")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def exchange_text(exchange: LoggedExchange) -> str:
    """All of an exchange."""
    waited = "" if exchange.first_word is None else f", first word after {exchange.first_word:.1f} s"
    price = "" if exchange.cost is None else f", {exchange.cost:.4f} $"
    tokens = exchange.input_tokens + exchange.output_tokens
    rows = [
        ("id", exchange.id),
        ("time", f"{datetime.fromtimestamp(exchange.time):%Y-%m-%d %H:%M:%S} ({exchange.via}, {exchange.session})"),
        ("question", exchange.question),
        ("searched", exchange.searched if exchange.searched != exchange.question else ""),
        ("outcome", f"{exchange.outcome}{waited}, {exchange.total:.1f} s in all"),
        ("error", exchange.error),
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
    """In a line.

    >>> figures_text(Figures(questions=1, answered=1, up=1, students=1))
    '1 question, answered: 1, not found: 0, refused: 0, without a source: 0, failed: 0, left: 0; thumbs up: 1, down: 0'
    """
    return (
        f"{terminal.count(of.questions, 'question')}, answered: {of.answered}, not found: {of.not_found}, "
        f"refused: {of.refused}, without a source: {of.uncited}, failed: {of.failed}, left: {of.left}; "
        f"thumbs up: {of.up}, down: {of.down}"
    )


def _print(text: str) -> None:
    terminal.say(text, end="")


def _print_json(value: object) -> None:
    terminal.say_json(value, indent=2)
