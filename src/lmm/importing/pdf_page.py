"""The raw content of a PDF page: characters, lines, pictures, and the logical structure if there is one.

Lengths are in points; x grows to the right, y grows downwards from the top of the page as displayed.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from lmm.errors import FileReadError
from lmm.importing.elements import HARM

_BOLD_NAME = re.compile(r"bold|black|heavy|demi|medi(?!um)|\bBX\d|CMB\d|CMBX|SF(?:BX|BI|RB|SX)", re.IGNORECASE)
_ITALIC_NAMES = ("ital", "obli", "slant", "cmti", "cmsl", "cmmi", "sfti", "sfsl")
_MONO_NAMES = (
    *("mono", "nimbusmon", "courier", "consol", "menlo", "monaco", "typewriter", "cmtt", "cmsltt", "cmitt", "sftt"),
    *("sfst", "sfit", "fixed", "code", "inconsolata"),
)
_ITALIC, _MONO, _FORCE_BOLD = 1 << 6, 1 << 0, 1 << 18  # PDF 32000-1, table 123
_MAX_CHARS = 300_000  # on one page
_MAX_OBJECTS = 200_000
_MAX_TAGS = 50_000
BESIDE = 1_000  # points beside the page where nothing is read
_LIGHT, _TILT, _DOT = 1.5, 0.02, 14.0
_BLANKS = frozenset({*range(1, 33), 0xA0, 0x2002, 0x2003, 0x2009}) - {2}
# Characters of LaTeX's fonts (Cork encoding) at the codes of control characters and ÿ, in fonts without glyph names.
_CORK = dict(zip(range(0x10, 0x20), map(ord, "“”„«»–—\u200b\u200bıȷ\ufb00\ufb01\ufb02\ufb03\ufb04"), strict=True))
_CORK |= {0xFF: ord("ß"), 0x88: ord("•")}
Box = tuple[float, float, float, float]  # left, top, right, bottom
Point = Callable[[float, float], tuple[float, float]]


class Style(NamedTuple):  # this class and the next have a million instances per book: tuples are fast to create
    """The font style of characters."""

    size: float
    bold: bool = False
    italic: bool = False
    mono: bool = False


class Char(NamedTuple):
    """A character: its advance box from `x0` to `x1` and `top` to `bottom`, its base line, its content mark.

    `spaced` says that there is a space before it.
    """

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    base: float
    style: Style
    mark: int = -1
    link: str = ""
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A drawn line, or the edge of a box: horizontal or vertical."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def horizontal(self) -> bool:
        """Whether the line is horizontal."""
        return self.x1 - self.x0 >= self.y1 - self.y0


@dataclass(frozen=True, slots=True)
class Picture:
    """An image on the page; `number` is its index in the document's images."""

    x0: float
    top: float
    x1: float
    bottom: float
    number: int
    mark: int = -1


@dataclass(frozen=True, slots=True)
class PdfTag:
    """A node of the logical structure: its type, and its children, which are nodes and content marks."""

    type: str
    children: tuple[PdfTag | int, ...] = ()
    alt: str = ""


@dataclass(frozen=True, slots=True)
class PdfPage:
    """A page; `number` counts from 1."""

    number: int
    width: float
    height: float
    chars: tuple[Char, ...]
    rules: tuple[Rule, ...] = ()
    pictures: tuple[Picture, ...] = ()
    dots: tuple[Box, ...] = ()  # small drawings as high as wide, which may be bullets
    tags: tuple[PdfTag, ...] = ()


# -- PDFium ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """The common properties of all characters in a text object; only `upright` text is read, not rotated text."""

    style: Style
    mark: int
    upright: bool
    font: int
    named: bool


def read_page(document: Any, number: int, keep: Callable[[Any, int, int], int | None]) -> PdfPage:
    """Read page `number`, from 0. `keep` is called with PDFium's images and their size, and returns their number.

    Raises:
        FileReadError: the page is damaged, or exceeds the limits.
    """
    import pypdfium2 as pdfium

    try:
        page = document[number]
        width, height = page.get_size()
        place = _placing(page, width, height)
        rules, pictures, dots = _drawn(page, place, keep)
        links, tags = _links(page, place), _tags(page)
        if flattened(document, page):
            page.close()
            page, tags = document[number], ()  # the tags know nothing of the fields
        text = page.get_textpage()
        # LaTeX Beamer prints what an overlay does not show yet far beside the page; a line that is too long is read.
        near = [
            (font, char)
            for font, char in _chars(text, place, links)
            if -BESIDE <= char.x0 <= width + BESIDE and -BESIDE <= char.top <= height + BESIDE
        ]
        chars = tuple(_with_fixed_fonts(near))
        text.close()
        page.close()
    except pdfium.PdfiumError as error:
        raise FileReadError(f"page {number + 1} is damaged", hint="qpdf can repair some: qpdf IN OUT") from error
    return PdfPage(
        number=number + 1, width=width, height=height, chars=chars, rules=rules, pictures=pictures, dots=dots, tags=tags
    )


