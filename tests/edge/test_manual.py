"""`lmm help QUESTION`: newcomers find the right page of the manual, offline and at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from edge.support import run_here

from lmm_education.cli.help import manual_folder, search_manual

QUESTIONS = tomllib.loads((Path(__file__).parent.parent / "fixtures/manual/questions.toml").read_text("utf-8"))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One index for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def test_questions_of_newcomers_find_their_page() -> None:
    """Among the first three passages is one of a page that answers, for at least 36 of 40 questions."""
    pytest.importorskip("wordllama")
    for question, section in QUESTIONS["first"].items():
        assert search_manual(question).hits[0].place.headings[-1] == section
    missed = []
    for question, pages in QUESTIONS["questions"].items():
        assert all((manual_folder() / page).is_file() for page in pages), question
        found = [hit.place.file for hit in search_manual(question).hits]
        if not set(pages) & set(found):
            missed.append((question, found))
    assert len(QUESTIONS["questions"]) == 40
    assert len(missed) <= 4, missed


def test_page_and_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Offline, whatever is configured; the index is made once, and made again when a page has changed."""
    asked = ("help", "how", "do", "I", "undo", "an", "edit")
    assert run_here(capsys, *asked).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMM_MODEL_EMBEDDING", "OpenAI/text-embedding-3-small")
        ran = run_here(capsys, *asked)
    assert (ran.code, ran.err) == (0, "")
    at = ran.out.split()[2]
    page, lines = at.split(":")
    first, last = map(int, lines.split("-"))
    text = (manual_folder() / page).read_text("utf-8").splitlines()[first - 1 : last]
    assert "lmm undo" in " ".join(text)


def test_scores_are_in_the_order_of_the_pages_and_no_section_is_an_exercise(capsys: pytest.CaptureFixture[str]) -> None:
    """Though one is called Exercises."""
    for question in ("how do I write exercises with choices", "keep solutions from students", "what does it cost"):
        found = search_manual(question)
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        assert "[exercise]" not in run_here(capsys, "help", question).out


def test_a_question_about_something_else_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It says so, and the exit code is 1."""
    ran = run_here(capsys, "help", "how", "do", "I", "bake", "bread?")
    assert (ran.code, "1  0." in ran.out) == (1, False)


def test_a_changed_page_is_indexed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new version's pages replace those of the old one."""
    monkeypatch.setenv("LMM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("lmm_education.cli.help.manual_folder", lambda: tmp_path)
    (tmp_path / "old.md").write_text("# Zebras\n\nZebras have stripes.\n")
    assert search_manual("zebras").hits[0].place.file == "old.md"
    (tmp_path / "old.md").unlink()
    (tmp_path / "new.md").write_text("# Lions\n\nLions have manes, and zebras have none.\n")
    assert [hit.place.file for hit in search_manual("zebras").hits] == ["new.md"]


@pytest.mark.parametrize("words", [["undo"], ["store", "pull"], ["store pull"], ["mesages"]])
def test_commands_keep_their_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """`lmm help COMMAND` is about the command, also if it is misspelt, and not about the manual."""
    ran = run_here(capsys, "help", *words)
    assert ran.out.startswith(f"Usage: lmm {' '.join(words)}") or "did you mean 'messages'?" in ran.err


@pytest.mark.parametrize("words", [["import a PDF"], ["export notes"], ["export", "to", "Moodle"]])
def test_a_question_may_begin_with_a_command(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """Words that are no command as a whole are looked for in the manual, in quotes or not."""
    ran = run_here(capsys, "help", *words)
    assert (ran.code, ran.out[:3]) == (0, " 1 "), ran


def test_a_cache_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The error says what to do."""
    (tmp_path / "file").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMM_CACHE_DIR", str(tmp_path / "file"))
        ran = run_here(capsys, "help", "how do I undo")
    assert (ran.code, "let LMM_CACHE_DIR name a folder" in ran.err) == (1, True)
