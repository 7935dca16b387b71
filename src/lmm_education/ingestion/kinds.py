"""What kind of text a block is, as far as joining and splitting have to know."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["code", "equation", "table", "list", "quote", "html", "prose"]

ITEM = r"(?:[-*+]|\(?\d{1,9}[.)]|\(?[a-z]\)|#\.)[ \t]+"
_COMMENT = re.compile(r"\s*<!--(?:(?!-->).)*-->\s*\Z", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\begin\{(equation|align|gather|multline|eqnarray|math|displaymath)\*?\}")
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("code", re.compile(r"[ \t]{0,3}(`{3,}+|~{3,}+)[^\n]*+\n(?:.*\n)?[ \t]{0,3}\1[`~]*[ \t]*\Z", re.DOTALL)),
    ("code", re.compile(r"(?:(?: {4}|\t)[^\n]*(?:\n|\Z))+\Z")),
    ("equation", re.compile(r"\s*\$\$(?:(?!\$\$).)+\$\$[ \t]*+(?:\{#[^}\n]*\})?[ \t]*+\Z", re.DOTALL)),
    ("equation", re.compile(r"\s*\\\[(?:(?!\\\]).)+\\\]\s*\Z", re.DOTALL)),
    (
        "table",
        re.compile(r"[^\n]*+\n[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:[|+][ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+(?:\n|\Z)"),
    ),
    ("list", re.compile(rf" {{0,3}}{ITEM}")),
    ("quote", re.compile(r" {0,3}>")),
    ("html", re.compile(r" {0,3}</?[A-Za-z][^<>\n]*>")),
)


def kind_of(text: str) -> Kind:
    """The kind of a block of text.

    >>> [kind_of(t) for t in ("```r\\n1\\n```", "$$\\nx\\n$$ {#eq:x}", "|a|b|\\n|-|-|\\n|1|2|", "- a", "A leaf.")]
    ['code', 'equation', 'table', 'list', 'prose']
    """
    has_columns = "|" in text.partition("\n")[0]
    if text[:1].isalpha() and text[1:2] != ")" and not has_columns:  # most texts, and no pattern fits them
        return "prose"
    for kind, pattern in _KINDS:
        if pattern.match(text) is not None and (kind != "table" or has_columns):
            return kind
    environment = _ENVIRONMENT.match(text)
    return "equation" if environment and text.rstrip().endswith("}") else "prose"


def is_comment(text: str) -> bool:
    """Whether a block is an HTML comment and nothing else.

    >>> is_comment("<!-- later -->"), is_comment("<!-- a --> text")
    (True, False)
    """
    return text.startswith((" ", "\t", "<!--")) and _COMMENT.match(text) is not None
