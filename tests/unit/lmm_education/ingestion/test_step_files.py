"""The files that show what each step made: written, edited, ingested; nothing of anybody's is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fakes.courses import Course
from memory import temporary_folder

from lmm_education.ingestion.source_files import OUR_OWN

LEAVES = "---\ntitle: Leaves\n---\n# Colour\n\nLeaves are green.\n\n# Why\n\nChlorophyll is.\n"
STEPS = ["leaves.chunks.md", "leaves.documents.md", "leaves.pooled.md"]


@pytest.fixture
def course() -> Iterator[Course]:
    """A course with one document."""
    with temporary_folder() as folder:
        course = Course(folder)
        course.write("leaves.md", LEAVES)
        yield course


def names(course: Course, pattern: str = "*.md*") -> list[str]:
    """The files in the course's folder."""
    return sorted(path.name for path in course.folder.glob(pattern))


def test_the_files_of_the_steps_stand_beside_the_document(course: Course) -> None:
    """Nothing is embedded or stored, as the seed has it; and nothing else is written."""
    report = course.ingest("leaves.md", save_files=True, ingest=False)
    assert [path.name for path in sorted(report.saved)] == STEPS
    assert names(course, "*") == sorted([*STEPS, "leaves.md", "config.toml"])
    assert course.embedder.seen == []


def test_our_own_files_are_passed_over_while_they_are_written(course: Course) -> None:
    """Also with the store filled and the files written again and again."""
    for _ in range(3):
        report = course.ingest(save_files=True)
        assert course.files() == ["leaves.md"]
    assert [document.reason for document in report.documents if document.state == "skipped"] == [OUR_OWN] * 3


def test_our_own_files_are_no_chapters_that_a_book_left_out(course: Course) -> None:
    """Other files in its folder are."""
    course.write("_quarto.yml", "project:\n  type: book\nbook:\n  chapters: [leaves.md]\n")
    course.write("draft.md", "# Draft\n")
    course.ingest(save_files=True)
    report = course.ingest()
    skipped = {document.path.name: document.reason for document in report.documents if document.state == "skipped"}
    assert skipped == dict.fromkeys(STEPS[:2], OUR_OWN) | {
        "draft.md": "not a chapter of _quarto.yml",
        "leaves.md": "leaves.pooled.md, made from it, is ingested in its place",
    }
    assert course.files() == ["leaves.pooled.md"]


def test_a_document_that_is_stored_already_gets_its_files(course: Course) -> None:
    """They may be asked for at any time."""
    course.ingest()
    (document,) = course.ingest(save_files=True).documents
    assert (document.state, len(document.saved)) == ("unchanged", 3)


def test_another_folder_keeps_documents_of_one_name_apart(course: Course) -> None:
    """Its subfolders are those of the course."""
    course.write("more/leaves.md", LEAVES)
    output = course.folder / "out"
    course.ingest(save_files=True, output=output)
    found = sorted(path.relative_to(output).as_posix() for path in output.rglob("*.chunks.md"))
    assert found == ["leaves.chunks.md", "more/leaves.chunks.md"]


def test_a_file_that_is_not_ours_is_not_replaced(course: Course) -> None:
    """Neither an author's, nor that of another document of the same name; nothing is written then."""
    course.write("leaves.chunks.md", "My own notes on chunks.\n")
    (error,) = course.ingest("leaves.md", save_files=True).failed
    assert "not written" in str(error)
    assert names(course) == ["leaves.chunks.md", "leaves.md"]
    (course.folder / "leaves.chunks.md").unlink()
    course.ingest("leaves.md", save_files=True)
    course.write("leaves.qmd", "Of another kind.\n")
    before = (course.folder / "leaves.chunks.md").read_text()
    assert course.ingest("leaves.qmd", save_files=True).failed
    assert (course.folder / "leaves.chunks.md").read_text() == before


