"""Tables as CSV, safe against formula injection in spreadsheets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

# Characters that begin a formula in spreadsheets, also in the wide forms of East Asian keyboards.
_FORMULA = tuple("=+-@\uff0b\uff0d\uff1d\uff20")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?")
_QUOTED = frozenset('",;\t\r\n|')  # also the separators of other locales


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], *, newline: str = "\n") -> str:
    r"""Format columns and rows as CSV: nothing for None, text as `harmless` text, anything else as JSON.

    >>> print(csv_text(["name", "size"], [["=HYPERLINK(1)", -5], ["a;b", None]]), end="")
    name,size
    '=HYPERLINK(1),-5
    "a;b",
    """
    return "".join(",".join(map(_cell, row)) + newline for row in (columns, *rows))


def harmless(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula; spreadsheets do not show it.

    >>> harmless("=1+1"), harmless("@SUM(A1)"), harmless("-5.2"), harmless("a = b")
    ("'=1+1", "'@SUM(A1)", '-5.2', 'a = b')
    """
    risky = text.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if risky and not _NUMBER.fullmatch(text) else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = harmless(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not _QUOTED.isdisjoint(text) or text != text.strip() else text
