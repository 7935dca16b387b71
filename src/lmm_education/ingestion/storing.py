"""Store the documents of a run: those that changed, in groups that are worth a call of the embedding model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmm.errors import LmmError, ModelError, ModelRejected
from lmm_education.errors import IngestError
from lmm_education.ingestion import report as happened
from lmm_education.ingestion.reading import DocumentFile
from lmm_education.ingestion.report import DocumentReport, Lost
from lmm_education.ingestion.running import Run, prepare_document, save_steps
from lmm_education.ingestion.settling import Settled, settle
from lmm_education.ingestion.sources import Sources
from lmm_education.ingestion.writing import (
    BATCH,
    Pending,
    count_embedded,
    known_vectors,
    plan_document,
    remove_document,
    write_documents,
)
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument
from lmm_education.store.layout import check_same
from lmm_education.store.port import Reader, Writer


def store_documents(
    run: Run, documents: Sequence[DocumentFile], stored: Sequence[StoredDocument], sources: Sources
) -> None:
    options = run.options
    settlement = settle(
        documents, stored, sources, run.course.root, moved=options.moved, prune=options.prune, ask=run.ask
    )
    for document, error in settlement.failed:
        run.fail(document.source, error)
    for document, reason in settlement.skipped:
        run.skip(document.source, reason)
    every = options.again or run.report.rebuilt
    changed = [s for s in settlement.documents if every or not _is_unchanged(s, run.course)]
    for settled in settlement.documents:
        if settled not in changed:
            _leave(run, settled)
    run.report.lost += [Lost(lost.id, lost.file, options.prune) for lost in settlement.lost]
    pruned = [lost.id for lost in settlement.lost] if options.prune else []
    if run.report.rebuilt and settlement.lost and not options.prune:
        raise IngestError(
            f"the store cannot be made anew with {len(settlement.lost)} of its documents, whose files are gone",
            where=settlement.lost[0].file,
            hint="--prune makes it without them",
        )
    if options.dry_run:
        _estimate(run, changed)
    elif changed or pruned:
        _write(run, changed, pruned)
        run.report.notices += run.course.store.notices


def _is_unchanged(settled: Settled, course: CourseParts) -> bool:
    document, stored = settled.document, settled.stored
    return (
        stored is not None
        and not settled.replaces
        and (stored.hash, stored.file) == (document.hash, document.file)
        and stored.prepared == document.prepared_file
    )


def _leave(run: Run, settled: Settled) -> None:
    """A document that is stored as it is; only the files that show it may be wanted."""
    document, stored = settled.document, settled.stored
    try:
        saved = save_steps(run, document)
    except LmmError as error:
        run.fail(document.source, error)
        return
    chunks, sections = (stored.chunks, stored.sections) if stored else (0, 0)
    run.end(
        DocumentReport(document.source.path, document.file, document.id, "unchanged", chunks, sections, saved=saved)
    )


def _write(run: Run, changed: Sequence[Settled], pruned: Sequence[str]) -> None:
    course, anew = run.course, run.report.rebuilt
    with contextlib.suppress(_NothingToWrite), course.store.writing(course.manifest, anew=anew) as writer:
        written = sum(_write_group(run, writer, group) for group in _groups(run, writer, changed))
        if anew and run.report.failed:
            run.report.notices.append("the store is as it was: not all of its documents could be made anew")
            raise _NothingToWrite
        for docid in pruned if not anew else ():
            remove_document(writer, docid)
        if not written and not pruned:
            raise _NothingToWrite  # an embedded store stays the generation that it is


class _NothingToWrite(Exception):
    """Every document failed, or one that a store made anew cannot do without."""


def is_made_otherwise(course: CourseParts) -> bool:
    """Whether there is a store, and it was made with other settings than those in force."""
    stored = course.store.manifest()
    return stored is not None and bool(stored.differences(course.manifest))


@dataclass(slots=True)
class _Item:
    """A document that is written, or would be."""

    settled: Settled
    pending: Pending
    saved: tuple[Path, ...] = ()

    def report(self) -> DocumentReport:
        """What became of it."""
        document, pending, settled = self.settled.document, self.pending, self.settled
        return DocumentReport(
            path=document.source.path,
            file=document.file,
            id=document.id,
            state="changed" if settled.stored or settled.replaces else "new",
            chunks=len(pending.document.chunks),
            sections=len(pending.document.sections),
            embedded=pending.embedded,
            reused=pending.reused,
            updated=len(pending.plan.updated),
            removed=len(pending.plan.removed),
            moved_from=settled.moved_from,
            saved=self.saved,
        )


def _groups(run: Run, reader: Reader, changed: Iterable[Settled]) -> Iterator[list[_Item]]:
    """The documents, prepared and planned, in groups whose chunks are worth a call of the embedding model."""
    group: list[_Item] = []
    for settled in changed:
        item = _item(run, reader, settled)
        if item is not None:
            group.append(item)
            if sum(len(i.pending.plan.encode) for i in group) >= BATCH:
                yield group
                group = []
    if group:
        yield group


def _item(run: Run, reader: Reader, settled: Settled) -> _Item | None:
    """A document with its plan; None if it could not be prepared."""
    document = settled.document
    prepared = prepare_document(run, document)
    if prepared is None:
        return None
    pending = Pending(prepared, document.hash, document.prepared_file, settled.replaces)
    plan_document(reader, pending, run.course.encoder, again=run.options.again)
    try:
        return _Item(settled, pending, save_steps(run, document))
    except LmmError as error:
        run.fail(document.source, error)
        return None


def _write_group(run: Run, writer: Writer, group: Sequence[_Item]) -> int:
    """Write a group of documents; how many were written. Of those that the model refuses, the others go on."""
    if run.model_error is None:
        try:
            _encode_and_write(run, writer, group)
        except ModelError as error:
            if len(group) > 1 and isinstance(error, ModelRejected):
                return sum(_write_group(run, writer, [item]) for item in group)
            run.model_error = None if isinstance(error, ModelRejected) else error
            failed = error
        else:
            for item in group:
                run.end(item.report())
            return len(group)
    else:
        failed = run.model_error
    for item in group:
        run.fail(item.settled.document.source, failed)
    return 0


def _encode_and_write(run: Run, writer: Writer, group: Sequence[_Item]) -> None:
    total = sum(len(item.pending.plan.encode) for item in group)
    path, done = group[0].settled.document.source.path, 0

    def embedded(count: int) -> None:
        nonlocal done
        done += count
        run.listener(happened.Embedding(path, done, total))

    write_documents(
        writer, [i.pending for i in group], run.course.encoder, again=run.options.again, on_embedded=embedded
    )


def _estimate(run: Run, changed: Sequence[Settled]) -> None:
    """What would be written; for a dry run."""
    store: Reader = run.course.store
    if not run.report.rebuilt:
        check_same(run.course.manifest, store.manifest(), run.course.store.location)
    for group in _groups(run, store, changed):
        pending = [item.pending for item in group]
        if run.course.encoder.vectors:
            count_embedded(pending, {} if run.options.again else known_vectors(store, pending))
        for item in group:
            run.end(item.report())
