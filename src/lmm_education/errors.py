"""The errors of this package, below those of `lmm.errors`.

LmmError
├── StoreError             the store
│   ├── StoreMissing       nothing has been ingested yet
│   ├── StoreMismatch      made with other settings
│   │   └── StoreOutdated  in a format of an older version
│   ├── StoreBusy          another process writes
│   ├── StoreDamaged       cannot be read
│   └── StoreUnavailable   the server does not answer, or refuses
├── IngestError            a document that cannot be prepared or stored
├── ExportError            a document that cannot be exported as it is
├── SearchError            a question that cannot be asked
├── LogError               the log of questions and answers cannot be read or written
│   └── LogMissing         nothing was logged yet
└── RequestError           an HTTP request that cannot be read
    └── Denied             one that may not be answered, now or at all
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lmm.errors import LmmError


class StoreError(LmmError):
    """Something is wrong with the store."""


class StoreMissing(StoreError):
    """There is no store yet: nothing was ingested."""

    def __init__(self, where: str = "") -> None:
        super().__init__("nothing has been ingested yet", where=where, hint="run: lmm ingest PATH")


class StoreMismatch(StoreError):
    """The store was made with other settings than those in force."""


class StoreOutdated(StoreMismatch):
    """An older version of lmm wrote the store, in a format that is not read any more."""


class StoreBusy(StoreError):
    """Another process is writing into the store."""


class StoreDamaged(StoreError):
    """The store's files, or what a server holds under our names, cannot be read."""

    def __init__(
        self, message: str, *, where: str = "", hint: str = "rebuild it from your documents: lmm store repair"
    ) -> None:
        super().__init__(message, where=where, hint=hint)


class StoreUnavailable(StoreError):
    """The server does not answer, or does not let us in."""


class IngestError(LmmError):
    """A document cannot be prepared or stored."""


class ExportError(LmmError):
    """A document cannot be exported as it is, or not to there."""


class SearchError(LmmError):
    """A question cannot be asked as it is."""


class LogError(LmmError):
    """The log of questions and answers cannot be read or written."""


class LogMissing(LogError):
    """There is no log yet: nobody has asked, or none is kept."""


class RequestError(LmmError):
    """An HTTP request cannot be read, or asks for what this server does not do. `status` is HTTP's; `param` is the
    field of the request that it is about; `code` names the reason for programs; `headers` go with the response."""

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
    """A request may not be answered: nobody has logged in, or too much was asked. The message is for students."""
