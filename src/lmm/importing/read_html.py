"""Reading web pages: the main part, without scripts and navigation, as HTML for Pandoc. Nothing is fetched here.

Pages are parsed as in browsers (by selectolax, which is Lexbor), and changed in place.
"""

from __future__ import annotations

import base64
import codecs
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urljoin

from lmm.errors import FileReadError
from lmm.importing.elements import HARM, tags
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage, first_title
from lmm.importing.markdown_text import plain
from lmm.importing.pandoc import convert_html
from lmm.markdown.inline import SCHEME

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DROPPED = """head, script:not([type^='math/']), style, template, noscript, nav, button, select, textarea, dialog,
    iframe, object, embed, canvas, audio, video, svg, link, meta, base, frameset, frame, applet, datalist, progress,
    meter, [role=navigation], [role=search], [role=banner], [role=contentinfo], [role=dialog], [role=alertdialog],
    [role=menu], [hidden]:not([hidden=until-found]), [aria-hidden=true], [style*='display:none' i],
    [style*='display: none' i], [style*='visibility:hidden' i], [style*='visibility: hidden' i],
    rp, img[width='1'][height='1'], img[width='0'], .mw-cite-backlink, a.headerlink:not(:is(h1, h2, h3, h4, h5, h6) a),
    .table-of-contents, div[class*='language-'] > .lang, pre :is(.linenos, .lineno, .hljs-ln-numbers), pre.chroma .ln"""
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)", re.I)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)([^<>]*)")
_SPAN = re.compile(r"(?:col|row)span\s*=\s*[\"']?\s*(\d{1,6})", re.IGNORECASE)
# Tags that are closed implicitly by a later one, so that many open ones in a row are not nested.
_CLOSED_BY_OTHERS = tags(
    "p li dt dd tr td th tbody thead tfoot option optgroup colgroup a area base br col embed hr img input "
    "link meta param source track wbr html head body"
)
MAX_OPEN = 2_000
_MAX_DEPTH = 150  # deeper trees are attacks, or text in which nothing was ever closed
_MAX_SPAN = 200
_MAX_CELLS = 1_000_000
_AUTHOR = ("citation_author", "author", "dcterms.creator", "dc.creator", "article:author")
_DATE = ("citation_publication_date", "dcterms.date", "dc.date", "date", "article:published_time", "datepublished")
_DAY = re.compile(r"\d{4}(?:[-/]\d\d(?:[-/]\d\d)?)?(?!\d)")
_LITERAL = tags("pre code math script style textarea kbd samp tt")
_LANGUAGE = re.compile(r"(?:language|lang|brush|highlight-source|highlight)[-:]\s*([\w+#.-]+)")
_NO_LANGUAGE = tags(
    "default none text plaintext plain notranslate highlight sourceCode example smallexample shiki verbatim screen "
    "programlisting literallayout code hljs chroma"
)
TEX_MARKS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"))
DOLLARS = (*TEX_MARKS, ("$", "$"))  # if a page configures its script so
_HOLDERS = tags("ol ul section aside div")
_HOLDERS_OF_BARS = tags("article main section aside blockquote figure header footer")
_SCHEMES = tuple(f"{name}:" for name in ("http", "https", "ftp", "mailto", "doi", "tel", "file", "data"))
_NOTE_MARKS = str.maketrans("*†‡§¶_", "xxxxxx")


def read(data: bytes, context: Context) -> Imported:
    """Convert an HTML page to markdown.

    Raises:
        FileReadError: there is no text in it.
    """
    images: list[ImportedImage] = []
    page = read_page(with_scripts(decode_html(data)), images, prefix=context.prefix, online=context.online)
    if page is None:
        hint = "pages made by scripts are empty files: save it from the browser as 'complete', or print it to PDF"
        raise FileReadError("there is no text in this page", hint=hint)
    document = convert_html(page.body, context)
    first = first_title(document.body)
    title = first if first and first in page.title else page.title  # without the name of the site
    notes = page.notes + document.notes
    return replace(page, body=document.body, title=title, images=tuple(images), notes=notes)


