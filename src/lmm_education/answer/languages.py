"""The words by which answers are compared with their sources, refusals recognized and hints written, by language.

They are data: ``words/LANGUAGE.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


@cache
def by_language() -> Mapping[str, Mapping[str, Any]]:
    """Return the words of each language, of English first."""
    files = {file.name.removesuffix(".toml"): file for file in resources.files(__package__).joinpath("words").iterdir()}
    return {code: tomllib.loads(files[code].read_text("utf-8")) for code in ("en", *sorted(files.keys() - {"en"}))}


def any_of(name: str) -> str:
    """Return a pattern for the words of one kind in any language.

    >>> any_of("conditions").partition("|")[0]
    'unless'
    """
    return "|".join(each[name] for each in by_language().values() if name in each)
