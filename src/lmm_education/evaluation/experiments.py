"""Run evaluations: search a store for every question and judge the results; other settings get temporary stores."""

from __future__ import annotations

import itertools
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from lmm.config_files import settings_for
from lmm.config_tables import Key, Names, Origin, Setting, keys_of, layer_of
from lmm.disk.folder import Folder, check_named
from lmm.errors import ConfigError, LinkOutside, LmmError, nearest
from lmm_education.config import (
    AnswerSettings,
    CourseSettings,
    Preparation,
    SearchSettings,
    SplitterSettings,
    StorageSettings,
    change_settings,
)
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.evaluation import results
from lmm_education.evaluation.judge import Expected, find_ranks, find_targets, is_named
from lmm_education.evaluation.questions import READERS, Question
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.stored import stored_documents
from lmm_education.material import Passage
from lmm_education.options import IngestOptions, SearchOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import PLACE, hit_of
from lmm_education.search.search import CourseSearch

# -- variants --------------------------------------------------------------------------------------


SHORT = {"encoding": "encoding_model", "sparse": "sparse_model", "rerank": "reranker"}
"""Short names of keys."""
EMBEDDING, MODEL = "embedding", "model"
"""Axes: the embedding model; the answering model."""
_TABLES = {"text_splitter": SplitterSettings, "RAG": Preparation, "search": SearchSettings, "answer": AnswerSettings}
_WHERE = "lmm eval"


@dataclass(frozen=True, slots=True)
class Variant:
    """A course with other settings. `label` describes them; `embedding` and `model` (the answering one) are names,
    empty for the configured ones."""

    label: str
    settings: CourseSettings
    embedding: str = ""
    model: str = ""

    @property
    def store_key(self) -> object:
        """Variants with the same key can share a store: only their search settings differ."""
        return self.settings.encoding, self.settings.sparse_model, self.settings.preparation, self.embedding


def compared_keys() -> tuple[str, ...]:
    """Return all keys that an axis may have before ``=``."""
    return (*SHORT, EMBEDDING, MODEL, *_keys())


def _keys() -> dict[str, tuple[str, Key]]:
    """Return the keys whose values are single words, with their tables."""
    tables = (("RAG", keys_of(CourseSettings)), *((table, keys_of(kind)) for table, kind in _TABLES.items()))
    keys = {name: (table, key) for table, known in reversed(tables) for name, key in known.items()}
    return {name: found for name, found in keys.items() if found[1].type != Names}


def is_axis(word: str) -> bool:
    """Return whether a command line argument is an axis of a comparison rather than a file.

    >>> is_axis("encoding=content,hybrid"), is_axis("questions.csv")
    (True, False)
    """
    return "=" in word and Path(word).suffix.lower() not in READERS


def make_variants(axes: Iterable[str], settings: CourseSettings, *, answers: bool = False) -> list[Variant]:
    """Return every combination of the values, the last axis varying fastest; axes about answers need `answers`.

    Raises:
        ConfigError: a key is unknown, a value has the wrong type, or there is nothing to compare.

    >>> variants = make_variants(["encoding=content,hybrid", "prefetch=30,60"], CourseSettings())
    >>> [variant.label for variant in variants][:2]
    ['encoding=content prefetch=30', 'encoding=content prefetch=60']
    """
    choices = [_choices(axis) for axis in axes]
    known = _keys()
    about_answers = [key for (key, _), *_ in choices if key == MODEL or (key in known and known[key][0] == "answer")]
    if about_answers and not answers:
        what = f"'{about_answers[0]}' affects answers, not search"
        raise ConfigError(what, where=_WHERE, hint="lmm eval answers")
    if not choices:
        raise ConfigError("there is nothing to compare", where=_WHERE, hint="give for example encoding=content,hybrid")
    return [_variant(combination, settings) for combination in itertools.product(*choices)]


def _choices(axis: str) -> list[tuple[str, str]]:
    key, _, values = axis.partition("=")
    known = compared_keys()
    if key not in known:
        raise ConfigError(f"'{key}' cannot be compared", where=_WHERE, hint=nearest(key, known))
    found = [(key, value.strip()) for value in values.split(",") if value.strip()]
    if not found:
        raise ConfigError(f"'{axis}' has no value", where=_WHERE, hint=f"write {key}=VALUE,VALUE")
    return found


