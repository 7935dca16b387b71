"""A run for programs: each event as one JSON line, failures too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from lmm import terminal
from lmm.errors import LmmError, Place
from lmm.messages import Event, Failed, Image

_LEFT_OUT = {"run_result": ("text",), "asked": ("request",)}  # the whole transcript


def print_event(event: Event, place: Place) -> None:
    """A listener that prints; `agent` names the agents from the first that was asked down to where it happened."""
    terminal.say_json(event_values(event) | ({"agent": list(place.path)} if place.path else {}))


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Print what ends a run, too; it goes on to whoever prints it for people."""
    try:
        yield
    except LmmError as error:
        print_event(Failed(error), Place())
        raise


def event_values(event: Event) -> dict[str, Any]:
    """An event as JSON has it; `event` is its kind.

    >>> from lmm.messages import TextDelta
    >>> event_values(TextDelta("Oak"))
    {'event': 'text_delta', 'text': 'Oak', 'item': ''}
    """
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(event).__name__)[1:]
    if isinstance(event, Failed):
        error = event.error
        values = {"error": type(error).__name__, "message": error.message, "where": error.where, "hint": error.hint}
        return {"event": name, **values}
    left_out = _LEFT_OUT.get(name, ())
    return {"event": name, **{key: value for key, value in _plain(event).items() if key not in left_out}}


def _plain(value: Any) -> Any:
    if isinstance(value, Image):
        return value.url or f"{value.media_type}, {len(value.data)} bytes"
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