def flattened(document: Any, page: Any) -> bool:
    """Make the values of form fields, and texts that were added to a page, a part of it; return whether it has any."""
    import pypdfium2.raw as c

    kinds = {kind for kind, _ in _annotations(page)}
    if kinds.isdisjoint((c.FPDF_ANNOT_WIDGET, c.FPDF_ANNOT_FREETEXT)):
        return False
    return bool(page.flatten() == c.FLATTEN_SUCCESS)


def comments_of(page: Any) -> list[str]:
    """Return what readers of the page have remarked on it."""
    import pypdfium2.raw as c

    remarks = (c.FPDF_ANNOT_TEXT, *range(c.FPDF_ANNOT_LINE, c.FPDF_ANNOT_POPUP))
    return [text for kind, text in _annotations(page) if kind in remarks and text]


def _annotations(page: Any) -> Iterator[tuple[int, str]]:
    """Iterate over the kinds and the contents of what is added to a page."""
    import pypdfium2.raw as c

    for number in range(min(c.FPDFPage_GetAnnotCount(page), 5_000)):
        if annotation := c.FPDFPage_GetAnnot(page, number):
            contents = wide(lambda each, *room: c.FPDFAnnot_GetStringValue(each, b"Contents", *room), annotation)
            yield c.FPDFAnnot_GetSubtype(annotation), contents
            c.FPDFPage_CloseAnnot(annotation)


def _placing(page: Any, width: float, height: float) -> Point:
    """Return a function from PDF coordinates, which ignore the page's rotation, to those of the page as displayed."""
    left, bottom, right, top = page.get_bbox()  # the other methods ignore what a page inherits
    turns: dict[int, Point] = {
        0: lambda x, y: (x - left, top - y),
        90: lambda x, y: (y - bottom, x - left),
        180: lambda x, y: (right - x, y - bottom),
        270: lambda x, y: (top - y, right - x),
    }
    return turns.get(page.get_rotation(), turns[0])


def _placed(place: Point, left: float, bottom: float, right: float, top: float) -> Box:
    """Convert a box in PDF coordinates to those of the page as displayed."""
    (ax, ay), (bx, by) = place(left, bottom), place(right, top)
    return min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)


# -- text ------------------------------------------------------------------------------------------------


def _chars(text: Any, place: Point, links: list[tuple[Box, str]]) -> Iterator[tuple[int, Char]]:
    """Iterate over the upright characters, each with its font."""
    import pypdfium2.raw as c

    count = text.count_chars()
    if count > _MAX_CHARS:
        raise FileReadError(f"a page has {count:,} characters", hint=HARM)
    box, x, y = c.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    runs: dict[int, _Run] = {}
    high, spaced = 0, False
    for index in range(count):
        code = c.FPDFText_GetUnicode(text, index)
        source = c.FPDFText_GetTextObject(text, index)
        if not source or code in (0, 0xFFFE):
            spaced = spaced or code in _BLANKS
            continue  # a space or a line end inserted by PDFium
        address = ctypes.addressof(source.contents)
        run = runs.get(address)
        if run is None:
            run = runs[address] = _run(text, index, source, place)
        code = code if run.named else _CORK.get(code, code)
        if code in _BLANKS or not run.upright:
            spaced = spaced or code in _BLANKS
            continue
        c.FPDFText_GetLooseCharBox(text, index, box)
        c.FPDFText_GetCharOrigin(text, index, x, y)
        x0, top, x1, bottom = _placed(place, box.left, box.bottom, box.right, box.top)
        _, base = place(x.value, y.value)
        at = ((x0 + x1) / 2, (top + bottom) / 2)
        inside = (target for (a, b, c, d), target in links if a <= at[0] <= c and b <= at[1] <= d)
        link = next(inside, "")
        high, letter = (code, "") if 0xD800 <= code < 0xDC00 else (0, _text(code, high))
        if not letter:
            continue  # the first half of a surrogate pair
        place_of = {"x0": x0, "x1": x1, "top": top, "bottom": bottom, "base": base}
        yield run.font, Char(letter, **place_of, style=run.style, mark=run.mark, link=link, spaced=spaced)
        spaced = False


