"""Packages whose names are loaded when they are first used (PEP 562), so that importing them costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, public: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package; `public` maps each name to the module that has it.

    >>> find, names = lazily("lmm.lazy", {"parse_name": "lmm.providers"})
    >>> find("parse_name").__name__, "parse_name" in names()
    ('parse_name', True)
    """

    def find(name: str) -> object:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(public[name]), name)
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return find, names
