"""Lines that are drawn again: never wider than the terminal, never more than it has."""

from __future__ import annotations

import pytest

from lmm.cli.work.live import Live


def test_lines_replace_those_before(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to the first old line, clear, write; what is said stays above."""
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "4")
    live = Live()
    live.draw(["one", "two"])
    live.draw(["three", "a long line", "five", "six", "seven"], above="said\n")
    live.draw([])
    assert capsys.readouterr().out == "\x1b[Jone\ntwo\n\x1b[2F\x1b[Jsaid\nthree\na long l…\nfive\n\x1b[3F\x1b[J"


def test_after_a_resize_nothing_is_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old lines may have been broken: new ones begin below."""
    monkeypatch.setenv("COLUMNS", "40")
    live = Live()
    live.draw(["one"])
    monkeypatch.setenv("COLUMNS", "20")
    live.draw(["two"])
    assert capsys.readouterr().out == "\x1b[Jone\n\x1b[Jtwo\n"
