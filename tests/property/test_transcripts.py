"""A transcript as it grows: what arrived is what stands there, whatever cuts it off or writes between."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given, strategies as st

from chatmd.language.agent import AgentSpec, Item, MessageItem, read_agent
from chatmd.language.syntax import parse
from chatmd.language.transcript import (
    USER_TURN,
    ReceivedReply,
    call_element,
    cut_torn,
    items_of,
    lines_of,
    messages_of,
    repair,
    result_element,
    storable,
    user_text,
)
from chatmd.runtime.transcript_file import find_place
from lmm.messages import ChatEvent, Message, Reasoning, Reply, TextDelta, ToolCall, ToolResult

WORDS = [
    "|RAW",
    "RAW|",
    "|",
    "RA",
    "W|",
    "</assistant>",
    "<user>",
    "<",
    "\n",
    "\r\n",
    " ",
    "a",
    "é",
    "\U0001f600",
    "\x00",
    '"',
]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6).map("".join)
SAID = TEXTS.filter(lambda text: bool(text.strip()))
IDS = st.sampled_from(["", "m1", 'i"<&>'])
CALLS = st.builds(ToolCall, st.uuids().map(str), st.sampled_from(["add", "a b"]), TEXTS, IDS)
THOUGHTS = st.builds(Reasoning, TEXTS, st.sampled_from(["r1", "r2", ""]), st.sampled_from(["", "seal"]), IDS)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """A reply as a provider may send it."""
    calls = tuple(draw(st.lists(CALLS, max_size=3)))
    text = draw(SAID if not calls else TEXTS)
    thoughts = _as_written(draw(st.lists(THOUGHTS, max_size=3)))
    return Reply(text, "m", calls=calls, reasoning=thoughts, item=draw(IDS) if text else "")


def _as_written(thoughts: list[Reasoning]) -> tuple[Reasoning, ...]:
    """Thoughts of which those side by side have ids of their own, so that each is an element."""
    return tuple(replace(thought, id=f"{thought.id}{number}") for number, thought in enumerate(thoughts))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[ChatEvent], Reply]:
    """A reply, and the pieces that it arrives in."""
    reply = draw(replies())
    cuts = sorted(draw(st.sets(st.integers(0, len(reply.text)), max_size=5)) | {0, len(reply.text)})
    pieces = [reply.text[a:b] for a, b in pairwise(cuts)]
    deltas: list[ChatEvent] = [TextDelta(piece, "" if n else reply.item) for n, piece in enumerate(pieces)]
    return [*reply.reasoning, *deltas, *reply.calls], reply


def clean(message: Message) -> Message:
    """A message as a file can hold it."""
    return replace(
        message,
        text=storable(message.text),
        item=storable(message.item),
        calls=tuple(ToolCall(*map(storable, (c.id, c.name, c.arguments, c.item))) for c in message.calls),
        reasoning=tuple(Reasoning(*map(storable, (r.text, r.id, r.signature, r.provider))) for r in message.reasoning),
    )


def written(events: list[ChatEvent], reply: Reply) -> str:
    """The text that a reply becomes."""
    received = ReceivedReply()
    for event in events:
        received.add(event)
    calls = [call_element(ToolCall(*map(storable, (c.id, c.name, c.arguments, c.item)))) for c in reply.calls]
    return lines_of((*received.elements(reply), *calls))


@given(streams())
def test_a_reply_in_pieces_is_read_back_whole(stream: tuple[list[ChatEvent], Reply]) -> None:
    """However it was cut into pieces."""
    events, reply = stream
    assert messages_of(items_of(written(events, reply))) == (clean(reply.as_message()),)


@given(replies().filter(lambda reply: bool(reply.text.strip())))
def test_thoughts_that_are_complete_after_the_text_stand_before_it(reply: Reply) -> None:
    """Else they would be sent back in a message of their own, which servers refuse."""
    events: list[ChatEvent] = [TextDelta(reply.text, reply.item), *reply.reasoning, *reply.calls]
    assert messages_of(items_of(written(events, reply))) == (clean(reply.as_message()),)


@given(replies())
def test_a_reply_that_comes_at_once(reply: Reply) -> None:
    """Without any pieces, it is written all the same."""
    assert messages_of(items_of(written([], reply))) == (clean(reply.as_message()),)


@given(streams(), TEXTS.filter(lambda text: bool(text.strip())))
def test_the_reply_counts_if_its_pieces_differ(stream: tuple[list[ChatEvent], Reply], other: str) -> None:
    """What is written is the reply at the end."""
    events, reply = stream
    changed = replace(reply, text=reply.text + "x" + other)
    assert messages_of(items_of(written(events, changed))) == (clean(changed.as_message()),)


# -- interrupted ---------------------------------------------------------------------------------


@st.composite
def transcripts(draw: st.DrawFn) -> list[str]:
    """A conversation as a run writes it: the text after each element."""
    versions = ["<system>Be |RAW brief.</system>\n" + user_text(draw(SAID))]
    for _ in range(draw(st.integers(1, 3))):
        events, reply = draw(streams())
        versions.append(f"{versions[-1]}\n{written(events, reply)}" + ("" if reply.calls else f"\n{USER_TURN}"))
        if not reply.calls:
            break
        for call in draw(st.permutations(reply.calls)):
            result = ToolResult(storable(call.id), storable(call.name), storable(draw(TEXTS)))
            versions.append(versions[-1] + lines_of([result_element(result)]))
    return versions


@given(transcripts())
def test_after_each_write_nothing_is_lost(versions: list[str]) -> None:
    """Killed between two writes, everything before is there, and each call has one result, in the calls' order."""
    complete: list[int] = []
    for text in versions:
        repaired = repair(text).text
        spec = read_agent(parse(repaired))
        assert not spec.unanswered()
        assert repair(repaired).text == repaired
        for asked, answered in pairwise(messages_of(spec.items)):
            assert [call.id for call in asked.calls] == [result.call for result in answered.results]
        complete.append(len(_said(spec)))
    assert complete == sorted(complete)


