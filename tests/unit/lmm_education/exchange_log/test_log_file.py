"""The log on disk: what is written comes back, what is deleted is gone, nobody changes what is another's."""

from __future__ import annotations

import dataclasses
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from memory import temporary_folder
from unit.lmm_education.exchange_log.logs import logs

from lmm_education.errors import LogError, LogMissing
from lmm_education.exchange_log.exchanges import LogFilter, LoggedExchange
from lmm_education.exchange_log.log_file import LogFile, read_log

DAY = 24 * 3600.0
NOW = time.time()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the log will be."""
    return tmp_path / "logs/course.sqlite"


@pytest.fixture
def log(file: Path) -> Iterator[LogFile]:
    """A new log."""
    with LogFile(file) as opened:
        yield opened


def asked(id: str, days_ago: float = 0.0, text: str = "Why?") -> LoggedExchange:
    """A question."""
    return LoggedExchange(id, NOW - days_ago * DAY, text)


def everything_in(file: Path) -> bytes:
    """The bytes of all files of a log."""
    return b"".join(each.read_bytes() for each in sorted(file.parent.iterdir()) if not each.name.endswith("-shm"))


@given(logs())
def test_what_is_written_comes_back(held: list[LoggedExchange]) -> None:
    """Whatever students and models write; the session alone is the log's own."""
    with temporary_folder() as folder, LogFile(folder / "log.sqlite") as log:
        log.add((exchange, "olga") for exchange in held)
        found = read_log(log.file)
        assert [dataclasses.replace(exchange, session="") for exchange in found] == held
        without = read_log(log.file, answers=False)
        assert without == [dataclasses.replace(exchange, answer="") for exchange in found]


def test_halves_of_characters_do_not_stop_it(log: LogFile, file: Path) -> None:
    """A request may have them; UTF-8 does not."""
    log.add([(asked("1", text="Why \ud800?"), "a\udfff")])
    assert read_log(file)[0].question == "Why ??"


def test_only_its_owner_reads_it(log: LogFile, file: Path) -> None:
    """Nor the files that SQLite has beside it."""
    log.add([(asked("1"), "olga")])
    assert {stat.S_IMODE(each.stat().st_mode) for each in file.parent.iterdir()} == {0o600}


def test_a_reaction_is_its_students(log: LogFile, file: Path) -> None:
    """It can be changed and withdrawn by him, and by nobody else."""
    log.add([(asked("1"), "olga"), (asked("2"), "bob")])
    assert log.react("1", "olga", 1, "Good.")
    assert not log.react("1", "bob", -1, "Bad.")
    assert not log.react("3", "olga", 1, "")
    assert [(e.reaction, e.comment) for e in read_log(file)] == [(1, "Good."), (0, "")]
    assert log.react("1", "olga", 0, "")
    assert read_log(file)[0].reaction == 0


def test_a_student_has_another_name_every_day(log: LogFile, file: Path) -> None:
    """So that questions of a term cannot be put together; after two days, nobody can tell whose they were."""
    log.add([(asked("1"), "olga"), (asked("2"), "olga"), (asked("3"), "bob"), (asked("4", 1), "olga")])
    names = {exchange.id: exchange.session for exchange in read_log(file)}
    assert names["1"] == names["2"]
    assert len(set(names.values())) == 3
    assert b"olga" not in everything_in(file)
    assert log.react("4", "olga", 1, "")
    assert log.delete(before=0.0, now=NOW + DAY).exchanges == 0
    assert log.react("1", "olga", 1, "")
    assert not log.react("4", "olga", -1, "")


def test_what_is_deleted_is_gone(log: LogFile, file: Path) -> None:
    """Also from free pages and from the write-ahead log; the rest stays."""
    old = [(asked(f"old-{i}", 40, "A secret question " * 50), "olga") for i in range(200)]
    log.add([*old, (asked("new", 1, "Another question"), "olga")])
    assert b"secret" in everything_in(file)
    assert log.delete(before=NOW - 30 * DAY, now=NOW) == (200, True)
    assert b"secret" not in everything_in(file)
    assert [exchange.id for exchange in read_log(file)] == ["new"]
    size = file.stat().st_size
    log.delete(before=0.0, now=NOW, compact=True)
    assert file.stat().st_size < size / 4


