"""The errors of this package, below those of `lmm.errors`.

LmmError
├── StoreError             the store
│   ├── StoreMissing       nothing was ingested yet
│   ├── StoreMismatch      made with other settings
│   ├── StoreBusy          another process writes
│   ├── StoreDamaged       cannot be read
│   └── StoreUnavailable   the server does not answer, or refuses
├── IngestError            a document that cannot be prepared or stored
├── ExportError            a document that cannot be exported as it is
├── SearchError            a question that cannot be asked
└── RequestError           an HTTP request that cannot be read
"""

from __future__ import annotations

from lmm.errors import LmmError


class StoreError(LmmError):
    """Something is wrong with the store."""


class StoreMissing(StoreError):
    """There is no store yet: nothing was ingested."""


class StoreMismatch(StoreError):
    """The store was made with other settings than those in force."""


class StoreBusy(StoreError):
    """Another process is writing into the store."""


class StoreDamaged(StoreError):
    """The store's files, or what a server holds under our names, cannot be read."""


class StoreUnavailable(StoreError):
    """The server does not answer, or does not let us in."""


class IngestError(LmmError):
    """A document cannot be prepared or stored."""


class ExportError(LmmError):
    """A document cannot be exported as it is, or not to there."""


class SearchError(LmmError):
    """A question cannot be asked as it is."""


class RequestError(LmmError):
    """An HTTP request cannot be read, or asks for what this server does not do. `status` is HTTP's; `param` is the
    field of the request that it is about."""

    def __init__(self, message: str, *, hint: str = "", status: int = 400, param: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status, self.param = status, param
