"""Packages whose names are loaded when they are first used (PEP 562), so that importing them costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(
    package: str, public: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package; `public` has the names of each module.

    >>> find, names = lazily("lmm.lazy", {"lmm.providers": ["parse_name"]})
    >>> find("parse_name").__name__, "parse_name" in names()
    ('parse_name', True)
    """
    homes = {name: module for module, names in public.items() for name in names}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
