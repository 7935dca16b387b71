"""The outline of a document: headings and texts in order, with the metadata that applies to each.

For pending edits, the old text is used. Content with ``skip: true`` is left out with everything below it, except for
what has ``skip: false`` and the headings above that; HTML comments are left out, too. Metadata applies to all of what
Pandoc parses as one block: a list with blank lines between its items, a fenced div. That is one text, unless it
contains a heading or metadata. `stretches` determines how far a type extends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from lmm.markdown import Span, metadata, spans
from lmm.markdown.blocks import ForeignHeader
from lmm.markdown.page_marks import Pages, page_marks
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, TextNode, blocks_to_tree, preorder
from lmm.markdown.units import enclosed, fences_of_divs, rests_of_units
from lmm.notebook.chat_log import LOG_KEYS
from lmm.notebook.edits import EDIT, old_view
from lmm.notebook.generated_fields import is_on
from lmm.notebook.outputs import environments
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.books.dialects import as_shown
from lmm_education.ingestion.near_types import Label, as_meant, label_of, named_type, parsed, title_in, titled_type
from lmm_education.ingestion.packing import key_of
from lmm_education.material import Lines
from lmm_education.payloads import is_one_of, plain, types_in

# -- kinds of blocks -------------------------------------------------------------------------------
# The kinds of blocks, as far as joining and splitting need them.


Kind = Literal["code", "equation", "table", "list", "quote", "html", "prose"]

ITEM = r"(?:[-*+]|\(?\d{1,9}[.)]|\(?[a-z]\)|#\.)[ \t]+"
ITEM_START = re.compile(rf"^ {{0,3}}{ITEM}", re.MULTILINE)
_FORMULAS = ("equation", "align", "gather", "multline", "eqnarray", "math", "displaymath")


def kind_of(text: str) -> Kind:
    """Return the kind of a block of text.

    >>> [kind_of(t) for t in ("```r\\n1\\n```", "$$\\nx\\n$$ {#eq:x}", "|a|b|\\n|-|-|\\n|1|2|", "- a", "A leaf.")]
    ['code', 'equation', 'table', 'list', 'prose']
    """
    first, _, rest = text.partition("\n")
    rule = rest.partition("\n")[0]
    if ("|" in first and "-" in rule and not rule.strip("|+:- \t")) or is_grid(text) or _SIMPLE.match(text):
        return "table"
    if text[:1].isalpha():  # most texts
        return "list" if ITEM_START.match(text) else "prose"
    found = _from_start(text)
    is_whole = bool(found) and found[-1].end >= len(text.rstrip())
    if is_whole and _is_code(found[0]) and _is_code(found[-1]):
        return "code"
    if ITEM_START.match(text):
        return "list"
    if text.lstrip(" ").startswith(">"):
        return "quote"
    if not found:
        return "prose"
    if found[0].kind == "html":
        return "html"
    name = found[0].text.removeprefix("\\begin{").partition("}")[0].rstrip("*") if found[0].target == "tex" else ""
    is_formula = found[0].target == "display" or name in _FORMULAS
    return "equation" if is_whole and is_formula else "prose"


# Tables without bars: a line and a rule of several parts below it, or the latter alone; HTML.
_SIMPLE = re.compile(
    r"(?:[^\n]+\n)?[ ]{0,3}-{2,}(?:[ ]+-{2,})+[ ]*\n|[ ]{0,3}-{5,}[ ]*\n(?:[^\n]+\n)+[ ]{0,3}-{2,}(?:[ ]+-{2,})+[ ]*\n"
    r"|<table[\s>]",
    re.IGNORECASE,
)


def is_grid(text: str) -> bool:
    """Return whether a text begins with the border of a grid table."""
    return re.match(r"\+(?:[-=:]+\+)+[ \t]*\n", text) is not None


def _from_start(text: str) -> list[Span]:
    """Return the spans of a text if it begins with one."""
    found = spans(text)
    return found if found and not text[: found[0].start].strip() else []


def _is_code(span: Span) -> bool:
    return span.kind == "code_block" or (span.kind == "raw" and span.target != "tex")


def is_comment(text: str) -> bool:
    """Return whether a block is nothing but an HTML comment.

    >>> is_comment("<!-- later -->"), is_comment("<!-- a --> text")
    (True, False)
    """
    if not text.lstrip().startswith("<!--"):
        return False
    found = _from_start(text)
    return bool(found) and found[0].kind == "comment" and not text[found[0].end :].strip()


# -- ranges of types -------------------------------------------------------------------------------
# How far the type of a text extends: the only place that decides this, for ingestion, exports, exercises and students.
#
# A type above a heading applies to the section with everything below it; that of the header, to the document; that of a
# div (``::: {.exercise}``, Quarto's ``#exr-`` and ``#sol-``) or a chunk of bookdown's, to its content. A metadata block
# above a text applies to that text. But for a solution, students could then read what follows its first paragraph: a
# type that *lasts* extends to the next heading of the section's level or above, the next metadata block by the author,
# a heading called Exercises, the next typed div, or the end of the div that contains it; directly below a heading, it
# applies to the section. A heading called Exercises or Solutions is of that type without metadata, but what is inside a
# solution is part of it, whatever its heading is called: students must not see it. The innermost type counts.
#
# Where an exercise stands before them (above them under the same heading, or in a section of exercises), callouts and
# details called Solution are solutions, too, and so are the texts from a label in emphasis (``**Solution 2.1.**``) to
# the next label of an exercise or with a number, the next heading, typed div or metadata. In a section of exercises,
# each such label of an exercise begins one.


_ENVIRONMENTS = ("exercise", "solution")
_OF_PROGRAMS = frozenset({"docid", "textid", "headingid", "UUID", "group_UUID"})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Texts that have their types from the same place: a `line` of metadata, of a heading, or of a fence."""

    types: tuple[str, ...]
    line: int

    @property
    def value(self) -> str | list[str]:
        """The types as a metadata value."""
        return self.types[0] if len(self.types) == 1 else list(self.types)


