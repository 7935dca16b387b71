"""The section tree of a document, and the way back to its blocks.

A tree shows the same document as the block list: `tree_to_blocks(blocks_to_tree(blocks)) == blocks` for
every document. Nodes hold the blocks they came from; changing a node re-renders only its own blocks.

Three kinds of node: the root `HeaderNode` (the document and its header), `HeadingNode` (a heading with
everything under it) and the leaf `TextNode`. A metadata block belongs to the node made of the block that
follows it; before another metadata block, or at the end, it belongs to an empty text node.

Walking a tree does not recurse, so that no document overflows the stack.

>>> from lmm.markdown import parse_markdown_text
>>> blocks_to_tree(parse_markdown_text("# Oaks\\n\\nLobed.\\n\\n## Bark\\n\\nRough.\\n")).children[0].children
[TextNode('Lobed.', line 3), HeadingNode('Bark', line 5, 1 children)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, TypeVar

from lmm.disk import files
from lmm.errors import DocumentError, MetadataError
from lmm.markdown import metadata
from lmm.markdown.blocks import (
    Block,
    ErrorBlock,
    ForeignHeader,
    HeaderBlock,
    HeadingBlock,
    MetadataBlock,
    TextBlock,
    apart,
    serialize,
)
from lmm.markdown.ioutils import Logger, load_markdown, print_error, save_markdown
from lmm.markdown.metadata import Prompt
from lmm.markdown.parse_markdown import METADATA_OPEN, div_ends, misread, parse_markdown_text

_CLOSERS = ("```", "~~~", "$$", "-->")
_ANY = object()


class Node:
    """The base class of all nodes: a parent and metadata of their own."""

    kind: ClassVar[str]
    metadata_is_open = False  # of a root: whether there was metadata that never closes, which more metadata would close

    def __init__(self, metadata_block: MetadataBlock | None = None) -> None:
        self.parent: HeadingNode | None = None
        self.metadata_block = metadata_block

    # -- reading ---------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any]:
        """This node's own metadata, as a new dictionary; change it with `set_metadata`."""
        return self.metadata_block.values() if self.metadata_block is not None else {}

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The pending prompt lines of this node's metadata block."""
        return self.metadata_block.prompts if self.metadata_block is not None else ()

    @property
    def line(self) -> int:
        """The 1-based line on which the node's first block begins; 0 for a node made in memory."""
        return next((block.line for block in self.own_blocks()), 0)

    def own(self, key: str, default: Any = None) -> Any:
        """Return the value of `key` in this node's own metadata, in any spelling (``key=``, ``key``, ``~key``)."""
        return metadata.lookup(self.metadata, key, default)

    def inherited(self, key: str, default: Any = None) -> Any:
        """Return the value of `key` in the nearest ancestor that has it; this node is not searched."""
        found = (node.own(key, _ANY) for node in self.ancestors())
        return next((value for value in found if value is not _ANY), default)

    def __iter__(self) -> Iterator[Block]:
        """Iterate over the blocks of this node and of all nodes below, as `serialize` joins them."""
        return iter(tree_to_blocks(self))

    def ancestors(self) -> Iterator[HeadingNode]:
        """Iterate over the nodes above this one, nearest first, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> Node:
        """The root of this node's tree."""
        return next(iter(reversed(list(self.ancestors()))), self)

    @property
    def heading_path(self) -> tuple[str, ...]:
        """Titles of the headings above this node, outermost first; the document's title is left out."""
        return tuple(a.title for a in reversed(list(self.ancestors())) if a.level > 0)

    def own_blocks(self) -> list[Block]:
        """Return the blocks of this node alone, without its children's."""
        return [self.metadata_block] if self.metadata_block is not None else []

    # -- changing --------------------------------------------------------------------------------

    def set_metadata(self, key: str, value: Any) -> None:
        """Set one metadata key, in a new metadata block if there is none.

        Raises:
            MetadataError: the block cannot be changed without touching other keys, or something above it that is
                never closed (a fence, an equation, a comment, other metadata) would be closed by it.
        """
        self._check_live()
        before, root = self.metadata_block, self.root
        if before is not None:
            self.metadata_block = before.with_key(key, value)
        else:
            if root is not self and isinstance(root, HeaderNode) and _first(root) is self:
                root.ensure_header()  # else this block would be read as the header
            self.metadata_block = self._new_metadata({key: value})
        closes = any(mark in self.metadata_block.source for mark in _CLOSERS)
        risky = (before is None and root.metadata_is_open) or closes
        if risky and root is not self and self.metadata_block in misread(tree_to_blocks(root)):
            self.metadata_block = before
            raise MetadataError(
                f"'{key}' cannot be set on line {self.line}: it would close a block that is open above",
                hint="lmm scan shows what is never closed",
            )

    def remove_metadata(self, key: str) -> None:
        """Remove one metadata key; a block that becomes empty stays, since it is the author's."""
        self._check_live()
        if self.metadata_block is not None:
            self.metadata_block = self.metadata_block.without_key(key)

    def detach(self) -> None:
        """Remove this node, with everything under it, from its tree."""
        self._check_live()
        if self.parent is not None:
            with _start_kept(self.root):
                self.parent.children.remove(self)
                self.parent = None

    def _check_live(self) -> None:
        """Raise if the document has replaced this tree by another: a change would be lost silently."""
        if isinstance(root := self.root, HeaderNode) and root.ended:
            raise DocumentError("this tree is out of date: the document has changed", hint="get document.tree again")

    def _new_metadata(self, values: Mapping[str, Any]) -> MetadataBlock:
        return MetadataBlock.make(values, newline=self._newline())

    def _newline(self) -> str:
        blocks = self.own_blocks() or next((b for a in self.ancestors() if (b := a.own_blocks())), [])
        return blocks[-1].newline if blocks else "\n"