def decode_html(data: bytes) -> str:
    """Decode a page in the encoding that it names, else in UTF-8, else in cp1252, that of old Windows pages.

    >>> decode_html("<meta charset=latin1>é".encode("latin1"))
    '<meta charset=latin1>é'
    """
    if marked := next((encoding for mark, encoding in _BOMS if data.startswith(mark)), ""):
        return data.decode(marked, "replace")
    named = _CHARSET.search(data[:4096])
    if named is not None:
        try:
            return data.decode(codec_of((named[1] or named[2]).decode("ascii", "replace").lower()))
        except (LookupError, UnicodeDecodeError):
            pass  # the name is wrong
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def codec_of(charset: str) -> str:
    """Return Python's name of an encoding named by a page or its server, interpreted as in browsers."""
    return "cp1252" if charset in ("iso-8859-1", "latin1", "ascii", "us-ascii") else charset


def read_page(
    text: str, images: list[ImportedImage], *, prefix: str = "", online: bool = False, dollars: bool = False
) -> Imported | None:
    """Extract the document from a page, its body still in HTML, or None if it is empty.

    Images in ``data:`` URLs are added to `images`. With `dollars`, formulas may be between single dollars, as in pages
    that configure their script so. If `prefix` is the page's URL, links become absolute. If the page is `online`, its
    pictures are replaced by numbers.

    Raises:
        FileReadError: it is nested too deeply, or has too many table cells.

    >>> read_page("<nav>Home</nav><main>Text.</main>", []).body
    '<main>Text.</main>'
    """
    from selectolax.lexbor import LexborHTMLParser

    check_nesting(text, MAX_OPEN)
    parser = LexborHTMLParser(plain(text))
    root, body = parser.root, parser.body
    if root is None or body is None:
        return None
    bases = [_get(node, "href") for node in root.css("base[href]")]  # the page may set its own
    base = _joined(prefix, next(iter(bases), "")) if "://" in prefix else ""
    title = next((_words(node) for node in root.css("title")), "")
    language, values = _get(root, "lang") or _get(root, "xml:lang"), _values(root)
    drawn = sum(bool(_words(node)) or len(node.css("*")) > 3 for node in body.css("svg:not(mjx-container svg)"))
    _open_panels(body, parser)
    lost = _clean(body, title, parser)
    main, beside = _main(body)
    counts = ((drawn, "drawing(s) (SVG)"), (lost, "formula(s) of which the page has only a drawing"))
    notes = tuple(f"left out: {count} {what}" for count, what in counts if count)
    left_out = {"the page outside its main part": beside} if beside else {}
    _name_languages(main)
    _open_code_tables(main, parser)
    _mark_formulas(main, parser, DOLLARS if dollars or "inlineMath" in text else TEX_MARKS)
    _relink(main, base)
    _take_images(main, images, base, online=online)
    html = _with_footnotes(main)
    check_nesting(html)
    check_tables(html)
    if not _words(main) and main.css_first("img, math, script") is None:
        return None
    return Imported(html, title, language, notes=notes, values=values, left_out=left_out)


def _get(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "").strip()


def _words(node: LexborNode) -> str:
    return " ".join(node.text().split())


def check_nesting(text: str, most: int = _MAX_DEPTH, *, xhtml: bool = False) -> None:
    """Check that elements are not nested too deeply, or never closed, which would keep parsers busy. In XHTML any
    element may close itself (``<a id="x"/>``).

    Raises:
        FileReadError: they are.
    """
    depth = 0
    for match in _TAG.finditer(text):
        if match[2].lower() not in _CLOSED_BY_OTHERS and not (xhtml and match[3].endswith("/")):
            depth = max(0, depth - 1) if match[1] else depth + 1
            if depth > most:
                raise FileReadError(f"more than {most:,} elements are open at once", hint=HARM)


def check_tables(text: str) -> None:
    """Check that the cells of tables do not span more than any ordinary table.

    Raises:
        FileReadError: they do.
    """
    spans = (map(int, _SPAN.findall(match[3])) for match in _TAG.finditer(text))
    if sum(map(math.prod, spans)) > _MAX_CELLS:
        raise FileReadError(f"its tables have more than {_MAX_CELLS:,} cells", hint=HARM)


_STYLED = re.compile(r"<span\b(?P<rest>[^<>]*)>(?P<inner>[^<>]*)</span\s*>", re.IGNORECASE)
_CLASS = re.compile(r"\.([\w-]+)\s*\{([^{}]*)\}")


