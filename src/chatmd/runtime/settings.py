"""The table [chatmd] of config.toml: what runs may do."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from chatmd.context import Rules
from lmm.config import read_toml
from lmm.errors import ConfigError
from lmm.powers import Config, find_powers

# Which keys are powers, and of which kind (a row of `lmm.powers.KINDS`).
POWERS = {"chatmd": {"roots": "roots", "private_network": "network", "remote_tools": "tools"}}
_KINDS = {"int": "a whole number above 0", "float": "a number above 0", "bool": "true or false"}
_KEYS = {rule.name: str(rule.type) for rule in fields(Rules) if rule.name != "withheld"}


def read_rules(toml_text: str = "", *, config_file: Path | None = None, own: bool = False) -> Rules:
    """The rules that a configuration text sets; folders are relative to the configuration file's.

    Powers of a file that is not the user's `own` count only if they were approved; the others are `Rules.withheld`.

    Raises:
        ConfigError: unreadable TOML, an unknown key, a value of the wrong kind.

    >>> read_rules("[chatmd]\\nmax_turns = 5").max_turns
    5
    >>> read_rules("[chatmd]\\nmax_turn = 5")
    Traceback (most recent call last):
    lmm.errors.ConfigError: config.toml: unknown key 'max_turn' in [chatmd] (did you mean 'max_turns'?)
    """
    where = str(config_file) if config_file else "config.toml"
    toml = read_toml(toml_text, where=where)[0]
    table = toml.get("chatmd", {})
    if not isinstance(table, Mapping):
        raise ConfigError("[chatmd] must be a table", where=where, hint="write [chatmd], and 'key = value' below")
    for key, value in table.items():
        _check(key, value, where)
    powers = find_powers(Config(config_file, toml_text, own), toml, POWERS)
    withheld = tuple(power for power in powers if not power.is_approved)
    refused = {power.name.partition(".")[2] for power in withheld}
    given = {key: value for key, value in table.items() if key not in refused}
    folder = config_file.parent if config_file else Path()
    roots = tuple(folder / root for root in given.get("roots", ()))
    return Rules(**{**given, "roots": roots, "withheld": withheld})


def _check(key: str, value: Any, where: str) -> None:
    if key not in _KEYS:
        close = difflib.get_close_matches(key, _KEYS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(_KEYS)}"
        raise ConfigError(f"unknown key '{key}' in [chatmd]", where=where, hint=hint)
    kind = _KEYS[key]
    if key == "compact_at":
        fits, wanted = type(value) in (int, float) and 0 <= value <= 1, "a number from 0 to 1"
    else:
        fits, wanted = _fits(value, kind), _KINDS.get(kind, "a list of folders")
    if not fits:
        raise ConfigError(f"'{key}' in [chatmd] must be {wanted}, not {value!r}", where=where)


def _fits(value: Any, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "float"):
        wanted = (int,) if kind == "int" else (int, float)
        return isinstance(value, wanted) and not isinstance(value, bool) and value > 0
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
