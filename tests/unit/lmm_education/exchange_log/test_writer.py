"""What a server logs with: nobody waits for it, and nothing that happens to the log is told to students."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmm_education.errors import LogError
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.log_file import DAY, LogFile, LogWriter, read_log

PATIENCE = 30.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the log will be."""
    return tmp_path / "log.sqlite"


@pytest.fixture
def writer(file: Path) -> Iterator[LogWriter]:
    """One that tries again soon."""
    made = LogWriter(file, days=30, again=0.05, busy=0.05)
    yield made
    made.close()


def asked(id: str, days_ago: float = 0.0) -> LoggedExchange:
    """A question."""
    return LoggedExchange(id, time.time() - days_ago * DAY, "Why?")


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def ids(file: Path) -> list[str]:
    """What is in the log."""
    return [exchange.id for exchange in read_log(file)]


def test_exchanges_and_reactions_in_their_order(writer: LogWriter, file: Path) -> None:
    """A reaction finds the exchange that was logged just before."""
    for i in range(50):
        writer.add(asked(f"{i:02}"), "ada")
    assert writer.react("49", "ada", -1, "Too short.")
    assert not writer.react("49", "bob", 1, "")
    writer.close()
    assert ids(file) == [f"{i:02}" for i in range(50)]
    assert read_log(file)[-1].comment == "Too short."
    assert (writer.failures, writer.lost) == (0, 0)


def test_what_is_too_old_goes_by_itself(file: Path) -> None:
    """When the server starts, and every hour."""
    with LogFile(file) as log:
        log.add([(asked("old", 31), "ada"), (asked("new", 29), "ada")])
    now = [time.time()]
    writer = LogWriter(file, days=30, clock=lambda: now[0])
    wait_until(lambda: ids(file) == ["new"])
    now[0] += 2 * DAY
    writer.add(asked("today"), "ada")
    wait_until(lambda: ids(file) == ["today"])
    writer.close()


def test_a_log_that_is_locked(writer: LogWriter, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error is told once, what was asked waits, and is there when the lock is gone; that is told too."""
    writer.add(asked("1"), "ada")
    wait_until(lambda: file.exists() and ids(file) == ["1"])
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.WARNING, "lmm.serve"):
        writer.add(asked("2"), "ada")
        with pytest.raises(LogError, match="cannot be written"):
            writer.react("1", "ada", 1, "")
        writer.add(asked("3"), "ada")
        wait_until(lambda: writer.failures > 3)
        assert writer.is_failing
        holder.close()
        wait_until(lambda: ids(file) == ["1", "2", "3"])
        wait_until(lambda: not writer.is_failing)
        wait_until(lambda: [record.levelname for record in caplog.records] == ["ERROR", "WARNING"])
    assert writer.lost == 0


def test_a_place_where_no_file_can_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server goes on; at its end it is known what was lost."""
    (tmp_path / "blocked").write_text("a file")
    writer = LogWriter(tmp_path / "blocked/log.sqlite", days=30, again=0.05, busy=0.05)
    writer.add(asked("1"), "ada")
    wait_until(lambda: writer.failures > 2)
    writer.close()
    assert writer.lost == 1
    assert len(caplog.records) == 1


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Of what cannot be written, the latest is kept."""
    (tmp_path / "blocked").write_text("a file")
    writer = LogWriter(tmp_path / "blocked/log.sqlite", days=30, again=0.02, busy=0.05)
    for i in range(2500):
        writer.add(asked(f"{i:04}"), "ada")
    wait_until(lambda: writer.lost == 500)
    (tmp_path / "blocked").unlink()
    wait_until(lambda: not writer.is_failing)
    writer.close()
    assert ids(tmp_path / "blocked/log.sqlite")[0] == "0500"
    assert writer.lost == 500


def test_two_servers_share_a_log(tmp_path: Path) -> None:
    """Neither loses anything."""
    writers = [LogWriter(tmp_path / "log.sqlite", days=30, again=0.05) for _ in range(2)]
    for i in range(200):
        writers[i % 2].add(asked(f"{i:03}"), "ada")
    for writer in writers:
        writer.close()
    assert sorted(ids(tmp_path / "log.sqlite")) == [f"{i:03}" for i in range(200)]
    assert [writer.lost for writer in writers] == [0, 0]
