"""`lmm demo` as a new user runs it."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from edge.support import Ran, run_here
from fakes.forked import forking


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a configuration of the user, which the demo must not use."""
    (tmp_path / "config.toml").write_text('[major]\nmodel = "OpenAI/gpt-5"\n')
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-be-used")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LMM_MODEL_MAJOR", "OpenAI/gpt-5")
    monkeypatch.setenv("LMM_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def demo(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """Run the demo here; its commands are processes of their own."""
    with forking():
        return run_here(capsys, "demo", *words)


def test_the_demo_is_one_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer, an edit that is accepted, an answer with its source, an agent's run."""
    result = demo(capsys, "--folder", "course")
    assert result.code == 0, result.out + result.err
    assert len(result.out.splitlines()) <= 48
    parts = re.split(r"^\d\. ", result.out, flags=re.MULTILINE)[1:]
    asked, edited, folder, agent = ([line for line in part.splitlines() if line.startswith("  ")] for part in parts)
    assert any("large residuals count heavily" in line for line in asked)
    assert any("{+" in line for line in edited)
    assert edited[-1] == "  01-linear-models.md: accepted 1 edit"
    (at,) = (line for line in folder if line.startswith("  [1] "))
    name, first, last = re.match(r"  \[1\] (.*?):(\d+)-(\d+) ", at).groups()  # type: ignore[union-attr]
    lines = (tmp_path / "course" / name).read_text().splitlines()[int(first) - 1 : int(last)]
    assert "A collider is" in " ".join(lines)
    assert [line[:3] for line in agent[1:5]] == ["  →", "  ←"] * 2
    assert not (tmp_path / "home").exists()


def test_the_demo_runs_offline_whatever_keys_are_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and configuration of the user are not used; every step of the tour happens; the lecture ends as it began."""
    result = demo(capsys, "--all", "--folder", "course")
    assert result.code == 0, result.out + result.err
    commands = re.findall(r"^\$ lmm (\w+)", result.out, re.MULTILINE)
    changes = ["messages", "messages", "messages", "clear", "messages", "reject"]
    course = ["annotate", "ingest", "ingest", "search", "ask", "plan"]
    assert commands == ["scan", *changes, *course, "agents", "run", "exercises"]
    assert len(re.findall(r"^  01-linear-models\.md: 1 reply", result.out, re.MULTILINE)) == 4
    assert "[Recorded/recorded-replies.json" in result.out
    assert result.out.count("[Builtin/extractive, ") == 3
    assert not (tmp_path / "home").exists()
    for lecture in ("01-linear-models.md", "02-inference.Rmd"):
        packaged = resources.files("lmm").joinpath("example/course", lecture).read_bytes()
        assert (tmp_path / "course" / lecture).read_bytes() == packaged
    assert re.search(r"03-generalized\.md: [12] of \d+ chunks embedded", result.out)
    assert "~summary_: " in (tmp_path / "course" / "03-generalized.md").read_text()
    agent = (tmp_path / "course" / "question-setter.chatmd").read_text()
    assert '<source from="01-linear-models.md:' in agent
    assert agent.endswith("<user>\n\n</user>\n")
    assert "type: exercise" in (tmp_path / "course" / "exercises.md").read_text()


def test_the_demo_does_not_write_into_a_folder_that_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder with files in it is refused."""
    result = demo(capsys, "--folder", ".")
    assert (result.code, result.err) == (1, "lmm: .: this folder is not empty (choose a new folder)\n")
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]
