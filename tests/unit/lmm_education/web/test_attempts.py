"""Guessing is slow, by name and by address; what is right never counts."""

from __future__ import annotations

from lmm_education.web.attempts import Attempts
from lmm_education.web.signing import Signer


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def attempts(clock: Clock) -> Attempts:
    """Nobody has tried anything yet."""
    return Attempts(Signer(b"k" * 32), clock)


def test_a_name_is_guessed_at_slowly() -> None:
    """Six times, then once in 30 seconds, from wherever; other names are not touched."""
    clock = Clock()
    tried = attempts(clock)
    assert [tried.begin("ada", f"192.0.2.{i}") for i in range(6)] == [0] * 6
    assert tried.begin("ada", "192.0.2.99") == 30
    assert tried.begin("bob", "192.0.2.99") == 0
    clock.now = 3600.0 * 24
    day = sum(tried.begin("ada", str(i)) == 0 for i in range(100))
    assert day == 6


def test_an_address_has_thirty_wrong_tries() -> None:
    """For the password of the course, which has no name; those that a name's limit refused are not counted again."""
    clock = Clock()
    tried = attempts(clock)
    assert [tried.begin("", "192.0.2.1") for _ in range(30)] == [0] * 30
    assert tried.begin("", "192.0.2.1") == 6
    assert tried.begin("", "192.0.2.2") == 0
    clock.now = 6.0
    assert tried.begin("", "192.0.2.1") == 0


def test_what_is_right_does_not_count() -> None:
    """A class of two hundred behind one address."""
    tried = attempts(Clock())
    for i in range(200):
        assert tried.begin(f"student {i}", "192.0.2.1") == 0
        tried.succeed(f"student {i}", "192.0.2.1")


def test_a_known_browser_is_counted_apart() -> None:
    """Whoever guesses at a name keeps out neither its owner, nor does his mark serve another browser or name."""
    tried = attempts(Clock())
    mark = tried.mark("ada", "browser-1")
    for _ in range(7):
        tried.begin("ada", "192.0.2.1")
    known = tried.known("ada", "browser-1", mark)
    assert known
    assert tried.begin("ada", "192.0.2.1", known) == 0
    for name, browser, shown in (("ada", "browser-2", mark), ("bob", "browser-1", mark), ("ada", "browser-1", "")):
        assert tried.known(name, browser, shown) == ""
    assert tried.known("ada", "", tried.mark("ada", "")) == ""