def _with_fixed_fonts(chars: list[tuple[int, Char]]) -> Iterator[Char]:
    """Iterate over the characters; fonts whose narrow letters are as wide as others count as monospaced, those that
    print only Chinese or Japanese do not."""
    latin = {font for font, char in chars if char.text.isascii() and char.text.isalpha()}
    narrow: dict[int, float] = {}
    wide: dict[int, float] = {}
    for font, char in chars:
        if char.text.isascii() and char.text.isalpha() and char.text not in "Ifrt":
            least = narrow if char.text in "ijl" else wide
            width = (char.x1 - char.x0) / char.style.size  # of the advance, or of a letter that reaches beyond it
            least[font] = min(width, least.get(font, width))
    fixed = {font for font in narrow.keys() & wide.keys() if narrow[font] > 0.85 * wide[font]}
    styles: dict[Style, Style] = {}
    for font, char in chars:
        is_fixed = font in fixed or (char.style.mono and (font in latin or char.text < "\u2e80"))
        if is_fixed != char.style.mono:
            char = char._replace(style=styles.setdefault(char.style, char.style._replace(mono=is_fixed)))
        yield char


def _text(code: int, high: int) -> str:
    """Return the character for a code; mathematical letters, which Unicode has in many styles, become plain ones.

    2 is PDFium's code for a hyphen that divides a word at a line's end.
    """
    if 0xDC00 <= code < 0xE000:
        code = 0x10000 + ((high - 0xD800) << 10) + code - 0xDC00 if high else 0xFFFD
    if 0x1D400 <= code < 0x1D800:
        return unicodedata.normalize("NFKC", chr(code))
    return chr(code) if code < 0x110000 else "\ufffd"


def _run(text: Any, index: int, source: Any, place: Point) -> _Run:
    import pypdfium2.raw as c

    matrix = c.FS_MATRIX()
    c.FPDFText_GetMatrix(text, index, matrix)
    size = c.FPDFText_GetFontSize(text, index) * math.hypot(matrix.c, matrix.d)
    (x0, y0), (x1, y1) = place(0, 0), place(matrix.a, matrix.b)
    upright = x1 - x0 > 0 and abs(y1 - y0) <= abs(x1 - x0) * _TILT + 1e-6
    mark = c.FPDFPageObj_GetMarkedContentID(source)
    font = c.FPDFTextObj_GetFont(source)
    name = _string(c.FPDFFont_GetBaseFontName, font) if font else ""
    flags = max(0, c.FPDFFont_GetFlags(font)) if font else 0
    lower = name.lower().replace("code2000", "")  # a font for all of Unicode
    style = Style(
        round(size * 4) / 4 or 1.0,
        bold=bool(flags & _FORCE_BOLD or _BOLD_NAME.search(name)),
        italic=bool(flags & _ITALIC) or any(part in lower for part in _ITALIC_NAMES),
        mono=bool(flags & _MONO) or any(part in lower for part in _MONO_NAMES),
    )
    return _Run(style, mark, upright, ctypes.addressof(font.contents) if font else 0, bool(name))


def _string(function: Any, handle: Any) -> str:
    """Return a UTF-8 text that a function of PDFium writes to a buffer."""
    size = function(handle, None, 0)
    buffer = ctypes.create_string_buffer(max(1, size))
    function(handle, buffer, size)
    return buffer.value.decode("utf-8", "replace")


def _links(page: Any, place: Point) -> list[tuple[Box, str]]:
    """Return the areas on the page that link to URLs, and the URLs."""
    import pypdfium2.raw as c

    found: list[tuple[Box, str]] = []
    position, link, rect = ctypes.c_int(0), c.FPDF_LINK(), c.FS_RECTF()
    while len(found) < 5_000 and c.FPDFLink_Enumerate(page, position, link):
        action = c.FPDFLink_GetAction(link)
        if not action or c.FPDFAction_GetType(action) != c.PDFACTION_URI:
            continue
        if c.FPDFLink_GetAnnotRect(link, rect):
            target = _string(partial(c.FPDFAction_GetURIPath, page.pdf), action)
            found.append((_placed(place, rect.left, rect.bottom, rect.right, rect.top), target))
    return found


# -- lines and pictures ----------------------------------------------------------------------------------


