"""A tree of elements to markdown, block by block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from lmm.errors import FileReadError
from lmm.importing import escape
from lmm.importing.elements import (
    HEADINGS,
    MarkupElement,
    Node,
    element,
    find,
    has_blocks,
    rewrite,
    text_of,
    walk,
    words_of,
)
from lmm.importing.to_inline import InlinePlace, image, inline
from lmm.markdown.blocks import fenced

_LANGUAGE = re.compile(r"(?:language|lang|brush|highlight-source|highlight)[-:]\s*([\w+#.-]+)")
_NO_LANGUAGE = frozenset({"default", "none", "text", "plaintext", "plain", "notranslate", "highlight", "sourceCode"})
_BOXES = {"☐ ": "[ ] ", "☒ ": "[x] ", "☑ ": "[x] "}


def to_markdown(root: MarkupElement, *, all_ids: bool = False) -> str:
    """The markdown of a tree: blocks with one blank line between them, and a newline at the end of any.

    Headings have the ids that something in the document links to, or with `all_ids` those that they have.

    >>> print(to_markdown(element("body", element("h1", "A"), element("p", "# b"), element("hr"))), end="")
    # A
    <BLANKLINE>
    \\# b
    <BLANKLINE>
    * * *
    """
    root = with_footnotes(root)
    blocks = list(_blocks(root.children, InlinePlace(targets=_targets(root, all_ids))))
    return "".join("\n\n".join(blocks) + "\n" if blocks else "")


def _targets(root: MarkupElement, every: bool) -> frozenset[str]:
    """The ids of headings that something in the document links to, or of `every` heading."""
    linked = {link.get("href")[1:] for link in find(root, "a") if link.get("href").startswith("#")}
    ids = (_id(heading) for heading in find(root, *HEADINGS))
    return frozenset(id for id in ids if id and (every or id in linked))


def _id(heading: MarkupElement) -> str:
    """A heading's id, or that of an anchor in it, if it can be written."""
    ids = (node.get("id") or (node.get("name") if node.tag == "a" else "") for node in walk(heading))
    return next((id for id in ids if re.fullmatch(r"[^\W\d][\w:.-]*", id)), "")


def _blocks(nodes: Iterable[Node], place: InlinePlace) -> Iterator[str]:
    """The blocks of some nodes; what stands within lines between them is a paragraph."""
    for block, run in groupby(nodes, has_blocks):
        if not block:
            yield from filter(None, _paragraph(list(run), place))
            continue
        for node in run:
            if isinstance(node, MarkupElement):
                write = _WRITERS.get(node.tag, _container)
                yield from filter(None, write(node, place))


