"""The pictures of a course: files that a stored text refers to, under addresses that we alone can make.

An address is the signed path of a file that was checked when the text was rendered: it lies below the course's folder
or the document's, is not hidden, and is a picture by what is in it. Nothing in an address is ever joined to a path.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lmm.markdown import spans
from lmm.messages import BEGINNING, picture_type
from lmm_education.errors import RequestError
from lmm_education.material import Passage
from lmm_education.web.accounts import Signer
from lmm_education.web.rendering import Picture

_BROWSERS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"})


def media_type(beginning: bytes) -> str:
    """The media type of a picture that browsers show, by its first bytes; empty if it is none."""
    kind = picture_type(beginning)
    return kind.media_type if kind and kind.media_type in _BROWSERS else ""


def references(markdown: str) -> set[str]:
    """The files of pictures that a text refers to, as `file_of` gives them.

    >>> sorted(references("![A leaf](figures/leaf%20green.png){width=50%} ![](https://example.org/x.png)"))
    ['figures/leaf green.png']
    """
    return {file for span in spans(markdown, in_list=True) if span.kind == "image" and (file := file_of(span.target))}


def file_of(address: str) -> str:
    """The relative path in the address of a picture; empty if it leads elsewhere, or is none.

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
"""Bytes of a picture."""
_PURPOSE = "picture"
# A picture may be opened by itself: then a script in it would run as ours, if it were let.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


class Pictures:
    """The pictures below `root`, the course's folder, and below the folders of its documents; with `inside`, only of
    those that lie in there: what a server's store says of a document's folder, anybody may have written."""

    def __init__(self, root: Path, signer: Signer, *, inside: bool = False) -> None:
        self._root, self._signer, self._inside = root.resolve(), signer, inside

    def of_document(self, file: str) -> Picture:
        """The pictures that the document `file` (relative to the course's folder) refers to."""
        return lambda address: self._address(file, file_of(address))

    def of_sources(self, sources: Iterable[Passage]) -> Picture:
        """The pictures that these sources refer to: a model may name those in its answer, and no other."""
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
            file = (folder / wanted).resolve(strict=True)  # below the course or the document, and not hidden there
            tops = (self._root, *([] if self._inside else [folder.resolve()]))
            top = next((top for top in tops if file.is_relative_to(top)), None)
            if top is None or any(part.startswith(".") for part in file.relative_to(top).parts) or not _kind(file):
                return ""
        except (OSError, ValueError, RuntimeError):  # not there, not readable, links in a circle
            return ""
        known = os.path.relpath(file, self._root)  # an address tells nobody where on the disk the course is
        path = base64.urlsafe_b64encode(known.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        return f"pictures/{self._signer.sign(_PURPOSE, path)}"

    def read(self, signed: str) -> tuple[bytes, str]:
        """The picture under an address that `Picture` gave, and its media type.

        Raises:
            RequestError: it is not there any more, or the address is not ours.
        """
        path = self._signer.read(_PURPOSE, signed)
        if path is None:
            raise RequestError("there is no such picture", status=404)
        try:
            known = base64.urlsafe_b64decode(path + "=" * (-len(path) % 4)).decode("utf-8", "surrogateescape")
            file = Path(os.path.normpath(self._root / known))
            if file.resolve(strict=True) != file or not (kind := _kind(file)):  # a link was put in its way
                raise RequestError("there is no such picture", status=404)
            return file.read_bytes(), kind
        except (OSError, ValueError, RuntimeError):
            raise RequestError("there is no such picture", status=404) from None


def _kind(file: Path) -> str:
    """The media type, if this is a picture of a size that we show."""
    if not file.is_file() or file.stat().st_size > LARGEST:
        return ""
    with file.open("rb") as opened:
        return media_type(opened.read(BEGINNING))
