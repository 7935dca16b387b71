"""Messages as the user typed them, and as they are in files."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from chatmd.errors import InvalidDocument
from chatmd.language.syntax import parse
from chatmd.language.transcript import USER_TURN, element_text
from chatmd.runtime.transcript_file import Draft, draft_of, message_element, rewind_text

NAMES = st.sampled_from(["a.md", "my notes.md", "pic.png", "x/y.txt"])
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(lambda text: bool(text.strip()))
TRICKY = st.sampled_from(["</user>", "|RAW", "RAW|", "<doc src='x'/>", "a\n\nnotes.md:\nb", "&lt;"])


@given(st.one_of(TEXTS, TRICKY), st.lists(NAMES, unique=True, max_size=3))
def test_what_is_typed_comes_back(text: str, files: list[str]) -> None:
    """A message that is written to a file, and read again for /edit, is unchanged."""
    (element,) = parse(element_text(message_element(Draft(text), files))).elements
    assert draft_of(element) == Draft(text.strip("\n") if not files else text)


def test_markup() -> None:
    """A message written by hand stays as it is."""
    (element,) = parse("<user>\nSee <doc src='a.md' local/> and <import src='b.md'/>.\n</user>").elements
    draft = draft_of(element)
    assert draft == Draft("See <doc src='a.md' local/> and <import src='b.md'/>.", markup=True)
    assert message_element(draft).children[1] == element.children[1]
    with pytest.raises(InvalidDocument):
        message_element(Draft("<agent src='b.md'>", markup=True))


def test_taking_back_one_message_makes_one_copy() -> None:
    """Not one for each message of a long conversation."""
    text = "".join(f"<user>A {number}</user>\n<assistant>{'b' * 700}</assistant>\n" for number in range(300))
    tracemalloc.start()
    done = rewind_text(text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done is not None
    assert done.draft == Draft("A 299")
    assert most < 60 * len(text)


def test_rewound() -> None:
    """Everything from the last message on is removed, except declarations after it."""
    text = "<system>S</system>\n<user>A</user>\n<assistant>B</assistant>\n<user>C</user>\n<config model='m'/>\n"
    done = rewind_text(f"{text}<assistant>D</assistant>\n\n{USER_TURN}")
    assert done is not None
    assert done.draft == Draft("C")
    assert done.text == (
        f"<system>S</system>\n<user>A</user>\n<assistant>B</assistant>\n<config model='m'/>\n\n{USER_TURN}"
    )
    again = rewind_text(done.text)
    assert again is not None
    assert again.draft == Draft("A")
    assert rewind_text(again.text) is None
    assert rewind_text("<user><conversation-summary>\nShort.\n</conversation-summary>\n</user>") is None
