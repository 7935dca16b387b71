"""config.toml while its course is served: texts and limits count as soon as the file has them, in each process that
reads it; the teacher's page writes them there."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lmm.config_files import with_values
from lmm.config_tables import Config
from lmm.disk import files, trust
from lmm.errors import ConfigError, LmmError
from lmm_education.config import ServeSettings, course_settings

LIVE = ("title", "description", "welcome", "questions_per_minute", "daily_tokens", "daily_cost")
"""Keys of [serve] that count at once; the others, with the next start."""
_LOOK = 1.0  # seconds between two looks at the file
logger = logging.getLogger("lmm.serve")


class SettingsFile:
    """The file that a course was configured by, if it was one."""

    def __init__(self, config: Config) -> None:
        self.config, self.path = config, config.path
        self._next, self._seen = 0.0, self._stamp()

    def changed(self) -> ServeSettings | None:
        """What the file has, if it was written since the last look; None too if it cannot be used, as while its author
        is at it: what was in force stays."""
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

    def write(self, values: Mapping[str, Any]) -> ServeSettings:
        """Write keys of [serve] into the file, and leave all else in it alone; what it has then. What the user agreed
        to for the file stays agreed to: none of these keys reaches beyond its folder.

        Raises:
            ConfigError: there is no file, it cannot be changed here, or no server would start with it.
            DocumentError: it cannot be read or written, or somebody else wrote it in that moment.
        """
        if self.path is None or not set(values) <= set(LIVE):
            raise ConfigError("there is no file to write that to", where=self.config.name)
        held = files.read_bytes(self.path)
        before = replace(self.config, text=_text(held, self.config.name))
        after = replace(before, text=with_values(before.text, {"serve": values}, self.config.name))
        settings = _read(after)
        agreed = trust.is_approved(self.path, before.text)
        files.replace(self.path, after.text, expected=held)
        if agreed:
            trust.approve(self.path, after.text)
        return settings

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
