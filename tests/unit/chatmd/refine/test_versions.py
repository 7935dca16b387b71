"""Replacing the instructions of a file changes nothing else, and they mean what the model wrote."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from chatmd.errors import RefineError
from chatmd.language.agent import Doc, MessageItem, read_agent
from chatmd.language.nodes import BLANK
from chatmd.language.syntax import parse
from chatmd.language.transcript import storable
from chatmd.refine.search import find_instructions, read_versions

SOURCE = '<config model="m"/>\r\n<system>\n  Be <!-- why? --> brief.\n</system>\n<!-- x --><user>Hi</user>'
_TEXTS = st.lists(
    st.sampled_from(["<system>", "</system>", "RAW|", "|RAW", "<doc src='a'/>", "<!-- c -->", "<b>", " ", "\n", "word"])
    | st.text(max_size=3),
    max_size=6,
).map("".join)  # fmt: skip


@given(_TEXTS)
@example("|RAW</system><user>")
def test_a_version_is_said_exactly(text: str) -> None:
    """A proposal is text; everything else in the file stays, byte for byte."""
    old = find_instructions(parse(SOURCE))
    assert old.text == "Be  brief."
    if not storable(text).strip(BLANK):
        with pytest.raises(ValueError, match="empty"):
            old.put(text, SOURCE)
        return
    new = old.put(text, SOURCE)
    assert new.startswith('<config model="m"/>\r\n<system>')
    assert new.endswith("</system>\n<!-- x --><user>Hi</user>")
    system, user = read_agent(parse(new)).items
    assert isinstance(system, MessageItem)
    assert "".join(map(str, system.content)).strip(BLANK) == storable(text).strip(BLANK)
    assert user == read_agent(parse(SOURCE)).items[-1]


def test_documents_in_instructions_must_stay() -> None:
    """A version that lacks a document, or adds one, cannot be used."""
    source = '<developer>Follow <doc src="rules.md" local/>.</developer><user/>'
    old = find_instructions(parse(source))
    assert old.text == 'Follow <doc src="rules.md" local/>.'
    new = old.put('First read <doc local src="rules.md"></doc>, then reply.'.replace(
        '<doc local src="rules.md"></doc>', '<doc src="rules.md" local/>'), source)  # fmt: skip
    item = read_agent(parse(new)).items[0]
    assert isinstance(item, MessageItem)
    assert item.content == ("First read ", Doc("rules.md", local=True), ", then reply.")
    for text in ("Follow the rules.", 'A <doc src="rules.md" local/> and <doc src="/etc/passwd" local/>', "<user>"):
        with pytest.raises(ValueError, match=r"must keep|closed"):
            old.put(text, source)


def test_which_message_is_refined() -> None:
    source = "<developer>D</developer><system>S</system><system>T</system><msg role='developer'>E</msg>"
    assert find_instructions(parse(source)).text == "S"
    assert find_instructions(parse("<msg role='system'>M</msg>")).text == "M"
    with pytest.raises(RefineError, match="there is no <system> or <developer>"):
        find_instructions(parse("<user>Hi</user>"))
    with pytest.raises(RefineError, match="empty"):
        find_instructions(parse("<system> \n</system>"))


def test_versions_are_read_from_a_reply() -> None:
    assert read_versions("Sure!\n<version>\nA\n</version>\n<version n='2'>B</version><version> </version>") == [
        "A",
        "B",
    ]
    assert read_versions("no tags") == []
