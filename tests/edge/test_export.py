"""`lmm export` on files and folders: what is written, what is copied, what is never written over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from edge.support import lmm, run_here

from lmm_education.ingestion.source_files import find_sources
from lmm_education.study import ExportOptions, export_notes

LECTURE = "---\ntitle: T\ndocid: t\n---\n# A\n\n---\ntype: exercise\n---\nWhy?\n\nText. ![x](fig/x%20y.png)\n"
NOTES = "---\ntitle: T\n---\n# A\n\nText. ![x](fig/x%20y.png)\n"
EDITED = "One.\n\n---\n~edit_:\n  edit: x\n  ~~id: 3f2a91\n---\n###### old text\n\nOld.\n\n<!-- lmm:new 3f2a91 -->\n" \
         "###### new text\n\nNew.\n\n<!-- lmm:end 3f2a91 -->\n"  # fmt: skip
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def notes(folder: Path) -> Path:
    """A folder of notes, with what lies in such folders."""
    files = {
        "notes/a.md": LECTURE,
        "notes/part/b.Rmd": "# B\n\n[a](../a.md) [d](../data.csv) [away](../../away.csv) [gone](gone.csv)\n",
        "notes/part/b.md": "# B, knitted\n",
        "notes/sheet.md": "---\ntype: exercise\n---\n# Sheet\n\nWhy?\n",
        "notes/agent.md": '<config model="x"/>\n<user>Hello</user>\n',
        "notes/fig/x y.png": "PNG",
        "notes/data.csv": "1,2\n",
        "notes/secret.csv": "3,4\n",
        "notes/.hidden/c.md": "# C\n",
        "away.csv": "5,6\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "notes"


def test_a_file_goes_into_a_folder(notes: Path, capsys: Capture) -> None:
    """The slash says that it is one, whether it is there or not; the second time nothing is written."""
    for told in ("written", "unchanged"):
        ran = run_here(capsys, "export", "notes/a.md", "-o", "new/site/")
        assert (ran.code, ran.out) == (0, f"new/site/a.md: {told}, without 1 exercise\n")
    assert tree(Path("new")) == {"site/a.md": NOTES}
    assert run_here(capsys, "export", "notes/a.md", "-o", "new/site/a.md/").code == 1


def tree(folder: Path) -> dict[str, str]:
    """The files in a folder, and what is in them."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lmm-export"]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_what_was_exported_is_no_document(notes: Path, capsys: Capture) -> None:
    """Whoever walks the folder passes it over, other exports too; not who names its folder, nor what was changed."""
    for output in ("notes/out", "site"):
        assert run_here(capsys, "export", "notes", "-o", output).code == 0
    run_here(capsys, "export", "notes/a.md", "-o", "single/")
    assert run_here(capsys, "export", ".", "-o", "all").out.splitlines()[-1] == "2 documents: 2 written, 3 left out"
    found = [source.file for source in find_sources(["."], Path.cwd()).documents]
    assert found == ["notes/a.md", "notes/agent.md", "notes/part/b.Rmd", "notes/sheet.md"]
    assert [source.file for source in find_sources(["site"], Path.cwd()).documents] == ["site/a.md", "site/part/b.Rmd"]
    assert run_here(capsys, "export", "notes/a.md", "-o", "notes/.a.md").code == 0
    assert not Path("notes/.lmm-export").exists()
    for _ in range(2):  # beside its source it is none for who names their folder either
        assert run_here(capsys, "export", "notes/a.md", "-o", "notes/handout.md").code == 0
        for named in (".", "notes"):
            found = [source.path.name for source in find_sources([named], Path.cwd()).documents]
            assert found == ["a.md", "agent.md", "b.Rmd", "sheet.md"]
    Path("site/a.md").write_text(NOTES + "\nMine.\n")
    assert "site/a.md" in [source.file for source in find_sources(["."], Path.cwd()).documents]


