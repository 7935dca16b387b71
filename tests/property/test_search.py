"""Laws of reading questions, scoring passages, voting and highlighting."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, strategies as st

from lmm_education.catalogue import StoredName
from lmm_education.search.highlight import excerpt, marked, matching_words
from lmm_education.search.query import read_question
from lmm_education.search.ranking import by_rank, relevance, vote, weights

TYPES = ("text", "exercise")
DOCUMENTS = (StoredName("w3", "notes/week 3.md"),)
texts = st.text(st.sampled_from('ab *@".,\n\té文'), max_size=40) | st.text(max_size=60)
legs = st.fixed_dictionaries({"sparse": st.floats(0, 100), "dense": st.floats(-1, 1)})


@given(texts)
def test_a_question_without_marks_is_unchanged(question: str) -> None:
    """To the character."""
    assume(not set('*@"') & set(question))
    asked = read_question(question, TYPES, DOCUMENTS)
    assert (asked.text, asked.types, asked.documents, asked.notices) == (question, (), (), ())


@given(texts)
def test_a_question_with_names_that_nobody_knows_is_unchanged(question: str) -> None:
    """Whatever stars and signs are in it."""
    asked = read_question(question, (), ())
    assert asked.text == question
    assert not asked.types


@given(texts, texts)
def test_marks_are_found_wherever_they_stand(before: str, after: str) -> None:
    """Between any texts, if there is space around them; the words of the texts stay."""
    assume("*" not in before + after)
    assume("@" not in before + after)
    asked = read_question(f"{before} *exercise* @w3 {after}", TYPES, DOCUMENTS)
    assert asked.types == ("exercise",)
    assert asked.documents == ("w3",)
    assert asked.text.split() == f"{before} {after}".split()


@given(legs, legs, st.floats(1, 100), st.integers(1, 9), st.integers(1, 9))
def test_more_weight_means_more_say(
    one: dict[str, float], two: dict[str, float], full: float, low: int, high: int
) -> None:
    """A passage that the meaning puts before another never falls behind it with more weight."""
    assume(low < high)

    def lead(weight: int) -> float:
        weights = {"sparse": 1 - weight / 10, "dense": weight / 10}
        return relevance(one, full, weights) - relevance(two, full, weights)

    if one["dense"] > two["dense"] and lead(low) > 1e-5:
        assert lead(high) > -1e-5


@given(legs, st.floats(1, 100), st.integers(1, 20))
def test_a_full_match_is_one_whatever_the_length(scores: dict[str, float], full: float, scale: int) -> None:
    """Relevance compares questions: it does not grow with the words of a question, nor with the sum of the weights."""
    assert relevance({"sparse": full, "dense": 1.0}, full, {"sparse": 3.0, "dense": 1.0}) == pytest.approx(1.0)
    longer = {**scores, "sparse": scores["sparse"] * scale}
    weights = {"sparse": 0.75, "dense": 0.25}
    more = {name: weight * scale for name, weight in weights.items()}
    assert relevance(longer, full * scale, more) == pytest.approx(relevance(scores, full, weights), abs=2e-6)


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=20))
def test_sections_get_the_votes_of_their_passages(sections: list[str]) -> None:
    """Every vote counts once, for its own section."""
    voted = vote(sections, by_rank(len(sections)))
    assert {v.section for v in voted} == {s for s in sections if s}
    assert sorted(rank for v in voted for rank in v.ranks) == [i for i, s in enumerate(sections, 1) if s]
    assert [v.score for v in voted] == sorted((v.score for v in voted), reverse=True)


@given(texts, texts, st.integers(1, 50))
def test_an_excerpt_is_a_part_with_its_marks(text: str, question: str, width: int) -> None:
    """Marks enclose words of the text; without them the part is as it stands, but for white space."""
    text, question = (s.encode("utf-8", "replace").decode() for s in (text, question))
    spans = matching_words(text, question, ["en", "de"])
    begin, end = excerpt(text, spans, width)
    assert 0 <= begin <= end <= len(text)
    assert end - begin <= 3 * width  # lines stay whole
    shown = marked(text, spans, (begin, end), lambda word: f"\0{word}\1", str)
    plain = shown.replace("\0", "").replace("\1", "").removeprefix("… ").removesuffix(" …")
    if "\0" not in text and "\1" not in text and "…" not in text:
        assert plain.split() == text[begin:end].split()


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([["dense"], ["multi"], ["dense", "multi"]]), st.booleans())
def test_meaning_decides_where_words_do_not(one: float, two: float, dense: list[str], static: bool) -> None:
    """All weights make 1; the less of a question is covered, the less its words weigh."""
    for foreign in (False, True):
        less, more = (weights(coverage, dense, static=static, foreign=foreign) for coverage in sorted([one, two]))
        assert sum(less.values()) == pytest.approx(1, abs=1e-5)
        assert 0 < less["sparse"] <= more["sparse"] < 1
