"""Temporary stores: the course's documents ingested once more, with other settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from lmm.config import Settings
from lmm.config_files import settings_for
from lmm.disk.folder import Folder, check_named
from lmm.errors import LinkOutside, LmmError
from lmm_education.errors import StoreMissing
from lmm_education.evaluation.variants import Variant
from lmm_education.ingestion.run import ingest_into
from lmm_education.ingestion.running import IngestOptions
from lmm_education.ingestion.writing import stored_documents
from lmm_education.parts import CourseParts
from lmm_education.settings import StorageSettings

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def scratch_courses(
    course: CourseParts, paths: Sequence[str | Path] = (), *, progress: Progress = silent
) -> Iterator[Callable[[Variant], CourseParts]]:
    """A function that makes a course out of a variant, its documents ingested into a temporary store.

    Variants that differ in how they are searched share a store. The documents are those at `paths`, or else
    those of the course's store. Everything goes when the block is left.

    Raises:
        StoreMissing: no paths, and nothing was ingested.
        LmmError: a document cannot be ingested.
    """
    documents = [check_named(Path(path)).resolve() for path in paths] or _stored_files(course)
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="lmm-eval-")))
        stores: dict[object, Path] = {}

        def make(variant: Variant) -> CourseParts:
            is_new = variant.store_key not in stores
            place = stores.setdefault(variant.store_key, folder / str(len(stores)))
            settings = replace(variant.settings, storage=StorageSettings(folder=place, root=folder))
            made = replace(
                course,
                settings=settings,
                models=_models(course, variant.embedding),
                given_store=None,
                embedder=None if variant.embedding else course.embedder,
                closing=closing,
            )
            if is_new:
                _ingest(made, documents, variant.label or "documents", progress)
            return made

        yield make


@contextmanager
def course_of(
    course: CourseParts, paths: Sequence[str | Path], *, progress: Progress = silent
) -> Iterator[CourseParts]:
    """The course as it is, or, where documents are named, with those in a temporary store."""
    if not paths:
        yield course
        return
    with scratch_courses(course, paths, progress=progress) as make:
        yield make(Variant("", course.settings))


def _models(course: CourseParts, embedding: str) -> Settings:
    if not embedding:
        return course.models
    return settings_for(config=course.config, overrides={"embedding": embedding}, env=course.env)


def _stored_files(course: CourseParts) -> list[Path]:
    """The files that the course's store was made from."""
    stored = stored_documents(course.store)
    below = Folder(course.root)  # a store may come from a stranger too
    try:
        files = [below.path(document.prepared or document.file) for document in stored]
    except LinkOutside as error:
        raise LinkOutside(error.message, where=error.where, hint="name the documents: --documents PATH") from error
    gone = [file for file in files if not file.is_file()]
    if not files or gone:
        what = f"{gone[0]} is gone" if gone else "nothing was ingested yet"
        hint = "name the documents: --documents PATH"
        raise StoreMissing(f"no store can be made for comparison: {what}", where=course.store.location, hint=hint)
    return files


def _ingest(course: CourseParts, documents: Sequence[Path], label: str, progress: Progress) -> None:
    progress(f"ingesting for {label}", 0, 1)
    report = ingest_into(course, documents, IngestOptions(moved=False))
    if report.failed:
        first = report.failed[0]
        raise LmmError(
            f"{len(report.failed)} of {len(report.documents)} documents cannot be ingested: {first.message}",
            where=first.where,
            hint=first.hint,
        )
    progress(f"ingesting for {label}", 1, 1)
