"""Tables as CSV, safe against formula injection in spreadsheets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

# Characters that begin a formula in spreadsheets, also in the wide forms of East Asian keyboards.
_FORMULA = tuple("=+-@\uff0b\uff0d\uff1d\uff20")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?")
_QUOTED = frozenset('",;\t\r\n|')  # also the separators of other locales
# Where a spreadsheet with the separator of another locale begins a cell in the middle of a text, quoted or not. No
# locale has |, which tables in markdown are made of.
_CELL_WITHIN = re.compile(r"(?<=[;\t\r\n])[^;\t\r\n]+")
# A line that is an item of a list, and calls no function and names no other program, file or sheet.
_LIST_ITEM = re.compile(r"(?<=[\r\n]) *[-+] [^\t\r\n(!|#$\uff01\uff03\uff04\uff08\uff5c]*+(?![^\r\n])")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], *, newline: str = "\n") -> str:
    r"""Format columns and rows as CSV: nothing for None, text as `harmless` text, anything else as JSON. Formulas after
    semicolons, tabs and line ends become text, too: with German or French settings, a spreadsheet begins cells there.
    Lists and tables in markdown stay as they are.

    >>> print(csv_text(["name", "size"], [["=HYPERLINK(1)", -5], ["a;b", None]]), end="")
    name,size
    '=HYPERLINK(1),-5
    "a;b",
    >>> print(csv_text(["question"], [["Why;=1+1"], ["| a |-b |"]]), end="")
    question
    "Why;'=1+1"
    "| a |-b |"
    """
    return "".join(",".join(map(_cell, row)) + newline for row in (columns, *rows))


def harmless(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula; spreadsheets do not show it.

    >>> harmless("=1+1"), harmless("@SUM(A1)"), harmless("-5.2"), harmless("a = b")
    ("'=1+1", "'@SUM(A1)", '-5.2', 'a = b')
    """
    return f"'{text}" if _is_formula(text) or text.startswith(("\t", "\r", "\n")) else text


def _is_formula(text: str) -> bool:
    return text.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text.strip())


def _harmless_within(cell: re.Match[str]) -> str:
    is_formula = _is_formula(cell[0].lstrip(' "')) and not _LIST_ITEM.match(cell.string, cell.start())
    return f"'{cell[0]}" if is_formula else cell[0]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        text = harmless(_CELL_WITHIN.sub(_harmless_within, value))
    else:
        text = json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not _QUOTED.isdisjoint(text) or text != text.strip() else text
