"""The public names of a package, which are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader  # type: ignore[import-untyped]


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package; the stub beside its `file` lists the names.

    >>> import lmm
    >>> lmm.Docment
    Traceback (most recent call last):
    AttributeError: module 'lmm' has no attribute 'Docment' (did you mean 'Document'?)
    """
    load, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        try:
            return load(name)
        except AttributeError:
            if name in public or name.startswith("__"):  # an error within a module; a name that Python asks for
                raise
            from lmm.errors import nearest

            raise AttributeError(f"module '{package}' has no attribute '{name}' ({nearest(name, public)})") from None

    return get, names, public
