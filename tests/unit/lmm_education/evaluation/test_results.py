"""From outcomes to figures and JSON."""

from __future__ import annotations

import json

from lmm_education.evaluation.questions import Question
from lmm_education.evaluation.results import (
    Evaluation,
    QuestionOutcome,
    comparison_json,
    failures_json,
)
from lmm_education.material import Lines, Location, Passage

PLACE = Location("d", "d.md", Lines(3, 4), ("H",))


def evaluation(label: str, *ranks: int | None) -> Evaluation:
    """Questions whose passages were found at these ranks; all documents were found at once."""
    outcomes = [
        QuestionOutcome(
            Question(f"{i}?", f"q.csv:{i}", "d", passages=(f"p{i}",)), {"passage": rank, "document": 1}, seconds=0.01
        )
        for i, rank in enumerate(ranks)
    ]
    return Evaluation(label, tuple(outcomes), chunks=3, size=100.0)


def test_json_has_the_measures_by_name_under_each_level() -> None:
    found = evaluation("a", 1, 2, None, 1).as_json()
    assert json.loads(json.dumps(found)) == found
    assert (found["passage"]["recall@1"], found["passage"]["recall@5"], found["passage"]["mrr@10"]) == (
        0.5,
        0.75,
        0.625,
    )
    low, high = found["passage"]["intervals"]["ndcg@10"]
    assert low <= found["passage"]["ndcg@10"] <= high
    assert found["document"]["recall@1"] == 1
    assert "section" not in found
    assert round(found["latency"]["p95_ms"]) == 10


def test_a_comparison_tells_how_each_differs_from_the_first() -> None:
    found = comparison_json([evaluation("a", *[5] * 30), evaluation("b", *[1] * 30)])
    (difference,) = found["differences"]
    assert (difference["label"], difference["against"]) == ("b", "a")
    assert difference["passage"]["mrr@10"]["real"]
    assert not difference["document"]["mrr@10"]["real"]


def test_failures_show_what_was_found_instead() -> None:
    question = Question("Why?", "q.csv:2", "d", ("H",), ("Because.",))
    outcome = QuestionOutcome(question, {"passage": 12, "section": 1}, (Passage("", PLACE, "Something else."),))
    found = Evaluation("a", (outcome,))
    (failure,) = failures_json(found, "passage")
    assert (failure["rank"], failure["found"][0]["place"], failure["expected"]["passage"]) == (
        12,
        "d.md:3-4",
        ["Because."],
    )
    assert failures_json(found, "section") == []


def test_failures_are_judged_at_their_own_level() -> None:
    """A row that names only a section must not vanish because another has a passage."""
    exact = QuestionOutcome(Question("A?", document="d", passages=("p",)), {"passage": 1, "section": 1, "document": 1})
    coarse = QuestionOutcome(Question("B?", document="d", section=("H",)), {"section": None, "document": 1})
    found = Evaluation("a", (exact, coarse))
    assert [(each["question"], each["level"]) for each in failures_json(found)] == [("B?", "section")]
    assert failures_json(found, "passage") == failures_json(found, "document") == []
