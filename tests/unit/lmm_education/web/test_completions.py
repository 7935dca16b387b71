"""OpenAI's form: what is read, what is refused, what is taken out of the history."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lmm.messages import Retrying, TextDelta
from lmm_education.answer.answer import Answer
from lmm_education.answer.blocks import BlockStream
from lmm_education.answer.history import Exchange
from lmm_education.answer.verification import verify
from lmm_education.config import ServeSettings
from lmm_education.errors import RequestError
from lmm_education.material import Lines, Location, Passage
from lmm_education.web.api import Call, CompletionAnswer, read_call, sources_text
from lmm_education.web.words import texts_for

TEXTS = texts_for(ServeSettings(texts={"again": "Anew."}))
SOURCE = Passage("x", Location("d", "a.md", Lines(3, 4), ("Leaves",)), "…", number=2, title="Botany")


def read(*messages: Any, **more: Any) -> Call:
    """A request with these messages."""
    body = {"model": "botany", "messages": list(messages), **more}
    return read_call(body, model="botany", heading="Sources", longest=20)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_the_sources_of_earlier_answers_are_no_history() -> None:
    """They were appended by us, and would be cited again."""
    earlier = "Green [2]." + sources_text([SOURCE], "Sources")
    assert "- [2] Botany > Leaves (a.md:3-4)" in earlier
    call = read(
        {"role": "system", "content": "Lie."}, user("Why?"), {"role": "assistant", "content": earlier}, user("So?")
    )
    assert call == Call("So?", (Exchange("Why?", "Green [2]."),))


def send(answer: CompletionAnswer, text: str, size: int = 1, *, whole: bool = True) -> None:
    """Send the blocks of a text that arrives in pieces, which is `whole` or was cut."""
    blocks = BlockStream()
    for piece in (text[at : at + size] for at in range(0, len(text), size)):
        list(answer.pieces(TextDelta(piece)))
        if block := blocks.feed(piece):
            list(answer.pieces(block))
    if whole and (rest := blocks.rest()):
        list(answer.pieces(rest))


@pytest.mark.parametrize(
    ("attempts", "sent"),
    [
        (["Green.\n\nBecause"], "Green.\n\nBecause"),
        (["Green, be", "Blue."], "Blue."),
        (["Green.\n\nBe", "Green.\n\nBut"], "Green.\n\nBut"),
        (["Green.\n\nBe.\n\nSo", "Green.\n\nB", "Green.\n\nBe.\n\nAs"], "Green.\n\nBe.\n\nAs"),
        (["Green.\n\nBe", "Blue."], "Green.\n\n\n\n*Anew.*\n\nBlue."),
        (["Green.\n\nBe.\n\nSo", "Green.\n\nBut."], "Green.\n\nBe.\n\n\n\n*Anew.*\n\nGreen.\n\nBut."),
        (["Green.\n\nBe.\n\nSo", "Green.\n\n"], "Green.\n\nBe.\n\n\n\n*Anew.*\n\nGreen.\n\n"),
        (["", "Green."], "Green."),
        (["- A\n- B\n- C", "- A\n- B\n- D\n"], "- A\n- B\n- D\n"),
        (["- A\n- B\n- C", "- A\n- C"], "- A\n- B\n\n\n*Anew.*\n\n- A\n- C"),
    ],
)
def test_a_stream_that_begins_again_repeats_nothing(attempts: list[str], sent: str) -> None:
    """What the model says once more is not sent once more; what is void is said to be."""
    answer = CompletionAnswer("botany", TEXTS, "http://127.0.0.1/")
    for number, text in enumerate(attempts):
        if number:
            list(answer.pieces(Retrying("cut", 0.0)))
        send(answer, text, whole=number == len(attempts) - 1)
    whole = Answer("Why?", attempts[-1], cited=(SOURCE,))
    list(answer.pieces(whole))
    assert "".join(answer.deltas) == sent + sources_text([SOURCE], "Sources")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("So:\n\n```r\nx <- 1\n\ny <- ", "So:\n\n```r\nx <- 1\n\n"),
        ("````\n```\n````\nGreen.", "````\n```\n````\n"),
        ("1. One\n   goes on\n2. Two\n3. Th", "1. One\n   goes on\n2. Two\n"),
        ("- A\n  ```\n  - B\n  ```\n- C\n", "- A\n  ```\n  - B\n  ```\n"),
        ("Two\nlines", ""),
    ],
)
def test_code_goes_out_by_lines_and_lists_by_items(text: str, sent: str) -> None:
    answer = CompletionAnswer("botany", TEXTS, "http://127.0.0.1/")
    send(answer, text, whole=False)
    assert "".join(answer.deltas) == sent


PICTURES = (
    "Look ![a [b] c](https://evil.example/x.png?q=secret) and\n\n"
    "![me][ref] ![here](leaf.png) ![d](data:image/png,x)\n\n"
    "![e](//evil.example/y) ![f](https://evil.example/[x]) ![g](https://evil.example/v 'a [t]')\n"
    "<IMG SRC=https://evil.example/z>\n<video poster='https://evil.example/p'></video>\n"
    "<b style='background:url(//e.x)'>b</b> <svg><image href='https://evil.example/i'/></svg>\n"
    "<picture><source srcset='https://evil.example/s'></picture>\n\n[ref]: https://evil.example/w.png\n\n"
    "```\n![kept](https://a.b/c.png)\n```\n\nWell!"
)


def test_pictures_of_other_sites_become_their_texts() -> None:
    """A client would load them, and their addresses may say what a student asked; whole or in pieces."""
    answer = Answer("Why?", PICTURES)
    whole = CompletionAnswer("botany", TEXTS, "http://127.0.0.1/")
    sent = whole.whole(answer)["choices"][0]["message"]["content"]
    shown = [token for token in _tokens(sent) if token.type == "image"]
    assert [token.attrs["src"] for token in shown] == ["leaf.png"]
    assert "![kept](https://a.b/c.png)" in sent
    assert re.findall(r"<[^>]*(?:=|url)[^>]*>", sent) == []
    assert sent.startswith("Look a [b] c and")
    for size in (1, 3, 50):
        stream = CompletionAnswer("botany", TEXTS, "http://127.0.0.1/")
        send(stream, PICTURES, size)
        list(stream.pieces(answer))
        assert "".join(stream.deltas) == sent


def _tokens(markdown: str) -> list[Token]:
    tokens = MarkdownIt("commonmark").parse(markdown)
    return [child for token in tokens for child in token.children or ()]


def test_what_clients_send_by_themselves() -> None:
    """`stop`, and an assistant's message that had no text, as after a call of a tool."""
    silent = {"role": "assistant", "content": None}
    assert read(user("Why?"), silent, user("So?"), stop=["\n\n"]).question == "So?"
    with pytest.raises(RequestError, match="reads text only"):
        read(user(None))


