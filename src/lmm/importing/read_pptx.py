"""Reading slides with python-pptx: each slide as a section, its texts in the order in which they are read."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from lmm.errors import FileReadError
from lmm.importing.archive import Archive
from lmm.importing.elements import page_mark, table_html, to_html
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage, first_title, given_title
from lmm.importing.markdown_text import plain
from lmm.importing.pandoc import convert, convert_html

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MONOSPACED = re.compile(r"(?i)consolas|courier|menlo|monaco|monospace|\bmono\b|inconsolata|cascadia|lucida console")
_REPEATED = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")  # placeholders that are the same on all slides
LONGEST_TITLE = 90  # letters of a line that may stand for one
_BULLETED = ("BODY", "OBJECT", "VERTICAL_BODY", "VERTICAL_OBJECT")


def read(data: bytes, context: Context) -> Imported:
    """Convert slides to markdown: a section for each, with lists, tables, charts as tables, pictures and notes.

    Raises:
        FileReadError: they cannot be read, or there is no text in them.
    """
    with Archive(data, kind=context.kind) as archive:
        checked = archive.bounded()
    slides = _Slides(checked)
    document = convert_html("\n".join(slides.html()), context)
    body = document.body
    if not re.sub(r"(?m)^## Slide \d+$|^<!-- slide \d+ -->$|!\[\]\(\S*\)", "", body).strip():
        hint = "text in pictures cannot be imported: export them as PDF and run ocrmypdf"
        raise FileReadError("there is no text in these slides", hint=hint)
    for number, formula in enumerate(_as_tex(slides.formulas, context)):
        body = body.replace(f"lmmformula{number}.", formula)
    properties = slides.file.core_properties
    notes = (*slides.notes(), *document.notes)
    title = given_title(str(properties.title or "")) or first_title(body)
    images, language = tuple(slides.images), str(properties.language or "")
    return replace(document, body=body, title=title, language=language, images=images, notes=notes)


class _Slides:
    """Writes slides as HTML; collects their pictures and formulas."""

    def __init__(self, data: bytes) -> None:
        from pptx import Presentation

        try:
            self.file: Any = Presentation(io.BytesIO(data))
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # python-pptx raises whatever the file makes it raise
            hint = "open them in PowerPoint or LibreOffice and save them again"
            raise FileReadError(f"these slides cannot be read: {str(error)[:200]}", hint=hint) from error
        self.images: list[ImportedImage] = []
        self.formulas: list[str] = []
        self.hidden: list[str] = []
        self.objects: list[str] = []

    def notes(self) -> Iterator[str]:
        """Iterate over notes about what was left out."""
        if self.hidden:
            yield f"left out: hidden slide(s) {', '.join(self.hidden)}"
        if self.objects:
            more = f" and {len(self.objects) - 8} more" if len(self.objects) > 8 else ""
            yield f"left out: {', '.join(self.objects[:8])}{more}"

    def html(self) -> Iterator[str]:
        """Iterate over the HTML of each visible slide."""
        for number, slide in enumerate(self.file.slides, 1):
            _unwrap_alternatives(slide.element)
            title = slide.shapes.title or self._top_line(slide)
            # A title may have line breaks.
            name = " ".join(title.text_frame.text.split()) if title is not None else ""
            if slide.element.get("show") == "0":
                self.hidden.append(f"{number}{name and f' ({name})'}")
                continue
            heading = self._inline(title.text_frame.paragraphs) if name else f"Slide {number}"
            yield f"<h2>{heading}</h2>{to_html(page_mark('slide', number))}"
            others = [shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id]
            for shape in _in_reading_order(others):
                yield from self._shape(shape, number)
            boxes = slide.notes_slide.shapes if slide.has_notes_slide else ()
            frames = [box.text_frame for box in boxes if box.has_text_frame and _kind(box) not in _REPEATED]
            texts = (self._inline([paragraph]) for frame in frames for paragraph in frame.paragraphs)
            said = "".join(f"<p>{text}</p>" for text in texts if text)
            yield f'<div class="lmm-notes">{said}</div>' if said else ""

    def _top_line(self, slide: Any) -> Any:
        """Return the box that stands for the title on a slide without one: a line at the top, or None."""
        boxes = [shape for shape in slide.shapes if shape.has_text_frame and shape.text_frame.text.strip()]
        top = min(boxes, key=lambda shape: int(shape.top or 0), default=None)
        if top is None or len(slide.shapes) < 2 or 3 * int(top.top or 0) > self.file.slide_height:
            return None
        is_line = len(top.text_frame.paragraphs) == 1 and len(top.text_frame.text) <= LONGEST_TITLE
        return top if is_line and not (top.is_placeholder and _kind(top) in (*_REPEATED, *_BULLETED)) else None

    def _shape(self, shape: Any, slide: int) -> Iterator[str]:
        """Iterate over the HTML of a shape, or of those in a group."""
        picture = None
        with suppress(AttributeError, KeyError, ValueError):  # it is none, or has none
            picture = bytes(shape.image.blob)
        kind = _kind(shape)
        if kind in _REPEATED:
            return
        if hasattr(shape, "shapes"):
            for inner in _in_reading_order(shape.shapes):
                yield from self._shape(inner, slide)
        elif getattr(shape, "has_table", False):
            yield self._table(shape.table)
        elif getattr(shape, "has_chart", False):
            yield _chart(shape.chart) or self._left_out("a chart", slide)
        elif picture is not None:
            self.images.append(ImportedImage(picture))
            description = shape._element.xpath(".//p:cNvPr/@descr")
            yield f'<p><img src="{IMAGE}{len(self.images) - 1}" alt="{escape(plain("".join(description)))}"></p>'
        elif shape.has_text_frame:
            yield self._text(shape, kind)
        elif diagram := _diagram_texts(shape):
            yield nested_list([(0, text) for text in diagram], "ul")
        else:
            yield self._left_out(f"the object '{shape.name}'", slide)

    def _left_out(self, what: str, slide: int) -> str:
        self.objects.append(f"{what} on slide {slide}")
        return ""

    def _text(self, shape: Any, kind: str) -> str:
        """Write the paragraphs of a shape: as code, if they are set in a monospaced font, as lists, or as they are."""
        every = shape.text_frame.paragraphs
        paragraphs = [each for each in every if each.text.strip() or any(True for _ in each._p.iter(f"{{{_M}}}oMath"))]
        runs = [run for paragraph in paragraphs for run in paragraph.runs if run.text.strip()]
        if runs and all(_is_monospaced(run) for run in runs):
            lines = "\n".join(plain(paragraph.text) for paragraph in every)
            return f"<pre><code>{escape(lines)}</code></pre>"
        first, layout = f".//{_A}lstStyle/{_A}lvl1pPr/{_A}buNone", getattr(shape, "_base_placeholder", None)
        unbulleted = any(each is not None and each._element.find(first) is not None for each in (shape, layout))
        by_default = kind in _BULLETED and len(paragraphs) > 1 and not unbulleted
        written = [(_list_tag(each, by_default), each.level, self._inline([each])) for each in paragraphs]
        blocks = []
        for tag, group in groupby(written, key=lambda item: item[0]):
            items = [(level, text) for _, level, text in group]
            blocks.append(nested_list(items, tag) if tag else "".join(f"<p>{text}</p>" for _, text in items))
        return "\n".join(blocks)

    def _inline(self, paragraphs: Iterable[Any]) -> str:
        """Write the runs of paragraphs, with emphasis, links, sub- and superscripts, code and formulas."""
        from lxml import etree

        written = list[str]()
        for paragraph in paragraphs:
            runs = {id(run._r): run for run in paragraph.runs}
            for node in paragraph._p:
                if id(node) in runs:
                    written.append(_run(runs[id(node)]))
                elif node.tag == f"{_A}br":
                    written.append(" ")
                elif node.tag == f"{_A}fld":
                    written.append(escape(plain("".join(node.itertext(f"{_A}t")))))
                else:
                    for formula in node.iter(f"{{{_M}}}oMath"):
                        self.formulas.append(str(etree.tostring(formula, encoding="unicode", with_tail=False)))
                        written.append(f"lmmformula{len(self.formulas) - 1}.")
        return "".join(written).strip()

    def _table(self, table: Any) -> str:
        """Write a table; the text of merged cells stands in each of them."""
        texts: dict[tuple[int, int], str] = {}
        for i, row in enumerate(table.rows):
            for j, cell in enumerate(row.cells):
                if not cell.is_spanned:
                    text = " ".join(self._inline([each]) for each in cell.text_frame.paragraphs).strip()
                    covered = (cell.span_height, cell.span_width) if cell.is_merge_origin else (1, 1)
                    texts |= {(i + down, j + right): text for down in range(covered[0]) for right in range(covered[1])}
        columns = range(len(table.columns))
        return table_html([texts.get((i, j), "") for j in columns] for i in range(len(table.rows)))


# -- the order of reading ------------------------------------------------------------------------------------


class Box(NamedTuple):
    """The place of a shape on a slide."""

    left: int
    top: int
    right: int
    bottom: int
    shape: Any


def _in_reading_order(shapes: Iterable[Any]) -> Iterator[Any]:
    boxes = []
    for shape in shapes:
        left, top = int(shape.left or 0), int(shape.top or 0)
        boxes.append(Box(left, top, left + int(shape.width or 0), top + int(shape.height or 0), shape))
    return (box.shape for box in cut(boxes))


def cut(boxes: list[Box]) -> list[Box]:
    """Return shapes as they are read: they are cut apart at the widest gap, again and again (a recursive XY cut, Nagy
    and Seth 1984)."""
    if len(boxes) < 2:
        return boxes
    across, columns = _parts(boxes, lambda box: (box.left, box.right))
    down, rows = _parts(boxes, lambda box: (box.top, box.bottom))
    if len(columns) < 2 and len(rows) < 2:
        return sorted(boxes, key=lambda box: (box.top, box.left))
    parts = columns if len(rows) < 2 or (len(columns) > 1 and across > down) else rows
    return [box for part in parts for box in cut(part)]


def _parts(boxes: Sequence[Box], extent: Callable[[Box], tuple[int, int]]) -> tuple[int, list[list[Box]]]:
    """Cut boxes at their widest gap in one direction; return its width, and both parts, or one if there is no gap."""
    boxes = sorted(boxes, key=extent)
    widest, at, end = -1, 0, extent(boxes[0])[1]
    for i, box in enumerate(boxes[1:], 1):
        start, its_end = extent(box)
        if start - end > widest and start >= end:
            widest, at = start - end, i
        end = max(end, its_end)
    return widest, [list(boxes[:at]), list(boxes[at:])] if at else [list(boxes)]


def _kind(shape: Any) -> str:
    """Return the kind of a placeholder, or the empty string for another shape."""
    return str(shape.placeholder_format.type).partition(" ")[0] if shape.is_placeholder else ""


# -- text ------------------------------------------------------------------------------------------------


def _run(run: Any) -> str:
    text = escape(plain(run.text)).replace("\n", " ")
    properties = run._r.rPr
    baseline = int(properties.get("baseline", "0")) if properties is not None else 0
    address = run.hyperlink.address if properties is not None else ""
    address = address if address and ":" in address else ""  # else another slide
    marks = [("sup", baseline > 0), ("sub", baseline < 0), ("code", _is_monospaced(run)),
             ("em", bool(run.font.italic)), ("strong", bool(run.font.bold))]  # fmt: skip
    core = text.strip()
    if not core:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    for tag, is_set in marks:
        core = f"<{tag}>{core}</{tag}>" if is_set else core
    return f'{before}<a href="{escape(address)}">{core}</a>{after}' if address else f"{before}{core}{after}"


def _is_monospaced(run: Any) -> bool:
    return bool(_MONOSPACED.search(run.font.name or ""))


def _list_tag(paragraph: Any, by_default: bool) -> str:
    """Return ``ul`` or ``ol`` if a paragraph is the item of a list, else the empty string."""
    properties = paragraph._p.pPr
    marks = {node.tag.removeprefix(_A) for node in properties} if properties is not None else set()
    if "buAutoNum" in marks:
        return "ol"
    return "ul" if marks & {"buChar", "buBlip"} or ((by_default or paragraph.level) and "buNone" not in marks) else ""


def nested_list(items: Sequence[tuple[int, str]], tag: str) -> str:
    """Write a list with nested lists; `items` are levels and texts."""
    written, levels = list[str](), list[int]()
    for level, text in items:
        while levels and levels[-1] > level:
            written.append(f"</li></{tag}>")
            levels.pop()
        if levels and levels[-1] == level:
            written.append("</li>")
        else:
            written.append(f"<{tag}>")
            levels.append(level)
        written.append(f"<li>{text}")
    return "".join(written) + f"</li></{tag}>" * len(levels)


def _unwrap_alternatives(slide: Any) -> None:
    """Put the first alternative, which has formulas as text, in the place of each group of alternatives."""
    for group in list(slide.iter(f"{_MC}AlternateContent")):
        choice, parent = group.find(f"{_MC}Choice"), group.getparent()
        if choice is not None and parent is not None:
            for node in reversed(choice):
                group.addnext(node)
            parent.remove(group)


# -- what else there is on a slide --------------------------------------------------------------------------


def _chart(chart: Any) -> str:
    """Write the data of a chart as a table with a row for each category or point; empty if there are none."""
    titled = chart.has_title and chart.chart_title.has_text_frame
    title = f"<p>{escape(plain(chart.chart_title.text_frame.text))}</p>" if titled else ""
    every = (column for series in chart._chartSpace.iter(f"{_C}ser") for column in _columns(series))
    columns = list(dict.fromkeys(every))  # several series have the same categories or x values
    height = max((len(values) for _, values in columns), default=0)
    filled = [[name, *values, *[""] * (height - len(values))] for name, values in columns]
    return (title + table_html([escape(plain(text)) for text in row] for row in zip(*filled, strict=True))) * (
        height > 0
    )


def _columns(series: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Iterate over the columns of a series: its categories or x values, its values, the sizes of its bubbles."""
    name = "".join(text for box in series.iterchildren(f"{_C}tx") for text in box.itertext(f"{_C}v"))
    for kind, title in (("cat", ""), ("xVal", "x"), ("val", name), ("yVal", name), ("bubbleSize", "size")):
        for data in series.iterchildren(f"{_C}{kind}"):
            levels = list(data.iter(f"{_C}lvl"))[:1]  # the innermost of several
            points = list((levels or [data])[0].iter(f"{_C}pt"))
            texts = {point.get("idx", ""): _shortest(point.findtext(f"{_C}v") or "") for point in points}
            last = max((int(at) for at in texts if re.fullmatch(r"\d{1,5}", at)), default=-1)
            yield title, tuple(texts.get(str(at), "") for at in range(last + 1))


