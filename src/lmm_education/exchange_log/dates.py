"""Times as people give them: a day, a time, or so many days ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from lmm.errors import ConfigError

_AGO = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def time_of(text: str, now: datetime, *, where: str) -> float:
    """Seconds since 1970 of a day (``2026-11-01``), a time (``2026-11-01T12:00``), or a while ago (``7d``, ``12h``,
    ``2w``); `now` knows its zone, which is that of days.

    Raises:
        ConfigError: it is none of these.

    >>> from datetime import UTC
    >>> time_of("2d", datetime(1970, 1, 3, 1, tzinfo=UTC), where="--since")
    3600.0
    """
    text = text.strip()
    if ago := _AGO.fullmatch(text):
        return (now - int(ago[1]) * _UNITS[ago[2]]).timestamp()
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        hint = "such as 2026-11-01, 2026-11-01T12:00, 7d, 12h"
        raise ConfigError(f"'{text}' is no time", where=where, hint=hint) from None
    return (given if given.tzinfo else given.replace(tzinfo=now.tzinfo)).timestamp()
