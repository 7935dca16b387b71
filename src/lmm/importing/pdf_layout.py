"""Pages without structure, such as LaTeX makes: headings, paragraphs, lists, code and tables by how they look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lmm.importing.elements import Element, element
from lmm.importing.imported import IMAGE
from lmm.importing.pdf_lines import NO_WORDS, Segment, Words, code_lines, inline_nodes, make_segment, segments_of
from lmm.importing.pdf_page import Bookmark, Page, Picture
from lmm.importing.pdf_tables import Region, aligned_table, columns_of, tables_of

_BULLET = re.compile(r"[•◦▪‣●○■□–*·\uf0b7\uf0a7\uf0d8\u2013-]\s|[•◦▪‣●○■\uf0b7\uf0a7\uf0d8]")
_NUMBER = re.compile(r"\(?(\d{1,3}|[a-z])[.)]\s")
_SECTION = re.compile(
    r"(?:(?:chapter|part|appendix|kapitel|teil)\s+)?(\d{1,2}(?:\.\d{1,2})*|[A-Z](?:\.\d{1,2})+)\.?\s+\S", re.I
)
_SENTENCE_END = (".", "!", "?", ":", ";", "”", '"', ")")
_LARGE, _LARGER = 1.12, 1.3  # times the size of the text: of headings in bold or with a number, of others
_LEADERS = re.compile(r"(?:\.[ ]?){4,}\s*(?:\d+|[ivxlc]+)?\s*\Z")
_CONTENTS = re.compile(
    r"(?:table of )?contents|inhalt(?:sverzeichnis)?|table des mati[èe]res|sommaire|[íi]ndice|indice", re.I
)
_PAGE_NUMBER = re.compile(
    r"[-–\s]*(?:page|seite|p\.)?\s*(\d{1,4}|[ivxlc]{1,6})\s*(?:(?:/|of|von)\s*\d{1,4})?[-–\s]*", re.I
)
_EDGE = 0.11  # of the page's height: where running heads stand


@dataclass(frozen=True, slots=True)
class Look:
    """How the document is set: the size of its text, the sizes of its headings, its outline, what runs on every page."""

    body: float
    sizes: tuple[int, ...] = ()  # of headings, the largest first
    outline: Mapping[tuple[int, str], int] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    words: Words = NO_WORDS
    lines: Mapping[int, Sequence[Segment]] = field(default_factory=dict)  # of each page


def look_of(pages: Sequence[Page], outline: Sequence[Bookmark]) -> Look:
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
    return Look(body, tuple(sorted(sizes, reverse=True)), entries, _running(pages, lines), words, lines)


def _running(pages: Sequence[Page], lines: Mapping[int, Sequence[Segment]]) -> frozenset[str]:
    """Heads and feet: lines near the edge of the paper that stand on several pages, apart from numbers."""
    seen: Counter[str] = Counter()
    for page in pages:
        rows = rows_of([line for line in lines[page.number] if _at_edge(page, line)])
        seen.update({_without_digits(_text_of(row)) for row in rows})
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


def _text_of(row: Sequence[Segment]) -> str:
    return " ".join(segment.text for segment in row)


def _at_edge(page: Page, segment: Segment) -> bool:
    return segment.bottom < _EDGE * page.height or segment.top > (1 - _EDGE) * page.height


def _without_digits(text: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", text.strip())


def _letters(text: str) -> str:
    return "".join(re.findall(r"\w", text)).lower()


def _without_number(text: str) -> str:
    number = _SECTION.match(text)
    return text[number.end(1) :].lstrip(". ") if number else text


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


# -- a page ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A block that is being put together from lines."""

    kind: str
    lines: list[Segment]
    level: int = 0
    marker: str = ""