def _said(spec: AgentSpec) -> list[Item]:
    return [item for item in spec.items if not (isinstance(item, MessageItem) and item.is_blank)]


@given(TEXTS)
@example("<user>Why?")
@example("<user>x</user>\n<tool_response tool_call_id='c")
@example("</reasoning>")
def test_repair_never_raises(text: str) -> None:
    """Whatever it is given; what it gives back needs no repair."""
    for repaired in (repair(text).text, cut_torn(text)):
        assert repair(repair(repaired).text).text == repair(repaired).text
        assert cut_torn(cut_torn(text)) == cut_torn(text)


# -- changed by others ---------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(["<user>Why?</user>\n", "<system>x</system>\n", "\n", "é\n", "<user>\n\n</user>\n"]), max_size=5
)
BASES = LINES.map("".join)
PIECES = st.lists(TEXTS.map("<assistant>{}</assistant>\n".format), min_size=1, max_size=3)


@given(BASES, st.lists(TEXTS, max_size=3), BASES | TEXTS, st.booleans())
def test_nothing_of_theirs_is_lost(base: str, pieces: list[str], theirs: str, same: bool) -> None:
    """Whatever the file has become: what is not theirs is what we wrote, or blank; else nothing is certain."""
    theirs = base + theirs if same else theirs
    if (found := find_place(base, pieces, theirs)) is None:
        return
    head, tail = found
    assert theirs.startswith(head)
    assert theirs.endswith(tail)
    between = theirs[len(head) : len(theirs) - len(tail)]
    assert "".join(pieces).startswith(between.rstrip()) or between.strip() == ""


@given(BASES, PIECES, BASES.filter(str.strip), st.data())
def test_what_is_written_behind_any_piece_comes_after_all_of_them(
    base: str, pieces: list[str], added: str, data: st.DataObject
) -> None:
    """Somebody saved what was there at some time, and more behind it: nothing twice."""
    shared = data.draw(st.integers(0, len(pieces)))
    added = f"<user>And?</user>\n{added}"
    assert find_place(base, pieces, base + "".join(pieces[:shared]) + added) == (base, added)


@given(BASES, PIECES, st.booleans())
def test_a_change_long_before_leaves_ours_at_the_end(base: str, pieces: list[str], has_ours: bool) -> None:
    """Somebody changed an earlier message, and saved a version with or without what we wrote."""
    base = f"<system>old</system>\n{base}<user>{'the last question ' * 10}</user>\n"
    changed = base.replace("old", "new")
    assert find_place(base, pieces, changed + "".join(pieces) * has_ours) == (changed, "")
