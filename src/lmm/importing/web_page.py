"""What of a web page is the document: its main part, without what serves the browser."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from lmm.importing.elements import HEADINGS, MarkupElement, Node, element, find, rewrite, tags, text_of, walk, words_of
from lmm.importing.formulas import to_tex
from lmm.importing.main_text import part_with

_DROPPED = tags(
    "head script style template noscript nav button select textarea dialog iframe object embed canvas audio video "
    "svg link meta base frameset frame applet datalist progress meter"
)
_DROPPED_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "dialog", "alertdialog", "menu"})
_ANCHOR_CLASSES = frozenset({"headerlink", "anchor-link", "anchor", "anchorjs-link", "header-anchor"})
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_AUTHOR = ("citation_author", "author", "dcterms.creator", "dc.creator", "article:author")
_DATE = ("citation_publication_date", "dcterms.date", "dc.date", "date", "article:published_time", "datepublished")
_DAY = re.compile(r"\d{4}(?:[-/]\d\d(?:[-/]\d\d)?)?(?!\d)")
_MOST_LINKS = 20_000
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|/|#|\?)")
# TeX between the marks that MathJax and KaTeX look for in text.
_TEX = re.compile(r"\\\((?P<inline>.+?)\\\)|\\\[(?P<display>.+?)\\\]|\$\$(?P<dollars>[^$]+?)\$\$", re.DOTALL)
_CODE_BOX = re.compile(r"\bhighlight-(?:source-)?([\w+#.-]+)")
_LITERAL = frozenset({"pre", "code", "math", "script", "style", "textarea", "kbd", "samp", "tt"})


@dataclass(frozen=True, slots=True)
class WebPage:
    """The document in a page, what it calls itself and its language, and what was left out.

    `values` are its authors and its date, where it names them.
    """

    body: MarkupElement
    title: str
    language: str
    notes: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)


def read_page(root: MarkupElement, *, prefix: str = "", main_text: str = "") -> WebPage:
    """The document in a page; relative links get `prefix` before them, which leads to the page's folder.

    With the page's URL for a prefix, they become whole URLs. What does not hold the `main_text` is left out, if one is
    known.

    >>> page = read_page(element("html", element("body", element("nav", "Home"), element("main", "Text."))))
    >>> text_of(page.body)
    'Text.'
    """
    title = next((words_of(node) for node in find(root, "title")), "")
    prefix = _with_base(prefix, root) if "://" in prefix else prefix
    body = next((node for node in find(root, "body")), root)
    main, notes = _main(body)
    formulas = with_marked_formulas(main)
    drawings = sum(1 for node in find(formulas, "svg") if words_of(node) or len(list(node.elements)) > 2)
    if drawings:
        notes += (f"left out: {drawings} drawing{'s' * (drawings > 1)} (SVG)",)
    clean = rewrite(formulas, _cleaner(prefix, title))
    part = part_with(clean, main_text) if main_text else clean
    if part is not clean:
        around = len(words_of(clean)) - len(words_of(part))
        notes += (f"left out: {around:,} characters around the text that trafilatura takes for the main one",)
    return WebPage(part, title, root.get("lang") or root.get("xml:lang"), notes, _values(root))


def _values(root: MarkupElement) -> dict[str, Any]:
    """Authors and date of a page, as its head names them."""
    named: dict[str, list[str]] = {}
    for meta in find(root, "meta"):
        name = (meta.get("name") or meta.get("property") or meta.get("itemprop")).lower()
        content = " ".join(meta.get("content").split())
        if content and len(content) < 200:
            named.setdefault(name, []).append(content)
    authors = next((named[name] for name in _AUTHOR if name in named), [])
    authors = [author for author in dict.fromkeys(authors) if "://" not in author][:20]
    dates = (match[0] for name in _DATE for text in named.get(name, []) if (match := _DAY.match(text)))
    values = {"author": authors if len(authors) > 1 else "".join(authors), "date": next(dates, "")}
    return {key: value for key, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Where a page on the web leads: `follows`, those of its navigation first, and the `next` one to be read.

    If it is not `listed`, it says to be no page of its own, as one with all others in it to be printed.
    """

    follows: tuple[str, ...] = ()
    next: str = ""
    listed: bool = True


