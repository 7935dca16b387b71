"""Checks of the arguments of the public API: a misspelt name, and a text in place of a number or a list."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lmm.errors import nearest

T = TypeVar("T")
_NO_TEXT = re.compile(r"(?:int|float|Sequence|Collection)\b")
_ACCEPTED: Mapping[str, type | tuple[type, ...]] = {"str": str, "str | Path": (str, os.PathLike)}


def check_arguments(kind: type[T]) -> type[T]:
    """Make the public methods of a class check their arguments by `check_options`.

    >>> @check_arguments
    ... class Leaf:
    ...     def draw(self, size: int = 1, *, colour: str | None = None) -> None: ...
    >>> Leaf().draw(color="green")
    Traceback (most recent call last):
    TypeError: Leaf.draw() has no argument 'color' (did you mean 'colour'?)
    >>> Leaf().draw("3")
    Traceback (most recent call last):
    TypeError: Leaf.draw(): size must be int, not '3'
    """
    for name, member in list(vars(kind).items()):
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not name.startswith("_"):
            call = _checked(function)
            setattr(kind, name, classmethod(call) if isinstance(member, classmethod) else call)
    return kind


def check_options(verb: str, given: Mapping[str, object], kinds: Mapping[str, Any]) -> None:
    """Check arguments against the annotations that declare them.

    Raises:
        TypeError: a name is unknown, or a value is a text or a function in place of a number or a list, or not the
            text or path that is needed.
    """
    for name, value in given.items():
        if name not in kinds:
            raise TypeError(f"{verb}() has no argument '{name}' ({nearest(name, kinds)})")
        kind = getattr(kinds[name], "__forward_arg__", kinds[name])  # as a TypedDict has it
        is_text = isinstance(value, str)
        accepted = _ACCEPTED.get(kind, object)
        if (is_text or callable(value)) if _NO_TEXT.match(kind) else not isinstance(value, accepted):
            raise TypeError(f"{verb}(): {name} must be {kind}, not {value!r}")


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    inner = inspect.unwrap(function)
    names, _, rest, *_ = inspect.getfullargspec(inner)

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        kinds = {name: kind for name, kind in inner.__annotations__.items() if name != "return"}
        options = kinds.pop(rest or "", "Unpack[]")
        if options.startswith("Unpack["):  # else what is called checks them
            kinds |= getattr(inner.__globals__.get(options[7:-1]), "__annotations__", {})
            verb = f"{(self if isinstance(self, type) else type(self)).__name__}.{function.__name__}"
            check_options(verb, dict(zip(names[1:], args, strict=False)) | kwargs, kinds)
        return function(self, *args, **kwargs)

    return call
