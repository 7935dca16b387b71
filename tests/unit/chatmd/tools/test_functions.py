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


class Weird:
    pass


def on_weird(weird: Weird) -> None: ...


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


def value_of(library: str, expression: str) -> object:
    """Evaluate an expression with a library."""
    return eval(expression, {"it": pytest.importorskip(library)})


@pytest.mark.parametrize(
    ("library", "expression", "sent"),
    [
        ("math", "[it.nan, -it.inf]", '["NaN","-Infinity"]'),
        ("datetime", "{'on': it.date(2026, 1, 2)}", '{"on":"2026-01-02"}'),
        ("collections", "(it.deque([1]), range(2), {1: 2}.keys())", "[[1],[0,1],[1]]"),
        ("builtins", "b'leaf'", "leaf"),
        ("numpy", "[it.int64(3), it.bool_(True), it.array([[1.5, it.nan]])]", '[3,true,[[1.5,"NaN"]]]'),
        ("pandas", "it.DataFrame({'n': [1.5]}, ['mean'])", '{"index":["mean"],"columns":["n"],"data":[[1.5]]}'),
        ("pandas", "it.Series([1, 2], ['a', 'a'])", '{"index":["a","a"],"columns":[0],"data":[[1],[2]]}'),
        ("polars", "it.DataFrame({'n': [1.5]})", '[{"n":1.5}]'),
    ],
)
def test_values_are_sent_as_data(library: str, expression: str, sent: str) -> None:
    value = value_of(library, expression)

    def measure() -> object:
        return value

    assert ask({"measure": "{}"}, measure) == {"measure": sent}


def test_what_goes_wrong_is_a_result(caplog: pytest.LogCaptureFixture) -> None:
    """Which the model reads; the traceback begins in the tool."""

    def opaque() -> object:
        return object()

    def long() -> str:
        return "leaf\n" * 20_000

    results = ask({"add": '{"a": "x"}', "fails": "{}", "opaque": "{}", "long": "{}"}, add, fails, opaque, long)
    assert "a: 'x' is not of type 'integer'" in results["add"]
    assert "ValueError: no such place" in results["fails"]
    assert (
        "cannot be sent to a model as JSON: return text, numbers, lists or dicts instead of object" in results["opaque"]
    )
    assert len(results["long"]) < 31_000
    assert "left out" in results["long"]
    (_, _, traceback), *_ = (record.exc_info for record in caplog.records if record.exc_info)
    assert traceback is not None
    assert traceback.tb_frame.f_code.co_name == "fails"


@pytest.mark.parametrize(
    ("function", "message"),
    [(divmod, r"divmod takes x, and models pass each argument by its name \(write a function"),
     (lambda *rows: rows, "<lambda> has no name"), (partial(lambda a: a), "<lambda> has no name"),
     (max, "max (does not say what its parameters are|takes )"), (Place, "Place is a class"),
     (on_weird, r"type cannot be sent to a model: .*Weird \(types that JSON supports are str, int")],
)  # fmt: skip
def test_a_function_that_no_model_can_call_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ChatmdError, match=f"this cannot be a tool: .*{message}"):
        function_tool(function)


def test_a_parameter_without_a_type_is_announced() -> None:
    def grow(by, times: int = 1):  # type: ignore[no-untyped-def]
        return by * times

    with pytest.warns(UserWarning, match="the tool grow has no types for by: .* write by: int"):
        function_tool(grow)


def test_a_partial_function_keeps_name_and_description() -> None:
    definition = function_tool(partial(add, b=3)).definition
    assert (definition.name, definition.description) == ("add", "Add two numbers.")
    assert ask({"add": '{"a": 2}'}, partial(add, b=3)) == {"add": "5"}


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ChatmdError, match="there are two tools named 'add'"):
        Chat.from_text("<user>Go.</user>", tools=[add, add]).run(model=ScriptedModel([]))


def test_a_function_counts_in_what_is_rendered() -> None:
    assert [tool.definition.name for tool in Chat.from_text("<user>x</user>", tools=[add]).render().tools] == ["add"]