def with_scripts(page: str, styles: str = "") -> str:
    """Return a page with spans that a style raises or lowers as superscripts and subscripts; `styles` are those of its
    book, besides its own. Spans that these hide are taken out.

    >>> with_scripts("<style>.c1{vertical-align:super}</style>10<span class='c1'>6</span>").rpartition(">10")[2]
    '<sup>6</sup>'
    """
    # On pages of the web, scripts may show what styles hide.
    hidden = {name for name, body in _CLASS.findall(styles) if re.search(r"display:\s*none", body)} | {"linenos"}
    styles += "\n".join(re.split(r"</?style\b[^<>]*>", page, flags=re.IGNORECASE)[1::2])
    kinds = {name: kind for name, body in _CLASS.findall(styles) if (kind := _script(body))}

    def shown(span: re.Match[str]) -> str:
        words = re.split(r"[\s\"'=]+", span["rest"])
        kind = _script(span["rest"]) or next((kinds[word] for word in words if word in kinds), "")
        if not hidden.isdisjoint(words):
            return ""
        return f"<{kind}>{span['inner']}</{kind}>" if kind else span[0]

    return _STYLED.sub(shown, page)


def _script(style: str) -> str:
    """Return the tag for text with a style: ``sup``, ``sub`` or none."""
    if aligned := re.search(r"vertical-align:\s*(?:(super)|sub)\b", style):
        return "sup" if aligned[1] else "sub"
    moved = re.search(r"(?<![\w-])top:\s*(-?)[\d.]+em", style) if "relative" in style and "font-size" in style else None
    return "" if moved is None else "sup" if moved[1] else "sub"


# -- metadata of a page ------------------------------------------------------------------------------------


def _joined(url: str, address: str) -> str:
    try:
        return urljoin(url, address)
    except ValueError:  # not a URL
        return address


def _values(root: LexborNode) -> dict[str, Any]:
    """Return the authors and the date of a page, from its head."""
    named: dict[str, list[str]] = {}
    for meta in root.css("meta"):
        name = (_get(meta, "name") or _get(meta, "property") or _get(meta, "itemprop")).lower()
        content = " ".join(_get(meta, "content").split())
        if content and len(content) < 200:
            named.setdefault(name, []).append(content)
    authors = next((named[name] for name in _AUTHOR if name in named), [])
    authors = [author for author in dict.fromkeys(authors) if "://" not in author][:20]
    dates = (match[0] for name in _DATE for text in named.get(name, []) if (match := _DAY.match(text)))
    values = {"author": authors if len(authors) > 1 else "".join(authors), "date": next(dates, "")}
    return {key: value for key, value in values.items() if value}


# -- content of a page -------------------------------------------------------------------------------------


def _clean(body: LexborNode, title: str, parser: LexborHTMLParser) -> int:
    """Remove scripts, navigation and the like, and the title if Pandoc or knitr repeats it; return the number of
    formulas that are only drawn."""
    lost = 0
    for node in body.css(".katex, .mwe-math-element, mjx-container"):
        formula, named = node.css_first("math"), node.css_first("[data-latex]")  # as MathJax 4 writes it
        if formula is None and named is not None:
            formula = _formula(parser, _get(named, "data-latex"), is_display="display" in node.attributes)
        if formula is not None:
            node.replace_with(formula)
        lost += formula is None and node.css_first("img") is None
    # MathJax 2 leaves the formula, and what it made of it.
    is_set = body.css_first("script[type^='math/tex']") is not None
    for node in body.css(":is(.MathJax, .MathJax_Preview, .MathJax_SVG, .MathJax_CHTML)") if is_set else ():
        node.decompose()
    for node in (*body.css(_DROPPED), *(h for h in body.css("#title-block-header h1") if _words(h) == title)):
        if node.tag != "body":
            node.decompose()
    for box in body.css("li input[type=checkbox]"):
        box.replace_with("☒ " if "checked" in box.attributes else "☐ ")
    for reading in body.css("rt"):
        reading.insert_before(" (")
        reading.insert_after(")")
    for cell in body.css("[colspan], [rowspan]"):
        for name in ("colspan", "rowspan"):
            digits = re.match(r"\d{1,6}", _get(cell, name))
            cell.attrs[name] = str(max(1, min(int(digits[0]), _MAX_SPAN)) if digits else 1)
    return lost