class TextNode(Node):
    """A leaf: a text block, an error block, or nothing (metadata that annotates no text)."""

    kind = "text"

    def __init__(
        self, block: TextBlock | ErrorBlock | None = None, metadata_block: MetadataBlock | None = None
    ) -> None:
        super().__init__(metadata_block)
        self.block = block

    def __repr__(self) -> str:
        return f"TextNode({shorten(self.text, 60, placeholder='…')!r}, line {self.line})"

    @property
    def text(self) -> str:
        """The text, without the blank lines that follow it; empty for an empty node."""
        return self.block.content if self.block is not None else ""

    @text.setter
    def text(self, text: str) -> None:
        self._check_live()
        if isinstance(self.block, TextBlock):
            self.block = self.block.with_text(text)
        else:
            self.block = TextBlock.make(text, newline=self._newline())

    @property
    def is_error(self) -> bool:
        """Whether this node is metadata that could not be parsed."""
        return isinstance(self.block, ErrorBlock)

    def own_blocks(self) -> list[Block]:
        return [block for block in (self.metadata_block, self.block) if block is not None]


class HeadingNode(Node):
    """A heading and everything under it, up to the next heading of its level or above, or the end of its div."""

    kind = "heading"
    in_div = False  # whether it stands in a fenced div, and so its section ends with the div

    def __init__(
        self,
        heading: HeadingBlock | None = None,
        metadata_block: MetadataBlock | None = None,
        children: Iterable[Node] = (),
    ) -> None:
        super().__init__(metadata_block)
        self.heading = heading
        self.children: list[Node] = []
        for child in children:
            self.adopt(child)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r}, line {self.line}, {len(self.children)} children)"

    @property
    def level(self) -> int:
        """The heading level, 1 to 6; 0 for the root."""
        return self.heading.level if self.heading is not None else 0

    @property
    def title(self) -> str:
        """The heading's text."""
        return self.heading.title if self.heading is not None else ""

    @title.setter
    def title(self, title: str) -> None:
        self._check_live()
        if self.heading is not None:
            self.heading = self.heading.with_title(title)

    @property
    def headings(self) -> list[HeadingNode]:
        """The child nodes that are headings."""
        return [child for child in self.children if isinstance(child, HeadingNode)]

    @property
    def texts(self) -> list[TextNode]:
        """The child nodes that are text: the content directly under this heading."""
        return [child for child in self.children if isinstance(child, TextNode)]

    def add_child(self, child: Node, index: int | None = None) -> None:
        """Insert `child` under this heading at position `index`, by default as the last of its kind.

        Text stays before the first subheading. A heading gets the level that fits its place: below this
        one, no deeper than the subheading before it, no higher than the one after it; its subheadings move
        with it.

        Raises:
            ValueError: that would need a heading deeper than level 6, or `child` is above this heading.
        """
        self._check_live()
        if child is self or any(node is child for node in self.ancestors()):
            raise ValueError(f"'{self.title}' cannot be put under itself")
        siblings = [node for node in self.children if node is not child]
        below_texts = [isinstance(node, HeadingNode) and not node.in_div for node in siblings]
        texts = below_texts.index(True) if True in below_texts else len(siblings)
        levels = [node.level for node in siblings[texts:] if isinstance(node, HeadingNode)]
        at = len(siblings) if index is None else min(max(index, 0), len(siblings))
        if isinstance(child, HeadingNode):
            at = max(at, texts)
            above = levels[at - texts - 1] if at > texts else 6
            below = levels[at - texts] if at < len(siblings) else self.level + 1
            _shift(child, max(below, min(child.level, above)) - child.level)
        else:
            at = min(at, texts)
        child.detach()
        with _start_kept(self.root):
            self.adopt(child, at)

    def own_blocks(self) -> list[Block]:
        return [block for block in (self.metadata_block, self.heading) if block is not None]

    def adopt(self, child: Node, index: int | None = None) -> None:
        """Insert a node that is in no tree under this one without changing it (unlike `add_child`)."""
        child.parent = self
        self.children.insert(len(self.children) if index is None else index, child)


