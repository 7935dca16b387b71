"""The layout of PDF pages: characters form lines with words, sub- and superscripts; lines form headings, paragraphs,
lists, code and tables, by their typography and their places. So untagged pages are read, such as those of LaTeX.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise, takewhile

from lmm.importing.elements import MarkupElement, Node, element
from lmm.importing.imported import IMAGE
from lmm.importing.pdf_page import Char, PdfPage, Rule, Style

_SPACE = 0.18  # fraction of the font size: narrower is kerning, wider is a space
_GAP = 0.9  # wider is a gap between columns
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "ft", "ﬆ": "st"})
_SMALL, _RAISED = (
    0.85,
    0.25,
)  # fractions of the font size: of scripts, and of the distance of those that are not smaller
_SECTION = re.compile(
    r"(?:(?:chapter|part|appendix|kapitel|teil)\s+)?(\d{1,2}(?:\.\d{1,2})*|[A-Z](?:\.\d{1,2})+)\.?\s+\S", re.I
)
_LARGE, _LARGER = 1.12, 1.3  # size relative to the text: of headings in bold or with a number, of others
_LEADERS = re.compile(r"(?:\.[ ]?){4,}\s*(?:\d+|[ivxlc]+)?\s*\Z")
_CONTENTS = (
    *("contents", "table of contents", "inhalt", "inhaltsverzeichnis", "table des matières", "table des matieres"),
    *("sommaire", "índice", "indice"),
)
_PAGE_NUMBER = re.compile(
    r"[-–\s]*+(?:page|seite|p\.)?\s*(\d{1,4}|[ivxlc]{1,6})(?:\s*(?:/|of|von)\s*\d{1,4})?[-–\s]*+", re.I
)
_EDGE, _SIDE = 0.125, 0.22  # fractions of the page's height and width with running heads
Head = tuple[str, int]
"""The text of a running head without its page number, and its height in units of `_TOLERANCE`."""
_TOLERANCE, _NOT_LARGER, _MOST = 6.0, 1.05, 0.4  # points; relative to the text; of the pages
_NUMBER_APART = re.compile(
    r"\s*[|·•–—/:-]\s*(?:page|seite|p\.)?\s*\d{1,4}(?:\s*(?:/|of|von)\s*\d{1,4})?\Z"
    r"|\A\d{1,4}\s*[|·•–—/:-]\s*|\b(?:page|seite|folie|slide)\s+\d{1,4}(?:\s*(?:/|of|von)\s*\d{1,4})?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Adjacent characters on one base line without a wide gap: a line of a column, or a cell of a row.

    `style` and `base` are those of most of its characters; `text` has spaces between words.
    """

    chars: tuple[Char, ...]
    style: Style
    base: float
    text: str

    @property
    def x0(self) -> float:
        """The left end."""
        return self.chars[0].x0

    @property
    def x1(self) -> float:
        """The right end."""
        return max(char.x1 for char in self.chars[-3:])

    @property
    def top(self) -> float:
        """The upper end of its letters."""
        return min(char.top for char in self.chars)

    @property
    def bottom(self) -> float:
        """The lower end of its letters."""
        return max(char.bottom for char in self.chars)


def segments_of(chars: Iterable[Char]) -> list[Segment]:
    """Return the segments of a page, from top to bottom, and from left to right on a line."""
    rows: list[list[Char]] = []
    for char in sorted(chars, key=lambda c: (c.base, c.x0)):
        if rows and char.base - rows[-1][-1].base < 0.12 * char.style.size:
            rows[-1].append(char)
        else:
            rows.append([char])
    for number, row in enumerate(rows):  # small letters beside letters of a neighbouring row belong to that row
        near = [other for other in rows[max(0, number - 3) : number + 4] if other is not row]
        for char in list(row):
            if host := next((other for other in near if _is_script(char, row, other)), None):
                row.remove(char)
                host.append(char)
    found = list[Segment]()
    for row in filter(None, rows):
        parts: list[list[Char]] = []
        for char in sorted(row, key=lambda c: c.x0):
            if parts and char.x0 - parts[-1][-1].x1 <= _GAP * max(char.style.size, parts[-1][-1].style.size):
                parts[-1].append(char)
            else:
                parts.append([char])
        found += map(make_segment, parts)
    return sorted(found, key=lambda s: (round(s.base), s.x0))


def _is_script(char: Char, own: Sequence[Char], row: Sequence[Char]) -> bool:
    """Return whether a character is a sub- or superscript in a row: smaller, or, in a short row, moved by far."""
    size, moved = (row[0].style.size, abs(char.base - row[0].base)) if row else (0.0, 0.0)
    is_small = char.style.size < _SMALL * size
    if moved > 0.6 * size or not (is_small or (_is_moved(char, moved, size) and 3 * len(own) < len(row))):
        return False
    reach = (0.3 if is_small else 0.1) * size
    return any(-reach < char.x0 - other.x1 < reach or -reach < other.x0 - char.x1 < reach for other in row)


def _is_moved(char: Char, moved: float, size: float) -> bool:
    """Return whether a character that is not larger than its line is raised or lowered by far, as WeasyPrint does."""
    return _RAISED * size < moved and char.style.size <= size


def make_segment(chars: Sequence[Char]) -> Segment:
    """Make a segment of characters, given from left to right."""
    style = _main_style(chars)
    base = next(char.base for char in chars if char.style == style)
    return Segment(tuple(chars), style, base, _spaced(chars))


def _main_style(chars: Sequence[Char]) -> Style:
    first = chars[0].style
    if all(char.style is first for char in chars):
        return first
    return Counter(char.style for char in chars).most_common(1)[0][0]


def _spaced(chars: Sequence[Char]) -> str:
    spaces = ("", *(" " * needs_space(before, char) for before, char in pairwise(chars)))
    return "".join(space + char.text.translate(_LIGATURES) for space, char in zip(spaces, chars, strict=True))


