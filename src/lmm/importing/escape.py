"""Text as it must be written so that markdown means the text and nothing else.

Written for Pandoc's markdown, which is the dialect of our documents, and as sparingly as is safe: imported text is to
be read and corrected by people.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from lmm.markdown.blocks import longest_run

# Characters that no text has: they would not survive YAML, a terminal or XML. A soft hyphen is a place to break a word.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")

_INLINE = re.compile(
    r"""
    (?P<kept>\[(?:[^\W_]|[ .,;:–-])*\](?![(\[{:]))   # [1], [see above]: no link, no citation
    | [\\`$~^\[\]]
    | \*(?!(?<=[ ]\*)[ ])                  # not a lone star between spaces
    | (?<!\w)_|_(?!\w)                       # a_b is plain text
    | !(?=\[)
    | <(?=[A-Za-z/!?]|\Z)
    | &(?=\#?\w{1,32};)
    | (?<![^\W_])@(?=\w|\{|\Z)               # a citation, not an address
    | \A\{
    """,
    re.VERBOSE,
)
_LINE_START = re.compile(
    r"""
    \#(?=\#{0,5}(?:\s|\Z)|\.)                # a heading, a numbered line
    | [-+](?=[-+=\s]|\Z)                     # an item, a rule, a table
    | [>|=]
    | :(?=\s)                                # a definition, a caption
    | \[(?=[ xX]\]\s)                        # a task
    """,
    re.VERBOSE,
)
_NUMBERED = re.compile(
    r"(\(?(?:\d{1,9}|#|@\w*|[a-z]|(?=[ivxlcdm])[ivxlcdm]{1,9}|[IVXLCDM]{2,9}|[A-Z](?=\))))([.)])(?=\s|\Z)"
)
_URL_UNSAFE = re.compile(r"[\s<>\[\]\\\"`{}|^]")


def plain(text: str) -> str:
    """Text without characters that cannot be seen, and with newlines only as line ends.

    >>> plain("hy\\u00adphen\\r\\nnext")
    'hyphen\\nnext'
    """
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text))


def inline(text: str) -> str:
    """Text within a line, escaped.

    >>> print(inline("2 * 3, *stars*, a_b, _c_, $5, a@b.org, @key, <tag>, 1 < 2, [1], [x](y)"))
    2 * 3, \\*stars\\*, a_b, \\_c\\_, \\$5, a@b.org, \\@key, \\<tag>, 1 < 2, [1], \\[x\\](y)
    """
    return _INLINE.sub(lambda match: match[0] if match["kept"] else f"\\{match[0]}", text)


def line_start(line: str) -> str:
    """A line of a paragraph that begins nothing else: no heading, list, quotation, table, rule.

    >>> [line_start(line) for line in ("# a", "#a", "1. b", "- c", "-5", "--- d", "> e", "1.5")]
    ['\\\\# a', '#a', '1\\\\. b', '\\\\- c', '-5', '\\\\--- d', '\\\\> e', '1.5']
    """
    if _LINE_START.match(line):
        return "\\" + line
    numbered = _NUMBERED.match(line)
    return f"{numbered[1]}\\{line[numbered.end(1) :]}" if numbered else line


def heading(title: str) -> str:
    """A heading's text, escaped inline already, whose end is no closing hashes and no attributes.

    >>> heading("C#"), heading("Sets {a}")
    ('C\\\\#', 'Sets {a\\\\}')
    """
    return f"{title[:-1]}\\{title[-1]}" if title.endswith(("#", "}")) else title


def code_span(code: str) -> str:
    """Code within a line, between as many backticks as it takes.

    >>> code_span("a`b"), code_span("`c`")
    ('``a`b``', '`` `c` ``')
    """
    code = " ".join(code.split())
    if not code:
        return ""
    mark = "`" * (longest_run(code) + 1)
    pad = " " if code[0] == "`" or code[-1] == "`" else ""
    return f"{mark}{pad}{code}{pad}{mark}"


def formula(tex: str, *, display: bool = False) -> str:
    """TeX as a formula; comments and line ends are taken out, which could end it.

    >>> formula("x^2"), formula("a % b", display=True)
    ('$x^2$', '$$a$$')
    """
    lines = (re.sub(r"(?<!\\)%.*", "", line).strip() for line in plain(tex).split("\n"))
    body = re.sub(r"(?<!\\)\$", r"\\$", " ".join(line for line in lines if line))
    body = re.sub(r"(?<!\\)((?:\\\\)*)\\\Z", r"\1", body).strip()  # a last backslash would take the dollar
    mark = "$$" if display else "$"
    return f"{mark}{body}{mark}" if body else ""


def url(address: str) -> str:
    """A link's target in a form that ends where it should.

    >>> url("a b.html"), url("a(1).html")
    ('a%20b.html', '<a(1).html>')
    """
    safe = _URL_UNSAFE.sub(lambda match: quote(match[0], safe=""), plain(address).strip())
    return f"<{safe}>" if "(" in safe or ")" in safe else safe
