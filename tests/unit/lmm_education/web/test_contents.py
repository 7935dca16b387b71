"""Chapters stand in the order of reading, each once; what is suggested comes from the course."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from lmm_education.material import Lines, Place
from lmm_education.web.contents import (
    STARTERS,
    Chapter,
    SectionTitles,
    chapters_of,
    course_title,
    source_title,
    starters,
)

ABOUT = "What matters most in {title}?"


def titles(file: str, *headings: str, order: int = 0) -> SectionTitles:
    """A section of the document in a file; the document is called as its first heading."""
    return SectionTitles(f"{file}-{order}", file, file, headings[0], order, headings)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["ch10-01-b.md", "ch04-03-a.md", "ch04-00-c.md", "ch00-intro.md"], ["ch00-intro.md", "4", "4.3", "10.1"]),
        (["week-2.md", "week-10.md", "appendix-1.md", "foreword.md"], ["foreword.md", "2", "10", "appendix-1.md"]),
        (["roots.md", "leaves.md", "glossary.md"], ["1", "2", "glossary.md"]),
        (["2024-05-01-a.md", "2024-11-02-b.md"], ["1", "2"]),
        (["only.md"], ["only.md"]),
    ],
)
def test_numbers(files: list[str], expected: list[str]) -> None:
    """Those in names, else the order's; none before the first chapter and after the last."""
    found = chapters_of(titles(file, f"In {file}") for file in files)
    assert [chapter.number or chapter.document for chapter in found] == expected


def test_a_title_stands_once() -> None:
    """Where a document begins with its title as heading, and where a title has a number of its own."""
    sections = [titles("a.md", "Leaves"), titles("a.md", "Leaves", "Colour", order=1), titles("b.md", "2. Roots")]
    leaves, roots = chapters_of(sections)
    assert (leaves.name, leaves.section, [(e.title, e.depth) for e in leaves.entries]) == (
        "1 Leaves",
        "a.md-0",
        [("Colour", 0)],
    )
    assert roots.name == "2. Roots"
    assert (
        source_title(Place("a.md", "a.md", Lines(1, 2), ("Leaves", "Colour")), "Leaves", {"a.md": leaves})
        == "1 Leaves › Colour"
    )


@given(
    st.lists(st.tuples(st.text("ab1-./", max_size=6), st.text(max_size=4)), max_size=9, unique_by=lambda pair: pair[0])
)
def test_every_document_has_a_chapter(documents: list[tuple[str, str]]) -> None:
    """Whatever files and titles are called, in the same order every time; those called the same stand once."""
    sections = [titles(f"{file}.md", title or "?") for file, title in documents]
    found = chapters_of(sections)
    assert {chapter.title.strip() for chapter in found} == {section.title.strip() for section in sections}
    assert chapters_of(reversed(sections)) == found
    assert len(starters([], found, ABOUT)) <= STARTERS


def test_the_course_is_called_as_it_calls_itself() -> None:
    """By the page before all others, or its only document."""
    assert course_title([titles("book/SUMMARY.md", "Rust"), titles("book/ch01.md", "Start")]) == "Rust"
    book = [replace(titles(file, file), book="Plants") for file in ("index.md", "a.md")]
    assert course_title(book) == "Plants"
    assert course_title([titles("a.md", "Botany"), titles("a.md", "Botany", "Leaves", order=1)]) == "Botany"
    assert course_title([titles("a.md", "Leaves"), titles("b.md", "Roots")]) == ""


def test_questions_of_the_course_come_first() -> None:
    """Then headings that are questions, then chapters that are about something."""
    chapters = [Chapter(str(i), title, title, "", ()) for i, title in enumerate(["What is life?", "Summary", "Roots"])]
    found = starters(["Why are leaves green?"], chapters, ABOUT)
    assert found == ["Why are leaves green?", "What is life?", "What matters most in Roots?"]
