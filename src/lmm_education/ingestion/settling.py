"""Settle which stored document each document of a run is: by rule, else by flag, else by asking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmm.disk import files
from lmm.errors import LmmError
from lmm_education.errors import IngestError
from lmm_education.ingestion.identity import Doubt, docid_of, find_doubts, lost_documents
from lmm_education.ingestion.reading import DocumentFile, first_blocks
from lmm_education.ingestion.sources import Sources, file_name
from lmm_education.payloads import StoredDocument

Ask = Callable[[str], bool]
"""Puts a question to a person; True is yes."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A document whose identity is certain. `replaces` is the identity under which it is stored now, if that
    is another; `moved_from` the file that it was, or that identity."""

    document: DocumentFile
    stored: StoredDocument | None = None
    replaces: str = ""
    moved_from: str = ""


@dataclass(slots=True)
class Settlement:
    """What was settled. `lost` are the stored documents whose files, among those looked at, are gone."""

    documents: list[Settled] = field(default_factory=list)
    failed: list[tuple[DocumentFile, IngestError]] = field(default_factory=list)
    skipped: list[tuple[DocumentFile, str]] = field(default_factory=list)
    lost: list[StoredDocument] = field(default_factory=list)


def settle(
    documents: Iterable[DocumentFile],
    stored: Sequence[StoredDocument],
    sources: Sources,
    root: Path,
    *,
    moved: bool | None = None,
    prune: bool = False,
    ask: Ask | None = None,
) -> Settlement:
    """The documents to store, each with its identity; those that stay in doubt are errors.

    `moved` decides what is open, else a person that `ask` asks. With `prune`, a document whose file is gone
    goes anyway, so that its text in another file is that file's.
    """
    known = {document.id: document for document in stored}
    settlement = Settlement()
    kept = list(_without_prepared(documents, known, root, settlement))
    present = _present(kept, stored, root)
    doubts = find_doubts([document.found for document in kept], stored, present)
    decide = _Decisions({document.file for document in kept}, moved, prune, ask)
    for document in kept:
        doubt = doubts.get(document.file) if document.prepared is None else None
        verdict = decide(doubt) if doubt else None
        if doubt is not None and verdict is None:
            settlement.failed.append((document, doubt.as_error()))
        else:
            settlement.documents.append(_settled(document, known, doubt if verdict else None))
    now = present | {document.file: document.id for document in kept}
    accounted = {settled.document.id for settled in settlement.documents} | {d.other_id for d in doubts.values()}
    settlement.lost = [s for s in lost_documents(stored, now) if s.id not in accounted and sources.covers(s.file)]
    settlement.lost += _left_behind(settlement, doubts, known)
    return settlement


def _settled(document: DocumentFile, known: Mapping[str, StoredDocument], doubt: Doubt | None) -> Settled:
    """A document that is certain, or about which a doubt was decided: it is the stored one."""
    mine = known.get(document.id)
    if doubt is not None and doubt.other_id != document.id:
        return Settled(document, mine, doubt.other_id, doubt.other if doubt.kind == "renamed" else doubt.other_id)
    moved_from = mine.file if mine is not None and mine.file != document.file else ""
    return Settled(document, mine, moved_from=moved_from)


def _left_behind(
    settlement: Settlement, doubts: Mapping[str, Doubt], known: Mapping[str, StoredDocument]
) -> list[StoredDocument]:
    """Stored documents that no file holds any more, since the file that did holds another: so it was decided."""
    others = [doubts[s.document.file].other_id for s in settlement.documents if s.document.file in doubts]
    replaced = {s.replaces for s in settlement.documents} | {s.document.id for s in settlement.documents}
    return [known[id] for id in others if id in known and id not in replaced]


@dataclass(slots=True)
class _Decisions:
    """Decides doubts: True, it is the stored document; False, it is another; None, nobody knows."""

    files: Collection[str]
    moved: bool | None
    prune: bool
    ask: Ask | None
    chosen: set[str] = field(default_factory=set)

    def __call__(self, doubt: Doubt) -> bool | None:
        if doubt.kind == "twins":
            return self._choose(doubt)
        if doubt.kind == "copy":
            # Both files are here: one docid cannot hold two documents, whatever the answer.
            return None if doubt.other in self.files else self._answer(doubt) or None
        return self._answer(doubt)

    def _choose(self, doubt: Doubt) -> bool | None:
        if self.ask is None or doubt.found.id in self.chosen or not self.ask(doubt.question):
            return None
        self.chosen.add(doubt.found.id)
        return True

    def _answer(self, doubt: Doubt) -> bool | None:
        if self.moved is not None:
            return self.moved
        if self.prune and doubt.kind != "copy":
            return True
        return self.ask(doubt.question) if self.ask else None


# -- prepared files --------------------------------------------------------------------------------


def _without_prepared(
    documents: Iterable[DocumentFile], known: Mapping[str, StoredDocument], root: Path, settlement: Settlement
) -> Iterable[DocumentFile]:
    """The documents, without the sources that a prepared file stands for, now or since an earlier run."""
    every = list(documents)
    prepared = {d.id: d.source.file for d in every if d.prepared is not None}
    for document in every:
        instead = prepared.get(document.id, "") if document.prepared is None else ""
        if not instead and document.prepared is None and not document.source.named:
            instead = _stored_as_prepared(document, known, root)
        if instead:
            settlement.skipped.append((document, f"{instead} is stored in its place"))
        else:
            yield document


def _stored_as_prepared(document: DocumentFile, known: Mapping[str, StoredDocument], root: Path) -> str:
    """The prepared file that was ingested in place of a document, if it is still there."""
    mine = known.get(document.id)
    return mine.prepared if mine is not None and mine.prepared and (root / mine.prepared).is_file() else ""


# -- the other files -------------------------------------------------------------------------------


def _present(documents: Sequence[DocumentFile], stored: Sequence[StoredDocument], root: Path) -> dict[str, str | None]:
    """Which document each stored file holds now. Files of no interest to this run are believed."""
    here, ids = {document.file for document in documents}, {document.id for document in documents}
    return {s.file: _holds(s, root, look=s.id in ids) for s in stored if s.file not in here}


def _holds(stored: StoredDocument, root: Path, *, look: bool) -> str | None:
    path = root / stored.file
    if not path.is_file():
        return None
    if not look:
        return stored.id
    try:
        return docid_of(first_blocks(files.read_document(path))) or file_name(path, root)
    except LmmError:
        return stored.id
