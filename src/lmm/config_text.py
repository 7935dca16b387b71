"""config.toml for people: the file that `lmm init` writes, the part of docs/configuration.md that lists every key, and
what of a file is in force, all made from the fields of `lmm.config_tables.TABLES`.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from lmm.config_tables import TABLES, Config, Key, keys_in, keys_of, kinds_of
from lmm.errors import ConfigError

_HEAD = """\
# Settings of LM Markdown. Every line that is commented out shows its default or an example.
# Later wins: defaults < environment (LMM_MODEL_MAJOR, ...) < this file < a document's header < command line.
# `lmm status` shows what is in effect and where it comes from.
"""
_HEADINGS = "| key | unset | for example | |\n|---|---|---|---|\n"
_WIDTH, _COLUMN = 118, 42


def template() -> str:
    """A config.toml in which every key is explained, and none is set."""
    return _HEAD + "".join(
        f"\n{_comment(about)}[{name}]\n{''.join(map(_line, keys))}" for name, about, keys in _tables()
    )


def reference() -> str:
    """Every key, as tables of markdown."""
    return "\n".join(
        f"### `[{name}]`\n\n{about.partition(chr(10))[0]}\n\n{_HEADINGS}{''.join(map(_row, keys))}"
        for name, about, keys in _tables()
    )


def in_force(config: Config) -> Iterator[tuple[str, str, str]]:
    """What a configuration file sets, key by key: ``[table] key``, the value, and the line.

    Raises:
        ConfigError: it is not TOML.
    """
    for table in TABLES:
        written = config.toml.get(table)
        for name, value in written.items() if isinstance(written, Mapping) else ():
            if value != {}:  # a table of which nothing is set
                yield f"[{table}] {name}", _toml(value), config.where(table, name)


def with_values(text: str, tables: Mapping[str, Mapping[str, Any]], name: str = "config.toml") -> str:
    """The configuration with other values of some keys: whatever else stands in it, and comments, stay as they are.

    Raises:
        ConfigError: it is no TOML, or has something else than a table under the name of one.

    >>> text = '[serve] # ours\\ntitle = "Old"  # short\\n'
    >>> print(with_values(text, {"serve": {"log": "l", "title": "New"}}), end="")
    [serve] # ours
    log = "l"
    title = "New"  # short
    """
    import tomlkit  # where a file is changed only: 30 ms
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import AbstractTable

    try:
        document = tomlkit.parse(text)
        for table, values in tables.items():
            there = document.setdefault(table, {}) if values else {}
            for key, value in reversed(list(values.items())):
                if key not in there and isinstance(there, AbstractTable) and there.value.body:
                    there.value._insert_at(0, key, value)  # at the end it would stand below the next table's comment
                else:
                    there[key] = value
        return document.as_string()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"this cannot be changed here: {error}", where=name, hint="correct it first") from error


def _tables() -> Iterator[tuple[str, str, list[Key]]]:
    """Each table with what it is for and its keys, but for those of a table of the same types that was told before."""
    told = dict[tuple[type, ...], set[str]]()
    for table in TABLES:
        kinds = kinds_of(table)
        before = told.setdefault(kinds, set())
        yield (
            table,
            " ".join(kind.ABOUT[table] for kind in kinds if table in kind.ABOUT),
            [key for key in keys_in(table) if key.inner is None and (key.name not in before or key.example_of_its_own)],
        )
        before.update(key.name for key in keys_in(table))
        for key in keys_in(table):
            if key.inner is not None:
                inside = f"{table}.{key.name}"
                yield inside, key.inner.ABOUT[inside], list(keys_of(key.inner))


def _comment(about: str) -> str:
    parts = ([part] if part.startswith(" ") else textwrap.wrap(part, _WIDTH - 2) for part in about.split("\n"))
    return "".join(f"# {line}\n" for part in parts for line in part)


def _line(key: Key) -> str:
    """A key as a comment, with what it is for at its right."""
    setting = f"# {key.name} = {_toml(_shown(key))}"
    first, *more = textwrap.wrap(key.about, _WIDTH - max(_COLUMN, len(setting) + 1) - 2)
    return f"{setting:<{_COLUMN - 1}} # {first}\n" + "".join(f"{'':<{_COLUMN}}# {line}\n" for line in more)


def _row(key: Key) -> str:
    unset = "" if key.default in ("", None, (), {}, msgspec.NODEFAULT) else f"`{_toml(key.default)}`"
    example = "" if key.example is None else f"`{_toml(_shown(key))}`"
    variables = [f"`{variable.format(key.table.upper())}`" for variable in key.variables]
    said = [key.about, *(["in the environment: " + ", ".join(variables)] if variables else [])]
    text = "; ".join([*said, *(["[asked about](#what-you-have-to-agree-to)"] if key.asks else [])])
    return f"| `{key.name}` | {unset} | {example} | {text} |\n"


def _shown(key: Key) -> Any:
    """The example, the table's own if there is one, else the default."""
    if key.example_of_its_own:
        return key.example[key.table]
    return key.default if key.example is None else key.example


def _toml(value: Any) -> str:
    """A value as TOML writes it.

    >>> _toml({"ask": "Go"}), _toml((1.0, True))
    ('{ ask = "Go" }', '[1.0, true]')
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value.as_posix() if isinstance(value, PurePath) else value, ensure_ascii=False)
