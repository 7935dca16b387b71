"""Reading zip archives of documents (Office files, EPUB) in memory, within limits; nothing is unpacked to disk."""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self
from xml.etree import ElementTree

from lmm.errors import FileReadError
from lmm.importing.elements import HARM
from lmm.messages import picture_type


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of an archive: members, bytes in total, bytes of one XML file and of one picture.

    The limits for all pages of a book, and for all pictures, are in bytes or multiples of the archive's size, whichever
    is larger.
    """

    members: int = 20_000
    total: int = 1_000_000_000
    xml: int = 30_000_000
    picture: int = 100_000_000
    picture_ratio: int = 20
    pages: int = 2_000_000
    page_ratio: int = 15


LIMITS = ArchiveLimits()


class Archive:
    """An archive that is read member by member; limits are checked before anything is unpacked."""

    def __init__(self, data: bytes, *, kind: str, limits: ArchiveLimits = LIMITS) -> None:
        """Open an archive; `kind` is what the file should be, for messages.

        Raises:
            FileReadError: it is not an archive, is encrypted, or exceeds the limits.
        """
        self.limits = limits
        self._pages, self._most_pages = 0, max(limits.pages, limits.page_ratio * len(data))
        self._pictures_left = max(limits.picture, limits.picture_ratio * len(data))
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise FileReadError(f"this is not a {kind} file", hint=_what(data)) from error
        members = self._zip.infolist()
        total = sum(member.file_size for member in members)
        if len(members) > limits.members or total > limits.total:
            size = f"{len(members):,} files, {total / 1e6:,.0f} MB unpacked"
            raise FileReadError(f"the archive in it is too large: {size}", hint=HARM)
        if any(member.flag_bits & 1 for member in members):
            hint = "save it without a password, then import it again"
            raise FileReadError("the file is protected by a password", hint=hint)
        self.names = frozenset(member.filename for member in members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Read a member.

        Raises:
            FileReadError: there is none of this name, or it cannot be unpacked.
        """
        try:
            return self._zip.read(name)
        except KeyError as error:
            raise FileReadError(f"there is no '{name}' in it", hint="the file is damaged") from error
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise FileReadError(f"'{name}' in it cannot be unpacked", hint="the file is damaged") from error

    def page(self, name: str) -> bytes:
        """Read a page of a book.

        Raises:
            FileReadError: it is missing, or the pages read so far exceed the limit.
        """
        self._pages += self._zip.getinfo(name).file_size if name in self.names else 0
        if self._pages > self._most_pages:
            raise FileReadError(f"its pages have more than {self._most_pages / 1e6:,.0f} MB unpacked", hint=HARM)
        return self.read(name)

    def picture(self, name: str) -> bytes:
        """Read a picture; empty if it is missing, damaged, not a picture, or too large alone or with others."""
        size = self._zip.getinfo(name).file_size if name in self.names else 0
        if size > min(self.limits.picture, self._pictures_left):
            return b""
        self._pictures_left -= size
        with contextlib.suppress(FileReadError):
            data = self.read(name)
            return data if picture_type(data) else b""
        return b""

    def bounded(self, pages: Collection[str] = (), changed: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
        """Return a copy of the archive with its checked XML and pictures, and some `pages`; all other members are
        empty. The contents of `changed` members are replaced.

        Raises:
            FileReadError: an XML file in it is too large, or declares entities.
        """
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as copy:
            for name in sorted(self.names):
                is_xml = name.endswith((".xml", ".rels", ".opf", ".ncx"))
                read = self.read if name in pages else self.checked if is_xml else self.picture
                copy.writestr(name, changed[name] if name in changed else read(name))
        return out.getvalue()

    def checked(self, name: str) -> bytes:
        """Read an XML member without parsing it; entity declarations are refused.

        Raises:
            FileReadError: it is missing, too large, or declares entities.
        """
        size = self._zip.getinfo(name).file_size if name in self.names else 0
        if size > self.limits.xml:
            raise FileReadError(f"'{name}' in it has {size / 1e6:,.0f} MB of XML", hint=HARM)
        data = self.read(name)
        # In UTF-16 there are zero bytes between the letters.
        if re.search(rb"<!(?:ENTITY|DOCTYPE[^<>\[]*\[)", data.replace(b"\0", b"")):
            raise FileReadError(f"'{name}' in it declares XML entities", hint=HARM)
        return data

    def xml(self, name: str) -> ElementTree.Element:
        """Parse an XML member; entity declarations are refused.

        Raises:
            FileReadError: it is missing, too large, declares entities, or is not valid XML.
        """
        try:
            return ElementTree.fromstring(self.checked(name))
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise FileReadError(f"'{name}' in it is not valid XML: {error}", hint="the file is damaged") from error

    def targets(self, name: str) -> dict[str, str]:
        """Return the members that a part of an Office file refers to, by their ids.

        Raises:
            FileReadError: the list of them is damaged.
        """
        folder, file = posixpath.split(name)
        relations = f"{folder}/_rels/{file}.rels"
        return {
            node.get("Id", ""): posixpath.normpath(posixpath.join(f"/{folder}", node.get("Target", "")))[1:]
            for node in (self.xml(relations) if relations in self.names else ())
        }


def local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


def _what(data: bytes) -> str:
    """Return a hint about the probable format of a file with the wrong suffix."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        return "it is in the format of Word 97, or has a password: open it and save it as .docx, without a password"
    if data.startswith(b"{\\rtf"):
        return "it is RTF: open it and save it as .docx"
    return "the file is damaged, or has the wrong suffix"
