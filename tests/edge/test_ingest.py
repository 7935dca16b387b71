"""`lmm ingest` as it is typed: real files, the built-in embedding model, real processes, kill -9."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.kills import contents, kill_ingest, write_lectures
from edge.support import MANY, PATIENCE, finish, run_here, start, wait_until
from edge.test_watch import Watching
from memory import temporary_folder

from lmm.cli.main import main
from lmm_education.encode.encoder import Encoder

LECTURE = "# Leaves\n\nLeaves are green.\n\n# Why\n\nChlorophyll absorbs red and blue light.\n"


@pytest.fixture(autouse=True)
def course(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: a course with two lectures."""
    with temporary_folder() as folder:
        monkeypatch.chdir(folder)
        (folder / "leaves.md").write_text(LECTURE)
        (folder / "notes").mkdir()
        (folder / "notes" / "tax.Rmd").write_text("# Tax\n\nTax law is long.\n")
        yield folder


# -- what is typed and printed ---------------------------------------------------------------------


def test_the_first_time_and_the_second(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for what changed, one at the end, and which model embeds; the second time only how many there are."""
    ran = run_here(capsys, "ingest", ".")
    assert (ran.code, ran.err.startswith("Search uses Builtin/wordllama. Another model: ")) == (0, True)
    assert ran.out.splitlines()[:2] == [
        "leaves.md: new, 2 of 2 chunks embedded",
        "notes/tax.Rmd: new, 1 of 1 chunk embedded",
    ]
    assert ran.out.splitlines()[2].startswith("2 documents: 2 new; 3 of 3 chunks embedded (")
    ran = run_here(capsys, "ingest", "leaves.md", "notes")
    assert ran.out.startswith("2 documents: 2 unchanged (")


@pytest.mark.parametrize(
    ("chapter", "included", "files"),
    [
        ("a.qmd", "_x.qmd", {"a.qmd": "# A\n\n{{< include _x.qmd >}}\n", "_quarto.yml": "book: {chapters: [a.qmd]}\n"}),
        ("a.Rmd", "_x.Rmd", {"a.Rmd": "# A\n\n```{r, child='_x.Rmd'}\n```\n", "_bookdown.yml": "rmd_files: [a.Rmd]\n"}),
        (
            "a.md",
            "x.txt",
            {
                "a.md": "# A\n\n```text\n{{#include x.txt}}\n```\n",
                "SUMMARY.md": "# Summary\n\n- [A](a.md)\n- [B](b.md)\n",
                "b.md": "# B\n",
            },
        ),
    ],
)
def test_a_change_in_an_included_file_reaches_the_chapter(
    capsys: pytest.CaptureFixture[str], course: Path, chapter: str, included: str, files: dict[str, str]
) -> None:
    """It is read anew, although not a letter of its own has changed; and only then."""
    book = course / "book"
    book.mkdir()
    for name, text in {**files, included: "Stomata close.\n"}.items():
        (book / name).write_text(text)
    run_here(capsys, "ingest", "book")
    assert " close." in run_here(capsys, "search", "Stomata", "--full").out
    assert "embedded" not in run_here(capsys, "ingest", "book").out
    (book / included).write_text("Stomata open.\n")
    assert f"book/{chapter}: 1 of 1 chunk embedded" in run_here(capsys, "ingest", "book").out
    assert " open." in run_here(capsys, "search", "Stomata", "--full").out


def test_a_dry_run(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """It says what would be, and makes nothing."""
    ran = run_here(capsys, "ingest", "--dry-run", ".")
    assert "leaves.md: new, 2 of 2 chunks to embed\n" in ran.out
    assert "3 of 3 chunks would be embedded" in ran.out
    assert not (course / ".lmm").exists()


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object on standard output, errors also on standard error."""
    ran = run_here(capsys, "ingest", "--json", ".", "missing.md")
    report = json.loads(ran.out)
    assert ran.code == 2
    assert [document["embedded"] for document in report["documents"]] == [2, 1]
    assert report["errors"] == ["missing.md: there is no such file or folder (check the path)"]
    assert ran.err.startswith("lmm: missing.md: ")


def test_a_bad_file_is_reported_and_the_exit_code_is_1(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """The others are in the store."""
    (course / "bad.md").write_bytes(b"\xff\xfe")
    ran = run_here(capsys, "ingest", ".")
    assert ran.code == 1
    assert ran.err.startswith("lmm: bad.md:1:1: byte 0xff is not UTF-8 (convert it")
    assert "3 documents: 2 new, 1 failed" in ran.out
    assert len(contents(course)["chunks"]) == 3


def test_what_is_gone_and_what_was_renamed(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """Each is told, with the flag that does something about it."""
    run_here(capsys, "ingest", ".")
    (course / "leaves.md").rename(course / "leaf.md")
    (course / "notes" / "tax.Rmd").unlink()
    ran = run_here(capsys, "ingest", ".")
    assert "leaf.md: new, 2 of 2 chunks embedded\n" in ran.out
    assert "leaves.md: gone, and still stored\nnotes/tax.Rmd: gone, and still stored\n(--prune removes" in ran.out
    ran = run_here(capsys, "ingest", ".", "--prune")
    assert (ran.code, ran.err) == (0, "")
    assert "leaves.md: gone; removed from the store\nnotes/tax.Rmd: gone; removed from the store\n" in ran.out


@pytest.mark.parametrize("gone", ["leaves.md", "notes"])
def test_a_path_that_is_gone_can_be_pruned(capsys: pytest.CaptureFixture[str], course: Path, gone: str) -> None:
    """A file, or a folder with all that lay in it; without --prune it is an error."""
    run_here(capsys, "ingest", ".")
    (course / "leaves.md").unlink()
    shutil.rmtree(course / "notes")
    ran = run_here(capsys, "ingest", gone)
    assert (ran.code, f"{gone}: there is no such file" in ran.err) == (2, True)
    ran = run_here(capsys, "ingest", "--prune", gone)
    assert (ran.code, ran.err) == (0, "")
    assert "gone; removed from the store\n" in ran.out
    assert len(contents(course)["chunks"]) == (1 if gone == "leaves.md" else 2)
    assert run_here(capsys, "ingest", "--prune", "nothing").code == 2


@pytest.mark.parametrize("marked", ["config", "store"])
def test_a_folder_in_a_course_is_the_courses(
    capsys: pytest.CaptureFixture[str], course: Path, monkeypatch: pytest.MonkeyPatch, marked: str
) -> None:
    """Its configuration and its store are found from there; nothing above a repository is."""
    if marked == "config":
        (course / "config.toml").write_text("")
    run_here(capsys, "ingest", "leaves.md")
    monkeypatch.chdir(course / "notes")
    ingested = run_here(capsys, "ingest", ".")
    assert "tax.Rmd: new" in ingested.out
    assert f"with the course in {course}" in ingested.err
    assert "leaves.md" in run_here(capsys, "search", "chlorophyll").out
    assert "notes/tax.Rmd" in run_here(capsys, "store", "status").out
    assert not (course / "notes" / ".lmm").exists()
    (course / "notes" / ".git").mkdir()
    assert "nothing has been ingested yet" in run_here(capsys, "store", "status").out
    (course / "notes/.lmm/store/botany").mkdir(parents=True)
    (course / "notes/.lmm/store/botany/current").touch()
    for command in (("store", "status"), ("search", "leaves")):
        assert "there are stores of other courses: botany (choose one with --course)" in str(run_here(capsys, *command))
    assert "'course' is new; there are stores of other courses: botany" in run_here(capsys, "ingest", ".").err


def test_what_is_not_understood_is_told_with_its_place(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """The document is ingested; a file that is no text is refused."""
    (course / "notes" / "title.md").write_text("---\ntitle: [unclosed\n---\nText.\n")
    (course / "notes" / "lang.md").write_text("---\nlang: xx-klingon\ndocid: [a, b]\n---\nText.\n")
    ran = run_here(capsys, "ingest", "notes")
    assert ran.code == 0
    for said in (
        "title.md:2: this looks like metadata, but is text: ",
        "lang.md:1: 'docid' is",
        "lang.md:1: 'lang: xx-klingon'",
    ):
        assert f"notes/{said}" in ran.err
    (course / "notes" / "zeros.md").write_bytes(b"\0" * 100)
    ran = run_here(capsys, "ingest", "notes")
    assert (ran.code, "notes/zeros.md: this is not text" in ran.err) == (1, True)


def test_documents_that_the_embedding_model_does_not_understand(
    capsys: pytest.CaptureFixture[str], course: Path
) -> None:
    """Told once for all of them."""
    for name in "ab":
        (course / "notes" / f"{name}.md").write_text("---\nlang: de\n---\nBlätter sind grün.\n")
    assert run_here(capsys, "ingest", "notes").err.count("supports English only, and there are documents in de;") == 1
    assert run_here(capsys, "ingest", "leaves.md").err == ""


def test_ctrl_c_while_the_command_is_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was begun: no words, and no traceback."""

    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lmm.cli.main.importlib.import_module", interrupted)
    assert main(["ingest", "."]) == 130
    assert capsys.readouterr().err == ""


def test_quiet_and_nothing_to_ingest(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """A line at the end; where there is nothing, what was looked for."""
    ran = run_here(capsys, "ingest", "--quiet", ".")
    assert ran.out.startswith("2 documents: 2 new")
    (course / "empty").mkdir()
    assert "there is nothing to ingest here" in run_here(capsys, "ingest", "empty").err
    (course / "empty/week 1").mkdir()
    (course / "empty/week 1/a.docx").touch()
    told = run_here(capsys, "ingest", "empty").err
    assert told.endswith(".markdown; lmm import turns others into documents: 'empty/week 1/a.docx'\n")


def test_scan_of_a_folder_leaves_prepared_files(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """They are results of ingest; one that is named is scanned."""
    run_here(capsys, "ingest", "--save-files", "--no-ingest", ".")
    made = {path: path.read_bytes() for path in course.rglob("*.*.md")}
    rendered = "note: left out 1 rendered file, made from .Rmd or .qmd beside it\n"
    (course / "knitted.Rmd").write_text("Text.\n")
    (course / "knitted.md").write_text("Text.\n")
    ran = run_here(capsys, "scan", ".")
    assert (ran.code, {path: path.read_bytes() for path in made}) == (0, made)
    assert ran.err == f"{rendered}note: left out {len(made)} prepared files of lmm ingest; to use one, name it\n"
    assert (course / "knitted.md").read_text() == "Text.\n"
    assert "docid" in (course / "knitted.Rmd").read_text()
    assert f"/{sorted(made)[0].name}:" in f"/{run_here(capsys, 'scan', '--check', sorted(made)[0].name).out}"


def test_each_of_several_types_is_found(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """By every one of them."""
    (course / "ex.md").write_text("# Sums\n\n---\ntype: [exercise, exam]\n---\nAdd two numbers.\n")
    run_here(capsys, "ingest", ".")
    for name in ("exercise", "exam"):
        assert "Add two" in run_here(capsys, "search", "--type", name, "numbers").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-ingest", "--prune"], "--no-ingest changes no store"),
        (["--watch", "--dry-run"], "--watch cannot be combined"),
        (["--config", "nowhere.toml"], "there is no such configuration file"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    """The exit code is 2."""
    ran = run_here(capsys, "ingest", ".", *words)
    assert ran.code == 2
    assert said in ran.err


def test_other_settings_are_refused_with_what_to_do(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """And --again does it."""
    run_here(capsys, "ingest", ".")
    (course / "config.toml").write_text('[RAG]\nencoding_model = "content"\n')
    (course / "leaves.md").write_text(LECTURE + "\nMore.\n")
    ran = run_here(capsys, "ingest", ".")
    assert ran.code == 1
    assert "made with other settings ([RAG] encoding_model was hybrid, is content" in ran.err
    assert "--again" in ran.err
    assert run_here(capsys, "ingest", "leaves.md", "--again").code == 0
    assert {tuple(vectors) for _, vectors in contents(course)["chunks"].values()} == {("dense",)}


def test_several_courses(capsys: pytest.CaptureFixture[str], course: Path) -> None:
    """Each has a store of its own."""
    run_here(capsys, "ingest", "leaves.md", "--course", "botany")
    run_here(capsys, "ingest", "notes", "--course", "law")
    assert sorted(path.name for path in (course / ".lmm" / "store").iterdir()) == ["botany", "law"]


def test_help_is_fast_and_imports_nothing_heavy() -> None:
    """The modules that do the work are imported when they work."""
    code = (
        "import sys; from lmm.cli.main import main; main(['ingest', '--help']);"
        "bad = {'numpy', 'qdrant_edge', 'yaml', 'lmm_education.ingestion.ingest'} & set(sys.modules);"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_importing_the_package_does_nothing(course: Path) -> None:
    """No heavy library, no file read of the course, none written."""
    before = sorted(course.rglob("*"))
    code = (
        "import sys, lmm_education; dir(lmm_education);"
        "bad = {'numpy', 'qdrant_edge', 'yaml', 'wordllama', 'pathlib'} & set(sys.modules);"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    assert sorted(course.rglob("*")) == before


def test_a_seeds_line_works_as_it_stands(course: Path) -> None:
    """`ingest("MyMarkdown.md", save_files=True, ingest=False)`: files, and no store."""
    (course / "leaves.md").rename(course / "MyMarkdown.md")
    code = 'from lmm_education import ingest\n\ningest("MyMarkdown.md", save_files=True, ingest=False)\n'
    subprocess.run([sys.executable, "-c", code], check=True)
    names = sorted(path.name for path in course.glob("MyMarkdown*"))
    assert names == ["MyMarkdown.chunks.md", "MyMarkdown.documents.md", "MyMarkdown.md", "MyMarkdown.pooled.md"]
    assert not (course / ".lmm").exists()


# -- watching --------------------------------------------------------------------------------------


def test_watching(course: Path) -> None:
    """Every save is ingested; what is gone is told; Ctrl-C ends it cleanly."""
    process = start("ingest", "--watch", ".")
    watch = Watching(process)
    try:
        watch.says("2 documents: 2 new")
        (course / "leaves.md").write_text(LECTURE + "\nTyped while it was watched.\n")
        watch.says("leaves.md: 1 of 2 chunks embedded, 1 removed")
        (course / "notes" / "new.md").write_text("A new lecture.\n")
        watch.says("notes/new.md: new, 1 of 1 chunk embedded")
        (course / "bad.md").write_bytes(b"\xff")
        watch.says("bad.md:1:1: byte 0xff is not UTF-8")
        (course / "bad.md").unlink()
        (course / "notes" / "new.md").unlink()
        watch.says("notes/new.md: gone, and still stored")
        busy = _seconds(process)
        time.sleep(1.0)
        assert _seconds(process) - busy < 0.3
        ran = watch.stop()
        assert (ran.code, "Traceback" in ran.err) == (0, False)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()
    assert "Typed while" in repr(contents(course)["chunks"])


def _seconds(process: subprocess.Popen[bytes]) -> float:
    """The processor's time that a process has taken, where the system tells."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_leaves_the_store_as_it_was(course: Path) -> None:
    """And says what to do."""
    write_lectures(course, "old")
    process = start("ingest", ".")
    wait_until((course / ".lmm" / "store" / "course" / "writing.lock").exists)
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert (ran.code, "Traceback" in ran.err) == (130, False)
    assert "interrupted; run it again" in ran.err
    assert contents(course)["chunks"] == {}


def test_a_store_from_before_sentences_had_vectors(
    course: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is not called unchanged: the hint that search gives is given here too."""
    assert run_here(capsys, "ingest", "notes").code == 0
    monkeypatch.setattr(Encoder, "reads_sentences", property(lambda encoder: True))
    ran = run_here(capsys, "ingest", "notes")
    assert (ran.code, "sentences have vectors" in ran.err, "ingest --again" in ran.err) == (1, True, True), ran
    assert run_here(capsys, "ingest", "--again", "notes").code == 0


# -- killed ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_the_old_store_or_the_new_one(course: Path) -> None:
    """At any moment; what comes next finishes the work, whatever was left behind."""
    shutil.rmtree(course / "notes")
    assert kill_ingest(course, 8 * MANY, seed=20)["old"]  # whether some were killed after their end is the machine's


def test_two_runs_at_once_wait_for_each_other(course: Path) -> None:
    """Both finish, and the store has what both have ingested."""
    one, two = start("ingest", "leaves.md"), start("ingest", "notes")
    assert (finish(one).code, finish(two).code) == (0, 0)
    wait_until(lambda: len(contents(course)["chunks"]) == 3, timeout=PATIENCE)


def test_similar_lines_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a book in which the same is missing everywhere, three examples; errors and `--verbose` show every line."""
    chapter = "# Part {0}\n\n[Next](ch{1}.html), [std](../std/{0}.html).\n\n```rust\n{{{{#include ../{0}.rs}}}}\n```\n"
    book = tmp_path / "book"
    book.mkdir()
    monkeypatch.chdir(book)
    (book / "SUMMARY.md").write_text("".join(f"- [Part {n}](ch{n}.md)\n" for n in range(1, 7)))
    for n in range(1, 7):
        (book / f"ch{n}.md").write_text(chapter.format(n, n % 6 + 1))
    for words, said in (
        (("scan", "."), "files not included: "),
        (("ingest", "."), "files not included: "),
        (("export", ".", "-o", "../out"), "there is no file "),
    ):
        few, all_ = run_here(capsys, *words), run_here(capsys, *words, "--verbose")
        few_lines = [line for line in (few.out + few.err).splitlines() if said in line]
        assert [line.startswith("… and 3 more (--verbose shows them): ") for line in few_lines] == [False] * 3 + [
            True
        ], words
        if words[0] != "ingest":  # the second time, nothing is new
            assert (all_.out + all_.err).count(said) == 6
        assert "there is no file ch" not in few.err
        assert not [line for line in (few.out + few.err).splitlines() if line.startswith("…") and "6.rs" in line]


def test_each_document_has_its_line_up_to_twenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 22 documents, 20 are listed, and no figure of a single one stands for the rest."""
    book = tmp_path / "book"
    book.mkdir()
    monkeypatch.chdir(book)
    for n in range(22):
        (book / f"c{n:02}.md").write_text(f"# Part {n}\n\nText.\n")
    for words, noun in ((("ingest", "."), "documents"), (("export", ".", "-o", "../out"), "files")):
        lines = run_here(capsys, *words).out.splitlines()
        assert sum(".md: " in line for line in lines) == 20, lines
        assert f"… and 2 more {noun} (--verbose shows them)" in lines
