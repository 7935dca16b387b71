"""What holds for every tree: it is its document, a change touches one node, and walks visit what they should."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from strategies import documents, keys, metadata_values, written_documents

from lmm.errors import MetadataError
from lmm.markdown import load_text, metadata
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text, unclosed_construct
from lmm.markdown.tree import (
    HeaderNode,
    HeadingNode,
    Node,
    TextNode,
    blocks_to_tree,
    children,
    extract,
    fold,
    postorder,
    preorder,
    prune,
    select,
    tree_to_blocks,
)

ANY_DOCUMENT = written_documents() | documents()
WITH_A_HEADING = ANY_DOCUMENT.map(lambda text: f"{text}\n\n## Last {{#id}}\n\nText.\n")
SETTLED_DOCUMENT = written_documents().filter(lambda text: is_settled(text))
TITLES = st.sampled_from(["Leaves", "A title: with a colon", "C#", "Straße & Co."])
PROSE = st.sampled_from(["One line.", "Two\nlines.", "- an item", "```r\nx <- 1\n\n# comment\n```", "> quoted"])

_RULE_BEFORE_TEXT = re.compile(r"\s*---[^\n]*\n(?!\s*\n|\Z)")


def is_settled(text: str) -> bool:
    """Whether nothing in a document is half-open, so that no new block can close it, and no block is empty."""
    blocks = parse_markdown_text(text)
    return not any(
        isinstance(block, ErrorBlock)
        or not block.content
        or (isinstance(block, TextBlock) and _RULE_BEFORE_TEXT.match(block.source))
        or (isinstance(block, TextBlock) and unclosed_construct(block.content))
        for block in blocks
    )


def is_plain(node: Node) -> bool:
    """Whether text may be put into this node: it has a block, or metadata that nothing follows."""
    return isinstance(node, TextNode) and not node.is_error


def shape(tree: Node) -> list[Any]:
    """What a tree says, node by node: depth, kind, level, title, text, metadata, prompts."""
    found = []
    for node in preorder(tree):
        depth = len(list(node.ancestors()))
        heading = (node.level, node.title) if isinstance(node, HeadingNode) and node.level else None
        text = node.text.replace("\r\n", "\n") if isinstance(node, TextNode) else None
        prompts = [(p.word, p.text) for p in node.prompts]
        found.append((depth, node.kind, heading, text, repr(sorted(node.metadata.items())), prompts))
    return found


def reparsed(tree: Node) -> HeaderNode:
    """The tree of the document that a tree serializes to."""
    return load_text(serialize(tree_to_blocks(tree)))


# -- a tree is its document ------------------------------------------------------------------------


@given(ANY_DOCUMENT)
def test_tree_and_blocks_are_inverse(text: str) -> None:
    """The blocks of a document's tree are the document's, the same objects in the same order."""
    blocks = parse_markdown_text(text)
    tree = blocks_to_tree(blocks)
    assert [id(block) for block in tree_to_blocks(tree)] == [id(block) for block in blocks]
    assert (tree is None) == (text == "")


@given(ANY_DOCUMENT)
def test_every_block_belongs_to_one_node(text: str) -> None:
    """Preorder visits the nodes in the order of their blocks, and each block is some node's, once."""
    blocks = parse_markdown_text(text)
    owned = [block for node in preorder(blocks_to_tree(blocks)) for block in node.own_blocks()]
    assert [id(block) for block in owned] == [id(block) for block in blocks]


@given(ANY_DOCUMENT)
def test_metadata_belongs_to_what_follows_it(text: str) -> None:
    """A node's metadata block stands directly before its heading or text; an empty node's does not."""
    blocks = parse_markdown_text(text)
    after = {id(block): follower for block, follower in zip_longest(blocks, blocks[1:])}
    for node in preorder(blocks_to_tree(blocks)):
        if node.metadata_block is None or isinstance(node, HeaderNode):
            continue
        follower = after[id(node.metadata_block)]
        own = node.own_blocks()
        assert own[1:] == [follower] if len(own) > 1 else isinstance(follower, MetadataBlock | None)


@given(ANY_DOCUMENT)
def test_sections_nest_by_level(text: str) -> None:
    """Under a heading stand texts, then deeper headings, each no deeper than the one before it."""
    for node in preorder(load_text(text)):
        levels = [child.level for child in children(node) if isinstance(child, HeadingNode)]
        texts = len(children(node)) - len(levels)
        assert [child.kind for child in children(node)] == ["text"] * texts + ["heading"] * len(levels)
        assert levels == sorted(levels, reverse=True)
        assert all(isinstance(node, HeadingNode) and level > node.level for level in levels)
        assert all(child.parent is node for child in children(node))


