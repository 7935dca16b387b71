"""Documents as the text that a model gets: as they are, without tags, or as markdown."""

from __future__ import annotations

import asyncio
import codecs
import tempfile
from dataclasses import dataclass
from pathlib import Path

from chatmd.content.compressed import too_large
from chatmd.content.kinds import Kind, kind_of
from chatmd.content.strip import strip_page, strip_tags
from chatmd.errors import ChatmdError
from lmm.disk.files import decode_document
from lmm.errors import FileReadError, LmmError
from lmm.importing import FORMATS
from lmm.importing.html_tree import decode_html
from lmm.importing.imported import Imported, link_images
from lmm.importing.run import check_installed, read_source

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_EMBEDDED = "embedded"  # the folder that images inside of documents are said to be in


@dataclass(frozen=True, slots=True)
class Raw:
    """A document as it came: what it is called, and what a server says of it; `url` if it is from the web."""

    data: bytes
    name: str
    media_type: str = ""
    charset: str = ""
    url: str = ""

    @property
    def kind(self) -> Kind:
        """What it is."""
        return kind_of(self.data, name=self.name, media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class Converted:
    """A document as markdown, its title if it names one, and what did not come along, for people."""

    text: str
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def titled(self) -> str:
        """The text, below its title if it does not begin with that anyway.

        >>> Converted("Text.\\n", "Leaves").titled, Converted("# Leaves\\n", "Leaves - a site").titled
        ('# Leaves\\n\\nText.\\n', '# Leaves\\n')
        """
        first = self.text.partition("\n")[0].lstrip("# ").strip()
        return f"# {self.title}\n\n{self.text}" if self.title and not (first and first in self.title) else self.text


def plain_text(raw: Raw) -> str:
    """The text of a document, every character as it is, but for a byte order mark.

    Raises:
        ChatmdError: it is no text, or in another encoding than it should be.
    """
    kind = raw.kind
    if not kind.is_text:
        hint = "write 'markdown', and it is converted" if kind.suffix else "only texts can be put into a message"
        raise ChatmdError(f"this is {kind.name}, no text", hint=hint)
    if kind.is_page and not raw.charset:
        return _no_nul(decode_html(raw.data))
    marked = next((name for mark, name in _BOMS.items() if raw.data.startswith(mark)), "")
    return _no_nul(_decoded(raw, marked or raw.charset).removeprefix("\ufeff"))


def stripped(raw: Raw) -> str:
    """The text of a document without HTML tags; of a web page, as a reader sees it.

    Raises:
        ChatmdError: it is no text, or in another encoding than it should be.
    """
    return (strip_page if raw.kind.is_page else strip_tags)(plain_text(raw))


async def as_markdown(raw: Raw, *, timeout: float, limit: int) -> Converted:
    """A document as markdown. Web pages, PDF, Word, EPUB and Jupyter files are converted; other texts stay as they are.

    `timeout` is in seconds, `limit` in bytes of the result.

    Raises:
        ChatmdError: it cannot be converted, or is no text; what converts it is not installed.
    """
    kind = raw.kind
    if not kind.suffix:
        return Converted(plain_text(raw))
    document = await asyncio.to_thread(_imported, raw, kind, timeout)
    text = link_images(document.body, document.images, _EMBEDDED)
    if len(text.encode("utf-8", "replace")) > limit:
        raise too_large(limit)
    return Converted(text, " ".join(document.title.split()), document.notes)


def _imported(raw: Raw, kind: Kind, timeout: float) -> Imported:
    format = FORMATS[kind.suffix]
    # What the server says of a page's encoding counts more than the page; a mark says it to the reader.
    data = codecs.BOM_UTF8 + plain_text(raw).encode("utf-8") if kind.is_page else raw.data
    try:
        check_installed(format)
        with tempfile.TemporaryDirectory(prefix="lmm-content-") as folder:
            file = Path(folder) / f"document{kind.suffix}"
            file.write_bytes(data)
            return read_source(file, format, prefix=raw.url, timeout=timeout)
    except LmmError as error:
        raise ChatmdError(error.message, hint=error.hint) from error
    except OSError as error:
        raise ChatmdError(f"it could not be converted: {error.strerror or error}") from error


def _decoded(raw: Raw, charset: str) -> str:
    if charset in ("", "utf-8", "utf8", "us-ascii", "ascii"):
        try:
            return decode_document(raw.data, raw.name)
        except FileReadError as error:
            at = error.where.removeprefix(f"{raw.name}:")
            raise ChatmdError(f"{error.message} (line {at.replace(':', ', column ')})", hint=error.hint) from error
    try:
        text = raw.data.decode("cp1252" if charset in ("iso-8859-1", "latin1") else charset)  # as browsers do
        text.encode("utf-8")  # some codecs make halves of characters
        return text
    except (LookupError, UnicodeDecodeError, ValueError) as error:
        raise ChatmdError(f"it says that it is in {charset[:40]}, and is not") from error


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ChatmdError("this is a binary file, no text", hint="only texts can be put into a message")
    return text