MarkdownTree = HeadingNode | None


class HeaderNode(HeadingNode):
    """The root: the whole document with its header.

    A document without a header gets a root that emits no bytes.
    """

    kind = "header"

    def __init__(
        self, metadata_block: MetadataBlock | None = None, children: Iterable[Node] = (), *, title: str = ""
    ) -> None:
        super().__init__(None, metadata_block, children)
        self._title = title
        self.default_header: Mapping[str, Any] | None = None  # its values, if one must be added; else a title
        self.ended = False  # whether its document has replaced this tree by another

    @property
    def title(self) -> str:
        """The header's ``title``, else the only topmost heading's, else the title given to `blocks_to_tree`, else the
        first heading's."""
        title = self.own("title")
        if title is None and self.foreign is not None:
            title = self.foreign.values.get("title")
        if title is not None:
            return str(title)
        top = min((node.level for node in self.headings), default=0)
        above = [node.title for node in self.headings if node.level == top and node.title]
        return above[0] if above and (len(above) == 1 or not self._title) else self._title

    @title.setter
    def title(self, title: str) -> None:
        self.set_metadata("title", title)

    @property
    def foreign(self) -> ForeignHeader | None:
        """The document's header in another notation, if it has one; then it can get no other."""
        first = next((node for node in self.children if node.own_blocks()), None)
        block = first.block if isinstance(first, TextNode) else None
        return block if isinstance(block, ForeignHeader) else None

    def ensure_header(self, values: Mapping[str, Any] | None = None) -> None:
        """Add a header with these values, by default `default_header` or a title, if the document has none."""
        if self.metadata_block is None:
            values = values or self.default_header or {"title": self.title or "Untitled"}
            self.metadata_block = self._new_metadata(values)

    def _new_metadata(self, values: Mapping[str, Any]) -> MetadataBlock:
        if self.foreign is not None:
            what = f"the header of this document is in {self.foreign.form}, and is left as it is"
            raise MetadataError(what, hint="write a header of '---' lines and 'key: value' lines")
        first = next((node for node in self.children if node.own_blocks()), None)
        newline = first.own_blocks()[0].newline if first else "\n"
        block = HeaderBlock.make(values, newline=newline)
        bom = "\ufeff" if first and _take_byte_order_mark(first) else ""
        return block.with_source(bom + block.source + newline * bool(first))


def _first(root: HeadingNode) -> Node:
    """Return the node with a document's first block; the root for an empty document."""
    node: Node = root
    while not node.own_blocks() and isinstance(node, HeadingNode) and node.children:
        node = node.children[0]
    return node


@contextmanager
def _start_kept(root: Node) -> Iterator[None]:
    """Keep a byte order mark first, and any part's metadata from becoming the header, while children change."""
    if not isinstance(root, HeaderNode):
        yield
        return
    mark = _take_byte_order_mark(_first(root))
    yield
    first = _first(root)
    for block in first.own_blocks()[:1] if mark else []:
        _set_source(first, block, "\ufeff" + block.source)
    if first.metadata_block is not None:
        root.ensure_header()


