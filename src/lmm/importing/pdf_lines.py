"""Assembling characters into lines: words, spaces, sub- and superscript, bold and code, joined across line ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from lmm.importing.elements import MarkupElement, Node
from lmm.importing.pdf_page import Bookmark, Char, PdfPage, Style

_SPACE = 0.18  # fraction of the font size: narrower is kerning, wider is a space
_GAP = 0.9  # wider is a gap between columns
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "ft", "ﬆ": "st"})
_SMALL = 0.85
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
_EDGE = 0.11  # fraction of the page's height with running heads
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
    found = [segment for row in _rows(chars) for segment in _split(row)]
    return sorted(found, key=lambda s: (round(s.base), s.x0))


def _rows(chars: Iterable[Char]) -> list[list[Char]]:
    """Group characters by base line, each from left to right, with their sub- and superscripts."""
    rows: list[list[Char]] = []
    for char in sorted(chars, key=lambda c: (c.base, c.x0)):
        if rows and char.base - rows[-1][-1].base < 0.12 * char.style.size:
            rows[-1].append(char)
        else:
            rows.append([char])
    return [sorted(row, key=lambda c: c.x0) for row in _with_scripts(rows)]


def _with_scripts(rows: list[list[Char]]) -> list[list[Char]]:
    """Move small letters beside letters of a neighbouring row into that row."""
    for number, row in enumerate(rows):
        near = [other for other in rows[max(0, number - 3) : number + 4] if other is not row]
        for char in [char for char in row if any(_is_script(char, other) for other in near)]:
            host = next(other for other in near if _is_script(char, other))
            row.remove(char)
            host.append(char)
    return [row for row in rows if row]


def _is_script(char: Char, row: Sequence[Char]) -> bool:
    """Return whether a character is a sub- or superscript in a row."""
    if (
        not row
        or char.style.size >= _SMALL * row[0].style.size
        or abs(char.base - row[0].base) > 0.6 * row[0].style.size
    ):
        return False
    reach = 0.3 * row[0].style.size
    return any(-reach < char.x0 - other.x1 < reach or -reach < other.x0 - char.x1 < reach for other in row)


def _split(row: Sequence[Char]) -> Iterator[Segment]:
    """Split a row at its wide gaps."""
    part: list[Char] = []
    for char in row:
        if part and char.x0 - part[-1].x1 > _GAP * max(char.style.size, part[-1].style.size):
            yield make_segment(part)
            part = []
        part.append(char)
    if part:
        yield make_segment(part)


def make_segment(chars: Sequence[Char]) -> Segment:
    """Make a segment of characters, given from left to right."""
    style = _main_style(chars)
    base = next(char.base for char in chars if char.style == style)
    return Segment(tuple(chars), style, base, "".join(_spaced(chars)))


def _main_style(chars: Sequence[Char]) -> Style:
    first = chars[0].style
    if all(char.style is first for char in chars):
        return first
    return Counter(char.style for char in chars).most_common(1)[0][0]


def _spaced(chars: Sequence[Char]) -> Iterator[str]:
    before: Char | None = None
    for char in chars:
        if before is not None and needs_space(before, char):
            yield " "
        yield char.text.translate(_LIGATURES)
        before = char


def needs_space(before: Char, char: Char) -> bool:
    """Return whether there is a space between two neighbours on a line. The threshold is higher in monospaced fonts,
    and for Arabic and Hebrew, whose letters do not all touch."""
    if char.spaced:
        return True
    size = max(before.style.size, char.style.size)
    wide = 0.35 if char.style.mono and before.style.mono else 0.26 if "\u0590" <= char.text <= "\u08ff" else _SPACE
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
    return tuple(_wrapped(format, text) for format, text in runs if text)


def _runs(line: Sequence[Char], plain: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """Iterate over the pieces of a line with the same format."""
    if not line:
        return
    main = _main_style(line)
    base = next(char.base for char in line if char.style == main)
    formats = [_format(char, main, base, plain) for char in line]
    at = 0
    for format, group in groupby(formats):
        size = len(list(group))
        part = line[at : at + size]
        if "em" in format and not re.search(r"[^\W\d_]{2}", "".join(char.text for char in part)):
            format = tuple(name for name in format if name != "em")  # a letter of a formula
        if at and needs_space(line[at - 1], part[0]):
            yield (), " "
        yield format, "".join(_spaced(part))
        at += size


def _format(char: Char, main: Style, base: float, plain: bool) -> tuple[str, ...]:
    style, formats = char.style, []
    if char.link:
        formats.append(f"a {char.link}")
    if style.size < _SMALL * main.size:
        rise = base - char.base
        if abs(rise) > 0.06 * main.size:
            formats.append("sup" if rise > 0 else "sub")
    if style.mono and not (plain and main.mono):
        formats.append("code")
    elif not plain:
        formats += [name for name, on in (("strong", style.bold), ("em", style.italic)) if on]
    return tuple(formats)


def _wrapped(format: tuple[str, ...], text: str) -> Node:
    node: Node = text
    for name in reversed(format):
        tag, _, target = name.partition(" ")
        node = MarkupElement(tag, {"href": target} if target else {}, (node,))
    return node


# -- code ------------------------------------------------------------------------------------------------


def code_lines(lines: Sequence[Sequence[Char]]) -> str:
    """Return lines in a monospaced font as code, with indentation computed from the positions of the characters."""
    full = [[char for char in line if char.text.strip()] for line in lines]
    printed = [line for line in full if line]
    if not printed:
        return ""
    width = sorted(char.x1 - char.x0 for line in printed for char in line)[sum(map(len, printed)) // 2] or 1.0
    left = min(line[0].x0 for line in printed)
    size = printed[0][0].style.size
    step = min((b[0].base - a[0].base for a, b in pairwise(printed)), default=0.0)
    step = step if 1 < step < 1.8 * size else 1.25 * size
    written: list[str] = []
    last: float | None = None
    for line in printed:
        if last is not None and step:
            written += [""] * min(2, round((line[0].base - last) / step) - 1)
        written.append(_code_line(line, left, width))
        last = line[0].base
    return "\n".join(written)


def _code_line(line: Sequence[Char], left: float, width: float) -> str:
    text = ""
    for char in line:
        column = round((char.x0 - left) / width)
        text += " " * max(0, min(column, 200) - len(text)) + char.text
    return text


# -- typography of a document ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The typography of a document: the sizes of text and headings, its outline, its running heads.

    `left_out` collects the texts that are not written, by kind.
    """

    body: float
    sizes: tuple[int, ...] = ()  # of headings, the largest first
    outline: Mapping[tuple[int, str], int] = field(default_factory=dict)
    running: frozenset[Head] = frozenset()
    words: Words = NO_WORDS
    lines: Mapping[int, Sequence[Segment]] = field(default_factory=dict)  # of each page
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, kind: str, text: str) -> None:
        """Note that a text is not written."""
        self.left_out.setdefault(kind, []).append(text)


