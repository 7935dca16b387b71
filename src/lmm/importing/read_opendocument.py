"""Reading sheets and slides of LibreOffice (.ods, .odp): as they are shown, like those of Microsoft's programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html import escape
from itertools import groupby
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from lmm.errors import FileReadError
from lmm.importing.archive import Archive, local
from lmm.importing.elements import page_mark, table_html, to_html
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage, first_title, given_title
from lmm.importing.markdown_text import defused, escaped, link_target, plain
from lmm.importing.pandoc import convert_html, office_properties
from lmm.importing.read_pptx import LONGEST_TITLE, Box, cut, nested_list
from lmm.importing.read_xlsx import MOST_CELLS, script, section_of

_MATH = "{http://www.w3.org/1998/Math/MathML}"
_REPEATED = ("date-time", "footer", "header", "page-number")  # classes of shapes that are the same on all slides
_UNITS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, "px": 0.75}


def read(data: bytes, context: Context) -> Imported:
    """Convert a workbook or slides to markdown: a section for each visible sheet or slide.

    Raises:
        FileReadError: it cannot be read, or there is no text in it.
    """
    with Archive(data, kind=context.kind) as archive:
        content = _Content(archive)
        pages = [node for node in content.root.iter() if local(node.tag) == "page"]
        if pages:
            document = convert_html("\n".join(content.slides(pages)), context)
        else:
            tables = [node for part in content.root.iter() if local(part.tag) == "spreadsheet" for node in part]
            sections = [block for table in tables if local(table.tag) == "table" for block in content.sheet(table)]
            document = Imported(defused("\n\n".join(sections)) + "\n")
        values = office_properties(archive)
    if not re.sub(r"(?m)^##? .*$|^<!-- slide \d+ -->$|!\[\]\(\S*\)", "", document.body).strip():
        raise FileReadError("there is no text in this file", hint="show what is hidden in LibreOffice first")
    notes = tuple(f"left out: {what}" for what in content.objects)
    left_out = {kind: "\n".join(texts) for kind, texts in content.hidden.items()}
    title = given_title(str(values.get("title", ""))) or (first_title(document.body) if pages else "")
    return replace(
        document, title=title, language=str(values.get("lang", "")),
        images=tuple(content.images), notes=(*document.notes, *notes), left_out=left_out,
    )  # fmt: skip


class _Content:
    """The content of a file; collects its pictures and what is left out."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self.root = archive, archive.xml("content.xml")
        self.images: list[ImportedImage] = []
        self.hidden: dict[str, list[str]] = {}
        self.objects: list[str] = []
        self._unseen = {
            _get(style, "name")
            for style in self.root.iter()
            if local(style.tag) == "style"
            and any(_get(node, "display") == "false" or _get(node, "visibility") == "hidden" for node in style)
        }
        styles = {_get(style, "name"): style for style in self.root.iter() if local(style.tag) == "style"}
        for span in self.root.iter():
            style = styles.get(_get(span, "style-name")) if local(span.tag) == "span" else None
            span.tag = _script(style) if style is not None else span.tag
        self._numbered = {
            (_get(style, "name"), _get(level, "level")): "ol" if _get(level, "num-format") else ""
            for style in self.root.iter()
            if local(style.tag) == "list-style"
            for level in style
            if local(level.tag) == "list-level-style-number"
        }

    def _is_unseen(self, node: Element) -> bool:
        return _get(node, "style-name") in self._unseen or _get(node, "visibility") in ("collapse", "filter")

    def _grid(
        self, table: Element, written: Callable[[Element], str], comments: list[str]
    ) -> dict[tuple[int, int], str]:
        """Return the cells of a table as `written`, by row and column; a merged cell stands in each that it covers."""
        from openpyxl.utils import get_column_letter

        name, cells, row = _get(table, "name"), dict[tuple[int, int], str](), 0
        columns = [column for column in table.iter() if local(column.tag) == "table-column"]
        every = (self._is_unseen(column) for column in columns for _ in range(_times(column, "columns")))
        unseen = {at for at, is_unseen in enumerate(every) if is_unseen}
        for line in (node for node in table.iter() if local(node.tag) == "table-row"):
            column, filled = 0, dict[int, str]()
            for cell in line:
                notes = (_all_text(node) for node in cell if local(node.tag) == "annotation")
                text, comment = written(cell), " ".join(" ".join(notes).split())
                if self._is_unseen(line) or column in unseen:
                    self.hidden.setdefault(f"hidden rows or columns of {name}", []).append(_all_text(cell))
                elif text or comment:
                    across, down = (int(_get(cell, f"number-{what}-spanned") or 1) for what in ("columns", "rows"))
                    filled |= {column + at: text for at in range(_times(cell, "columns"))}
                    places = {*range(column, column + min(across, 100))} - unseen
                    covered = ((row + i, place) for i in range(min(down, 1_000)) for place in places)
                    cells |= dict.fromkeys(covered, text) if across * down > 1 else {}
                    comments += (
                        [f"- Comment on {get_column_letter(column + 1)}{row + 1}: {escaped(comment)}"]
                        if comment
                        else []
                    )
                column += _times(cell, "columns")
            rows = range(row, row + (_times(line, "rows") if filled else 0))
            if len(cells) + len(rows) * len(filled) > MOST_CELLS:
                message = f"the sheet {name} has more than {MOST_CELLS:,} cells"
                raise FileReadError(message, hint="import it in parts")
            cells |= {(at, column): text for at in rows for column, text in filled.items()}
            row += _times(line, "rows")
        return cells

    # -- sheets ------------------------------------------------------------------------------------------

    def sheet(self, table: Element) -> Iterator[str]:
        """Iterate over the blocks of a sheet."""
        name, comments = _get(table, "name"), list[str]()
        if self._is_unseen(table):
            self.hidden.setdefault(f"the hidden sheet {name}", []).append(_all_text(table))
            return
        cells = self._grid(table, self._cell, comments)
        boxes = (_html(node, is_markdown=True) for node in _drawn(table))
        yield from section_of(name, cells, [" ".join(box.split()) for box in boxes if box.strip()], comments)
        for kind, what in (("object", "object(s), such as charts"), ("image", "picture(s)")):
            frames = [{local(part.tag) for part in node} for node in table.iter() if local(node.tag) == "frame"]
            if count := sum(kind in parts and (kind == "object" or "object" not in parts) for parts in frames):
                self.objects.append(f"{count} {what} on the sheet {name}")

    def _cell(self, cell: Element) -> str:
        """Return a cell's text as the sheet shows it; a formula without a result as the formula."""
        texts = (_html(node, is_markdown=True) for node in cell if local(node.tag) == "p")
        text = " ".join(" ".join(part.split()) for part in texts if part.strip())
        values = ("string-value", "date-value", "time-value", "boolean-value", "value")
        stored = next((value for name in values if (value := _get(cell, name))), "")
        formula = _get(cell, "formula").removeprefix("of:")
        return text or escaped(stored) or (f"`{formula}`".replace("|", r"\|") if formula else "")

    # -- slides ------------------------------------------------------------------------------------------

    def slides(self, pages: list[Element]) -> Iterator[str]:
        """Iterate over the HTML of each visible slide."""
        for number, page in enumerate(pages, 1):
            if self._is_unseen(page):
                self.hidden.setdefault(f"the hidden slide {number}", []).append(_all_text(page))
                continue
            shapes = [shape for shape in page if local(shape.tag) not in ("notes", "animations")]
            repeated = [each for each in page.iter() if _get(each, "class") in _REPEATED]
            for text in filter(None, map(_all_text, repeated)):
                self.hidden.setdefault("footers and numbers of slides", []).append(text)
            shapes = [shape for shape in shapes if shape not in repeated]
            titles = [shape for shape in shapes if _get(shape, "class") == "title" and _all_text(shape).strip()]
            titles = titles or self._top_line(shapes)
            lines = [part for part in titles[0].iter() if local(part.tag) in ("p", "h")] if titles else []
            title = " ".join(" ".join(map(_html, lines)).split())
            yield f"<h2>{title or f'Slide {number}'}</h2>{to_html(page_mark('slide', number))}"
            for shape in _ordered(shape for shape in shapes if shape not in titles[:1]):
                yield from self._shape(shape, number)
            said = [
                each
                for note in page
                if local(note.tag) == "notes"
                for each in note
                if _get(each, "class") not in _REPEATED and local(each.tag) != "page-thumbnail"
            ]
            text = "".join(block for each in said for part in each for block in self._blocks(part))
            yield f'<div class="lmm-notes">{text}</div>' if text else ""

    def _top_line(self, shapes: list[Element]) -> list[Element]:
        """Return the line that stands for the title on a slide without one, the first of several texts, or nothing."""
        texts = [shape for shape in _ordered(shapes) if _all_text(shape).strip()]
        paragraphs = _all_text(texts[0]).split("\n") if len(texts) > 1 else []
        is_line = len(paragraphs) == 1 and len(paragraphs[0]) <= LONGEST_TITLE and local(texts[0].tag) != "g"
        return texts[:1] if is_line and not any(local(node.tag) == "list" for node in texts[0].iter()) else []

    def _shape(self, shape: Element, slide: int) -> Iterator[str]:
        """Iterate over the HTML of a shape, or of those in a group."""
        kind = local(shape.tag)
        if kind == "g":
            for inner in _ordered(shape):
                yield from self._shape(inner, slide)
        elif kind == "frame":
            forms = {local(part.tag): part for part in reversed(shape)}  # the first of a kind is the best
            if "table" in forms:
                yield self._table(forms["table"])
            elif "object" in forms:
                yield self._object(forms["object"], slide)
            elif "text-box" in forms:
                yield from self._blocks(forms["text-box"])
            elif "image" in forms:
                yield self._image(
                    forms["image"], " ".join(_all_text(forms[name]) for name in ("title", "desc") if name in forms)
                )
        else:
            yield from self._blocks(shape)

    def _image(self, image: Element, description: str) -> str:
        if not (data := self._archive.picture(_get(image, "href").removeprefix("./"))):
            return ""
        self.images.append(ImportedImage(data))
        return f'<p><img src="{IMAGE}{len(self.images) - 1}" alt="{escape(plain(description))}"></p>'

    def _object(self, node: Element, slide: int) -> str:
        """Return a formula as MathML, and the data of a chart as a table."""
        name = _get(node, "href").removeprefix("./") + "/content.xml"
        root = self._archive.xml(name) if name in self._archive.names else node
        if root.tag == f"{_MATH}math":
            for part in root.iter():
                part.tag = local(part.tag)
            return f"<p>{ElementTree.tostring(root, encoding='unicode')}</p>"
        titles = (node for node in root.iter() if local(node.tag) in ("title", "subtitle"))
        named = [f"<p>{_html(part)}</p>" for node in titles for part in node if _all_text(part).strip()]
        if table := next((part for part in root.iter() if local(part.tag) == "table"), None):
            return "".join(named) + self._table(table)
        self.objects.append(f"an object on slide {slide}")
        return ""

    def _table(self, table: Element) -> str:
        cells = self._grid(table, lambda cell: "<br>".join(_html(part) for part in cell if local(part.tag) == "p"), [])
        height, width = (max((place[i] for place in cells), default=-1) + 1 for i in (0, 1))
        return table_html([cells.get((row, column), "") for column in range(width)] for row in range(height))

    def _blocks(self, box: Iterable[Element]) -> Iterator[str]:
        """Iterate over the paragraphs and lists in a text box; lists that follow each other are one."""
        for is_list, run in groupby(box, lambda node: local(node.tag) == "list"):
            nodes = list(run)
            items = [item for node in nodes for item in self._items(node)] if is_list else []
            for tag, group in groupby(items, lambda item: item[0]):
                texts = [(level, text) for _, level, text in group]
                yield nested_list(texts, tag) if tag else "".join(f"<p>{text}</p>" for _, text in texts)
            for node in nodes:
                kind = local(node.tag)
                if kind in ("p", "h") and _all_text(node).strip():
                    yield f"<p>{_html(node)}</p>"
                elif kind in ("text-box", "section"):
                    yield from self._blocks(node)

    def _items(self, node: Element, level: int = 1, style: str = "") -> Iterator[tuple[str, int, str]]:
        """Iterate over the items of a list: the tag of their list, their level, and their HTML."""
        style = _get(node, "style-name") or style
        for item in node:
            texts = [_html(part) for part in item if local(part.tag) in ("p", "h") and _all_text(part).strip()]
            if texts:
                yield self._numbered.get((style, str(level)), "ul"), level, "<br>".join(texts)
            for inner in item:
                if local(inner.tag) == "list":
                    yield from self._items(inner, level + 1, style)


