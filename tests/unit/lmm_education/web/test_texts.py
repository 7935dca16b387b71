"""Tests for the words of the page: every notice of a search is known in every language."""

from __future__ import annotations

import pytest

from lmm_education.search import searcher
from lmm_education.search.query import StoredName, read_question
from lmm_education.web.texts import TEXTS, notice_for

NOTICES = (
    searcher._NO_WORD,
    *read_question("an *exercize* of @week-4 and @zebra", ["exercise"], [StoredName("w3", "week-3.md")]).notices,
)


def test_languages_have_the_same_texts() -> None:
    """So that a page never lacks one."""
    assert {frozenset(texts) for texts in TEXTS.values()} == {frozenset(TEXTS["en"])}


@pytest.mark.parametrize("notice", NOTICES)
def test_notices_are_told_in_the_language_of_the_page(notice: str) -> None:
    """With the names that they tell of."""
    assert notice_for(notice, TEXTS["de"]).split()[0] in ("Keine", "Es", "Kein")
    assert "{" not in notice_for(notice, TEXTS["de"]) + notice_for(notice, TEXTS["en"])


def test_what_is_not_known_stays() -> None:
    """A notice that came with a later search."""
    assert notice_for("the store is old", TEXTS["de"]) == "the store is old"