def _drawn(
    page: Any, place: Point, keep: Callable[[Any, int, int], int | None]
) -> tuple[tuple[Rule, ...], tuple[Picture, ...], tuple[Box, ...]]:
    """Return the lines, pictures and dots of a page.

    Raises:
        FileReadError: there are too many, or there is so much text that PDFium would run out of memory.
    """
    import pypdfium2.raw as c

    rules: list[Rule] = []
    pictures: list[Picture] = []
    dots: list[Box] = []
    letters = 0.0
    for count, item in enumerate(page.get_objects()):
        if count > _MAX_OBJECTS:
            raise FileReadError(f"a page has more than {_MAX_OBJECTS:,} parts", hint="print it to a new PDF first")
        if item.type == c.FPDF_PAGEOBJ_TEXT:
            left, bottom, right, top = item.get_bounds()
            short, long = sorted((right - left, top - bottom))
            letters += long / short if short > 1e-6 else long  # about as many are side by side
            if letters > 4 * _MAX_CHARS:
                raise FileReadError("a page has more than a million characters", hint=HARM)
        if item.container is None and item.type != c.FPDF_PAGEOBJ_TEXT:
            dot = _placed(place, *item.get_bounds())
            wide, high = dot[2] - dot[0], dot[3] - dot[1]
            dots += [dot] if 2 < wide < _DOT and abs(wide - high) < 0.2 * wide else []
        if item.type not in (c.FPDF_PAGEOBJ_PATH, c.FPDF_PAGEOBJ_IMAGE):
            continue
        box, outer = item.get_bounds(), item
        while (outer := outer.container) is not None:  # boxes in a form, such as a figure, are relative to it
            box = outer.get_matrix().on_rect(*box)
        x0, y0, x1, y1 = _placed(place, *box)
        if item.type == c.FPDF_PAGEOBJ_PATH:
            rules += () if _is_drawing(item, page) else _rules(item, x0, y0, x1, y1)
            continue
        number = keep(item, round(x1 - x0), round(y1 - y0))
        if number is not None:
            mark = c.FPDFPageObj_GetMarkedContentID(item)
            pictures.append(Picture(x0, y0, x1, y1, number=number, mark=mark))
    return tuple(rules), tuple(pictures), tuple(dots)


def _is_drawing(item: Any, page: Any) -> bool:
    """Return whether an object is in a small form on the page: a figure, whose lines do not belong to a table."""
    while item.container is not None:
        item = item.container
        if item.container is None:
            left, bottom, right, top = item.get_bounds()
            return bool((right - left) * (top - bottom) < page.get_width() * page.get_height() / 3)
    return False


def _rules(item: Any, x0: float, y0: float, x1: float, y1: float) -> list[Rule]:
    """Return a thin path as a line, and a stroked box as its four edges."""
    import pypdfium2.raw as c

    wide, high = x1 - x0 > 6, y1 - y0 > 6
    is_fraction = x1 - x0 > 2 and y1 - y0 < 1.6
    if is_fraction or (wide and y1 - y0 <= _LIGHT * 2) or (high and x1 - x0 <= _LIGHT * 2):
        return [Rule(x0, y0, x1, y1)]
    if not (wide and high) or not 4 <= c.FPDFPath_CountSegments(item) <= 6:
        return []
    mode, stroked = ctypes.c_int(), ctypes.c_int()
    c.FPDFPath_GetDrawMode(item, mode, stroked)
    if not stroked.value:
        return []
    return [Rule(x0, y0, x1, y0), Rule(x0, y1, x1, y1), Rule(x0, y0, x0, y1), Rule(x1, y0, x1, y1)]


# -- structure -------------------------------------------------------------------------------------------


def _tags(page: Any) -> tuple[PdfTag, ...]:
    """Return the logical structure of the page's content."""
    import pypdfium2.raw as c

    tree = c.FPDF_StructTree_GetForPage(page)
    if not tree:
        return ()
    seen = [0]
    try:
        roots = (c.FPDF_StructTree_GetChildAtIndex(tree, i) for i in range(c.FPDF_StructTree_CountChildren(tree)))
        return tuple(_tag(root, seen, 0) for root in roots if root)
    finally:
        c.FPDF_StructTree_Close(tree)