def links_of(root: MarkupElement, url: str) -> PageLinks:
    """Where a page at `url` leads, as far as it wants programs to follow it."""
    metas = (meta.get("content") for meta in find(root, "meta") if meta.get("name").lower() == "robots")
    robots = frozenset(re.findall(r"\w+", " ".join(metas).lower()))
    if robots & {"nofollow", "none"}:
        return PageLinks(listed=not robots & {"noindex", "none"})
    base = _with_base(url, root)
    navigation = (node for node in walk(root) if node.tag == "nav" or node.get("role") == "navigation")
    parts = (*navigation, root)
    links = (link for part in parts for link in find(part, "a", "link") if link.get("href"))
    found = islice(((link, _joined(base, link.get("href").strip())) for link in links), _MOST_LINKS)
    online = [(link, address) for link, address in found if address.startswith(("http:", "https:"))]
    next_ = next((address for link, address in online if "next" in link.get("rel").lower().split()), "")
    follows = [next_, *(address for link, address in online if link.tag == "a")]
    return PageLinks(tuple(filter(None, dict.fromkeys(follows))), next_, "noindex" not in robots)


def _main(body: MarkupElement) -> tuple[MarkupElement, tuple[str, ...]]:
    """The main part of a page, if the page says which one that is, and a note of what is not in it."""
    mains = [node for node in find(body, "main") if not _is_hidden(node)]
    mains = mains or [node for node in find(body, "div", "section") if node.get("role") == "main"]
    mains = mains or list(find(body, "article"))
    if len(mains) != 1:
        return body, ()
    inside, all_text = (
        len(words_of(rewrite(part, lambda node: [] if _is_dropped(node) else [node]))) for part in (mains[0], body)
    )
    if all_text - inside < 200 or inside * 20 < all_text:
        return (mains[0], ()) if inside * 20 >= all_text else (body, ())
    return mains[0], (f"left out: {all_text - inside:,} characters outside the page's main part",)


def _is_dropped(node: MarkupElement) -> bool:
    if node.tag in _DROPPED and not node.get("type").startswith("math/"):
        return True
    return node.get("role") in _DROPPED_ROLES or _is_hidden(node)


def _is_hidden(node: MarkupElement) -> bool:
    hidden = "hidden" in node.attributes and node.get("hidden") != "until-found"
    return hidden or node.get("aria-hidden") == "true" or _HIDDEN.search(node.get("style")) is not None


def _cleaner(prefix: str, title: str) -> Callable[[MarkupElement], Iterable[Node]]:
    def clean(node: MarkupElement) -> Iterable[Node]:
        if node.tag == "script" and node.get("type").startswith("math/tex"):
            return [element("math", text_of(node), display="block" if "display" in node.get("type") else "inline")]
        if node.tag == "math":
            return _formula(node)
        if _is_dropped(node) or (node.tag == "a" and _ANCHOR_CLASSES & node.classes):
            return []
        if node.get("id") == "title-block-header":  # Pandoc's: the header of the document says it again
            return _without_title(node, title)
        if _is_bare_tex(node):
            return [element("math", text_of(node), display="block" if "display" in node.classes else "inline")]
        if "mwe-math-element" in node.classes or "katex" in node.classes or node.tag == "mjx-container":
            formulas = list(find(node, "math"))
            return formulas[:1] or [node]
        node = _with_place(node)
        if prefix and node.tag in ("a", "img"):
            return [_relinked(node, prefix)]
        return [_named_code(node) if node.tag == "div" and node.get("class") else _lazy(node)]

    return clean


def _with_place(node: MarkupElement) -> MarkupElement:
    """A heading that does not link to itself; a section whose heading has the id by which others link to it."""
    if node.tag in HEADINGS:
        return replace(node, children=tuple(part for child in node.children for part in _unlinked(child, node)))
    first = next(node.elements, None) if node.tag in ("section", "div") and node.get("id") else None
    if first is None or first.tag not in HEADINGS or first.get("id"):
        return node
    named = replace(first, attributes={**first.attributes, "id": node.get("id")})
    return replace(node, children=tuple(named if child is first else child for child in node.children))


