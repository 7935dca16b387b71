"""Importing a page or a file at a URL as markdown, with the pictures on its host. Only public addresses are fetched."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from lmm import loop
from lmm.disk.folder import DEVICE, check_named
from lmm.errors import FetchFailed, LmmError
from lmm.fetch import Fetched, FetchRules, check_url, fetch, github_file, name_of, shown
from lmm.importing.formats import FORMATS, FileKind, file_kind, format_of, suffix_of
from lmm.importing.import_document import (
    TIMEOUT,
    ImportReport,
    check_installed,
    check_target,
    output_of,
    read_source,
    write_document,
)
from lmm.importing.imported import Imported, ImportedImage
from lmm.importing.read_html import codec_of

_BY_HAND = "save it in your browser, and import the file"
WEB = FetchRules(60.0, 50_000_000, more_time=_BY_HAND, more_bytes=_BY_HAND, more_private=_BY_HAND)
"""The rules for fetching in an import."""
MOST_BYTES = 300_000_000  # of a whole import
_MOST_PICTURES = 500
_MOST_PICTURE = 10_000_000  # bytes


def import_url(
    url: str,
    output: Path | str | None = None,
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
    rules: FetchRules = WEB,
) -> ImportReport:
    """Convert a page, or a file of any of the `FORMATS`, at a URL to a markdown file.

    `output` is a file or a folder (see `output_of`); by default, the markdown is written to the current folder.
    Pictures from the same host are saved beside it. `timeout` is for reading, in seconds.

    Raises:
        ConfigError: the format is unknown, or the package that reads it is not installed.
        FetchFailed: it cannot or must not be fetched.
        FileReadError, FileWriteError: as for `import_file`.
    """
    name = _safe(name_of(check_url(url)))
    stem = name.rpartition(".")[0] if suffix_of(name) in FORMATS else name
    target = output_of(check_named(Path(f"{stem}.html")), output)
    check_target(target, force)
    source, document = loop.run(_read_page(url, rules, timeout))
    return write_document(target, document, source=source, name=stem, force=force)


async def _read_page(url: str, rules: FetchRules, timeout: float) -> tuple[str, Imported]:
    """Fetch and read a page, with its pictures from the same host; return its URL after redirects, and itself."""
    file = github_file(url)
    came = await fetch(file.url if file else url, rules)
    name = file.name if file else name_of(came.url)
    kind = file_kind(came.data, name=name, media_type=came.media_type)
    try:
        document = await asyncio.to_thread(_read, came, kind, name, timeout)
    except LmmError as error:
        raise type(error)(error.message, where=shown(url), hint=error.hint) from error
    left = MOST_BYTES - len(came.data)
    images = list(document.images)
    for number, image in [*enumerate(images)][:_MOST_PICTURES]:
        limit = min(_MOST_PICTURE, rules.limit, left)
        if image.address and _origin(image.address) == _origin(came.url) and limit > 0:
            with contextlib.suppress(FetchFailed):  # the address stays
                picture = await fetch(image.address, replace(rules, limit=limit))
                left -= len(picture.data)
                taken = ImportedImage(picture.data, image.address)
                if taken.suffix and _origin(picture.url) == _origin(came.url):
                    images[number] = taken
    return came.url, replace(document, images=tuple(images))


def _read(came: Fetched, kind: FileKind, name: str, timeout: float) -> Imported:
    suffix = kind.suffix or suffix_of(name)
    format = format_of(f"{name}{suffix}" if kind.suffix else name)
    check_installed(format)
    with tempfile.TemporaryDirectory(prefix="lmm-import-") as folder:
        file = Path(folder) / f"document{suffix}"
        file.write_bytes(_in_utf8(came) if kind.is_page else came.data)
        return read_source(file, format, prefix=came.url, online=True, timeout=timeout)


def _in_utf8(came: Fetched) -> bytes:
    """Convert a page from the encoding that its server names to UTF-8 with a byte order mark; else return it as is."""
    try:
        text = came.data.decode(codec_of(came.charset)) if came.charset else ""
    except (LookupError, ValueError):
        text = ""  # the name is wrong
    return text.encode("utf-8-sig", "replace") if "<" in text else came.data


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _safe(part: str) -> str:
    """Return a part of a URL as a file name, without characters or names that are special to a system or in links.

    >>> _safe("../.ssh"), _safe("a b (1).html"), _safe("con.html"), _safe("")
    ('ssh', 'a-b-1-.html', '_con.html', 'page')
    """
    name = re.sub(r"[^\w.-]+", "-", part).strip("-. ")[:80].rstrip(".- ")
    return f"_{name}" if DEVICE.fullmatch(name) else name or "page"
