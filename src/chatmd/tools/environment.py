"""The environment that programs get: what programs need, and what a prompt names; never a key of a model's provider."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lmm.config import TIERS, Settings
from lmm.models.names import PROVIDERS

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
    *("SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE"),  # Windows
)
"""What every program gets, if it is set, besides all that begins with ``LC_``."""
ALWAYS = {"TERM": "dumb", "NO_COLOR": "1"}
"""What every program gets: what it prints is read, not looked at."""


def minimal_environment(given: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The part of an environment that a program gets, the variables `names` among it if they are set.

    Folders of ``PATH`` that are relative are left out: they would mean another one wherever a program runs.

    >>> minimal_environment({"PATH": "/bin:.", "LANG": "de_DE.UTF-8", "OPENAI_API_KEY": "sk", "CI": "1"}, ["CI"])
    {'PATH': '/bin', 'LANG': 'de_DE.UTF-8', 'CI': '1', 'TERM': 'dumb', 'NO_COLOR': '1'}
    """
    passed = {name: value for name, value in given.items() if name in PASSED_ON or name.startswith("LC_")}
    folders = [folder for folder in passed.get("PATH", os.path.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    named = {name: given[name] for name in names if name in given}
    language = {} if any(name == "LANG" or name.startswith("LC_") for name in passed) else {"LANG": "C.UTF-8"}
    return {**passed, "PATH": os.pathsep.join(folders), **language, **named, **ALWAYS}


def keys_of(settings: Settings) -> frozenset[str]:
    """The variables that hold keys of model providers, in general and in these settings.

    >>> from lmm.config import load_settings
    >>> "OPENAI_API_KEY" in keys_of(load_settings(env={}))
    True
    """
    configured = (getattr(settings, tier).api_key for tier in TIERS)
    known = {name for provider in PROVIDERS.values() for name in provider.keys}
    return frozenset(known | {key.variable for key in configured if key})
