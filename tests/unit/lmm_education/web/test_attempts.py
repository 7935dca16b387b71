"""Guessing is slow, by name and by address; what is right never counts."""

from __future__ import annotations

import time

import pytest

from lmm_education.config import ServeSettings
from lmm_education.web.login import Attempts, Signer
from lmm_education.web.state import open_limiter

NOW = 1_795_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until it is moved."""
    now = [NOW]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def attempts() -> Attempts:
    """Nobody has tried anything yet."""
    return Attempts(Signer(b"k" * 32), open_limiter(ServeSettings()))


def wrong(tried: Attempts, name: str, address: str, known: str = "") -> bool:
    """Whether a wrong password could be tried."""
    if tried.wait(name, address, known):
        return False
    tried.was_wrong(name, address, known)
    return True


def test_a_name_is_guessed_at_slowly(clock: list[float]) -> None:
    """Six times in three minutes, from wherever; other names are not touched."""
    tried = attempts()
    assert all(wrong(tried, "ada", f"192.0.2.{i}") for i in range(6))
    assert tried.wait("ada", "192.0.2.99") == pytest.approx(180, abs=1)
    assert wrong(tried, "bob", "192.0.2.99")
    clock[0] += 181
    assert sum(wrong(tried, "ada", str(i)) for i in range(100)) == 6


def test_thirty_wrong_passwords_do_not_lock_a_class_out(clock: list[float]) -> None:
    """An address has a hundred in a quarter of an hour: as many a day as one every nine seconds."""
    tried = attempts()
    assert all(wrong(tried, "", "192.0.2.1") for _ in range(30))
    assert tried.wait("", "192.0.2.1") == 0
    assert sum(wrong(tried, "", "192.0.2.1") for _ in range(100)) == 70
    assert tried.wait("", "192.0.2.1") == pytest.approx(900, abs=1)
    assert tried.wait("", "192.0.2.2") == 0
    clock[0] += 901
    assert tried.wait("", "192.0.2.1") == 0


def test_a_known_browser_is_counted_apart() -> None:
    """Whoever guesses at a name keeps out neither its owner, nor does his mark serve another browser or name."""
    tried = attempts()
    mark = tried.mark("ada", "browser-1")
    for _ in range(7):
        wrong(tried, "ada", "192.0.2.1")
    known = tried.known("ada", "browser-1", mark)
    assert known
    assert tried.wait("ada", "192.0.2.1", known) == 0
    for name, browser, shown in (("ada", "browser-2", mark), ("bob", "browser-1", mark), ("ada", "browser-1", "")):
        assert tried.known(name, browser, shown) == ""
    assert tried.known("ada", "", tried.mark("ada", "")) == ""


def test_a_clock_that_was_set_back_locks_nobody_out(clock: list[float]) -> None:
    """It was a day ahead while somebody guessed: afterwards, a limit is as long as it always is."""
    tried = attempts()
    clock[0] += 86_400
    while wrong(tried, "ada", "192.0.2.1"):
        pass
    clock[0] -= 86_400
    assert tried.wait("ada", "192.0.2.1") == 0
    assert sum(wrong(tried, "ada", "192.0.2.1") for _ in range(100)) == 6
