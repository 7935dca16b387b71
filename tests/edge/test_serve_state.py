"""What a server keeps: processes and machines agree, nobody who is killed leaves half of it, what fails is told."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from fakes.state_servers import postgres, redis
from limits import parse

from lmm.errors import ConfigError, FileReadError
from lmm_education.config import ServeSettings
from lmm_education.database import TABLES, Database
from lmm_education.exchange_log.exchanges import LOG_TABLES, LogFilter, LoggedExchange
from lmm_education.exchange_log.log_file import LogFile, read_log
from lmm_education.web.gate import CourseGate
from lmm_education.web.login import Accounts, Sessions, Signer, matches
from lmm_education.web.state import Budget, Spent, open_limiter, open_state, secret_key


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """PostgreSQL."""
    with postgres() as address:
        yield address


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """An empty database of either kind."""
    if request.param == "SQLite":
        return tmp_path / "state.sqlite"
    address = str(request.getfixturevalue("server"))
    database = Database(address)
    with database.writing() as connection:
        TABLES.drop_all(connection)
        LOG_TABLES.drop_all(connection)
    database.close()
    return address


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course's folder, with a state folder of its own."""
    monkeypatch.setenv("LMM_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "course").mkdir()
    return tmp_path / "course"


# -- several at once -------------------------------------------------------------------------------


def test_several_servers_agree(place: Path | str) -> None:
    """What one writes, the others know at once; of many that come together, none is lost and none is too many."""
    databases = [Database(place) for _ in range(4)]
    budgets = [Budget(each, 1000, 0.0, Spent(100)) for each in databases]
    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(lambda number: budgets[number % 4].reserve(), range(30)))
        add = [lambda logins, n=n: logins.with_key(f"key {n}", f"lmm-{n}", n) for n in range(20)]
        list(pool.map(lambda n: Accounts(databases[n % 4]).change(add[n]), range(20)))
    assert (sum(one is not None for one in reserved), budgets[0].spent().tokens) == (10, 1000)
    one, other = Accounts(databases[0]), Accounts(databases[1])
    assert other.read().keys["key 7"].questions_per_minute == 7
    assert len(one.read().keys) == 20
    one.change(lambda logins: logins.with_user("Ada", "Adas Passwort"))
    assert matches("Adas Passwort", other.read().stored_password("Ada") or "")
    first, second = (Sessions(Signer(b"k"), each, 1) for each in databases[:2])
    cookie = first.begin("Ada", one.read())
    session = second.read(cookie, one.read())
    assert session is not None
    second.end(session)
    assert first.read(cookie, one.read()) is None
    for each in databases:
        each.close()


def test_a_file_that_another_server_is_just_making(tmp_path: Path) -> None:
    """It is waited for, though SQLite says at once that a file cannot become one with a log of writes."""
    file = tmp_path / "state.sqlite"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    ended = threading.Timer(0.3, other.close)
    ended.start()
    database = Database(file)
    with database.writing():
        pass
    database.close()
    ended.join()


def test_several_servers_have_one_log(place: Path | str) -> None:
    """Each sees what the other wrote, and what is deleted is deleted for both."""
    with LogFile(place) as one, LogFile(place) as other:
        one.add([(LoggedExchange("0", 1e9, "Why \0?"), "ada")])
        other.add([(LoggedExchange("1", 2e9, "Why red?", cached=True), "ada")])
        assert one.react("1", "ada", 1, "Good \0.")
        assert not one.react("1", "bob", -1, "")
        assert [(each.id, each.reaction, each.cached) for each in read_log(place)] == [("0", 0, False), ("1", 1, True)]
        assert [each.id for each in read_log(place, LogFilter(contains="GOOD"))] == ["1"]
        assert [each.id for each in read_log(place, LogFilter(latest=1), answers=False)] == ["1"]
        assert one.delete(before=1.5e9, now=2e9).exchanges == 1
        assert [each.id for each in read_log(place)] == ["1"]


_WRITES_AND_WAITS = """
import signal
from pathlib import Path, PosixPath
from sqlalchemy import text
from lmm_education.database import Database
from lmm_education.web import state
with Database({place!r}).writing("spent") as connection:
    connection.execute(text("INSERT INTO spent VALUES ('2026-11-22', 7, 0)"))
    print("written", flush=True)
    signal.pause()
"""


