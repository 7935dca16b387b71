"""A session counts until it is over, is ended, or the password is another."""

from __future__ import annotations

from pathlib import Path

from lmm_education.database import Database
from lmm_education.web.login import Logins, Sessions, Signer

LOGINS = Logins(password="kept", users={"Jürgen; a,b": "hash"})


def test_a_session_ends_with_its_time(tmp_path: Path) -> None:
    """And holds the name as it was."""
    now = [1000.0]
    sessions = Sessions(Signer(b"k"), Database(tmp_path / "state.sqlite"), hours=1, clock=lambda: now[0])
    cookie = sessions.begin("Jürgen; a,b", LOGINS)
    assert not set(cookie) & set(' ",;\\')
    found = sessions.read(cookie, LOGINS)
    assert found is not None
    assert found.name == "Jürgen; a,b"
    now[0] += 3601
    assert sessions.read(cookie, LOGINS) is None


def test_a_session_ends_with_the_password(tmp_path: Path) -> None:
    """Changed, or the user removed."""
    sessions = Sessions(Signer(b"k"), Database(tmp_path / "state.sqlite"), hours=1)
    cookie = sessions.begin("", LOGINS)
    assert sessions.read(cookie, LOGINS)
    assert sessions.read(cookie, Logins(password="another")) is None
    assert sessions.read(cookie, Logins()) is None


def test_an_ended_session_counts_in_no_process(tmp_path: Path) -> None:
    """Neither in this one nor in another, nor after a restart; others go on."""
    one, other = (Sessions(Signer(b"k"), Database(tmp_path / "state.sqlite"), hours=1) for _ in range(2))
    first, second = one.begin("", LOGINS), one.begin("", LOGINS)
    session = one.read(first, LOGINS)
    assert session is not None
    one.end(session)
    for sessions in (one, other, Sessions(Signer(b"k"), Database(tmp_path / "state.sqlite"), hours=1)):
        assert sessions.read(first, LOGINS) is None
        assert sessions.read(second, LOGINS) is not None
    assert (tmp_path / "state.sqlite").stat().st_mode & 0o077 == 0
