"""Checks of the arguments of the public API: a misspelt name or a value of the wrong type is reported at the call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar

from lmm.errors import nearest

T = TypeVar("T")
_KINDS: Mapping[str, type] = {
    "None": type(None),
    "str": str,
    "int": Integral,
    "float": Real,
    "Path": PathLike,
    "Mapping": Mapping,
    **dict.fromkeys(("Sequence", "Collection", "Iterable", "list", "tuple"), Iterable),
}
"""Types that are checked, by their names in annotations. A text is not a list of texts."""


def check_arguments(kind: type[T]) -> type[T]:
    """Make the public methods of a class check the names of their arguments, and values whose types are plain.

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
    for name, member in {**vars(kind), "__init__": vars(kind).get("__init__", kind.__init__)}.items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
            call = _checked(function)
            setattr(kind, name, classmethod(call) if isinstance(member, classmethod) else call)
    return kind


def check_options(verb: str, given: Mapping[str, object], kinds: Mapping[str, Any], *, others: bool = False) -> None:
    """Check arguments against the annotations that declare them; with `others`, further names are allowed.

    Raises:
        TypeError: a name is unknown, or a value has another type.
    """
    for name, value in given.items():
        if name not in kinds and others:
            continue
        if name not in kinds:
            raise TypeError(f"{verb}() has no argument '{name}' ({nearest(name, kinds)})")
        kind = getattr(kinds[name], "__forward_arg__", kinds[name])  # as a TypedDict has it
        if not _fits(value, kind):
            raise TypeError(f"{verb}(): {name} must be {kind}, not {value!r}")


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    known = functools.cache(lambda: _declared(function))  # at the first call: importing takes no longer

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        name, is_method = (self if isinstance(self, type) else type(self)).__name__, function.__name__ != "__init__"
        verb = f"{name}.{function.__name__}" if is_method else name
        signature, kinds, others = known()
        check_options(verb, kwargs, kinds, others=others)
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{verb}(): {error}{'' if is_method else f'; use {name}.open'}") from None
        check_options(verb, given, kinds, others=True)
        return function(self, *args, **kwargs)

    return call


def _declared(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any], bool]:
    """Return the signature, the annotations of named arguments, and whether there may be others."""
    signature, kinds, others = inspect.signature(function), dict[str, Any](), False
    for name, one in list(signature.parameters.items())[1:]:
        if one.kind is one.VAR_POSITIONAL:
            continue
        if one.kind is not one.VAR_KEYWORD:
            kinds[name] = one.annotation
        elif options := re.fullmatch(r"Unpack\[(\w+)\]", one.annotation):
            kinds |= inspect.unwrap(function).__globals__[options[1]].__annotations__
        else:
            others = True
    return signature, kinds, others


def _fits(value: object, annotation: str) -> bool:
    while annotation != (annotation := re.sub(r"\[[^\[\]]*\]", "", annotation)):
        continue
    names = annotation.split(" | ")
    if isinstance(value, str) and "str" not in names and not set(names) - _KINDS.keys():
        return False
    return any(isinstance(value, _KINDS.get(name, object)) for name in names)
