"""Importing URLs as markdown: one document, or the pages of a site with working links between them.

Only public addresses are fetched. Of a site, pages on the same host and below the first one's folder are read, a few
at once, as far as its robots.txt allows; time, size and number of pages are limited.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from mimetypes import MimeTypes
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from lmm import loop
from lmm.disk.folder import DEVICE, Folder, check_named
from lmm.errors import FetchFailed, FileWriteError, LmmError
from lmm.fetch import Fetched, FetchRules, check_url, fetch, github_file, name_of, shown
from lmm.importing.formats import FORMATS, FileKind, file_kind, format_of, suffix_of
from lmm.importing.html_page import codec_of
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
from lmm.importing.markdown_text import escaped
from lmm.markdown.blocks import Block, HeadingBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.spans import spans

if TYPE_CHECKING:
    from protego import Protego

_BY_HAND = "save it in your browser, and import the file"
WEB = FetchRules(60.0, 50_000_000, more_time=_BY_HAND, more_bytes=_BY_HAND, more_private=_BY_HAND)
"""The rules for fetching in an import."""
MOST_PAGES = 200
MOST_BYTES = 300_000_000  # of a whole import
MOST_SECONDS = 1_800.0  # for all pages of a site
AT_ONCE = 4  # pages of a site that are fetched concurrently, if its robots.txt asks for no pause
_MOST_PICTURES = 500
_MOST_PICTURE = 10_000_000  # bytes
_MOST_ROBOTS = 500_000  # bytes
_LONGEST_PAUSE = 10.0  # seconds between two requests
_NAME = "lmmarkdown"
Tell = Callable[[str, int, int], None]
"""A function called for each requested page of a site: its URL, its number, and the number of pages known so far."""


def import_url(
    url: str,
    output: Path | str | None = None,
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
    rules: FetchRules = WEB,
    styles: Mapping[str, str] | None = None,
) -> ImportReport:
    """Convert a page, or a file of any of the `FORMATS`, at a URL to a markdown file.

    `output` is a file or a folder (see `output_of`); by default, the markdown is written to the current folder.
    Pictures from the same host are saved beside it. `timeout` is for reading, in seconds; `styles` is as in
    `import_file`.

    Raises:
        ConfigError: the format is unknown, or the package that reads it is not installed.
        FetchFailed: it cannot or must not be fetched.
        FileReadError, FileWriteError: as for `import_file`.
    """
    name = _safe(name_of(check_url(url)))
    stem = name.rpartition(".")[0] if suffix_of(name) in FORMATS else name
    target = output_of(check_named(Path(f"{stem}.html")), output)
    check_target(target, force)
    page = loop.run(_Reader(rules, timeout, styles=styles).page(url))
    document = _linked(page, {_key(page.url): target.name})
    return write_document(target, document, source=page.url, name=stem, force=force)


def import_site(
    url: str,
    output: Path | str | None = None,
    *,
    pages: int = MOST_PAGES,
    force: bool = False,
    timeout: float = TIMEOUT,
    rules: FetchRules = WEB,
    tell: Tell = lambda url, number, known: None,
) -> tuple[list[ImportReport], list[str]]:
    """Convert a site to a folder of markdown files with a ``SUMMARY.md``; return their reports and notes of omissions.

    At most `pages` pages are read: those that the first one leads to, on its host and below its folder. Without an
    `output`, the markdown goes to a folder named like the site's.

    Raises:
        ConfigError, FetchFailed, FileReadError: as for `import_url`, for the first page.
        FileWriteError: the folder is not empty, or cannot be written.
        Stopped: interrupted by Ctrl-C; the pages read until then are written, and its `report` is what would have
            been returned.
    """
    target = check_named(Path(output or _name_of_site(check_url(url))))
    if not force and target.exists() and (not target.is_dir() or any(target.iterdir())):
        hint = "choose another one with -o, or replace files with --force"
        raise FileWriteError("this folder is not empty", where=str(target), hint=hint)
    check_installed(replace(FORMATS[".html"], needs=(*FORMATS[".html"].needs, "protego")))
    site = _Site(_Reader(rules, timeout), pages, tell)
    loop.run(site.read(url))
    ordered = site.ordered()
    files = _files(ordered, site.folder)
    known = {name: files[key] for name, key in site.known.items() if key in files}
    below, reports = Folder(target), []
    for page in ordered:
        file = files[_key(page.url)]
        fragments = site.fragments.get(_key(page.url), set())
        document = _linked(page, known, file=file, linked=fragments)
        below.make(posixpath.dirname(file))
        name = posixpath.basename(file).removesuffix(".md")
        reports.append(write_document(target / file, document, source=page.url, name=name, force=force))
    titles = ((page.document.title or name_of(page.url), files[_key(page.url)]) for page in ordered)
    lines = "".join(f"- [{escaped(' '.join(title.split())[:200])}]({file})\n" for title, file in titles)
    below.write("SUMMARY.md", f"# Summary\n\n{lines}")
    if site.interrupted:
        raise loop.Stopped((reports, site.notes))
    return reports, site.notes


# -- one document ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that was read, and its URL after redirects."""

    url: str
    document: Imported


