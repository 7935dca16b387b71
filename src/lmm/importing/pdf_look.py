"""How a document is set, which shows only over its pages: sizes of headings, running heads, tables of contents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lmm.importing.pdf_lines import NO_WORDS, Segment, Words, segments_of
from lmm.importing.pdf_page import Bookmark, PdfPage

_SECTION = re.compile(
    r"(?:(?:chapter|part|appendix|kapitel|teil)\s+)?(\d{1,2}(?:\.\d{1,2})*|[A-Z](?:\.\d{1,2})+)\.?\s+\S", re.I
)
_LARGE, _LARGER = 1.12, 1.3  # times the size of the text: of headings in bold or with a number, of others
_LEADERS = re.compile(r"(?:\.[ ]?){4,}\s*(?:\d+|[ivxlc]+)?\s*\Z")
_CONTENTS = (
    *("contents", "table of contents", "inhalt", "inhaltsverzeichnis", "table des matières", "table des matieres"),
    *("sommaire", "índice", "indice"),
)
_PAGE_NUMBER = re.compile(
    r"[-–\s]*+(?:page|seite|p\.)?\s*(\d{1,4}|[ivxlc]{1,6})(?:\s*(?:/|of|von)\s*\d{1,4})?[-–\s]*+", re.I
)
_EDGE = 0.11  # of the page's height: where running heads stand


@dataclass(frozen=True, slots=True)
class Look:
    """How the document is set: the sizes of text and headings, its outline, what runs on every page."""

    body: float
    sizes: tuple[int, ...] = ()  # of headings, the largest first
    outline: Mapping[tuple[int, str], int] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    words: Words = NO_WORDS
    lines: Mapping[int, Sequence[Segment]] = field(default_factory=dict)  # of each page


def look_of(pages: Sequence[PdfPage], outline: Sequence[Bookmark]) -> Look:
    """What can only be seen from all pages."""
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
    return Look(body, ranked, entries, running=_running(pages, lines), words=words, lines=lines)


def _running(pages: Sequence[PdfPage], lines: Mapping[int, Sequence[Segment]]) -> frozenset[str]:
    """Heads and feet: lines near the edge of the paper that stand on several pages, apart from numbers."""
    seen: Counter[str] = Counter()
    for page in pages:
        rows = rows_of([line for line in lines[page.number] if _at_edge(page, line)])
        seen.update({_without_digits(text_of_row(row)) for row in rows})
    enough = max(2, min(4, len(pages) // 3))
    return frozenset(text for text, count in seen.items() if count >= enough)


def rows_of(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Segments that stand side by side."""
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


def _without_digits(text: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", text.strip())


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def _without_number(text: str) -> str:
    number = _SECTION.match(text)
    return text[number.end(1) :].lstrip(". ") if number else text


def heading_level(segment: Segment, page: PdfPage, look: Look) -> int:
    """The level of a heading, or 0 if a line is none: by the outline, else by its looks."""
    text = segment.text.strip()
    for title in (text, _without_number(text)):
        if level := look.outline.get((page.number, _letters(title)), 0):
            return level
    if look.outline and segment.style.size < _LARGER * look.body:
        return 0
    return _level(segment, look) if _looks_like_heading(segment, look.body) else 0


def _level(segment: Segment, look: Look) -> int:
    """A heading's level: its size's rank, bold headings of the text's size below them, and how deep it is numbered."""
    size = round(segment.style.size)
    large = segment.style.size >= _LARGE * look.body and size in look.sizes
    rank = look.sizes.index(size) + 1 if large else len(look.sizes) + 1
    number = _SECTION.match(segment.text)
    depth = number[1].count(".") if number and not large else 0
    return min(6, rank + max(0, depth - 1))


def _looks_like_heading(segment: Segment, body: float) -> bool:
    text = segment.text.strip()
    if not 2 <= len(text) <= 150 or not re.search(r"[^\W\d_]{2}", text) or segment.style.mono:
        return False
    numbered = _SECTION.match(text) is not None
    bold = all(char.style.bold for char in segment.chars if char.text.isalnum())
    if segment.style.size >= (_LARGE if bold or numbered else _LARGER) * body:
        return not text.endswith((",", ";")) and (bold or numbered or segment.style.size >= _LARGER * body)
    small = segment.style.size < 0.95 * body or len(text) > 90
    return bold and not small and (numbered or not text.endswith((".", ",", ";", ":")))


def without_running(page: PdfPage, rows: Sequence[Sequence[Segment]], look: Look) -> list[Segment]:
    """The lines of a page without running heads and its number."""
    kept: list[Segment] = []
    for place, row in enumerate(rows):
        text = text_of_row(row).strip()
        if _at_edge(page, row[0]) and (_PAGE_NUMBER.fullmatch(text) or _without_digits(text) in look.running):
            continue
        if place in (0, len(rows) - 1) and text.isdigit() and len(text) < 5:
            continue
        kept += row
    return kept


def without_contents(rows: Sequence[list[Segment]]) -> list[list[Segment]]:
    """Rows without a table of contents: the headings say it again. Its lines end in dots and the page's number."""
    texts = [text_of_row(row) for row in rows]
    dotted = [number for number, text in enumerate(texts) if _LEADERS.search(text)]
    if len(dotted) < 3:
        return list(rows)
    first, last = dotted[0], dotted[-1]
    while first and re.search(r"\s\d{1,3}\Z", texts[first - 1]):
        first -= 1
    while last + 1 < len(rows) and re.match(r"\d[\d.]*\s.*\s\d{1,3}\Z", texts[last + 1]):
        last += 1
    if first and texts[first - 1].strip().lower() in _CONTENTS:
        first -= 1
    kept = [
        number
        for number in range(first, last + 1)
        if number not in dotted and not re.search(r"\s\d{1,3}\Z", texts[number])
    ]
    return [*rows[:first], *(rows[n] for n in kept if texts[n].strip().lower() not in _CONTENTS), *rows[last + 1 :]]
