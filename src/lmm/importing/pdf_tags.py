"""Tagged PDF: the logical structure that Word, browsers and new LaTeX write into a page, as elements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lmm.importing.elements import MarkupElement, Node, element, text_of
from lmm.importing.imported import IMAGE
from lmm.importing.pdf_lines import Words, code_lines, inline_nodes
from lmm.importing.pdf_page import Char, PdfPage, PdfTag

# PDF 32000-1, 14.8.4: our name for each type; None for what only groups, "" for what is not shown.
_TYPES: dict[str, str | None] = {
    **{f"H{level}": f"h{level}" for level in range(1, 7)},
    **{"Title": "h1", "H": "h2", "P": "p", "L": "ul", "LI": "li", "LBody": "div", "Table": "table", "TR": "tr"},
    **{"TH": "th", "TD": "td", "THead": "thead", "TBody": "tbody", "TFoot": "tfoot", "Caption": "caption"},
    **{"BlockQuote": "blockquote", "Note": "p", "FENote": "p", "Index": "div", "TOC": "ul", "TOCI": "li"},
    **{"Artifact": "", "Lbl": "", "Form": ""},
}
_STRUCTURE = frozenset({"H", "Title", "Table", "L", "Code", *(f"H{level}" for level in range(1, 7))})
_PLAIN = frozenset({"th", *(f"h{level}" for level in range(1, 7))})
_FORMATS = {"Em": "italic", "Strong": "bold", "Code": "mono"}
_COVERED = 0.7
_INLINE_PARENTS = frozenset(
    {"P", "LI", "LBody", "TD", "TH", "Caption", "Span", "Link", "Note", *(f"H{n}" for n in range(1, 7))}
)


def is_tagged(pages: Sequence[PdfPage]) -> bool:
    """Whether the document's tags say more than that there is text."""
    return any(tag.type in _STRUCTURE for page in pages for root in page.tags for tag in _walk(root))


def covers(page: PdfPage) -> bool:
    """Whether the tags know most of a page's text; what they leave out are running heads and page numbers."""
    marks = {mark for root in page.tags for mark in _marks(root)}
    printed = [char for char in page.chars if char.text.strip()]
    return sum(char.mark in marks for char in printed) >= _COVERED * len(printed)


def elements_of_tags(page: PdfPage, words: Words) -> list[MarkupElement]:
    """The blocks of a tagged page in the order of its structure; loose text is a paragraph."""
    reader = _Reader(page, words)
    nodes = (node for tag in page.tags for node in reader.nodes(tag, parent=""))
    shown = (node for node in nodes if isinstance(node, MarkupElement) or node.strip())
    return [node if isinstance(node, MarkupElement) else element("p", node) for node in shown]


