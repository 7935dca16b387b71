"""A document in another folder means the same there."""

from __future__ import annotations

import pytest

from chatmd.language.syntax import parse
from chatmd.runtime.moved import moved

CASES = [
    ('<user>a <doc src="n.md" local/> <!-- c --></user>', '<user>a <doc src="../p/n.md" local/> <!-- c --></user>'),
    ("<user><agent src='a' local>x <img src=\"i.png\" local/></agent></user >", None),
    ('<user>RAW|<doc src="a" local/>|RAW <doc src="https://a.example/b"/> <doc src="/etc/a" local/></user>', ""),
    ('<import src="tools.md"/>', '<import src="../p/tools.md"/>'),
    ('<tool name="x" agent="x.md" local/>', '<tool name="x" agent="../p/x.md" local/>'),
    ('<tool name="x" command="rg"/>', '<tool name="x" command="rg" cwd="../p"/>'),
    ('<tool name="x" command="rg" cwd="src"/>', '<tool name="x" command="rg" cwd="../p/src"/>'),
    ('<tool name="read_file" roots="a, /b"/>', '<tool name="read_file" roots="../p/a, /b" cwd="../p"/>'),
    ("<config model='m'/>\r\n<system>x</system>", ""),
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_paths_are_moved_and_nothing_else(text: str, wanted: str | None) -> None:
    """An empty `wanted` is no change."""
    made = moved(parse(text), "../p")
    if wanted is None:
        assert made == '<user><agent src="../p/a" local>x <img src="../p/i.png" local/></agent></user >'
    else:
        assert made == (wanted or text)
