"""`lmm init` at a terminal: which model, is its key there, does it answer, and what to type next."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from edge.support import run_here
from fakes.openai_server import ScriptedServer, fail

from lmm import terminal
from lmm.config_files import template

HEAD = "# lmm init --all writes every setting, explained.\n[major]\n"


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Somebody sits at the terminal, and types this."""
    monkeypatch.setattr(terminal, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_model_that_answers(
    folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name is asked for again; one token is asked for after a yes, and three lines are written."""
    (folder / "config.toml").unlink()  # the fixture's
    server.queue("Hi")
    answer(monkeypatch, "gpt-4", "openaicompatible/test", server.url, "yes")
    ran = run_here(capsys, "init")
    assert (ran.code, (folder / "config.toml").read_text()) == (
        0,
        f'{HEAD}model = "OpenAICompatible/test"\nbase_url = "{server.url}"\n',
    )
    assert "'gpt-4' is not a model name" in ran.err
    assert "OpenAICompatible/test answers" in ran.err
    assert ran.out.endswith("next: lmm messages notes.md\n")
    assert [request.body["max_tokens"] for request in server.requests] == [1]


def test_a_model_that_does_not_answer(
    folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another can be named; an empty line keeps it: its server may be started later."""
    (folder / "config.toml").unlink()
    server.pages["/v1/models"] = {"data": [{"id": "tiny"}]}
    server.queue(fail(401))
    answer(monkeypatch, server.url, "", "yes", "", "")
    ran = run_here(capsys, "init")
    assert (ran.code, len(server.requests)) == (0, 1)
    assert "HTTP 401" in ran.err
    assert "tiny answers" not in ran.err
    written = f'{HEAD}model = "OpenAICompatible/tiny"\nbase_url = "{server.url}"\n'
    assert (folder / "config.toml").read_text() == written


def test_a_key_that_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to export is the next step, and nothing is asked of the model."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    answer(monkeypatch, "OpenAI/gpt-4.1-mini")
    ran = run_here(capsys, "init")
    assert ran.out.endswith("next: export OPENAI_API_KEY=…; lmm messages notes.md\n")
    assert (folder / "config.toml").read_text() == f'{HEAD}model = "OpenAI/gpt-4.1-mini"\n'


@pytest.mark.parametrize("words", [("--all",), ("--yes",), ()])
def test_every_setting(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a flag, and without a terminal."""
    if words:
        answer(monkeypatch)
    assert run_here(capsys, "init", *words).code == 0
    assert (folder / "config.toml").read_text() == template()


def test_from_a_configuration_of_lm_markdown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has another name here gets it; what has no place is a comment with the reason. The result is in effect."""
    old = '[textSplitter]\nthreshold = 125\n[major]\nmodel = "Ollama/x"\ntimeout = "none"\n[database]\nx = 1\n'
    (folder / "old.toml").write_text(
        f'comment = "Trees"\nhistory_integration = "summary"\n{old}[RAG.annotation_model]\nfilters = []\n'
    )
    ran = run_here(capsys, "init", "--from", "old.toml")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "next: lmm status")
    assert (folder / "config.toml").read_text() == (
        "# from old.toml\n"
        '# comment = "Trees": [serve] texts, comment\n'
        "# [textSplitter] threshold = 125: not needed: lm-markdown never used it; "
        "[text_splitter] max_size limits a chunk\n"
        "# [major] timeout = \"none\": 'timeout' in [major] must be a number, not 'none'\n"
        "# [database] x = 1: not known here\n"
        "# [RAG.annotation_model] filters = []: not needed: lmm search --where filters by any property\n"
        '\n[answer]\nhistory = "summary"\n\n[major]\nmodel = "Ollama/x"\n'
    )
    assert "Ollama/x" in run_here(capsys, "status").out
    (folder / "config.toml").unlink(missing_ok=True)
    (folder / "old.toml").write_text("x = ")
    assert "old.toml:1: this is not TOML" in run_here(capsys, "init", "--from", "old.toml").err
