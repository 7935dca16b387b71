"""Tables that a spreadsheet shows and does not run."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given, strategies as st

from lmm.csv_table import csv_text, harmless


@pytest.mark.parametrize(
    "text",
    ['=HYPERLINK("http://x")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1"],
)
def test_a_formula_is_text(text: str) -> None:
    """As OWASP has it, also where blanks or wide signs come first."""
    assert harmless(text) == f"'{text}"
    ((cell,),) = csv.reader(io.StringIO(csv_text([text], []), newline=""))
    assert cell.startswith("'")


@pytest.mark.parametrize("text", ["-5", "+1.5", "-1,234.50", "1e-3", "-.5", "+3 %"[:2], "a-b", "x=1", "", "'quoted'"])
def test_numbers_and_text_stay(text: str) -> None:
    """What is no formula is not touched."""
    assert harmless(text) == text


def test_numbers_stay_numbers() -> None:
    """Values that are no text are as JSON has them."""
    assert csv_text(["a"], [[-5], [-1.5], [True], [None], [["=1"]]]) == 'a\n-5\n-1.5\ntrue\n\n"[""=1""]"\n'


@given(st.lists(st.lists(st.text(alphabet=st.characters(codec="utf-8")), min_size=2, max_size=2)))
def test_a_reader_gets_every_cell(rows: list[list[str]]) -> None:
    """Nothing but the apostrophe is added, whatever is in a cell."""
    text = csv_text(["one", "two"], rows)
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert [[cell.replace("'", "") for cell in row] for row in found[1:]] == [
        [cell.replace("'", "") for cell in row] for row in rows
    ]


@given(st.text(alphabet='=+-@;,\t"|a1 \n', max_size=12))
def test_no_other_separator_makes_a_formula(text: str) -> None:
    """A spreadsheet that parts cells by a semicolon or a tab finds none either: at most a number before a comma."""
    for separator in ";\t|":
        for row in csv.reader(io.StringIO(csv_text([text, "b"], []), newline=""), delimiter=separator):
            for cell in row:
                number = cell.partition(",")[0]
                assert harmless(cell) == cell or cell.startswith("'") or text == number == harmless(number)


@given(st.text(alphabet='=+-@;,\t"|a( \n', max_size=12))
def test_texts_begin_no_formula_anywhere(text: str) -> None:
    """A spreadsheet with German settings parts a row at semicolons, also inside of quotes that it does not see."""
    written = csv_text(["a", "b"], [["1", text]])
    for separator in ";\t":
        for row in csv.reader(io.StringIO(written, newline=""), delimiter=separator):
            for cell in map(str.strip, row):
                assert harmless(cell) == cell or re.match(r"[-+] [^(|]*$", cell), written


def test_markdown_stays() -> None:
    """What begins no cell in any locale is written as it is: tables, and items of lists."""
    text = "Both:\n\n| a | b |\n|---|:-:|\n|--|-1 = x|\n\n- one\n- two, too; three\n"
    assert list(csv.reader(io.StringIO(csv_text(["q"], [[text]]), newline="")))[1] == [text]
    written = csv_text(["q"], [["a\n- HYPERLINK(1)"], ["a\n- 'x'#A"], ["a;- b"]])
    assert written == """q\n"a\n'- HYPERLINK(1)"\n"a\n'- 'x'#A"\n"a;'- b"\n"""
