"""Reading PDF files with PDFium: by their tags if they have any, else by the layout of the pages.

Formulas become their characters, fractions ``a/b``; drawings are left out: a PDF does not say what they mean.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from lmm.disk import digest
from lmm.errors import FileReadError
from lmm.importing.elements import HEADINGS, MarkupElement, Node, element, page_mark, text_of, to_html, words_of
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage, given_title
from lmm.importing.pandoc import convert_html
from lmm.importing.pdf_drawn import with_bullets, with_fractions
from lmm.importing.pdf_layout import (
    Look,
    code_lines,
    elements_of_layout,
    heading_level,
    inline_nodes,
    look_of,
    make_segment,
    numbering,
    segments_of,
    title_of_layout,
)
from lmm.importing.pdf_page import Char, PdfPage, PdfTag, in_reading_order, read_page, wide

MAX_PAGES = 5_000
_MAX_PIXELS = 60_000_000
_MAX_IMAGE_BYTES = 500_000_000
_MIN_SIDE = 16  # points: smaller ones are symbols, not pictures
_OCR = "recognise the text first, for example: ocrmypdf IN.pdf OUT.pdf"
# PDF 32000-1, 14.8.4: our element for each type; None for mere groups, "" for content that is not shown.
_TYPES: dict[str, str | None] = {
    **{f"H{level}": f"h{level}" for level in range(1, 7)},
    **{"Title": "h1", "H": "h2", "P": "p", "L": "ul", "LI": "li", "LBody": "div", "Table": "table", "TR": "tr"},
    **{"TH": "th", "TD": "td", "THead": "thead", "TBody": "tbody", "TFoot": "tfoot", "Caption": "caption"},
    **{"BlockQuote": "blockquote", "Note": "p", "FENote": "p", "Index": "div", "TOC": "ul", "TOCI": "li"},
    **{"Artifact": "", "Lbl": "", "Form": ""},
}
_TITLES = frozenset({"H", "Title", *(f"H{level}" for level in range(1, 7))})
_STRUCTURE = _TITLES | {"Table", "L", "Code"}
_PLAIN = frozenset({"th", *(f"h{level}" for level in range(1, 7))})
_FORMATS = {"Em": "italic", "Strong": "bold", "Code": "mono"}
_COVERED = 0.7
_INLINE_PARENTS = {"P", "LI", "LBody", "TD", "TH", "Caption", "Span", "Link", "Note", *(f"H{n}" for n in range(1, 7))}


def read(data: bytes, context: Context) -> Imported:
    """Convert a PDF to markdown.

    Raises:
        FileReadError: it is not a PDF, is encrypted or damaged, or its pages are pictures.
    """
    import pypdfium2 as pdfium
    import pypdfium2.raw as c

    document = open_document(data)
    try:
        images = _Images()
        found = (read_page(document, number, images.keep) for number in range(len(document)))
        pages = [in_reading_order(with_fractions(with_bullets(page))) for page in found]
        metadata = document.get_metadata_dict()
        outline = list(_outline(document))
        language = wide(c.FPDFCatalog_GetLanguage, document)
    except pdfium.PdfiumError as error:
        raise FileReadError("this PDF is damaged", hint="qpdf can repair some: qpdf IN.pdf OUT.pdf") from error
    finally:
        document.close()
    notes = _check_text(pages)
    after = [*pages[1:], None]
    shown = [page for page, following in zip(pages, after, strict=True) if not _is_within(page, following)]
    look = look_of(shown, outline)
    if overlaid := [page for page in pages if page not in shown]:
        kind = f"pages whose text is on the next one, too ({_ranges([page.number for page in overlaid])})"
        for segment in (segment for page in overlaid for segment in segments_of(page.chars)):
            look.leave_out(kind, segment.text)
    written = convert_html(to_html(_body(shown, look)), context)
    title = given_title(str(metadata.get("Title") or "")) or title_of_layout(shown, look)
    notes += (f"left out: {images.too_large} image(s) that are too large",) * bool(images.too_large)
    left_out = {kind: "\n".join(texts) for kind, texts in look.left_out.items()}
    return replace(written, title=title, language=language, images=tuple(images.kept), notes=notes, left_out=left_out)


def _is_within(page: PdfPage, following: PdfPage | None) -> bool:
    """Return whether a page shows nothing that the following one does not show at the same places, too: slides that
    appear step by step are a page for each step."""
    if following is None or not page.chars:
        return False
    here, there = (
        {each.number for each in shown.pictures}
        | {(char.text, round(char.x0), round(char.base)) for char in shown.chars}
        for shown in (page, following)
    )
    return here <= there


def open_document(data: bytes) -> Any:
    """Open a PDF, with its form.

    Raises:
        FileReadError: it is not a PDF, is encrypted or damaged, or has too many pages.
    """
    import pypdfium2 as pdfium
    import pypdfium2.raw as c

    try:
        document = pdfium.PdfDocument(data)
        document.init_forms()
        pages = len(document)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == c.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            hint = "remove the password first: qpdf --decrypt --password=… IN.pdf OUT.pdf"
            raise FileReadError("the file is protected by a password", hint=hint) from error
        hint = "open it in a PDF viewer; if that works, print it to a new PDF"
        raise FileReadError("this is not a PDF file, or it is damaged", hint=hint) from error
    if pages > MAX_PAGES:
        document.close()
        hint = "split it, for example: qpdf IN.pdf --pages . 1-1000 -- OUT.pdf"
        raise FileReadError(f"it has {pages:,} pages; the limit is {MAX_PAGES:,}", hint=hint)
    return document


def _outline(document: Any) -> Iterator[tuple[int, str, int]]:
    for entry in islice(document.get_toc(max_depth=6), 20_000):
        page = dest.get_index() if (dest := entry.get_dest()) else None
        if page is not None:
            yield page + 1, entry.get_title(), entry.level + 1


def _check_text(pages: Sequence[PdfPage]) -> tuple[str, ...]:
    """Return notes about pages without text.

    Raises:
        FileReadError: no page has any, or its letters cannot be identified.
    """
    printed = {page.number: [char.text for char in page.chars if char.text.strip()] for page in pages}
    if not any(len(texts) > 3 for texts in printed.values()):
        raise FileReadError("there is no text in this PDF: its pages are pictures, as a scanner makes them", hint=_OCR)
    letters = [text for texts in printed.values() for text in texts]
    unknown = sum(text == "\ufffd" or "\ue000" <= text <= "\uf8ff" for text in letters)
    if unknown > 0.3 * len(letters):
        hint = "its fonts do not say; " + _OCR.replace("IN.pdf", "--force-ocr IN.pdf")
        raise FileReadError("its characters cannot be identified", hint=hint)
    empty = [page.number for page in pages if not printed[page.number] and page.pictures]
    return (f"pages without text, perhaps scanned: {_ranges(empty)}; {_OCR}",) if empty else ()


def _ranges(numbers: Sequence[int]) -> str:
    """Format numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    runs = (list(run) for _, run in groupby(enumerate(numbers), lambda each: each[1] - each[0]))
    return ", ".join(f"{run[0][1]}–{run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in runs)


# -- pages to one document -------------------------------------------------------------------------------


def _body(pages: Sequence[PdfPage], look: Look) -> MarkupElement:
    types = {tag.type for page in pages for root in page.tags for tag in _walk(root)}
    tagged = not types.isdisjoint(_STRUCTURE)  # else there are only paragraphs
    titled = not tagged or not types.isdisjoint(_TITLES)
    blocks: list[MarkupElement] = []
    places: list[tuple[int, int]] = []  # the first and the last page of each block
    for page in pages:
        use_tags = tagged and page.tags and covers(page)
        found = elements_of_tags(page, look, titled) if use_tags else elements_of_layout(page, look)
        if blocks and found and (joined := _joined(blocks[-1], found[0], look)) is not None:
            blocks[-1], found = joined, found[1:]
            places[-1] = (places[-1][0], page.number)
        blocks += found
        places += [(page.number, page.number)] * len(found)
    if not (tagged and titled):  # close gaps between heading levels, left by font sizes that turned out to be unused
        used = sorted({block.tag for block in blocks if block.tag in HEADINGS})
        tags = {tag: f"h{number}" for number, tag in enumerate(used, start=1)}
        blocks = [replace(block, tag=tags.get(block.tag, block.tag)) for block in blocks]
    marked: list[MarkupElement] = []
    for block, place, before in zip(blocks, places, [None, *places], strict=False):
        marks = [page_mark("p.", *place)] if place != before else []
        marked += [block, *marks] if block.tag in HEADINGS else [*marks, block]  # the mark of a page, below a heading
    notes = MarkupElement("section", {"role": "doc-endnotes"}, (MarkupElement("ol", {}, tuple(look.notes)),))
    return MarkupElement("body", {}, (*marked, *([notes] if look.notes else [])))


def _joined(before: MarkupElement, after: MarkupElement, look: Look) -> MarkupElement | None:
    """Join a block with its continuation on the next page; None if the second is not a continuation."""
    if before.tag != after.tag:
        return None
    if before.tag == "p":
        first, second = text_of(before).rstrip(), text_of(after).lstrip()
        if first[-1:] in '.!?:;”")' or not second[:1].islower():
            return None
        *children, last = before.children
        if not isinstance(last, str) or not isinstance(after.children[0], str):
            return MarkupElement("p", {}, (*before.children, " ", *after.children))
        joined = look.words.join(last.rstrip(), after.children[0].lstrip())
        return MarkupElement("p", {}, (*children, joined, *after.children[1:]))
    if before.tag == "table":
        return _joined_tables(before, after, look)
    if before.tag == "pre":
        return MarkupElement("pre", {}, (f"{text_of(before)}\n{text_of(after)}",))
    return None


def _joined_tables(before: MarkupElement, after: MarkupElement, look: Look) -> MarkupElement | None:
    """Join two tables with the same number of columns, without a repeated header; None if they do not match."""
    from_rows = [row for table in (before, after) for row in table.elements if row.tag in ("tr", "tbody", "thead")]
    widths = {len(list(row.elements)) for row in from_rows if row.tag == "tr"}
    if len(widths) != 1 or any(row.tag != "tr" for row in from_rows):
        return None
    rows = list(after.elements)
    head = next(before.elements)
    if words_of(rows[0]) == words_of(head):
        look.leave_out("repeated headers of tables", " ".join(map(words_of, rows.pop(0).elements)))
    elif any(cell.tag == "th" for cell in rows[0].elements):
        return None
    return MarkupElement("table", before.attributes, (*before.children, *rows))


# -- images ----------------------------------------------------------------------------------------------


class _Images:
    """Collects the images of a document, each once."""

    def __init__(self) -> None:
        self.kept: list[ImportedImage] = []
        self._known: dict[str, int] = {}
        self._bytes = self.too_large = 0

    def keep(self, item: Any, width: int, height: int) -> int | None:
        """Keep an image and return its number, or None if it is only a symbol, or too large."""
        if min(width, height) < _MIN_SIDE:
            return None
        pixels = item.get_px_size()
        if pixels[0] * pixels[1] > _MAX_PIXELS or self._bytes > _MAX_IMAGE_BYTES:
            self.too_large += 1
            return None
        image = _image(item)
        if image is None:
            return None
        known = digest(image.data)
        if known not in self._known:
            self._known[known] = len(self.kept)
            self._bytes += len(image.data)
            self.kept.append(image)
        return self._known[known]


def _image(item: Any) -> ImportedImage | None:
    """Return an image as it is in the file if it is a JPEG in RGB or grey, else as PNG."""
    import pypdfium2 as pdfium

    try:
        if item.get_filters() == ["DCTDecode"]:
            data = bytes(item.get_data(decode_simple=False))
            # Browsers show one or three components correctly, but not the inverted four used in printing.
            frame = re.search(rb"\xff[\xc0\xc1\xc2].{7}(.)", data[:65536], re.DOTALL)
            if data.startswith(b"\xff\xd8") and frame is not None and frame[1] in (b"\x01", b"\x03"):
                return ImportedImage(data)
        bitmap = item.get_bitmap(render=False)
    except (pdfium.PdfiumError, ValueError):
        return None
    if bitmap.mode not in ("L", "RGB", "RGBA", "BGR", "BGRA", "BGRX"):
        return None
    written = io.BytesIO()
    picture = bitmap.to_pil()
    (picture.convert("RGB") if picture.mode == "RGBX" else picture).save(written, "PNG")
    return ImportedImage(written.getvalue())


# -- tagged PDF ------------------------------------------------------------------------------------


def covers(page: PdfPage) -> bool:
    """Return whether the tags cover most of a page's text; the rest would be running heads and page numbers."""
    marks = {mark for root in page.tags for mark in _marks(root)}
    printed = [char for char in page.chars if char.text.strip()]
    return sum(char.mark in marks for char in printed) >= _COVERED * len(printed)


def elements_of_tags(page: PdfPage, look: Look, titled: bool) -> list[MarkupElement]:
    """Return the blocks of a tagged page in the order of its structure; loose text becomes a paragraph. If the document
    is not `titled`, headings are paragraphs in large letters."""
    reader = _Reader(page, look, titled)
    tagged = {mark for tag in page.tags for mark in _marks(tag)}
    for segment in segments_of(char for char in page.chars if char.mark not in tagged):
        look.leave_out("running heads and page numbers", segment.text)
    nodes = (node for tag in page.tags for node in reader.nodes(tag))
    shown = (node for node in nodes if isinstance(node, MarkupElement) or node.strip())
    return [node if isinstance(node, MarkupElement) else element("p", node) for node in shown]


class _Reader:
    """Converts the tags of one page to elements."""

    def __init__(self, page: PdfPage, look: Look, titled: bool) -> None:
        self.page, self.look, self.titled = page, look, titled
        self.chars: dict[int, list[Char]] = {}
        for char in page.chars:
            self.chars.setdefault(char.mark, []).append(char)
        self.pictures: dict[int, list[int]] = {}
        for picture in page.pictures:
            if picture.mark != -1:
                self.pictures.setdefault(picture.mark, []).append(picture.number)

    def nodes(self, tag: PdfTag) -> Iterator[Node]:
        """Iterate over the nodes for a tag."""
        if tag.type == "Figure":
            yield from self.figure(tag)
        elif tag.type == "Code":
            chars = [char for mark in _marks(tag) for char in self.chars.get(mark, ())]
            yield from self._text([each._replace(style=each.style._replace(mono=True)) for each in chars], plain=False)
        elif tag.type == "L":
            yield self.list(tag)
        else:
            name = _TYPES.get(tag.type)
            if name == "":
                label = self._printed(tag) if tag.type == "Lbl" else ""
                if re.search(r"[^\W\d_]{2}", label) and numbering(label)[0] == "ul":  # a term, no number
                    yield element("p", element("strong", label))
                return
            if name == "p" and not self.titled and (level := self._level(tag)):
                name = f"h{level}"
            children = self.children(tag, plain=name in _PLAIN)
            if name is None:
                yield from children
            elif children or name in ("td", "th"):
                yield MarkupElement(name, {}, tuple(children))

    def _level(self, tag: PdfTag) -> int:
        """Return the level of a paragraph that looks like a heading, or 0."""
        lines = _lines([char for mark in _marks(tag) for char in self.chars.get(mark, ())])
        first = make_segment(lines[0]) if lines and len(lines) < 3 else None
        return heading_level(first, self.page, self.look) if first and first.style.size > self.look.body else 0

    def children(self, tag: PdfTag, *, plain: bool = False) -> list[Node]:
        """Return the children of a tag; adjacent text in the structure is one run of lines."""
        nodes: list[Node] = []
        run: list[Char] = []
        for child in tag.children:
            if isinstance(child, int):
                if child in self.pictures:
                    nodes += self._text(run, plain)
                    run = []
                    nodes += (element("img", src=f"{IMAGE}{number}") for number in self.pictures[child])
                run += self.chars.get(child, ())
            elif child.type in ("Note", "FENote") and tag.type in _INLINE_PARENTS:
                nodes += self._text(run, plain)
                run = []
                name = f"lmm-note-{len(self.look.notes)}"
                nodes.append(MarkupElement("a", {"href": f"#{name}", "role": "doc-noteref"}, ("1",)))
                self.look.notes.append(MarkupElement("li", {"id": name}, tuple(self.children(child))))
            elif (inner := self._within_line(child)) is not None:
                run += inner
            else:
                nodes += self._text(run, plain)
                run = []
                nodes += self.nodes(child)
        return nodes + list(self._text(run, plain))

    def _within_line(self, tag: PdfTag) -> list[Char] | None:
        """Return the characters of an inline tag, with its formatting; None if it is a block."""
        if tag.type in _TYPES or tag.type == "Figure":
            return None
        chars: list[Char] = []
        for child in tag.children:
            if isinstance(child, int):
                if child in self.pictures:
                    return None
                chars += self.chars.get(child, ())
            else:
                inner = self._within_line(child)
                if inner is None:
                    return None
                chars += inner
        named = {_FORMATS[tag.type]: True} if tag.type in _FORMATS else {}
        return [char._replace(style=char.style._replace(**named)) for char in chars] if named else chars

    def _text(self, chars: Sequence[Char], plain: bool) -> Iterable[Node]:
        lines = _lines(chars)
        if len(lines) > 1 and not plain and all(char.style.mono for char in chars):
            return (element("pre", code_lines(lines)),)  # of a browser, which names no code
        space = (" ",) if chars and chars[0].spaced else ()  # after a note or a picture
        return (*space, *inline_nodes(lines, self.look.words, plain=plain))

    def _printed(self, tag: PdfTag) -> str:
        return "".join(char.text for mark in _marks(tag) for char in self.chars.get(mark, ())).strip()

    def figure(self, tag: PdfTag) -> Iterator[Node]:
        """Iterate over the images of a figure, with its description, or, if it has none, its text."""
        numbers = [number for mark in _marks(tag) for number in self.pictures.get(mark, ())]
        alt = next((part.alt for part in _walk(tag) if part.alt), "")
        for number in numbers:
            yield MarkupElement("img", {"src": f"{IMAGE}{number}", "alt": alt})
        if not numbers:
            yield from self.children(tag)

    def list(self, tag: PdfTag) -> MarkupElement:
        """Return a list; it is numbered if its first label is."""
        children = [child for child in tag.children if isinstance(child, PdfTag)]
        items = [node for child in children for node in self.nodes(child)]
        labels = (part for child in children for part in _walk(child) if part.type == "Lbl")
        name, attributes = numbering(next(filter(None, map(self._printed, labels)), "")[:8])
        return MarkupElement(name, attributes, tuple(items))


def _lines(chars: Sequence[Char]) -> list[list[Char]]:
    """Split characters, in text order, into lines: a new line begins further left and lower, or in another column."""
    lines: list[list[Char]] = []
    for char in chars:
        last = lines[-1][-1] if lines else None
        size = max(char.style.size, last.style.size) if last else 0.0
        lower = char.base - last.base if last else 0.0
        if last is None or abs(lower) > 0.7 * size or (lower > 1 and char.x0 < last.x0 - size):
            lines.append([])
        lines[-1].append(char)
    return lines


def _marks(tag: PdfTag) -> Iterator[int]:
    """Iterate over the content marks of a tag and all tags below it."""
    return (mark for part in _walk(tag) for mark in part.children if isinstance(mark, int))


def _walk(tag: PdfTag) -> Iterator[PdfTag]:
    yield tag
    for child in tag.children:
        if isinstance(child, PdfTag):
            yield from _walk(child)
