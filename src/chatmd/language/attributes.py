"""Attributes: the inside of an opening tag to names and values, and back.

A name alone is a flag. A value stands in quotes, or goes up to the next white space. In quoted values the
five entities of XML are decoded, and (not in strict reading) numeric ones; a backslash before the quote
keeps the value open, and (not in strict reading) does not belong to it. Other characters are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chatmd.language.nodes import BLANK, Attribute

_DOUBLE = r'"((?:[^"\\]++|\\"?+)*+)"'
_SINGLE = r"'((?:[^'\\]++|\\'?+)*+)'"
# A value in double quotes, in single quotes, or without; a stray quoted text (no name: nothing is read from it).
_ATTRIBUTE = re.compile(
    rf"([A-Za-z0-9_:-]+)(?:[ \t\r\n]*=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE}|([^ \t\r\n\"'][^ \t\r\n]*))?)?"
    rf"|=[ \t\r\n]*(?:{_DOUBLE}|{_SINGLE})"
)
_OPEN_QUOTE = re.compile(r"=[ \t\r\n]*([\"'])")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_NAME = re.compile(r"[A-Za-z0-9_:-]+")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def read_attributes(inside: str, *, strict: bool = False) -> tuple[Attribute, ...]:
    """The attributes of a tag, in order; `inside` is what follows its name, without ``/>`` or ``>``.

    >>> read_attributes(" src='a &amp; b' local n=1")
    (Attribute(name='src', value='a & b'), Attribute(name='local', value=None), Attribute(name='n', value='1'))
    """
    if not inside or inside.isspace():
        return ()
    found = []
    for match in _ATTRIBUTE.finditer(inside):
        name, double, single, bare, _, _ = match.groups()
        if name is None:
            continue
        if double is not None:
            found.append(Attribute(name, _decode(double, '"', strict)))
        elif single is not None:
            found.append(Attribute(name, _decode(single, "'", strict)))
        else:
            found.append(Attribute(name, bare))
    return tuple(found)


def attribute_offsets(inside: str) -> dict[str, int]:
    """Where each attribute starts in the inside of a tag; of one that stands there twice, the last.

    >>> attribute_offsets(" src='a' local")
    {'src': 1, 'local': 9}
    """
    return {match[1]: match.start() for match in _ATTRIBUTE.finditer(inside) if match[1]}


def passed_over(inside: str) -> str:
    """The characters in a tag that no attribute takes up.

    >>> passed_over(" src='a', local; x")
    ',;'
    """
    rest = _ATTRIBUTE.sub(lambda match: "" if match[1] else match[0], inside)
    return "".join(c for c in rest if c not in BLANK)


def has_open_quote(inside: str) -> bool:
    """Whether a value in a tag begins with a quote that nothing closes."""
    at = 0
    while (quote := _OPEN_QUOTE.search(inside, at)) is not None:
        closed = re.compile(_DOUBLE if quote[1] == '"' else _SINGLE).match(inside, quote.start(1))
        if closed is None:
            return True
        at = closed.end()
    return False


def _decode(value: str, quote: str, strict: bool) -> str:
    if "\\" in value and not strict:
        value = value.replace("\\" + quote, quote)
    if "&" not in value:
        return value
    return _ENTITY.sub(_character_strict if strict else _character, value)


def _character_strict(match: re.Match[str]) -> str:
    return _NAMED[match[1]] if match[1] else match[0]


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if code <= 0x10FFFF else match[0]


def write_attributes(attributes: Iterable[Attribute]) -> str:
    """The inside of a tag that reads as these attributes, whatever their values hold.

    Raises:
        ValueError: a name that no tag can hold.

    >>> write_attributes([Attribute("src", 'a"b\\\\'), Attribute("local")])
    ' src="a&quot;b&#92;" local'
    """
    written = []
    for name, value in attributes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for an attribute")
        written.append(f" {name}" if value is None else f' {name}="{_quotable(value)}"')
    return "".join(written)


def _quotable(value: str) -> str:
    value = value.translate(_ESCAPES)
    # A backslash before the closing quote would keep the value open.
    return f"{value[:-1]}&#92;" if value.endswith("\\") else value
