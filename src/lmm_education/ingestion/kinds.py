"""What kind of text a block is, as far as joining and splitting have to know."""

from __future__ import annotations

import re
from typing import Literal

from lmm.markdown import Span, spans

Kind = Literal["code", "equation", "table", "list", "quote", "html", "prose"]

ITEM = r"(?:[-*+]|\(?\d{1,9}[.)]|\(?[a-z]\)|#\.)[ \t]+"
ITEM_START = re.compile(rf"^ {{0,3}}{ITEM}", re.MULTILINE)
_FORMULAS = ("equation", "align", "gather", "multline", "eqnarray", "math", "displaymath")


def kind_of(text: str) -> Kind:
    """The kind of a block of text.

    >>> [kind_of(t) for t in ("```r\\n1\\n```", "$$\\nx\\n$$ {#eq:x}", "|a|b|\\n|-|-|\\n|1|2|", "- a", "A leaf.")]
    ['code', 'equation', 'table', 'list', 'prose']
    """
    first, _, rest = text.partition("\n")
    rule = rest.partition("\n")[0]
    if "|" in first and "-" in rule and not rule.strip("|+:- \t"):
        return "table"
    if text[:1].isalpha():  # most texts
        return "list" if ITEM_START.match(text) else "prose"
    found = _from_start(text)
    is_whole = bool(found) and found[-1].end >= len(text.rstrip())
    if is_whole and _is_code(found[0]) and _is_code(found[-1]):
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


def _from_start(text: str) -> list[Span]:
    """The spans of a text that begins with one."""
    found = spans(text)
    return found if found and not text[: found[0].start].strip() else []


def _is_code(span: Span) -> bool:
    return span.kind == "code_block" or (span.kind == "raw" and span.target != "tex")


def is_comment(text: str) -> bool:
    """Whether a block is an HTML comment and nothing else.

    >>> is_comment("<!-- later -->"), is_comment("<!-- a --> text")
    (True, False)
    """
    if not text.lstrip().startswith("<!--"):
        return False
    found = _from_start(text)
    return bool(found) and found[0].kind == "comment" and not text[found[0].end :].strip()