def test_who_reads_does_not_hold_up_who_writes(log: LogFile, file: Path) -> None:
    """And sees the log as it was when he began; what is deleted meanwhile goes with the next deletion."""
    log.add([(asked("1", 40, "A secret question"), "olga")])
    reader = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM exchanges").fetchone() == (1,)
    with LogFile(file, busy=0.1) as other:
        other.add([(asked("2"), "bob")])
        assert other.delete(before=NOW - DAY, now=NOW) == (1, False)
        assert reader.execute("SELECT count(*) FROM exchanges").fetchone() == (1,)
        reader.close()
        assert other.delete(before=NOW - DAY, now=NOW) == (0, True)
    assert b"secret" not in everything_in(file)


def test_two_that_write_take_turns(log: LogFile, file: Path) -> None:
    """Whoever waits too long is told who is in the way; nothing is half written."""
    with LogFile(file, busy=0.1) as other:
        other.add([(asked("1"), "bob")])
        log.add([(asked("2"), "olga")])
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match="another process is using it"):
            other.add([(asked("3"), "bob"), (asked("4"), "bob")])
        holder.close()
        other.add([(asked("5"), "bob")])
    assert [exchange.id for exchange in read_log(file)] == ["1", "2", "5"]


def test_the_same_exchange_twice_is_one(log: LogFile, file: Path) -> None:
    """As where it is tried again after a failure that came too late."""
    log.add([(asked("1"), "olga")])
    log.add([(asked("1"), "olga")])
    assert len(read_log(file)) == 1


# -- files that are no log ----------------------------------------------------------------------------


def test_there_is_no_log_yet(file: Path) -> None:
    """Reading does not make one."""
    with pytest.raises(LogMissing):
        read_log(file)
    assert not file.exists()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """Whether it is read or written."""
    file = tmp_path / "theirs.sqlite"
    with sqlite3.connect(file) as theirs:
        theirs.execute("CREATE TABLE accounts (name TEXT)")
    theirs.close()
    before = file.read_bytes()
    for use in (LogFile, read_log):
        with pytest.raises(LogError, match="another program"):
            use(file)
    assert file.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """With the file's name."""
    file = tmp_path / "notes.md"
    file.write_text("# Leaves\n" * 1000)
    for use in (LogFile, read_log):
        with pytest.raises(LogError, match=r"notes\.md: .*not a database"):
            use(file)


@given(logs())
def test_a_filter_finds_what_it_says(held: list[LoggedExchange]) -> None:
    """The same as looking at every exchange."""
    middle = sorted(exchange.time for exchange in held)[len(held) // 2] if held else 0.0
    word = (held[0].answer or "x")[-3:] if held else "x"
    cases: list[tuple[LogFilter, Callable[[LoggedExchange], bool]]] = [
        (LogFilter(since=middle), lambda e: e.time >= middle),
        (LogFilter(until=middle), lambda e: e.time < middle),
        (LogFilter(reaction=-1), lambda e: e.reaction == -1),
        (LogFilter(errors=True), lambda e: e.outcome == "failed"),
        (
            LogFilter(unanswered=True),
            lambda e: e.outcome == "not found" or (e.outcome == "answered" and not e.is_answered),
        ),
        (LogFilter(unverified=True), lambda e: bool(e.unverified)),
        (LogFilter(contains=word), lambda e: word.casefold() in f"{e.question}\n{e.answer}\n{e.comment}".casefold()),
    ]
    with temporary_folder() as folder, LogFile(folder / "log.sqlite") as log:
        log.add((exchange, "olga") for exchange in held)
        for chosen, is_wanted in cases:
            assert [e.id for e in read_log(log.file, chosen)] == [e.id for e in held if is_wanted(e)]
        assert [e.id for e in read_log(log.file, LogFilter(latest=2))] == [e.id for e in held[-2:]]
