"""The errors of this package, below those of `lmm.errors`.

LmmError
├── StoreError             the store
│   ├── StoreMissing       nothing has been ingested yet
│   ├── StoreMismatch      made with other settings
│   │   └── StoreOutdated  in a format of an older version
│   ├── StoreBusy          another process writes
│   ├── StoreDamaged       cannot be read
│   └── StoreUnavailable   the server does not respond, or refuses access
├── IngestError            a document that cannot be prepared or stored
├── ExportError            a document that cannot be exported as it is
├── SearchError            a question that cannot be asked
├── LogError               the log of questions and answers cannot be read or written
│   └── LogMissing         nothing was logged yet
└── RequestError           an invalid HTTP request
    └── Denied             one that may not be answered, now or at all
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lmm.errors import LmmError


class StoreError(LmmError):
    """Something is wrong with the store."""


class StoreMissing(StoreError):
    """There is no store yet: nothing was ingested."""

    def __init__(
        self,
        where: str = "",
        message: str = "nothing has been ingested yet",
        *,
        hint: str = "run: lmm ingest PATH",
    ) -> None:
        if others := other_courses(where):
            hint += f"; there are stores of other courses: {', '.join(others)} (choose one with --course)"
        super().__init__(message, where=where, hint=hint)


def other_courses(location: str) -> list[str]:
    """Return the names of the courses with a store beside the one at this location, if that is a folder."""
    with contextlib.suppress(OSError):
        folders = sorted(Path(location).parent.iterdir()) if location else []
        return [each.name for each in folders if each != Path(location) and (each / "current").is_file()]
    return []


class StoreMismatch(StoreError):
    """The store was made with other settings than those in force."""


class StoreOutdated(StoreMismatch):
    """The store was written by an older version of lmm, in a format that is no longer supported."""


class StoreBusy(StoreError):
    """Another process is writing to the store."""


class StoreDamaged(StoreError):
    """The files of a store, or its data on a server, cannot be read."""

    def __init__(
        self, message: str, *, where: str = "", hint: str = "rebuild it from your documents: lmm store repair"
    ) -> None:
        super().__init__(message, where=where, hint=hint)


class StoreUnavailable(StoreError):
    """The server does not respond, or refuses access."""


class IngestError(LmmError):
    """A document cannot be prepared or stored."""


class UnreadableMetadata(IngestError):
    """Metadata that seem to say who may read a text cannot be read."""


class ExportError(LmmError):
    """A document cannot be exported as it is, or not to this place."""


class SearchError(LmmError):
    """A question cannot be asked as it is."""

    is_usage = True


class LogError(LmmError):
    """The log of questions and answers cannot be read or written."""


class LogMissing(LogError):
    """There is no log yet: nobody has asked a question, or logging is off."""


class RequestError(LmmError):
    """An HTTP request is invalid, or asks for something that is not supported. `status` is the HTTP status, `param` the
    field of the request concerned, `code` a reason for programs; `headers` are sent with the response."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.param, self.code, self.headers = status, param, code, headers


class Denied(RequestError):
    """A request may not be answered: the caller is not logged in, or exceeds a limit. The message is for students."""