def test_a_folder_is_mirrored(notes: Path, capsys: Capture) -> None:
    """Its documents, and the files in it that they show; everything else is told of or stays where it is."""
    before = tree(notes)
    ran = run_here(capsys, "export", "notes", "-o", "site")
    assert ran.code == 0, ran.err
    assert tree(Path("site")) == {
        "a.md": NOTES, "part/b.Rmd": before["part/b.Rmd"], "fig/x y.png": "PNG", "data.csv": "1,2\n"
    }  # fmt: skip
    assert ran.out.splitlines()[0] == "site/a.md: written, without 1 exercise"
    assert ran.out.splitlines()[-1] == "2 documents: 2 written, 3 left out"
    for told in (
        "notes/part/b.md: left out: made from b.Rmd",
        "notes/sheet.md: left out: the whole document is special material (exercise)",
        "notes/agent.md: left out: a prompt or transcript of an agent",
        "site/part/b.Rmd:3: ../../away.csv is outside notes and was not copied",
        "site/part/b.Rmd:3: there is no file gone.csv",
    ):
        assert told in ran.err
    assert tree(notes) == before


def test_the_files_of_a_project_come_along(notes: Path, capsys: Capture) -> None:
    """With the bibliography and the like that they name; what lies elsewhere does not."""
    book = "project: {type: book}\nbook: {chapters: [a.md]}\nbibliography: [refs.bib, ../away.csv]\n"
    book += "format: {html: {theme: [cosmo, fig/book.scss]}}\n"
    for name, text in (("_quarto.yml", book), ("refs.bib", "@a{}"), ("fig/book.scss", "a"), ("_quarto-draft.yml", "")):
        (notes / name).write_text(text)
    (notes / "part/_bookdown.yml").write_text("rmd_files: [b.Rmd\n")
    assert run_here(capsys, "export", "notes", "-o", "site").code == 0
    copied = tree(Path("site"))
    assert copied["_quarto.yml"] == book
    assert {"refs.bib", "fig/book.scss"} <= copied.keys()
    assert not {"_quarto-draft.yml", "away.csv"} & copied.keys()


def test_exercises_are_counted_not_their_texts(folder: Path, capsys: Capture) -> None:
    """Nor the lines of their fences; a second export, with one kept, is the same."""
    text = "# A\n\n::: {.exercise}\nWhy?\n\n- when\n:::\n\n---\ntype: solution\n---\nSo.\n\nAnd so.\n\n# B\n\nText.\n"
    (folder / "a.qmd").write_text(text)
    assert run_here(capsys, "export", "a.qmd", "-o", "b.qmd").out == "b.qmd: written, without 1 exercise, 1 solution\n"
    for told in ("written", "unchanged"):
        ran = run_here(capsys, "export", "a.qmd", "-o", "c.qmd", "--keep", "exercise")
        assert ran.out == f"c.qmd: {told}, without 1 solution\n"


def test_what_is_the_same_is_not_touched(notes: Path, capsys: Capture) -> None:
    """So that nothing is rendered again in vain."""
    run_here(capsys, "export", "notes", "-o", "site")
    stamps = {path: path.stat().st_mtime_ns for path in Path("site").rglob("*.*")}
    ran = run_here(capsys, "export", "notes", "-o", "site")
    assert ran.out.splitlines()[-1] == "2 documents: 0 written, 3 left out"
    assert {path: path.stat().st_mtime_ns for path in Path("site").rglob("*.*")} == stamps


def test_the_notes_may_lie_in_the_folder_itself(notes: Path, capsys: Capture) -> None:
    """They are not exported again."""
    for _ in range(2):
        ran = run_here(capsys, "export", "notes", "-o", "notes/site")
        assert ran.code == 0
    assert sorted(tree(notes / "site")) == ["a.md", "data.csv", "fig/x y.png", "part/b.Rmd"]


def test_one_that_cannot_be_exported_does_not_stop_the_others(notes: Path, capsys: Capture) -> None:
    """Exit 1, with the place."""
    (notes / "a.md").write_text(EDITED)
    ran = run_here(capsys, "export", "notes", "-o", "site")
    assert ran.code == 1
    assert f"lmm: {Path('notes/a.md')}:3: an edit is pending here" in ran.err
    assert Path("site/part/b.Rmd").exists()
    assert run_here(capsys, "export", "notes", "-o", "site", "--edits", "old").code == 0
    assert Path("site/a.md").read_text() == "One.\n\nOld.\n\n"


def test_a_file_goes_to_the_terminal_byte_for_byte(folder: Path) -> None:
    """Windows line ends too."""
    (folder / "a.md").write_bytes(LECTURE.replace("\n", "\r\n").encode())
    ran = lmm("export", "a.md")
    assert ran.out == NOTES.replace("\n", "\r\n")
    assert (folder / "a.md").read_bytes() == LECTURE.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("target", ["notes/a.md", "notes/../notes/a.md", "link.md", "notes"])
