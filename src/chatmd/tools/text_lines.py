"""A text as lines that keep how they end, so that what nobody changed comes back byte for byte.

A line ends with LF or CRLF; any other character, such as a lone CR or a form feed, is part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatmd.errors import NotStorable
from lmm.errors import FileReadError

BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a text: what each says, and how it ends (``\\n``, ``\\r\\n``, or nothing at the end of the file).

    >>> Lines.of("a\\r\\nb")
    Lines(texts=('a', 'b'), ends=('\\r\\n', ''), bom=False)
    """

    texts: tuple[str, ...]
    ends: tuple[str, ...]
    bom: bool = False

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of a text; an empty one has none."""
        body = text.removeprefix(BOM)
        pairs = [match.groups() for match in _LINE.finditer(body)]
        if pairs and pairs[-1] == ("", ""):  # what comes after the last line end
            pairs.pop()
        return cls(tuple(line for line, _ in pairs), tuple(end for _, end in pairs), body != text)

    @property
    def text(self) -> str:
        """The text again, exactly."""
        mark = BOM if self.bom else ""
        return mark + "".join(line + end for line, end in zip(self.texts, self.ends, strict=True))

    @property
    def newline(self) -> str:
        """How most lines end; LF, if none does.

        >>> Lines.of("a\\r\\nb\\r\\nc\\n").newline
        '\\r\\n'
        """
        return "\r\n" if self.ends.count("\r\n") > self.ends.count("\n") else "\n"


def with_newline(text: str, newline: str) -> str:
    """A text whose lines all end with `newline`.

    >>> with_newline("a\\nb\\r\\n", "\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    return text.replace("\r\n", "\n").replace("\n", newline)


def decode_text(data: bytes | bytearray, name: str, *, first: int = 1, cut: bool = False) -> str:
    """The text of a file that is text: UTF-8 without NUL. `first` is the number of its first line.

    With `cut`, the last character may have been cut off, and is left out then.

    Raises:
        FileReadError: it is something else.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileReadError("this is UTF-16, not UTF-8", where=name, hint="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in data:
        raise FileReadError("this is no text file", where=name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if cut and error.start >= len(data) - 3:
            return data[: error.start].decode("utf-8")
        line = first + data[: error.start].count(b"\n")
        raise FileReadError(
            f"this is no text file, or an old one: byte 0x{data[error.start]:02x} in line {line} is not UTF-8",
            where=name,
        ) from error


def encode_text(text: str, name: str) -> bytes:
    """The bytes of a text file.

    Raises:
        NotStorable: the text holds what no text file can.
    """
    if "\0" in text:
        raise NotStorable("a text file holds no NUL", where=name)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotStorable("the text holds half of a surrogate pair", where=name) from error
