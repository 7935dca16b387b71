"""Lines that are drawn again: never wider than the terminal, never more than it has."""

from __future__ import annotations

import io

import pytest

from lmm.cli.work.live import Live, clipped


@pytest.mark.parametrize("width", range(1, 20))
@pytest.mark.parametrize(
    "text", ["a residual, what is it?", "日本語のテキスト", "e\u0301" * 12, "tab\tnew\nline\x1b[31m"]
)
def test_a_line_is_never_too_wide(text: str, width: int) -> None:
    """Counted in columns; nothing in it moves the cursor."""
    shown = clipped(text, width)
    wide = sum(c in "日本語のテキスト" for c in shown)
    assert len(shown) + wide - shown.count("\u0301") <= width
    assert shown.isprintable()


def test_lines_replace_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the first old line, clear, write; what is said stays above."""
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "4")
    out = io.StringIO()
    live = Live(out)
    live.draw(["one", "two"])
    live.draw(["three", "a long line", "five", "six", "seven"], above="said\n")
    live.draw([])
    assert out.getvalue() == "\x1b[Jone\ntwo\n\x1b[2F\x1b[Jsaid\nthree\na long l…\nfive\n\x1b[3F\x1b[J"


def test_after_a_resize_nothing_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old lines may have been broken: new ones begin below."""
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    live = Live(out)
    live.draw(["one"])
    monkeypatch.setenv("COLUMNS", "20")
    live.draw(["two"])
    assert out.getvalue() == "\x1b[Jone\n\x1b[Jtwo\n"