def _variant(combination: Sequence[tuple[str, str]], settings: CourseSettings) -> Variant:
    label = " ".join(f"{key}={value}" for key, value in combination)
    embedding, model = (next((value for key, value in combination if key == name), "") for name in (EMBEDDING, MODEL))
    tables: dict[str, dict[str, Any]] = {}
    for key, text in combination:
        if key not in (EMBEDDING, MODEL):
            name = SHORT.get(key, key)
            tables.setdefault(_keys()[name][0], {})[name] = _value(name, text)
    smaller = tables.get("text_splitter", {})
    if "max_size" in smaller and "min_size" not in smaller:  # otherwise a smaller maximum alone would be an error
        smaller["min_size"] = min(settings.preparation.min_size, smaller["max_size"])
    layer = layer_of(tables, "flags", lambda table, key: _WHERE)
    return Variant(label, change_settings(settings, layer), embedding, model)


def _value(name: str, text: str) -> Any:
    table, key = _keys()[name]
    return key.convert(Setting(text, Origin("flags", _WHERE)), table, strict=False)


# -- threshold -------------------------------------------------------------------------------------


LEAST = 10
"""The least number of questions of each kind that a threshold can be based on."""
KEPT = 0.95
"""The share of the answerable questions that a threshold should keep."""


class Threshold(
    results.Statistic,
    frozen=True,
    rename={"score": "threshold", "kept": "answerable_kept", "rejected": "unanswerable_rejected"},
):
    """A threshold: the share of answerable questions at or above it, and of unanswerable ones below it."""

    score: float
    kept: float
    rejected: float


class Calibration(results.Statistic, frozen=True, rename={"held_out": "held_out_documents"}):
    """`advised` is the highest threshold that keeps `KEPT` of the answerable questions, since refusing an existing
    answer is worse than reading passages in vain.

    `auc` is how often an answerable question scores higher than an unanswerable one: 0.5 is chance. `held_out` means
    that the unanswerable ones are the same questions, with their document removed.
    """

    advised: Threshold
    auc: float
    answerable: int
    unanswerable: int
    held_out: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = results.Statistic.as_json(self)
        return {**values.pop("advised"), **values}


def calibrate(answerable: Sequence[float], unanswerable: Sequence[float], *, held_out: bool = False) -> Calibration:
    """Choose a threshold between the best scores of answerable and unanswerable questions.

    Raises:
        LmmError: there are fewer than `LEAST` of one kind.

    >>> found = calibrate([0.5, 0.6, 0.7, 0.8] * 5, [0.1, 0.2, 0.3, 0.4] * 5)
    >>> found.advised, found.auc
    (Threshold(score=0.45, kept=1.0, rejected=1.0), 1.0)
    """
    for scores, kind in ((answerable, "that the course answers"), (unanswerable, "without an answer in the course")):
        if len(scores) < LEAST:
            found = "is only 1 question" if len(scores) == 1 else f"are only {len(scores)} questions"
            hint = (
                f"add rows to the question file until there are {LEAST}; leave 'document' empty where nothing answers"
            )
            raise LmmError(f"there {found} {kind}", hint=hint)
    good, bad = sorted(answerable), sorted(unanswerable)
    scores = sorted({*good, *bad})
    middles = [(a + b) / 2 for a, b in pairwise(scores)]
    candidates = [_threshold(score, good, bad) for score in (scores[0], *middles)]
    advised = max((t for t in candidates if t.kept >= KEPT), key=lambda t: t.score)
    # How often a score of an answerable question is above one of an unanswerable question; ties count half.
    above = sum((bisect_left(bad, score) + bisect_right(bad, score)) / 2 for score in good)
    return Calibration(
        advised=advised,
        auc=above / (len(good) * len(bad)),
        answerable=len(good),
        unanswerable=len(bad),
        held_out=held_out,
    )


def _threshold(score: float, good: Sequence[float], bad: Sequence[float]) -> Threshold:
    score = round(score, 3)
    return Threshold(score, 1 - bisect_left(good, score) / len(good), bisect_left(bad, score) / len(bad))


def calibration_text(found: Calibration) -> str:
    """Return the threshold and its effects."""
    kept, rejected = results.percent(found.advised.kept), results.percent(found.advised.rejected)
    others = (
        "the same questions, asked of all other documents"
        if found.held_out
        else f"{found.unanswerable} questions without an answer"
    )
    return (
        f"{found.answerable} questions with an answer, against {others}; AUC {found.auc:.3f} (0.5 is chance)\n"
        + f"it keeps {kept} % of the answerable questions and rejects {rejected} % of the others; in config.toml:\n\n"
        + f"[search]\nthreshold = {found.advised.score}\n"
    )


