"""Measure: ask a store every question, and judge what it finds; for other settings, in temporary stores."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from lmm.config_files import settings_for
from lmm.disk.folder import Folder, check_named
from lmm.errors import LinkOutside, LmmError
from lmm_education.config import CourseSettings, StorageSettings
from lmm_education.encodings import find_encoding
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.evaluation.judge import Expected, find_ranks, find_targets, is_named
from lmm_education.evaluation.measures import DEPTH
from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.results import Evaluation, Mean, QuestionOutcome
from lmm_education.evaluation.tuning import LEAST, Calibration, Tuning, calibrate, cross_validate
from lmm_education.evaluation.variants import Variant, make_variants
from lmm_education.ingestion.apply import IngestOptions, stored_documents
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.material import Passage
from lmm_education.parts import CourseParts
from lmm_education.payloads import hit_of
from lmm_education.search.query import SearchOptions
from lmm_education.search.search import CourseSearch

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
            settings = variant.settings.replace(storage=StorageSettings(folder=place, root=folder))
            models = course.models.replace(embedding=course.embedding)
            if variant.embedding:
                models = settings_for(config=course.config, overrides={"embedding": variant.embedding}, env=course.env)
            made = replace(
                course,
                settings=settings,
                models=models,
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


def _stored_files(course: CourseParts) -> list[Path]:
    """The files that the course's store was made from."""
    stored = stored_documents(course.store)
    below = Folder(course.root)  # a store may come from a stranger too
    try:
        files = [below.path(document.prepared or document.file) for document in stored]
    except LinkOutside as error:
        raise LinkOutside(error.message, where=error.where, hint="give the documents: --documents PATH") from error
    gone = [file for file in files if not file.is_file()]
    if not files:
        raise StoreMissing(course.store.location)
    if gone:
        what, hint = f"no temporary store can be made: {gone[0]} is missing", "give the documents: --documents PATH"
        raise StoreError(what, where=course.store.location, hint=hint)
    return files


def _ingest(course: CourseParts, documents: Sequence[Path], label: str, progress: Progress) -> None:
    progress(f"ingesting for {label}", 0, 1)
    report = ingest_into(course, documents, IngestOptions())
    if report.failed:
        first = report.failed[0]
        raise LmmError(
            f"{len(report.failed)} of {len(report.documents)} documents cannot be ingested: {first.message}",
            where=first.where,
            hint=first.hint,
        )
    progress(f"ingesting for {label}", 1, 1)


WEIGHTS = (1.0, 0.9, 0.8, 0.75, 0.7, 0.6, 0.5)
"""Weights of the sparse leg that are tried; the dense leg has the rest."""
SIZES = ((500, 1000), (1000, 1500), (1000, 2000))
"""Least and greatest lengths of chunks that are tried, in characters."""
NOW = "present settings"
_PLAIN = SearchOptions(limit=DEPTH, sections=False)
_FIELDS = ("document", "file", "first_line", "last_line", "headings", "title", "text")


def evaluate(
    course: CourseParts, questions: Sequence[Question], *, label: str = "", progress: Progress = silent
) -> Evaluation:
    """Ask the course's store every question that has an answer.

    Raises:
        StoreError: there is no store, or it cannot be read.
        LmmError: no question has an answer.
    """
    texts = read_texts(course)
    targets, missing = find_targets(questions, texts)
    if not targets:
        raise LmmError(
            "none of these questions has an answer", hint="add the document, section or passage to some of them"
        )
    searcher = CourseSearch(course)
    options = SearchOptions(limit=DEPTH)
    # Opens the store and loads the embedding model, which is no part of asking; asks no language model.
    with searcher.view() as view:
        view.search(targets[0].question.text, options)
    outcomes: list[QuestionOutcome] = []
    for number, target in enumerate(targets):
        progress(label or "asking", number, len(targets))
        start = time.perf_counter()
        result = searcher.search(target.question.text, options)
        seconds = time.perf_counter() - start
        ranks = find_ranks(target, result.hits, result.sections)
        outcomes.append(QuestionOutcome(target.question, ranks, result.hits, seconds))
    progress(label or "asking", len(targets), len(targets))
    return Evaluation(
        label=label,
        outcomes=tuple(outcomes),
        missing=tuple(missing),
        unanswerable=len(questions) - len(targets),
        chunks=len(texts),
        size=sum(len(text.text) for text in texts) / len(texts),
        notices=course.encoder.notices,
    )


