"""Walks over a section tree, case by case (what holds for every tree: tests/property/test_tree.py)."""

from __future__ import annotations

from typing import Any

import pytest

from lmm.markdown import HeadingNode, Node, TextNode, load_text
from lmm.markdown.tree import (
    annotated_text,
    extract,
    fold,
    own_text,
    postorder,
    preorder,
    prune,
    select,
)

TEXT = """\
---
title: T
---
# A

One.

---
type: exercise
---
Two.

## B

---
skip: a: b
---

---
type=: exercise
~type: other
---
Three.

# C {-}
"""


def name(node: Node) -> str:
    """A node in a word."""
    return (
        node.title if isinstance(node, HeadingNode) else node.text.split("\n")[0] if isinstance(node, TextNode) else ""
    )


def test_orders() -> None:
    """Preorder is the document's; postorder has what is below first."""
    tree = load_text(TEXT)
    assert [name(node) for node in preorder(tree)] == ["T", "A", "One.", "Two.", "B", "---", "Three.", "C"]
    assert [name(node) for node in postorder(tree)] == ["One.", "Two.", "---", "Three.", "B", "A", "C", "T"]
    assert list(preorder(None)) == list(postorder(None)) == []


def test_fold_counts_words_bottom_up() -> None:
    """The results of the children arrive in order."""
    order = fold(load_text(TEXT), lambda node, below: f"{name(node)}({','.join(below)})" if below else name(node))
    assert order == "T(A(One.,Two.,B(---,Three.)),C)"


def test_extract_skips_what_has_no_value() -> None:
    """A node for which there is no value gets none, and its parent does not see it."""
    tree = load_text("---\ntitle: T\n---\n# A\n\none two\n\n## B\n\nthree\n\n# C\n")

    def words(node: Node, below: list[Any]) -> int | None:
        if isinstance(node, TextNode):
            return len(node.text.split())
        return sum(below) if below else None

    extract(tree, "~words", words)
    assert [(name(n), n.own("words")) for n in preorder(tree)] == [
        ("T", 3), ("A", 3), ("one two", 2), ("B", 1), ("three", 1), ("C", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({}, ["T", "A", "One.", "Two.", "B", "---", "Three.", "C"]),
        ({"kind": "heading"}, ["A", "B", "C"]),
        ({"kind": "header"}, ["T"]),
        ({"key": "type"}, ["Two.", "Three."]),
        ({"key": "type", "value": "exercise"}, ["Two.", "Three."]),
        ({"key": "type", "value": "other"}, []),
        ({"key": "title", "kind": "text"}, []),
    ],
)
def test_select(conditions: dict[str, Any], found: list[str]) -> None:
    """By kind, by key under any spelling, by the value that counts."""
    assert [name(node) for node in select(load_text(TEXT), **conditions)] == found


def test_prune_takes_what_is_below_along() -> None:
    """A node under one that is taken out is not taken out of that one; the root stays."""
    tree = load_text(TEXT)
    removed = prune(tree, lambda node: name(node) in ("B", "Three.", "C", "T"))
    assert [name(node) for node in removed] == ["B", "C"]
    assert [name(node) for node in preorder(removed[0])] == ["B", "---", "Three."]
    assert [name(node) for node in preorder(tree)] == ["T", "A", "One.", "Two."]


def test_texts_without_metadata() -> None:
    """What a node stands for, as a reader sees it: no metadata, none that is broken."""
    tree = load_text(TEXT)
    a, c = tree.headings
    assert annotated_text(tree) == "# A\n\nOne.\n\nTwo.\n\n## B\n\nThree.\n\n# C {-}"
    assert annotated_text(a) == "# A\n\nOne.\n\nTwo.\n\n## B\n\nThree."
    assert own_text(a) == "One.\n\nTwo."
    assert annotated_text(a.texts[1]) == own_text(a.texts[1]) == "Two."
    assert own_text(c) == ""


def test_indentation_at_the_start_belongs_to_the_text() -> None:
    """Only line ends are taken off, so that code stays code."""
    assert annotated_text(load_text("    x <- 1\n\n\n")) == "    x <- 1"


def test_a_deep_document_is_walked_without_recursion() -> None:
    """A tree of a hundred thousand nodes in one section overflows nothing."""
    tree = load_text("# A\n\n" + "x\n\n" * 100_000)
    assert fold(tree, lambda node, below: 1 + sum(below)) == 100_002