@dataclass(slots=True)
class _Reader:
    """Fetches and reads documents; `left` is the number of bytes still allowed, `pictures` are by address."""

    rules: FetchRules
    timeout: float
    left: int = MOST_BYTES
    pictures: dict[str, ImportedImage | None] = field(default_factory=dict)
    styles: Mapping[str, str] | None = None
    _asking: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def fetch(self, url: str, most: int) -> Fetched:
        """Fetch a document of at most `most` bytes.

        Raises:
            FetchFailed: it cannot be fetched, or the limit of the whole import is reached.
        """
        if self.left <= 0:
            raise FetchFailed(f"together, the pages have {MOST_BYTES / 1e6:,.0f} MB", where=shown(url))
        limit = min(most, self.rules.limit, self.left)
        came = await fetch(url, replace(self.rules, limit=limit))
        self.left -= len(came.data)
        return came

    async def page(self, url: str, *, may: Callable[[str], bool] = lambda url: True, only: str = "") -> _Page:
        """Fetch and read a page, with its pictures from the same host, as far as they `may` be fetched.

        Raises:
            FetchFailed: it cannot be fetched, or does not have the suffix `only`.
            ConfigError, FileReadError: it cannot be read.
        """
        file = github_file(url)
        came = await self.fetch(file.url if file else url, self.rules.limit)
        name = file.name if file else name_of(came.url)
        kind = file_kind(came.data, name=name, media_type=came.media_type)
        if only and kind.suffix != only:
            raise FetchFailed(f"this is {kind.name}, not a page", where=shown(url))
        try:
            document = await asyncio.to_thread(self._read, came, kind, name)
        except LmmError as error:
            raise type(error)(error.message, where=shown(url), hint=error.hint) from error
        images = [await self._picture(image, came.url, may) for image in document.images]
        return _Page(came.url, replace(document, images=tuple(images)))

    def _read(self, came: Fetched, kind: FileKind, name: str) -> Imported:
        suffix = kind.suffix or suffix_of(name)
        format = format_of(f"{name}{suffix}" if kind.suffix else name)
        check_installed(format)
        with tempfile.TemporaryDirectory(prefix="lmm-import-") as folder:
            file = Path(folder) / f"document{suffix}"
            file.write_bytes(_in_utf8(came) if kind.is_page else came.data)
            return read_source(file, format, prefix=came.url, online=True, timeout=self.timeout, styles=self.styles)

    async def _picture(self, image: ImportedImage, page: str, may: Callable[[str], bool]) -> ImportedImage:
        """Fetch an image on the page's host; others, or if it cannot be fetched, are returned as they are."""
        address = image.address
        if not address or _origin(address) != _origin(page) or len(self.pictures) >= _MOST_PICTURES:
            return image
        async with self._asking[address]:  # another page may be fetching it
            if address not in self.pictures:
                self.pictures[address] = await self._fetched_picture(address) if may(address) else None
        return self.pictures[address] or image

    async def _fetched_picture(self, address: str) -> ImportedImage | None:
        try:
            came = await self.fetch(address, _MOST_PICTURE)
        except FetchFailed:
            return None
        image = ImportedImage(came.data, address)
        return image if image.suffix and _origin(came.url) == _origin(address) else None


def _in_utf8(came: Fetched) -> bytes:
    """Convert a page from the encoding that its server names to UTF-8 with a byte order mark; else return it as is."""
    try:
        text = came.data.decode(codec_of(came.charset)) if came.charset else ""
    except (LookupError, ValueError):
        text = ""  # the name is wrong
    return text.encode("utf-8-sig", "replace") if "<" in text else came.data


def _linked(page: _Page, files: Mapping[str, str], *, file: str = "", linked: set[str] | None = None) -> Imported:
    """Make links to imported pages lead to their files; `linked` are the ids that other pages link to."""
    here = file or files.get(_key(page.url), "")
    links = [_link(address, files, here) for address in page.document.links]
    wanted = {link[1:] for link in links if link.startswith("#")} | (linked or set())
    body = page.document.body
    wanted |= {span.target[1:] for span in spans(body) if span.kind == "link" and span.target.startswith("#")}
    blocks = (_without_id(block, wanted) for block in parse_markdown_text(body))
    return replace(page.document, body=serialize(blocks), links=tuple(links))


