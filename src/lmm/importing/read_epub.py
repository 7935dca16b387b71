"""Reading EPUB books: Pandoc gets titles that stand only in the contents, and notes in files of their own."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from html import escape, unescape
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local
from lmm.importing.imported import Context, Imported
from lmm.importing.pandoc import convert, with_title
from lmm.importing.read_html import check_nesting, check_tables, decode_html, with_scripts

# By patterns, so that all else stays as it is: the pages are XHTML, of which a parser of HTML loses everything after
# <title/>, and many are not well-formed, which a parser of XML refuses.
_HEADING = re.compile(r"<h[1-6][\s>]", re.IGNORECASE)
_BODY = re.compile(r"<body\b[^<>]*>", re.IGNORECASE)
_PARAGRAPH = re.compile(
    r"<(?P<tag>p|div)(?P<rest>\s[^<>]*)?>(?P<inner>(?:(?!</?(?:p|div)\b).){0,1000}?)</(?P=tag)>", re.DOTALL
)
_NOTE_LINK = re.compile(
    r"<a\b(?P<rest>[^<>]*\bhref=\"(?P<page>[^\"#<>]*)#(?P<id>[^\"<>]+)\"[^<>]*)>(?P<mark>(?:(?!</?a\b).){0,80}?)</a>"
)
_NOTE_BOX = re.compile(r"<(?P<tag>li|p|aside|div|dd)\b[^<>]*\bid=\"(?P<id>[^\"<>]+)\"[^<>]*>")
_NOTE_TYPE = re.compile(r"epub:type=\"[^\"]*(?:footnote|endnote|rearnote|noteref)")


def read(data: bytes, context: Context) -> Imported:
    """Convert a book to markdown.

    Raises:
        FileReadError: it cannot be read, is copy-protected, or there is no text in it.
    """
    with Archive(data, kind=context.kind) as archive:
        contents, pages, changed = _checked(archive)
        data = archive.bounded(pages, changed)
    return with_title(convert(data, context, LMM_BOOK=contents), pictures=False)


_FONT_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # obfuscated fonts only


def _checked(archive: Archive) -> tuple[str, tuple[str, ...], dict[str, bytes]]:
    """Check a book; return the names of its table of contents, between slashes, its pages in reading order, and those
    with titles from the contents or with notes from other pages.

    Raises:
        FileReadError: it is copy-protected, or its pages exceed the limits.
    """
    if "META-INF/encryption.xml" in archive.names:
        for node in archive.xml("META-INF/encryption.xml").iter():
            if local(node.tag) == "EncryptionMethod" and not node.get("Algorithm", "").startswith(_FONT_ONLY):
                raise FileReadError("this book is copy-protected", hint="import a copy without protection")
    box = archive.xml("META-INF/container.xml")
    package = next((node.get("full-path", "") for node in box.iter() if local(node.tag) == "rootfile"), "")
    nodes = list(archive.xml(package).iter())
    items = {node.get("id"): node for node in nodes if local(node.tag) == "item"}
    order = (items.get(node.get("idref")) for node in nodes if local(node.tag) == "itemref")
    addresses = (unquote(item.get("href", "")) for item in order if item is not None)
    names = (posixpath.normpath(posixpath.join(posixpath.dirname(package), address)) for address in addresses)
    pages = tuple(name for name in names if name in archive.names)
    texts: dict[str, str] = {}
    for name in pages:
        texts[name] = page = decode_html(archive.page(name))
        check_nesting(page, xhtml=True)
        check_tables(page)
    addresses = (item.get("href", "") for item in items.values() if "nav" in item.get("properties", "").split())
    lists = [posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(name))) for name in addresses]
    older = [name for name in archive.names if name.lower().endswith(".ncx")]
    entries = [entry for name in (lists or older)[:1] if name in archive.names for entry in entries_of(archive, name)]
    styles = "\n".join(decode_html(archive.read(name)) for name in archive.names if name.lower().endswith(".css"))
    raised = {name: with_scripts(page, styles) for name, page in texts.items()}
    changed = {name: page for name, page in raised.items() if page != texts[name]} | with_titles(raised, entries)
    changed |= with_notes({name: page for name, page in (raised | changed).items() if name not in lists})
    contents = f"/{'/'.join(posixpath.basename(name) for name in lists)}/"
    utf8 = {name: re.sub(r"\A<\?xml[^>]*\?>", "", page).encode() for name, page in changed.items()}
    return contents, pages, utf8


class ContentsEntry(NamedTuple):
    """An entry of the table of contents: the name of a page, the id of an element in it, a title, its depth from 1."""

    page: str
    id: str
    title: str
    depth: int


def entries_of(archive: Archive, name: str) -> Iterator[ContentsEntry]:
    """Iterate over the entries of a table of contents, in EPUB 3's HTML or EPUB 2's NCX."""
    folder = posixpath.dirname(name)

    def below(node: Element, depth: int) -> Iterator[ContentsEntry]:
        for child in node:
            tag = local(child.tag)
            if any(value in ("page-list", "landmarks") for value in child.attrib.values()):
                continue  # no titles
            if tag == "navPoint":
                texts = [text.text or "" for part in child if local(part.tag) == "navLabel" for text in part.iter()]
                address = next((part.get("src", "") for part in child if local(part.tag) == "content"), "")
                yield _entry(folder, address, "".join(texts), depth + 1)
            elif tag == "a":
                yield _entry(folder, child.get("href", ""), "".join(child.itertext()), depth)
            yield from below(child, depth + (tag in ("ol", "navPoint")))

    with suppress(FileReadError):  # contents that cannot be read name nothing
        yield from below(archive.xml(name), 0)


def _entry(folder: str, address: str, title: str, depth: int) -> ContentsEntry:
    path, _, id = unquote(address).partition("#")
    return ContentsEntry(posixpath.normpath(posixpath.join(folder, path)), id, " ".join(title.split()), max(depth, 1))


def with_titles(pages: Mapping[str, str], entries: Iterable[ContentsEntry]) -> dict[str, str]:
    """Return the pages without any heading to which the contents lead, with their titles as headings.

    >>> page = "<body><p class='t'>Day <b>one</b></p><p>Text.</p></body>"
    >>> with_titles({"a": page}, [ContentsEntry("a", "", "Day one", 1)])["a"]
    '<body><h1>Day <b>one</b></h1><p>Text.</p></body>'
    """
    changed: dict[str, str] = {}
    for entry in entries:
        page = changed.get(entry.page) or pages.get(entry.page, "")
        if not page or not entry.title or _HEADING.search(pages[entry.page]):
            continue
        body = _BODY.search(page)
        if not _words(page[body.end() if body else 0 :]):
            continue  # a page of pictures
        tag = f"h{min(entry.depth, 6)}"
        opening = re.search(rf"<\w+\b[^<>]*\bid=[\"']{re.escape(entry.id)}[\"']", page) if entry.id else None
        start = opening.start() if opening else body.end() if body else 0
        for paragraph in _PARAGRAPH.finditer(page, start, start + 5_000):
            if _words(paragraph["inner"]).casefold() == entry.title.casefold():
                heading = f"<{tag}>{paragraph['inner']}</{tag}>"
                changed[entry.page] = page[: paragraph.start()] + heading + page[paragraph.end() :]
                break
        else:
            changed[entry.page] = f"{page[:start]}<{tag}>{escape(entry.title)}</{tag}>{page[start:]}"
    return changed


def _words(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^<>]*>", "", markup)).split())


def with_notes(pages: Mapping[str, str]) -> dict[str, str]:
    """Return the pages that refer to notes, there or on other pages, with these notes as EPUB 3 has them, and the pages
    without them."""
    edits: dict[str, list[tuple[int, int, str]]] = {}
    notes: dict[str, list[str]] = {}
    count = itertools.count(1)
    boxes = {name: {match["id"]: match for match in _NOTE_BOX.finditer(page)} for name, page in pages.items()}
    for name, page in pages.items():
        file = posixpath.basename(name)
        for link in _NOTE_LINK.finditer(page):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(link["page"])))
            other, is_typed = path if link["page"] else name, _NOTE_TYPE.search(link["rest"])
            mark, box = _words(link["mark"]).strip("[]()"), boxes.get(other, {}).get(link["id"])
            if box is None or not mark or len(mark) > 4 or (other == name and (is_typed or box.start() < link.start())):
                continue
            own = re.search(r"\bid=\"([^\"<>]+)\"", link["rest"])
            back = f'"#{own[1]}"' if own and other == name else f"{file}#"
            end = _end_of(pages[other], box)
            element = pages[other][box.start() : end]
            if not element or not (back in element or is_typed or _NOTE_TYPE.search(element[:300])):
                continue
            id = f"lmm-note-{next(count)}"
            inner = re.sub(rf"<a\b[^<>]*{re.escape(back)}[^<>]*>.*?</a>", "", element, flags=re.DOTALL)
            inner = re.sub(r"\A<\w+[^<>]*>|</\w+>\Z", "", inner)
            notes.setdefault(name, []).append(f'<aside epub:type="footnote" id="{id}"><div>{inner}</div></aside>')
            edits.setdefault(other, []).append((box.start(), end, ""))
            edits.setdefault(name, []).append(
                (link.start(), link.end(), f'<a epub:type="noteref" href="#{id}">{mark}</a>')
            )
    changed: dict[str, str] = {}
    for name in edits:
        parts, at = list[str](), 0
        for start, end, text in sorted(edits[name]):
            if start >= at:
                parts += [pages[name][at:start], text]
                at = end
        page = "".join([*parts, pages[name][at:]])
        changed[name] = page.replace("</body>", f"{''.join(notes.get(name, ()))}</body>", 1)
    return changed


def _end_of(page: str, opening: re.Match[str]) -> int:
    """Return the end of an element, or 0 if it is not closed."""
    depth = 0
    for tag in re.compile(rf"<(/?){opening['tag']}\b[^<>]*>").finditer(page, opening.start(), opening.start() + 50_000):
        depth += -1 if tag[1] else 0 if tag[0].endswith("/>") else 1
        if depth == 0:
            return tag.end()
    return 0
