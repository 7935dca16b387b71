"""What lies at a URL as markdown: one document, or the pages of a site with working links between them.

Only public addresses are reached. Of a site, pages on the same host and below the first one's folder are read, a few
at once, as far as its robots.txt agrees; all that comes is bounded.
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
"""What is fetched for an import."""
MOST_PAGES = 200
MOST_BYTES = 300_000_000  # of a whole import
MOST_SECONDS = 1_800.0  # for all pages of a site
AT_ONCE = 4  # pages of a site that are asked for, where its robots.txt asks for no pause
_MOST_PICTURES = 500
_MOST_PICTURE = 10_000_000  # bytes
_MOST_ROBOTS = 500_000  # bytes
_LONGEST_PAUSE = 10.0  # seconds between two requests
_NAME = "lmmarkdown"
Tell = Callable[[str, int, int], None]
"""Told of each page of a site that is asked for: its URL, which one it is, and of how many that are known by then."""


def import_url(
    url: str,
    output: Path | str | None = None,
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
    rules: FetchRules = WEB,
    styles: Mapping[str, str] | None = None,
) -> ImportReport:
    """Turn what lies at a URL (a page, or a file of any of the `FORMATS`) into a markdown file.

    `output` is a file or an existing folder; without it the markdown lies in the current folder. Pictures from the
    same host lie beside it. `timeout` is for reading, in seconds; `styles` are those of `import_file`.

    Raises:
        ConfigError: the kind of file is not known, or what reads it is not installed.
        FetchFailed: it cannot be had, or must not.
        FileReadError, FileWriteError: as for `import_file`.
    """
    name = _safe(name_of(check_url(url)))
    stem = name.rpartition(".")[0] if suffix_of(name) in FORMATS else name
    target = output_of(check_named(Path(f"{stem}.html")), Path(output) if output is not None else None)
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
    """Turn the pages of a site into a folder of markdown files, in the order of ``SUMMARY.md``; and what is left out.

    Read are at most so many `pages`: those that the first one leads to, on its host and below its folder. Without an
    `output`, the markdown goes to a folder of the same name.

    Raises:
        ConfigError, FetchFailed, FileReadError: as for `import_url`, for the first page.
        FileWriteError: there is something in the folder already, or it cannot be written.
        Stopped: Ctrl-C came; the pages that had been read by then are written, and its `report` is what would have
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
    """What lies at a URL, which is that after redirects, as it was read."""

    url: str
    document: Imported


@dataclass(slots=True)
class _Reader:
    """Fetches and reads; `left` are the bytes that may still come, `pictures` those that came, by their addresses."""

    rules: FetchRules
    timeout: float
    left: int = MOST_BYTES
    pictures: dict[str, ImportedImage | None] = field(default_factory=dict)
    styles: Mapping[str, str] | None = None
    _asking: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def fetch(self, url: str, most: int) -> Fetched:
        """Get a document of at most `most` bytes.

        Raises:
            FetchFailed: it cannot be had, or there were too many bytes before it.
        """
        if self.left <= 0:
            raise FetchFailed(f"together, the pages have {MOST_BYTES / 1e6:,.0f} MB", where=shown(url))
        limit = min(most, self.rules.limit, self.left)
        came = await fetch(url, replace(self.rules, limit=limit))
        self.left -= len(came.data)
        return came

    async def page(self, url: str, *, may: Callable[[str], bool] = lambda url: True, only: str = "") -> _Page:
        """What lies at a URL, with its pictures from the same host, as far as they `may` be had.

        Raises:
            FetchFailed: it cannot be had, or is not of the `only` kind that is wanted.
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
        """An image with its bytes, if it lies on the page's host and can be had; else as it is."""
        address = image.address
        if not address or _origin(address) != _origin(page) or len(self.pictures) >= _MOST_PICTURES:
            return image
        async with self._asking[address]:  # another page may be at it
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
    """A page in UTF-8, marked so, if it is in the encoding that its server names; else as it came."""
    try:
        text = came.data.decode(codec_of(came.charset)) if came.charset else ""
    except (LookupError, ValueError):
        text = ""  # it says something else than it is
    return text.encode("utf-8-sig", "replace") if "<" in text else came.data


