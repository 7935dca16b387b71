"""The documents of a store give the same study material as their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.courses import Course
from memory import temporary_folder

import lmm_education
from lmm_education.study.cards import study_cards
from lmm_education.study.exercises import exercises_as_markdown, find_exercises
from lmm_education.study.plans import study_plan
from lmm_education.study.study_documents import (
    Entry,
    StudyDocument,
    stored_documents,
    study_document,
    table_of_contents,
)

EXAMPLES = Path(__file__).parents[4] / "src/lmm/example/course"
ALPHA = """---
title: Alpha
prerequisites: Beta
author: Me
---
Above all headings.

---
summary: About leaves.
questions: [Why green?]
---
# Leaves

Green because of $x$.

More of it.

# Exercises

---
type: exercise
---
## One

The first paragraph of one.

The second.

---
type: solution
---
The solution of one.

## Two

---
type: exercise
solution: In the metadata.
---
Exercise two.

# Chapter

---
summary: A section of the chapter.
cards:
  - {q: What?, a: That.}
---
## Below

Its text.

---
type: exercise
---
# All exercises

## A

Do a.

## B

Do b.

Really.
"""
BETA = """# Beta

---
questions: [One?, Two?]
answers: [First., Second.]
---
A text.

### Deep

Deeper.
"""


@pytest.fixture(scope="module", params=["ours", "example"])
def course(request: pytest.FixtureRequest) -> Iterator[Course]:
    """A course that was ingested."""
    with temporary_folder() as folder:
        yield ingested(folder, request.param)


def ingested(folder: Path, which: str) -> Course:
    """One of the two courses."""
    made = Course(folder)
    if which == "ours":
        made.write("alpha.md", ALPHA)
        made.write("beta.md", BETA)
    else:
        for file in sorted(EXAMPLES.iterdir()):
            made.write(file.name, file.read_text(encoding="utf-8"))
    made.ingest()
    return made


def both(course: Course) -> tuple[list[StudyDocument], list[StudyDocument]]:
    """From the store, and from the files."""
    with lmm_education.Course.open(config=course.config, embedder=course.embedder) as opened:
        stored = stored_documents(opened)
    files = [course.folder / document.file for document in stored]
    read = [study_document(file.read_text(encoding="utf-8"), file=file.name, id=file.name) for file in files]
    return stored, read


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_the_plan(course: Course, depth: int) -> None:
    """Steps, times, summaries, what comes before what."""
    stored, read = (study_plan(documents, depth=depth) for documents in both(course))
    assert stored == read
    assert len(stored.steps) > 2


def test_the_cards(course: Course) -> None:
    """The same ids too: a student's program keeps what it recorded."""
    stored, read = (study_cards(documents) for documents in both(course))
    assert stored == read
    assert stored


def test_the_exercises(course: Course) -> None:
    """Print the solutions too."""
    stored, read = (exercises_as_markdown(find_exercises(each), solutions=True) for each in both(course))
    assert stored == read
    assert "**Solution.**" in stored


def test_the_contents(course: Course) -> None:
    """The headings in their order."""
    stored, read = (table_of_contents(each) for each in both(course))
    assert stored == read


@pytest.mark.parametrize(
    "settings", ["[text_splitter]\nmin_size = 50\nmax_size = 120\n", '[RAG]\ndocuments = "none"\n']
)
def test_however_it_was_cut(tmp_path: Path, settings: str) -> None:
    """Long exercises that were cut are one again."""
    made = Course(tmp_path)
    made.write("config.toml", settings)
    long = "A sentence of an exercise that is long. " * 10
    text = f"# A\n\nText.\n\n---\ntype: exercise\n---\n{long}\n\n---\ntype: exercise\n---\nShort.\n"
    made.write("a.md", f"{text}\n---\ntype: solution\n---\nSo.\n")
    made.ingest()
    stored, read = (find_exercises(documents) for documents in both(made))
    assert [each.solution for each in stored] == [each.solution for each in read] == ["", "So."]
    assert [each.text.split() for each in stored] == [each.text.split() for each in read]


def test_no_store(tmp_path: Path) -> None:
    """There is nothing yet."""
    with lmm_education.Course.open(config=Course(tmp_path).config) as opened:
        assert stored_documents(opened) == []


BOOKS = {
    "SUMMARY.md": "[Hello](z.md)\n\n- [Roots](b.md)\n  - [Stems, too](a.md)\n\n[Index](c.md)\n",
    "_quarto.yml": "book: {chapters: [z.md, {part: P, chapters: [b.md, {file: a.md, text: 'Stems, too'}]}, c.md]}\n",
}
CONTENTS = {
    "SUMMARY.md": "z.md: Hello|Z|b.md: 1 Roots|1 B|One|a.md: 1.1 Stems, too|1.1 A|Two|c.md: Index|C",
    "_quarto.yml": "z.md: Z|Z|b.md: 1 B|1 B|1.1 One|a.md: 2 Stems, too|2 A|2.1 Two|c.md: 3 C|3 C",
}


@pytest.mark.parametrize("kind", BOOKS)
def test_a_book_is_a_book_in_the_store_too(kind: str) -> None:
    """Order, titles and numbers are those of the book: in its folder, in the store, in what is found; also when the
    book is put into another order, for which no text is embedded again."""
    with temporary_folder() as folder:
        made = Course(folder)
        for name, heading in (("z", "# Z {-}"), ("b", "# B\n\nBee.\n\n## One"), ("a", "# A\n\n## Two"), ("c", "# C")):
            made.write(f"{name}.md", f"{heading}\n\nWhat is in {name}.\n")
        made.write("README.md", "# Not in it\n\nNo chapter.\n")
        made.write(kind, BOOKS[kind])
        made.ingest()
        with lmm_education.Course.open(config=made.config, embedder=made.embedder) as opened:
            assert _titles(opened.toc()) == _titles(opened.toc(folder)) == CONTENTS[kind]
            one, *_ = opened.search("What is in a").sections
            quarto = kind == "_quarto.yml"
            path = "2 Stems, too > 2 A" if quarto else "1.1 Stems, too > 1.1 A"
            assert " > ".join(one.place.path(one.title)) == path
            assert (one.before, one.after) == (("1 B", "3 C") if quarto else ("1 B", "C"))
        first, last = (
            (("z.md", "%"), ("c.md", "z.md"))
            if quarto
            else (("[Hello](z.md)", "%"), ("[Index](c.md)", "[Hello](z.md)"))
        )
        made.write(kind, BOOKS[kind].replace(*first).replace(*last).replace("%", last[0]))
        report = made.ingest()
        assert sum(document.embedded for document in report.documents) == 0
        with lmm_education.Course.open(config=made.config, embedder=made.embedder) as opened:
            assert [document.file for document in opened.documents()] == ["c.md", "b.md", "a.md", "z.md"]


def _titles(entries: list[Entry]) -> str:
    return "|".join(f"{Path(e.file).name}: {e.name}" if not e.level else e.name for e in entries)