def needs_space(before: Char, char: Char) -> bool:
    """Return whether there is a space between two neighbours on a line. The threshold is higher in monospaced fonts,
    and for Arabic and Hebrew, whose letters do not all touch."""
    size = max(before.style.size, char.style.size)
    if char.spaced and abs(char.base - before.base) < 0.2 * size:  # not a line end that PDFium sees beside a script
        return True
    wide = 0.35 if char.style.mono and before.style.mono else 0.2 if "\u0590" <= char.text <= "\u08ff" else _SPACE
    return char.x0 - before.x1 > wide * size


# -- inline text -----------------------------------------------------------------------------------------


# Scripts without spaces between words, and their punctuation; what follows a hyphen that stands for a part of a word.
_UNSPACED = re.compile(r"[\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uffef]")
_CONJUNCTION = re.compile(r"(?:und|oder|bzw\.|sowie|bis|and|or|to|et|ou|en|of)\s")


class Words:
    """The words of a document, for deciding whether a hyphen at a line's end belongs to the word."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = (re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text) for text in texts)
        self._known = Counter(word.lower() for line in found for word in line[1:-1])  # others may be parts of words

    def join(self, before: str, after: str) -> str:
        """Join two lines, removing a hyphen that only divides a word.

        >>> Words(["a well-known fact"]).join("is well-", "known for")
        'is well-known for'
        >>> parts = ("a depart-", "ment"), ("Haupt-", "und Nebenfächer"), ("光合", "作用")
        >>> [Words([]).join(*each) for each in parts]
        ['a department', 'Haupt- und Nebenfächer', '光合作用']
        """
        if _UNSPACED.search(before[-1:]) and _UNSPACED.match(after):
            return before + after
        if before.endswith("-") and _CONJUNCTION.match(after):
            return f"{before} {after}"
        head = re.search(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-\u2010\xad\x02]\Z", before)
        tail = re.match(r"[^\W\d_]+", after)
        if head is None or tail is None or not after[0].islower():
            glue = "" if before.endswith(("-", "–", "—", "/")) or not before or before[-1].isspace() else " "
            return f"{before}{glue}{after}".replace("\x02", "-")
        whole, parted = (head[1] + tail[0]).lower(), f"{head[1]}-{tail[0]}".lower()
        keep = self._known[parted] > self._known[whole]
        if not self._known[whole] and self._known[head[1].lower()] and self._known[tail[0].lower()]:
            keep = True  # two separate words
        return before[:-1] + "-" * keep + after


NO_WORDS = Words(())


def inline_nodes(lines: Sequence[Sequence[Char]], words: Words = NO_WORDS, *, plain: bool = False) -> tuple[Node, ...]:
    """Join lines of characters into formatted text; `plain` ignores bold and italic."""
    runs: list[tuple[tuple[str, ...], str]] = []
    for line in lines:
        for number, (format, text) in enumerate(_runs(line, plain)):
            if not number and runs:
                joined = words.join(runs[-1][1], text)
                cut = len(joined) - len(text)
                runs[-1], text = (runs[-1][0], joined[:cut]), joined[cut:]
            if runs and runs[-1][0] == format:
                text = runs.pop()[1] + text
            runs.append((format, text))
    nodes = list[Node]()
    for format, text in runs:
        node: Node = text
        for tag, _, target in (name.partition(" ") for name in reversed(format)):
            node = MarkupElement(tag, {"href": target} if target else {}, (node,))
        nodes += [node] if text else []
    return tuple(nodes)


def _runs(line: Sequence[Char], plain: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """Iterate over the pieces of a line with the same format."""
    if not line:
        return
    main = _main_style(line)
    base = next(char.base for char in line if char.style == main)

    def format_of(char: Char) -> tuple[str, ...]:
        style, rise = char.style, base - char.base
        is_small = style.size < _SMALL * main.size and abs(rise) > 0.06 * main.size
        is_script = is_small or _is_moved(char, abs(rise), main.size)
        marks = [(f"a {char.link}", char.link), ("sup" if rise > 0 else "sub", is_script)]
        if style.mono and not (plain and main.mono):
            marks.append(("code", True))
        elif not plain:
            marks += [("strong", style.bold), ("em", style.italic)]
        return tuple(name for name, is_set in marks if is_set)

    at = 0
    for format, group in groupby(map(format_of, line)):
        size = len(list(group))
        part = line[at : at + size]
        if "em" in format and not re.search(r"[^\W\d_]{2}", "".join(char.text for char in part)):
            format = tuple(name for name in format if name != "em")  # a letter of a formula
        if at and needs_space(line[at - 1], part[0]):
            yield (), " "
        yield format, _spaced(part)
        at += size


# -- code ------------------------------------------------------------------------------------------------


def code_lines(lines: Sequence[Sequence[Char]]) -> str:
    """Return lines in a monospaced font as code, with indentation computed from the positions of the characters."""
    printed = [full for line in lines if (full := [char for char in line if char.text.strip()])]
    if not printed:
        return ""
    width = sorted(char.x1 - char.x0 for line in printed for char in line)[sum(map(len, printed)) // 2] or 1.0
    left = min(line[0].x0 for line in printed)
    size = printed[0][0].style.size
    step = min((b[0].base - a[0].base for a, b in pairwise(printed)), default=0.0)
    step = step if 1 < step < 1.8 * size else 1.25 * size
    written: list[str] = []
    for before, line in zip([None, *printed], printed, strict=False):
        if before is not None and step:
            written += [""] * min(2, round((line[0].base - before[0].base) / step) - 1)
        text = ""
        for char in line:
            text += " " * max(0, min(round((char.x0 - left) / width), 200) - len(text)) + char.text
        written.append(text)
    return "\n".join(written)


# -- typography of a document ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The typography of a document: the sizes of text and headings, its outline, its running heads.

    `left_out` collects the texts that are not written, by kind, `notes` the footnotes.
    """

    body: float
    sizes: tuple[int, ...] = ()  # of headings, the largest first
    outline: Mapping[tuple[int, str], int] = field(default_factory=dict)
    running: frozenset[Head] = frozenset()
    titles: frozenset[tuple[int, int]] = frozenset()  # of slides: page, and place of the line
    words: Words = NO_WORDS
    lines: Mapping[int, Sequence[Segment]] = field(default_factory=dict)  # of each page
    left_out: dict[str, list[str]] = field(default_factory=dict)
    notes: list[MarkupElement] = field(default_factory=list)
    gutter: float | None = None  # between the columns of most pages that have any

    def leave_out(self, kind: str, text: str) -> None:
        """Note that a text is not written."""
        self.left_out.setdefault(kind, []).append(text)