def stretches(tree: HeadingNode, kinds: Withholding = DEFAULT) -> dict[int, Stretch]:
    """Return the origin of each node's type, by the node's id; nodes without a type are missing. The types in
    `kinds.lasting` extend beyond the text below a metadata block; headings may be named after them, or be exercises.

    >>> from lmm.markdown import load_text
    >>> tree = load_text("# A\\n\\nWhy?\\n\\n---\\ntype: solution\\n---\\nSo.\\n\\n- and so\\n\\n# B\\n\\nText.\\n")
    >>> found = stretches(tree)
    >>> [node.text for node in preorder(tree) if id(node) in found]
    ['So.', '- and so']
    """
    return _Document(tree, kinds).stretches()


class _Document:
    """The nodes of a document in order, and where its divs end."""

    def __init__(self, tree: HeadingNode, kinds: Withholding) -> None:
        self.tree, self.kinds = tree, kinds
        self.solved = 0  # where the solutions end that have been found so far
        self.asked = self.asking = 0  # where what belongs to the exercises so far ends, and the section of exercises
        self.order = list(preorder(tree))
        self.place = {id(node): at for at, node in enumerate(self.order)}
        self.rests = rests_of_units(tree)
        self.fences = {self.place[id(first)]: self.place[id(last)] for first, last in fences_of_divs(tree)}
        self.opened = {last: first for first, last in self.fences.items()}
        blocks = ((at, node.block) for at, node in enumerate(self.order) if isinstance(node, TextNode))
        environments = ((at, environment(block.source, kinds.lasting)) for at, block in blocks if block)
        self.typed = {at: kind for at, kind in environments if kind}
        self.titled = dict(self._titled())

    def stretches(self) -> dict[int, Stretch]:
        """See `stretches`."""
        found, begin = dict[int, Stretch](), dict[int, list[tuple[int, Stretch]]]()
        for start, end, stretch in self.marks():
            begin.setdefault(start, []).append((end, stretch))
        open_: list[tuple[int, Stretch]] = []
        for at, node in enumerate(self.order if begin else ()):
            open_ += begin.get(at, ())
            while open_ and open_[-1][0] <= at:
                open_.pop()
            if open_:
                found[id(node)] = open_[-1][1]
        return found

    def marks(self) -> Iterator[tuple[int, int, Stretch]]:
        """Iterate over start, end and types of typed ranges; of those with the same start, the innermost is last."""
        for at, node in enumerate(self.order):
            if kind := self.typed.get(at):
                end = self.fences.get(at, at) + 1
                yield at, end, Stretch((kind,), node.line)
                self._note((kind,), end)
                self._ask((kind,), node, end)
            types = types_in({"type": node.own("type")}) if node.metadata_block is not None else ()
            if not types and isinstance(node, HeadingNode) and (kind := self._named(node)):
                types = (kind,)
            if not types and at not in self.typed and (named := self._titled_or_labelled(at)):
                start, end, kind = named
                yield start, end, Stretch((kind,), node.line)
                self._note((kind,), end)
                self._ask((kind,), node, end)
            self._ask(types, node, at + 1)
            lasts = self._lasts(types)
            stretch = Stretch(types, node.line)
            if types and isinstance(node, HeadingNode):
                yield at, self._end_of_section(at), stretch
                self._note(types, self._end_of_section(at))
                # Each subsection of a section of exercises is one exercise.
                for below in node.headings if not lasts else ():
                    yield self.place[id(below)], self._end_of_section(self.place[id(below)]), Stretch(types, below.line)
            elif types:
                end = at + 1 + len(self.rests.get(id(node), ()))
                end = self._last_end(at, end) if lasts else end
                yield at, end, stretch
                self._note(types, end)
                if lasts and (heading := _heading_right_above(node)) is not None:
                    start = self.place[id(heading)]
                    yield start, self._end_of_section(start), stretch
                    self._note(types, self._end_of_section(start))

    def _lasts(self, types: Collection[str]) -> bool:
        return any(is_one_of(kind, self.kinds.lasting) for kind in types)

    def _note(self, types: Collection[str], end: int) -> None:
        self.solved = max(self.solved, end) if self._lasts(types) else self.solved

    def _ask(self, types: Collection[str], node: Node, end: int) -> None:
        """Note where the solutions of an exercise may stand: in its section, or up to the next heading."""
        if not any(is_one_of(kind, self.kinds.exercises) for kind in types):
            return
        if isinstance(node, HeadingNode):
            self.asking = max(self.asking, self._end_of_section(self.place[id(node)]))
        self.asked = max(self.asked, self.asking)
        if end > self.asked:  # else the next heading is where that of an earlier exercise is, or before it
            headings = (at for at in range(end, len(self.order)) if isinstance(self.order[at], HeadingNode))
            self.asked = next(headings, len(self.order))

    def _titled(self) -> Iterator[tuple[int, tuple[int, int, str]]]:
        """Iterate over callouts and details called Exercise or Solution: their place, start, end and type."""
        types = (*self.kinds.lasting, *self.kinds.exercises)
        texts = [node.block.source if isinstance(node, TextNode) and node.block else None for node in self.order]
        ends = enclosed(texts) if any(text and "<details" in text for text in texts) else {}
        for at, text in enumerate(texts):
            if text is None or not (kind := titled_type(title_in(text), types)):
                continue
            if at in self.fences:
                yield at, (at, self.fences[at] + 1, kind)
            elif "<details" in text:  # below a text without a blank line, it begins with the next one
                start = at if text.lstrip().startswith("<details") else at + 1
                yield at, (start, ends.get(at, at) + 1, kind)

    def _titled_or_labelled(self, at: int) -> tuple[int, int, str] | None:
        """Return start, end and type of a callout, details or labelled paragraph that is one without metadata."""
        node, exercises = self.order[at], self.kinds.exercises
        if not isinstance(node, TextNode) or at < self.solved:
            return None
        if named := self.titled.get(at):
            start, end, kind = named
            if start < end and (at < self.asked or is_one_of(kind, exercises)):
                if start == at:
                    self.fences.setdefault(at, end - 1)
                return named
        label = label_of(node.text, (*self.kinds.lasting, *exercises))
        if label is None or not label.type:
            return None
        asks = is_one_of(label.type, exercises)
        if asks and not (at < self.asking and (label.is_emphasized or label.is_numbered)):
            self._ask((label.type,), node, at + 1)
            return None
        if not asks and not (label.is_emphasized and at < self.asked):
            return None
        return at, self._end_of_labelled(at, label), label.type

    def _end_of_labelled(self, start: int, label: Label) -> int:
        """Return the end of the texts that belong to a label."""
        types = (*self.kinds.lasting, *self.kinds.exercises)
        number = self._numbers[start]  # of the exercise, in a list
        end = start + 1
        while end < len(self.order):
            node = self.order[end]
            if not isinstance(node, TextNode) or end in self.typed or _says_something(node):
                break
            text, other = node.text, label_of(node.text, types)
            is_next = number is not None and re.match(rf" {{0,3}}{number + 1}[.)]\s", text)
            is_outside = self.opened.get(end, start) < start or _indentation(text) < label.indentation
            is_other = other is not None and (other.is_certain or other.is_numbered)
            is_titled = end in self.titled and is_one_of(self.titled[end][2], self.kinds.exercises)
            is_unquoted = label.is_quoted and not text.lstrip().startswith(">")
            if is_next or is_outside or is_other or is_titled or is_unquoted:
                break
            end += 1
        return end

    @cached_property
    def _numbers(self) -> list[int | None]:
        """The number of the last list item above each node, below the same heading."""
        found, number = list[int | None](), None
        for node in self.order:
            found.append(number)
            items = re.findall(r"^ {0,3}(\d{1,9})[.)]", node.text, re.MULTILINE) if isinstance(node, TextNode) else ()
            number = int(items[-1]) if items else number if isinstance(node, TextNode) else None
        return found

    def _named(self, node: HeadingNode) -> str:
        """Return the type that a heading is named after, unless a type directly below it says otherwise; inside a
        solution, no heading is one over exercises."""
        first = next(iter(node.children), None)
        if not node.level or (isinstance(first, TextNode) and first.own("type") is not None):
            return ""
        is_inside = self.place[id(node)] < self.solved
        return named_type(node.title, (*self.kinds.lasting, *(() if is_inside else self.kinds.exercises)))

    def _end_of_section(self, at: int) -> int:
        return at + sum(1 for _ in preorder(self.order[at]))

    def _last_end(self, start: int, end: int) -> int:
        """Return the end of a lasting type, given that the text at `start` goes to `end`."""
        parent = self.order[start].parent
        level = (parent.level if parent is not None else 0) or 6
        inside = start  # where the divs end that begin after `start`
        while end < len(self.order):
            node = self.order[end]
            inside = max(inside, self.fences.get(end, 0))
            leaves_div = self.opened.get(end, start) < start
            ends = isinstance(node, HeadingNode) and (0 < node.level <= level or self._named(node))
            if (ends and end > inside) or leaves_div or end in self.typed or _says_something(node):
                break
            end += 1
        return end


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def environment(text: str, lasting: Collection[str] = DEFAULT.lasting) -> str:
    """Return the type of a div or chunk that a text opens, by its class or label; empty if there is none.

    >>> environment("::: {#sol-leaf}"), environment("::: {.exam}", ["exam"]), environment("::: {.callout-note}")
    ('solution', 'exam', '')
    """
    return next((name for name in environments(text) if is_one_of(name, (*_ENVIRONMENTS, *lasting))), "")