def elements_of_layout(page: Page, look: Look) -> list[Element]:
    """The blocks of a page in reading order: columns from left to right, each from top to bottom."""
    regions = tables_of(page, look.words)
    segments = look.lines.get(page.number) or ()
    if regions:
        segments = segments_of(char for char in page.chars if not any(region.holds(char) for region in regions))
    lines = _without_running(page, rows_of(segments), look)
    blocks: list[Element] = []
    pictures = list(page.pictures)
    for column in _columns(lines, page.width):
        placed = _with_tables(column, regions, pictures, page, look)
        blocks += placed
    rest = [(region.top, region.table) for region in regions] + [(p.top, _image(p)) for p in pictures]
    return blocks + [block for _, block in sorted(rest, key=lambda pair: pair[0])]


def _without_running(page: Page, rows: Sequence[Sequence[Segment]], look: Look) -> list[Segment]:
    """The lines of a page without running heads and its number."""
    kept: list[Segment] = []
    for place, row in enumerate(rows):
        text = _text_of(row).strip()
        if _at_edge(page, row[0]) and (_PAGE_NUMBER.fullmatch(text) or _without_digits(text) in look.running):
            continue
        if place in (0, len(rows) - 1) and text.isdigit() and len(text) < 5:
            continue
        kept += row
    return kept


def _columns(lines: Sequence[Segment], width: float) -> list[list[Segment]]:
    """The lines of a page in columns, if most of it is set in two or three, else as one."""
    gutter = _gutter(lines, width)
    if gutter is None:
        return [list(lines)]
    bands: list[list[Segment]] = []
    left: list[Segment] = []
    right: list[Segment] = []
    for line in lines:
        if line.x0 < gutter < line.x1:  # from edge to edge: what stands above is read first
            bands += [left, right, [line]]
            left, right = [], []
        else:
            (left if line.x1 <= gutter else right).append(line)
    parts = [band for band in (*bands, left, right) if band]
    joined: list[list[Segment]] = []
    for band in parts:
        wide = band[0].x0 < gutter < band[0].x1
        if wide and joined and joined[-1][0].x0 < gutter < joined[-1][0].x1:
            joined[-1] += band
        else:
            joined.append(band)
    return [column for band in joined for column in ([band] if band[0].x0 < gutter < band[0].x1 else
            _columns(band, width) if len(band) < len(lines) else [band])]  # fmt: skip


def _gutter(lines: Sequence[Segment], width: float) -> float | None:
    """Where the page parts into columns of text: few lines cross it, and those beside it are long."""
    if len(lines) < 12:
        return None
    for place in (0.5, 0.48, 0.52, 0.35, 0.65, 0.33, 0.67, 0.4, 0.6, 0.45, 0.55):
        x = place * width
        crossing = sum(line.x0 < x < line.x1 for line in lines)
        left = [line for line in lines if line.x1 <= x]
        right = [line for line in lines if line.x0 >= x]
        if min(len(left), len(right)) >= 6 and crossing <= 0.25 * len(lines) and _is_text(left) and _is_text(right):
            return x
    return None


def _is_text(lines: Sequence[Segment]) -> bool:
    """Whether most lines fill their column, as the cells of a table do not."""
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    full = sum(line.x1 - line.x0 > 0.7 * (x1 - x0) for line in lines)
    return full >= 0.5 * len(lines) and x1 - x0 > 80


def _with_tables(
    lines: Sequence[Segment], regions: list[Region], pictures: list[Picture], page: Page, look: Look
) -> list[Element]:
    """The blocks of a column with its tables and pictures between them, which are taken off the lists."""
    if not lines:
        return []
    x0, x1 = min(line.x0 for line in lines) - 20, max(line.x1 for line in lines) + 20
    here: list[tuple[float, Element]] = []
    for region in [r for r in regions if x0 <= (r.x0 + r.x1) / 2 <= x1]:
        here.append((region.top, region.table))
        regions.remove(region)
    for picture in [p for p in pictures if x0 <= (p.x0 + p.x1) / 2 <= x1]:
        here.append((picture.top, _image(picture)))
        pictures.remove(picture)
    here.sort(key=lambda pair: pair[0])
    blocks: list[Element] = []
    rest = list(lines)
    for top, inserted in here:
        above = [line for line in rest if line.base <= top + 2]
        rest = rest[len(above) :] if rest[: len(above)] == above else [line for line in rest if line not in above]
        blocks += [*_blocks(above, page, look), inserted]
    return blocks + _blocks(rest, page, look)