def test_whoever_is_killed_leaves_nothing_half_done(place: Path | str) -> None:
    """Nor does anybody wait for him."""
    command = [sys.executable, "-c", _WRITES_AND_WAITS.format(place=place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.kill()
    budget = Budget(Database(place), 1000, 0.0, Spent(100))
    assert budget.spent() == Spent()
    assert budget.reserve() is not None
    budget.database.close()


# -- what fails ------------------------------------------------------------------------------------


def test_a_database_that_others_hold(tmp_path: Path) -> None:
    """It is told, after a while; nothing is counted, and all is well when it is free again."""
    budget = Budget(Database(tmp_path / "state.sqlite", patience=0.1), 1000, 0.0, Spent(100))
    assert budget.spent() == Spent()
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as other:
        other.execute("begin immediate")
        with pytest.raises(FileReadError, match=r"database is locked.*another process is using it"):
            budget.reserve()
        assert budget.spent() == Spent()  # who reads waits for nobody
    assert budget.reserve() is not None


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """It is told, what was there stays, and all is well when there is room."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("needs a file system of its own")
    database = Database(tmp_path / "state.sqlite")
    try:
        Accounts(database).change(lambda logins: logins.with_user("Ada", "Adas Passwort"))
        room = os.statvfs(tmp_path)
        (tmp_path / "film").write_bytes(b"x" * (room.f_bavail * room.f_frsize))
        many = {f"user {number}": "hash" * 50 for number in range(200)}
        with pytest.raises(FileReadError, match="cannot be used"):
            Accounts(database).change(lambda logins: type(logins)(users=many))
        assert set(Accounts(database).read().users) == {"Ada"}
        (tmp_path / "film").unlink()
        assert Budget(database, 1000, 0.0, Spent(100)).reserve() is not None
    finally:
        database.close()
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgres//x", "this is not an address"),
        ("oracle://x", "this is not an address"),
        ("postgresql+psycopg://lmm:secret@127.0.0.1:9/course", "cannot be used"),
    ],
)
def test_a_database_that_is_none(home: Path, address: str, told: str) -> None:
    """The message says what is wrong, and tells no password."""
    with pytest.raises((ConfigError, FileReadError), match=told) as raised:
        open_state(home, "course", ServeSettings(database=address))
    assert "secret" not in str(raised.value)


def test_a_server_that_is_away_for_four_seconds() -> None:
    """Questions wait for it; of 40 that came meanwhile none fails."""
    with postgres() as address, closing(Database(address)) as database, ThreadPoolExecutor(40) as pool:
        budget = Budget(database, 100_000, 0.0, Spent(10))
        assert budget.reserve() is not None
        with address.program.away():
            asked = [pool.submit(budget.reserve) for _ in range(40)]
            time.sleep(4)
            assert not any(each.done() for each in asked)
        assert all(each.result() is not None for each in asked)
        assert budget.spent().tokens == 410


def test_a_database_is_one_courses(home: Path) -> None:
    """Another course is refused; the same has its key again."""
    with postgres() as address:
        opened = [open_state(home, "course", ServeSettings(database=address)) for _ in range(2)]
        assert len({secret_key(each) for each in opened}) == 1
        for each in opened:
            each.close()
        with pytest.raises(ConfigError, match="database of the course 'course'"):
            open_state(home, "other", ServeSettings(database=address))


def test_limits_that_are_nowhere() -> None:
    """A misspelt address is refused."""
    with pytest.raises(ConfigError, match="'limits' under"):
        open_limiter(ServeSettings(limits="rediss+x://y"))


def test_limits_in_redis() -> None:
    """Servers count together there too."""
    with redis() as address:
        settings = ServeSettings(limits=address)
        first, second, item = open_limiter(settings), open_limiter(settings), parse("3/minute")
        hits = [first.hit(item, "ada"), second.hit(item, "ada"), first.hit(item, "ada"), second.hit(item, "ada")]
        assert hits == [True, True, True, False]


def test_an_outage_is_one_line(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not one for each question; nobody is kept out by it."""
    settings = ServeSettings()
    with redis() as address, closing(Database(home / "state.sqlite")) as database:
        gate = CourseGate(settings, database, Spent(10), limiter=open_limiter(ServeSettings(limits=address)))
        address.program.__exit__()
        for _ in range(20):
            asyncio.run(gate.admit("ada", 6, "Too many."))
    assert len(caplog.records) == 1
