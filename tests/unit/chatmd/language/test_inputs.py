"""Inputs that a prompt declares, and texts in which they are never filled in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import chatmd
from chatmd import Chat, Element, Text
from chatmd.errors import ChatmdError, InvalidDocument
from chatmd.language.agent import content_of, set_inputs
from chatmd.mcp_server import read_prompts
from lmm import loop
from lmm.messages import Event, Notice, Reply, ToolCall
from lmm.testing import ScriptedModel

ESSAY = """<input name="topic" description="about"/>
<input name="words" type="integer" default="100"/>
<system>Be brief. RAW|{{topic}}|RAW stands for {{ topic }}.</system>
<user>Write {{words}} words on {{topic}}.</user>
"""


def sent(chat: Chat, **inputs: object) -> list[str]:
    model = ScriptedModel(["Done."])
    chat.run(model=model, inputs=inputs)
    return [message.text for message in model.seen[0].messages]


def test_only_what_is_declared_is_filled_in_outside_of_raw() -> None:
    chat = Chat.from_text(ESSAY)
    assert sent(chat, topic="<b> & {{words}}") == [
        "Be brief. {{topic}} stands for <b> & {{words}}.",
        "Write 100 words on <b> & {{words}}.",
    ]
    chat.rewind()
    chat.say(Element("user", (), (Text("x"),)))
    assert chat.agent.inputs[0].value == "<b> & {{words}}"  # the topic stays
    chat = Chat.from_text(chat.text.replace("<user>x</user>", "<user>Write {{words}} words on {{topic}}.</user>"))
    assert sent(chat, words=3)[1] == "Write 3 words on <b> & {{words}}."


def test_a_file_keeps_its_values(tmp_path: Path) -> None:
    path = tmp_path / "essay.chatmd"
    path.write_text(ESSAY)
    sent(Chat.open(path), topic="leaves")
    assert path.read_text().startswith('<input name="topic" description="about" value="leaves"/>\n<input name="words"')
    Chat.open(path).say("Why {{topic}}?")
    assert sent(Chat.open(path))[-1] == "Why {{topic}}?"


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({}, "the input 'topic' has no value"),
        ({"topics": "x"}, "there is no input 'topics' .did you mean 'topic'"),
        ({"topic": "x", "words": "many"}, "'many' is not of the type integer"),
        ({"topic": "x", "words": True}, "'true' is not of the type integer"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_model_is_asked(inputs: dict[str, object], why: str) -> None:
    with pytest.raises(ChatmdError, match=why):
        Chat.from_text(ESSAY).run(model=ScriptedModel([]), inputs=inputs)


def test_what_nobody_sets_is_told_and_wrong_declarations_are_errors() -> None:
    told: list[Event] = []
    chat = Chat.from_text("<user>On {{topic}}, RAW|{{x}}|RAW.</user>", listener=lambda event, place: told.append(event))
    (problem,) = chat.problems()
    assert (problem.severity, problem.span.column) == ("warning", 10)
    assert sent(chat) == ["On {{topic}}, {{x}}."]
    assert [event.text.split(",")[0] for event in told if isinstance(event, Notice)] == ["1:10: {{topic}} is not set"]
    wrong = Chat.from_text('<input name="n" type="int"/><input name="m" type="number" default="x"/><input/>')
    assert [problem.severity for problem in wrong.problems()] == ["error"] * 3
    with pytest.raises(InvalidDocument):
        assert wrong.agent


def test_html_in_a_message_stays_text() -> None:
    text = '<user><input type="text" name="x"> and <output>1</output></user>'
    assert Chat.from_text(text).problems() == ()
    assert sent(Chat.from_text(text)) == ['<input type="text" name="x"> and <output>1</output>']


@given(st.text(alphabet="ab{}<>/|RAW \n&;\"'=", max_size=30))
def test_any_value_arrives_as_it_is_and_no_other_text_changes(value: str) -> None:
    declared = chatmd.read_agent(chatmd.parse(ESSAY)).inputs
    text = set_inputs(ESSAY, {"topic": value}, declared)
    assert said(text)[-1] == f"Write 100 words on {value}."
    assert text.partition("<system>")[2] == ESSAY.partition("<system>")[2]
    assert said('<input name="a" value="z"/>' + chatmd.write([Element("user", (), (Text(f"x{value}"),))])) == [
        f"x{value}"
    ]


def said(text: str) -> list[str]:
    return ["".join(map(str, content_of(item))) for item in chatmd.read_agent(chatmd.parse(text)).items]


def test_agents_take_inputs_as_arguments_from_models_and_over_mcp(tmp_path: Path) -> None:
    (tmp_path / "essay.chatmd").write_text(ESSAY)
    call = ToolCall("c1", "essay", json.dumps({"topic": "leaves", "words": 7}))
    model = ScriptedModel([Reply("", "m", calls=(call,)), "Green.", "Done."])
    text = '<tool name="essay" agent="essay.chatmd" local/><user>Go.</user>'
    Chat.from_text(text, folder=tmp_path).run(model=model, yes=True)
    schema = model.seen[0].tools[0].parameters
    assert schema["required"] == ["topic"]
    assert schema["properties"]["words"] == {"type": "integer", "default": 100}
    assert model.seen[1].messages[1].text == "Write 7 words on leaves."
    (tool,), _ = read_prompts(tmp_path)
    published = tool.definition.parameters
    assert (published["required"], published["properties"]["topic"]) == (["topic"], schema["properties"]["topic"])
    messages = loop.run(tool.messages({"topic": "roots"}))
    assert messages[-1].text == "Write 100 words on roots."
