"""The outline of a document: headings and texts in order, with the metadata that applies to each.

For pending edits, the old text is used. Content with ``skip: true`` is left out with everything below it, except for
what has ``skip: false`` and the headings above that; HTML comments are left out, too. Metadata applies to all of what
Pandoc parses as one block: a list with blank lines between its items, a fenced div. That is one text, unless it
contains a heading or metadata. `stretches` determines how far a type extends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ForeignHeader, TextBlock
from lmm.markdown.comments import is_comment
from lmm.markdown.page_marks import Pages, page_marks
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, TextNode, blocks_to_tree, preorder
from lmm.notebook.chat_log import LOG_KEYS
from lmm.notebook.edits import EDIT, old_view
from lmm.notebook.generated_fields import is_on
from lmm.notebook.text_types import Stretch, TypedDocument
from lmm.type_names import types_in
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.books.dialects import as_shown
from lmm_education.ingestion.near_types import as_meant, parsed
from lmm_education.ingestion.packing import key_of
from lmm_education.material import Lines
from lmm_education.payloads import plain

# -- the outline -----------------------------------------------------------------------------------


_OF_THE_HEADING_ONLY = "summary"  # not inherited, because it describes the section rather than the texts in it


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading, or the document itself (level 0).

    `path` are the titles from the outermost heading to this one; `text` is its line as written (for the document,
    `line` is the header's last); `values` is its metadata as read, which begins at `metadata_line`, `own` the
    properties in it; `all` includes those of the headings above, the nearest first. `owner` is as in `TextItem`.
    `numbers` are the document's in its book and those of the headings in `path`, if there are any. `types` are those
    that it gives to the texts below it.
    """

    title: str
    level: int
    path: tuple[str, ...]
    line: int
    text: str = ""
    metadata_line: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    all: Mapping[str, Any] = field(default_factory=dict)
    owner: int = 0
    numbers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def key(self) -> int:
        """As of texts (see `packing`): higher headings are better places to cut, and any is better than none."""
        return ((7 - self.level) << 64) + key_of("\n".join(self.path))

    @property
    def lines(self) -> Lines:
        """Its line."""
        return Lines(self.line, self.line)

    @property
    def type(self) -> str:
        """The type of the texts below it."""
        return self.types[0] if self.types else "text"


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text under a heading: a paragraph, list, table, …, or several that were joined with blank lines between them.

    Line endings are LF. `values` is its own metadata as read, `own` the properties in it. `key` is computed from its
    first paragraph, for choosing where to cut (see `packing`). `repeated` counts lines at its start that were repeated
    when a larger text was split. `types` are its own, or else its heading's; `owner` is the line of what gives it a
    type (see `Stretch`), 0 without a type: texts with the same owner are one exercise, or one solution. `blocks` are
    the texts that were joined, `inner` the headings between them; `overlap` is the end of the text before it, for a
    chunk; `moved` tells that readers see another number of lines than the author wrote.
    """

    text: str
    lines: Lines
    heading: Heading
    key: int
    values: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    repeated: int = 0
    types: tuple[str, ...] = ()
    owner: int = 0
    blocks: tuple[TextItem, ...] = ()
    inner: tuple[Heading, ...] = ()
    overlap: str = ""
    moved: bool = False

    @property
    def type(self) -> str:
        """The type of the text, the first if there are several."""
        return self.types[0] if self.types else "text"

    @property
    def stretch(self) -> int | None:
        """A key that is the same for texts that may be joined, without own properties or of one owner; else None."""
        return 0 if not self.own else self.owner or None if self.own.keys() == {"type"} else None


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
    document = TypedDocument(tree, kinds.names)
    typed = document.stretches()
    if document.mixed:
        tree = blocks_to_tree(list(_split(blocks, document)), title=title)
        assert tree is not None
        document = TypedDocument(tree, kinds.names)
        typed = document.stretches()
    root = _heading(tree, None, typed)
    return Outline(tree.title, root, tuple(_items(tree, root, typed, document)), page_marks(blocks))


def _split(blocks: Iterable[Block], document: TypedDocument) -> Iterator[Block]:
    """Iterate over the blocks, with texts that hold solutions divided into several."""
    mixed = {id(node.block): at for at in document.mixed if isinstance(node := document.order[at], TextNode)}
    for block in blocks:
        if (at := mixed.get(id(block))) is None:
            yield block
            continue
        before, content, after = block.around()
        for start, end in pairwise([0, *document.mixed[at], len(content)]):
            piece = f"{before * (not start)}{content[start:end]}{after * (end == len(content))}"
            yield TextBlock(piece, block.line + content.count("\n", 0, start))


def _items(tree: HeaderNode, root: Heading, typed: Mapping[int, Stretch], document: TypedDocument) -> Iterator[Item]:
    continuations, order = document.continuations, document.order
    # The other nodes of each div that has a type, by the id of its first node.
    divs = {id(order[at]): order[at + 1 : end + 1] for at, end in document.fences.items() if id(order[at]) in typed}
    whole = dict[int, list[TextNode]]()  # those that continue a text
    for first, rest in (divs | continuations).items():
        texts = [node for node in rest if isinstance(node, TextNode) and node.metadata_block is None]
        if len(texts) == len(rest) and all(typed.get(id(node)) == typed.get(first) for node in rest):
            whole[first] = texts
    later = {id(node) for nodes in whole.values() for node in nodes}
    later |= {id(rest[-1]) for first, rest in divs.items() if first not in whole}
    around: dict[int, Mapping[str, Any]] = {}  # properties of divs that are not a single text
    seen = _seen(tree, continuations)
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
            around |= {id(inner): own for inner in continuations.get(id(node), ()) if id(node) not in whole}
            owner = typed[id(node)].line if id(node) in typed else 0
            if id(node) not in divs or id(node) in whole:  # otherwise the fence around several texts
                types = types_in(own) or above.types
                yield TextItem(text, lines, above, key, values=values, own=own, types=types, owner=owner)


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
        choice_texts, right = list[str](), list[str]()
        for each in choices:
            is_mapping = isinstance(each, dict)
            choice_texts.append(next(inner if is_mapping else bare, "") if not is_mapping or "text" in each else "")
            right += choice_texts[-1:] if is_mapping and is_on(each.get("correct")) else []
        solution = values.get("solution")
        explanations = solution if isinstance(solution, list) else [solution] if solution is not None else []
        values |= {"choices": choice_texts, "solution": [*right, *explanations]}
    return values


def _seen(tree: HeaderNode, continuations: Mapping[int, Sequence[Node]]) -> set[int]:
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
            of_unit |= {id(inner): off for inner in continuations.get(id(node), ())}
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
    written, line = (block.content, block.line) if block is not None else ("", last)
    every = with_inherited(above, own)
    return Heading(
        title=title,
        level=node.level,
        path=path,
        line=line,
        text=written,
        metadata_line=first or line,
        values=values,
        own=own,
        all=every,
        owner=typed[id(node)].line if id(node) in typed else 0,
        types=types_in(every),
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
    values = {"title": item.title, "level": item.level, "line": item.line, "source": item.text}
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
        if "text" in each:
            above = above[: each["depth"] + 1]  # after a div, that of a section outside
            types, lines = types_in(own) or above[-1].types, Lines(*each["lines"])
            items.append(TextItem(each["text"], lines, above[-1], 0, values=own, own=own, types=types, owner=owner))
            continue
        above = above[: each["depth"]]
        parent, title = above[-1] if above else None, each["title"]
        path = (*parent.path, title) if parent else ()
        numbers, every = (each["number"],) if each["number"] else (), with_inherited(parent, own)
        heading = Heading(title, each["level"], path, each["line"], each["source"], own=own, owner=owner,
                          all=every, numbers=numbers, types=types_in(every))  # fmt: skip
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
    for key in without_conversation(values):
        name = metadata.base_name(key) or key
        if name not in _NOT_PROPERTIES and name not in found:
            found[name] = plain(metadata.lookup(values, name))
    return found


def without_conversation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as it is kept in a prepared file: without chats, edits and internal fields.

    >>> without_conversation({"~titles_": "A", "~txthash_": "x y z", "~~id": 3, "~chat": ["q", "a"]})
    {'~titles_': 'A', '~txthash_': 'x y z'}
    """
    return {key: value for key, value in values.items() if not key.startswith("~~") and key not in _CONVERSATION}
