"""What a question names comes first, whatever else it says; what it compares is looked up, too."""

from __future__ import annotations

import asyncio
import dataclasses
import tomllib
from pathlib import Path

import pytest
from unit.lmm_education.search.conftest import Open, Writing, course

from lmm.testing import ScriptedModel
from lmm_education.answer.answer import Answer
from lmm_education.answer.answering import Answering
from lmm_education.search.instructions import with_here

FORMS = tomllib.loads(
    (Path(__file__).parents[4] / "benchmarks" / "questions" / "instructions.toml").read_text(encoding="utf-8")
)
EVERY = [form for language in FORMS.values() for kind in language.values() for form in kind]


@pytest.mark.parametrize("form", EVERY)
def test_the_section_whose_heading_stands_in_the_question_comes_first(open_search: Open, form: str) -> None:
    teaching = (
        "Explain the chapter in three sentences for the exam, give an example, make flashcards; erkläre das Kapitel."
    )
    document = (
        Writing("soil").section("Teaching", teaching=teaching).section("Water and Roots", hairs="It enters by hairs.")
    )
    found = open_search(documents=[document.made()]).search(form.replace("{}", "Water and Roots"))
    assert found.sections[0].place.headings == ("Water and Roots",)


@pytest.mark.parametrize(
    ("question", "is_here"),
    [
        ("Summarize!", True),
        ("Give me two examples, please.", True),
        ("Hallo, kannst du mir das Kapitel kurz zusammenfassen?", True),
        ("Erstelle fünf Lernkarten!", True),
        ("What is a trait?", False),
        ("Give me an example of a vertebrate.", False),
        ("Hello!", False),
        ("Nenne mir Wirbeltiere.", False),
    ],
)
def test_only_instructions_mean_the_section_that_is_open(question: str, is_here: bool) -> None:
    assert ("Slices" in with_here(question, "Slices")) == is_here


def test_a_mark_and_an_instruction_leave_the_topic(open_search: Open) -> None:
    found = open_search().search("Give me an *exercise* on roots.")
    assert (found.text, found.hits[0].type) == ("Give me an on roots.", "exercise")


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
    assert search.search("Summarize section 7.3 for me.").text == "Summarize section 7.3 for me."


def test_the_model_is_told_what_to_do(open_search: Open) -> None:
    model = ScriptedModel(["Water rises. [1]"])
    question = "Explain stems in three sentences."
    answering = Answering(open_search(), major=model)

    async def events() -> list[object]:
        return [event async for event in answering.stream(question)]

    answer = asyncio.run(events())[-1]
    assert question in model.seen[0].messages[-1].text
    assert isinstance(answer, Answer)
    assert (answer.question, answer.searched) == (question, question)


def test_what_is_compared_is_looked_up_by_itself_too(open_search: Open) -> None:
    found = open_search().search("Compare roots and stems in a table.")
    assert found.questions == ("roots", "stems")
    assert {section.place.headings for section in found.sections[:2]} == {("Roots",), ("Stems",)}
