"""How well passages are found: the course's hybrid search next to what other pipelines do with the same documents.

LangChain's recursive splitter with 1,000 and 2,000 characters, 200 of them overlap, is asked by vectors (nearest by
cosine), by BM25 (`rank_bm25`, as its retriever takes it), and by both, fused by their ranks as its `EnsembleRetriever`
does; txtai's hybrid index of paragraphs likewise. All have the embedding model that ours has in the same row, all are
judged by the same rule (`lmm_education.evaluation.judge`), of the ten best results, and of as much of them as fits into
5,000 characters, so that long passages get no gift. A peer that is not installed is left out:
pip install langchain-text-splitters rank_bm25 txtai, in an environment of its own.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import lmm_education
from benchmarks.documents import SHARED
from benchmarks.measure import Row, show
from lmm.config import EmbeddingSettings
from lmm.providers import minilm_weights, parse_name
from lmm_education.encode.encoder import open_embedder
from lmm_education.evaluation.experiments import Variant, read_texts, scratch_courses
from lmm_education.evaluation.judge import Expected, find_ranks, find_targets
from lmm_education.evaluation.questions import Question, read_questions
from lmm_education.evaluation.results import DEPTH, measure_ranks
from lmm_education.material import Lines, Location, Passage
from lmm_education.options import SearchOptions
from lmm_education.search.search import CourseSearch

QUESTIONS = Path(__file__).parent / "questions"
SIZES, OVERLAP = (1000, 2000), 200
CANDIDATES = 60  # of each list that is fused
SHORT = 5_000
ROOM = (1_000_000, SHORT)
"""Characters of results that are looked at."""
BUILTIN = "Builtin/wordllama"
Embed = Callable[..., Sequence[Sequence[float]]]


class Asked(NamedTuple):
    """A question, and what was found for it, best first."""

    target: Expected
    found: Sequence[Passage]


class Course(NamedTuple):
    """Documents, the questions about them, and the nDCG@10 that is aimed at."""

    name: str
    documents: Path
    questions: Path
    target: float | None = None


COURSES = (
    Course("SQuAD documents", SHARED / "eval" / "squad" / "docs", SHARED / "eval" / "squad" / "questions.jsonl", 0.885),
    Course("SQuAD reworded", SHARED / "eval" / "squad" / "docs", SHARED / "eval" / "paraphrases.jsonl"),
    Course("Rust book", SHARED / "corpus" / "rust-book", QUESTIONS / "rust-book.jsonl"),
    Course("Rust book, own words", SHARED / "corpus" / "rust-book", SHARED / "eval" / "own-words-textbook.jsonl"),
    Course("German statistics", QUESTIONS / "german", QUESTIONS / "german" / "questions.jsonl"),
)


def rows() -> list[Row]:
    """A row per course and embedding model, and one more for each of `ROOM`."""
    return [row for model in models() for course in COURSES for row in measured(course, model)]


def measured(course: Course, model: str) -> list[Row]:
    """nDCG@10 of passages, ours and the peers'."""
    if not course.documents.is_dir():
        return [Row(f"nDCG@10 of passages, {course.name}", "skipped: the documents are not here")]
    questions, _ = read_questions([course.questions])
    found = {"ours": hybrid(course, questions, model)} | peers(course, questions, model)
    target = course.target if model == BUILTIN else None
    return [row_of(f"{course.name}, {len(questions):,} questions, {model}", found, room, target) for room in ROOM]


def row_of(what: str, found: Mapping[str, Sequence[Asked]], room: int, target: float | None) -> Row:
    """Of the results that fit into so many characters."""
    values = {name: mean_ndcg(asked, room) for name, asked in found.items()}
    value = values.pop("ours")
    best = max(values.values(), default=0.0)
    aimed = target if room > SHORT else None
    return Row(
        f"nDCG@10 of passages, {what}" + (f", in {room:,} characters" if room <= SHORT else ""),
        ", ".join(f"{name}: {100 * each:.1f}" for name, each in values.items()) or "no peer is installed",
        f"{100 * value:.1f}",
        f"{value / best:.2f} × the best" if best else "",
        f"≥ {100 * aimed:.1f}" if aimed else "",
        value >= aimed if aimed else None,
    )


def mean_ndcg(asked: Iterable[Asked], room: int) -> float:
    """nDCG@10 of passages, where only so many characters are looked at."""
    ranks = (find_ranks(each.target, within(each.found, room))["passage"] for each in asked)
    values = measure_ranks(ranks, "ndcg@10")
    return sum(values) / len(values)


def within(found: Iterable[Passage], room: int) -> list[Passage]:
    """The first results that fit, the last of them cut."""
    shown = []
    for text in found:
        if room <= 0:
            break
        shown.append(dataclasses.replace(text, text=text.text[:room]))
        room -= len(text.text)
    return shown


