"""What is printed while a model answers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from lmm.errors import Place
from lmm.event_printer import EventPrinter
from lmm.messages import Asked, ChatRequest, Notice, Reply, TextDelta

TAGGED = "Shorter:\n<new>\nA <b>leaf</b>, x < y.\n</new>\nIt was long."
PLAIN = "Shorter:\nA <b>leaf</b>, x < y.\n\nIt was long."


def shown(prompt: str, pieces: list[str], capsys: pytest.CaptureFixture[str], *, remembered: bool = False) -> str:
    """What a reply that arrives in these pieces prints, between the prompt and the note about it."""
    printer, place = EventPrinter(), Place("notes.md", 3)
    request = ChatRequest((), "answer" if prompt.startswith("?") else "edit")
    printer(Asked(request, "Test/model", prompt, "about"), place)
    for piece in pieces:
        printer(TextDelta(piece), place)
    printer(Reply("".join(pieces) or TAGGED, "Test/model", remembered=remembered), place)
    out = capsys.readouterr().out
    return out.split("(about)\n")[1].rpartition("\n  [Test/model")[0]


@given(st.lists(st.integers(0, len(TAGGED)), max_size=12))
def test_tags_around_a_new_text_are_not_shown(cuts: list[int]) -> None:
    """Wherever the stream is cut; what else looks like a tag stays."""
    ends = sorted({0, *cuts, len(TAGGED)})
    pieces = [TAGGED[a:b] for a, b in pairwise(ends)]
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("lmm.terminal.say", lambda text="", *, err=False, end="\n": printed.append(text + end))
        printer, place = EventPrinter(), Place("notes.md", 3)
        printer(Asked(ChatRequest((), "edit"), "Test/model", "=: shorter", "about"), place)
        for piece in pieces:
            printer(TextDelta(piece), place)
        printer(Reply(TAGGED, "Test/model"), place)
    assert "".join(printed[1:-1]) == PLAIN + "\n"


def test_a_remembered_edit_is_shown_without_tags_and_an_answer_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer may be about tags."""
    assert shown("edit: shorter", [], capsys, remembered=True) == PLAIN
    assert shown("?: what is new?", [TAGGED], capsys) == TAGGED
    assert shown("=: shorter", ["<new>A leaf.</new>"], capsys) == "A leaf."
    assert shown("+: even shorter", ["<new>A leaf.</new>"], capsys) == "A leaf."
    assert shown("=: shorter", ["Nothing to change. <none>"], capsys).strip() == "Nothing to change."


def test_a_notice_about_another_reply_waits_for_the_end_of_the_one_that_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It once continued the line of the reply."""
    printer, first, second = EventPrinter(), Place("a.md", 3), Place("a.md", 9)
    for place in (first, second):
        printer(Asked(ChatRequest(()), "Test/model", "?: why?", "about"), place)
    printer(TextDelta("I cannot help"), first)
    for event in (TextDelta("Yes."), Reply("Yes.", "Test/model"), Notice("warning: it is short")):
        printer(event, second)
    printer(TextDelta(" with that."), first)
    printer(Reply("I cannot help with that.", "Test/model"), first)
    out = capsys.readouterr().out
    assert "\nI cannot help with that.\n  [" in out
    assert "\na.md:9: warning: it is short\n" in out