_PANELS = """:is([role=tabpanel], .tab-pane, .tabcontent, .tab-content > div, .tabbed-block, .sd-tab-content, .collapse,
    .accordion-collapse, .accordion-body, .accordion-content)"""

# Buttons that are text. (A name that is not a tag has no effect within :is.)
_NAMES = ":is(h1, h2, h3, h4, h5, h6, dt, summary) button, [role=tablist] button, .accordion-header > button"


def _open_panels(body: LexborNode, parser: LexborHTMLParser) -> None:
    """Open tab panels and accordions that only a click would show, each panel under the name of its tab."""
    buttons = body.css("[role=tab], h2 button, h3 button, h4 button")
    controlled = {_get(node, "aria-controls") for node in buttons} - {""}
    panels = body.css(_PANELS)
    panels += [node for node in body.css("[id]") if _get(node, "id") in controlled and node not in panels]
    for panel in panels:
        for name in ("hidden", "aria-hidden", "style"):
            if name in panel.attributes:
                del panel.attrs[name]
    for tabs in body.css("[role=tablist], .tabbed-labels, .vp-code-group > .tabs"):
        names = tabs.css("[role=tab]") or tabs.css("label")
        ids, below = {_get(name, "aria-controls") for name in names} - {""}, tabs.next
        while below is not None and not below.is_element_node:
            below = below.next
        own = [panel for panel in panels if _get(panel, "id") in ids] if len(ids) == len(names) else []
        if len(own) != len(names):
            own = below.css(":is([role=tabpanel], .tabbed-block, .tab-pane, .blocks > div)") if below else []
        if names and len(own) == len(names):
            for tab, panel in zip(names, own, strict=True):
                _put_name(_words(tab), panel, parser)
            tabs.decompose()
    for button in body.css(_NAMES):
        button.unwrap()


def _main(body: LexborNode) -> tuple[LexborNode, str]:
    """Return the main part of a page, if the page marks one, and the text of the rest."""
    mains = next(filter(None, map(body.css, ("main", "[role=main]", "article"))), [])
    if len(mains) != 1 or len(_words(mains[0])) * 20 < len(_words(body)):
        bars = [bar for bar in body.css("header:not(:has(h1)), footer:not(:has(li[id]))")
                if _HOLDERS_OF_BARS.isdisjoint(outer.tag for outer in _around(bar))]  # fmt: skip
        texts = " ".join(map(_words, bars))
        for bar in bars:
            bar.decompose()
        return body, texts
    inner = [mains[0].mem_id, *(part.mem_id for part in _around(mains[0]))]
    beside = (node for part in _around(mains[0]) for node in part.iter(include_text=True) if node.mem_id not in inner)
    return mains[0], " ".join(" ".join(node.text(separator=" ") for node in beside).split())


def _name_languages(main: LexborNode) -> None:
    """Set the class of code blocks to their language only; put each line that is an element on its own line."""
    for part in main.css("code *:not(math, math *, img, br)"):
        part.unwrap()  # else the code would be in pieces
    for pre in main.css("pre"):
        language = _language(pre)
        for part in (pre, *pre.css("code")):
            for name in ("class", "data-lang", "data-language"):
                if name in part.attributes:
                    del part.attrs[name]
        if language:
            pre.attrs["class"] = language
        for line in pre.css("code + code, div + div, li + li, p + p"):
            before = line.prev
            if before is not None and before.is_element_node and not before.text().endswith("\n"):
                line.insert_before("\n")


def _open_code_tables(main: LexborNode, parser: LexborHTMLParser) -> None:
    """Replace tables of line numbers and code by the code, below the name of its file."""
    for table in main.css("table:has(td.blob-code)"):  # a row for each line
        pre = parser.create_node("pre")
        pre.insert_child("\n".join(cell.text() for cell in table.css("td.blob-code")))
        table.replace_with(pre)
    for table in main.css("table:has(pre)"):
        cells = table.css("td")
        if len(cells) == 2 and re.fullmatch(r"[\d\s]*", cells[0].text()) and (code := cells[1].css_first("pre")):
            for name in table.css("th.filename"):
                _put_name(_words(name), table, parser)
            table.replace_with(code)