def _script(style: Element) -> str:
    """Return ``sup`` or ``sub`` for the style of a raised or lowered text, else ``span``."""
    place = next((place for node in style if (place := _get(node, "text-position").partition(" ")[0])), "")
    return "sub" if place.startswith(("sub", "-")) else "sup" if place not in ("", "0%") else "span"


def _html(node: Element, *, is_markdown: bool = False) -> str:
    """Return the text of a paragraph, with its links, and raised and lowered texts, as HTML or as markdown."""
    write = escaped if is_markdown else escape
    parts = [write(plain(node.text or ""))]
    for child in node:
        kind, target, inner = local(child.tag), _get(child, "href"), _html(child, is_markdown=is_markdown)
        if kind in ("s", "tab", "line-break"):
            inner = " "
        elif kind in ("sup", "sub"):
            inner = script(inner, "^" if kind == "sup" else "~") if is_markdown else f"<{kind}>{inner}</{kind}>"
        elif kind == "a" and inner and target and not target.startswith("#"):
            inner = f"[{inner}]({link_target(target)})" if is_markdown else f'<a href="{escape(target)}">{inner}</a>'
        parts += [inner, write(plain(child.tail or ""))]
    return "".join(parts)


def _get(node: Element, name: str) -> str:
    """Return an attribute by its name without a namespace."""
    return next((value for key, value in node.items() if local(key) == name), "")