def look_of(pages: Sequence[PdfPage], outline: Iterable[tuple[int, str, int]]) -> Look:
    """Determine the typography of a document from all pages; `outline` has page, title and level of each entry."""
    lines = {page.number: segments_of(page.chars) for page in pages}
    every = [segment for segments in lines.values() for segment in segments]
    counts: Counter[float] = Counter()
    for segment in {(each.text, each.style): each for each in every if not each.style.mono}.values():
        counts[segment.style.size] += len(segment.chars)  # what is on all pages counts once
    body = counts.most_common(1)[0][0] if counts else 10.0
    words = Words(segment.text for segment in every)
    entries = {(page, letters): min(6, level) for page, title, level in outline if (letters := _letters(title))}
    headings = (segment for segment in every if _looks_like_heading(segment, body))
    sizes = {round(heading.style.size) for heading in headings if heading.style.size >= _LARGE * body}
    titles = {(page.number, line) for page in pages for line in _slide_title(page, lines[page.number], body)}
    sizes |= {round(line.style.size) for _, line in titles}
    ranked, places = (
        tuple(sorted(sizes, reverse=True)),
        frozenset((number, round(line.base)) for number, line in titles),
    )
    running = _running(pages, lines, body)
    gutters = Counter(at for page in pages if (at := _gutter(lines[page.number], page.width)) is not None)
    known = next((at for at, _ in gutters.most_common(1)), None)
    return Look(body, ranked, entries, running=running, titles=places, words=words, lines=lines, gutter=known)