def _put_name(name: str, node: LexborNode, parser: LexborHTMLParser) -> None:
    paragraph, strong = parser.create_node("p"), parser.create_node("strong")
    strong.insert_child(name)
    paragraph.insert_child(strong)
    node.insert_before(paragraph)


def _around(node: LexborNode) -> Iterator[LexborNode]:
    while (parent := node.parent) is not None:
        yield (node := parent)


def _language(pre: LexborNode) -> str:
    """Return the language named by the classes of a code block, or of a box around it, as common highlighters do."""
    codes = pre.css("code")
    candidates: list[str] = []
    for part in (pre, *(codes if len(codes) == 1 else ()), *islice(_around(pre), 2)):
        words = _get(part, "class")
        named = _LANGUAGE.search(words)
        candidates += [named[1]] if named else []
        if part.tag in ("pre", "code") or "sourceCode" in words.split():  # Pandoc, knitr, rustdoc: the class is it
            candidates += [word for word in words.split() if "-" not in word]
        if part.tag in ("pre", "code"):
            candidates += [_get(part, "data-lang"), _get(part, "data-language")]
    return next((word for word in candidates if word and word not in _NO_LANGUAGE), "")


def _mark_formulas(main: LexborNode, parser: LexborHTMLParser, marks: Sequence[tuple[str, str]]) -> None:
    """Replace TeX between marks, or without any as Pandoc writes it for KaTeX, by elements that Pandoc recognises."""
    for node in main.css("span.math.inline, span.math.display"):
        only = node.first_child
        is_bare = not node.text().strip().startswith(("\\(", "\\["))
        if only is not None and only.is_text_node and only.next is None and is_bare:
            node.replace_with(_formula(parser, node.text(), is_display="display" in _get(node, "class").split()))
    for node in [node for node in main.traverse(include_text=True) if node.is_text_node]:
        text = node.text_content or ""
        if ("\\" not in text and "$" not in text) or any(part.tag in _LITERAL for part in _around(node)):
            continue
        at = 0
        for start, end, tex, mark in find_tex(text, marks):
            node.insert_before(text[at:start])
            node.insert_before(_formula(parser, tex, is_display=mark in ("\\[", "$$")))
            at = end
        if at:
            node.replace_with(text[at:])


def find_tex(text: str, marks: Sequence[tuple[str, str]] = TEX_MARKS) -> Iterator[tuple[int, int, str, str]]:
    """Iterate over formulas in a text: start, end, TeX, and opening mark of each; in linear time.

    >>> [tex for _, _, tex, _ in find_tex("\\\\(a\\\\) costs $5 and $6, $$b$$")]
    ['a', 'b']
    >>> [tex for _, _, tex, _ in find_tex("$x$ costs $5 and $6", DOLLARS)]
    ['x']
    """
    closing = dict(marks)
    opening = re.compile("|".join(map(re.escape, closing)))
    at = 0
    while closing and (found := opening.search(text, at)) is not None:
        mark, start = found[0], found.end()
        at, end = start, text.find(closing[mark], start) if mark in closing else -1
        if end < 0:
            closing.pop(mark, None)  # no other mark of its kind is closed either
            continue
        tex, behind = text[start:end], end + len(closing[mark])
        is_price = mark == "$" and (tex != tex.strip() or text[behind : behind + 1].isdigit())
        if not is_price and "$" not in tex:
            at = behind
            if tex.strip():
                yield found.start(), at, tex, mark


def _formula(parser: LexborHTMLParser, tex: str, *, is_display: bool) -> LexborNode:
    script = parser.create_node("script")
    script.attrs["type"] = "math/tex; mode=display" if is_display else "math/tex"
    script.insert_child(tex.replace("</", "< /"))
    return script


def _relink(main: LexborNode, base: str) -> None:
    """Make links absolute, except those within the page; remove those that readers of markdown should not follow."""
    for link in main.css("a[href]"):
        address = _get(link, "href")
        if (SCHEME.match(address) or address[1:2] == ":") and not address.lower().startswith(_SCHEMES):
            del link.attrs["href"]
            continue
        if base and address and not address.startswith("#"):
            address = _joined(base, address)
        page, hashed, fragment = address.partition("#")
        link.attrs["href"] = f"#{fragment}" if hashed and base and page == base.partition("#")[0] else address