def _unlinked(child: Node, heading: MarkupElement) -> Iterable[Node]:
    if isinstance(child, str) or child.tag != "a" or not child.get("href").startswith("#"):
        return [child]
    return child.children if child.get("href")[1:] in (heading.get("id"), child.get("id")) else [child]


def _is_bare_tex(node: MarkupElement) -> bool:
    """Whether this is TeX without marks around it, as Pandoc writes it for KaTeX."""
    named = "math" in node.classes and bool(node.classes & {"inline", "display"})
    return named and node.tag == "span" and not any(node.elements) and bool(words_of(node))


def _formula(node: MarkupElement) -> Iterable[Node]:
    """MathML as TeX; what was made here already stays."""
    if not any(node.elements):
        return [node]
    tex = to_tex(node)
    display = "block" if node.get("display") == "block" else "inline"
    return [element("math", tex, display=display)] if tex else []


def _without_title(header: MarkupElement, title: str) -> Iterable[Node]:
    kept = [c for c in header.children if not (isinstance(c, MarkupElement) and c.tag == "h1" and words_of(c) == title)]
    return [replace(header, children=tuple(kept))]


def _named_code(node: MarkupElement) -> MarkupElement:
    """A box around code that names its language, as GitHub and Sphinx write it: the code says it itself then."""
    named = _CODE_BOX.search(node.get("class"))
    if named is None or named[1] in ("default", "none", "text"):
        return node

    def change(inner: MarkupElement) -> Iterable[Node]:
        return [replace(inner, attributes={"class": f"language-{named[1]}"}) if inner.tag == "pre" else inner]

    return rewrite(node, change)


def _lazy(node: MarkupElement) -> MarkupElement:
    """An image that a script would have loaded has its address elsewhere."""
    later = node.get("data-src") or node.get("data-original")
    if node.tag == "img" and later and (not node.get("src") or node.get("src").startswith("data:")):
        return replace(node, attributes={**node.attributes, "src": later})
    return node


def _relinked(node: MarkupElement, prefix: str) -> MarkupElement:
    node = _lazy(node)
    name = "href" if node.tag == "a" else "src"
    address = node.get(name).strip()
    if address and "://" in prefix:
        whole = address if address.startswith(("#", "data:")) else _joined(prefix, address)
        return replace(node, attributes={**node.attributes, name: whole})
    if not address or _ABSOLUTE.match(address):
        return node
    path, mark, rest = re.match(r"([^?#]*)([?#]?)(.*)", address, re.DOTALL).groups()  # type: ignore[union-attr]
    return replace(node, attributes={**node.attributes, name: posixpath.normpath(f"{prefix}/{path}") + mark + rest})


def _with_base(url: str, root: MarkupElement) -> str:
    """What the links of a page are relative to, if it says so itself."""
    base = next((node.get("href") for node in find(root, "base") if node.get("href")), "")
    return _joined(url, base)


def _joined(url: str, address: str) -> str:
    try:
        return urljoin(url, address)
    except ValueError:  # no URL at all
        return address


def with_marked_formulas(node: MarkupElement) -> MarkupElement:
    """Text with ``\\(…\\)``, ``\\[…\\]`` or ``$$…$$`` in it, as formulas; not in code."""
    if node.tag in _LITERAL:
        return node
    children: list[Node] = []
    for child in node.children:
        if isinstance(child, MarkupElement):
            children.append(with_marked_formulas(child))
        else:
            children += _split_formulas(child)
    return replace(node, children=tuple(children))


def _split_formulas(text: str) -> Iterable[Node]:
    at = 0
    for match in _TEX.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        kind = "inline" if match["inline"] else "block"
        yield element("math", match["inline"] or match["display"] or match["dollars"], display=kind)
        at = match.end()
    if text[at:]:
        yield text[at:]