def _slide_title(page: PdfPage, lines: Sequence[Segment], body: float) -> list[Segment]:
    """Return the lines of the title of a slide, which is a page that is wider than high: the largest, if few are."""
    largest = max((line.style.size for line in lines), default=0.0)
    title = [line for line in lines if line.style.size == largest and _is_wording(line.text)]
    is_first = bool(title) and title[0] is min(lines, key=lambda line: line.base)
    is_slide = page.width > page.height and largest >= (_NOT_LARGER if is_first else _LARGE) * body
    return title if is_slide and len(title) <= max(1, len(lines) // 2) else []


def title_of_layout(pages: Sequence[PdfPage], look: Look) -> str:
    """Return the title of a document: the largest lines, if they are on the first page only, without those of their
    size far below, or that of its first slide; else the empty string."""
    first = pages[0].number if pages else 0
    every = [(number, line) for number, lines in look.lines.items() for line in lines]
    largest = max((line.style.size for _, line in every), default=0.0)
    places = [number for number, line in every if line.style.size == largest]
    lines = [line for line in look.lines.get(first, ()) if line.style.size == largest and _is_wording(line.text)]
    if largest < _LARGE * look.body or set(places) != {first} or len(places) > 3:
        lines = [line for line in look.lines.get(first, ()) if (first, round(line.base)) in look.titles]
    apart = next((at for at, (a, b) in enumerate(pairwise(lines), 1) if b.base - a.base > 2 * a.style.size), None)
    return " ".join(line.text.strip() for line in lines[:apart])


def _running(pages: Sequence[PdfPage], lines: Mapping[int, Sequence[Segment]], body: float) -> frozenset[Head]:
    """Return running heads and feet: lines near the edge that are not larger than the text, equal on several pages
    except for the page number, and at a height where most pages have such a line. Titles of exercises and slides,
    which only begin alike, are none."""
    seen: dict[Head, set[int]] = {}
    for page in pages:
        sides = [[line] for line in lines[page.number] if _at_side(page, line)]
        for row in sides + rows_of([line for line in lines[page.number] if _at_edge(page, line)]):
            if max(segment.style.size for segment in row) <= _NOT_LARGER * body and (head := _head(row))[0]:
                seen.setdefault(head, set()).add(page.number)
    enough = max(2, min(4, len(pages) // 3))
    heads = {head: on for head, on in seen.items() if len(on) >= enough}
    covered: dict[int, set[int]] = {}
    for (_, height), on in heads.items():
        covered.setdefault(height, set()).update(on)
    return frozenset(head for head in heads if len(covered[head[1]]) > _MOST * len(pages))


def _head(row: Sequence[Segment]) -> Head:
    """Return the text of a row without the page number, which stands apart, and its height on the page."""
    texts = (segment.text.strip() for segment in row)
    text = " ".join(text for text in texts if not _PAGE_NUMBER.fullmatch(text))
    return _NUMBER_APART.sub("", text), round(row[0].base / _TOLERANCE)


def rows_of(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Group segments that are side by side."""
    rows: list[list[Segment]] = []
    for segment in segments:
        if rows and abs(rows[-1][0].base - segment.base) < 0.3 * segment.style.size:
            rows[-1].append(segment)
        else:
            rows.append([segment])
    return [sorted(row, key=lambda segment: segment.x0) for row in rows]


def text_of_row(row: Sequence[Segment]) -> str:
    return " ".join(segment.text for segment in row)


def _at_edge(page: PdfPage, segment: Segment) -> bool:
    return segment.bottom < _EDGE * page.height or segment.top > (1 - _EDGE) * page.height


def _at_side(page: PdfPage, segment: Segment) -> bool:
    """Return whether a line is beside the text of a slide, where some have their contents."""
    is_beside = segment.x1 < _SIDE * page.width or segment.x0 > (1 - _SIDE) * page.width
    return is_beside and page.width > page.height


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def heading_level(segment: Segment, page: PdfPage, look: Look) -> int:
    """Return the level of a heading, or 0 if a line is not a heading: by the outline, else by its typography, that is
    the rank of its size (bold ones in text size come last), and the depth of its number."""
    text, size = segment.text.strip(), segment.style.size
    number = _SECTION.match(text)
    for title in (text, text[number.end(1) :].lstrip(". ") if number else text):
        if level := look.outline.get((page.number, _letters(title)), 0):
            return level
    is_heading = _looks_like_heading(segment, look.body) and not (look.outline and size < _LARGER * look.body)
    if not is_heading and (page.number, round(segment.base)) not in look.titles:
        return 0
    is_large = size >= _LARGE * look.body and round(size) in look.sizes
    rank = look.sizes.index(round(size)) + 1 if is_large else len(look.sizes) + 1
    depth = number[1].count(".") if number and not is_large else 0
    return min(6, rank + max(0, depth - 1))


def _looks_like_heading(segment: Segment, body: float) -> bool:
    text = segment.text.strip()
    if not _is_wording(text) or segment.style.mono:
        return False
    numbered = _SECTION.match(text) is not None
    bold = all(char.style.bold for char in segment.chars if char.text.isalnum())
    if segment.style.size >= (_LARGE if bold or numbered else _LARGER) * body:
        return not text.endswith((",", ";")) and (bold or numbered or segment.style.size >= _LARGER * body)
    small = segment.style.size < 0.95 * body or len(text) > 90
    return bold and not small and (numbered or not text.endswith((".", ",", ";", ":")))


def _is_wording(text: str) -> bool:
    return 2 <= len(text) <= 150 and text[0] not in "•‣▪–" and re.search(r"[^\W\d_]{2}", text) is not None


def without_running(page: PdfPage, rows: Sequence[Sequence[Segment]], look: Look) -> list[Segment]:
    """Remove running heads and the page number from the lines of a page."""
    kept: list[Segment] = []
    for place, every in enumerate(rows):
        beside = [line for line in every if _at_side(page, line) and _head([line]) in look.running]
        for line in beside:
            look.leave_out("running heads and page numbers", line.text)
        row = [line for line in every if line not in beside]
        if not row:
            continue
        text = text_of_row(row).strip()
        is_running = _at_edge(page, row[0]) and (_PAGE_NUMBER.fullmatch(text) or _head(row) in look.running)
        if is_running or (place in (0, len(rows) - 1) and text.isdigit() and len(text) < 5):
            look.leave_out("running heads and page numbers", text)
        else:
            kept += row
    return kept


def without_contents(rows: Sequence[list[Segment]], look: Look) -> list[list[Segment]]:
    """Remove a table of contents, which repeats the headings, from rows. Its lines end in dots and a page number."""
    texts = [text_of_row(row) for row in rows]

    def is_title(number: int) -> bool:
        return texts[number].strip().lower() in _CONTENTS

    dotted = [number for number, text in enumerate(texts) if _LEADERS.search(text)]
    if len(dotted) < 3:
        return list(rows)
    first, last = dotted[0], dotted[-1]
    while first and re.search(r"\s\d{1,3}\Z", texts[first - 1]):
        first -= 1
    while last + 1 < len(rows) and re.match(r"\d[\d.]*\s.*\s\d{1,3}\Z", texts[last + 1]):
        last += 1
    if first and is_title(first - 1):
        first -= 1
    kept = {
        number
        for number in range(first, last + 1)
        if number not in dotted and not re.search(r"\s\d{1,3}\Z", texts[number]) and not is_title(number)
    }
    for number in set(range(first, last + 1)) - kept:
        look.leave_out("the table of contents", texts[number])
    return [row for number, row in enumerate(rows) if not first <= number <= last or number in kept]


# -- blocks of a page ------------------------------------------------------------------------------

_MARKER = re.compile(
    r"(?P<bullet>[•◦▪‣●○■□▶►➢❖✓–*·\uf0b7\uf0a7\uf0d8\u2013-]\s|[•◦▪‣●○■▶►➢❖\uf0b7\uf0a7\uf0d8])|\(?(?:\d{1,3}|[a-z]|[ivx]{2,4})[.)]\s"
    r"|(?P<capital>\(?(?:[A-Z]|[IVX]{2,4})[.)])\s"
)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_APART = 0.45  # fraction of the font size between a mark and its item
_SENTENCE_END = (".", "!", "?", ":", ";", "”", '"', ")")


# -- a page ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A block that is being assembled from lines."""

    kind: str
    lines: list[Segment]
    level: int = 0
    marker: str = ""


def elements_of_layout(page: PdfPage, look: Look) -> list[MarkupElement]:
    """Return the blocks of a page in reading order: columns from left to right, each from top to bottom."""
    regions = tables_of(page, look.words)
    segments = look.lines.get(page.number) or ()
    if regions:
        segments = segments_of(char for char in page.chars if not any(region.holds(char) for region in regions))
    lines = without_running(page, rows_of(segments), look)
    blocks: list[MarkupElement] = []
    for each in page.pictures:
        image = element("p", element("img", src=f"{IMAGE}{each.number}"))
        regions.append(Region(each.x0, each.top, each.x1, each.bottom, image))
    columns = [column for column in columns_in_order(lines, page.width, slide=page.width > page.height,
                                                     known=look.gutter) if column]  # fmt: skip
    placed: dict[int, list[Region]] = {}
    for region in sorted(regions, key=lambda region: region.top):  # in the last of the columns there that begins above
        there = [at for at, column in enumerate(columns) if _is_across(column, region)] or range(len(columns))
        above = [at for at in there if columns[at][0].base <= region.top + 2]
        placed.setdefault(max(above, default=min(there, default=0)), []).append(region)
    for number, column in enumerate(columns):
        blocks += _with_placed(column, placed.pop(number, []), page, look)
    return blocks + [region.block for region in placed.get(0, ())]


def _is_across(lines: Sequence[Segment], region: Region) -> bool:
    """Return whether a table or a picture lies within the width of a column."""
    x0, x1 = min(line.x0 for line in lines) - 20, max(line.x1 for line in lines) + 20
    return x0 <= (region.x0 + region.x1) / 2 <= x1


def _with_placed(lines: Sequence[Segment], here: list[Region], page: PdfPage, look: Look) -> Iterator[MarkupElement]:
    """Iterate over the blocks of a column with its tables and pictures."""
    rest = list(lines)
    for each in here:
        yield from _blocks([line for line in rest if line.base <= each.top + 2], page, look)
        yield each.block
        rest = [line for line in rest if line.base > each.top + 2]
    yield from _blocks(rest, page, look)


def _blocks(lines: Sequence[Segment], page: PdfPage, look: Look) -> Iterator[MarkupElement]:
    """Iterate over the blocks formed by lines; consecutive items form a list."""
    merged = _merged_rows(lines, page, look)
    segments = [line for line in merged if isinstance(line, Segment)]
    right, body = max((line.x1 for line in segments), default=0.0), look.body
    steps = Counter(round(b.base - a.base) for a, b in pairwise(segments) if 0.8 * body < b.base - a.base < 2.2 * body)
    frequent = max(steps.values(), default=0) / 3  # on a sheet of exercises, more lines are apart than within one
    leading = float(min((step for step, count in steps.items() if count >= frequent), default=1.2 * body))
    drafts: list[_Draft | MarkupElement] = []
    for line in merged:
        last = drafts[-1] if drafts else None
        if isinstance(line, MarkupElement):
            drafts.append(line)
        elif isinstance(last, _Draft) and _goes_on(last, draft := _draft(line, page, look), leading, right):
            last.lines += draft.lines
        else:
            drafts.append(_draft(line, page, look))
    for is_list, run in groupby(drafts, lambda each: isinstance(each, _Draft) and each.kind == "item"):
        if is_list:
            yield from _lists([each for each in run if isinstance(each, _Draft)], look)
        for each in () if is_list else run:
            if isinstance(each, MarkupElement):
                yield each
            elif each.kind == "code":
                yield element("pre", code_lines([line.chars for line in each.lines]))
            else:
                is_heading = each.kind == "heading"
                nodes = inline_nodes([line.chars for line in each.lines], look.words, plain=is_heading)
                yield element(f"h{each.level}" if is_heading else "p", *nodes)


def _merged_rows(lines: Sequence[Segment], page: PdfPage, look: Look) -> list[Segment | MarkupElement]:
    """Merge segments side by side into tables, or into one line if they are not a table.

    Columns of code are a program's output, not a table.
    """
    rows = without_contents(rows_of(lines), look)
    merged, at = list[Segment | MarkupElement](), 0
    while at < len(rows):
        end = at
        while end < len(rows) and _is_table_row(rows[end], page, look):
            end += 1
        block = [segment for row in rows[at:end] for segment in row]
        table = aligned_table(block, look.words) if end - at >= 3 else None
        merged.append(_joined(rows[at]) if table is None else table)
        at = end if table is not None else at + 1
    return merged


def _joined(row: Sequence[Segment]) -> Segment:
    return make_segment([char for segment in row for char in segment.chars])


def _is_table_row(row: Sequence[Segment], page: PdfPage, look: Look) -> bool:
    marker = _MARKER.match(f"{row[0].text} ")
    is_item = marker is not None and (len(row) == 2 or not (marker["bullet"] or marker["capital"]))
    if len(row) < 2 or is_item or all(map(_is_code, row)):
        return False
    return not (re.match(r"[\dA-Z.]+\Z", row[0].text) and heading_level(_joined(row), page, look))


# -- blocks ----------------------------------------------------------------------------------------------


def _draft(line: Segment, page: PdfPage, look: Look) -> _Draft:
    """Return the block that a line begins or continues."""
    text = line.text.strip()
    level = heading_level(line, page, look)
    if level and line.text:
        return _Draft("heading", [line], level)
    if _is_code(line):
        return _Draft("code", [line])
    marker = _MARKER.match(text)
    if marker and re.match(r"[A-Z]\W", text):  # an item, or a name that begins with an initial
        last, first = line.chars[len(marker["capital"]) - 1 : len(marker["capital"]) + 1]
        marker = marker if first.x0 - last.x1 > _APART * line.style.size else None
    return _Draft("item", [line], marker=marker[0].strip()) if marker else _Draft("text", [line])


def _is_code(line: Segment) -> bool:
    return sum(char.style.mono for char in line.chars) > 0.8 * len(line.chars)


def _goes_on(draft: _Draft, after: _Draft, leading: float, right: float) -> bool:
    """Return whether a line, as a draft of its own, belongs to the block before it."""
    last, line, kinds = draft.lines[-1], after.lines[0], (draft.kind, after.kind)
    step, size = line.base - last.base, line.style.size
    if step <= 0 or step > 1.9 * max(leading, size):
        return kinds == ("code", "code") and 0 < step < 4 * leading
    if "heading" in kinds:
        same = kinds[0] == kinds[1] and draft.level == after.level and line.style == last.style
        is_aligned = min(abs(line.x0 - last.x0), abs(line.x0 + line.x1 - last.x0 - last.x1)) < size
        return same and is_aligned and len(draft.lines) < 3 and step < 1.6 * size
    full = last.x1 > right - 0.1 * (right - last.x0)
    if kinds[1] == "code" != kinds[0]:  # the end of a sentence, or code of its own
        return step < 1.15 * leading and full and line.x0 < last.x0 + 2
    if "code" in kinds:
        return kinds[0] == kinds[1]
    if kinds[1] == "item":  # a dash at the beginning of a line may be within a sentence
        return (
            draft.marker != after.marker
            and line.text[0] in "–-*·"
            and full
            and step < 1.35 * leading
            and abs(line.x0 - last.x0) < 2
        )
    first = draft.lines[0].x0
    if step > 1.35 * leading or draft.kind == "item":
        return step <= 1.35 * leading and line.x0 > first + 2
    indented = line.x0 > last.x0 + 0.8 * size and line.x0 > first + 0.8 * size
    short = last.x1 < right - 0.15 * (right - last.x0)
    return not (last.text.rstrip().endswith(_SENTENCE_END) and (short or indented))


def _lists(items: Sequence[_Draft], look: Look) -> Iterator[MarkupElement]:
    """Iterate over the lists that items form; those further right form nested lists, another kind of marks begins
    another list."""
    left = items[0].lines[0].x0 + 6
    starts = [at for at, item in enumerate(items) if not at or item.lines[0].x0 <= left]
    children: list[MarkupElement] = []
    tag, attributes = numbering(items[0].marker)
    for at, end in pairwise([*starts, len(items)]):
        inner = _lists(items[at + 1 : end], look) if end > at + 1 else ()
        first, *others = (line.chars for line in items[at].lines)
        text = inline_nodes([first[len(items[at].marker) :], *others], look.words)
        if not _continues(items[at].marker, tag, attributes, len(children)):
            yield MarkupElement(tag, attributes, tuple(children))
            children, (tag, attributes) = [], numbering(items[at].marker)
        children.append(element("li", *text, *inner))
    yield MarkupElement(tag, attributes, tuple(children))


def _continues(marker: str, tag: str, attributes: Mapping[str, str], count: int) -> bool:
    """Return whether a marker can be that of the next item of a list with so many items."""
    next_tag, its = numbering(marker)
    if not count or tag != next_tag or tag == "ul":
        return not count or tag == next_tag
    if (type := attributes.get("type", "")) == its.get("type", ""):
        return bool(type) or int(its["start"]) == int(attributes["start"]) + count
    return (type.lower(), marker.strip("().").lower()) in (("a", "i"), ("i", "v"), ("i", "x"))


def numbering(marker: str) -> tuple[str, dict[str, str]]:
    """Return the tag and the attributes of a list whose first item has a marker.

    >>> numbering("3."), numbering("b)"), numbering("ii."), numbering("–")
    (('ol', {'start': '3'}), ('ol', {'start': '2', 'type': 'a'}), ('ol', {'start': '2', 'type': 'i'}), ('ul', {}))
    """
    name = marker.strip("().")
    lower, types = name.lower(), "IA" if name.isupper() else "ia"
    if name.isdigit():
        return "ol", {"start": name}
    if lower in _ROMAN and lower not in ("v", "x"):
        return "ol", {"start": str(_ROMAN.index(lower) + 1), "type": types[0]}
    if len(lower) == 1 and "a" <= lower <= "z":
        return "ol", {"start": str(ord(lower) - 96), "type": types[1]}
    return "ul", {}


# -- tables ----------------------------------------------------------------------------------------
# By drawn lines, or by cells aligned in columns.

_NEAR = 3.0
_MAX_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Region:
    """A table or a picture, and its area on the page."""

    x0: float
    top: float
    x1: float
    bottom: float
    block: MarkupElement

    def holds(self, char: Char) -> bool:
        """Return whether a character is inside the area."""
        middle = (char.x0 + char.x1) / 2
        return self.x0 - 1 <= middle <= self.x1 + 1 and self.top - 1 <= (char.top + char.bottom) / 2 <= self.bottom + 1


def tables_of(page: PdfPage, words: Words) -> list[Region]:
    """Return the tables of a page: those with a grid of lines, then those between rules, as in books."""
    found = list(_grids(page, words))
    inside = [char for char in page.chars if not any(region.holds(char) for region in found)]
    return found + list(_ruled(page, inside, found, words))


# -- grids -----------------------------------------------------------------------------------------------


def _grids(page: PdfPage, words: Words) -> Iterable[Region]:
    for rules in _connected(page.rules):
        xs = _positions(rule.x0 for rule in rules if not rule.horizontal)
        ys = _positions(rule.y0 for rule in rules if rule.horizontal)
        if len(xs) < 2 or len(ys) < 3 or len(xs) + len(ys) < 6 or len(xs) > _MAX_COLUMNS:
            continue
        cells: dict[tuple[int, int], list[Char]] = {}
        for char in page.chars:
            column, row = _between(xs, (char.x0 + char.x1) / 2), _between(ys, (char.top + char.bottom) / 2)
            if column is not None and row is not None:
                cells.setdefault((row, column), []).append(char)
        if len({row for row, _ in cells}) < 2 or len({column for _, column in cells}) < 2:
            continue
        columns = range(len(xs) - 1)
        rows = [[_cell(segments_of(cells.get((r, c), [])), words) for c in columns] for r in range(len(ys) - 1)]
        first, second = ([char.style.bold for c in columns for char in cells.get((r, c), ())] for r in (0, 1))
        is_head = bool(first) and all(first) and not (second and all(second))
        yield Region(xs[0], ys[0], xs[-1], ys[-1], _table(rows, head=is_head))


def _connected(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Group lines that touch or cross each other."""
    groups: list[list[Rule]] = []
    for a in rules[:3_000]:
        x0, x1, y0, y1 = a.x0 - _NEAR, a.x1 + _NEAR, a.y0 - _NEAR, a.y1 + _NEAR
        touching = [
            group for group in groups if any(x0 <= b.x1 and b.x0 <= x1 and y0 <= b.y1 and b.y0 <= y1 for b in group)
        ]
        groups = [group for group in groups if group not in touching]
        groups.append([a, *chain.from_iterable(touching)])
    return groups


def _positions(values: Iterable[float]) -> list[float]:
    """Return the distinct positions, treating those that nearly coincide as one."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] > _NEAR:
            found.append(value)
    return found


def _between(positions: Sequence[float], value: float) -> int | None:
    return next((i for i, (a, b) in enumerate(pairwise(positions)) if a <= value < b), None)


# -- columns between rules -------------------------------------------------------------------------------


def _ruled(page: PdfPage, chars: Sequence[Char], found: Sequence[Region], words: Words) -> Iterable[Region]:
    """Iterate over tables between horizontal rules of equal width: at the top, below the header, and at the bottom."""
    rules = sorted((r for r in page.rules if r.horizontal and r.x1 - r.x0 > 40), key=lambda r: (r.y0, r.x0))
    used: set[int] = set()
    for number, first in enumerate(rules):
        if number in used or any(region.top - 2 <= first.y0 <= region.bottom + 2 for region in found):
            continue
        same = [i for i in range(number + 1, len(rules)) if abs(rules[i].x0 - first.x0) < _NEAR
                and abs(rules[i].x1 - first.x1) < _NEAR]  # fmt: skip
        if not same:
            continue
        last = rules[same[min(1, len(same) - 1)] if len(same) < 3 else same[-1]]
        inner = [
            c for c in chars if first.y0 < (c.top + c.bottom) / 2 < last.y0 and first.x0 - 2 <= c.x0 <= first.x1 + 2
        ]
        middle = rules[same[0]].y0 if len(same) > 1 else None
        table = aligned_table(segments_of(inner), words, head_above=middle)
        if table is not None:
            used |= {number, *same}
            yield Region(first.x0, first.y0, first.x1, last.y0, table)


def aligned_table(
    segments: Sequence[Segment], words: Words, *, head_above: float | None = None
) -> MarkupElement | None:
    """Return a table of segments aligned in columns, None if they are not; rows above `head_above` are the header."""
    columns = columns_of(segments)
    if not 2 <= len(columns) <= _MAX_COLUMNS:
        return None
    rows: list[tuple[float, list[list[Segment]]]] = []
    for segment in segments:
        column = next(i for i, (x0, x1) in enumerate(columns) if x0 <= segment.x0 and segment.x1 <= x1)
        if not rows or segment.base - rows[-1][0] > 0.5 * segment.style.size:
            rows.append((segment.base, [[] for _ in columns]))
        rows[-1][1][column].append(segment)
    rows = _with_continued(rows)
    if len(rows) < 2 or sum(sum(1 for cell in row if cell) >= 2 for _, row in rows) < max(2, 0.6 * len(rows)):
        return None
    heads = sum(1 for base, _ in rows if head_above is not None and base < head_above)
    cells = [[_cell(cell, words) for cell in row] for _, row in rows]
    bold, below = (all(segment.style.bold for cell in row for segment in cell) for _, row in rows[:2])
    return _table(cells, head=heads == 1 or (bold and not below))


def columns_of(segments: Sequence[Segment]) -> list[tuple[float, float]]:
    """Return the columns of segments: horizontal ranges of the page separated by empty space."""
    columns: list[tuple[float, float]] = []
    for segment in sorted(segments, key=lambda s: s.x0):
        if columns and segment.x0 < columns[-1][1] + 1:
            columns[-1] = (columns[-1][0], max(columns[-1][1], segment.x1))
        else:
            columns.append((segment.x0, segment.x1))
    return columns


def _with_continued(rows: Sequence[tuple[float, list[list[Segment]]]]) -> list[tuple[float, list[list[Segment]]]]:
    """Merge further lines of cells into their rows: a row with an empty first cell continues the one before."""
    steps = sorted(b[0] - a[0] for a, b in pairwise(rows))
    usual = steps[0] if steps else 0.0
    merged: list[tuple[float, list[list[Segment]]]] = []
    last = 0.0
    for base, cells in rows:
        if merged and not cells[0] and base - last < 1.3 * usual and sum(map(bool, cells)) < len(cells) - 1:
            merged[-1] = (merged[-1][0], [old + new for old, new in zip(merged[-1][1], cells, strict=True)])
        else:
            merged.append((base, cells))
        last = base
    return merged


# -- cells -----------------------------------------------------------------------------------------------


def _cell(segments: Sequence[Segment], words: Words) -> MarkupElement:
    return element("td", *inline_nodes([segment.chars for segment in segments], words))


def _table(rows: Sequence[Sequence[MarkupElement]], *, head: bool) -> MarkupElement:
    lines = [element("tr", *row) for row in rows]
    if head:  # already bold as a header
        texts = ([node.children if isinstance(node, MarkupElement) and node.tag == "strong" else (node,)
                  for node in cell.children] for cell in rows[0])  # fmt: skip
        lines[0] = element("tr", *(element("th", *chain.from_iterable(parts)) for parts in texts))
    return element("table", *lines)


# -- reading order ---------------------------------------------------------------------------------

# Positions where gutters are looked for, as fractions of the page's width: halves first, then thirds.
_PLACES = (0.5, 0.48, 0.52, 0.35, 0.65, 0.33, 0.67, 0.4, 0.6, 0.45, 0.55)
_FEWEST = 6  # minimum number of lines in a column
_MOST_OF_SLIDE = 100  # lines and cells; a page with more is a table or a sheet


def columns_in_order(
    lines: Sequence[Segment], width: float, *, slide: bool = False, known: float | None = None
) -> list[list[Segment]]:
    """Split the lines of a page of this width into groups, in reading order; `known` is the gutter of other pages.

    A line across both columns divides the page: both columns above it are read first.
    """
    if slide and len(lines) < _MOST_OF_SLIDE:
        usual = sorted(line.style.size for line in lines)[len(lines) // 2] if lines else 0.0
        large = takewhile(lambda row: len(row) == 1 and row[0].style.size > _NOT_LARGER * usual, rows_of(lines))
        title = [row[0] for row in large]
        gutter, lines = _gutter_of_slide(lines[len(title) :])
    else:
        title, gutter = [], _gutter(lines, width)
    if gutter is None and known is not None and (sides := _sides(lines, known, 0)) and _is_prose(sides[0]):
        gutter = known
    if gutter is None:
        return [[*title, *lines]]
    bands: list[tuple[list[Segment], list[Segment], list[Segment]]] = [(title, [], [])]
    for line in lines:
        wide, left, right = bands[-1]
        if not line.x0 < gutter < line.x1:
            (left if line.x1 <= gutter else right).append(line)
        elif left or right:
            bands.append(([line], [], []))
        else:
            wide.append(line)
    parts = ((wide, *columns_in_order(left, width, slide=slide), *columns_in_order(right, width, slide=slide))
             for wide, left, right in bands)  # fmt: skip
    return [part for band in parts for part in band if part]


def _sides(lines: Sequence[Segment], x: float, fewest: int) -> tuple[list[Segment], list[Segment]] | None:
    """Return the lines on both sides of a position, None if one side has too few, or if too many lines cross it."""
    left, right = [line for line in lines if line.x1 <= x], [line for line in lines if line.x0 >= x]
    crossing = len(lines) - len(left) - len(right)
    is_gutter = min(len(left), len(right)) >= max(fewest, 1) and crossing <= max(fewest < _FEWEST, 0.25 * len(lines))
    return (left, right) if is_gutter else None


def _is_prose(lines: Sequence[Segment]) -> bool:
    """Return whether lines are long, and many fill their column, unlike cells of a table."""
    span = max(line.x1 for line in lines) - min(line.x0 for line in lines)
    full = sum(line.x1 - line.x0 > 0.7 * span for line in lines)
    return full >= 0.3 * len(lines) and sum(len(line.text) for line in lines) >= 22 * len(lines)


def _gutter(lines: Sequence[Segment], width: float) -> float | None:
    """Return the position that divides the page into columns: few lines cross it, and those beside it are prose, or
    code."""
    for x in (place * width for place in _PLACES):
        if (sides := _sides(lines, x, _FEWEST)) is None:
            continue
        prose = [[line for line in side if not _is_code(line)] for side in sides]
        if max(map(len, prose)) >= _FEWEST and all(not side or _is_prose(side) for side in prose):
            return x
    return None


def _gutter_of_slide(lines: Sequence[Segment]) -> tuple[float | None, Sequence[Segment]]:
    """Return the position that divides a slide, which has few lines, into columns, and its lines, divided there: no
    line beside the right column crosses it, and on both sides are lists or wrapped text, or lines at different heights,
    unlike rows of a table."""
    for x in sorted({int(line.x0) - 1 for line in lines}):
        right = [line for line in lines if line.x0 >= x]
        top, bottom = min(line.top for line in right), max(line.bottom for line in right)
        parted = [
            part for line in lines for part in (_parted(line, x) if line.bottom > top and line.top < bottom else [line])
        ]
        near = [line for line in parted if line.bottom > top and line.top < bottom]
        sides = [line for line in near if line.x1 <= x], [line for line in near if line.x0 >= x]
        words = [
            max((len(line.text) for line in side if _is_wording(line.text.lstrip("•▪– "))), default=0) for side in sides
        ]
        if not min(words) or len(near) - sum(map(len, sides)) > 0.25 * len(near):
            continue
        beside = [(a, b) for a in sides[0] for b in sides[1] if a.top < b.bottom and b.top < a.bottom]
        is_offset = any(abs(a.base - b.base) > 0.2 * a.style.size for a, b in beside)
        if beside and (
            (is_offset and min(words) >= 10)
            or (
                all(map(_is_wrapped, sides))
                and any(line.text[:1].islower() or _MARKER.match(line.text) for line in near)
            )
        ):
            return x, parted
    return None, lines


def _parted(line: Segment, x: float) -> list[Segment]:
    """Return a line, or its two parts if a word begins at a position."""
    at = next((at for at, char in enumerate(line.chars) if char.x0 >= x), 0)
    if not at or line.chars[at].x0 > x + 3 or not needs_space(line.chars[at - 1], line.chars[at]):
        return [line]
    return [make_segment(line.chars[:at]), make_segment(line.chars[at:])]


def _is_wrapped(lines: Sequence[Segment]) -> bool:
    """Return whether most lines are items, or begin with a word that the line before has no room for, unlike cells of a
    table."""
    joined, right = [_joined(row) for row in rows_of(lines)], max(line.x1 for line in lines)
    items = [(mark := _MARKER.match(f"{line.text} ")) is not None and bool(mark["bullet"]) for line in joined]
    firsts = [(line.x1 - line.x0) * (len(line.text.split(" ")[0]) + 1) / len(line.text) for line in joined]
    full = sum(item or a.x1 + first > right for a, first, item in zip(joined, firsts[1:], items[1:], strict=False))
    is_long = sum(len(line.text) for line in joined) >= 12 * len(joined)
    return full >= max(1, 0.6 * (len(joined) - 1)) and (is_long or any(items))
