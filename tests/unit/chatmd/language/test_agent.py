"""The meaning of documents, by the golden files tests/golden/chatmd/meaning/*.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
from golden_files import Case, read_cases

from chatmd.errors import InvalidDocument
from chatmd.language.agent import AgentConfig, AgentSpec, CallItem, MessageItem, OutputItem, interpret, read_agent
from chatmd.language.syntax import parse


def described(source: str) -> Iterator[str]:
    """Describe the configuration, tools and items, one per line, then the problems; unset values are left out."""
    spec, problems = interpret(parse(source))
    values = [*([spec.config] if spec.config != AgentConfig() else []), *spec.tools, *spec.items]
    yield from (_shown(value) for value in values)
    yield from (f"{p.severity} {p.span.line}:{p.span.column}: {p.message} ({p.hint})" for p in problems)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if not is_dataclass(value):
        return repr(value)
    said = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
    shown = ", ".join(f"{name}={_shown(v)}" for name, v in said.items() if v or (v == 0 and v is not False))
    return f"{type(value).__name__}({shown})"


@pytest.mark.parametrize("case", read_cases("chatmd/meaning"), ids=str)
def test_golden(case: Case) -> None:
    assert tuple(described(case.source)) == case.expected


@pytest.mark.parametrize("body", ["", "x", "\n RAW|</user>|RAW", "a<doc src='b' local/><agent src='c'>d</agent>"])
@pytest.mark.parametrize(
    ("shorthand", "message"),
    [
        ('<user name="n" id="i" status="s">{}</user>', '<msg role="user" name="n" id="i" status="s">{}</msg>'),
        ("<system>{}</system>", "<msg role='system'>{}</msg>"),
        ("<developer>{}</developer>", "<msg role=Developer>{}</msg>"),
        ('<assistant id="i">{}</assistant>', '<msg role="assistant" id="i">{}</msg>'),
        ('<assistant>{}</assistant>', '<msg role="assistant" tool_call="false">{}</msg>'),
        ('<tool_response tool_call_id="c">{}</tool_response>', '<msg role="tool" tool_call_id="c">{}</msg>'),
        (
            '<tool_call tool_call_id="c" function_name="f" id="i">{}</tool_call>',
            '<msg role="assistant" tool_call="true" tool_call_id="c" function_name="f" id="i">{}</msg>',
        ),
        (
            '<tool_call tool_call_id="c" function_name="f" type="custom_tool_call">{}</tool_call>',
            '<msg role="assistant" tool_call function_name="f" tool_call_id="c" type="custom_tool_call">{}</msg>',
        ),
    ],
)  # fmt: skip
def test_shorthands_equal_messages(shorthand: str, message: str, body: str) -> None:
    """Every shorthand and its `<msg>` give the same item."""
    short, long = (interpret(parse(text.format(body)))[0] for text in (shorthand, message))
    assert short.items
    assert short == long


def test_errors_keep_a_document_from_being_read() -> None:
    """The first error is reported with its place, and how many more there are."""
    with pytest.raises(InvalidDocument) as caught:
        read_agent(parse('<user>a\n<tool_call/>\n<config temperature="hot"/>', file="a.md"))
    assert str(caught.value) == "a.md:1:1: <user> is never closed (write </user> where it ends)"
    with pytest.raises(InvalidDocument, match=r"'?tool_call_id.*and 1 more: lmm check lists them"):
        read_agent(parse("<tool_call>{}</tool_call>"))


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("", True),
        ("<system>x</system>", True),
        ("<user>x</user>", False),
        ("<user>x</user><assistant>y</assistant>", True),
        ("<user>x</user><assistant>y</assistant>\n<user>\n\n</user>", True),
        ("<user><img src='https://x.org/a.png'/></user>", False),
        ("<tool_call tool_call_id='c' function_name='f'>{}</tool_call>", False),
    ],
)
def test_whose_turn_it_is(text: str, waits: bool) -> None:
    assert read_agent(parse(text)).waits_for_user == waits


def test_unanswered_calls_are_found_though_ids_come_again() -> None:
    """Some servers number their calls from the start in every reply."""
    call, output = CallItem("call_0", "f", ("{}",)), OutputItem("call_0")
    assert AgentSpec(items=(call, output, call, output)).unanswered() == ()
    again = CallItem("call_0", "g", ("{}",))
    assert AgentSpec(items=(call, output, MessageItem("assistant"), again)).unanswered() == (again,)
