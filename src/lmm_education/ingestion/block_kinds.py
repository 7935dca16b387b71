"""The kinds of blocks, as far as joining, splitting and quoting need them."""

from __future__ import annotations

import re
from typing import Literal

from lmm.markdown import spans

OWN_WORDS = 200
"""Most characters of the texts directly below a heading that are searched with everything below it: a name, a date."""
Kind = Literal["code", "equation", "table", "list", "quote", "html", "prose"]

ITEM = r"(?:[-*+]|\(?\d{1,9}[.)]|\(?[a-z]\)|#\.)[ \t]+"
ITEM_START = re.compile(rf"^ {{0,3}}{ITEM}", re.MULTILINE)
_FORMULAS = ("equation", "align", "gather", "multline", "eqnarray", "math", "displaymath")


def kind_of(text: str) -> Kind:
    """Return the kind of a block of text.

    >>> [kind_of(t) for t in ("```r\\n1\\n```", "$$\\nx\\n$$ {#eq:x}", "|a|b|\\n|-|-|\\n|1|2|", "- a", "A leaf.")]
    ['code', 'equation', 'table', 'list', 'prose']
    """
    first, _, rest = text.partition("\n")
    rule = rest.partition("\n")[0]
    if ("|" in first and "-" in rule and not rule.strip("|+:- \t")) or is_grid(text) or _SIMPLE.match(text):
        return "table"
    if text[:1].isalpha():  # most texts
        return "list" if ITEM_START.match(text) else "prose"
    found = spans(text)
    if found and text[: found[0].start].strip():  # it begins with something else
        found = []
    is_whole = bool(found) and found[-1].end >= len(text.rstrip())
    ends = (found[0], found[-1]) if is_whole else ()
    if ends and all(span.kind == "code_block" or (span.kind == "raw" and span.target != "tex") for span in ends):
        return "code"
    if ITEM_START.match(text):
        return "list"
    if text.lstrip(" ").startswith(">"):
        return "quote"
    if not found:
        return "prose"
    if found[0].kind == "html":
        return "html"
    name = found[0].text.removeprefix("\\begin{").partition("}")[0].rstrip("*") if found[0].target == "tex" else ""
    is_formula = found[0].target == "display" or name in _FORMULAS
    return "equation" if is_whole and is_formula else "prose"


# Tables without bars: a line and a rule of several parts below it, or the latter alone; HTML.
_SIMPLE = re.compile(
    r"(?:[^\n]+\n)?[ ]{0,3}-{2,}(?:[ ]+-{2,})+[ ]*\n|[ ]{0,3}-{5,}[ ]*\n(?:[^\n]+\n)+[ ]{0,3}-{2,}(?:[ ]+-{2,})+[ ]*\n"
    r"|<table[\s>]",
    re.IGNORECASE,
)


def is_grid(text: str) -> bool:
    """Return whether a text begins with the border of a grid table."""
    return re.match(r"\+(?:[-=:]+\+)+[ \t]*\n", text) is not None
