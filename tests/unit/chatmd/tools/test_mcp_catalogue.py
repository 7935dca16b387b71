"""The tools of a server that a model is offered, and their names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.mcp import model_names, offered_tools
from lmm.messages import ToolDefinition

FREE: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "object"}}}
TOOLS = [
    ToolDefinition("search", "Find.", {"type": "object"}),
    ToolDefinition("docs.read", "Read\0.", {"type": "object"}),
    ToolDefinition("free", "", FREE),
]


def offered(**declared: Any) -> list[tuple[str, str]]:
    """Return the server's names and the model's names."""
    found = offered_tools(TOOLS, Tool("mcp", "", server="stdio:x", **declared))
    return [(name, definition.name) for name, definition in found.items()]


@given(st.lists(st.text(min_size=1), unique=True), st.sampled_from(["", "wiki_", "a.b/"]))
def test_names_are_those_that_every_provider_takes(names: list[str], prefix: str) -> None:
    """A valid name does not change, whatever other tools there are."""
    made = model_names(names, prefix)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in made.values())
    for name in names:
        if re.fullmatch(r"[A-Za-z0-9_-]+", prefix + name) and len(prefix + name) <= 64:
            assert made[name] == prefix + name


@given(st.lists(st.text(st.sampled_from("ab./_ä"), min_size=1, max_size=4), unique=True))
def test_two_tools_never_have_one_name(names: list[str]) -> None:
    """Even if they differ only in characters that are replaced."""
    assert len(set(model_names(names).values())) == len(names)


def test_include_selects_in_its_order_and_a_prefix_goes_before() -> None:
    """All are offered if none is named."""
    assert offered() == [("search", "search"), ("docs.read", "docs_read"), ("free", "free")]
    assert offered(include=("docs.read", "search"), prefix="w_") == [
        ("docs.read", "w_docs_read"),
        ("search", "w_search"),
    ]


def test_a_tool_that_the_server_has_not_is_an_error() -> None:
    """The error suggests a similar name, or lists all."""
    with pytest.raises(ChatmdError, match=r"no tool 'serch' \(did you mean 'search'\?\)"):
        offered(include=("serch",))
    with pytest.raises(ChatmdError, match=r"known: docs.read, free, search"):
        offered(include=("qqq",))


def test_an_author_may_describe_the_one_tool_that_is_taken() -> None:
    """Otherwise the server's description is used, without characters that cannot be stored."""
    tools = offered_tools(TOOLS, Tool("mcp", "", description="Read a page.", include=("docs.read",)))
    assert [definition.description for definition in tools.values()] == ["Read a page."]
    assert offered_tools(TOOLS, Tool("mcp", ""))["docs.read"].description == "Read\ufffd."