def _take_images(main: LexborNode, images: list[ImportedImage], base: str, *, online: bool) -> None:
    """Replace images that are in the page, or online, by numbers; lazily loaded ones have their URL elsewhere."""
    numbers: dict[str, int] = {}
    for node in main.css("img"):
        address, later = _get(node, "src"), _get(node, "data-src") or _get(node, "data-original")
        if later and (not address or address.startswith("data:")):
            address = later
        if not address.startswith("data:"):
            address = _joined(base, address) if base else address
        image = image_of(address)
        if online and address.startswith(("http:", "https:")):
            image = ImportedImage(b"", address)
        if image is not None:
            if address not in numbers:
                numbers[address] = len(images)
                images.append(image)
            address = f"{IMAGE}{numbers[address]}"
        if not address or address.startswith("data:"):
            node.decompose()
        else:
            node.attrs["src"] = address


def image_of(address: str) -> ImportedImage | None:
    """Return the image in a ``data:`` URL, or None if there is none that can be read.

    >>> image_of("data:image/gif;base64,R0lGODlh")
    ImportedImage(data=b'GIF89a')
    """
    kind, comma, text = address.strip().partition(",")
    if not comma or not kind.startswith("data:image/"):
        return None
    raw = unquote_to_bytes(text)
    try:
        return ImportedImage(base64.b64decode(raw) if ";base64" in kind else raw)
    except ValueError:
        return None


# -- footnotes of any program: a mark that links to a note, and a note that links back ------------------------


def _with_footnotes(main: LexborNode) -> str:
    """Return the page as HTML, with its footnotes in a form that Pandoc recognises."""
    for link in main.css("a[href^='#/']"):  # of reveal.js
        link.attrs["href"] = f"#{_get(link, 'href')[2:]}"
    notes = {_get(note, "id"): note for note in main.css("li[id], aside[id], p[id], div[id], dd[id]")}
    for link in main.css(
        "a[name][href^='#']"
    ):  # of LibreOffice and Word: a mark leads to the mark that begins the note
        link.attrs["id"] = _get(link, "id") or _get(link, "name")
        box: LexborNode | None = link
        for outer in islice(_around(link), 3):
            before = box.prev if box is not None else None
            if outer.tag not in ("p", "div") or (
                before is not None and (before.prev or (before.text_content or "").strip())
            ):
                break
            box = outer
        if box is not None and box is not link:
            notes[_get(link, "id")] = box
    back = {id: {_get(link, "href") for link in note.css("a[href^='#']")} for id, note in notes.items()}
    called, marks, taken = dict[str, str](), set[str](), set[str]()
    for link in main.css("a[href^='#']"):
        id, box = _get(link, "href")[1:], link.parent
        box = box if box is not None and box.tag in ("sup", "span") else link  # which may have the id instead
        own = {f"#{_get(node, 'id')}" for node in (link, box) if _get(node, "id")}
        mark = _words(link).strip("[]()")
        is_mark = len(mark) <= 4 and mark.translate(_NOTE_MARKS).isalnum() and own.isdisjoint(taken)
        if is_mark and own & back.get(id, set()):
            link.attrs["href"] = f"#{called.setdefault(id, f'lmm-note-{len(called)}')}"
            link.attrs["role"] = "doc-noteref"
            taken.add(f"#{id}")
            marks |= own
            if box.tag == "sup":
                box.unwrap()
    written = [f'<li id="{name}">{_take_note(notes[id], marks)}</li>' for id, name in called.items()]
    return (main.html or "") + f'<section role="doc-endnotes"><ol>{"".join(written)}</ol></section>' * bool(written)


def _take_note(note: LexborNode, marks: set[str]) -> str:
    """Remove a note from the page, with its parents if they become empty; return it without number and back links."""
    for node in note.css("a[href^='#'], .label"):
        if node.tag != "a" or _get(node, "href") in marks:
            node.decompose()
    html, box = note.inner_html or "", note.parent
    note.decompose()
    while box is not None and box.tag in _HOLDERS and box.css_first("img, math") is None:
        title = box.css_first("h2, h3")
        if _words(box) not in ("", _words(title) if title is not None and box.tag == "section" else ""):
            break
        empty, box = box, box.parent
        empty.decompose()
    return html
