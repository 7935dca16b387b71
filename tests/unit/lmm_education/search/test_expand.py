"""Sub-questions: what the model is asked, how its reply is read."""

from __future__ import annotations

import asyncio

import pytest

from lmm.models.builtin import ExtractiveModel
from lmm.models.client import Client
from lmm.prompts.templates import load_prompts
from lmm.testing import ScriptedModel
from lmm_education.errors import SearchError
from lmm_education.prompts.templates import SLOTS
from lmm_education.search.rerank import sub_questions

PROMPTS = load_prompts(package="lmm_education.prompts", slots=SLOTS)


def test_the_model_is_asked_for_so_many() -> None:
    """By a schema that takes no more."""
    model = ScriptedModel(['{"texts": ["What is a leaf?", "What is chlorophyll?"]}'])
    found = asyncio.run(sub_questions("Why are leaves green?", 2, Client.of(model), PROMPTS, language="English"))
    assert found == ["What is a leaf?", "What is chlorophyll?"]
    assert '"maxItems": 2' in model.seen[0].messages[0].text
    assert "Texts wanted: up to 2" in model.seen[0].messages[0].text
    assert "Why are leaves green?" in model.seen[0].messages[0].text


def test_a_question_counts_once_and_not_if_it_is_the_one_that_was_asked() -> None:
    """In any case; and an empty one is none."""
    model = ScriptedModel(['{"texts": ["Why so?", " ", "What is\\na leaf?", "What is a leaf?", "Why?"]}'])
    assert asyncio.run(sub_questions("why?", 9, Client.of(model), PROMPTS, language="English")) == [
        "Why so?",
        "What is a leaf?",
    ]


def test_the_built_in_model_cannot_write_questions() -> None:
    """What to set is said."""
    with pytest.raises(SearchError, match=r"\[aux\]"):
        asyncio.run(sub_questions("Why?", 2, Client.of(ExtractiveModel()), PROMPTS, language="English"))
