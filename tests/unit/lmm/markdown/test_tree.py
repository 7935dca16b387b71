"""Nodes of a section tree: what they say, and how they are changed, case by case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lmm.errors import MetadataError
from lmm.markdown import (
    HeaderNode,
    HeadingBlock,
    HeadingNode,
    TextBlock,
    TextNode,
    blocks_to_tree,
    load_text,
    serialize,
    tree_to_blocks,
)
from lmm.markdown.tree import preorder

LECTURE = """\
---
title: Botany
lang: en
---
# Leaves

---
type: definition
~summary_: made
---
A leaf is green.

## Autumn {#autumn}

---
lang: de
?: warum?
---
### Farben

Rot.

---
note: at the end
---
"""


def outline(tree: HeadingNode) -> list[str]:
    """Each node in order: its depth, and its title or text."""
    return [f"{len(list(n.ancestors()))} {n.title if isinstance(n, HeadingNode) else n.text}" for n in nodes(tree)]


def nodes(tree: HeadingNode) -> list[HeadingNode | TextNode]:
    """All nodes, typed."""
    return [node for node in preorder(tree) if isinstance(node, HeadingNode | TextNode)]


def text_of(tree: HeadingNode) -> str:
    """The document that a tree serializes to."""
    return serialize(tree_to_blocks(tree))


def test_a_document_as_a_tree() -> None:
    """Sections nest by level; a metadata block is its follower's, at the end that of an empty text."""
    tree = load_text(LECTURE)
    assert outline(tree) == ["0 Botany", "1 Leaves", "2 A leaf is green.", "2 Autumn", "3 Farben", "4 Rot.", "4 "]
    assert [node.metadata for node in nodes(tree)] == [
        {"title": "Botany", "lang": "en"}, {}, {"type": "definition", "~summary_": "made"}, {}, {"lang": "de"}, {},
        {"note": "at the end"},
    ]  # fmt: skip
    assert [node.line for node in nodes(tree)] == [1, 5, 7, 13, 15, 21, 23]
    assert [(p.word, p.text) for p in nodes(tree)[4].prompts] == [("query", "warum?")]


def test_what_a_node_knows_of_its_place() -> None:
    """Titles above it, without the document's; the root; metadata of its own, and of what is above it."""
    tree = load_text(LECTURE)
    red = nodes(tree)[5]
    assert red.heading_path == ("Leaves", "Autumn", "Farben")
    assert red.root is tree
    assert (red.own("lang"), red.inherited("lang"), red.inherited("title")) == (None, "de", "Botany")
    assert nodes(tree)[4].inherited("lang") == "en"
    assert nodes(tree)[2].own("summary") == "made"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: T\n---\n# A\n", "T"),
        ("---\ntitle: 2025\n---\n", "2025"),
        ("---\nlang: de\n---\n# A\n", "A"),
        ("Text.\n\n## B\n", "B"),
        ("#\n\n# B\n", "B"),
        ("Text.\n", "notes"),
        ("", "notes"),
    ],
)
def test_the_title_of_a_document(text: str, title: str) -> None:
    """The header's, else the first heading's, else the name it was loaded under."""
    assert load_text(text, title="notes").title == title


def test_no_blocks_have_no_tree() -> None:
    """The empty document's tree is None, and its blocks are none."""
    assert blocks_to_tree([]) is None
    assert tree_to_blocks(None) == []
    assert text_of(load_text("")) == ""


def test_an_error_block_is_a_text_node() -> None:
    """Metadata that cannot be read stands in the tree with its text; giving it another text mends it."""
    tree = load_text("# A\n\n---\ntype: a: b\n---\n\nText.\n")
    broken = tree.headings[0].texts[0]
    assert (broken.is_error, broken.text) == (True, "---\ntype: a: b\n---")
    broken.text = "Mended."
    assert not broken.is_error
    assert text_of(tree) == "# A\n\nMended.\n\nText.\n"


# Each change of the tree of "# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n", and the document after it.
def _a(tree: HeaderNode) -> HeadingNode:
    return tree.headings[0]


def _title(tree: HeaderNode) -> None:
    _a(tree).title = "A: new"


def _document_title(tree: HeaderNode) -> None:
    tree.title = "T"


def _text(tree: HeaderNode) -> None:
    _a(tree).texts[0].text = "One,\nagain."


def _metadata(tree: HeaderNode) -> None:
    _a(tree).headings[0].set_metadata("~summary_", "short")


def _metadata_first(tree: HeaderNode) -> None:
    _a(tree).set_metadata("~summary_", "short")


def _new_text(tree: HeaderNode) -> None:
    _a(tree).add_child(TextNode(TextBlock.make("New.")))


def _new_text_first(tree: HeaderNode) -> None:
    _a(tree).add_child(TextNode(TextBlock.make("New.")), 0)


def _new_text_at_the_end(tree: HeaderNode) -> None:
    tree.headings[1].add_child(TextNode(TextBlock.make("New.")))


def _new_heading(tree: HeaderNode) -> None:
    _a(tree).add_child(HeadingNode(HeadingBlock.make(1, "New")))


