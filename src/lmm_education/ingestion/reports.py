"""The report of an ingestion, and the events while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from lmm.errors import LmmError
from lmm.messages import Waiting
from lmm.terminal import count
from lmm_education.ingestion.source_files import OUR_OWN
from lmm_education.material import Withheld

State = Literal["new", "changed", "unchanged", "failed", "skipped", "prepared"]
_STATES: tuple[State, ...] = ("new", "changed", "unchanged", "prepared", "failed")  # those that are counted


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """The result for one document.

    Numbers of chunks: `chunks` in total, `embedded`, `reused` (with the vectors of an equal text), `updated` (only the
    payload changed) and `removed`. `moved_from` is its former file, `saved` the files that show what was prepared. The
    state ``prepared`` is that of a document that was not to be stored. `withheld` is what students do not get of a
    prepared one.
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
    """The result of an ingestion, or with `dry_run` what it would be. `seconds` is its duration.

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
        """All errors, of paths and of documents."""
        return [*self.errors, *(d.error for d in self.documents if d.error is not None)]

    def count(self, state: State) -> int:
        """Return how many documents are in a state."""
        return sum(document.state == state for document in self.documents)

    @property
    def embedded(self) -> int:
        """The number of chunks that were embedded."""
        return sum(document.embedded for document in self.documents)

    @property
    def saved(self) -> list[Path]:
        """The files that show what was prepared."""
        return [path for document in self.documents for path in document.saved]

    def counts(self) -> list[str]:
        """Return how many documents are new, changed and so on, and how many chunks were embedded, in words."""
        shown = [d for d in self.documents if d.state != "skipped"]
        states = [f"{n} {state}" for state in _STATES if (n := self.count(state))]
        parts = [f"{count(len(shown), 'document')}" + (f": {', '.join(states)}" if states else "")]
        if any(d.state in ("new", "changed") for d in shown):
            verb = "would be embedded" if self.dry_run else "embedded"
            parts.append(f"{self.embedded} of {count(sum(d.chunks for d in shown), 'chunk')} {verb}")
        if ours := sum(d.reason == OUR_OWN for d in self.documents):
            parts.append(f"skipped {count(ours, 'prepared file')}")
        return parts

    def __repr__(self) -> str:
        failed = [f"{len(self.errors)} not read"] if self.errors else []
        return f"IngestReport({'; '.join(self.counts() + failed)})"

    def _repr_markdown_(self) -> str:
        """Return the counts and the errors, as a notebook shows them."""
        return "\n".join(("; ".join(self.counts()), *(f"- {error}" for error in self.failed)))

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for ``--json``."""
        values: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return values | {"embedded": self.embedded, "seconds": round(self.seconds, 3)}


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The run begins, with this number of documents."""

    documents: int


@dataclass(frozen=True, slots=True)
class Annotating:
    """A document gets its annotations before it is read; the language model may be asked."""

    path: Path


@dataclass(frozen=True, slots=True)
class Embedding:
    """The number of a document's chunks that are embedded so far."""

    path: Path
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A document is done, with its report."""

    document: DocumentReport


Event = Begun | Annotating | Embedding | Waiting | Ended
"""An event; a wait is for a server that does not answer, for another run, or because there is much to do."""
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing with an event: the default listener."""
