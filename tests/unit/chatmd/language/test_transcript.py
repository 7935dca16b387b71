"""Convert items to messages, and messages to text: cases that the property tests do not draw."""

from __future__ import annotations

import pytest
from transcript_texts import elements_of, transcript_text

from chatmd.errors import ChatmdError
from chatmd.language.agent import Doc, Img, SubAgent, read_agent
from chatmd.language.syntax import parse
from chatmd.language.transcript import call_element, element_text, messages_of, result_element
from lmm.messages import Attachment, Image, Message, Reasoning, ToolCall, ToolResult


def messages(text: str, contents: dict[str, str | Image] | None = None) -> tuple[Message, ...]:
    """Return the messages of a document; `contents` maps sources to their contents."""

    def expand(part: Doc | Img | SubAgent) -> str | Image:
        return (contents or {})[part.src]

    return messages_of(read_agent(parse(text)).items, expand=expand)


def test_a_transcript_reads_well() -> None:
    """Elements are on lines of their own, RAW starts a line, and no indentation becomes content."""
    text = transcript_text(
        [
            Message("user", "2+2?"),
            Message(
                "assistant",
                "",
                calls=(ToolCall("c1", "add", '{"a": 2}', "fc_1"),),
                reasoning=(Reasoning("Add.", "rs_1", "sig", "openai"), Reasoning("Check.", "rs_1", "", "openai")),
            ),
            Message("tool", "", results=(ToolResult("c1", "add", "4\n", (Image(b"x"),), True),)),
            Message("assistant", "4, not |RAW.", item="msg_1"),
        ]
    )
    assert text == (
        "<user>2+2?</user>\n"
        '<reasoning id="rs_1" signature="sig" provider="openai">\n'
        "<summary>\nRAW|Add.|RAW</summary>\n<summary>\nRAW|Check.|RAW</summary>\n</reasoning>\n"
        '<tool_call tool_call_id="c1" function_name="add" id="fc_1">\nRAW|{"a": 2}|RAW</tool_call>\n'
        '<tool_response tool_call_id="c1" name="add" status="failed">\n'
        'RAW|4\n|RAW<img src="data:image/png;base64,eA=="/></tool_response>\n'
        '<assistant id="msg_1">\nRAW|4, not ||RAWRAW|RAW.|RAW</assistant>\n'
    )


def test_contents_are_parts_in_their_order() -> None:
    """In a user message; an assistant's and a call's are one text, as providers require."""
    image = Image(b"x")
    contents: dict[str, str | Image] = {"a": "A", "i": image, "s": "S"}
    user = "<user>x<doc src='a' local/><img src='i' local/><agent src='s' local>y</agent>z</user>"
    assert messages(user, contents) == (Message("user", "x", content=("A", image, "S", "z")),)
    assert messages("<user><img src='https://x.org/a.png'/>x</user>") == (
        Message("user", "", content=(Image(url="https://x.org/a.png"), "x")),
    )
    assistant = "<assistant>x<doc src='a' local/><img src='i' local/></assistant>"
    assert messages(assistant, contents) == (Message("assistant", 'x\nA\n<img src="i" local/>'),)


def test_payloads_beside_the_file() -> None:
    """A stored call or result is a reference, and is read back by a function that reads files."""
    call, result = ToolCall("c", "f", '{"a": 1}', "fc"), ToolResult("c", "f", "out", (), False)
    text = "".join(
        element_text(element)
        for element in (call_element(call, stored_at="./p/1.json"), result_element(result, stored_at="./p/2.txt"))
    )
    assert '<doc src="./p/1.json" local/></tool_call>' in text
    assert messages(text, {"./p/1.json": call.arguments, "./p/2.txt": result.text}) == (
        Message("assistant", "", calls=(call,)),
        Message("tool", "", results=(result,)),
    )


def test_replies_are_told_apart() -> None:
    """Reasoning begins a reply; so does a text after another, and any call after a result."""
    text = (
        "<assistant>a</assistant><assistant>b</assistant><reasoning id='r'/><assistant>c</assistant>"
        "<tool_call tool_call_id='1' function_name='f'>{}</tool_call><tool_response tool_call_id='1'>x</tool_response>"
        "<tool_call tool_call_id='2' function_name='g'>{}</tool_call><tool_response tool_call_id='2'>y</tool_response>"
    )
    assert messages(text) == (
        Message("assistant", "a"),
        Message("assistant", "b"),
        Message("assistant", "c", calls=(ToolCall("1", "f", "{}"),), reasoning=(Reasoning("", "r"),)),
        Message("tool", "", results=(ToolResult("1", "f", "x"),)),
        Message("assistant", "", calls=(ToolCall("2", "g", "{}"),)),
        Message("tool", "", results=(ToolResult("2", "g", "y"),)),
    )


def test_documents_are_written_as_the_model_sees_them() -> None:
    (element,) = elements_of([Message("user", "Clear?", (Attachment("A leaf."),))])
    assert element_text(element) == "<user>\nRAW|<text>\nA leaf.\n</text>\n\nClear?|RAW</user>".replace("\n", "", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<user><doc src='a' local/></user>", "1:7: what <doc> stands for is not recorded here"),
        ("<user>\n<agent src='a' local/></user>", "2:1: what <agent> stands for"),
        ("<user><img src='a.png' local/></user>", "what <img> stands for"),
        ("<user><img src='data:image/png;base64,?'/></user>", "not base64"),
    ],
)
def test_what_is_not_inline_is_not_made_up(text: str, message: str) -> None:
    with pytest.raises(ChatmdError, match=message):
        messages_of(read_agent(parse(text)).items)