def _moved(tree: HeaderNode) -> None:
    tree.headings[1].add_child(_a(tree))


def _moved_up(tree: HeaderNode) -> None:
    tree.add_child(_a(tree).headings[0], 1)


def _same_place(tree: HeaderNode) -> None:
    _a(tree).add_child(_a(tree).texts[0])


def _detached(tree: HeaderNode) -> None:
    _a(tree).headings[0].detach()


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (_title, "# A: new\n\nOne.\n\n## B\n\nTwo.\n\n# C\n"),
        (_document_title, "---\ntitle: T\n---\n\n# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n"),
        (_text, "# A\n\nOne,\nagain.\n\n## B\n\nTwo.\n\n# C\n"),
        (_metadata, "# A\n\nOne.\n\n---\n~summary_: short\n---\n## B\n\nTwo.\n\n# C\n"),
        (
            _metadata_first,
            "---\ntitle: A\n---\n\n---\n~summary_: short\n---\n# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n",
        ),
        (_new_text, "# A\n\nOne.\n\nNew.\n\n## B\n\nTwo.\n\n# C\n"),
        (_new_text_first, "# A\n\nNew.\n\nOne.\n\n## B\n\nTwo.\n\n# C\n"),
        (_new_text_at_the_end, "# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\nNew.\n\n"),
        (_new_heading, "# A\n\nOne.\n\n## B\n\nTwo.\n\n## New\n\n# C\n"),
        (_moved, "# C\n## A\n\nOne.\n\n### B\n\nTwo.\n\n"),
        (_moved_up, "# A\n\nOne.\n\n# B\n\nTwo.\n\n# C\n"),
        (_same_place, "# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n"),
        (_detached, "# A\n\nOne.\n\n# C\n"),
    ],
)
def test_changes(change: Callable[[HeaderNode], None], after: str) -> None:
    """A change shows in the document where the tree has it, and nowhere else."""
    tree = load_text("# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n")
    change(tree)
    assert text_of(tree) == after
    assert outline(load_text(after)) == outline(tree)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("# A\n\nOne.", "# A\n\nOne.\n\nNew.\n\n"),
        ("# A", "# A\nNew.\n\n"),
        ("# A\r\n\r\nOne.\r\n", "# A\r\n\r\nOne.\r\n\r\nNew.\r\n\r\n"),
        ("\ufeff# A\n", "\ufeff# A\nNew.\n\n"),
    ],
)
def test_new_text_after_text_that_ends_abruptly(text: str, after: str) -> None:
    """Line ends and blank lines that the new neighbour needs are added."""
    tree = load_text(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    tree.headings[0].add_child(TextNode(TextBlock.make("New.", newline=newline)))
    assert text_of(tree) == after


def test_new_text_before_a_byte_order_mark() -> None:
    """The mark stays the first character."""
    tree = load_text("\ufeff# A\n")
    tree.add_child(TextNode(TextBlock.make("New.")))
    assert text_of(tree) == "\ufeffNew.\n\n# A\n"


def test_what_is_moved_away_from_metadata_leaves_no_header_behind() -> None:
    """A block that would come first after a move does not become the header."""
    tree = load_text("# A\n\n---\nkey: x\n---\n# B\n")
    tree.headings[0].detach()
    assert text_of(tree) == "---\ntitle: B\n---\n\n---\nkey: x\n---\n# B\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Intro\n\n```r\nx <- 1\n\n# A\n\ntext\n", "one\n```\ntwo"),
        ("Intro\n\n~~~\nx\n\n---\nk: 1\n---\n# A\n\ntext\n", "one\n~~~\ntwo"),
        ("$$\nx\n\n# A\n\ntext\n", "costs $$"),
        ("<!-- x\n\n# A\n\ntext\n", "a --> b"),
        ("Intro\n\n---\ntitle: x\n\n# A\n\ntext\n", "plain"),
        ("Intro\n\n---\n# H\n\n# A\n\ntext\n", "plain"),
    ],
    ids=["fence", "fence, a block is there", "equation", "comment", "metadata", "a rule above a heading"],
)
def test_metadata_that_would_close_what_is_open_above_is_refused(text: str, value: str) -> None:
    """It would be read as text, and what is open would end there; the document stays as it was."""
    tree = load_text(text)
    section = tree.headings[-1]
    with pytest.raises(MetadataError, match=rf"on line {section.line}: it would close a block"):
        section.set_metadata("k", value)
    assert serialize(tree_to_blocks(tree)) == text
    if value != "plain":
        section.set_metadata("k", "harmless")
        assert load_text(serialize(tree_to_blocks(tree))).headings[-1].own("k") == "harmless"


def test_nothing_goes_under_itself() -> None:
    """A heading cannot be moved below itself or what is below it."""
    tree = load_text("# A\n\n## B\n")
    (a,) = tree.headings
    for target in (a, a.headings[0]):
        with pytest.raises(ValueError, match="cannot be put under itself"):
            target.add_child(a)