@given(ANY_DOCUMENT, keys())
def test_own_and_inherited(text: str, key: str) -> None:
    """`own` reads this node's block; `inherited` the nearest node above that has the key, never this one."""
    for node in preorder(load_text(text)):
        for name in [key, "title", *node.metadata]:
            own = metadata.lookup(node.metadata, name)
            assert repr(node.own(name)) == repr(own)
            above = [a for a in node.ancestors() if metadata.lookup(a.metadata, name, KeyError) is not KeyError]
            expected = above[0].own(name) if above else "default"
            assert repr(node.inherited(name, "default")) == repr(expected)


# -- a change touches one node ---------------------------------------------------------------------


def _choose(data: st.DataObject, tree: Node | None, test: Callable[[Node], bool]) -> Node:
    nodes = [node for node in preorder(tree) if test(node)]
    assume(nodes)
    return data.draw(st.sampled_from(nodes))


def _others(tree: Node, changed: Node) -> list[int]:
    return [id(block) for node in preorder(tree) if node is not changed for block in node.own_blocks()]


@given(ANY_DOCUMENT, st.data(), keys(), metadata_values())
def test_set_metadata_changes_one_block(text: str, data: st.DataObject, key: str, value: Any) -> None:
    """Setting a key of a node that has metadata leaves all other blocks the same objects; the value is read back."""
    tree = load_text(text)
    node = _choose(data, tree, lambda node: node.metadata_block is not None)
    before = _others(tree, node)
    try:
        node.set_metadata(key, value)
    except MetadataError:
        return  # a block written as {…}, or with anchors
    assert repr(node.metadata[key]) == repr(value)
    assert _others(tree, node) == before
    assert shape(reparsed(tree)) == shape(tree)
    with contextlib.suppress(MetadataError):  # a block written as {…}
        node.remove_metadata(key)
        assert key not in node.metadata


@given(SETTLED_DOCUMENT, st.data(), keys(), metadata_values())
def test_new_metadata_annotates_its_node(text: str, data: st.DataObject, key: str, value: Any) -> None:
    """A node without metadata gets a block of its own, and the document still reads as the same tree."""
    blocks = parse_markdown_text(text)
    tree = load_text(text)
    node = _choose(data, tree, lambda node: node.metadata_block is None and bool(node.own_blocks() or node is tree))
    node.set_metadata(key, value)
    assert repr(node.metadata) == repr({key: value})
    assert shape(reparsed(tree)) == shape(tree)
    assert [b.content for b in tree_to_blocks(tree) if not isinstance(b, MetadataBlock)] == [
        b.content for b in blocks if not isinstance(b, MetadataBlock) and b.content
    ]


@given(
    st.sampled_from(["", "\ufeff", "\ufeff\n", "\n\n"]),
    st.sampled_from(["First.\n\n", "# First\n", "```\nx\n```\n\n", "First."]),
    SETTLED_DOCUMENT,
)
def test_metadata_before_the_first_block_makes_a_header_first(start: str, first_block: str, rest: str) -> None:
    """A first block of metadata would be the header: so the document gets one, after its byte order mark."""
    text = start + first_block + (rest.removeprefix("\ufeff") if first_block.endswith("\n") else "")
    tree = load_text(text, title="notes")
    first = next(node for node in preorder(tree) if node.own_blocks())
    first.set_metadata("key", "value")
    result = serialize(tree_to_blocks(tree))
    assert result.startswith("\ufeff") == text.startswith("\ufeff")
    assert "\ufeff" not in result[1:]
    header, block, *_ = parse_markdown_text(result)
    assert isinstance(header, HeaderBlock)
    assert header.values() == {"title": tree.title}
    assert isinstance(block, MetadataBlock)
    assert block.values() == {"key": "value"}
    assert result.replace("\r\n", "\n").endswith(text.lstrip("\ufeff\r\n").replace("\r\n", "\n"))


@given(WITH_A_HEADING, st.data(), TITLES)
def test_a_new_title_changes_one_heading(text: str, data: st.DataObject, title: str) -> None:
    """Level, attributes, metadata and all other blocks stay."""
    tree = load_text(text)
    node = _choose(data, tree, lambda node: node.kind == "heading")
    assert isinstance(node, HeadingNode)
    assert node.heading is not None
    before, level, attributes, block = _others(tree, node), node.level, node.heading.attributes, node.metadata_block
    node.title = title
    assert (node.title, node.level, node.heading.attributes, node.metadata_block) == (title, level, attributes, block)
    assert _others(tree, node) == before
    assert shape(reparsed(tree)) == shape(tree)


@given(SETTLED_DOCUMENT, st.data(), PROSE)
def test_a_new_text_changes_one_block(text: str, data: st.DataObject, prose: str) -> None:
    """Metadata and all other blocks stay; an empty node gets a text block."""
    tree = load_text(text)
    node = _choose(data, tree, is_plain)
    assert isinstance(node, TextNode)
    before, block = _others(tree, node), node.metadata_block
    node.text = prose
    assert (node.text, node.metadata_block) == (prose, block)
    assert _others(tree, node) == before
    assert shape(reparsed(tree)) == shape(tree)