def _times(node: Element, what: str) -> int:
    """Return how often a cell, a column or a row is repeated."""
    return max(1, int(_get(node, f"number-{what}-repeated") or 1))


def _drawn(node: Element, inside: bool = False) -> Iterator[Element]:
    """Iterate over the paragraphs in shapes that are drawn on a sheet."""
    for child in node:
        is_inside = inside or "drawing:1.0}" in child.tag
        if is_inside and local(child.tag) in ("p", "h"):
            yield child
        elif local(child.tag) != "annotation":
            yield from _drawn(child, is_inside)


def _all_text(node: Element) -> str:
    return "\n".join("".join(part.itertext()) for part in node.iter() if local(part.tag) in ("p", "h", "title", "desc"))


def _ordered(shapes: Iterable[Element]) -> Iterator[Element]:
    """Iterate over shapes in the order in which they are read."""
    boxes = []
    for shape in shapes:
        inner = [node for node in shape.iter() if _get(node, "width")] or [shape]
        places = [[_points(_get(node, name)) for name in ("x", "y", "width", "height")] for node in inner]
        left, top = min(place[0] for place in places), min(place[1] for place in places)
        right, bottom = max(x + width for x, _, width, _ in places), max(y + height for _, y, _, height in places)
        boxes.append(Box(int(left), int(top), int(right), int(bottom), shape))
    return (box.shape for box in cut(boxes))


def _points(length: str) -> float:
    """Return a length in points.

    >>> _points("2.54cm"), _points("")
    (72.009, 0.0)
    """
    match = re.fullmatch(r"(-?[\d.]+)([a-z]*)", length)
    return round(float(match[1]) * _UNITS.get(match[2], 1.0), 3) if match else 0.0
