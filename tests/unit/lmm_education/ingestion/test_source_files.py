"""Which files count as documents, and under which name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lmm_education.ingestion.source_files import SourceFiles, file_name, find_sources


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents, and with files that are none."""
    names = [
        "a.md", "notes/b.Rmd", "notes/b.md", "notes/c.qmd", "notes/deep/d.markdown", "notes/e.knit.md", "notes/f.txt",
        ".git/g.md", "notes/.hidden/h.md", "notes/.i.md", "notes/j.md.bak",
    ]  # fmt: skip
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(sources: SourceFiles) -> list[str]:
    """The names of the documents found."""
    return [source.file for source in sources.documents]


def test_a_folder_gives_its_documents(course: Path) -> None:
    """Hidden folders and files, other endings and what knitr makes are passed over; the last is told."""
    sources = find_sources(["notes"], course)
    assert files(sources) == ["notes/b.Rmd", "notes/c.qmd", "notes/deep/d.markdown"]
    assert sources.skipped == [(Path("notes/b.md"), "made from b.Rmd")]
    assert not any(source.named for source in sources.documents)


def test_a_file_means_the_same_however_it_is_named(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By folder, by file, by absolute path, from another folder, twice."""
    (folder,) = (s for s in find_sources(["notes"], course).documents if s.path.name == "c.qmd")
    assert files(find_sources(["notes/c.qmd", course / "notes" / "c.qmd"], course)) == [folder.file]
    monkeypatch.chdir(course / "notes")
    assert files(find_sources(["c.qmd", "../notes/c.qmd"], course)) == [folder.file]
    assert "notes/c.qmd" in files(find_sources(["."], course))


def test_a_named_file_is_ingested_even_if_a_folder_would_pass_it_over(course: Path) -> None:
    """What is named is meant."""
    sources = find_sources(["notes", "notes/b.md", "notes/.hidden/h.md"], course)
    assert {"notes/b.md", "notes/.hidden/h.md"} <= set(files(sources))
    assert {source.file for source in sources.documents if source.named} == {"notes/b.md", "notes/.hidden/h.md"}


def test_a_notebook_that_is_a_chapter_is_told_of(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its book is looked through, not where a chapter is named; nor any more when it was imported, in a server
    that goes on too."""
    (course / "notes/_quarto.yml").write_text("book: {chapters: [c.qmd, two]}\n")
    (course / "notes/two.ipynb").write_text("{}")
    told = (Path("notes/two.ipynb"), "a chapter, but not a markdown file (lmm import converts it)")
    assert told in find_sources(["notes"], course).skipped
    assert find_sources(["notes/c.qmd"], course).skipped == []
    (course / "notes/two.md").write_text("# Two\n")
    later = time.monotonic() + 3
    monkeypatch.setattr(time, "monotonic", lambda: later)
    sources = find_sources(["notes"], course)
    assert (files(sources), told in sources.skipped) == (["notes/c.qmd", "notes/two.md"], False)


def test_patterns(course: Path) -> None:
    """A shell that does not know a pattern hands it on; so does Python."""
    assert files(find_sources(["notes/*.qmd"], course)) == ["notes/c.qmd"]
    assert files(find_sources(["**/*.markdown"], course)) == ["notes/deep/d.markdown"]
    assert files(find_sources(["n*"], course)) == files(find_sources(["notes"], course))
    (course / "x[1].md").write_text("text\n")
    assert files(find_sources(["x[1].md"], course)) == ["x[1].md"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.md", "no such file"),
        ("notes/f.txt", "not a markdown file.*lmm import"),
        ("*.nothing", "no file matches"),
    ],
)
def test_what_is_no_document_is_told(course: Path, path: str, said: str) -> None:
    """And the others go on."""
    sources = find_sources([path, "a.md"], course)
    assert files(sources) == ["a.md"]
    (error,) = sources.errors
    with pytest.raises(type(error), match=said):
        raise error


def test_links_are_followed_and_count_once(course: Path) -> None:
    """Two names of one file are one document."""
    (course / "notes" / "link.md").symlink_to(course / "a.md")
    assert len(find_sources(["a.md", "notes/link.md"], course).documents) == 1


def test_files_outside_the_course_have_a_name_too(course: Path) -> None:
    """A path that leads out of the course's folder."""
    assert file_name(course / "a.md", course / "notes") == "../a.md"
    assert not SourceFiles(folders=["."]).covers("../a.md")
    assert SourceFiles(folders=["../more"]).covers("../more/a.md")
    assert os.sep not in file_name(course / "notes" / "c.qmd", course) or os.sep == "/"