@given(SETTLED_DOCUMENT, st.data(), PROSE)
def test_a_new_text_child_stays_where_it_was_put(text: str, data: st.DataObject, prose: str) -> None:
    """Text put under a heading stands before its subheadings, and the document reads as that tree."""
    tree = load_text(text)
    node = _choose(data, tree, lambda node: isinstance(node, HeadingNode))
    assert isinstance(node, HeadingNode)
    assume(not any(child.block is None for child in node.texts))  # its metadata would annotate the new text
    child = TextNode(TextBlock.make(prose))
    index = data.draw(st.none() | st.integers(-1, 9))
    node.add_child(child, index)
    assert node.texts[-1 if index is None else min(max(index, 0), len(node.texts) - 1)] is child
    assert shape(reparsed(tree)) == shape(tree)


@given(SETTLED_DOCUMENT, st.data())
def test_a_section_moves_with_its_levels(text: str, data: st.DataObject) -> None:
    """A heading put elsewhere gets a level that fits there, its subheadings move with it, and the document reads so."""
    tree = load_text(text)
    assume(not any(isinstance(node, TextNode) and node.block is None for node in preorder(tree)))
    moved = _choose(data, tree, lambda node: node.kind == "heading")
    target = _choose(data, tree, lambda node: isinstance(node, HeadingNode))
    assert isinstance(moved, HeadingNode)
    assert isinstance(target, HeadingNode)
    before = shape(tree)
    try:
        target.add_child(moved, data.draw(st.none() | st.integers(0, 5)))
    except ValueError:
        assert moved in [target, *target.ancestors()]
        assert shape(tree) == before, "a refused move changes nothing"
        return
    assert moved.parent is target
    assert shape(reparsed(tree)) == shape(tree)


def test_a_section_too_deep_is_refused_whole() -> None:
    """A move that would need a seventh level changes no heading at all."""
    tree = load_text("# A\n\n## B\n\n### C\n\n#### D\n\n##### E\n\n# X\n\n## Y\n")
    a, x = tree.headings
    e = a.headings[0].headings[0].headings[0].headings[0]
    before = shape(tree)
    with pytest.raises(ValueError, match="'Y' would become a heading of level 7"):
        e.add_child(x)
    assert shape(tree) == before


# -- walks -----------------------------------------------------------------------------------------


@given(ANY_DOCUMENT)
def test_orders_visit_every_node_once(text: str) -> None:
    """Parents come before their children in preorder, after them in postorder, and both visit all."""
    tree = load_text(text)
    before, after = list(preorder(tree)), list(postorder(tree))
    assert len(before) == len(after)
    assert {id(node) for node in before} == {id(node) for node in after}
    place = {id(node): number for number, node in enumerate(after)}
    for number, node in enumerate(before):
        assert all(before.index(child) > number and place[id(child)] < place[id(node)] for child in children(node))


@given(ANY_DOCUMENT)
def test_fold_sees_the_whole_tree(text: str) -> None:
    """Folding sums up what is below each node."""
    tree = load_text(text)
    blocks: list[Block] = fold(
        tree, lambda node, below: [*node.own_blocks(), *(block for part in below for block in part)]
    )
    assert blocks == tree_to_blocks(tree)


@given(written_documents())
def test_extract_writes_bottom_up(text: str) -> None:
    """Each node's key becomes a function of its own and its children's values."""
    tree = load_text(text)

    def count(node: Node, below: list[Any]) -> int | None:
        return None if isinstance(node, TextNode) else sum(below) + 1

    try:
        extract(tree, "~sections", count)
    except MetadataError:
        return  # a block that cannot be added to
    for node in preorder(tree):
        if isinstance(node, HeadingNode):
            assert node.own("sections") == len(select(node, key="sections"))


@given(ANY_DOCUMENT, st.sampled_from(["text", "heading", "header"]), keys())
def test_select_find_prune_agree(text: str, kind: str, key: str) -> None:
    """Find is the first that select finds; pruning takes out what passes, once, and leaves the rest in order."""
    tree = load_text(text)
    selected = select(tree, kind=kind)
    assert all(node.kind == kind for node in selected)
    assert all(node.own(key, KeyError) is not KeyError for node in select(tree, key=key))
    before = list(preorder(tree))
    removed = prune(tree, lambda node: node.kind == kind)
    gone = {id(node) for top in removed for node in preorder(top)}
    left = list(preorder(tree))
    assert all(node is tree or node.kind != kind for node in left)
    assert [id(node) for node in before if id(node) not in gone] == [id(node) for node in left]
    assert all(node.parent is None for node in removed)
