"""Reload config.toml while its course is served: changed texts and limits take effect at once in every process."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from lmm.config_tables import Config
from lmm.disk import files
from lmm.errors import ConfigError, LmmError
from lmm_education.config import ServeSettings, course_settings

LIVE = ("title", "description", "welcome", "questions_per_minute", "daily_tokens", "daily_cost")
"""Keys of [serve] that take effect at once; the others take effect when the server restarts."""
_LOOK = 1.0  # seconds between two checks of the file
logger = logging.getLogger("lmm.serve")


class SettingsFile:
    """The configuration file of a served course, if it has one."""

    def __init__(self, config: Config) -> None:
        self.config, self.path = config, config.path
        self._next, self._seen = 0.0, self._stamp()

    def changed(self) -> ServeSettings | None:
        """Return the file's settings if it changed since the last call; None if not, or if it is invalid, for instance
        because somebody is still editing it: then the current settings stay in force."""
        now = time.monotonic()
        if self.path is None or now < self._next:
            return None
        self._next = now + _LOOK
        seen, self._seen = self._seen, self._stamp()
        if seen == self._seen:
            return None
        try:
            return _read(replace(self.config, text=_text(files.read_bytes(self.path), self.config.name)))
        except LmmError as error:
            logger.warning("texts and limits stay as they are: %s", error)
            return None

    def _stamp(self) -> tuple[int, ...]:
        try:
            known = self.path.stat() if self.path is not None else None
        except OSError:
            return ()
        return (known.st_mtime_ns, known.st_size, known.st_ino) if known else ()


def _read(config: Config) -> ServeSettings:
    return course_settings(replace(config, own=True)).serve


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("it is not UTF-8", where=name) from error
