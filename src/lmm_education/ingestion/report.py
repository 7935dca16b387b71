"""What an ingestion did, and what happens while it does it, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from lmm.errors import LmmError
from lmm.messages import Waiting
from lmm_education.material import Withheld

OUR_OWN = "a prepared file of lmm ingest"
State = Literal["new", "changed", "unchanged", "failed", "skipped", "prepared"]


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """What became of a document.

    Of its `chunks`, so many were `embedded`; so many have the vectors of an equal text (`reused`), and of so many only
    the payload was `updated`. So many were `removed`. `moved_from` is its former file, `saved` the
    files that show what was prepared. ``prepared`` stands for a document that was not to be stored. `withheld` is what
    students do not get of one that was prepared.
    """

    path: Path
    file: str
    id: str = ""
    state: State = "unchanged"
    chunks: int = 0
    sections: int = 0
    embedded: int = 0
    reused: int = 0
    updated: int = 0
    removed: int = 0
    moved_from: str = ""
    saved: tuple[Path, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    error: LmmError | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A stored document whose file is gone, or holds another document; `pruned` if its points went too."""

    id: str
    file: str
    pruned: bool = False


@dataclass(slots=True)
class IngestReport:
    """What an ingestion did, or with `dry_run` would do. `seconds` is what it took.

    `errors` are those of paths that are no document; those of documents are in `documents`. `notices` are
    for the author.
    """

    documents: list[DocumentReport] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    location: str = ""
    dry_run: bool = False
    rebuilt: bool = False
    seconds: float = 0.0

    @property
    def failed(self) -> list[LmmError]:
        """Everything that went wrong; nothing, if all went well."""
        return [*self.errors, *(d.error for d in self.documents if d.error is not None)]

    def count(self, state: State) -> int:
        """How many documents are in a state."""
        return sum(document.state == state for document in self.documents)

    @property
    def embedded(self) -> int:
        """How many chunks were embedded."""
        return sum(document.embedded for document in self.documents)

    @property
    def saved(self) -> list[Path]:
        """The files that show what was prepared."""
        return [path for document in self.documents for path in document.saved]

    def as_json(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        values: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return values | {"embedded": self.embedded, "seconds": round(self.seconds, 3)}


# -- what happens ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """So many documents are going to be looked at."""

    documents: int


@dataclass(frozen=True, slots=True)
class Annotating:
    """A document gets its annotations before it is read; the language model may be asked."""

    path: Path


@dataclass(frozen=True, slots=True)
class Embedding:
    """So many of a document's chunks are embedded by now."""

    path: Path
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A document is done, with what became of it."""

    document: DocumentReport


Event = Begun | Annotating | Embedding | Waiting | Ended
"""What happens; it waits for a server that does not answer, for another run, or since there is much to do."""
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""