def test_the_source_is_never_written_over(notes: Path, capsys: Capture, target: str) -> None:
    """Whatever way it is named."""
    Path("link.md").symlink_to(notes / "a.md")
    ran = run_here(capsys, "export", "notes/a.md", "-o", target)
    assert ran.code == 1
    assert "this is the source itself" in ran.err
    assert (notes / "a.md").read_text() == LECTURE


@pytest.mark.parametrize(
    "other", [LECTURE, EDITED, "# Other\n\nA plain text\n\nof somebody.\n", "a: b\n\n---\ntype: b: c\n---\n"]
)
def test_other_documents_are_never_written_over(notes: Path, capsys: Capture, other: str) -> None:
    """What an export cannot have made is somebody's work."""
    Path("b.md").write_text(other)
    ran = run_here(capsys, "export", "notes/a.md", "-o", "b.md")
    assert ran.code == 1
    assert Path("b.md").read_text() == other
    assert "export" in ran.err
    if "docid" in other:
        Path("site").mkdir()
        Path("site/a.md").write_text(other)
        assert run_here(capsys, "export", "notes", "-o", "site").code == 1
        assert Path("site/a.md").read_text() == other


def test_an_earlier_export_is_replaced(notes: Path, capsys: Capture) -> None:
    """Under another name than the source's too."""
    run_here(capsys, "export", "notes/a.md", "-o", "b.md")
    (notes / "a.md").write_text(LECTURE.replace("Text.", "More text."))
    ran = run_here(capsys, "export", "notes/a.md", "-o", "b.md")
    assert ran.code == 0
    assert "More text." in Path("b.md").read_text()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["notes"], 2, "give an output folder"),
        (["notes", "-o", "notes"], 2, "notes cannot be exported into the folder of their sources"),
        (["notes", "-o", "away.csv"], 2, "this is a file, but you export a folder"),
        (["none.md"], 2, "there is no such file"),
        (["away.csv", "-o", "x.md"], 1, "this is not a markdown file"),
        (["notes/a.md", "-o", "none/x.md"], 1, "there is no such folder"),
        (["notes/sheet.md"], 1, "the whole document is special material (exercise) (--keep exercise"),
    ],
)
def test_what_cannot_be_done_is_told(notes: Path, capsys: Capture, words: list[str], code: int, told: str) -> None:
    """With the next step."""
    ran = run_here(capsys, "export", *words)
    assert ran.code == code
    assert told in ran.err


def test_settings_and_options(notes: Path, capsys: Capture) -> None:
    """[study] beside the document says what stays; options add to it."""
    (notes / "config.toml").write_text('[study]\nkeep = ["exercise"]\nedits = "new"\n')
    assert "Why?" in run_here(capsys, "export", "notes/a.md").out
    (notes / "e.md").write_text(EDITED)
    assert run_here(capsys, "export", "notes/e.md").out == "One.\n\nNew.\n\n"
    assert run_here(capsys, "export", "notes/e.md", "--edits", "old").out == "One.\n\nOld.\n\n"
    (notes / "e.md").write_text(EDITED.replace("Old.", "Old @fox."))
    refused = run_here(capsys, "export", "notes/e.md").err
    assert "accepting the edit at line 3 would lose text" in refused
    assert "or export with --edits old)" in refused
    (notes / "config.toml").write_text('[study]\nkeep = "exercise"\n')
    assert "must be a list" in run_here(capsys, "export", "notes/a.md").err


def test_json(notes: Path, capsys: Capture) -> None:
    """All of the report."""
    values = json.loads(run_here(capsys, "export", "notes", "-o", "site", "--json").out)
    assert values["documents"][0]["left_out"] == [{"type": "exercise", "line": 10}]
    assert len(values["skipped"]) == 3
    assert len(values["notices"]) == 2


def test_a_single_file_tells_which_files_it_needs(notes: Path) -> None:
    """Beside it they are not."""
    Path("site").mkdir()
    report = export_notes("notes/a.md", "site", ExportOptions(keep=("exercise",)))
    assert report.documents[0].target == Path("site/a.md")
    assert report.notices == ["site/a.md: needs fig/x y.png beside it (exporting the folder copies such files)"]
