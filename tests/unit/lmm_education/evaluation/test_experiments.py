"""Measuring on a small store whose answers are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lmm.errors import LmmError
from lmm.testing import HashEmbedder
from lmm_education import Course
from lmm_education.errors import StoreError, StoreMissing
from lmm_education.evaluation.experiments import (
    KEPT,
    calibrate_threshold,
    evaluate,
    evaluate_variants,
    make_variants,
)
from lmm_education.evaluation.questions import Question
from lmm_education.ingestion.ingest import ingest_into

ANIMALS = ("heron", "badger", "otter", "viper", "lynx", "raven", "pike", "marmot", "beetle", "stork", "weasel", "carp")
BY = ("passage", "ndcg@10")


def fact(animal: str) -> str:
    """A passage with words of its own."""
    mark = "".join(reversed(animal))
    return (
        f"The {animal} of lake {mark} was first counted by {mark}son, who wrote down how it lives and where it hides."
    )


def question(animal: str) -> Question:
    """A question about it; all that it shares with its passage are rare words."""
    return Question(f"Who counted the {animal}?", f"q:{animal}", f"{animal[0]}.md", ("Facts",), (fact(animal),))


QUESTIONS = [question(animal) for animal in ANIMALS]


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Course]:
    """A course of a document per first letter, ingested with an embedder that knows words by their hashes."""
    monkeypatch.chdir(tmp_path)
    for letter in {animal[0] for animal in ANIMALS}:
        facts = [fact(animal) for animal in ANIMALS if animal[0] == letter]
        text = f"# Animals with {letter}\n\n## Facts\n\n" + "\n\n".join(facts) + "\n"
        (tmp_path / f"{letter}.md").write_text(text, encoding="utf-8")
    (tmp_path / "config.toml").write_text("[text_splitter]\nmin_size = 1\nmax_size = 150\n[RAG]\npool = false\n")
    with Course.open(embedder=HashEmbedder(8)) as opened:
        ingest_into(opened, [tmp_path])
        yield opened


def test_every_question_finds_its_passage(course: Course) -> None:
    found = evaluate(course, QUESTIONS, label="all")
    assert (len(found.outcomes), found.chunks, found.missing) == (len(ANIMALS), len(ANIMALS), ())
    assert found.estimate("passage", "recall@1").mean == 1.0
    assert found.levels == ("passage", "section", "document")
    assert found.latency["p95_ms"] > 0


def test_what_is_not_in_the_store_counts_as_not_found_and_is_told(course: Course) -> None:
    lost = Question("Who counted the unicorn?", "q:1", "u.md", (), ("The unicorn was counted by nobody at all.",))
    found = evaluate(course, [*QUESTIONS, lost, Question("?", "q:2", unanswerable=True)])
    assert found.estimate("passage", "recall@10").mean == pytest.approx(12 / 13)
    assert found.unanswerable == 1
    assert found.missing == ((lost, "there is no document 'u.md' in the store"),)
    assert [outcome.question for outcome in found.failures("passage")] == [lost]
    assert found.failures("passage")[0].found, "what was found instead"


def test_variants_are_compared_in_stores_of_their_own(course: Course) -> None:
    before = course.store.status().chunks
    variants = make_variants(["encoding=hybrid"], course.settings)
    variants += make_variants(["encoding=content", "max_size=150,400"], course.settings)
    hybrid, content, larger = evaluate_variants(course, QUESTIONS, variants)
    assert hybrid.estimate(*BY).mean == 1.0
    assert content.estimate(*BY).mean < 0.8, "eight hashes cannot tell twelve animals apart"
    assert larger.chunks < content.chunks
    assert course.store.status().chunks == before


def test_documents_can_be_named_where_nothing_was_ingested(course: Course, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Course.open(embedder=HashEmbedder(8), folder=tmp_path / "other") as empty:
        empty.settings = empty.settings.replace(storage={"folder": tmp_path / "none"})
        with pytest.raises(StoreMissing):
            evaluate_variants(empty, QUESTIONS, make_variants(["prefetch=30"], empty.settings))
        (found,) = evaluate_variants(
            empty, QUESTIONS, make_variants(["prefetch=30"], empty.settings), documents=[tmp_path]
        )
    assert found.estimate(*BY).mean == 1.0


def test_a_stored_document_that_is_gone_is_named(course: Course, tmp_path: Path) -> None:
    (tmp_path / "h.md").unlink()
    with pytest.raises(StoreError, match=r"h\.md is missing"):
        evaluate_variants(course, QUESTIONS, make_variants(["prefetch=30"], course.settings))


def test_a_threshold_keeps_the_answerable_and_rejects_the_others(course: Course) -> None:
    others = [Question(f"How high is mount {word}?", "q", unanswerable=True) for word in ("a", "b", "c", "d", "e")] * 2
    found = calibrate_threshold(course, [*QUESTIONS, *others])
    assert (found.answerable, found.unanswerable, found.held_out) == (12, 10, False)
    assert found.advised.kept >= KEPT
    assert found.advised.rejected > 0.9
    held_out = calibrate_threshold(course, QUESTIONS)
    assert held_out.held_out
    assert held_out.unanswerable == 12
    assert held_out.auc > 0.8


def test_questions_without_answers_measure_nothing(course: Course) -> None:
    with pytest.raises(LmmError, match="none of these questions has an answer"):
        evaluate(course, [Question("?", unanswerable=True)])


def test_an_empty_store_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Course.open(embedder=HashEmbedder(8)) as empty, pytest.raises(StoreMissing):
        evaluate(empty, QUESTIONS)
