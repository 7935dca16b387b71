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
└── SearchError            a question that cannot be asked
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
