"""Questions about the same are put together; none is lost, and none counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lmm_education.encode.bm25 import bm25
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.figures import QuestionGroup, group_questions
from lmm_education.exchange_log.open_questions import open_questions

WORDS = st.lists(st.sampled_from(["leaf", "green", "root", "water", "light", "?"]), max_size=5).map(" ".join)


def grouped(texts: list[str], language: str = "en") -> list[QuestionGroup]:
    """Groups by the stems that search knows."""
    exchanges = [LoggedExchange(str(i), float(i), text, session=str(i % 3)) for i, text in enumerate(texts)]
    stems = bm25(language)
    return group_questions(exchanges, lambda text: stems.embed_document(text).indices)


@pytest.mark.parametrize(
    ("language", "together"),
    [
        ("en", ["What is a p-value?", "what's a p value", "Explain the p-value"]),
        ("en", ["How do I compute the confidence interval?", "How to calculate confidence intervals"]),
        ("de", ["Was ist ein Konfidenzintervall?", "Was sind Konfidenzintervalle"]),
    ],
)
def test_other_wordings_of_the_same(language: str, together: list[str]) -> None:
    """Small words and endings do not count."""
    assert len(grouped(together, language)) == 1


@pytest.mark.parametrize(
    "apart",
    [
        ["What is a standard deviation?", "What is a standard error?"],
        ["What does lm() do in R?", "What does glm() do in R?"],
        ["What is mitosis?", "What is the difference between mitosis and meiosis?"],
    ],
)
def test_questions_about_other_things(apart: list[str]) -> None:
    """That share a word or two."""
    assert len(grouped(apart)) == 2


@given(st.lists(WORDS, max_size=30))
def test_every_question_is_in_one_group(texts: list[str]) -> None:
    """The largest groups first; those with the same text together; the same every time, in whatever order."""
    groups = grouped(texts)
    assert sorted(e.id for group in groups for e in group.exchanges) == sorted(str(i) for i in range(len(texts)))
    sizes = [len(group.exchanges) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    wordings = [text for group in groups for text in group.wordings]
    assert len(wordings) == len(set(wordings))
    backwards = {frozenset(group.wordings) for group in grouped(texts[::-1])}
    assert backwards == {frozenset(group.wordings) for group in groups}


def test_the_question_as_it_was_rewritten() -> None:
    """What stands for a group can be understood alone."""
    asked = LoggedExchange("1", 0.0, "And why?", searched="Why is a leaf green?")
    (group,) = group_questions([asked], lambda text: set())
    assert (group.question, group.students) == ("Why is a leaf green?", 1)


# What became of one question after the other: "+" is answered with a source, "-" got thumbs down, "^" thumbs up, "0" is
# not found, "~" cites nothing, "?" is unverified, "x" was refused, "a" answered when the author had it asked again.
_CITED = (LoggedSource(1, "s", "a.md", cited=True),)
_LOGGED: dict[str, dict[str, object]] = {
    "+": {"sources": _CITED},
    "-": {"sources": _CITED, "reaction": -1},
    "^": {"sources": _CITED, "reaction": 1},
    "0": {"outcome": "not found"},
    "~": {},
    "?": {"sources": _CITED, "unverified": "“so”: not found"},
    "x": {"outcome": "refused"},
    "a": {"sources": _CITED, "via": "author"},
}


def by_word(text: str) -> set[int]:
    """The words of a text."""
    return {hash(word) for word in text.split()}


@pytest.mark.parametrize(
    ("history", "open_times"),
    [("+", 0), ("x", 0), ("0~?-", 4), ("0~?+", 0), ("+0", 1), ("-+", 1), ("-^", 0), ("-a", 0), ("-a-", 1), ("0x", 1)],
)
def test_what_is_open(history: str, open_times: int) -> None:
    """Asked again in the same words and answered well, it is not; what somebody called bad needs more than that."""
    exchanges = [LoggedExchange(str(i), i, "Why green?", **_LOGGED[sign]) for i, sign in enumerate(history)]  # type: ignore[arg-type]
    assert [len(group.exchanges) for group in open_questions(exchanges, by_word)] == [open_times] * bool(open_times)
    marked = open_questions([LoggedExchange("1", 0, "Why green?", sources=_CITED)], by_word, {"Why green?"})
    assert len(marked) == 1


def test_another_wording_that_was_answered_answers_no_other() -> None:
    """Questions that are only alike may differ in the one word that counts."""
    failed = LoggedExchange("1", 0, "Is a green oak leaf wet?", outcome="not found")
    exchanges = [failed, LoggedExchange("2", 1, "Is a green oak leaf dry?", sources=_CITED)]
    assert [group.exchanges for group in open_questions(exchanges, by_word)] == [[failed]]
