"""Laws of reading questions, fusing rankings, voting and highlighting."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, strategies as st

from lmm_education.catalogue import StoredName
from lmm_education.search.highlight import excerpt, marked, matching_words, verbatim
from lmm_education.search.query import has_marks, read_question
from lmm_education.search.ranking import Fusion, Ranking, by_rank, fuse, vote, weights

TYPES = ("text", "exercise")
DOCUMENTS = (StoredName("w3", "notes/week 3.md"),)
texts = st.text(st.sampled_from('ab *@".,\n\té文'), max_size=40) | st.text(max_size=60)
ids = st.sampled_from("abcdefghij")
METHODS: tuple[Fusion, ...] = ("dbsf", "rrf")


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """Up to ten ids with scores, best first."""
    scores = draw(st.dictionaries(ids, st.integers(-1000, 1000).map(float), max_size=10))
    return sorted(scores.items(), key=lambda pair: -pair[1])


@given(texts)
def test_a_question_without_marks_is_unchanged(question: str) -> None:
    """To the character."""
    assume(not has_marks(question))
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


@given(rankings(), rankings(), st.sampled_from(METHODS))
def test_every_candidate_comes_once_best_first(one: Ranking, two: Ranking, method: Fusion) -> None:
    """With what each leg said of it."""
    fused = fuse({"one": one, "two": two}, {"one": 0.8, "two": 0.2}, method=method)
    assert sorted(f.id for f in fused) == sorted({id for id, _ in (*one, *two)})
    assert [f.score for f in fused] == sorted((f.score for f in fused), reverse=True)
    for each in fused:
        said = {name: score for name, leg in (("one", one), ("two", two)) if (score := dict(leg).get(each.id))}
        assert each.legs == said


@given(rankings(), rankings(), st.sampled_from(METHODS))
def test_a_leg_without_weight_changes_nothing(one: Ranking, two: Ranking, method: Fusion) -> None:
    """Not even by candidates that only it has."""
    assert fuse({"one": one, "two": two}, {"one": 0.8, "two": 0.0}, method=method) == fuse(
        {"one": one}, {"one": 0.8}, method=method
    )


@given(rankings(), rankings(), st.sampled_from(METHODS), st.integers(-8, 8), st.integers(-3, 3))
def test_the_scale_of_a_leg_does_not_count(
    one: Ranking, two: Ranking, method: Fusion, power: int, weight_power: int
) -> None:
    """Neither that of its scores, nor that of all weights."""
    scaled = [(id, score * 2.0**power) for id, score in two]
    weights = {"one": 0.75, "two": 0.25}
    more = {name: weight * 2.0**weight_power for name, weight in weights.items()}
    before = fuse({"one": one, "two": two}, weights, method=method)
    after = fuse({"one": one, "two": scaled}, more, method=method)
    assert [(f.id, f.score) for f in before] == [(f.id, f.score) for f in after]


@given(rankings(), rankings(), st.sampled_from(METHODS), st.integers(1, 9), st.integers(1, 9))
def test_more_weight_means_more_say(one: Ranking, two: Ranking, method: Fusion, low: int, high: int) -> None:
    """An id that the second leg puts before another, and the first behind, never falls behind it with more weight."""
    assume(low < high)

    def score(weight: int) -> dict[str, float]:
        weights = {"one": 1 - weight / 10, "two": weight / 10}
        return {f.id: f.score for f in fuse({"one": one, "two": two}, weights, method=method)}

    few, many, said = score(low), score(high), dict(two)
    for a in said:
        for b in said:
            if said[a] > said[b] and few[a] > few[b] + 1e-9:
                assert many[a] > many[b] - 1e-9


@given(rankings(), st.sampled_from(METHODS))
def test_one_leg_keeps_its_order(one: Ranking, method: Fusion) -> None:
    """Whatever it is normalised to."""
    scores = dict(one)
    fused = [scores[f.id] for f in fuse({"one": one}, {}, method=method)]
    if method == "dbsf":
        assert fused == sorted(fused, reverse=True)


@given(rankings(), ids, st.sampled_from(METHODS))
def test_a_boost_never_lowers(one: Ranking, chosen: str, method: Fusion) -> None:
    """The boosted one climbs, the others keep their order."""
    before = [f.id for f in fuse({"one": one}, {}, method=method)]
    after = [f.id for f in fuse({"one": one}, {}, method=method, boosts={chosen: 1.0})]
    if chosen in before:
        assert after.index(chosen) <= before.index(chosen)
    assert [id for id in after if id != chosen] == [id for id in before if id != chosen]


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
    assume(not verbatim(text).blocks)  # which are kept whole, in lines of their own
    spans = matching_words(text, question, ["en", "de"])
    begin, end = excerpt(text, spans, width)
    assert 0 <= begin <= end <= len(text)
    assert end - begin <= max(width, len(text) if len(text) <= width else width)
    shown = marked(text, spans, (begin, end), lambda word: f"\0{word}\1", str)
    plain = shown.replace("\0", "").replace("\1", "").removeprefix("… ").removesuffix(" …")
    if "\0" not in text and "\1" not in text and "…" not in text:
        assert plain.split() == text[begin:end].split()


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([["dense"], ["multi"], ["dense", "multi"]]), st.booleans())
def test_meaning_decides_where_words_do_not(one: float, two: float, dense: list[str], static: bool) -> None:
    """All weights make 1; the less of a question is covered, the less its words weigh."""
    less, more = (weights(coverage, dense, static=static) for coverage in sorted([one, two]))
    assert sum(less.values()) == pytest.approx(1, abs=1e-5)
    assert 0 < less["sparse"] <= more["sparse"] < 1