def _heading_right_above(node: Node) -> HeadingNode | None:
    """Return the heading directly above a text if it has no type itself, ignoring comments in between."""
    heading = node.parent
    if heading is None or not heading.level or heading.own("type"):
        return None
    for before in heading.children:
        if before is node:
            return heading
        if before.metadata_block is not None or not (isinstance(before, TextNode) and is_comment(before.text)):
            return None
    return None


def _says_something(node: Node) -> bool:
    """Return whether a node has metadata by its author, ignoring what programs wrote and questions to a model."""
    block = node.metadata_block
    if block is None:
        return False
    values: Mapping[str, Any] = block.values()
    own = [key for key in values if not key.startswith("~") and key not in _OF_PROGRAMS]
    return bool(own) or not (values or block.prompts)


# -- the outline -----------------------------------------------------------------------------------


_OF_THE_HEADING_ONLY = "summary"  # not inherited, because it describes the section rather than the texts in it


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading, or the document itself (level 0).

    `path` are the titles from the outermost heading to this one; `source` is its line as written (for the document,
    `line` is the header's last); `values` is its metadata as read, which begins at `metadata_line`, `own` the
    properties in it; `all` includes those of the headings above, the nearest first. `owner` is as in `TextItem`.
    `numbers` are the document's in its book and those of the headings in `path`, if there are any.
    """

    title: str
    level: int
    path: tuple[str, ...]
    line: int
    source: str = ""
    metadata_line: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    all: Mapping[str, Any] = field(default_factory=dict)
    owner: int = 0
    numbers: tuple[str, ...] = ()

    @property
    def lines(self) -> Lines:
        """Its line."""
        return Lines(self.line, self.line)


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text under a heading: a paragraph, list, table, …, or several that were joined with blank lines between them.

    Line endings are LF. `values` is its own metadata as read, `own` the properties in it. `key` is computed from its
    first paragraph, for choosing where to cut (see `packing`). `repeated` counts lines at its start that were repeated
    when a larger text was split. `owner` is the line of what gives it a type (see `Stretch`), 0 without a type: texts
    with the same owner are one exercise, or one solution. `blocks` are the texts that were joined;
    `moved` tells that readers see another number of lines than the author wrote.
    """

    text: str
    lines: Lines
    heading: Heading
    key: int
    values: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    repeated: int = 0
    owner: int = 0
    blocks: tuple[TextItem, ...] = ()
    moved: bool = False

    @property
    def source(self) -> str:
        """The text, as markdown."""
        return self.text

    @property
    def stretch(self) -> int:
        """The owner of a text whose only property is the type; 0 for other texts."""
        return self.owner if self.own.keys() == {"type"} else 0


Item = Heading | TextItem


@dataclass(frozen=True, slots=True)
class Outline:
    """A document's title, the root of its headings, its headings and texts in order, and the marks of its `pages`."""

    title: str
    root: Heading
    items: tuple[Item, ...]
    pages: tuple[tuple[int, Pages], ...] = ()


def read_outline(text: str, *, title: str = "", kinds: Withholding = DEFAULT) -> Outline:
    """Return the outline of a markdown document. `title` is for one that has neither a title nor a heading; for
    `kinds`, see `stretches`.

    >>> outline = read_outline("# Leaves\\n\\n---\\ntype: exercise\\n---\\nWhy green?\\n")
    >>> [(type(item).__name__, item.own) for item in outline.items]
    [('Heading', {}), ('TextItem', {'type': 'exercise'})]
    """
    blocks = old_view(parsed(as_meant(as_shown(text), kinds.lasting)[0]))
    tree = blocks_to_tree(blocks, title=title)
    if tree is None:
        return Outline(title, Heading(title, 0, (), 1), ())
    document = _Document(tree, kinds)
    typed = document.stretches()
    root = _heading(tree, None, typed)
    return Outline(tree.title, root, tuple(_items(tree, root, typed, document)), page_marks(blocks))


def _items(tree: HeaderNode, root: Heading, typed: Mapping[int, Stretch], document: _Document) -> Iterator[Item]:
    rests, order = document.rests, document.order
    # The other nodes of each div that has a type, by the id of its first node.
    divs = {id(order[at]): order[at + 1 : end + 1] for at, end in document.fences.items() if id(order[at]) in typed}
    whole = dict[int, list[TextNode]]()  # those that continue a text
    for first, rest in (divs | rests).items():
        texts = [node for node in rest if isinstance(node, TextNode) and node.metadata_block is None]
        if len(texts) == len(rest) and all(typed.get(id(node)) == typed.get(first) for node in rest):
            whole[first] = texts
    later = {id(node) for nodes in whole.values() for node in nodes}
    later |= {id(rest[-1]) for first, rest in divs.items() if first not in whole}
    around: dict[int, Mapping[str, Any]] = {}  # properties of divs that are not a single text
    seen = _seen(tree, rests)
    stack: list[tuple[Node, Heading]] = [(child, root) for child in reversed(tree.children)]
    while stack:
        node, above = stack.pop()
        if id(node) not in seen:
            continue
        if isinstance(node, HeadingNode):
            heading = _heading(node, above, typed)
            yield heading
            stack.extend((child, heading) for child in reversed(node.children))
        elif isinstance(node, TextNode) and id(node) not in later and (text := block_text(node)):
            values, line = _with_type(node, above, typed), node.block.line if node.block else node.line
            key = key_of(text)
            for each in whole.get(id(node), ()):  # each at its line
                text += "\n" * max(each.line - line - text.count("\n"), 1) + block_text(each)
            lines = Lines(line, line + text.count("\n"))
            own = {**around.get(id(node), {}), **properties(values)}
            around |= {id(inner): own for inner in rests.get(id(node), ()) if id(node) not in whole}
            owner = typed[id(node)].line if id(node) in typed else 0
            if id(node) not in divs or id(node) in whole:  # otherwise the fence around several texts
                yield TextItem(text=text, lines=lines, heading=above, key=key, values=values, own=own, owner=owner)


def _with_type(node: Node, above: Heading | None, typed: Mapping[int, Stretch]) -> dict[str, Any]:
    """Return a node's metadata, with its type added if neither they nor the heading above contain it."""
    values, stretch = _as_typed(node), typed.get(id(node))
    inherited = types_in(above.all) if above is not None else ()
    if node.own("type") or (stretch is None and not inherited):
        return values
    if stretch is None:  # after the div that contains the heading
        return {**values, "type": "text"}
    is_same = inherited == stretch.types if isinstance(node, HeadingNode) else typed.get(id(node.parent)) == stretch
    return values if is_same else {**values, "type": stretch.value}


def _as_typed(node: Node) -> dict[str, Any]:
    """Return a node's metadata with choices and solution as they were typed: ``3.930`` is not 3.93, ``true`` not True.

    A choice may be a mapping, ``{text: red, correct: true}``. What is right becomes part of the solution, which
    students do not see; a mapping without a text becomes an empty choice.
    """
    values, block = node.metadata, node.metadata_block
    if block is None or not values.keys() & {"choices", "solution"}:
        return values
    scalars = [(each.path, each.text) for each in metadata.scalars(block.body)]
    for key in values.keys() & {"choices", "solution"}:
        value, texts = values[key], [text for path, text in scalars if path == (key,)]
        if not isinstance(value, list) and texts:
            values[key] = texts[0]
        elif isinstance(value, list) and len(texts) == len(value):
            values[key] = texts
    if isinstance(choices := values.get("choices"), list) and any(isinstance(each, dict) for each in choices):
        bare, inner = (
            iter([text for path, text in scalars if path == at]) for at in (("choices",), ("choices", "text"))
        )
        shown, right = list[str](), list[str]()
        for each in choices:
            is_mapping = isinstance(each, dict)
            shown.append(next(inner if is_mapping else bare, "") if not is_mapping or "text" in each else "")
            right += shown[-1:] if is_mapping and is_on(each.get("correct")) else []
        solution = values.get("solution")
        said = solution if isinstance(solution, list) else [solution] if solution is not None else []
        values |= {"choices": shown, "solution": [*right, *said]}
    return values


def _seen(tree: HeaderNode, rests: Mapping[int, Sequence[Node]]) -> set[int]:
    """Return the ids of the nodes that are not skipped, and of the headings above them.

    The nearest ``skip`` counts: the node's own, that of the unit (a div) that contains it, that of the heading above
    it.
    """
    skipped: dict[int, bool] = {}
    of_unit: dict[int, bool] = {}
    seen: set[int] = set()
    for node in preorder(tree):
        above = node.parent is not None and skipped[id(node.parent)]
        if id(node.parent) not in of_unit:
            above = of_unit.get(id(node), above)
        own = node.own("skip") if node.metadata_block is not None else None
        skipped[id(node)] = off = above if own is None else is_on(own)
        if own is not None:
            of_unit |= {id(inner): off for inner in rests.get(id(node), ())}
        if not off:
            seen |= {id(node), *map(id, node.ancestors())}
    return seen


def _heading(node: HeadingNode, above: Heading | None, typed: Mapping[int, Stretch]) -> Heading:
    values = _with_type(node, above, typed)
    own = properties(values)
    title, block = node.title, node.heading
    path = (*above.path, title) if above is not None else ()
    values_block = node.metadata_block
    first, last = (values_block.line, values_block.line + values_block.content.count("\n")) if values_block else (0, 1)
    source, line = (block.content, block.line) if block is not None else ("", last)
    return Heading(
        title=title,
        level=node.level,
        path=path,
        line=line,
        source=source,
        metadata_line=first or line,
        values=values,
        own=own,
        all=with_inherited(above, own),
        owner=typed[id(node)].line if id(node) in typed else 0,
    )


def with_inherited(above: Heading | None, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a heading's own properties, and those that it inherits from the heading above."""
    inherited = above.all if above is not None else {}
    return {**inherited, **{name: value for name, value in own.items() if name != _OF_THE_HEADING_ONLY}}


def block_text(node: TextNode) -> str:
    """Return the text of a node, with LF; empty for a comment, or for metadata without a text."""
    text = node.text.replace("\r\n", "\n").rstrip()
    return "" if is_comment(text) or isinstance(node.block, ForeignHeader) else text


# -- storage ---------------------------------------------------------------------------------------


def item_values(item: Item) -> dict[str, Any]:
    """Return a heading or a text as plain values, without what `stored_outline` can restore."""
    own = {"own": dict(item.own), "owner": item.owner}
    own |= {"depth": len(item.path if isinstance(item, Heading) else item.heading.path)}
    if isinstance(item, TextItem):
        return {"text": item.text, "lines": list(item.lines), **own}
    values = {"title": item.title, "level": item.level, "line": item.line, "source": item.source}
    return {**values, "number": item.numbers[-1] if item.numbers else "", **own}


def stored_outline(values: Sequence[Mapping[str, Any]]) -> Outline:
    """Return the outline from the `item_values` of its items, those of the document itself first.

    >>> outline = read_outline("# A\\n\\none\\n\\n## B\\n\\ntwo\\n")
    >>> stored = stored_outline([item_values(item) for item in (outline.root, *outline.items)])
    >>> [item.path if isinstance(item, Heading) else (item.text, item.heading.path) for item in stored.items]
    [('A',), ('one', ('A',)), ('A', 'B'), ('two', ('A', 'B'))]
    """
    above, items = list[Heading](), list[Item]()
    for each in values:
        own, owner = each["own"], each["owner"]
        depth = each.get("depth")
        if "text" in each:
            above = above if depth is None else above[: depth + 1]  # after a div, that of a section outside
            lines = Lines(*each["lines"])
            items.append(TextItem(each["text"], lines, above[-1], key=0, values=own, own=own, owner=owner))
            continue
        if depth is not None:
            above = above[:depth]
        while depth is None and above and above[-1].level >= each["level"]:
            above.pop()
        parent, title = above[-1] if above else None, each["title"]
        path = (*parent.path, title) if parent else ()
        numbers = (each["number"],) if each["number"] else ()
        heading = Heading(title, each["level"], path, each["line"], each["source"], own=own, owner=owner,
                          all=with_inherited(parent, own), numbers=numbers)  # fmt: skip
        above.append(heading)
        items.append(heading)
    root, *inside = items
    assert isinstance(root, Heading)
    return Outline(root.title, root, tuple(inside))


# -- properties ------------------------------------------------------------------------------------

# Chats and edits: remarks about the text are not part of it.
_CONVERSATION = frozenset({*LOG_KEYS, EDIT})
# Switches and configuration are for the program; ids of blocks, which other programs write, have no meaning.
_NOT_PROPERTIES = frozenset(
    {
        *("skip", "frozen", "txthash", "chat_", "edit_"),
        *("model", "RAG"),
        *("docid", "textid", "headingid", "UUID", "group_UUID"),
    }
)


def properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties in metadata: names without ``~`` and ``=``, values that JSON can hold.

    >>> properties({"~questions_": ["Why?"], "topic=": "review", "~~id": 3, "skip": False, "~chat_": []})
    {'questions': ['Why?'], 'topic': 'review'}
    """
    found: dict[str, Any] = {}
    for key in values:
        name = _name(key)
        if name is not None and name not in found:
            found[name] = plain(metadata.lookup(values, name))
    return found


def _name(key: str) -> str | None:
    if key.startswith("~~") or key in _CONVERSATION:
        return None
    name = metadata.base_name(key) or key
    return None if name in _NOT_PROPERTIES else name


def without_conversation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as it is kept in a prepared file: without chats, edits and internal fields.

    >>> without_conversation({"~titles_": "A", "~txthash_": "x y z", "~~id": 3, "~chat": ["q", "a"]})
    {'~titles_': 'A', '~txthash_': 'x y z'}
    """
    return {key: value for key, value in values.items() if not key.startswith("~~") and key not in _CONVERSATION}