def read_texts(course: CourseParts) -> list[Passage]:
    """All chunks of the store.

    Raises:
        StoreMissing: nothing was ingested.
    """
    texts = [hit_of(stored.id, stored.payload) for stored in course.store.scroll("chunks", fields=_FIELDS)]
    if not texts:
        raise StoreMissing(course.store.location)
    return texts


def calibrate_threshold(
    course: CourseParts, questions: Sequence[Question], *, progress: Progress = silent
) -> Calibration:
    """The relevance (see `lmm_education.search.ranking`) below which nothing relevant was found.

    Where there are too few questions without an answer, each question is asked once more of all documents but
    its own.

    Raises:
        StoreError: there is no store, or it cannot be read.
        LmmError: there are too few questions, or the store has one document only.
    """
    texts = read_texts(course)
    targets, _ = find_targets(questions, texts)
    without = [question.text for question in questions if question.unanswerable]
    held_out = len(without) < LEAST
    searcher = CourseSearch(course)
    total = len(targets) * (2 if held_out else 1) + (0 if held_out else len(without))
    good: list[float] = []
    bad: list[float] = []
    for target in targets:
        progress("calibrating", len(good) + len(bad), total)
        good.append(searcher.search(target.question.text, _PLAIN).relevance or 0.0)
        if held_out and (others := _other_documents(target, texts)):
            bad.append(searcher.search(target.question.text, replace(_PLAIN, documents=others)).relevance or 0.0)
    bad += [] if held_out else [searcher.search(text, _PLAIN).relevance or 0.0 for text in without]
    progress("calibrating", total, total)
    return calibrate(good, bad, held_out=held_out)


def _other_documents(target: Expected, texts: Sequence[Passage]) -> tuple[str, ...]:
    """The ids of all documents but the right ones."""
    question = target.question
    right = {document for document, _ in target.sections}
    if question.document:
        right |= {t.place.document for t in texts if is_named(question, t)}
    return tuple(dict.fromkeys(t.place.document for t in texts if t.place.document not in right))


def evaluate_variants(
    course: CourseParts,
    questions: Sequence[Question],
    variants: Iterable[Variant],
    *,
    documents: Sequence[str | Path] = (),
    progress: Progress = silent,
) -> list[Evaluation]:
    """Evaluate each variant of a course in a temporary store, made from `documents` or those of its store.

    Raises:
        StoreMissing: no documents are named, and none were ingested.
        LmmError: a document cannot be ingested, or no question has an answer.
    """
    with scratch_courses(course, documents, progress=progress) as make:
        return [evaluate(make(v), questions, label=v.label, progress=progress) for v in variants]


def tune(
    course: CourseParts,
    questions: Sequence[Question],
    *,
    by: Mean,
    documents: Sequence[str | Path] = (),
    progress: Progress = silent,
) -> Tuning:
    """Try leg weights and chunk sizes, and cross-validate the choice.

    Raises:
        StoreMissing: no documents are named, and none were ingested.
        LmmError: a document cannot be ingested, or no question has an answer.
    """
    variants = tuned_variants(course.settings, has_legs=len(course.encoder.vectors) > 1)
    found = evaluate_variants(course, questions, variants, documents=documents, progress=progress)
    scores = {evaluation.label: list(evaluation.values(*by).values()) for evaluation in found}
    return cross_validate(scores, found[0].groups(found[0].values(*by)), present=NOW)


def tuned_variants(settings: CourseSettings, *, has_legs: bool) -> list[Variant]:
    """The present settings, and other combinations of `SIZES` and `WEIGHTS`; weights only where there are two legs."""
    axes = [f"weight={','.join(map(str, WEIGHTS))}"] if has_legs else []
    sized = [make_variants([f"min_size={least}", f"max_size={most}", *axes], settings) for least, most in SIZES]
    others = [v for made in sized for v in made if _tuned(v.settings, has_legs) != _tuned(settings, has_legs)]
    return [Variant(NOW, settings), *others]


def _tuned(settings: CourseSettings, has_legs: bool) -> tuple[object, ...]:
    """What tuning changes: two settings that agree here are the same."""
    search, encoding = settings.search, find_encoding(settings.encoding)
    sparse = encoding.weight("sparse") if search.sparse_weight is None else search.sparse_weight
    dense = encoding.weight("dense") if search.dense_weight is None else search.dense_weight
    return settings.preparation, round(sparse / ((sparse + dense) or 1.0), 4) if has_legs else None