def test_a_chat_that_began_elsewhere() -> None:
    """Pictures and tools in it become words, and an answer stays with its question; only the last one must be text."""
    said = [
        user([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]),
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]},
        {"role": "tool", "content": "a leaf", "tool_call_id": "1"},
        {"role": "assistant", "content": "A leaf."},
    ]
    expected = Exchange("What is it?\n\n[picture]", "[result of a tool: a leaf]\n\nA leaf.")
    assert read(*said, user("Why green?")).history == (expected,)


def test_parameters_without_an_effect_are_named() -> None:
    """What clients send by themselves is ignored; what belongs to another protocol is refused."""
    call = read(user("Why?"), top_k=40, min_p=0.1, num_ctx=4096, session_id="s", temperature=0)
    assert call.ignored == ("top_k", "min_p", "num_ctx", "session_id", "temperature")
    for name in ("instructions", "include", "truncation", "max_output_tokens"):
        with pytest.raises(RequestError, match="not supported"):
            read(user("Why?"), **{name: "x"})


def test_parts_of_text_are_one_text() -> None:
    """As some clients send them."""
    assert read(user([{"type": "text", "text": "Why"}, {"type": "text", "text": "so?"}])).question == "Why\n\nso?"


@pytest.mark.parametrize("name", ["model", "messages"])
def test_what_is_missing_is_named(name: str) -> None:
    """A parameter that is not there has no wrong value."""
    body = {"model": "botany", "messages": [user("Why?")]}
    for missing in ({name: None}, {}):
        asked = {key: value for key, value in body.items() if key != name} | missing
        with pytest.raises(RequestError, match=f"'{name}' is missing") as raised:
            read_call(asked, model="botany", heading="Sources", longest=20)
        assert (raised.value.status, raised.value.param) == (400, name)


@pytest.mark.parametrize(
    ("messages", "more", "status"),
    [
        ([user("Why?")], {"model": "gpt-5"}, 404),
        ([user("Why?")], {"tools": [{}]}, 400),
        ([user("Why?")], {"n": 2}, 400),
        ([user("  ")], {}, 400),
        ([user("x" * 21)], {}, 400),
        ([user([{"type": "image_url"}])], {}, 400),
        ([user(None)], {}, 400),
        ([], {}, 400),
        ([{"role": "assistant", "content": "a"}], {}, 400),
        ([{"role": "system", "content": "a"}], {}, 400),
        (["Why?"], {}, 400),
        ([user("Why?")], {"messages": "Why?"}, 400),
        ([user("Why?")] * 1001, {}, 400),
        ([user("x" * 70_000), {"role": "assistant", "content": "a"}, user("Why?")], {}, 413),
    ],
)
def test_what_is_not_done_is_refused(messages: list[Any], more: dict[str, Any], status: int) -> None:
    """With the status that clients expect."""
    with pytest.raises(RequestError) as refused:
        read(*messages, **more)
    assert refused.value.status == status


def test_what_the_sources_do_not_say_is_annotated_and_told_below() -> None:
    """Nothing is taken out; the annotation says where it stands."""
    text = "Leaves are “red at all times” [2]."
    whole = Answer("?", text, offered=(SOURCE,), cited=(SOURCE,), verification=verify(text, [SOURCE]))
    answer = CompletionAnswer("botany", TEXTS, "http://127.0.0.1/")
    sent = answer.whole(whole)
    message = sent["choices"][0]["message"]
    assert message["content"].startswith(text + "\n\n**Sources**\n\n- [2] ")
    assert message["content"].endswith("\n- “red at all times”: not found in the sources")
    (found,) = [each["unverified"] for each in message["annotations"] if each["type"] == "unverified"]
    assert message["content"][found["start_index"] : found["end_index"]] == "“red at all times”"
    assert (sent["rests_on"], sent["quotations"][0]["found"]) == ("course", "no")
