"""Whether a table of ``config.toml`` has known keys with values of the right kind."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from lmm.errors import ConfigError

BOOL, TEXT, COUNT, NUMBER = "true or false", "text", "a whole number", "a number"
NAMES, TABLE = "a list of names", "a table"
_KINDS: dict[str, tuple[type, ...]] = {
    BOOL: (bool,), TEXT: (str,), COUNT: (int,), NUMBER: (int, float), TABLE: (Mapping,),
}  # fmt: skip


def checked_table(
    name: str,
    table: Any,
    known: Mapping[str, str],
    *,
    choices: Mapping[tuple[str, str], Collection[str]],
    zero: Collection[str],
    where: str,
) -> dict[str, Any]:
    """The table `name`, if every key is known and every value of its kind and one of its `choices`, if it has some.

    Whole numbers are at least 1, those named in `zero` at least 0.

    Raises:
        ConfigError: they are not.

    >>> checked_table("search", {"limit": 3}, {"limit": COUNT}, choices={}, zero=(), where="config.toml")
    {'limit': 3}
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"[{name}] must be a table", where=where)
    check_keys(name, table, known, where)
    for key, value in table.items():
        kind, allowed = known[key], choices.get((name, key))
        if not _fits(value, kind):
            raise ConfigError(f"'{key}' in [{name}] must be {kind}, not {value!r}", where=where)
        if allowed and value not in allowed:
            raise ConfigError(f"'{key}' in [{name}] must be one of {', '.join(allowed)}, not {value!r}", where=where)
        if kind in (COUNT, NUMBER) and value < (0 if key in zero or kind == NUMBER else 1):
            raise ConfigError(f"'{key}' in [{name}] is too small: {value}", where=where)
    return dict(table)


def check_keys(name: str, table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise `ConfigError` if a key is not among those `known`, with the one that was probably meant."""
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)
            raise ConfigError(f"unknown key '{key}' in [{name}]", where=where, hint=hint)


def _fits(value: Any, kind: str) -> bool:
    if kind == NAMES:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, _KINDS[kind]) and (kind == BOOL or not isinstance(value, bool))
