"""`lmm demo` as a new user runs it."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from fakes.forked import run_python


@pytest.mark.timeout(60)
def test_the_demo_runs_offline_whatever_keys_are_set(tmp_path: Path) -> None:
    """Keys and configuration of the user are not used; every step happens; the course ends as it began."""
    (tmp_path / "config.toml").write_text('[major]\nmodel = "OpenAI/gpt-5"\n')
    environment = {
        "PATH": "/usr/bin:/bin",
        "OPENAI_API_KEY": "sk-must-not-be-used",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "LMM_MODEL_MAJOR": "OpenAI/gpt-5",
        "LMM_CONFIG": str(tmp_path / "config.toml"),
        "HOME": str(tmp_path / "home"),
    }
    result = run_python("-m", "lmm", "demo", "--folder", "course", cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    commands = re.findall(r"^\$ lmm (\w+)", result.stdout, re.MULTILINE)
    changes = ["messages", "messages", "messages", "clear", "messages", "reject"]
    course = ["annotate", "ingest", "ingest", "search", "ask", "plan"]
    assert commands == ["scan", *changes, *course, "agents", "run", "exercises"]
    assert len(re.findall(r"^01-linear-models\.md: 1 reply", result.stdout, re.MULTILINE)) == 4
    assert "+  ~~model: Recorded/recorded-replies.json" in result.stdout
    assert result.stdout.count("+    ~~model: Builtin/extractive") == 2  # of the third, a long one, the beginning
    assert "identical to the original" in result.stdout
    assert not (tmp_path / "home").exists()
    for lecture in ("01-linear-models.md", "02-inference.Rmd"):
        packaged = resources.files("lmm").joinpath("example/course", lecture).read_bytes()
        assert (tmp_path / "course" / lecture).read_bytes() == packaged
    assert re.search(r"03-generalized\.md: [12] of \d+ chunks embedded", result.stdout)
    assert "~summary_: " in (tmp_path / "course" / "03-generalized.md").read_text()
    agent = (tmp_path / "course" / "question-setter.chatmd").read_text()
    assert '<source from="01-linear-models.md:' in agent
    assert agent.endswith("<user>\n\n</user>\n")
    assert "type: exercise" in (tmp_path / "course" / "exercises.md").read_text()


def test_the_demo_does_not_write_into_a_folder_that_is_in_use(tmp_path: Path) -> None:
    """A folder with files in it is refused."""
    (tmp_path / "mine.md").write_text("x")
    result = run_python("-m", "lmm", "demo", "--folder", ".", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "lmm: .: this folder is not empty (choose a new folder)\n"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.md"]