class _Reader:
    """Turns the tags of one page into elements."""

    def __init__(self, page: PdfPage, words: Words) -> None:
        self.words = words
        self.chars: dict[int, list[Char]] = {}
        for char in page.chars:
            self.chars.setdefault(char.mark, []).append(char)
        self.pictures: dict[int, list[int]] = {}
        for picture in page.pictures:
            if picture.mark != -1:
                self.pictures.setdefault(picture.mark, []).append(picture.number)

    def nodes(self, tag: PdfTag, parent: str) -> Iterator[Node]:
        """What a tag stands for."""
        if tag.type == "Figure":
            yield from self.figure(tag)
        elif tag.type == "Code":
            yield from self.code(tag, parent)
        elif tag.type == "L":
            yield self.list(tag)
        else:
            name = _TYPES.get(tag.type)
            if name == "":
                return
            children = self.children(tag, plain=name in _PLAIN)
            if name is None:
                yield from children
            elif children or name in ("td", "th"):
                yield MarkupElement(name, {}, tuple(children))

    def children(self, tag: PdfTag, *, plain: bool = False) -> list[Node]:
        """The children of a tag; text that stands side by side in the structure is one run of lines."""
        nodes: list[Node] = []
        run: list[Char] = []
        for child in tag.children:
            if isinstance(child, int):
                if child in self.pictures:
                    nodes += self._text(run, plain)
                    run = []
                    nodes += (element("img", src=f"{IMAGE}{number}") for number in self.pictures[child])
                run += self.chars.get(child, ())
            elif (inner := self._within_line(child, tag.type)) is not None:
                run += inner
            else:
                nodes += self._text(run, plain)
                run = []
                nodes += self.nodes(child, tag.type)
        return nodes + list(self._text(run, plain))

    def _within_line(self, tag: PdfTag, parent: str) -> list[Char] | None:
        """The characters of a tag that is a part of a line of text, formatted as it says; None if it is a block."""
        if tag.type in _TYPES or tag.type == "Figure" or (tag.type == "Code" and parent not in _INLINE_PARENTS):
            return None
        chars: list[Char] = []
        for child in tag.children:
            if isinstance(child, int):
                if child in self.pictures:
                    return None
                chars += self.chars.get(child, ())
            else:
                inner = self._within_line(child, parent)
                if inner is None:
                    return None
                chars += inner
        if tag.type == "Code" and len(_lines(chars)) > 1:
            return None
        named = {_FORMATS[tag.type]: True} if tag.type in _FORMATS else {}
        return [char._replace(style=char.style._replace(**named)) for char in chars] if named else chars

    def _text(self, chars: Sequence[Char], plain: bool) -> Iterable[Node]:
        return inline_nodes(_lines(chars), self.words, plain=plain)

    def figure(self, tag: PdfTag) -> Iterator[Node]:
        """A figure: its images, else the text in it; its description is theirs."""
        numbers = [number for mark in _marks(tag) for number in self.pictures.get(mark, ())]
        alt = next((part.alt for part in _walk(tag) if part.alt), "")
        for number in numbers:
            yield MarkupElement("img", {"src": f"{IMAGE}{number}", "alt": alt})
        if not numbers:
            yield from self.children(tag)

    def code(self, tag: PdfTag, parent: str) -> Iterator[Node]:
        """Code within a line, or lines of it."""
        lines = _lines([char for mark in _marks(tag) for char in self.chars.get(mark, ())])
        if len(lines) > 1 or (lines and parent not in _INLINE_PARENTS):
            yield element("pre", code_lines(lines))
        elif lines:
            yield element("code", text_of(element("p", *inline_nodes(lines, plain=True))))

    def list(self, tag: PdfTag) -> MarkupElement:
        """A list; it is numbered if its first label is."""
        label = next((text for child in tag.children if isinstance(child, PdfTag) if (text := self._label(child))), "")
        number = re.match(r"\W?(\d{1,6})\W?\Z", label)
        items = [node for child in tag.children if isinstance(child, PdfTag) for node in self.nodes(child, "L")]
        attributes = {"start": number[1]} if number else {}
        return MarkupElement("ol" if number else "ul", attributes, tuple(items))

    def _label(self, item: PdfTag) -> str:
        labels = (part for part in _walk(item) if part.type == "Lbl")
        chars = [
            c for part in labels for mark in part.children if isinstance(mark, int) for c in self.chars.get(mark, ())
        ]
        return "".join(char.text for char in chars[:8]).strip()


def _lines(chars: Sequence[Char]) -> list[list[Char]]:
    """Characters in the order of the text, as lines: a new one begins further left and lower."""
    lines: list[list[Char]] = []
    for char in chars:
        last = lines[-1][-1] if lines else None
        size = max(char.style.size, last.style.size) if last else 0.0
        if (
            last is None
            or (char.base - last.base > 0.7 * size)
            or (char.x0 < last.x0 - size and char.base > last.base + 1)
        ):
            lines.append([])
        lines[-1].append(char)
    return lines


def _marks(tag: PdfTag) -> Iterator[int]:
    """The marks of content in a tag and all below it."""
    return (mark for part in _walk(tag) for mark in part.children if isinstance(mark, int))


def _walk(tag: PdfTag) -> Iterator[PdfTag]:
    yield tag
    for child in tag.children:
        if isinstance(child, PdfTag):
            yield from _walk(child)