def look_of(pages: Sequence[PdfPage], outline: Sequence[Bookmark]) -> Look:
    """Determine the typography of a document from all pages."""
    counts: Counter[float] = Counter()
    for page in pages:
        counts.update(char.style.size for char in page.chars if not char.style.mono)
    body = counts.most_common(1)[0][0] if counts else 10.0
    lines = {page.number: segments_of(page.chars) for page in pages}
    every = [segment for segments in lines.values() for segment in segments]
    words = Words(segment.text for segment in every)
    entries = {(mark.page, _letters(mark.title)): min(6, mark.level) for mark in outline if _letters(mark.title)}
    headings = (segment for segment in every if _looks_like_heading(segment, body))
    sizes = {round(heading.style.size) for heading in headings if heading.style.size >= _LARGE * body}
    ranked = tuple(sorted(sizes, reverse=True))
    return Look(body, ranked, entries, running=_running(pages, lines, body), words=words, lines=lines)


def _running(pages: Sequence[PdfPage], lines: Mapping[int, Sequence[Segment]], body: float) -> frozenset[Head]:
    """Return running heads and feet: lines near the edge that are not larger than the text, equal on several pages
    except for the page number, and at a height where most pages have such a line. Titles of exercises and slides,
    which only begin alike, are none."""
    seen: dict[Head, set[int]] = {}
    for page in pages:
        for row in rows_of([line for line in lines[page.number] if _at_edge(page, line)]):
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


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def _without_number(text: str) -> str:
    number = _SECTION.match(text)
    return text[number.end(1) :].lstrip(". ") if number else text


def heading_level(segment: Segment, page: PdfPage, look: Look) -> int:
    """Return the level of a heading, or 0 if a line is not a heading: by the outline, else by its typography."""
    text = segment.text.strip()
    for title in (text, _without_number(text)):
        if level := look.outline.get((page.number, _letters(title)), 0):
            return level
    if look.outline and segment.style.size < _LARGER * look.body:
        return 0
    return _level(segment, look) if _looks_like_heading(segment, look.body) else 0


def _level(segment: Segment, look: Look) -> int:
    """Return a heading's level: the rank of its size (bold ones in text size come last), and its numbering depth."""
    size = round(segment.style.size)
    large = segment.style.size >= _LARGE * look.body and size in look.sizes
    rank = look.sizes.index(size) + 1 if large else len(look.sizes) + 1
    number = _SECTION.match(segment.text)
    depth = number[1].count(".") if number and not large else 0
    return min(6, rank + max(0, depth - 1))


def _looks_like_heading(segment: Segment, body: float) -> bool:
    text = segment.text.strip()
    if not 2 <= len(text) <= 150 or text[0] in "•‣▪–" or not re.search(r"[^\W\d_]{2}", text) or segment.style.mono:
        return False
    numbered = _SECTION.match(text) is not None
    bold = all(char.style.bold for char in segment.chars if char.text.isalnum())
    if segment.style.size >= (_LARGE if bold or numbered else _LARGER) * body:
        return not text.endswith((",", ";")) and (bold or numbered or segment.style.size >= _LARGER * body)
    small = segment.style.size < 0.95 * body or len(text) > 90
    return bold and not small and (numbered or not text.endswith((".", ",", ";", ":")))


def without_running(page: PdfPage, rows: Sequence[Sequence[Segment]], look: Look) -> list[Segment]:
    """Remove running heads and the page number from the lines of a page."""
    kept: list[Segment] = []
    for place, row in enumerate(rows):
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
