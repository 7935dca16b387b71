"""Invalid trees are refused; unchanged nodes keep their spelling."""

from __future__ import annotations

import pytest

from chatmd.language.nodes import Attribute, Comment, Element, Node, Text
from chatmd.language.syntax import MAX_DEPTH, parse, raw, write


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Element("b")], "<b> is not read as an element here"),
        ([Element("assistant", (), (Element("import"),))], "<import> is not read"),
        ([Element("msg", (Attribute("role", "tool"),), (Element("import"),))], "<import> is not read"),
        ([Text("a"), Text("b")], "two adjacent texts"),
        ([Comment("a-->b")], "a comment cannot contain"),
        ([Element("user", (Attribute("a b"),))], "'a b' is not a valid attribute name"),
        ([Element("user", (Attribute(""),))], "is not a valid attribute name"),
    ],
)
def test_what_no_text_means_is_refused(nodes: list[Node], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write(nodes)


def test_too_deep_is_refused() -> None:
    node: Node = Text("x")
    for _ in range(MAX_DEPTH):
        node = Element("agent", (), (node,))
    assert parse(write([node])).children == (node,)
    with pytest.raises(ValueError, match="nested more than"):
        write([Element("agent", (), (node,))])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain, 1 < 2 | x", "plain, 1 < 2 | x"),
        ("", "RAW||RAW"),
        ("<b>", "RAW|<b>|RAW"),
        ("RAW|", "RAW|RAW||RAW"),
        ("a||RAWb", "RAW|a|||RAWRAW|RAWb|RAW"),
        ("a|RA", "a|RA"),
        ("ends with <", "RAW|ends with <|RAW"),
    ],
)
def test_raw_only_where_a_reader_might_mistake_it(text: str, written: str) -> None:
    """Other readers take any `<b` for a tag."""
    assert write([Text(text)]) == written
    assert parse(written).children == (Text(text),)


def test_raw_blocks_of_end_marks() -> None:
    assert raw("|RAW" * 2) == "RAW|||RAWRAW|RAW||RAWRAW|RAW|RAW"
