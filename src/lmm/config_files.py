"""Finding ``config.toml`` and loading settings from it; and the file for people: the template of `lmm init`, the
table of every key in docs/configuration.md, and the values that a file sets.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lmm.config import Settings, load_settings
from lmm.config_tables import (
    BOM,
    TABLES,
    Config,
    Key,
    Origin,
    Setting,
    about,
    as_toml,
    keys_in,
    read_toml,
    renamed_keys,
)
from lmm.disk.files import read_document, real
from lmm.disk.folder import is_foreign
from lmm.errors import ConfigError, LmmError
from lmm.permissions import require_trust
from lmm.providers import ModelName

CONFIG = "config.toml"
_HEAD = """\
# Settings of LM Markdown. A line such as #timeout = 120.0 shows a default or an example: remove the # to set it.
# Later wins: defaults < environment (LMM_MODEL_MAJOR, ...) < this file < a document's header < command line.
# `lmm status` shows what is in effect and where it comes from.
"""
_HEADINGS = "| key | unset | for example | |\n|---|---|---|---|\n"
_WIDTH = 100
_NONE: tuple[Any, ...] = ("", None, (), {}, msgspec.NODEFAULT)


def find_config(
    explicit: Path | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> Config:
    """Find the configuration in effect; an empty one without a path if there is none.

    Raises:
        Untrusted: it requests something that the user has not agreed to.
        ConfigError: the file named does not exist, or the one found belongs to another user.
        FileReadError: it cannot be read.
    """
    return require_trust(locate_config(explicit, document, env))


def locate_config(
    explicit: Path | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> Config:
    """Find the configuration in effect, without checking whether it is trusted.

    In this order: the file named, ``$LMM_CONFIG``, the one in the current folder, in the document's folder, in the
    folder of the running script. A file that is named is the user's own, the others may be a stranger's.

    Raises:
        ConfigError: the file named does not exist, or the one found belongs to another user.
        FileReadError: it cannot be read.
    """
    env = os.environ if env is None else env
    named = explicit or (Path(env["LMM_CONFIG"]) if env.get("LMM_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError("there is no such configuration file", where=str(named), hint="write one with: lmm init")
        named = named.resolve() if named.is_symlink() else named  # a file that the user names may be a link
        return Config(named, read_document(named))
    folders = config_folders(document)
    if found := next((folder / CONFIG for folder in folders if (folder / CONFIG).is_file()), None):
        return load_config(found)
    beside = [real(document).parent] if document else []
    for file in (above / CONFIG for folder in (Path.cwd(), *beside) for above in folder.parents):
        with contextlib.suppress(LmmError):  # another program's
            if file.is_file() and not is_foreign(file) and Config(file, read_document(file)).tables:
                return Config(unused=file)
    return Config()


def config_folders(document: Path | None) -> list[Path]:
    """Return the folders where a configuration file that nobody names is looked for, the first one first."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return [
        Path.cwd(),
        *([real(document).parent] if document else []),
        *([Path(script).resolve().parent] if script else []),
    ]


def load_config(file: Path) -> Config:
    """Read a configuration file that the user did not name: a stranger's, unless in the user's configuration folder.

    Raises:
        ConfigError: it belongs to another user, or its folder does.
        FileReadError: it cannot be read.
    """
    if is_foreign(file):
        hint = f"if you trust that user, name it: --config {shlex.quote(str(file))}, or export LMM_CONFIG=…"
        what = "this file, or its folder, belongs to another user, so it is not read"
        raise ConfigError(what, where=str(file), hint=hint)
    own = file.parent.resolve() == user_config_folder().resolve()
    return Config(file, read_document(file), own)


def user_config_folder() -> Path:
    """Return the folder for the user's own configuration."""
    from platformdirs import user_config_path

    return user_config_path("lmmarkdown", appauthor=False)


