"""The view of a conversation, event by event, without a clock or a terminal."""

from __future__ import annotations

from prompt_toolkit.data_structures import Size

from chatmd.terminal.view import ChatView
from lmm import messages as events
from lmm.errors import ModelError, Place
from lmm.messages import (
    Asked,
    ChatRequest,
    Event,
    Failed,
    ReasoningDelta,
    Reply,
    Retrying,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from lmm.terminal import columns
from lmm.terminal_markdown import plain

SEARCH = ToolCall("c1", "search", '{"query": "leaf\\u001b[2J"}')
REVIEW = ToolCall("c2", "review", '{"input": "a text that is rather long, and would not fit into the line"}')
HERE = Place("chat.chatmd")
BELOW = Place("agents/reviewer.chatmd", path=("agents/reviewer.chatmd",))


def shown(view: ChatView, *happened: tuple[float, Event], place: Place = HERE) -> list[str]:
    """Return the lines that stay."""
    return [plain(line) for now, event in happened for line in view.happened(event, place, now)]


def asked(model: str) -> Asked:
    """Make the event of a request."""
    return Asked(ChatRequest(()), model)


def live(view: ChatView, now: float) -> list[str]:
    """Return the lines that change."""
    return [plain(line) for line in view.live(now)]


def replied(text: str, *calls: ToolCall) -> Reply:
    """Make a reply that cost something."""
    return Reply(text, "m", calls=calls, usage=Usage(100, 10, 0.001, 1))


def test_a_turn_with_tools_and_an_agent() -> None:
    """One line for each call while it runs, and one when it is done; agents' calls below, with their names."""
    view = ChatView(Size(rows=24, columns=60))
    view.begin_turn(0.0)
    assert [plain(line) for line in view.user_message("Look at it.\nPlease.")] == ["› Look at it.", "  Please."]
    assert shown(view, (0.0, asked("Test/m"))) == []
    assert live(view, 1.5) == ["", "● Test/m … 1.5 s"]
    lines = shown(view, (2.0, TextDelta("Let me ")), (2.0, TextDelta("see.")))
    assert (lines, live(view, 2.0)) == ([], ["", "Let me see."])
    lines = shown(view, (3.0, replied("Let me see.", SEARCH, REVIEW)), (3.0, SEARCH),
                  (3.0, REVIEW))  # fmt: skip
    assert lines == ["", "Let me see."]
    nested = ToolCall("c1", "read_file", '{"file": "a.md"}')
    shown(view, (3.5, nested), place=BELOW)
    assert live(view, 4.0) == [
        "",
        '● search(query="leaf\\u001b[2J") 1.0 s',
        '● review(input="a text that is rather long, and would… 1.0 s',
        '  reviewer ● read_file(file="a.md") 0.5 s',
    ]
    missing = ToolResult("c1", "read_file", "no such file", failed=True, seconds=1.5)
    lines = shown(view, (4.0, ToolResult("c1", "search", "two\nlines", seconds=1.0)))
    lines += shown(view, (5.0, missing), place=BELOW)
    lines += shown(view, (6.0, ToolResult("c2", "review", "Fine, but for the first paragraph.", seconds=3.0)))
    assert lines == [
        "",
        '✓ search(query="leaf\\u001b[2J") 1.0 s: two lines',
        '  reviewer ✗ read_file(file="a.md") 1.5 s: no such file',
        '✓ review(input="a text that is r… 3.0 s: Fine, but for the …',
    ]
    assert max(map(columns, lines)) <= 60
    lines = shown(view, (7.0, replied("Done.")), (9.0, events.YourTurn()))
    assert lines == ["", "Done.", "", "9 s · 200 tokens in, 20 out, $0.0020"]
    assert live(view, 10.0) == []


def test_a_note() -> None:
    """It is shown at the foot, and becomes part of the conversation when it is delivered."""
    view = ChatView()
    shown(view, (0.0, SEARCH))
    view.pending_notes.append("in German")
    assert live(view, 1.0)[-1] == "› in German (waits)"
    lines = shown(view, (1.0, ToolResult("c1", "search", "", seconds=0.01)),
                  (1.0, events.Delivered(("in German",), with_result=True)))  # fmt: skip
    assert lines == ['✓ search(query="leaf\\u001b[2J")', "", "› in German (with the result above)"]
    assert live(view, 1.0) == []


def test_a_reply_that_breaks_off_and_one_that_fails() -> None:
    """Its lines stay, with a note that it is void; no activity is left."""
    view = ChatView()
    lines = shown(
        view,
        (0.0, asked("m")),
        (0.0, TextDelta("One.\n\nTw")),
        (1.0, Retrying("connection lost", 0.5)),
        (1.0, TextDelta("One.\n\nTwo.")),
        (2.0, Failed(ModelError("no more", hint="try later"))),
        (2.0, events.YourTurn(pending=True)),
    )
    assert lines == [
        "One.", "", "Tw", "", "The reply broke off here; the model is asked again.", "connection lost; again in 0.5 s",
        "", "One.", "", "Two.", "", "no more (try later)",
    ]  # fmt: skip
    assert live(view, 3.0) == []


def test_thoughts_are_seen_until_something_is_said() -> None:
    """Their last lines, at the foot."""
    view = ChatView(Size(rows=24, columns=20))
    shown(view, (0.0, asked("m")), (0.0, ReasoningDelta("first I think this, then of that")))
    assert live(view, 0.0)[:2] == ["first I think this,", "then of that"]
    assert shown(view, (0.0, replied("So."))) == ["So."]


def test_a_paragraph_longer_than_the_screen() -> None:
    """Its last lines are visible while it arrives."""
    view = ChatView(Size(rows=12, columns=40))
    assert shown(view, (0.0, TextDelta("word " * 199 + "end"))) == []
    assert len(live(view, 0.0)) == 6
    assert live(view, 0.0)[-1].endswith("end")


def test_the_foot_fits() -> None:
    """For any number of activities and any width."""
    view = ChatView(Size(rows=6, columns=12))
    for number in range(30):
        view.happened(ToolCall(f"c{number}", "search", '{"query": "日本語"}'), HERE, 0.0)
    view.happened(TextDelta("word " * 100), HERE, 0.0)
    assert len(live(view, 1.0)) <= 6
    assert max(map(columns, live(view, 1.0))) <= 12
