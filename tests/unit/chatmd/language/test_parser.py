"""The grammar, by the golden files tests/golden/chatmd/*.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from golden_files import Case, read_cases

from chatmd.language.nodes import Comment, Element, Node, SyntaxTree, Text
from chatmd.language.syntax import MAX_PROBLEMS, parse, serialize

_INVISIBLE = re.compile(r"[\x7f-\xa0\u2000-\u200f\u2028\u2029\ufeff]")


def describe(document: SyntaxTree) -> Iterator[str]:
    """Describe a tree as in a golden file, without the white space between elements at the top."""
    for node in document.children:
        if not (isinstance(node, Text) and node.is_blank):
            yield from _described(node, "")
    for problem in document.problems:
        yield f"{problem.severity} {problem.span.line}:{problem.span.column}: {problem.message} ({problem.hint})"


def _described(node: Node, indent: str) -> Iterator[str]:
    if isinstance(node, Text):
        yield f"{indent}{_shown(node.value)}"
    elif isinstance(node, Comment):
        yield f"{indent}comment {_shown(node.value)}"
    else:
        yield f"{indent}{node.tag} {node.span.line}:{node.span.column}{_attributes(node)}"
        for child in node.children:
            yield from _described(child, f"{indent}  ")


def _attributes(element: Element) -> str:
    return "".join(f" {name}" if value is None else f" {name}={_shown(value)}" for name, value in element.attributes)


def _shown(value: str) -> str:
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize("case", read_cases("chatmd"), ids=str)
def test_golden(case: Case) -> None:
    """The text has the nodes that the file lists, and they serialize to the text."""
    document = parse(case.source)
    assert tuple(describe(document)) == case.expected
    assert serialize(document) == case.source


def test_no_text_has_no_nodes() -> None:
    assert parse("") == SyntaxTree(())


def test_a_text_with_countless_problems_tells_of_some() -> None:
    """Warnings do not crowd out errors."""
    document = parse("</user><user x" * 5000)
    errors = [problem for problem in document.problems if problem.severity == "error"]
    assert len(errors) == MAX_PROBLEMS
    assert len(document.problems) <= 2 * MAX_PROBLEMS


def test_spans_name_the_file() -> None:
    (element,) = parse("\n <user/>", file="dir/a.chatmd").elements
    assert element.span.where == "dir/a.chatmd:2:2"
    assert element.span.text == "<user/>"