def _image(picture: Picture) -> Element:
    return element("p", element("img", src=f"{IMAGE}{picture.number}"))


def _blocks(lines: Sequence[Segment], page: Page, look: Look) -> list[Element]:
    drafts = list(_drafts(_merged_rows(lines, look), page, look))
    return list(_finished(drafts, look))


def _merged_rows(lines: Sequence[Segment], look: Look) -> list[Segment | Element]:
    """Lines, and tables made of those that stand side by side; what is side by side and no table is one line."""
    rows = _without_contents(rows_of(lines))
    merged: list[Segment | Element] = []
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and len(rows[end]) > 1 and not _is_item(rows[end]):
            end += 1
        block = [segment for row in rows[at:end] for segment in row]
        table = aligned_table(block, look.words) if end - at >= 3 and len(columns_of(block)) >= 2 else None
        if table is not None:
            merged.append(table)
            at = end
            continue
        merged.append(make_segment([char for segment in rows[at] for char in segment.chars]))
        at += 1
    return merged


def _without_contents(rows: Sequence[list[Segment]]) -> list[list[Segment]]:
    """Rows without a table of contents: the headings say it again. Its lines end in dots and the page's number."""
    texts = [_text_of(row) for row in rows]
    dotted = [number for number, text in enumerate(texts) if _LEADERS.search(text)]
    if len(dotted) < 3:
        return list(rows)
    first, last = dotted[0], dotted[-1]
    while first and re.search(r"\s\d{1,3}\Z", texts[first - 1]):
        first -= 1
    while last + 1 < len(rows) and re.match(r"\d[\d.]*\s.*\s\d{1,3}\Z", texts[last + 1]):
        last += 1
    if first and _CONTENTS.fullmatch(texts[first - 1].strip()):
        first -= 1
    kept = [
        number
        for number in range(first, last + 1)
        if number not in dotted and not re.search(r"\s\d{1,3}\Z", texts[number])
    ]
    return [*rows[:first], *(rows[n] for n in kept if not _CONTENTS.fullmatch(texts[n].strip())), *rows[last + 1 :]]


def _is_item(row: Sequence[Segment]) -> bool:
    return (
        len(row) == 2 and _BULLET.match(row[0].text + " ") is not None or _NUMBER.match(row[0].text + " ") is not None
    )


# -- blocks ----------------------------------------------------------------------------------------------


def _drafts(lines: Sequence[Segment | Element], page: Page, look: Look) -> Iterator[_Draft | Element]:
    """Lines put together into blocks."""
    segments = [line for line in lines if isinstance(line, Segment)]
    right = max((line.x1 for line in segments), default=0.0)
    leading = _leading(segments, look.body)
    draft: _Draft | None = None
    for line in lines:
        if isinstance(line, Element):
            if draft:
                yield draft
            draft = None
            yield line
            continue
        kind, level, marker = _kind(line, page, look)
        if draft and _goes_on(draft, line, kind, level, leading, right):
            draft.lines.append(line)
            continue
        if draft:
            yield draft
        draft = _Draft(kind, [line], level, marker)
    if draft:
        yield draft


def _kind(line: Segment, page: Page, look: Look) -> tuple[str, int, str]:
    """What a line begins, or goes on with: its kind, a heading's level, an item's marker."""
    text = line.text.strip()
    for title in (text, _without_number(text)):
        level = look.outline.get((page.number, _letters(title)), 0)
        if level:
            return "heading", level, ""
    if sum(char.style.mono for char in line.chars) > 0.8 * len(line.chars):
        return "code", 0, ""
    if _looks_like_heading(line, look.body) and not (look.outline and line.style.size < _LARGER * look.body):
        return "heading", _level(line, look), ""
    marker = _BULLET.match(text) or _NUMBER.match(text)
    return ("item", 0, marker[0].strip()) if marker else ("text", 0, "")


