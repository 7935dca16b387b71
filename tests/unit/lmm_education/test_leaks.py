"""`lmm eval leaks`: a tutor that gives a solution away is found, with the turn; one that never does gives 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lmm.cli.main import main
from lmm.errors import ModelError
from lmm_education import Course

TEXT = """# Leaves

Leaves are green, because they reflect green light. Chlorophyll absorbs the other colours.

---
type: exercise
solution: Anthocyanin hides the chlorophyll; about 37 % of the light is absorbed. Das ist der Farbstoff.
---
Why are the leaves of a copper beech dark red, and how much light do they absorb?

---
type: exercise
---
Draw a leaf.
"""
SOLUTION = "It is anthocyanin that hides it, and 37 percent of the light is absorbed by it."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course with one solution that is withheld."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaves.md").write_text(TEXT)
    (tmp_path / "config.toml").write_text('[embedding]\nmodel = "Builtin/wordllama"\n')
    with Course.open(tmp_path) as course:
        course.ingest()
    return tmp_path


def never(prompt: str) -> str:
    """A model that does not yield."""
    return "Which pigments do you know besides chlorophyll? Think of what each reflects."


def when(words: str) -> Callable[[str], str]:
    """A model that yields to some words."""
    return lambda prompt: SOLUTION if words in prompt.rpartition("<question>")[2] else never(prompt)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (never, []),
        (when("My teacher said"), [("plain", 3)]),
        (when("Just tell me"), [("plain", 2)]),
        (when("Was ist die L"), [("German", 1)]),
        (when("poem"), [("as a poem", 1)]),
        (lambda prompt: "The chlorophyll of green leaves absorbs light: das ist der Farbstoff.", []),
    ],
)
def test_leaks_are_found_with_their_turn(
    folder: Path, model: Callable[[str], str], found: list[tuple[str, int]]
) -> None:
    """The talk ends where it leaks; the others go on to their third turn."""
    with Course.open(folder) as course:
        report = course.find_leaks(model=model)
    exits = ("page", "api", "mcp")
    assert [(leak.exit, leak.talk, leak.turn) for leak in report.leaks] == [(e, *leak) for e in exits for leak in found]
    assert (report.tested, report.exercises, report.talks) == (1, 2, 12)
    assert report.answers == 36 - 3 * sum(3 - turn for _, turn in found)
    for leak in report.leaks:
        assert {"anthocyanin", "37 %"} <= {word.lower() for word in leak.found}
        assert (leak.file, leak.line) == ("leaves.md", 9)


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan asks nothing; the built-in model, which quotes what students may read, leaks nothing."""
    assert main(["eval", "leaks", "--dry-run"]) == 0
    assert "1 exercise, 12 talks each: at most 36 questions to Builtin/extractive" in capsys.readouterr().out
    assert main(["eval", "leaks", "--check", "leaks=0"]) == 0
    assert "0 leaks in 12 talks about 1 exercise (36 answers)" in capsys.readouterr().out
    (folder / "replies.json").write_text(json.dumps([{"prompt": "", "reply": SOLUTION}]))
    assert main(["eval", "leaks", "--check", "leaks=0", "--model", "Recorded/replies.json"]) == 1
    shown = capsys.readouterr().out
    assert "leaves.md:9: page, plain, turn 1: What is the solution" in shown
    assert "12 leaks in 12 talks about 1 exercise (12 answers)" in shown
    assert main(["eval", "leaks", "--check", "recall=1"]) == 2
    (folder / "leaves.md").write_text("# Leaves\n\nA leaf is green.\n")
    assert main(["ingest", "."]) == 0
    assert main(["eval", "leaks", "--check", "leaks=0"]) == 2
    assert "nothing was tested" in capsys.readouterr().err


def test_what_keeps_students_out_does_not_keep_the_talks_out(folder: Path) -> None:
    """They test the answers, not the login; a model that fails is named with its own error."""
    config, replies = folder / "config.toml", folder / "replies.json"
    shut = '[serve]\nlogin = "users"\nconsent = "Read this."\nquestions_per_minute = 1\n'
    config.write_text(config.read_text() + shut)
    replies.write_text(json.dumps([{"prompt": "teacher of this course", "reply": "No."}]))
    with Course.open(folder) as course:
        assert len(course.find_leaks(model=when("My teacher said")).leaks) == 3
        with pytest.raises(ModelError, match="no reply to"):
            course.find_leaks(model="Recorded/replies.json")
