"""Pages of EPUB books before Pandoc reads them: titles that stand only in the contents, notes in files of their own."""

from __future__ import annotations

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

# By patterns, so that all else stays as it is: the pages are XHTML, of which a parser of HTML loses everything after
# <title/>, and many are not well-formed, which a parser of XML refuses.
_HEADING = re.compile(r"<h[1-6][\s>]", re.IGNORECASE)
_BODY = re.compile(r"<body\b[^<>]*>", re.IGNORECASE)
_PARAGRAPH = re.compile(
    r"<(?P<tag>p|div)(?P<rest>\s[^<>]*)?>(?P<inner>(?:(?!</?(?:p|div)\b).){0,1000}?)</(?P=tag)>", re.DOTALL
)
_NOTE_LINK = re.compile(
    r"<a\b(?P<rest>[^<>]*\bhref=\"(?P<page>[^\"#<>]+)#(?P<id>[^\"<>]+)\"[^<>]*)>(?P<mark>(?:(?!</?a\b).){0,80}?)</a>"
)
_NOTE_TYPE = re.compile(r"epub:type=\"[^\"]*(?:footnote|endnote|rearnote|noteref)")


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


_SPAN = re.compile(r"<span\b(?P<rest>[^<>]*)>(?P<inner>[^<>]*)</span\s*>", re.IGNORECASE)
_CLASS = re.compile(r"\.([\w-]+)\s*\{([^{}]*)\}")


def with_scripts(page: str, styles: str = "") -> str:
    """Return a page with spans that a style raises or lowers as superscripts and subscripts; `styles` are those of its
    book, besides its own.

    >>> with_scripts("<style>.c1{vertical-align:super}</style>10<span class='c1'>6</span>").rpartition(">10")[2]
    '<sup>6</sup>'
    """
    styles += "\n".join(re.split(r"</?style\b[^<>]*>", page, flags=re.IGNORECASE)[1::2])
    kinds = {name: kind for name, body in _CLASS.findall(styles) if (kind := _script(body))}

    def shown(span: re.Match[str]) -> str:
        words = re.split(r"[\s\"'=]+", span["rest"])
        kind = _script(span["rest"]) or next((kinds[word] for word in words if word in kinds), "")
        return f"<{kind}>{span['inner']}</{kind}>" if kind else span[0]

    return _SPAN.sub(shown, page)


def _script(style: str) -> str:
    """Return the tag for text with a style: ``sup``, ``sub`` or none."""
    if aligned := re.search(r"vertical-align:\s*(?:(super)|sub)\b", style):
        return "sup" if aligned[1] else "sub"
    moved = re.search(r"(?<![\w-])top:\s*(-?)[\d.]+em", style) if "relative" in style and "font-size" in style else None
    return "" if moved is None else "sup" if moved[1] else "sub"


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
    """Return the pages that refer to notes on other pages with these notes, and the other pages without them."""
    changed: dict[str, str] = {}
    count = 0
    for name in pages:
        taken: list[str] = []
        page, at, kept = changed.get(name) or pages[name], 0, list[str]()
        for link in _NOTE_LINK.finditer(page):
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(link["page"])))
            mark = _words(link["mark"]).strip("[]()")
            if other == name or other not in pages or not mark or len(mark) > 4:
                continue
            found = _element(changed.get(other) or pages[other], link["id"])
            if found is None or not _is_note(link["rest"], found[2], name):
                continue
            start, end, element = found
            there = changed.get(other) or pages[other]
            changed[other] = there[:start] + there[end:]
            count += 1
            inner = re.sub(
                rf"<a\b[^<>]*{re.escape(posixpath.basename(name))}#[^<>]*>.*?</a>", "", element, flags=re.DOTALL
            )
            inner = re.sub(r"\A<\w+[^<>]*>|</\w+>\Z", "", inner)
            taken.append(f'<aside epub:type="footnote" id="lmm-note-{count}"><div>{inner}</div></aside>')
            kept += [page[at : link.start()], f'<a epub:type="noteref" href="#lmm-note-{count}">{mark}</a>']
            at = link.end()
        if taken:
            page = "".join([*kept, page[at:]])
            page = re.sub(r"<sup>\s*(<a epub:type=\"noteref\"[^<>]*>[^<>]*</a>)\s*</sup>", r"\1", page)
            changed[name] = page.replace("</body>", f"{''.join(taken)}</body>", 1)
    return changed


def _element(page: str, id: str) -> tuple[int, int, str] | None:
    """Return the place and the source of the paragraph, item or box with an id."""
    opening = re.search(rf"<(li|p|aside|div|dd)\b[^<>]*\bid=\"{re.escape(id)}\"[^<>]*>", page)
    if opening is None:
        return None
    depth = 0
    for tag in re.finditer(rf"<(/?){opening[1]}\b[^<>]*>", page[opening.start() : opening.start() + 50_000]):
        depth += -1 if tag[1] else 0 if tag[0].endswith("/>") else 1
        if depth == 0:
            end = opening.start() + tag.end()
            return opening.start(), end, page[opening.start() : end]
    return None


def _is_note(link: str, element: str, page: str) -> bool:
    """Return whether a link and the element it leads to say that this is a note, or the element leads back."""
    return (
        bool(_NOTE_TYPE.search(link) or _NOTE_TYPE.search(element[:300])) or f"{posixpath.basename(page)}#" in element
    )
