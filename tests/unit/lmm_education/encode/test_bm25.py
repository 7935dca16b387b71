"""BM25: stems and stop words of the text's language; questions against several languages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lmm_education.encode.bm25 import LANGUAGES, Bm25Encoder, bm25, language_code, sparse_vector

BM25 = Bm25Encoder()


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "the models were running", "model runs"),
        ("de", "die Häuser und der Garten", "Haus in den Gärten"),
        ("de-AT", "das Modell", "die Modelle"),
        ("German", "das Modell", "Modellen"),
        ("fr", "les maisons", "maison"),
        ("ru", "дома", "дом"),
        ("hy", "տներ", "տներ"),
    ],
)
def test_words_are_compared_by_their_stems(language: str, one: str, other: str) -> None:
    """Stop words do not count, and inflected forms are one word."""
    assert BM25.query(one, [language]).indices == BM25.query(other, [language]).indices


def test_stop_words_are_those_of_the_language() -> None:
    """German articles are nothing in German, and a verb in English."""
    assert not BM25.query("die der und", ["de"]).indices
    assert BM25.query("die", ["en"]).indices


def test_a_language_without_stemmer_is_compared_word_by_word() -> None:
    """Polish: what is written the same is found, nothing is dropped."""
    assert len(BM25.query("to jest dom", ["pl"]).indices) == 3
    assert BM25.query("dom", ["pl"]).indices != BM25.query("domy", ["pl"]).indices


@pytest.mark.parametrize(("language", "text"), [("zh", "学生们在学校学习数学"), ("ja", "数学を勉強する")])
def test_languages_without_spaces_are_cut_into_words(language: str, text: str) -> None:
    """A sentence is several words."""
    assert len(BM25.query(text, [language]).indices) > 1


def test_a_question_asks_in_every_language_at_once() -> None:
    """The union of the words as each language stems them."""
    both = BM25.query("the models", ["en", "de"])
    assert set(both.indices) == set(BM25.query("the models", ["en"]).indices + BM25.query("the models", ["de"]).indices)
    assert set(both.values) == {1.0}


def test_documents_count_words_and_discount_length() -> None:
    """Twice is more than once, and less than twice as much; a long text counts less."""
    once, twice, long = BM25.documents(["leaf", "leaf leaf", "leaf " + "word " * 500], ["en"] * 3)
    leaf = once.indices[0]
    weights = [dict(zip(v.indices, v.values, strict=True))[leaf] for v in (once, twice, long)]
    assert weights[0] < weights[1] < 2 * weights[0]
    assert weights[2] < weights[0]


@given(st.text(max_size=200), st.sampled_from([*sorted(LANGUAGES), "pl", "ja", "ta", ""]))
def test_every_text_has_a_vector_in_order(text: str, language: str) -> None:
    """Ids ascend and are distinct, weights are positive; a question finds the words of the same text."""
    text = text.encode("utf-8", "replace").decode()
    (document,) = BM25.documents([text], [language])
    assert list(document.indices) == sorted(set(document.indices))
    assert all(value > 0 for value in document.values)
    assert set(BM25.query(text, [language]).indices) <= set(document.indices)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("植物通过光合作用把光能转化", "光合作用"),
        ("東京で黒猫が勉強している", "猫"),
        ("식물은 빛에너지를", "식물"),
        ("the WHO recommends IT", "WHO"),
        ("the WHO recommends IT", "what is IT?"),
        ("Café", "Cafe\u0301"),
        ("-LM337-", "LM337"),
    ],
)
@pytest.mark.parametrize("language", ["", "en", "zh", "de"])
def test_a_term_of_a_text_is_found_whatever_the_language(text: str, asked: str, language: str) -> None:
    """Chinese, Japanese and Korean without a tag, acronyms that look like stop words, decomposed letters."""
    for encoder in (BM25, Bm25Encoder(grams=True)):
        (document,) = encoder.documents([text], [language])
        assert set(encoder.query(asked, [language]).indices) & set(document.indices)


def test_ids_that_come_twice_or_out_of_order_are_sorted() -> None:
    """As stores want them."""
    assert sparse_vector([5, 1], [0.5, 2.0]).indices == (1, 5)


def test_the_engine_is_opened_once_a_language() -> None:
    """Regions share it."""
    assert bm25("de") is bm25("de")
    assert language_code("de_DE") == language_code("Deutsch") == "de"
