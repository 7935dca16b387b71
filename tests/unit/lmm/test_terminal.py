"""The one exit to the terminal: nothing from elsewhere moves the cursor, hides, or turns the direction of writing."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, strategies as st

from lmm import terminal
from lmm.errors import LmmError
from lmm.terminal import clipped, visible

EVERY = "".join(map(chr, range(sys.maxunicode + 1)))
# Format characters that have a shape: Arabic, Syriac, Kaithi, hieroglyphs.
SHAPED = {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x600, 0x606), *range(0x13430, 0x13440)}
KEPT = {"\t", "\n", "\u200d"}  # the joiner makes one emoji of several


def test_no_control_and_no_format_character_is_left() -> None:
    """Of all of Unicode: controls, formats, line ends and halves of characters, but signs that have a shape."""
    left = {char for char in visible(EVERY) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert left - set(map(chr, SHAPED)) == KEPT


def test_a_line_has_no_other_blank_than_the_space() -> None:
    """Names and commands cannot look shorter or longer than they are, nor take two lines."""
    assert {char for char in visible(EVERY, line=True) if char.isspace()} == {" "}


@pytest.mark.parametrize(
    "text", ["Grüße, 日本語, Ελληνικά", "👩\u200d👩\u200d👧\ufe0f", "می\u200cخواهم", "क्\u200dष", "a\tb\n", "e\u0301"]
)
def test_what_people_write_stays(text: str) -> None:
    """Emoji of several parts, the non-joiner of Persian, combining marks."""
    assert visible(text) == text


def test_a_non_joiner_between_latin_letters_is_seen() -> None:
    """Two names that look the same are told apart."""
    assert visible("pay\u200cpal") == "pay\\u{200c}pal"


def test_a_byte_of_a_name_that_is_not_utf_8_is_told_as_such() -> None:
    """As `lmm.disk.files.shown` tells it; other halves of characters by their number."""
    assert visible("caf\udce9.md \ud800") == "caf\\xe9.md \\u{d800}"


@given(st.text(), st.booleans())
def test_twice_is_once(text: str, line: bool) -> None:
    """So that nobody has to know whether a text was made visible already; and it can be written as UTF-8."""
    shown = visible(text, line=line)
    assert visible(shown, line=line) == shown
    shown.encode()


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


# -- printing --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def screen(**environment: str) -> Iterator[Terminal]:
    """Standard output and standard error are a terminal."""
    shown = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", shown)
        patch.setattr(sys, "stderr", shown)
        patch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm", **environment}.items():
            patch.setenv(name, value)
        yield shown


def test_only_our_own_codes_reach_the_terminal() -> None:
    """A style is kept; what looks like one in a text from elsewhere is spelled out."""
    with screen() as shown:
        terminal.say(f"{terminal.styled('lmm:', 'red')} \x1b[31mred\x1b[0m")
    assert shown.getvalue() == "\x1b[31mlmm:\x1b[0m \\x1b[31mred\\x1b[0m\n"


def test_what_is_inside_a_style_is_made_visible_too() -> None:
    """So that nobody has to remember it."""
    with screen() as shown:
        terminal.say(terminal.styled("a\x1b[2Jb\u202e", "bold"), end="")
    assert shown.getvalue() == "\x1b[1ma\\x1b[2Jb\\u{202e}\x1b[0m"


def test_errors_notes_and_documents() -> None:
    """Everything that prints goes through the one rule."""
    with screen() as shown:
        terminal.tell_error(LmmError("a\x1b]0;b\x07", where="\x9b2J.md", hint="\u2066"))
        terminal.note("\x1b[H")
        terminal.say_document("\x1b[2J\udc80\u202e\r\n")
        terminal.show_bar(1, 2, before="\x1b[2J ", after="\u202e")
    text = shown.getvalue()
    for ours in ("\x1b[31m", "\x1b[33m", "\x1b[0m", "\x1b[K"):
        text = text.replace(ours, "")
    assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u2066", "\udc80"} & set(text)


def test_a_document_is_exact_in_a_pipe(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """What is no terminal gets every byte."""
    terminal.say_document("\x1b[2J\u202e\r\n\ufeff")
    assert capsysbinary.readouterr().out == "\x1b[2J\u202e\r\n\ufeff".encode()


@given(st.recursive(st.text() | st.none() | st.integers(), st.lists))
def test_json_reads_back_as_it_was(value: object) -> None:
    """What is escaped is escaped as JSON has it."""
    written, before = io.BytesIO(), sys.stdout
    sys.stdout = latin = io.TextIOWrapper(written, encoding="latin-1")  # whatever the locale is, it is UTF-8
    try:
        terminal.say_json(value)
    finally:
        sys.stdout = before
    shown = written.getvalue().decode()
    latin.detach()
    assert json.loads(shown) == value
    assert visible(shown) == shown


def test_without_a_terminal_there_are_no_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Files and pipes get text."""
    terminal.say(terminal.styled("a", "bold"))
    terminal.show_bar(1, 2)
    terminal.erase_bar()
    assert capsys.readouterr() == ("a\n", "")


def test_no_color() -> None:
    """https://no-color.org"""
    with screen(NO_COLOR="1") as shown:
        terminal.say(terminal.styled("a", "bold"))
    assert shown.getvalue() == "a\n"


def test_warnings_of_libraries_are_visible(capsys: pytest.CaptureFixture[str]) -> None:
    """A server's log holds what strangers sent."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        terminal.log_to_stderr("%(levelname)s %(message)s")
        logging.getLogger("web").warning("bad request: %s", "\x1b[2J")
    finally:
        root.handlers = before
    assert capsys.readouterr().err == "WARNING bad request: \\x1b[2J\n"


def test_a_reader_who_went_away_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `lmm toc | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        terminal.say("a")
        terminal.say_document("b")
        terminal.say("c")


_WORDS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([" ", " ", "\n", "\n\n", "  "])), max_size=8)


@given(_WORDS, _WORDS)
def test_words_of_a_difference_are_apart(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    """Both texts can be read from it, and no word is glued to another, but the old one to the new in its place."""
    old, new = ("".join(map("".join, words)).strip() for words in (before, after))
    shown = terminal.word_diff(old, new)
    gone, come = r"\[-([^]]*)-\]", r"\{\+([^}]*)\+\}"
    assert re.sub(come, r"\1", re.sub(gone, "", shown)).split() == new.split()
    assert re.sub(gone, r"\1", re.sub(come, "", shown)).split() == old.split()
    assert not re.search(r"[abcd](\[-|\{\+)[abcd]|[abcd](-\]|\+\})[abcd]|(-\]|\+\})[abcd]", shown)
