"""Python functions as tools of a chat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from chatmd import Chat
from chatmd.errors import ChatmdError
from chatmd.language.agent import OutputItem
from chatmd.tools.registry import function_tool
from lmm.messages import Reply, ToolCall
from lmm.testing import ScriptedModel


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@dataclass
class Place:
    city: str
    height: float = 0


async def climb(place: Place, *, by: float) -> Place:
    return Place(place.city, place.height + by)


def fails() -> None:
    raise ValueError("no such place")


def ask(calls: dict[str, str], *tools: Any) -> dict[str, str]:
    """Return the results of the calls of tools."""
    made = tuple(ToolCall(name, name, arguments) for name, arguments in calls.items())
    chat = Chat.from_text("<user>Go.</user>", tools=tools[:1])
    chat.run(model=ScriptedModel([Reply("", "m", calls=made), "Done."]), tools=tools[1:])
    return {item.name: "".join(map(str, item.content)) for item in chat.agent.items if isinstance(item, OutputItem)}


def test_functions_are_called_with_what_their_parameters_say() -> None:
    results = ask({"add": '{"a": 2}', "climb": '{"place": {"city": "Ulm"}, "by": 1}'}, add, climb)
    assert results == {"add": "2", "climb": '{"city":"Ulm","height":1.0}'}


def test_what_goes_wrong_is_a_result() -> None:
    results = ask({"add": '{"a": "x"}', "fails": "{}"}, add, fails)
    assert "a: 'x' is not of type 'integer'" in results["add"]
    assert "ValueError: no such place" in results["fails"]


@pytest.mark.parametrize(
    ("function", "message"),
    [(divmod, "this cannot be a tool: divmod"), (lambda a: a, "<lambda> has no name"),
     (partial(lambda a: a), "<lambda> has no name")],
)  # fmt: skip
def test_a_function_that_no_model_can_call_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ChatmdError, match=message):
        function_tool(function)


def test_a_partial_function_keeps_name_and_description() -> None:
    definition = function_tool(partial(add, b=3)).definition
    assert (definition.name, definition.description) == ("add", "Add two numbers.")
    assert ask({"add": '{"a": 2}'}, partial(add, b=3)) == {"add": "5"}


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ChatmdError, match="there are two tools named 'add'"):
        Chat.from_text("<user>Go.</user>", tools=[add, add]).run(model=ScriptedModel([]))


def test_a_function_counts_in_what_is_rendered() -> None:
    assert [tool.definition.name for tool in Chat.from_text("<user>x</user>", tools=[add]).render().tools] == ["add"]