def hybrid(course: Course, questions: Sequence[Question], model: str) -> list[Asked]:
    """Our defaults, in a temporary store."""
    with elsewhere(), lmm_education.Course.open(env={}) as opened, scratch_courses(opened, [course.documents]) as make:
        made = make(Variant("", opened.settings, model))
        targets, _ = find_targets(questions, read_texts(made))
        search = CourseSearch(made).search
        hits = [search(target.question.text, SearchOptions(limit=DEPTH)).hits for target in targets]
    return [Asked(target, found) for target, found in zip(targets, hits, strict=True)]


# -- peers -------------------------------------------------------------------------------------------------


def peers(course: Course, questions: Sequence[Question], model: str) -> dict[str, list[Asked]]:
    """What each of them that is installed finds."""
    embed = open_embedder(EmbeddingSettings(parse_name(model))).embed
    found: dict[str, list[Asked]] = {}
    for size in SIZES if find_spec("langchain_text_splitters") else ():
        texts = pieces(course, recursive_splitter(size))
        targets, _ = find_targets(questions, texts)
        asked = [target.question.text for target in targets]
        by_meaning = nearest(embed, [text.text for text in texts], asked)
        rankings = {"vectors": by_meaning}
        if find_spec("rank_bm25"):
            by_words = bm25([text.text for text in texts], asked)
            rankings |= {"BM25": by_words, "both": [by_rank(*both) for both in zip(by_words, by_meaning, strict=True)]}
        for name, ranking in rankings.items():
            found[f"LangChain {size}/{OVERLAP} {name}"] = asked_of(targets, texts, ranking)
    if find_spec("txtai"):
        texts = pieces(course, lambda text: [part for part in text.split("\n\n") if part.strip()])
        targets, _ = find_targets(questions, texts)
        ranking = txtai_hybrid(embed, [text.text for text in texts], [target.question.text for target in targets])
        found["txtai hybrid, paragraphs"] = asked_of(targets, texts, ranking)
    return found


def asked_of(targets: Sequence[Expected], texts: Sequence[Passage], rankings: Sequence[Sequence[int]]) -> list[Asked]:
    """The texts that were found, by their numbers."""
    return [Asked(target, [texts[i] for i in found[:DEPTH]]) for target, found in zip(targets, rankings, strict=True)]


def pieces(course: Course, split: Callable[[str], Iterable[str]]) -> list[Passage]:
    """What a peer cuts the documents into."""
    return [
        Passage("", Location(file.name, file.name, Lines(1, 1)), chunk)
        for file in sorted(course.documents.glob("*.md"))
        for chunk in split(file.read_text(encoding="utf-8"))
    ]


def nearest(embed: Embed, texts: Sequence[str], questions: Sequence[str]) -> list[list[int]]:
    """The texts nearest to each question, by cosine."""
    import numpy as np

    chunks, asked = np.array(embed(texts, kind="document")), np.array(embed(questions, kind="query"))
    unit = chunks / np.linalg.norm(chunks, axis=1, keepdims=True)
    best: list[list[int]] = np.argsort(-(asked @ unit.T), axis=1)[:, :CANDIDATES].tolist()
    return best


def bm25(texts: Sequence[str], questions: Sequence[str]) -> list[list[int]]:
    """LangChain's `BM25Retriever`: words are what stands between blanks."""
    import numpy as np
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.split() for text in texts])
    return [np.argsort(-index.get_scores(question.split()))[:CANDIDATES].tolist() for question in questions]


def by_rank(*rankings: Sequence[int]) -> list[int]:
    """LangChain's `EnsembleRetriever`: equal weights, reciprocal ranks counted from 60."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, i in enumerate(ranking, 1):
            scores[i] = scores.get(i, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda i: -scores[i])


def txtai_hybrid(embed: Embed, texts: Sequence[str], questions: Sequence[str]) -> list[list[int]]:
    """txtai's own index, with vectors that are made elsewhere."""
    import numpy as np
    from txtai import Embeddings

    def vectors(data: Sequence[str]) -> Any:
        return np.array(embed(data, kind="document"), dtype=np.float32)

    index = Embeddings(method="external", transform=vectors, hybrid=True)
    index.index((i, text, None) for i, text in enumerate(texts))
    return [[int(i) for i, _ in index.search(question, DEPTH)] for question in questions]


def recursive_splitter(size: int) -> Callable[[str], Iterable[str]]:
    """LangChain's, as it comes."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter: Any = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=OVERLAP)
    split: Callable[[str], Iterable[str]] = splitter.split_text
    return split


def models() -> list[str]:
    """The embedding models that are measured: the one that comes along, and MiniLM where it is installed."""
    return [BUILTIN, *(["Builtin/minilm"] if minilm_weights() else [])]


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