def _shortest(number: str) -> str:
    """Return a number without the digits that only its storage has; a text as it is."""
    is_number = re.fullmatch(r"-?\d+\.\d{15,}(?:E-?\d+)?", number)
    return f"{float(number):.15g}" if is_number else number


def _diagram_texts(shape: Any) -> list[str]:
    """Return the texts of a diagram (SmartArt), which stand in a part of their own, as HTML."""
    relations = [ids.get(f"{_RELATION}dm") for ids in shape._element.iter(f"{{{_DIAGRAM}}}relIds")]
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    roots = [
        etree.fromstring(shape.part.related_part(each).blob, parser) for each in relations if each in shape.part.rels
    ]
    points = (point for root in roots for point in root.iter(f"{{{_DIAGRAM}}}pt"))
    texts = (" ".join("".join(map(_diagram_run, point.iter(f"{_A}r"))).split()) for point in points)
    return [text for text in texts if text]


def _diagram_run(run: Any) -> str:
    text, properties = escape(plain("".join(run.itertext(f"{_A}t")))), run.find(f"{_A}rPr")
    moved = int(properties.get("baseline", "0")) if properties is not None else 0
    return f"<sup>{text}</sup>" if moved > 0 else f"<sub>{text}</sub>" if moved < 0 else text


# -- formulas --------------------------------------------------------------------------------------------


def _as_tex(formulas: Sequence[str], context: Context) -> list[str]:
    """Convert formulas of Office to TeX: Pandoc reads them in a Word file, a paragraph each."""
    if not formulas:
        return []
    body = "".join(f"<w:p>{formula}</w:p><w:p><w:r><w:t>lmmend</w:t></w:r></w:p>" for formula in formulas)
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    space = "http://schemas.openxmlformats.org/package/2006/"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}content-types"><Override PartName="/word/document.xml" '
        f'ContentType="{kind}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{space}relationships"><Relationship Id="rId1" '
        f'Type="{_RELATION[1:-1]}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    texts = convert(file.getvalue(), replace(context, kind="formulas"), reader="docx").body.split("lmmend")
    return [" ".join(text.split()) for text in texts[: len(formulas)]]