def _goes_on(draft: _Draft, line: Segment, kind: str, level: int, leading: float, right: float) -> bool:
    last = draft.lines[-1]
    step = line.base - last.base
    if step <= 0 or step > 1.9 * max(leading, line.style.size):
        return kind == draft.kind == "code" and 0 < step < 4 * leading
    if draft.kind == "heading" or kind == "heading":
        same = kind == draft.kind and level == draft.level and line.style == last.style
        return same and len(draft.lines) < 3 and step < 1.6 * line.style.size
    if kind == "code" and draft.kind in ("text", "item"):  # the end of a sentence, or code of its own
        return step < 1.15 * leading and last.x1 > right - 0.1 * (right - last.x0) and line.x0 < last.x0 + 2
    if draft.kind == "code" or kind == "code":
        return kind == draft.kind
    if kind == "item":  # a dash at the beginning of a line may stand within a sentence
        full = last.x1 > right - 0.1 * (right - last.x0)
        return line.text[0] in "–-*·" and full and step < 1.35 * leading and abs(line.x0 - last.x0) < 2
    if step > 1.35 * leading:
        return False
    if draft.kind == "item":
        return line.x0 > draft.lines[0].x0 + 2
    indented = line.x0 > last.x0 + 0.8 * line.style.size and line.x0 > draft.lines[0].x0 + 0.8 * line.style.size
    ended = last.text.rstrip().endswith(_SENTENCE_END) and last.x1 < right - 0.15 * (right - last.x0)
    return not (ended or (indented and last.text.rstrip().endswith(_SENTENCE_END)))


def _leading(lines: Sequence[Segment], body: float) -> float:
    """The usual distance of neighbouring lines."""
    steps = Counter(
        round(b.base - a.base)
        for a, b in zip(lines, lines[1:], strict=False)
        if 0.8 * body < b.base - a.base < 2.2 * body
    )
    return float(steps.most_common(1)[0][0]) if steps else 1.2 * body


def _finished(drafts: Sequence[_Draft | Element], look: Look) -> Iterator[Element]:
    """Drafts as elements; items that follow each other are a list."""
    items: list[_Draft] = []
    for draft in drafts:
        if isinstance(draft, _Draft) and draft.kind == "item":
            items.append(draft)
            continue
        if items:
            yield _list(items, look)
            items = []
        yield draft if isinstance(draft, Element) else _block(draft, look)
    if items:
        yield _list(items, look)


def _block(draft: _Draft, look: Look) -> Element:
    lines = [line.chars for line in draft.lines]
    if draft.kind == "heading":
        return element(f"h{draft.level}", *inline_nodes(lines, look.words, plain=True))
    if draft.kind == "code":
        return element("pre", code_lines(lines))
    return element("p", *inline_nodes(lines, look.words))


def _list(items: Sequence[_Draft], look: Look) -> Element:
    """A list; items that stand further right are lists within."""
    first = items[0]
    number = re.search(r"\d+", first.marker)
    children: list[Element] = []
    at = 0
    while at < len(items):
        end = at + 1
        while end < len(items) and items[end].lines[0].x0 > first.lines[0].x0 + 6:
            end += 1
        inner = [_list(items[at + 1 : end], look)] if end > at + 1 else []
        children.append(element("li", *_without_marker(items[at], look), *inner))
        at = end
    return Element("ol" if number else "ul", {"start": number[0]} if number else {}, tuple(children))


def _without_marker(item: _Draft, look: Look) -> Iterable[Element | str]:
    chars = list(item.lines[0].chars)
    size = len(item.marker)
    return inline_nodes([chars[size:], *(line.chars for line in item.lines[1:])], look.words)
