"""Sub-questions: what the model is asked, how its reply is read."""

from __future__ import annotations

import asyncio

import pytest

from lmm.models.builtin import ExtractiveModel
from lmm.models.testing import ScriptedModel
from lmm.prompts.load import load_prompts
from lmm_education.errors import SearchError
from lmm_education.prompts.templates import SLOTS
from lmm_education.search.expand import read_questions, sub_questions

PROMPTS = load_prompts(package="lmm_education.prompts", slots=SLOTS)


def test_the_model_is_asked_for_so_many() -> None:
    """And no more are taken."""
    model = ScriptedModel(["What is a leaf?\nWhat is chlorophyll?\nWhat is light?"])
    found = asyncio.run(sub_questions("Why are leaves green?", 2, model, PROMPTS))
    assert found == ["What is a leaf?", "What is chlorophyll?"]
    assert "2 shorter questions" in model.seen[0].messages[0].text
    assert "Why are leaves green?" in model.seen[0].messages[0].text


@pytest.mark.parametrize("bullet", ["", "- ", "* ", "1. ", "(2) ", "3: ", "• "])
def test_bullets_and_numbers_are_no_part_of_a_question(bullet: str) -> None:
    """Models write them all the same."""
    assert read_questions(f"{bullet}What is a leaf?\n", "x") == ["What is a leaf?"]


def test_a_question_may_begin_with_a_number() -> None:
    """If it is no bullet."""
    assert read_questions("2 cells divide how?", "x") == ["2 cells divide how?"]


def test_the_built_in_model_cannot_write_questions() -> None:
    """What to set is said."""
    with pytest.raises(SearchError, match=r"\[aux\]"):
        asyncio.run(sub_questions("Why?", 2, ExtractiveModel(), PROMPTS))
