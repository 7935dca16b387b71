"""Books of every kind that is read: their chapters, in order, and what is no part of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmm import Document
from lmm.book_project import book_of, read_book
from lmm.testing import ScriptedModel
from lmm_education.books.chapters import Books
from lmm_education.ingestion.source_files import find_sources

KINDS = {
    "_quarto.yml": """\
project: {type: book}
book:
  title: T
  chapters:
    - index.qmd
    - part: Two parts
      chapters: [b/two.qmd, {file: one.qmd, text: First}]
  appendices: [app.qmd]
  repo-url: https://x.org/a.qmd
""",
    "_bookdown.yml": "rmd_files:\n  html: [index.qmd, b/two.qmd, one.qmd, app.qmd]\n  latex: [index.qmd]\n",
    "SUMMARY.md": """\
# Summary

[Preface](index.qmd)

# Two parts

- [Two](./b/two.qmd)
  - [One \\[1\\]](one.qmd#a)
- [Draft]()

[App](app.qmd)

- [Web](https://x.org/c.md)
""",
    "mkdocs.yml": """\
site_name: X
docs_dir: .
extra: !!python/name:os.system
nav:
- Home: index.qmd
- More:
  - Two: b/two.qmd
  - one.qmd
- app.qmd
- Out: https://x.org/
""",
}
CHAPTERS = {
    "index": "# Welcome {-}\n\n## Aim\n",
    "b/two": "# The two {#sec-two}\n\n## A\n\n## B {.unnumbered}\n\n### C\n\n![x](x.png){#fig-x}\n",
    "one": "# The one\n\n## D {#sec-d}\n",
    "app": "# (APPENDIX) Back {-}\n\n# The app {#sec-app}\n\n## E\n",
}
NAMES = {  # as each kind numbers and calls its chapters
    "_quarto.yml": ["", "1", "2 First", "A The app"],
    "_bookdown.yml": ["", "1", "2", "A The app"],
    "SUMMARY.md": [" Preface", "1 Two", "1.1 One [1]", " App"],
    "mkdocs.yml": [" Home", " Two", "", ""],
}
PARTS = {"_quarto.yml": "Two parts", "SUMMARY.md": "Two parts", "mkdocs.yml": "More"}


@pytest.mark.parametrize("kind", KINDS)
def test_chapters_are_called_as_their_book_calls_them(kind: str, tmp_path: Path) -> None:
    """Titles, numbers and parts as a reader of the book sees them; headings are numbered where the book does so."""
    (tmp_path / "b").mkdir()
    for name, text in CHAPTERS.items():
        (tmp_path / f"{name}.qmd").write_text(text)
    (tmp_path / kind).write_text(KINDS[kind])
    found = [Books().chapter(tmp_path / f"{name}.qmd") for name in CHAPTERS]
    assert [f"{each.numbers.number} {each.title}".rstrip() for each in found] == NAMES[kind]
    assert found[1].book_title == {"_quarto.yml": "T", "mkdocs.yml": "X"}.get(kind, "")
    assert found[1].numbers.part == PARTS.get(kind, "")
    headings = [list(each.numbers.headings.values()) for each in found]
    if kind == "_quarto.yml":
        assert headings == [[], ["1", "1.1", "1.1.1"], ["2", "2.1"], ["A", "A.1"]]
        assert found[0].labels == {
            "sec-two": "Chapter 1", "fig-x": "Figure 1.1", "sec-d": "Section 2.1", "sec-app": "Appendix A"
        }  # fmt: skip
    elif kind == "_bookdown.yml":
        assert headings == [["0.1"], ["1", "1.1", "1.1.1"], ["2", "2.1"], ["A", "A.1"]]
        assert [found[0].labels[label] for label in ("sec-two", "a", "b", "sec-d", "sec-app")] == [
            "1", "1.1", "B", "2.1", "A"
        ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_chapters_are_read_in_the_order_of_the_book(kind: str, tmp_path: Path) -> None:
    """Not in that of their names; what the book does not name is left out, and no chapter gets a title."""
    (tmp_path / "b").mkdir()
    for name in ("app", "b/two", "index", "one", "CODE_OF_CONDUCT"):
        (tmp_path / f"{name}.qmd").write_text(f"# The {name}\n\nText.\n")
    (tmp_path / kind).write_text(KINDS[kind])
    sources = find_sources([tmp_path], tmp_path)
    assert [source.file for source in sources.documents] == ["index.qmd", "b/two.qmd", "one.qmd", "app.qmd"]
    assert (tmp_path / "CODE_OF_CONDUCT.qmd", f"not a chapter of {kind}") in sources.skipped
    named = find_sources([tmp_path / "CODE_OF_CONDUCT.qmd"], tmp_path)
    assert [source.file for source in named.documents] == ["CODE_OF_CONDUCT.qmd"]
    chapter, other = (Document.open(tmp_path / f"{name}.qmd") for name in ("one", "CODE_OF_CONDUCT"))
    assert chapter.complete()
    assert other.complete()
    assert "title" not in chapter.text
    anew = Document.open(tmp_path / "one.qmd")
    before = anew.text
    assert anew.annotate("summary", model=ScriptedModel([]), estimate=True).usage.requests == 1
    assert anew.text == before
    assert anew.annotate("titles", model=ScriptedModel([])).changed
    assert "\ntitle:" not in anew.text
    assert "title: The CODE_OF_CONDUCT" in other.text


def test_pages_of_a_website_have_an_order_and_no_page_is_left_out(tmp_path: Path) -> None:
    """What the sidebar does not name comes after it."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.qmd").write_text("# H\n")
    bar = "website:\n  sidebar:\n    contents:\n      - section: S\n        contents: [c.qmd, {href: b.qmd, text: B}]\n"
    (tmp_path / "_quarto.yml").write_text(bar)
    assert [source.file for source in find_sources([tmp_path], tmp_path).documents] == ["c.qmd", "b.qmd", "a.qmd"]


def test_a_file_that_makes_no_book_is_none(tmp_path: Path) -> None:
    """Damaged, of something else, or of chapters that are not there; a book that changes is read anew."""
    (tmp_path / "a.md").write_text("# A\n")
    for text in (
        "a: [",
        "[]",
        "project: {type: default}\n",
        "book: {chapters: [gone.qmd]}\n",
        "book: 3\n",
        "&a [*a]\n",
    ):
        (tmp_path / "_quarto.yml").write_text(text)
        os.utime(tmp_path / "_quarto.yml", ns=(len(text), len(text)))
        assert read_book(tmp_path) is None
    (tmp_path / "_quarto.yml").write_text("book: {chapters: [a.md]}\n")
    book = book_of(tmp_path / "a.md")
    assert book is not None
    assert [file.path for file in book.files] == ["a.md"]


def test_a_bookdown_book_that_names_no_chapters_has_all_beside_its_index(tmp_path: Path) -> None:
    """In the order of their names, and none that is called _so."""
    for name in ("index", "b", "a", "_common"):
        (tmp_path / f"{name}.Rmd").write_text(f"# {name}\n")
    (tmp_path / "_bookdown.yml").write_text("book_filename: x\n")
    assert [source.file for source in find_sources([tmp_path], tmp_path).documents] == ["index.Rmd", "a.Rmd", "b.Rmd"]


def test_the_title_of_a_chapter_is_not_that_of_the_part_that_begins_with_it(tmp_path: Path) -> None:
    """In bookdown, a heading of its own says what the part is called."""
    (tmp_path / "_bookdown.yml").write_text("book_filename: x\n")
    (tmp_path / "index.Rmd").write_text("# Preface {-}\n")
    (tmp_path / "a.Rmd").write_text("# (PART) Plants {-}\n\n# Leaves\n\nGreen.\n")
    (tmp_path / "b.Rmd").write_text("---\ntitle: Of stems\n---\n# (PART) More {-}\n\n# Stems\n\nBrown.\n")
    one, other = (Books().chapter(tmp_path / name) for name in ("a.Rmd", "b.Rmd"))
    assert (one.title, one.numbers.part, one.numbers.number) == ("Leaves", "Plants", "1")
    assert (other.title, other.numbers.part) == ("", "More")


def test_what_lies_beside_the_pages_of_mkdocs_is_in_no_book(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "mkdocs.yml").write_text("nav: [index.md]\n")
    for name in ("docs/index.md", "docs/other.md", "notes/own.md"):
        (tmp_path / name).write_text("Text.\n")
    books = [book_of(tmp_path / name) for name in ("docs/other.md", "notes/own.md")]
    assert [book is not None for book in books] == [True, False]


def test_an_mdbook_decides_what_of_its_folder_is_read(tmp_path: Path) -> None:
    """Older editions with contents of their own are no part of it, unless their folder is the one that is named."""
    files = {
        "book.toml": '[book]\ntitle = "Plants"\n',
        "src/SUMMARY.md": "# Summary\n\n- [Leaves](leaves.md)\n- [Roots](the%20roots.md)\n- [Draft]()\n"
        "- [Buds](gone.md)\n",
        "src/leaves.md": "# Leaves\n",
        "src/the roots.md": "# Roots\n",
        "src/scraps.md": "# Scraps\n",
        "README.md": "# Read me\n",
        "2018/book.toml": '[book]\nsrc = "text"\n',
        "2018/text/SUMMARY.md": "- [Old leaves](a.md)\n- [Old roots](b.md)\n",
        "2018/text/a.md": "# Old leaves\n",
        "2018/text/b.md": "# Old roots\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = find_sources([tmp_path], tmp_path)
    assert [source.file for source in found.documents] == ["src/leaves.md", "src/the roots.md"]
    reasons = {path.relative_to(tmp_path).as_posix(): reason for path, reason in found.skipped}
    assert reasons["2018/text/a.md"] == reasons["README.md"] == "not a chapter of book.toml"
    assert reasons["src/gone.md"] == "a chapter in SUMMARY.md, but there is no such file"
    assert reasons["src/scraps.md"] == "not a chapter of book.toml"
    named = find_sources([tmp_path / "2018"], tmp_path)
    assert [source.file for source in named.documents] == ["2018/text/a.md", "2018/text/b.md"]
