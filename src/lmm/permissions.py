"""Permissions: settings in a config.toml that reach beyond its folder, such as another host or a path outside.

A config.toml may have come with someone else's repository. If it requests a permission, it is used only after
``lmm trust``, and only as long as it is unchanged. `Key.asks` marks the keys that need a permission.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmm.config_tables import Config, keys_in, line_of
from lmm.disk import trust
from lmm.errors import Untrusted
from lmm.hosts import is_loopback_url
from lmm.providers import ALIASES, ModelName
from lmm.terminal import visible


@dataclass(frozen=True, slots=True)
class Permission:
    """One setting of a file that needs the user's agreement; `line` is 0 if it cannot be determined."""

    table: str
    key: str
    value: str
    line: int

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line else ""
        return f"{line}[{self.table}] {self.key} = {self.value}"


def permissions_of(config: Config) -> tuple[Permission, ...]:
    """Return the permissions that a file requests, in the order of its lines, even if it is the user's own.

    Raises:
        ConfigError: it cannot be read, or one of these settings is invalid.
    """
    if config.path is None:
        return ()
    found, folder = [], config.path.parent.resolve()
    for table, values in config.tables.items():
        for name, setting in values.items():
            key, value = keys_in(table).get(name), setting.value
            if key is not None and key.asks and value:
                key.convert(setting, table)  # raises if it is invalid
                if _REACHES[key.asks](value, folder):
                    text = json.dumps(value, ensure_ascii=False, default=str)
                    shown = visible(re.sub(r"(//[^/@:]*):[^@]*@", r"\1:…@", text), line=True)  # without passwords
                    found.append(Permission(table, name, shown, line_of(config.text, table, name)))
    return tuple(sorted(found, key=lambda one: one.line))


def missing_permissions(config: Config) -> tuple[Permission, ...]:
    """Return the permissions that the user has not yet given to a file; none are needed for the user's own files."""
    if config.own or config.path is None or trust.is_approved(config.path, config.text):
        return ()
    return permissions_of(config)


def require_trust(config: Config) -> Config:
    """Return the configuration, if it is the user's own, needs no permission, or was approved.

    Raises:
        Untrusted: it requests something that the user has not agreed to; the message says where, and how to agree.
        ConfigError: it cannot be read.
    """
    missing = missing_permissions(config)
    if missing and config.path is not None:
        first, changed = missing[0], trust.digest_for(config.path)
        why = "this file has changed since you approved it" if changed else "you have not approved this file"
        what, where = f"{why}, and it sets '{first.key}' in [{first.table}]", config.where(first.table, first.key)
        raise Untrusted(what, where=where, hint=f"to see what it asks for, and agree: {how_to_agree(config.path)}")
    return config


def require_near(model: ModelName, tier: str, document: str) -> None:
    """Check that a document does not name a model for which its config.toml would need a permission.

    Raises:
        Untrusted: it does.
    """
    if is_local_model(str(model), Path(document).parent.resolve()):
        fact, hint = "is a folder", f"set it yourself, under [{tier}] in config.toml, or with --model"
        if model.provider == "ACP":
            fact = "starts a program"
        elif model.provider == "Recorded":
            fact = "is outside of the document's folder"
            if not Path(model.model).is_absolute():
                hint = f"its path is relative to the current folder: run this in the document's folder, or {hint}"
        raise Untrusted(f"{model}, which this document names, {fact}", where=document, hint=hint)


def how_to_agree(file: Path) -> str:
    """Return the command that shows what a file requests, and asks for agreement.

    >>> how_to_agree(Path("/home/ada/my course/config.toml"))
    "lmm trust '/home/ada/my course'"
    """
    return f"lmm trust {shlex.quote(str(file.parent if file.name == 'config.toml' else file))}"


def is_local_model(name: str, folder: Path) -> bool:
    """Return whether a model is a program, a folder, which may contain code, or a file outside of `folder`; like its
    adapter, this resolves the path from the current folder."""
    provider, _, path = name.strip().partition("/")
    provider = ALIASES.get(provider.lower(), provider.lower())
    if provider == "acp":
        return True
    if provider == "recorded":
        return _is_outside(path, Path(), folder)
    try:
        is_folder = path.startswith((".", "/", "~")) or Path(path).is_absolute() or Path(path).is_dir()
    except (OSError, ValueError):
        is_folder = True
    return is_folder and provider in ("sentencetransformers", "model2vec")


def _is_outside(path: str, base: Path, folder: Path) -> bool:
    try:
        return not (base / path).resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # a loop of links, or not a valid path
        return True


_REACHES: Mapping[str, Callable[[Any, Path], bool]] = {
    "always": lambda value, folder: True,
    "host": lambda value, folder: not all(map(is_loopback_url, (value,) if isinstance(value, str) else value)),
    "path": lambda value, folder: _is_outside(value, folder, folder),
    "model": is_local_model,
}
"""By `Key.asks`: functions that return whether the value of a key reaches beyond the folder of its file."""