def settings_for(
    document: Path | None = None,
    header: Mapping[str, Any] | None = None,
    *,
    config: Path | Config | None = None,
    overrides: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings for a document with this header (see `lmm.config.load_settings`).

    `config` is a file that the user named, or the result of `find_config`; without it, the file is looked for.
    """
    env = os.environ if env is None else env
    if config is None or (isinstance(config, Config) and config.path is None):
        config = find_config(None, document, env)
    found = config if isinstance(config, Config) else find_config(config, document, env)
    return load_settings(found, env, header, overrides=overrides, document=str(document) if document else "")


# -- config.toml for people ------------------------------------------------------------------------


def template() -> str:
    """Return a config.toml in which every key is explained, and none is set."""
    return _HEAD + "".join(
        f"\n\n{_comment(about(table))}[{table}]\n\n{chr(10).join(map(_line, keys))}" for table, keys in _tables()
    )


def reference() -> str:
    """Return the reference of all keys, as markdown tables."""
    return "\n".join(
        f"### `[{table}]`\n\n{about(table).partition(chr(10))[0]}\n\n{_HEADINGS}{''.join(map(_row, keys))}"
        for table, keys in _tables()
    )


def with_values(text: str, tables: Mapping[str, Mapping[str, Any]], name: str = "config.toml") -> str:
    """Return configuration text with new values of some keys; everything else in it, with its comments, is unchanged.

    Raises:
        ConfigError: it is not TOML, or has something other than a table under the name of one.

    A byte order mark stays.

    >>> text = '[serve] # ours\\ntitle = "Old"  # short\\n'
    >>> print(with_values(text, {"serve": {"log": "l", "title": "New"}}), end="")
    [serve] # ours
    log = "l"
    title = "New"  # short
    """
    import tomlkit  # only where a file is changed: 30 ms
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import AbstractTable

    try:
        document = tomlkit.parse(text.removeprefix(BOM))
        for table, values in tables.items():
            there = document.setdefault(table, {}) if values else {}
            for key, value in reversed(list(values.items())):
                if key not in there and isinstance(there, AbstractTable) and there.value.body:
                    there.value._insert_at(0, key, value)  # at the end it would come after the next table's comment
                else:
                    there[key] = value
        return (BOM if text.startswith(BOM) else "") + document.as_string()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"this cannot be changed here: {error}", where=name, hint="correct it first") from error


def converted(text: str, name: str) -> str:
    """Return the config.toml for one of lm-markdown or lmm-education; what cannot be taken over is a comment.

    Raises:
        ConfigError: it is not TOML.

    >>> print(converted('[major]\\nmodel = "Mistral/x"\\nprovider_params = 3\\n', "old.toml"), end="")
    # from old.toml
    # [major] provider_params = 3: 'parameters' in [major] must be a table, not 3
    <BLANKLINE>
    [major]
    model = "Mistral/x"
    """
    old, taken, notes = read_toml(text, name)[0], dict[str, dict[str, Any]](), [f"# from {name}\n"]
    nested = {"RAG.annotation_model": old.get("RAG", {}).pop("annotation_model", {})}
    old = {"": {key: value for key, value in old.items() if not isinstance(value, Mapping)}} | old | nested
    for table, key, value in ((t, k, v) for t in old if isinstance(old[t], Mapping) for k, v in old[t].items()):
        is_known = table in TABLES and key in keys_in(table)
        unknown = f"[{key}] is a table here" if key in TABLES else "not known here"
        new = f"[{table}] {key}" if is_known else renamed_keys().get(table, {}).get(key, unknown)
        try:
            if place := re.fullmatch(r"\[([\w.]+)\] (\w+)", new):
                keys_in(place[1])[place[2]].convert(Setting(value, Origin("file", "")), place[1])
                taken.setdefault(place[1], {})[place[2]] = value
        except ConfigError as error:
            place, new = None, error.message
        notes += [] if place else [f"# [{table}] {key} = {as_toml(value)}: {new}\n".replace("[] ", "")]
    tables = (f"\n[{t}]\n" + "".join(f"{k} = {as_toml(v)}\n" for k, v in taken[t].items()) for t in taken)
    return "".join((*notes, *tables))


def _tables() -> Iterator[tuple[str, list[Key]]]:
    """Iterate over the tables with their keys; a key that is the same in an earlier table is listed only there, except
    the first of each table."""
    listed: list[Key] = []
    for table in TABLES:
        keys = list(keys_in(table).values())
        yield table, [key for i, key in enumerate(keys) if i == 0 or key not in listed]
        listed += keys


def _comment(about: str) -> str:
    parts = ([part] if part.startswith(" ") else textwrap.wrap(part, _WIDTH - 2) for part in about.split("\n"))
    return "".join(f"# {line}\n" for part in parts for line in part)


def _line(key: Key) -> str:
    """Return a key as a comment, below its description."""
    setting = f"#{key.name} = {as_toml(key.default if key.example is None else key.example)}\n"
    return _comment(key.about[0].upper() + key.about[1:]) + setting


def _row(key: Key) -> str:
    unset = "" if key.default in _NONE or isinstance(key.default, ModelName) else f"`{as_toml(key.default)}`"
    example = "" if key.example is None else f"`{as_toml(key.example)}`"
    text = f"{key.about}; [asked about](#what-you-have-to-agree-to)" if key.asks else key.about
    return f"| `{key.name}` | {unset} | {example} | {text} |\n"
