"""Where ``config.toml`` is looked for, and the settings that come of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmm.config import Settings, load_settings
from lmm.disk.files import read_document
from lmm.errors import ConfigError

CONFIG = "config.toml"


def find_config(
    explicit: Path | None = None, document: Path | None = None, env: Mapping[str, str] | None = None
) -> Path | None:
    """The configuration file that counts, or None.

    In this order: the one named, ``$LMM_CONFIG``, the current folder, the document's folder, the folder
    of the script that runs.

    Raises:
        ConfigError: the one named does not exist.
    """
    env = os.environ if env is None else env
    named = explicit or (Path(env["LMM_CONFIG"]) if env.get("LMM_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise ConfigError("there is no such configuration file", where=str(named), hint="write one with: lmm init")
        return named.resolve() if named.is_symlink() else named  # what the user names may be a link, anywhere
    folders = [Path.cwd(), *([document.resolve().parent] if document else []), *_script_folder()]
    return next((folder / CONFIG for folder in folders if (folder / CONFIG).is_file()), None)


def _script_folder() -> list[Path]:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return [Path(main).resolve().parent] if main else []


def settings_for(
    document: Path | None = None,
    header: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """The settings that hold for a document with this header (see `lmm.config.load_settings`)."""
    env = os.environ if env is None else env
    file = find_config(config, document, env)
    text = read_document(file) if file else ""
    return load_settings(
        text, env, header, overrides=overrides, config_file=file, document=str(document) if document else ""
    )