def _take_byte_order_mark(node: Node) -> bool:
    """Remove a byte order mark from a node's first block; return whether there was one."""
    block = next(iter(node.own_blocks()), None)
    if block is None or not block.source.startswith("\ufeff"):
        return False
    _set_source(node, block, block.source[1:])
    return True


def _set_source(node: Node, block: Block, source: str) -> None:
    """Replace the source of one of a node's own blocks."""
    for name in ("metadata_block", "heading", "block"):
        if getattr(node, name, None) is block:
            setattr(node, name, block.with_source(source))


def _shift(node: HeadingNode, by: int) -> None:
    """Change the level of a heading and of all headings under it, or of none of them."""
    headings = [node]
    for heading in headings:
        headings.extend(heading.headings)
    deepest = max(headings, key=lambda heading: heading.level)
    if deepest.level + by > 6:
        raise ValueError(f"'{deepest.title}' would become a heading of level {deepest.level + by}; the deepest is 6")
    for heading in headings if by else []:
        if heading.heading is not None:
            hashes = "#" * heading.level
            source = heading.heading.source.replace(hashes, hashes + "#" * by if by > 0 else hashes[:by], 1)
            heading.heading = replace(heading.heading, source=source)


def blocks_to_tree(blocks: Sequence[Block], *, title: str = "") -> HeaderNode | None:
    """Build the tree of a block list; return None for the empty list.

    `title` names a document that has neither a header with a title nor a heading (say, its file's name).

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> root = blocks_to_tree(parse_markdown_text("# A\\n\\none\\n\\n## B\\n\\ntwo\\n"))
    >>> root.title, root.headings[0].headings[0].heading_path
    ('A', ('A',))
    """
    if not blocks:
        return None
    rest = list(blocks)
    header = rest.pop(0) if isinstance(rest[0], HeaderBlock) else None
    root = HeaderNode(header if isinstance(header, HeaderBlock) else None, title=title)
    above: list[tuple[int, HeadingNode]] = [(0, root)]  # the present section and those around it; 0: a div begins
    pending: MetadataBlock | None = None
    divs = div_ends([block.source if isinstance(block, TextBlock) else None for block in rest])
    closers = set(divs.values())
    inside = 0  # divs
    for at, block in enumerate([*rest, None]):
        if pending is not None and (block is None or isinstance(block, MetadataBlock)):
            above[-1][1].adopt(TextNode(None, pending))
        if isinstance(block, HeadingBlock):
            section, level = HeadingNode(block, pending), block.level
            while above[-1][0] >= level:
                above.pop()
            section.in_div = inside > 0
            above[-1][1].adopt(section)
            above.append((level, section))
        elif isinstance(block, (TextBlock, ErrorBlock)):
            while at in closers and above.pop()[0]:
                pass
            above[-1][1].adopt(TextNode(block, pending))
            # Whether metadata begin with it and never close: the next block goes on where "+" stands.
            opening = METADATA_OPEN.match(f"{block.source}+") if block.source.startswith("---") else None
            root.metadata_is_open |= opening is not None and not metadata.CLOSE.search(block.source, opening.end())
            if at in divs:
                above.append((0, above[-1][1]))
            inside += (at in divs) - (at in closers)
        pending = block if isinstance(block, MetadataBlock) else None
    return root


def tree_to_blocks(tree: Node | None) -> list[Block]:
    """Return the blocks of a tree or subtree, in document order: the inverse of `blocks_to_tree`.

    Blocks that were not adjacent before are separated by a blank line where they need one.
    """
    blocks: list[Block] = []
    for node in preorder(tree):
        for block in node.own_blocks():
            if blocks and not blocks[-1].source.endswith("\n\n"):
                blocks[-1] = apart(blocks[-1], block)
            blocks.append(block)
    return blocks


def load_text(text: str, *, title: str = "") -> HeaderNode:
    """Parse a markdown string into a tree; the empty string gives an empty root."""
    return blocks_to_tree(parse_markdown_text(text), title=title) or HeaderNode(title=title)


def load_tree(path: str | Path, logger: Logger = print_error) -> HeaderNode | None:
    """Parse a markdown file into a tree, titled by its name if it has no title; return None if it cannot be read."""
    text = load_markdown(path, logger)
    return None if text is None else load_text(text, title=files.title_of(Path(path)))


