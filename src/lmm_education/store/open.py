"""Open the store that the settings name: a folder, or a server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from lmm.errors import ConfigError
from lmm.hosts import check_server, is_loopback_url
from lmm_education.config import StorageSettings
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import Store
from lmm_education.store.server import open_server

_COURSE = re.compile(r"\w[\w.-]{0,199}")


def open_store(settings: StorageSettings, *, env: Mapping[str, str] | None = None) -> Store:
    """The server or cluster at ``settings.addresses`` if there is one, else the embedded store in ``folder/course``.

    Nothing is read or asked before the store is used. The key of a server comes from the environment.

    Raises:
        ConfigError: the course's name cannot be that of a folder; the key would go unprotected to another machine.
    """
    if not _COURSE.fullmatch(settings.course):
        raise ConfigError(
            f"'course' under [storage] cannot be {settings.course!r}", hint="letters, digits, '_', '-' and '.' only"
        )
    if not settings.addresses:
        return EdgeStore(settings.folder / settings.course, root=settings.root, timeout=settings.timeout)
    return open_server(settings, _key_for(settings, os.environ if env is None else env))


def _key_for(settings: StorageSettings, env: Mapping[str, str]) -> str | None:
    key = env.get(settings.api_key_env) or None
    for address in settings.addresses:
        check_server(address, "'url' under [storage]")
        if not re.match(r"https?://", address):
            raise ConfigError(f"'url' under [storage] must begin with https:// or http://, not {address!r}")
        if key and not (is_loopback_url(address) or address.startswith("https://")):
            raise ConfigError(
                f"your {settings.api_key_env} would go to {address} unencrypted",
                hint="write https:// in 'url' under [storage]",
            )
    return key
