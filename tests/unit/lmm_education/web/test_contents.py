"""Chapters stand in the order of reading, each once; what is suggested comes from the course."""

from __future__ import annotations

from growth import is_linear
from hypothesis import given, strategies as st

from lmm_education.catalogue import Entry, contents_of
from lmm_education.material import Lines, Location, Passage, Section
from lmm_education.payloads import Ids, StoredDocument
from lmm_education.search.instructions import topic_words
from lmm_education.search.ranking import words_named
from lmm_education.web.contents import STARTERS, Chapter, chapters_of, course_title, starters
from lmm_education.web.words import LANGUAGES, words_in

TEXTS = words_in("en")["page"]
PART = "A leaf is green, and a part of a text that was cut at a size is as long as this. "


def titles(file: str, *headings: str, order: int = 0) -> tuple[Section, str]:
    """A section of the document in a file; the document is called as its first heading."""
    return Section(f"{file}-{order}", Location(file, file, Lines(1, 2), headings), 1, order, ""), headings[0]


def test_a_title_stands_once() -> None:
    """Where a document begins with its title as heading."""
    sections = [titles("a.md", "Leaves"), titles("a.md", "Leaves", "Colour", order=1), titles("b.md", "2. Roots")]
    leaves, roots = chapters_of(contents_of(sections))
    assert (leaves.name, leaves.section, [(e.title, e.level) for e in leaves.below]) == (
        "Leaves",
        "a.md-0",
        [("Colour", 1)],
    )
    assert roots.name == "2. Roots"


@given(
    st.lists(st.tuples(st.text("ab1-./", max_size=6), st.text(max_size=4)), max_size=9, unique_by=lambda pair: pair[0])
)
def test_every_document_has_a_chapter(documents: list[tuple[str, str]]) -> None:
    """Whatever files and titles are called; those called the same stand once."""
    sections = [titles(f"{file}.md", title or "?") for file, title in documents]
    found = chapters_of(contents_of(sections))
    assert {chapter.title.strip() for chapter in found} == {title.strip() for _, title in sections}
    assert len(starters([], found, TEXTS)) <= STARTERS


def test_the_contents_of_a_long_document_take_no_longer_for_each_part() -> None:
    """Where a text is cut at a size, thousands of parts may stand under one heading."""

    def read(text: str) -> None:
        ids, headings = Ids("a.md"), ("Leaves",)
        parts = (ids.of("part", *headings, str(number)) for number in range(len(text)))
        place = Location("a.md", "a.md", Lines(1, 2), headings)
        places = [Section(id, place, 1, n, "", goes_on=n > 0) for n, id in enumerate(parts)]
        assert len(list(contents_of((place, "Botany") for place in places))) == 2

    assert is_linear(lambda text: read(text[:: len(PART)]), PART)


def test_the_course_is_called_as_it_calls_itself() -> None:
    """By the page before all others, or its only document."""

    def called(file: str, title: str, book: str = "") -> StoredDocument:
        return StoredDocument(file, file, "", title, book=book)

    assert course_title([called("book/SUMMARY.md", "Rust"), called("book/ch01.md", "Start")]) == "Rust"
    assert course_title([called(file, file, "Plants") for file in ("index.md", "a.md")]) == "Plants"
    assert course_title([called("a.md", "Botany")]) == "Botany"
    assert course_title([called("a.md", "Leaves"), called("b.md", "Roots")]) == ""
    assert course_title([called("a.md", "Leaves", "Botany"), called("b/c.md", "Cells", "Botany")]) == "Botany"


def test_a_course_of_several_books_is_not_called_like_one_of_them() -> None:
    """Nor is one of a book and other documents, unless a page is above all of them."""

    def called(file: str, title: str, book: str = "") -> StoredDocument:
        return StoredDocument(file, file, "", title, book=book)

    rust = [called("rust/SUMMARY.md", "Rust"), called("rust/ch01.md", "Start")]
    assert course_title([*rust, called("k8s/README.md", "Community")]) == ""
    assert course_title([called("a/1.md", "Leaves", "Botany"), called("b/1.md", "Cells", "Biology")]) == ""
    assert course_title([called("a/1.md", "Leaves", "Botany"), called("b.md", "Cells")]) == ""
    assert course_title([*rust, called("index.md", "Programming")]) == "Programming"


def test_questions_of_the_course_come_first() -> None:
    """Then headings that are questions, then chapters that are about something."""
    chapters = [
        Chapter(title, 0, title, 1, number=str(i))
        for i, title in enumerate(["What is life?", "Summary", "Literaturhinweise", "Roots"])
    ]
    found = starters(["Why are leaves green?"], chapters, TEXTS)
    assert found == ["Why are leaves green?", "What is life?", "What are the key ideas of “Roots”?"]
    found = starters([], chapters, {"ask_about": TEXTS["ask_text"]})
    assert found == ["What is life?", "What is “Roots” about?"]


def test_what_is_suggested_names_its_titles() -> None:
    """In every language, a section of a single word, too: all else is instruction."""
    for language in LANGUAGES:
        for name in ("ask_about", "ask_example", "ask_summary", "ask_text"):
            asked = words_in(language)["page"][name].replace("{title}", "Slices")
            place = Location("d", "d.md", Lines(1, 1), ("Slices",))
            assert words_named(asked, topic_words(asked, [language]), Passage("1", place)) == 1


def test_no_question_is_about_the_name_of_a_file_or_exercises_alone() -> None:
    """Nothing in the course would answer it."""
    sheet = Chapter("Sheet one", 0, "sheet.md", 1, below=(Entry("Exercise 1", 1, "sheet.md", 2),))
    chapters = [
        Chapter("20ex", 0, "pdf/20ex.md", 1),
        sheet,
        *(Chapter(each, 0, "a.md", 1) for each in ("Walls", "Nuclei")),
    ]
    assert starters([], chapters, {"ask_about": "What is {title}?"}) == ["What is Walls?", "What is Nuclei?"]