def _tag(node: Any, seen: list[int], depth: int) -> PdfTag:
    import pypdfium2.raw as c

    seen[0] += 1
    children: list[PdfTag | int] = []
    if depth < 60 and seen[0] < _MAX_TAGS:
        for index in range(c.FPDF_StructElement_CountChildren(node)):
            child = c.FPDF_StructElement_GetChildAtIndex(node, index)
            if child:
                children.append(_tag(child, seen, depth + 1))
            elif (mark := c.FPDF_StructElement_GetChildMarkedContentID(node, index)) >= 0:
                children.append(mark)
    type, alt = wide(c.FPDF_StructElement_GetType, node), wide(c.FPDF_StructElement_GetAltText, node)
    return PdfTag(type, tuple(children), alt)


def wide(function: Any, handle: Any) -> str:
    """Return a UTF-16 text that a function of PDFium writes to a buffer."""
    size = function(handle, None, 0)
    buffer = (ctypes.c_ushort * max(1, (size + 1) // 2))()
    function(handle, buffer, size)
    return bytes(buffer)[: max(0, size)].decode("utf-16-le", "replace").rstrip("\0")


# -- Arabic and Hebrew: a page is mirrored, so that its text reads from left to right like any other ------


def in_reading_order(page: PdfPage) -> PdfPage:
    """Return a page whose letters stand from left to right in the order in which they are read, by their places.

    The order of the letters in the file does not count: programs write words backwards, or lines from left to right.
    """
    letters = [char for char in page.chars if char.text.strip()]
    count = sum(map(_is_right_to_left, letters))
    if not count:
        return page
    mirrored = 2 * count > sum(char.text.isalpha() for char in letters)
    width = page.width if mirrored else 0.0
    chars = [_mirrored(char, width) if mirrored else char for char in page.chars]
    rows: dict[int, list[Char]] = {}
    for char in chars:
        rows.setdefault(round(char.base), []).append(char)
    turned = {
        base: list(_turned(sorted(row, key=lambda char: char.x0), back=mirrored))
        for base, row in rows.items()
        if mirrored or any(map(_is_right_to_left, row))
    }
    if not mirrored:  # the other lines keep their order, which may be that of columns
        bases = set(turned)
        parts = (turned.pop(base, []) if (base := round(char.base)) in bases else [char] for char in chars)
        return replace(page, chars=tuple(char for part in parts for char in part))
    chars = [char for base in sorted(turned) for char in turned[base]]
    rules = tuple(replace(rule, x0=width - rule.x1, x1=width - rule.x0) for rule in page.rules)
    pictures = tuple(replace(each, x0=width - each.x1, x1=width - each.x0) for each in page.pictures)
    return replace(page, chars=tuple(chars), rules=rules, pictures=pictures)


def _is_right_to_left(char: Char) -> bool:
    return unicodedata.bidirectional(char.text[:1]) in ("R", "AL")


def _is_left_to_right(char: Char) -> bool:
    return unicodedata.bidirectional(char.text[:1]) in ("L", "EN", "AN")


def _mirrored(char: Char, width: float) -> Char:
    """Return a character at its place in a mirror, with the letters for which a shape of Arabic stands."""
    text = unicodedata.normalize("NFKC", char.text) if "\ufb1d" <= char.text[:1] <= "\ufefc" else char.text
    spaced = char.spaced and not _is_right_to_left(char)  # before another letter of the word
    return char._replace(text=text, x0=width - char.x1, x1=width - char.x0, spaced=spaced)


def _turned(row: list[Char], *, back: bool) -> Iterable[Char]:
    """Iterate over the characters of a row, those of the other direction turned around where they stand; a row without
    any letter that is read from left to right is turned as a whole, with its full stop."""
    if not back and not any(unicodedata.bidirectional(char.text[:1]) == "L" for char in row):
        both = row[0].x0 + max(char.x1 for char in row)
        return _turned(sorted((_mirrored(char, both) for char in row), key=lambda char: char.x0), back=True)
    is_other = _is_left_to_right if back else _is_right_to_left
    others = [at for at, char in enumerate(row) if is_other(char)]
    runs: list[tuple[int, int]] = []
    for at in others:
        joins = bool(runs) and not any(
            _is_left_to_right(char) or _is_right_to_left(char) for char in row[runs[-1][1] : at]
        )
        runs = [*runs[:-1], (runs[-1][0], at + 1)] if joins else [*runs, (at, at + 1)]
    for start, end in runs:
        both = row[start].x0 + max(char.x1 for char in row[start:end])
        turned = [_mirrored(char, both) for char in row[start:end]]
        row[start:end] = sorted(turned, key=lambda char: char.x0)
    return row
