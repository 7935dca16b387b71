"""The pictures of a course: files that its texts refer to, served under signed addresses.

An address is the signed path of a file that was checked when the text was rendered: it is inside the course's folder or
the document's, is not hidden, and its content is a picture. Unsigned addresses are never joined to a path.
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
        path = base64.urlsafe_b64encode(known.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        return f"pictures/{self._signer.sign(_PURPOSE, path)}"

    def read(self, signed: str) -> tuple[bytes, str]:
        """Return the picture at an address that `Picture` made, and its media type.

        Raises:
            RequestError: the picture no longer exists, or the signature is invalid.
        """
        path = self._signer.read(_PURPOSE, signed)
        if path is None:
            raise RequestError("there is no such picture", status=404)
        try:
            known = base64.urlsafe_b64decode(path + "=" * (-len(path) % 4)).decode("utf-8", "surrogateescape")
            file = Path(os.path.normpath(self._root / known))
            if file.resolve(strict=True) != file or not (kind := _kind(file)):  # replaced by a link in the meantime
                raise RequestError("there is no such picture", status=404)
            return file.read_bytes(), kind
        except (OSError, ValueError, RuntimeError):
            raise RequestError("there is no such picture", status=404) from None


def _kind(file: Path) -> str:
    """Return the media type of a picture that is not too large; empty for any other file."""
    if not file.is_file() or file.stat().st_size > LARGEST:
        return ""
    with file.open("rb") as opened:
        return media_type(opened.read(BEGINNING))
