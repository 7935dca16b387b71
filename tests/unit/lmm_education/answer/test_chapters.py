"""A question for a summary of a chapter gets the whole chapter, in the order of the book."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.testing import ScriptedModel
from lmm_education.course import Course


def words(subject: str, number: int = 250) -> str:
    return f"{subject} are explained. " + f"What is said of {subject} goes on. " * (number // 7)


JOINS = f"""---
title: SQL
---

# Tables

{words("tables")}

# Joins

{words("joins")}

## Outer joins

{words("outer rows")}

## Inner joins

{words("inner rows")}

## Exercises

---
type: exercise
---

{words("join exercises")}

# Indexes

{words("indexes and joins")}
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    folder = tmp_path_factory.mktemp("sql")
    (folder / "sql.md").write_text(JOINS)
    course = Course.open(folder)
    course.ingest()
    return course


@pytest.mark.parametrize(
    "question",
    ["Summarize the chapter on joins.", "Give me an overview of joins", "What are the takeaways of “Joins”?"],
)
def test_a_chapter_is_sent_whole_and_in_order(course: Course, question: str) -> None:
    answer = course.ask(question, model=ScriptedModel(["So [1]."] * 3), context_tokens=4000)
    assert [source.place.headings for source in answer.offered] == [
        ("Joins",),
        ("Joins", "Outer joins"),
        ("Joins", "Inner joins"),
    ]
    assert not [notice for notice in answer.notices if "beginnings" in notice]


def test_what_does_not_fit_is_said_to_be_a_part(course: Course) -> None:
    """The introduction is sent, and of other sections the beginning; both the model and the reader are told."""
    for tokens, whole in ((900, [True, False, False]), (400, [False] * 3)):
        model = ScriptedModel(["So [1]."] * 3)
        answer = course.ask("Summarize the chapter on joins.", model=model, context_tokens=tokens)
        assert [source.heading for source in answer.offered] == ["Joins", "Outer joins", "Inner joins"]
        assert [not source.text.endswith(" …") for source in answer.offered] == whole
        assert "Of “Joins”, you see only a part" in model.seen[-1].messages[-1].text
    assert "the model was shown only the beginnings of the sections of “Joins”" in answer.notices


def test_other_questions_are_searched(course: Course) -> None:
    answer = course.ask("What are indexes for joins?", model=ScriptedModel(["So [1]."] * 3), context_tokens=700)
    assert answer.offered[0].heading == "Indexes"


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Summarize the chapter on testing.", "Writing Automated Tests"),
        ("Summarize traits.", "Traits: Defining Shared Behavior"),
        ("Give me an overview of generics.", "Generic Types, Traits, and Lifetimes"),
    ],
)
def test_a_chapter_is_found_by_one_word(tmp_path: Path, question: str, first: str) -> None:
    """By that in front of a colon; else the highest heading that has it."""
    chapters = [
        ("ch10", "Generic Types, Traits, and Lifetimes", ["Removing Duplication"]),
        ("ch10-02", "Traits: Defining Shared Behavior", ["Defining a Trait", "Traits as Parameters"]),
        ("ch11", "Writing Automated Tests", ["How to Write Tests", "Test Organization"]),
    ]
    for name, title, sections in chapters:
        text = f"# {title}\n\n{words(title)}\n\n" + "".join(f"## {each}\n\n{words(each)}\n\n" for each in sections)
        (tmp_path / f"{name}.md").write_text(text)
    with Course.open(tmp_path) as course:
        course.ingest()
        answer = course.ask(question, model=ScriptedModel(["So [1]."] * 3), context_tokens=6000)
    assert (answer.offered[0].title, len({source.place.file for source in answer.offered})) == (first, 1)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is exercise 2?", "> 2. Count the roots of an oak."),
        ("Was ist Aufgabe 3?", "> 3. Name a red leaf."),
        ("Solve exercise 7 with me", "> Draw a stem."),
        ("Aufgabe 7?", "> Draw a stem."),
        ("exercise 5", "in “More › 5 Exercises” (trees.md:21), “More” (trees.md:23)"),
        ("exercise 5 about the pine", "> **Exercise 5.** Plant a pine."),
        ("exercise 5: cut", "> Cut a branch."),
        ("Summarize chapter 8", "> Tests of wood are hard. [1]"),
        ("Fasse Kapitel 8 zusammen", "> Tests of wood are hard. [1]"),
    ],
)
def test_an_exercise_is_found_by_its_number(tmp_path: Path, question: str, said: str) -> None:
    """Whether a heading, a label or an item of a list has the number, and in whatever language the question is; the
    number of a heading over several is not theirs. So is a chapter."""
    items = "1. Why is a leaf green?\n2. Count the roots of an oak.\n3. Name a red leaf.\n"
    text = f"# Trees\n\nAn oak is a tree.\n\n# Exercises\n\n{items}\n# More\n\n## Exercise 7\n\nDraw a stem.\n"
    text += "\n## 5 Exercises\n\n**Exercise 4.** Sow an acorn.\n\n**Exercise 5.** Plant a pine.\n"
    text += "\n## Exercise 5\n\nCut a branch.\n\n# Chapter 8: Tests\n\n## Wood\n\nTests of wood are hard.\n"
    (tmp_path / "trees.md").write_text(text)
    course = Course.open(tmp_path)
    course.ingest()
    assert said in course.ask(question).text


def test_a_document_is_kept_to_by_its_title_in_quotes(tmp_path: Path) -> None:
    """And not by a word in quotes, or by a title that the question only uses."""
    for name, title in (("a", "Green Leaves"), ("b", "Roots")):
        (tmp_path / f"{name}.md").write_text(f"---\ntitle: {title}\n---\n# What it says\n\nWater rises in plants.\n")
    course = Course.open(tmp_path)
    course.ingest()
    for question in ('What does "Green Leaves" say about water?', "What is in “green leaves” about water?"):
        assert {hit.place.file for hit in course.search(question).hits} == {"a.md"}, question
    assert {hit.place.file for hit in course.search("Water in “Roots”?").hits} == {"b.md"}
    for question in ("Do Green Leaves hold water?", 'What does "roots" mean, with water?'):
        assert {hit.place.file for hit in course.search(question).hits} == {"a.md", "b.md"}, question