def test_an_edited_file_is_kept_when_it_is_written_again(course: Course) -> None:
    """Under another name, that is told; each time under a new one."""
    path = course.folder / "leaves.chunks.md"
    for number in ("", "2"):
        course.ingest("leaves.md", save_files=True, ingest=False)
        path.write_text(path.read_text().replace("green", f"red{number}"))
        report = course.ingest("leaves.md", save_files=True, ingest=False)
        assert f"red{number}" in (course.folder / f"leaves.chunks.md.bak{number}").read_text()
        assert any(f"bak{number}" in notice for notice in report.notices)
        assert "green" in path.read_text()


def test_a_file_that_nobody_edited_is_written_again_without_ado(course: Course) -> None:
    """Also when the document changed."""
    course.ingest("leaves.md", save_files=True)
    course.write("leaves.md", LEAVES.replace("green", "yellow"))
    assert course.ingest("leaves.md", save_files=True).notices == []
    assert "yellow" in (course.folder / "leaves.chunks.md").read_text()
    assert not names(course, "*.bak")


def test_the_prepared_document_replaces_its_source(course: Course) -> None:
    """As it stands, it gives what the source gives, and nothing is embedded for it."""
    course.ingest()
    course.ingest(save_files=True, ingest=False)
    before = {id: payload["text"] for id, (payload, _) in course.contents()["chunks"].items()}
    for paths in ((), ("leaves.pooled.md",), ("leaves.md",), ("leaves.md", "leaves.pooled.md")):
        report = course.ingest(*paths)
        assert (report.failed, report.notices) == ([], [])
        (document,) = (each for each in report.documents if each.state != "skipped")
        assert (document.id, document.embedded) == ("leaves.md", 0)
        assert {id: payload["text"] for id, (payload, _) in course.contents()["chunks"].items()} == before
        assert course.files() == ["leaves.pooled.md"]


@pytest.mark.parametrize("step", ["leaves.documents.md", "leaves.chunks.md"])
def test_the_other_files_are_to_look_at(course: Course, step: str) -> None:
    """One that is named is refused, and the document stays as it is stored."""
    course.ingest(save_files=True)
    (failure,) = course.ingest(step).failed
    assert "for reading only" in str(failure)
    assert course.files() == ["leaves.md"]


def test_an_edited_document_stands_for_its_source(course: Course) -> None:
    """Whatever is named, and it is said if the source has changed since; without it, the source counts again."""
    course.ingest(save_files=True)
    path = course.folder / "leaves.pooled.md"
    path.write_text(path.read_text().replace("Leaves are green.", "Leaves are mostly green."))
    (document,) = course.ingest("leaves.pooled.md").documents
    assert (document.state, document.embedded) == ("changed", 1)
    course.write("leaves.md", LEAVES.replace("green", "yellow"))
    for paths in ((), ("leaves.md",), ("leaves.pooled.md",)):
        report = course.ingest(*paths)
        assert "Leaves are mostly green." in course.texts()
        reasons = {each.reason for each in report.documents if each.file == "leaves.md"}
        assert reasons == {"leaves.pooled.md, made from it, is ingested in its place"} or "leaves.md" not in paths
        (notice,) = report.notices
        assert "leaves.md has changed since leaves.pooled.md was made" in notice
        assert "lmm ingest --save-files --no-ingest" in notice
    path.unlink()
    (document,) = (each for each in course.ingest().documents if each.state != "skipped")
    assert (document.state, document.moved_from) == ("changed", "leaves.pooled.md")
    assert "Leaves are yellow." in course.texts()