def _linked(page: _Page, files: Mapping[str, str], *, file: str = "", linked: set[str] | None = None) -> Imported:
    """A document whose links to pages that are files lead there; `linked` are the ids that other pages link to."""
    here = file or files.get(_key(page.url), "")
    links = [_link(address, files, here) for address in page.document.links]
    wanted = {link[1:] for link in links if link.startswith("#")} | (linked or set())
    body = page.document.body
    wanted |= {span.target[1:] for span in spans(body) if span.kind == "link" and span.target.startswith("#")}
    blocks = (_without_id(block, wanted) for block in parse_markdown_text(body))
    return replace(page.document, body=serialize(blocks), links=tuple(links))


def _without_id(block: Block, wanted: set[str]) -> Block:
    """A heading without an id that nothing leads to."""
    if not isinstance(block, HeadingBlock) or block.anchor in wanted or block.attributes != f"{{#{block.anchor}}}":
        return block
    return block.with_source(block.source.replace(f" {block.attributes}", "", 1))


def _link(address: str, files: Mapping[str, str], here: str) -> str:
    """A link from the file `here`: to another one, to a place in this one, or to the web as it was."""
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
    """The pages of a site as they are read: `pages` by the keys of their URLs, `known` from other URLs to those keys.

    `below` are the pages to which each led first, `fragments` the ids in each to which others link, `seen` the keys of
    all URLs that were met, `asked` how many were asked for, `waiting` those to be read, and what led there, `coming`
    those of them that are asked for already.
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
        """Read the first page, and those that it and they lead to, nearest first.

        Raises:
            LmmError: the first page cannot be had.
            CancelledError: Ctrl-C came before it; after it, this just ends.
        """
        first, ends = check_url(start), time.monotonic() + MOST_SECONDS
        self.seen.add(_key(first))
        self.waiting.append((first, ""))
        coming = self.coming
        try:
            while self.waiting and len(self.pages) < self.most and time.monotonic() < ends:
                # What is read, and in which order, is as if pages were asked for one by one: these come next as far
                # as is known.
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
        """How many pages may be asked for: one if a pause between them is asked for, and no more than are wanted."""
        pauses = any(map(_pause, self.robots.values()))
        return min(1 if pauses else AT_ONCE, self.most - len(self.pages))

    def _take(self, page: _Page, url: str, leads: str) -> None:
        """Keep a page to which another one led first, and let those wait to which it leads."""
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
                # What is to be read next comes next, so that a bounded number of pages is the beginning.
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
        """Whether an address may be a page of the site: on its host, below its folder, without a query."""
        if not address.startswith(self.folder) or "?" in address:
            return False
        kind, coding = _TYPES.guess_type(urlsplit(address).path)
        return coding is None and kind in (None, "text/html", "application/xhtml+xml")

    def ordered(self) -> list[_Page]:
        """The pages in the order of reading: each, then what it names as the next one; else those to which it led."""
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
    """The seconds between two requests that a server asks for, at most ten."""
    return min(robots.crawl_delay(_NAME) or 0.0, _LONGEST_PAUSE)


_TYPES = MimeTypes()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _folder(url: str) -> str:
    """A URL up to its last slash."""
    parts = urlsplit(url)
    return f"{_origin(url)}{parts.path.rpartition('/')[0]}/"


def _name_of_site(url: str) -> str:
    """What the folder of a site is called: as its folder on the web, or its host.

    >>> _name_of_site("https://e.org/book/index.html"), _name_of_site("https://e.org/book"), _name_of_site("https://e.org")
    ('book', 'book', 'e.org')
    """
    is_page = _TYPES.guess_type(urlsplit(url).path)[0] is not None
    return _safe(name_of((_folder(url) if is_page else url).rstrip("/")))


def _key(url: str) -> str:
    """What URLs of one page have in common.

    >>> _key("https://e.org/a/index.html#b") == _key("https://e.org/a/"), _key("https://e.org/a/b")
    (True, 'https://e.org/a/b')
    """
    parts = urlsplit(url)
    path = re.sub(r"/index\.x?html?\Z", "/", unquote(parts.path) or "/")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _files(pages: list[_Page], folder: str) -> dict[str, str]:
    """A markdown file for each page, by its key, below the site's folder; all names are different, and harmless."""
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
    """A part of a URL as the name of a file, without what a system or a link in markdown takes for something else.

    >>> _safe("../.ssh"), _safe("a b (1).html"), _safe("con.html"), _safe("")
    ('ssh', 'a-b-1-.html', '_con.html', 'page')
    """
    name = re.sub(r"[^\w.-]+", "-", part).strip("-. ")[:80].rstrip(".- ")
    return f"_{name}" if DEVICE.fullmatch(name) else name or "page"
