"""Text as it must be written so that markdown means the text and nothing else.

Written for Pandoc's markdown, which is the dialect of our documents. All but links and titles is written by Pandoc.
"""

from __future__ import annotations

import re
from urllib.parse import quote

# Characters that no text has: they would not survive YAML, a terminal or XML. A soft hyphen is a place to break a word.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_URL_UNSAFE = re.compile(r"[\s<>\[\]\\\"`{}|^]")


def plain(text: str) -> str:
    """Text without characters that cannot be seen, and with newlines only as line ends.

    >>> plain("hy\\u00adphen\\r\\nnext")
    'hyphen\\nnext'
    """
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text))


def inline(text: str) -> str:
    """Text in a line, so that none of its marks means anything.

    >>> print(inline("a_b [c]"))
    a\\_b \\[c\\]
    """
    return re.sub(r"([\\`*_{}\[\]<>()#~^$!@&|])", r"\\\1", text)


def url(address: str) -> str:
    """A link's target in a form that ends where it should.

    >>> url("a b.html"), url("a(1).html")
    ('a%20b.html', '<a(1).html>')
    """
    safe = _URL_UNSAFE.sub(lambda match: quote(match[0], safe=""), plain(address).strip())
    return f"<{safe}>" if "(" in safe or ")" in safe else safe
