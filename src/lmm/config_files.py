"""Where ``config.toml`` is looked for, and the settings that come of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmm.config import Settings, load_settings
from lmm.config_tables import Config
from lmm.disk.files import read_document, real
from lmm.disk.folder import is_foreign
from lmm.errors import ConfigError
from lmm.permissions import require_trust

CONFIG = "config.toml"


def find_config(
    explicit: Path | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> Config:
    """The configuration that counts; one without a path if there is none.

    Raises:
        Untrusted: it asks for what nobody has agreed to.
        ConfigError: the one named does not exist, the one found belongs to another user.
        FileReadError: it cannot be read.
    """
    return require_trust(locate_config(explicit, document, env))


def locate_config(
    explicit: Path | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> Config:
    """The configuration that counts once it may.

    In this order: the file named, ``$LMM_CONFIG``, the one in the current folder, in the document's folder, in the
    folder of the script that runs. What is named is the user's own, the others may be a stranger's.

    Raises:
        ConfigError: the one named does not exist, the one found belongs to another user.
        FileReadError: it cannot be read.
    """
    env = os.environ if env is None else env
    named = explicit or (Path(env["LMM_CONFIG"]) if env.get("LMM_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError("there is no such configuration file", where=str(named), hint="write one with: lmm init")
        named = named.resolve() if named.is_symlink() else named  # what the user names may be a link, anywhere
        return Config(named, read_document(named))
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = [real(document).parent] if document else []
    folders = [Path.cwd(), *beside, *([Path(script).resolve().parent] if script else [])]
    found = next((folder / CONFIG for folder in folders if (folder / CONFIG).is_file()), None)
    return load_config(found) if found else Config()


def read_config(file: Path) -> Config:
    """A configuration file that nobody named, if it may count.

    Raises:
        Untrusted: it asks for what nobody has agreed to.
        ConfigError: it belongs to another user, or its folder does.
        FileReadError: it cannot be read.
    """
    return require_trust(load_config(file))


def load_config(file: Path) -> Config:
    """A configuration file that nobody named: a stranger's, unless it lies in the user's configuration folder.

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
    """Where the user's own configuration may lie."""
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
    """The settings that hold for a document with this header (see `lmm.config.load_settings`).

    `config` is a file that the user named, or what `find_config` found; without it, it is looked for.
    """
    env = os.environ if env is None else env
    if config is None or (isinstance(config, Config) and config.path is None):
        config = find_config(None, document, env)
    found = config if isinstance(config, Config) else find_config(config, document, env)
    return load_settings(found, env, header, overrides=overrides, document=str(document) if document else "")