def save_tree(path: str | Path, tree: HeadingNode, logger: Logger = print_error) -> bool:
    """Write a tree to a markdown file; on an error, call `logger` and return False."""
    return save_markdown(path, serialize(tree), logger)


# -- walking ---------------------------------------------------------------------------------------


T = TypeVar("T")


def children(node: Node) -> list[Node]:
    """Return the children of a node; a text node has none."""
    return node.children if isinstance(node, HeadingNode) else []


def preorder(tree: Node | None) -> Iterator[Node]:
    """Iterate over every node, parents before their children: the order of the document.

    >>> from lmm.markdown import load_text
    >>> [node.kind for node in preorder(load_text("# A\\n\\none\\n\\n## B\\n"))]
    ['header', 'heading', 'text', 'heading']
    """
    stack = [tree] if tree is not None else []
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def postorder(tree: Node | None) -> Iterator[Node]:
    """Iterate over every node, children before their parents."""
    stack, order = [tree] if tree is not None else [], list[Node]()
    while stack:
        order.append(node := stack.pop())
        stack.extend(children(node))
    return reversed(order)


def fold(tree: Node, function: Callable[[Node, list[T]], T]) -> T:
    """Call `function(node, results of its children)` for every node, bottom-up, and return the root's result.

    >>> from lmm.markdown import load_text
    >>> fold(load_text("# A\\n\\none\\n\\n## B\\n\\ntwo\\n"), lambda node, below: 1 + sum(below))
    5
    """
    results: dict[int, T] = {}
    for node in postorder(tree):
        results[id(node)] = function(node, [results.pop(id(child)) for child in children(node)])
    return results[id(tree)]


def extract(tree: Node, key: str, function: Callable[[Node, list[Any]], Any]) -> None:
    """Write metadata bottom-up: each node's `key` becomes `function(node, its children's values)`.

    A node for which `function` returns None is left as it is.
    """

    def visit(node: Node, below: list[Any]) -> Any:
        value = function(node, [v for v in below if v is not None])
        if value is not None:
            node.set_metadata(key, value)
        return value

    fold(tree, visit)


def select(tree: Node | None, *, kind: str | None = None, key: str | None = None, value: object = _ANY) -> list[Node]:
    """Return the nodes of a kind (``header``, ``heading``, ``text``), with a metadata key of their own, or its value.

    >>> from lmm.markdown import load_text
    >>> [n.text for n in select(load_text("a\\n\\n---\\ntype: exercise\\n---\\nb\\n"), key="type", value="exercise")]
    ['b']
    """
    nodes = [node for node in preorder(tree) if kind is None or node.kind == kind]
    own = [node.own(key, _ANY) if key is not None else None for node in nodes]
    return [
        node for node, found in zip(nodes, own, strict=True) if found is not _ANY and (value is _ANY or found == value)
    ]


def prune(tree: Node | None, test: Callable[[Node], bool]) -> list[Node]:
    """Remove every node that passes `test`, with everything under it; return the removed nodes."""
    removed = []
    for node in list(preorder(tree)):
        if node.parent is not None and test(node) and node.root is tree:
            node.detach()
            removed.append(node)
    return removed


def without_metadata(blocks: Sequence[Block]) -> str:
    """Return the text of blocks as a reader sees it, without headers, metadata and error blocks."""
    hidden = (MetadataBlock, ErrorBlock, ForeignHeader)
    return serialize(b for b in blocks if not isinstance(b, hidden)).strip("\ufeff\r\n")


def annotated_text(node: Node) -> str:
    """Return the text that a metadata block on `node` annotates, as written, without the metadata inside it.

    That is a paragraph; a heading with everything under it; for the root, the whole document.
    """
    return without_metadata(tree_to_blocks(node))


def own_text(node: Node) -> str:
    """Return the text of a text node, or the text directly under a heading, without subheadings."""
    nodes: Sequence[Node] = node.texts if isinstance(node, HeadingNode) else [node]
    return without_metadata([block for n in nodes for block in n.own_blocks()])


# -- words -----------------------------------------------------------------------------------------


# Scripts without spaces between words: about two characters to one.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def count_words(text: str) -> int:
    """Count the words of a text, also in scripts that do not separate them.

    >>> count_words("a green leaf"), count_words("葉は緑色です")
    (3, 4)
    """
    return len(text.split()) + len(_UNSPACED.findall(text)) // 2