def _without_id(block: Block, wanted: set[str]) -> Block:
    """Remove the id of a heading if nothing links to it."""
    if not isinstance(block, HeadingBlock) or block.anchor in wanted or block.attributes != f"{{#{block.anchor}}}":
        return block
    return block.with_source(block.source.replace(f" {block.attributes}", "", 1))


def _link(address: str, files: Mapping[str, str], here: str) -> str:
    """Return a link from the file `here`: to another file, to a place in this one, or to the web as it was."""
    try:
        target, _, fragment = address.partition("#")
        file = files.get(_key(target))
    except ValueError:
        return address
    if file is None:
        return address
    path = "" if file == here and fragment else posixpath.relpath(file, posixpath.dirname(here) or ".")
    return f"{path}#{fragment}" if fragment else path


# -- a site ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Site:
    """The pages of a site while it is read: `pages` by the keys of their URLs, `known` maps other URLs to these keys.

    `below` are the pages that each page led to first, `fragments` the ids in each that others link to, `seen` the keys
    of all URLs found, `asked` the number of requested pages, `waiting` the URLs to be read, each with the page that led
    there, `coming` those of them that are already requested.
    """

    reader: _Reader
    most: int
    tell: Tell
    folder: str = ""
    pages: dict[str, _Page] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    fragments: dict[str, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    waiting: deque[tuple[str, str]] = field(default_factory=deque)
    coming: dict[str, asyncio.Task[_Page]] = field(default_factory=dict)
    asked: int = 0
    notes: list[str] = field(default_factory=list)
    robots: dict[str, Protego] = field(default_factory=dict)
    interrupted: bool = False

    async def read(self, start: str) -> None:
        """Read the first page, and the pages that it and they lead to, nearest first.

        Raises:
            LmmError: the first page cannot be read.
            CancelledError: cancelled before the first page was read; later, reading just ends.
        """
        first, ends = check_url(start), time.monotonic() + MOST_SECONDS
        self.seen.add(_key(first))
        self.waiting.append((first, ""))
        coming = self.coming
        try:
            while self.waiting and len(self.pages) < self.most and time.monotonic() < ends:
                # The pages and their order are as if they were requested one by one: these come next as far as is
                # known.
                for url, _ in islice(self.waiting, self._at_once()):
                    if url not in coming:
                        coming[url] = asyncio.create_task(self._page(url))
                url, leads = self.waiting.popleft()
                try:
                    self._take(await coming.pop(url), url, leads)
                except LmmError as error:
                    if not self.pages:
                        raise
                    self.notes.append(f"left out: {error}")
        except asyncio.CancelledError:
            if not self.pages:
                raise
            self.interrupted = True
            self.waiting.appendleft((url, leads))
        finally:
            for task in coming.values():
                task.cancel()
            await asyncio.gather(*coming.values(), return_exceptions=True)
        if more := len(self.waiting):
            hint = "interrupted" if self.interrupted else f"--pages {len(self.seen)}"
            self.notes.append(f"left out: {more} more page{'s' * (more > 1)} ({hint})")

    def _at_once(self) -> int:
        """Return how many pages may be requested at once: one if pauses are required, and not more than needed."""
        pauses = any(map(_pause, self.robots.values()))
        return min(1 if pauses else AT_ONCE, self.most - len(self.pages))

    def _take(self, page: _Page, url: str, leads: str) -> None:
        """Keep a page that the page `leads` led to first, and queue those that it leads to."""
        if not self.pages:
            self.folder = _folder(page.url)
        key = self.known[_key(url)] = _key(page.url)
        if key in self.pages or (self.pages and not self._is_inside(page.url)):
            return
        self.pages[key], self.known[key] = page, key
        self.seen.add(key)
        self.below.setdefault(leads, []).append(key)
        for address in page.document.links:
            target, _, fragment = address.partition("#")
            if fragment and target.startswith(self.folder):
                self.fragments.setdefault(_key(target), set()).add(fragment)
        for address in page.document.follows:
            if self._is_inside(address) and _key(address) not in self.seen and len(self.seen) < 50 * self.most:
                self.seen.add(_key(address))
                # The `next` page is read first, so that a limited number of pages is the beginning of the site.
                is_next = address == page.document.next
                (self.waiting.appendleft if is_next else self.waiting.append)((address, key))

    async def _page(self, url: str) -> _Page:
        await self._check_robots(url)
        self.asked += 1
        known = self.asked + sum(1 for address, _ in self.waiting if address not in self.coming)
        self.tell(url, self.asked, max(self.asked, min(self.most, known)))
        page = await self.reader.page(url, may=self._may, only=".html")
        await self._check_robots(page.url)
        await asyncio.sleep(_pause(self.robots[_origin(page.url)]))
        return page

    async def _check_robots(self, url: str) -> None:
        from protego import Protego

        if (origin := _origin(url)) not in self.robots:
            try:
                came = await self.reader.fetch(f"{origin}/robots.txt", _MOST_ROBOTS)
                self.robots[origin] = Protego.parse(came.data.decode("utf-8", "replace"))
            except FetchFailed as error:
                has_none = 400 <= error.status < 500
                self.robots[origin] = Protego.parse("" if has_none else "User-agent: *\nDisallow: /")
                if not has_none:
                    raise FetchFailed(f"its robots.txt cannot be read: {error.message}", where=error.where) from error
        if not self._may(url):
            raise FetchFailed("its robots.txt does not allow programs to read this", where=shown(url))

    def _may(self, url: str) -> bool:
        robots = self.robots.get(_origin(url))
        return robots is not None and robots.can_fetch(url, _NAME)

    def _is_inside(self, address: str) -> bool:
        """Return whether an address may be a page of the site: on its host, below its folder, without a query."""
        if not address.startswith(self.folder) or "?" in address:
            return False
        kind, coding = _TYPES.guess_type(urlsplit(address).path)
        return coding is None and kind in (None, "text/html", "application/xhtml+xml")

    def ordered(self) -> list[_Page]:
        """Return the pages in reading order: after each, the one it names as next, else those that it led to."""
        order: dict[str, _Page] = {}
        waiting = list(reversed(self.below.get("", [])))
        while waiting:
            key = waiting.pop()
            waiting += reversed(self.below.get(key, []))
            while key in self.pages and key not in order:
                order[key] = self.pages[key]
                key = self.known.get(_key(order[key].document.next), "")
        return [page for page in order.values() if page.document.listed]


def _pause(robots: Protego) -> float:
    """Return the seconds between two requests that a server asks for, at most ten."""
    return min(robots.crawl_delay(_NAME) or 0.0, _LONGEST_PAUSE)


_TYPES = MimeTypes()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _folder(url: str) -> str:
    """Return a URL up to its last slash."""
    parts = urlsplit(url)
    return f"{_origin(url)}{parts.path.rpartition('/')[0]}/"


def _name_of_site(url: str) -> str:
    """Return the name for the folder of a site: that of its folder on the web, or of its host.

    >>> _name_of_site("https://e.org/book/index.html"), _name_of_site("https://e.org/book"), _name_of_site("https://e.org")
    ('book', 'book', 'e.org')
    """
    is_page = _TYPES.guess_type(urlsplit(url).path)[0] is not None
    return _safe(name_of((_folder(url) if is_page else url).rstrip("/")))


def _key(url: str) -> str:
    """Return a key that is the same for all URLs of one page.

    >>> _key("https://e.org/a/index.html#b") == _key("https://e.org/a/"), _key("https://e.org/a/b")
    (True, 'https://e.org/a/b')
    """
    parts = urlsplit(url)
    path = re.sub(r"/index\.x?html?\Z", "/", unquote(parts.path) or "/")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _files(pages: list[_Page], folder: str) -> dict[str, str]:
    """Return a markdown file name below the site's folder for each page, by its key; the names are unique and safe."""
    files, taken = dict[str, str](), {"summary"}
    for page in pages:
        path = urlsplit(page.url).path.removeprefix(urlsplit(folder).path) or "index"
        parts = [_safe(unquote(part)) for part in (f"{path}index" if path.endswith("/") else path).split("/")[-8:]]
        last = parts[-1]
        parts[-1] = last.rpartition(".")[0] if _TYPES.guess_type(last)[0] or last.endswith((".php", ".aspx")) else last
        stem = name = "/".join(parts)
        number = 2
        while name.casefold() in taken:
            name, number = f"{stem}-{number}", number + 1
        taken.add(name.casefold())
        files[_key(page.url)] = f"{name}.md"
    return files


def _safe(part: str) -> str:
    """Return a part of a URL as a file name, without characters or names that are special to a system or in links.

    >>> _safe("../.ssh"), _safe("a b (1).html"), _safe("con.html"), _safe("")
    ('ssh', 'a-b-1-.html', '_con.html', 'page')
    """
    name = re.sub(r"[^\w.-]+", "-", part).strip("-. ")[:80].rstrip(".- ")
    return f"_{name}" if DEVICE.fullmatch(name) else name or "page"
