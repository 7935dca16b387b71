"""Checks of the arguments of the public API: a misspelt name, and a text in place of a number or a list."""

from __future__ import annotations

import functools
import inspect
import os
import re
import reprlib
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from lmm.config_tables import Table, keys_of
from lmm.errors import nearest

P = ParamSpec("P")
T = TypeVar("T")
_OPTIONS = "Annotated[Any, "
# What a value of an annotated type may be: a path also a text that is annotated beside it, a list anything of several.
_TYPES: Mapping[str, type] = {
    "str": str,
    "None": type(None),
    "Path": os.PathLike,
    "int": Integral,
    "float": Real,
    "Sequence": Iterable,
    "Collection": Iterable,
    "Iterable": Iterable,
}


def check_arguments(kind: type[T]) -> type[T]:
    """Make the public methods of a class check their arguments by `check_options`.

    Where a method has ``**options: Annotated[Any, Kind]``, they are the fields of that dataclass, or the options of
    that `Table` (see `read_options`), and its signature names them.

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
            call = check_call(function, is_method=True)
            setattr(kind, name, classmethod(call) if isinstance(member, classmethod) else call)
    return kind


def check_options(
    verb: str, given: Mapping[str, object], kinds: Mapping[str, Any], scope: Mapping[str, Any] = {}
) -> None:
    """Check arguments against the annotations that declare them, with names of classes from `scope`.

    Raises:
        TypeError: a name is unknown, or a value is of none of its types. Types that cannot be told are not checked.
    """
    for name, value in given.items():
        if name not in kinds:
            raise TypeError(f"{verb}() has no argument '{name}' ({nearest(name, kinds)})")
        kind = str(getattr(kinds[name], "__forward_arg__", kinds[name]))  # as a TypedDict has it
        parts = [part.partition("[")[0] for part in re.split(r" \| (?![^\[]*\])", kind)]
        types = [_TYPES.get(part) or scope.get(part) for part in parts]
        known: tuple[Any, ...] = tuple(one for one in types if type(one) in (type, ABCMeta))  # no protocol, not Any
        is_text = isinstance(value, str | bytes) and str not in known
        if len(known) == len(types) and (is_text or not isinstance(value, known)):
            shown = getattr(value, "__name__", None) if callable(value) else None
            shown = shown or reprlib.repr(value)
            is_list = Iterable in known and str not in known
            needed, hint = ("a list", f": write {name}=[{shown}]") if is_list else (kind, "")
            raise TypeError(f"{verb}(): {name} must be {needed}, not {shown}{hint}")


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


def check_call(function: Callable[P, T], *, is_method: bool = False) -> Callable[P, T]:
    """Make a function check its arguments by `check_options`."""
    inner = inspect.unwrap(function)
    signature, scope = inspect.signature(inner), inner.__globals__
    parameters = list(signature.parameters.values())[is_method:]
    several = [one for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL]
    rest = [one for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD]
    kinds = {one.name: one.annotation for one in parameters if one not in several + rest}
    options = str(rest[0].annotation) if rest else "Unpack[]"
    declared = scope[options[len(_OPTIONS) : -1]] if options.startswith(_OPTIONS) else None
    expected = signature.replace(parameters=parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        verb = function.__name__
        if is_method:
            kind = args[0] if isinstance(args[0], type) else type(args[0])
            verb = f"{kind.__name__}.{function.__name__}".removesuffix(".__init__")
        others = {name: value for name, value in kwargs.items() if name not in kinds}
        if isinstance(declared, type) and issubclass(declared, Table):
            kwargs |= read_options(declared, others, verb)
        elif options != "Any":  # else what is called checks them
            more = getattr(declared or scope.get(options[7:-1]), "__annotations__", {})
            check_options(verb, others, kinds | more, scope)
        try:
            own = expected.bind(*args[is_method:], **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{verb}(): {error}") from None
        for one in several:
            for value in own.get(one.name, ()):
                check_options(verb, {one.name: value}, {one.name: one.annotation}, scope)
        check_options(verb, {name: value for name, value in own.items() if name in kinds}, kinds, scope)
        return function(*args, **kwargs)

    if declared is not None:  # for help, and for completion in notebooks
        named = [*signature.parameters.values()][:-1]
        if issubclass(declared, Table):
            for key in keys_of(declared).values():
                named.append(inspect.Parameter(key.field, inspect.Parameter.KEYWORD_ONLY, default=key.default))
        else:
            named += [one for one in inspect.signature(declared).parameters.values() if one.name not in kinds]
        call.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return call
