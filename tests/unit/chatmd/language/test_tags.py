"""The vocabulary is complete: the reference's tables and the page for users agree with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatmd.language.lint import check
from chatmd.language.syntax import parse
from chatmd.language.tags import TAGS

PAGE = (Path(__file__).parents[4] / "docs" / "chatmd.md").read_text(encoding="utf-8")
# Every element and attribute of the published tables.
SEED = {
    "config": "model max_tokens temperature reasoning_effort show_tool_call id",
    "tool": "name command description agent local mcp_server include includes strict client_id_env client_secret_env",
    "msg": "role name id status tool_call function_name tool_call_id",
    **dict.fromkeys(("user", "assistant", "developer", "system"), "name id status"),
    "tool_call": "function_name tool_call_id",
    "tool_response": "tool_call_id",
    "reasoning": "id status",
    "summary": "",
    "import": "src",
    "img": "src local",
    "doc": "src local strip markdown",
    "agent": "src local",
}


def test_the_published_vocabulary_is_there() -> None:
    assert set(TAGS) - set(SEED) <= {"input", "output"}  # ours
    for tag, names in SEED.items():
        assert set(names.split()) <= {rule.name for rule in TAGS[tag].attributes}


@pytest.mark.parametrize("tag", TAGS)
def test_the_page_tells_of_every_tag_and_attribute(tag: str) -> None:
    """Its table has a row for each tag, with all attributes."""
    row = next(line for line in PAGE.splitlines() if line.startswith("| `<") and f"`<{tag}>`" in line.split(" | ")[0])
    for rule in TAGS[tag].attributes:
        assert f"`{rule.name}`" in row or (rule.name in ("name", "id", "status") and "as above" in row), rule.name


@pytest.mark.parametrize("tag", TAGS)
def test_flags_and_values_are_told_apart(tag: str) -> None:
    """A value without text, and nothing else, is reported."""
    for rule in TAGS[tag].attributes:
        told = [p.message for p in check(parse(f"<{tag} {rule.name}/>")) if p.message == f"'{rule.name}' has no value"]
        assert bool(told) == (rule.kind != "flag")
