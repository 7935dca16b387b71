"""Checks of the arguments of the public API: a misspelt name, and a text in place of a number or a list."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lmm.config_tables import Table, keys_of
from lmm.errors import nearest

T = TypeVar("T")
_OPTIONS = "Annotated[Any, "
_NO_TEXT = re.compile(r"(?:int|float|Sequence|Collection)\b")
_ACCEPTED: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "str | Path": (str, os.PathLike),
    "str | Path | None": (str, os.PathLike, type(None)),
}


def check_arguments(kind: type[T]) -> type[T]:
    """Make the public methods of a class check their arguments by `check_options`.

    Where a method has ``**options: Annotated[Any, Kind]``, they are the options of that `Table` (see `read_options`),
    and its signature names them.

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
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
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


class OptionError(TypeError):
    """An option has an unknown name or a wrong value: `name` says which, `problem` what is wrong."""

    def __init__(self, verb: str, name: str, problem: str) -> None:
        super().__init__(f"{verb}(): {name} {problem}")
        self.name, self.problem = name, problem


def read_options(kind: type[Table], given: Mapping[str, object], verb: str = "") -> dict[str, Any]:
    """Return options by their names, as the fields of a table have them.

    Raises:
        OptionError: an option is unknown, or its value is of a wrong type.

    >>> from lmm_education.options import SearchOptions
    >>> read_options(SearchOptions, {"limt": 3}, "search")
    Traceback (most recent call last):
    lmm.arguments.OptionError: search(): limt is unknown (did you mean 'limit'?)
    """
    known, found = keys_of(kind), dict[str, Any]()
    for name, value in given.items():
        if name not in known:
            raise OptionError(verb, name, f"is unknown ({nearest(name, known)})")
        try:
            found[name] = known[name].read(os.fspath(value) if isinstance(value, os.PathLike) else value)
        except ValueError as error:
            example = f"; such as {known[name].example}" if known[name].example else ""
            raise OptionError(verb, name, f"{error}{example}") from None
    return found


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    inner = inspect.unwrap(function)
    names, _, rest, *_ = inspect.getfullargspec(inner)
    kinds = {name: kind for name, kind in inner.__annotations__.items() if name != "return"}
    options = kinds.pop(rest or "", "Unpack[]")

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        kind = self if isinstance(self, type) else type(self)
        verb = f"{kind.__name__}.{function.__name__}".removesuffix(".__init__")
        own = dict(zip(names[1:], args, strict=False)) | kwargs
        if options.startswith(_OPTIONS):
            others = {name: own.pop(name) for name in kwargs if name not in kinds}
            kwargs |= read_options(inner.__globals__[options[len(_OPTIONS) : -1]], others, verb)
            check_options(verb, own, kinds)
        elif options == "Any":  # what is called checks the others
            check_options(verb, {name: own[name] for name in own if name in kinds}, kinds)
        else:
            more = getattr(inner.__globals__.get(options[7:-1]), "__annotations__", {})
            check_options(verb, own, kinds | more)
        return function(self, *args, **kwargs)

    if options.startswith(_OPTIONS):  # for help, and for completion in notebooks
        signature, kind = inspect.signature(inner), inner.__globals__[options[len(_OPTIONS) : -1]]
        named = [*signature.parameters.values()][:-1]
        for key in keys_of(kind).values():
            named.append(inspect.Parameter(key.field, inspect.Parameter.KEYWORD_ONLY, default=key.default))
        call.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return call
