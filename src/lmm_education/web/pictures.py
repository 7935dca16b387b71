"""The pictures of a course, files that its texts refer to, and the originals of its texts: served at signed addresses.

An address is the signed path of a file that was checked when the text was rendered: it is inside the course's folder or
the document's, is not hidden, and its content is a picture. Unsigned addresses are never joined to a path.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lmm.disk.files import read_document
from lmm.errors import LmmError
from lmm.markdown import spans
from lmm.messages import BEGINNING, picture_type
from lmm_education.audience import TEACHER
from lmm_education.errors import RequestError
from lmm_education.ingestion.source_files import original
from lmm_education.material import Location, Passage
from lmm_education.parts import CourseParts
from lmm_education.store.port import Match
from lmm_education.web.login import Signer
from lmm_education.web.rendering import Picture

_BROWSERS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"})


def media_type(beginning: bytes) -> str:
    """Return the media type of a picture that browsers display, by its first bytes; empty for anything else."""
    kind = picture_type(beginning)
    return kind.media_type if kind and kind.media_type in _BROWSERS else ""


def references(markdown: str) -> set[str]:
    """Return the picture files that a text refers to, in the form of `file_of`.

    >>> sorted(references("![A leaf](figures/leaf%20green.png){width=50%} ![](https://example.org/x.png)"))
    ['figures/leaf green.png']
    """
    return {file for span in spans(markdown, in_list=True) if span.kind == "image" and (file := file_of(span.target))}


def file_of(address: str) -> str:
    """Return the relative path in a picture's address; empty if the address is absolute or invalid.

    >>> file_of("figures/a%20b.png?x#y"), file_of("//host/a.png"), file_of("/etc/a.png"), file_of("c:/a.png")
    ('figures/a b.png', '', '', '')
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    file = unquote(parts.path)
    if parts.scheme or parts.netloc or file.startswith("/") or "\\" in file or "\0" in file:
        return ""
    return file


# -- addresses and files -----------------------------------------------------------------------------


LARGEST = 10 * 1024 * 1024
"""The size limit of a picture in bytes."""
_PURPOSE = "picture"
# A picture may be opened by itself; a script in it would then run with our origin, unless sandboxed.
_SKIP = re.compile(r"\bskip\b[\"']?\s*:")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


class Pictures:
    """Pictures inside `root`, the course's folder, and inside the folders of its documents; with `inside`, only those
    inside `root`: anybody may have written the paths in the store of a server."""

    def __init__(self, root: Path, signer: Signer, *, inside: bool = False) -> None:
        self._root, self._signer, self._inside = root.resolve(), signer, inside

    def of_document(self, file: str) -> Picture:
        """Return a function that makes addresses for the pictures of a document (relative to the course's folder)."""
        return lambda address: self._address(file, file_of(address))

    def of_sources(self, sources: Iterable[Passage]) -> Picture:
        """Return a function that makes addresses of the pictures in these sources: an answer may show no others."""
        named = [(source.place.file, references(source.text)) for source in sources if "![" in source.text]

        def picture(address: str) -> str:
            wanted = file_of(address)
            files = (file for file, addresses in named if wanted in addresses)
            return next((found for file in files if (found := self._address(file, wanted))), "")

        return picture

    def _address(self, document: str, wanted: str) -> str:
        if not wanted:
            return ""
        folder = (self._root / document).parent
        try:
            file = (folder / wanted).resolve(strict=True)  # must be in one of two folders, and not hidden
            tops = (self._root, *([] if self._inside else [folder.resolve()]))
            top = next((top for top in tops if file.is_relative_to(top)), None)
            if top is None or any(part.startswith(".") for part in file.relative_to(top).parts) or not _kind(file):
                return ""
        except (OSError, ValueError, RuntimeError):  # missing, unreadable, or circular links
            return ""
        known = os.path.relpath(file, self._root)  # an address must not reveal where the course is on the disk
        return f"pictures/{self._signer.sign(_PURPOSE, _encoded(known))}"

    def read(self, signed: str) -> tuple[bytes, str]:
        """Return the picture at an address that `Picture` made, and its media type.

        Raises:
            RequestError: the picture no longer exists, or the signature is invalid.
        """
        path = self._signer.read(_PURPOSE, signed)
        if path is None:
            raise RequestError("there is no such picture", status=404)
        try:
            file = Path(os.path.normpath(self._root / _decoded(path)))
            if file.resolve(strict=True) != file or not (kind := _kind(file)):  # replaced by a link in the meantime
                raise RequestError("there is no such picture", status=404)
            return file.read_bytes(), kind
        except (OSError, ValueError, RuntimeError):
            raise RequestError("there is no such picture", status=404) from None


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def _decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "surrogateescape")


class Originals:
    """The PDFs that texts were imported from. Students get one only if `[serve] originals` says so, and if of what was
    imported from it nothing is withheld or skipped; it is in the course's folder, and not hidden."""

    def __init__(self, author: CourseParts, signer: Signer) -> None:
        self._author, self._signer, self._root = author, signer, author.root.resolve()

    def address(self, place: Location) -> str:
        """Return the address of the original, opened on the page of a text; empty if students do not get it."""
        page = place.link.partition("#")[2]
        if not page or self._file(place.file, place.original) is None:
            return ""
        names = _encoded(f"{place.file}\0{place.original}")
        return f"originals/{self._signer.sign('original', names)}#{page}"

    def read(self, signed: str) -> Path:
        """Return the file at an address that `address` made.

        Raises:
            RequestError: students do not get it any more, or the signature is invalid.
        """
        text = self._signer.read("original", signed)
        file = self._file(*_decoded(text).split("\0")) if text is not None else None
        if file is None:
            raise RequestError("there is no such file", status=404)
        return file

    def _file(self, document: str, name: str) -> Path | None:
        if not self._author.settings.serve.originals:
            return None
        withheld = [Match("audience", (TEACHER,))]
        with self._author.store.view() as view:
            for collection in ("chunks", "documents"):
                for point in view.scroll(collection, where=withheld, fields=("original", "file")):
                    if name == point.payload.get("original") or document == point.payload.get("file"):
                        return None
        path = self._root / document
        try:
            skips = any(_SKIP.search(read_document(each)) for each in (path, original(path)))
            file = (self._root / name).resolve(strict=True)
            inside = file.relative_to(self._root)
            with file.open("rb") as opened:
                is_pdf = opened.read(5) == b"%PDF-"
        except (LmmError, OSError, ValueError, RuntimeError):
            return None
        return None if skips or not is_pdf or any(part.startswith(".") for part in inside.parts) else file


def _kind(file: Path) -> str:
    """Return the media type of a picture that is not too large; empty for any other file."""
    if not file.is_file() or file.stat().st_size > LARGEST:
        return ""
    with file.open("rb") as opened:
        return media_type(opened.read(BEGINNING))