# -- experiments -----------------------------------------------------------------------------------


Progress = Callable[[str, int, int], None]
"""A callback that gets the current activity, the number of items done, and the total."""


def silent(what: str, done: int, total: int) -> None:
    """Ignore progress."""


@contextmanager
def scratch_courses(
    course: CourseParts, paths: Sequence[str | Path] = (), *, progress: Progress = silent
) -> Iterator[Callable[[Variant], CourseParts]]:
    """Provide a function that creates a course from a variant, its documents ingested into a temporary store.

    Variants that differ only in search settings share a store. The documents are those at `paths`, or those of the
    course's store. All stores are deleted at the end of the block.

    Raises:
        StoreMissing: there are no paths, and nothing has been ingested.
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
    """Provide the course as it is, or, if documents are named, with those in a temporary store."""
    if not paths:
        yield course
        return
    with scratch_courses(course, paths, progress=progress) as make:
        yield make(Variant("", course.settings))


def _stored_files(course: CourseParts) -> list[Path]:
    """Return the files that the course's store was made from."""
    stored = stored_documents(course.store)
    below = Folder(course.root)  # the paths in a store may not be trustworthy
    try:
        files = [below.path(document.file) for document in stored]
    except LinkOutside as error:
        raise LinkOutside(error.message, where=error.where, hint="give the documents: --documents PATH") from error
    missing_files = [file for file in files if not file.is_file()]
    if not files:
        raise StoreMissing(course.store.location)
    if missing_files:
        what, hint = (
            f"no temporary store can be made: {missing_files[0]} is missing",
            "give the documents: --documents PATH",
        )
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


_PLAIN = SearchOptions(limit=results.DEPTH, sections=False)
_FIELDS = (*PLACE, "title", "text")


def evaluate(
    course: CourseParts, questions: Sequence[Question], *, label: str = "", progress: Progress = silent
) -> results.Evaluation:
    """Search the course's store for every answerable question.

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
    options = SearchOptions(limit=results.DEPTH)
    # Open the store and load the embedding model before measuring; no language model is asked.
    with searcher.view() as view:
        view.search(targets[0].question.text, options)
    outcomes: list[results.QuestionOutcome] = []
    for number, target in enumerate(targets):
        progress(label or "asking", number, len(targets))
        start = time.perf_counter()
        result = searcher.search(target.question.text, options)
        seconds = time.perf_counter() - start
        ranks = find_ranks(target, result.hits, result.sections)
        outcomes.append(results.QuestionOutcome(target.question, ranks, result.hits, seconds))
    progress(label or "asking", len(targets), len(targets))
    return results.Evaluation(
        label=label,
        outcomes=tuple(outcomes),
        missing=tuple(missing),
        unanswerable=len(questions) - len(targets),
        chunks=len(texts),
        size=sum(len(text.text) for text in texts) / len(texts),
        notices=course.encoder.notices,
    )


def read_texts(course: CourseParts) -> list[Passage]:
    """Return all chunks of the store.

    Raises:
        StoreMissing: nothing has been ingested.
    """
    texts = [hit_of(stored.id, stored.payload) for stored in course.store.scroll("chunks", fields=_FIELDS)]
    if not texts:
        raise StoreMissing(course.store.location)
    return texts


def calibrate_threshold(
    course: CourseParts, questions: Sequence[Question], *, progress: Progress = silent
) -> Calibration:
    """Return the relevance (see `lmm_education.search.ranking`) below which results are irrelevant.

    If there are too few unanswerable questions, each question is also searched for in all documents except its own.

    Raises:
        StoreError: there is no store, or it cannot be read.
        LmmError: there are too few questions, or the store has only one document.
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
            bad.append(searcher.search(target.question.text, _PLAIN.replace(documents=others)).relevance or 0.0)
    bad += [] if held_out else [searcher.search(text, _PLAIN).relevance or 0.0 for text in without]
    progress("calibrating", total, total)
    return calibrate(good, bad, held_out=held_out)


def _other_documents(target: Expected, texts: Sequence[Passage]) -> tuple[str, ...]:
    """Return the ids of all documents except the right ones."""
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
) -> list[results.Evaluation]:
    """Evaluate each variant of a course in a temporary store, made from `documents` or from those of its store.

    Raises:
        StoreMissing: no documents are named, and none have been ingested.
        LmmError: a document cannot be ingested, or no question has an answer.
    """
    with scratch_courses(course, documents, progress=progress) as make:
        return [evaluate(make(v), questions, label=v.label, progress=progress) for v in variants]