def test_files_of_older_versions_and_without_a_source(course: Course) -> None:
    """The former are passed over, and refused if they are named; the latter are documents as they are."""
    course.ingest(save_files=True, ingest=False)
    path = course.folder / "leaves.pooled.md"
    path.write_text(re.sub(r"(?m)^(source:|  text:).*\n", "", path.read_text()))
    assert (course.ingest().failed, course.files()) == ([], ["leaves.md"])
    (error,) = course.ingest("leaves.pooled.md").failed
    assert "--save-files" in str(error)
    course.ingest("leaves.md", save_files=True, ingest=False)
    (course.folder / "leaves.md").rename(course.folder / "foliage.md")
    report = course.ingest()
    assert (report.failed, course.files()) == ([], ["foliage.md", "leaves.pooled.md"])
    (notice,) = report.notices
    assert notice.startswith("leaves.pooled.md was made from leaves.md, which is not there: correct 'source'")
    path.write_text(path.read_text().replace("source: leaves.md", "source: foliage.md"))
    report = course.ingest()
    assert (report.notices, [lost.file for lost in report.lost]) == ([], [])
    assert course.files() == ["foliage.md", "leaves.pooled.md"]


def test_lists_of_a_prepared_document_are_made_from_it(course: Course) -> None:
    """They show what was edited; it is not written itself. A copy of it is refused."""
    course.ingest(save_files=True, ingest=False)
    path = course.folder / "leaves.pooled.md"
    path.write_text(edited := path.read_text().replace("are green", "are mostly green"))
    (report,) = course.ingest("leaves.pooled.md", save_files=True, ingest=False).documents
    assert [path.name for path in sorted(report.saved)] == STEPS[:2]
    assert "are mostly green" in (course.folder / "leaves.chunks.md").read_text()
    assert path.read_text() == edited
    course.write("copy.pooled.md", edited)
    assert [error.hint for error in course.ingest().failed] == ["remove one of them"] * 2


def test_a_prepared_document_elsewhere_replaces_its_source_too(course: Course) -> None:
    """In a folder of the course that --output names, and under another name, also where the source is named."""
    course.ingest(save_files=True, ingest=False, output=course.folder / "out")
    report = course.ingest()
    assert (report.failed, course.files()) == ([], ["out/leaves.pooled.md"])
    (course.folder / "out/leaves.pooled.md").rename(course.folder / "out/reviewed.md")
    for paths in ((), ("leaves.md",)):
        assert (course.ingest(*paths).failed, course.files()) == ([], ["out/reviewed.md"])


def test_headings_of_a_prepared_chapter_have_the_numbers_of_the_book(course: Course) -> None:
    """Though they are on other lines."""
    course.write("_quarto.yml", "project:\n  type: book\nbook:\n  chapters: [index.qmd, leaves.qmd]\n")
    course.write("index.qmd", "# Preface {.unnumbered}\n\nHello.\n")
    course.write("leaves.qmd", "<!-- a\n\nb -->\n\n# Leaves\n\nGreen.\n\n## Colour {#sec-colour}\n\nSee @sec-colour.\n")
    numbers = []
    for _ in range(2):
        assert not course.ingest().failed
        course.ingest("leaves.qmd", save_files=True, ingest=False)
        stored = [payload for payload, _ in course.contents()["documents"].values() if payload["what"] == "section"]
        numbers.append(sorted((payload["headings"], payload.get("numbers")) for payload in stored))
    assert numbers[0] == numbers[1]
    assert "leaves.pooled.md" in course.files()


def test_an_edited_file_that_is_ingested_is_made_again(course: Course) -> None:
    """The document changed: its prepared one is written anew, and what was edited of it is kept."""
    course.ingest(save_files=True)
    prepared = course.folder / "leaves.pooled.md"
    prepared.write_text(prepared.read_text().replace("are green", "are mostly green"))
    course.ingest()
    assert course.files() == ["leaves.pooled.md"]
    course.write("leaves.md", LEAVES + "\nNew.\n")
    assert course.ingest(save_files=True).errors == []
    assert "New." in prepared.read_text()
    assert "are mostly green" in (course.folder / "leaves.pooled.md.bak").read_text()
    course.ingest()
    assert course.files() == ["leaves.pooled.md"]