def _container(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    return _blocks(node.children, place)


def _paragraph(nodes: Sequence[Node], place: InlinePlace) -> Iterator[str]:
    """A paragraph; a display formula in it stands on lines of its own."""
    for alone, run in groupby(nodes, _is_display):
        if alone:
            yield from (inline([node], place) for node in run)
            continue
        lines = inline(run, place).split("\n")
        yield "\n".join(escape.line_start(line.lstrip(" ")) for line in lines)


def _is_display(node: Node) -> bool:
    return isinstance(node, MarkupElement) and node.tag == "math" and node.get("display") == "block"


def _heading(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    title = escape.heading(inline(node.children, replace(place, line_break=" ")))
    id = _id(node)
    anchor = f" {{#{id}}}" if id in place.targets else ""
    if title:
        yield f"{'#' * HEADINGS[node.tag]} {title}{anchor}"


def _code(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    code = escape.plain(text_of(node)).replace("\xa0", " ").strip("\n")
    if code.strip():
        yield fenced("\n".join(line.rstrip() for line in code.split("\n")), _language(node))


def _language(node: MarkupElement) -> str:
    """The language that a code block's classes name, in the ways of the usual highlighters."""
    inner = list(node.elements)
    for part in (node, *(inner if len(inner) == 1 else ())):
        words = part.get("class")
        named = _LANGUAGE.search(words)
        candidates = [named[1]] if named else []
        if "sourceCode" in part.classes or part is node:  # Pandoc and ours: the class is the language
            candidates += [word for word in words.split() if "-" not in word]
        candidates.append(part.get("data-lang") or part.get("data-language"))
        for word in candidates:
            if word and word not in _NO_LANGUAGE:
                return word
    return ""


def _quote(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    text = "\n\n".join(_blocks(node.children, place))
    if text:
        yield "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


# -- lists -------------------------------------------------------------------------------------------


def _list(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    items = [_item(item, place) for item in _items(node)]
    items = [blocks for blocks in items if blocks]
    if not items:
        return
    start = re.match(r"\d{1,8}\Z", node.get("start"))
    number = int(start[0]) if start else 1
    tight = all(_is_tight(blocks) for blocks in items)
    lines = []
    for offset, blocks in enumerate(items):
        marker = f"{number + offset}. " if node.tag == "ol" else "- "
        lines.append(_indented(("\n" if tight else "\n\n").join(blocks), marker))
    yield ("\n" if tight else "\n\n").join(lines)


def _items(node: MarkupElement) -> Iterator[MarkupElement]:
    """The items of a list; what stands outside of them belongs to the one before."""
    items: list[tuple[MarkupElement, list[Node]]] = []
    for child in node.children:
        if isinstance(child, MarkupElement) and child.tag == "li":
            items.append((child, list(child.children)))
        elif items and (isinstance(child, MarkupElement) or child.strip()):
            items[-1][1].append(child)
        elif isinstance(child, MarkupElement):
            items.append((element("li"), [child]))
    return (replace(item, children=tuple(children)) for item, children in items)


def _item(item: MarkupElement, place: InlinePlace) -> list[str]:
    box = next((box for box in find(item, "input") if box.get("type") == "checkbox"), None)
    blocks = list(_blocks(map(_plain_heading, item.children), place))
    if box is not None and blocks:
        blocks[0] = f"[{'x' if 'checked' in box.attributes else ' '}] {blocks[0]}"
    elif blocks and blocks[0][:2] in _BOXES:
        blocks[0] = _BOXES[blocks[0][:2]] + blocks[0][2:]
    return blocks


def _plain_heading(node: Node) -> Node:
    """In a list a heading would be none; it is a bold paragraph there."""
    if isinstance(node, MarkupElement) and node.tag in HEADINGS:
        return element("p", element("strong", *node.children))
    return node


def _is_tight(blocks: Sequence[str]) -> bool:
    """Whether an item is a line, with lists under it at most."""
    return not blocks[0].startswith("```") and all(re.match(r"(?:-|\d+\.) ", block) for block in blocks[1:])


def _indented(text: str, marker: str) -> str:
    lines = text.split("\n")
    return "\n".join([marker + lines[0], *(" " * len(marker) + line if line else "" for line in lines[1:])])


def _definitions(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    """Terms and definitions, as Pandoc writes them."""
    parts = [part for child in node.elements for part in (child.elements if child.tag == "div" else (child,))]
    lines: list[str] = []
    for part in parts:
        if part.tag == "dt":
            term = inline(part.children, replace(place, line_break=" "))
            lines.append(("\n" if lines else "") + escape.line_start(term))
        elif part.tag == "dd":
            text = "\n\n".join(_blocks(part.children, place))
            if text and lines:
                lines.append(_indented(text, ":   "))
            elif text:
                lines.append(text)
    yield "\n".join(lines)


# -- tables, figures -----------------------------------------------------------------------------------


def _table(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    code = next((cell for cell in find(node, "td") if "code" in cell.classes), None)
    if code is not None and {"highlighttable", "rouge-table", "highlight"} & node.classes:  # numbered lines beside code
        yield from _blocks(code.children, place)
        return
    if not is_layout(node):
        yield write_table(node, place)
        return
    cells = (cell for row in rows_of(node) for cell in cells_of(row))
    for part in filter(None, (caption_of(node), *cells)):
        yield from _blocks(part.children, place)


def _figure(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    """A figure of one image is that image with its caption; of anything else, that and the caption below."""
    captions = list(find(node, "figcaption"))
    caption = inline(captions[0].children, replace(place, line_break=" ")) if captions else ""
    inside = [child for child in node.children if not (isinstance(child, MarkupElement) and child.tag == "figcaption")]
    images = [found for child in inside if isinstance(child, MarkupElement) for found in find(child, "img")]
    if len(images) == 1 and not any(words_of(child) for child in inside):
        yield image(images[0], place, caption=caption) or caption
        return
    yield from _blocks(inside, place)
    if captions:
        yield from _blocks([element("p", *captions[0].children)], place)


def _footnote(node: MarkupElement, place: InlinePlace) -> Iterator[str]:
    text = "\n\n".join(_blocks(node.children, place))
    lines = text.split("\n")
    yield "\n".join([f"[^{node.get('label')}]: {lines[0]}", *("    " + line if line else "" for line in lines[1:])])


_WRITERS: dict[str, Callable[[MarkupElement, InlinePlace], Iterator[str]]] = {
    **dict.fromkeys(HEADINGS, _heading),
    **dict.fromkeys(("ul", "ol", "menu", "dir"), _list),
    "pre": _code,
    "hr": lambda node, place: iter(["* * *"]),  # never ---, which may begin metadata
    "blockquote": _quote,
    "dl": _definitions,
    "table": _table,
    "figure": _figure,
    "summary": lambda node, place: _paragraph([element("strong", *node.children)], place),
    "footnote": _footnote,
}


# -- pipe tables -------------------------------------------------------------------------------------
# Rows of cells, with what spans several of them.

_MAX_CELLS = 1_000_000
_MAX_LETTERS = 20_000_000  # of a table in which cells are repeated
_MAX_SPAN = 200
_ALIGNMENTS = {"left": ":--", "right": "--:", "center": ":-:"}
Grid = list[list[MarkupElement]]


def is_layout(table: MarkupElement) -> bool:
    """Whether a table only places things on a page: it says so, has one cell, or holds tables or headings."""
    if table.get("role") in ("presentation", "none"):
        return True
    cells = [cell for row in rows_of(table) for cell in cells_of(row)]
    inner = (child for cell in cells for child in cell.elements)
    return len(cells) <= 1 or any(next(find(child, "table", *HEADINGS), None) for child in inner)


def rows_of(table: MarkupElement) -> Iterator[MarkupElement]:
    """The rows of a table, without those of tables inside it; the foot comes last wherever it stands."""
    parts = sorted(table.elements, key=lambda part: {"thead": 0, "tfoot": 2}.get(part.tag, 1))
    for part in parts:
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in part.elements if row.tag == "tr")


def cells_of(row: MarkupElement) -> Iterator[MarkupElement]:
    """The cells of a row."""
    return (cell for cell in row.elements if cell.tag in ("td", "th"))


def caption_of(table: MarkupElement) -> MarkupElement | None:
    """A table's caption."""
    return next((part for part in table.elements if part.tag == "caption"), None)


def write_table(table: MarkupElement, place: InlinePlace) -> str:
    """A table as a pipe table; what spans several cells is repeated in each, so that every row says all of it.

    >>> from lmm.importing.elements import element as e
    >>> head, row = e("tr", e("th", "A"), e("th", "B")), e("tr", e("td", "1|2", colspan="2"))
    >>> print(write_table(e("table", head, row), InlinePlace()))
    | A | B |
    | --- | --- |
    | 1\\|2 | 1\\|2 |
    """
    grid, heads = _grid(table)
    width = max(map(len, grid), default=0)
    if not width:
        return ""
    here = InlinePlace(line_break="<br>", cell=True, targets=place.targets)
    cells = {id(cell): cell for row in grid for cell in row}
    written = {place: _cell(cell.children, here) for place, cell in cells.items()}
    texts = [[written[id(cell)] for cell in row] + [""] * (width - len(row)) for row in grid]
    if sum(len(text) for row in texts for text in row) > _MAX_LETTERS:
        raise FileReadError(f"a table has more than {_MAX_LETTERS:,} letters", hint="the file is damaged")
    header = [_stacked(column) for column in zip(*texts[:heads], strict=True)] if heads else [""] * width
    marks = [_alignment([row[column] for row in grid if column < len(row)]) for column in range(width)]
    lines = [_line(header), _line(marks), *map(_line, texts[heads:])]
    caption = caption_of(table)
    title = inline(caption.children, InlinePlace(line_break=" ", targets=place.targets)) if caption else ""
    return "\n".join(lines) + (f"\n\nTable: {title}" if title else "")


def _grid(table: MarkupElement) -> tuple[Grid, int]:
    """Cells by row and column, and how many of the rows are headers.

    Raises:
        FileReadError: there are more cells than any table has.
    """
    grid: Grid = []
    hanging: dict[int, tuple[int, MarkupElement]] = {}  # column: rows that a cell still reaches into
    heads, count = 0, 0
    rows = list(rows_of(table))
    in_head = sum(1 for part in table.elements if part.tag == "thead" for row in part.elements if row.tag == "tr")
    for number, row in enumerate(rows):
        line: list[MarkupElement] = []
        cells = list(cells_of(row))
        for cell in cells:
            _fill(line, hanging)
            down = min(_span(cell, "rowspan") or len(rows), len(rows) - number)
            for _ in range(max(1, _span(cell, "colspan"))):
                if down > 1:
                    hanging[len(line)] = (down - 1, cell)
                line.append(cell)
        _fill(line, hanging)
        count += len(line)
        if count > _MAX_CELLS:
            raise FileReadError(f"a table has more than {_MAX_CELLS:,} cells", hint="the file is damaged")
        if line:
            grid.append(line)
            if number < in_head or (number == heads == 0 and all(cell.tag == "th" for cell in cells)):
                heads += 1
    return grid, min(heads, len(grid))


def _fill(line: list[MarkupElement], hanging: dict[int, tuple[int, MarkupElement]]) -> None:
    """Cells from the rows above that reach into this one."""
    while len(line) in hanging:
        rows, cell = hanging.pop(len(line))
        if rows > 1:
            hanging[len(line)] = (rows - 1, cell)
        line.append(cell)


def _span(cell: MarkupElement, name: str) -> int:
    digits = re.match(r"\s*(\d{1,6})", cell.get(name))
    return min(int(digits[1]), _MAX_SPAN) if digits else 1


def _cell(nodes: Sequence[Node], place: InlinePlace) -> str:
    """What is in a cell on one line: paragraphs and items are parted by ``<br>``."""
    parts: list[str] = []
    run: list[Node] = []
    for node in nodes:
        if has_blocks(node) and isinstance(node, MarkupElement):
            parts += [inline(run, place), _block(node, place)]
            run = []
        else:
            run.append(node)
    parts.append(inline(run, place))
    return place.line_break.join(part for part in parts if part)


def _block(node: MarkupElement, place: InlinePlace) -> str:
    if node.tag == "pre":
        lines = escape.plain(text_of(node)).strip("\n").split("\n")
        return place.line_break.join(filter(None, map(escape.code_span, lines)))
    text = _cell(node.children, place)
    return f"• {text}" if node.tag == "li" and text else text


def _stacked(column: Sequence[str]) -> str:
    """Several header rows as one."""
    return " – ".join(dict.fromkeys(text for text in column if text))


def _alignment(column: Sequence[MarkupElement]) -> str:
    found = {_align(cell) for cell in column}
    return _ALIGNMENTS.get(found.pop(), "---") if len(found) == 1 else "---"


def _align(cell: MarkupElement) -> str:
    styled = re.search(r"text-align\s*:\s*(\w+)", cell.get("style"))
    return (styled[1] if styled else cell.get("align")).lower()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# -- footnotes -------------------------------------------------------------------------------------
# A mark that links to a note, and a note that links back, whatever program wrote them.

_NOTES = frozenset({"li", "aside", "p", "div", "dd"})
_MARK = re.compile(r"[\[(]?[\w*†‡§¶]{1,4}[\])]?\Z")
_HOLDERS = frozenset({"ol", "ul", "section", "aside", "div", "hr"})


def with_footnotes(root: MarkupElement) -> MarkupElement:
    """The tree with ``footnote-mark`` where notes are called, and the notes as ``footnote`` at its end.

    >>> mark = element("p", "a", element("a", "1", href="#n", id="r"))
    >>> note = element("ol", element("li", "why ", element("a", "↩", href="#r"), id="n"))
    >>> [child.tag for child in with_footnotes(element("body", mark, note)).elements]
    ['p', 'footnote']
    """
    root = rewrite(root, _with_own_id)
    notes = {node.get("id"): node for node in walk(root) if node.get("id") and node.tag in _NOTES}
    calls = _calls(root, notes)
    labels = {id: str(number) for number, id in enumerate(dict.fromkeys(calls.values()), start=1)}
    if not calls:
        return root

    def change(node: MarkupElement) -> Iterable[Node]:
        if node.tag == "a" and node.get("id") in calls:
            return [element("footnote-mark", label=labels[calls[node.get("id")]])]
        if node.tag in _NOTES and node.get("id") in labels:
            return []
        if node.tag == "sup" and any(child.tag == "footnote-mark" for child in node.elements):
            return node.children
        return [node]

    body = rewrite(root, change)
    written = [element("footnote", *_note(notes[id], calls), label=label) for id, label in labels.items()]
    return replace(body, children=(*_without_empty_end(body.children), *written))


def _with_own_id(node: MarkupElement) -> Iterable[Node]:
    """Some programs give the mark's id to what stands around the link."""
    inner = list(node.elements)
    if node.tag in ("sup", "span") and node.get("id") and len(inner) == 1 and inner[0].tag == "a":
        link = replace(inner[0], attributes={**inner[0].attributes, "id": node.get("id")})
        return [replace(node, children=tuple(link if child is inner[0] else child for child in node.children))]
    return [node]


def _calls(root: MarkupElement, notes: Mapping[str, MarkupElement]) -> dict[str, str]:
    """The id of each link that calls a note, and the note's id: both link to each other."""
    back = {id: {link.get("href") for link in find(note, "a")} for id, note in notes.items()}
    links = (link for link in find(root, "a") if link.get("id") and link.get("href")[:1] == "#")
    return {
        link.get("id"): link.get("href")[1:]
        for link in links
        if f"#{link.get('id')}" in back.get(link.get("href")[1:], ()) and _MARK.match(words_of(link))
    }


def _note(note: MarkupElement, calls: Mapping[str, str]) -> tuple[Node, ...]:
    """A note's content without its number and the links back."""

    def change(node: MarkupElement) -> Iterable[Node]:
        is_back = node.tag == "a" and node.get("href")[1:] in calls
        return [] if is_back or "label" in node.classes or "mw-cite-backlink" in node.classes else [node]

    return rewrite(replace(note, tag="div", attributes={}), change).children


def _without_empty_end(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nodes without the empty list, and the rule above it, that the notes leave behind."""
    end = len(nodes)
    while end and _is_empty(nodes[end - 1]):
        end -= 1
    if end and isinstance(last := nodes[end - 1], MarkupElement) and last.tag in _HOLDERS:
        return (*nodes[: end - 1], replace(last, children=_without_empty_end(last.children)))
    return nodes[:end]


def _is_empty(node: Node) -> bool:
    if isinstance(node, str):
        return not node.strip()
    return node.tag in _HOLDERS and not words_of(node) and next(find(node, "img", "math"), None) is None
