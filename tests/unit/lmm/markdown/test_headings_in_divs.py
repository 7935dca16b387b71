"""A heading inside a fenced div opens a section that ends with the div."""

from __future__ import annotations

from lmm.markdown import load_text, parse_markdown_text, serialize
from lmm.markdown.tree import HeadingNode, TextNode, blocks_to_tree, preorder, tree_to_blocks
from lmm_education.ingestion.outline import Heading, item_values, read_outline, stored_outline

TEXT = """\
## Leaves

Green.

::: {.callout-note}
## A note

Inside.

### More

Deeper.
:::

After the note.

::: {.panel-tabset}
## One

First.

## Two

Second.
:::

Last of the leaves.

## Roots

Water.
"""


def _paths(text: str) -> dict[str, tuple[str, ...]]:
    return {node.text: node.heading_path for node in preorder(load_text(text)) if isinstance(node, TextNode)}


def test_the_text_after_the_div_belongs_to_the_section_outside() -> None:
    """In the tree, which stays the document."""
    paths = _paths(TEXT)
    assert paths["Inside."] == ("Leaves", "A note")
    assert paths["Deeper."] == ("Leaves", "A note", "More")
    assert paths["After the note."] == ("Leaves",)
    assert paths["Second."] == ("Leaves", "Two")
    assert paths["Last of the leaves."] == ("Leaves",)
    assert paths["Water."] == ("Roots",)
    blocks = parse_markdown_text(TEXT)
    assert tree_to_blocks(blocks_to_tree(blocks)) == blocks


def test_a_div_that_never_closes_ends_no_section() -> None:
    """Its line is text."""
    assert _paths("# A\n\n::: x\n\n# B\n\nText.\n")["Text."] == ("B",)


def test_a_text_that_is_added_goes_outside_of_divs() -> None:
    """Below what is there, and above the next subheading."""
    tree = load_text("# A\n\n::: x\n## B\n\nb\n:::\n\n## C\n\nc\n")
    heading = tree.headings[0]
    new = TextNode()
    new.text = "New."
    heading.add_child(new)
    again = load_text(serialize(tree_to_blocks(tree)))
    assert {n.text: n.heading_path for n in preorder(again) if isinstance(n, TextNode)}["New."] == ("A",)
    assert [node.title for node in preorder(again) if isinstance(node, HeadingNode)][1:] == ["A", "B", "C"]


def test_the_outline_of_a_course_and_what_is_stored_of_it() -> None:
    """They have the same sections."""
    outline = read_outline(TEXT)
    stored = stored_outline([item_values(item) for item in (outline.root, *outline.items)])
    for each in (outline, stored):
        found = {item.text: item.heading.path for item in each.items if not isinstance(item, Heading)}
        assert found["After the note."] == ("Leaves",)
        assert found["Second."] == ("Leaves", "Two")
        assert [item.path for item in each.items if isinstance(item, Heading)] == [
            ("Leaves",), ("Leaves", "A note"), ("Leaves", "A note", "More"), ("Leaves", "One"), ("Leaves", "Two"),
            ("Roots",),
        ]  # fmt: skip


def test_a_solution_that_contains_a_div_with_a_heading() -> None:
    """All of it is one."""
    outline = read_outline("---\ntype: solution\n---\n" + TEXT.replace("## Leaves", "## Leaves", 1))
    text = f"# Top\n\n---\ntype: solution\n---\n{TEXT}"
    outline = read_outline(text)
    kinds = {
        item.text: (item.own.get("type") or item.heading.all.get("type"))
        for item in outline.items
        if not isinstance(item, Heading)
    }
    assert kinds["After the note."] == kinds["Inside."] == kinds["Last of the leaves."] == "solution"
    assert kinds["Water."] is None
