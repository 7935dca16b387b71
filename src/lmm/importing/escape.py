"""Text as it must be written so that markdown means the text and nothing else.

Written for Pandoc's markdown, which is the dialect of our documents. All but links and titles is written by Pandoc.
"""

from __future__ import annotations

import re
from urllib.parse import quote

# Characters that no text has: they would not survive YAML, a terminal or XML. A soft hyphen is a place to break a word.
_CONTROLS = (*range(9), *range(14, 32), *range(0x7F, 0xA0), *range(0xD800, 0xE000))
_INVISIBLE = (*_CONTROLS, 0xAD, 0x200B, 0x2060, 0xFEFF, 0xFFFE, 0xFFFF)
_PLAIN = {**dict.fromkeys(_INVISIBLE), **dict.fromkeys(map(ord, "\r\x0b\x0c\x85\u2028\u2029"), "\n")}
_URL_UNSAFE = re.compile(r"[\s<>\[\]\\\"`{}|^]")


def plain(text: str) -> str:
    """Text without characters that cannot be seen, and with newlines only as line ends.

    >>> plain("hy\\u00adphen\\r\\nnext")
    'hyphen\\nnext'
    """
    return text.replace("\r\n", "\n").translate(_PLAIN)


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
