"""Tests for the words of the page: every notice of a search is known in every language."""

from __future__ import annotations

import re

import pytest

from lmm.errors import ConfigError
from lmm_education.catalogue import StoredName
from lmm_education.config import ServeSettings
from lmm_education.search import search
from lmm_education.search.query import read_question
from lmm_education.web.words import LANGUAGES, notice_for, texts_for, words_in

NOTICES = (
    search.NO_WORD,
    *read_question("an *exercize* of @week-4 and @zebra", ["exercise"], [StoredName("w3", "week-3.md")]).notices,
)


def test_languages_have_the_same_texts() -> None:
    """So that a page never lacks one."""
    for part in ("page", "teacher", "written"):
        english = words_in("en")[part]
        for language in LANGUAGES:
            words = words_in(language)[part]
            assert set(words) == set(english)
            if part != "written":
                assert all(_places(words[name]) == _places(english[name]) for name in words)


def _places(text: str) -> set[str]:
    """Where values go."""
    return set(re.findall(r"\{\w+\}", text))


def test_a_courses_own_words_are_checked() -> None:
    """By their names."""
    with pytest.raises(ConfigError, match="did you mean 'welcome'"):
        texts_for(ServeSettings(texts={"welcom": "Hi"}))
    assert texts_for(ServeSettings(failure="Later.", texts={"ask": "Go"}))["failure"] == "Later."


@pytest.mark.parametrize("notice", NOTICES)
def test_notices_are_told_in_the_language_of_the_page(notice: str) -> None:
    """With the names that they tell of."""
    assert notice_for(notice, words_in("de")["page"]).split()[0] in ("Keine", "Es", "Kein")
    assert "{" not in notice_for(notice, words_in("de")["page"]) + notice_for(notice, words_in("en")["page"])


def test_what_is_not_known_stays() -> None:
    """A notice that came with a later search."""
    assert notice_for("the store is old", words_in("de")["page"]) == "the store is old"
