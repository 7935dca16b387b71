"""What is asked is not what is told to do: instructions are not searched, and what they name comes first."""

from __future__ import annotations

import asyncio
import dataclasses
import tomllib
from pathlib import Path

import pytest
from unit.lmm_education.search.conftest import Open, course

from lmm.testing import ScriptedModel
from lmm_education.answer.answer import Answer
from lmm_education.answer.answering import Answering
from lmm_education.search.instructions import LANGUAGES, topic_of

FORMS = tomllib.loads(
    (Path(__file__).parents[4] / "benchmarks" / "questions" / "instructions.toml").read_text(encoding="utf-8")
)
HEADINGS = {"en": ("String Slices", "How Do Joins Work", "`ggsave()`", "Rows"), "de": ("Satz von Bayes", "Modus")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_of_an_instruction_its_topic_is_looked_up(language: str) -> None:
    asked = {form.replace("{}", each): each for form in FORMS[language]["tuned"] for each in HEADINGS[language]}
    found = {question: topic_of(question, [language]).text for question in asked}
    assert found == asked


@pytest.mark.parametrize(
    "question",
    [
        "What is a trait?",
        "How do I write a summary of a data frame?",
        "List comprehensions",
        "Test organization",
        "Units of measurement",
        "What is the problem with global variables?",
        "What are two examples of jawless vertebrates?",
        "How do I explain a model in plain terms?",
        "Summarize!",
        "Please explain.",
        "Create table",
    ],
)
def test_a_question_without_an_instruction_is_looked_up_as_it_is(question: str) -> None:
    assert topic_of(question, LANGUAGES).text == question


def test_a_mark_and_an_instruction_leave_the_topic(open_search: Open) -> None:
    found = open_search().search("Give me an *exercise* on roots.")
    assert (found.text, found.asked, found.hits[0].type) == ("roots", "Give me an on roots.", "exercise")


@pytest.mark.parametrize("question", ["Stems", "Summarize the section on stems.", "Explain Stems to me, please"])
def test_the_section_that_is_named_comes_first(open_search: Open, question: str) -> None:
    found = open_search().search(question)
    assert found.sections[0].place.headings == ("Stems",)
    assert found.question == found.asked == question


def test_the_section_whose_number_is_named_comes_first(open_search: Open) -> None:
    botany, law = course()
    numbers = ("7", "7.1", "7.2")
    sections = [
        dataclasses.replace(section, place=dataclasses.replace(section.place, numbers=(number,)))
        for section, number in zip(botany.sections, numbers, strict=True)
    ]
    search = open_search(documents=[dataclasses.replace(botany, sections=tuple(sections)), law])
    assert search.search("Summarize section 7.2 for me.").sections[0].place.headings == ("Stems",)
    assert search.search("Summarize section 7.3 for me.").text == "section 7.3"


def test_the_model_is_told_what_to_do(open_search: Open) -> None:
    model = ScriptedModel(["Water rises. [1]"])
    question = "Explain stems in three sentences."
    answering = Answering(open_search(), major=model)

    async def events() -> list[object]:
        return [event async for event in answering.stream(question)]

    answer = asyncio.run(events())[-1]
    assert question in model.seen[0].messages[-1].text
    assert isinstance(answer, Answer)
    assert (answer.question, answer.searched) == (question, "stems")


def test_what_is_compared_is_looked_up_by_itself_too(open_search: Open) -> None:
    found = open_search().search("Compare roots and stems in a table.")
    assert found.questions == ("roots", "stems")
    assert {section.place.headings for section in found.sections[:2]} == {("Roots",), ("Stems",)}
