"""`lmm serve --setup`: what is asked, tried, and written."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from edge.support import run_here
from fakes.openai_server import ScriptedServer, fail
from fakes.terminal import Terminal

from lmm import terminal
from lmm_education.course import Course

OWN = '# Ours\n[major]  # the model\ntemperature = 0.2\n\n[serve]\ntitle = "Old"  # as in the catalogue\n'


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Somebody sits at the terminal, and types this."""
    monkeypatch.setattr(terminal, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_course_is_set_up(
    folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that does not answer is told of and asked for again; passwords are where passwords are."""
    server.queue(fail(401), "Good")
    (folder / "config.toml").write_text(OWN)
    answer(
        monkeypatch,
        *(server.url, "bad", "yes", server.url, "test", "yes"),
        *("Plants", "", "xx", "de", "password", "-5", "1000", "yes", ""),
        *("short", "leaves and roots", "chalk and talk"),
    )
    ran = run_here(capsys, "serve", "--setup")
    assert ran.code == 0, ran.err
    assert "OpenAICompatible/test answers" in ran.err
    text = (folder / "config.toml").read_text()
    for line in ("# Ours\n[major]  # the model\n", 'title = "Plants"  # as in the catalogue\n', 'language = "de"\n'):
        assert line in text
    assert f'base_url = "{server.url}"' in text
    assert "leaves" not in text + ran.out
    assert '[serve] log = "course-log.sqlite"' in ran.out
    assert ran.out.endswith("next: lmm ingest PATH; lmm serve\n")
    with Course.open() as course:
        assert course.settings.serve.daily_tokens == 1000
    answer(monkeypatch, *[""] * 12)  # with the model's test
    again = run_here(capsys, "serve", "--setup")
    assert (again.code, (folder / "config.toml").read_text()) == (0, text)
    assert "is unchanged" in again.out


def _asked(prompt: str, times: int, seen: str) -> bool:
    return seen.count(prompt) == times


def test_a_missing_key_and_a_mistyped_password(folder: Path) -> None:
    """On a terminal: the key has to be exported, and a password that was typed differently is asked for again."""
    secrets = "leaves and roots", "leaves and rots", "leaves and roots", "leaves and roots"
    with Terminal("serve", "--setup") as terminal:
        for line in ("OpenAI/gpt-4.1-mini", "Plants", "", "", "password", "", "", "", ""):
            terminal.type(f"{line}\r")
        for number, typed in enumerate(secrets):
            terminal.wait_until(partial(_asked, "Again:" if number % 2 else "Students' password", number // 2 + 1))
            terminal.type(f"{typed}\r")
        assert terminal.wait_for_end() == 0
        assert "\n  the two differ\n" in terminal.text
        assert terminal.text.endswith("next: export OPENAI_API_KEY=…; lmm ingest PATH; lmm serve")
        assert "leaves" not in terminal.text + (folder / "config.toml").read_text()


def test_a_course_that_is_as_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a config.toml, and with nothing to write into one."""
    (folder / "config.toml").unlink(missing_ok=True)
    answer(monkeypatch, *[""] * 8)
    ran = run_here(capsys, "serve", "--setup")
    assert (ran.code, (folder / "config.toml").exists()) == (0, False), ran.err
    assert ran.out == (
        "config.toml is not needed: nothing differs from the defaults\nnext: lmm ingest PATH; lmm serve\n"
    )


def test_students_and_teacher_have_passwords_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else every student reads what all ask."""
    (folder / "config.toml").write_text('[serve]\nlogin = "password"\nlog = "log.sqlite"\n')
    answer(monkeypatch, *[""] * 8, "leaves and roots", "leaves and roots", "chalk and talk")
    ran = run_here(capsys, "serve", "--setup")
    assert ran.code == 0, ran.err
    assert "students and teacher cannot have the same password" in ran.err
    for who, given in (("password", "chalk and talk"), ("teacher", "leaves and roots")):
        answer(monkeypatch, given)
        assert run_here(capsys, "serve", who).code == 2


def test_nothing_is_written_where_nobody_answers_to_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who goes away in the middle has changed nothing."""
    (folder / "config.toml").write_text(OWN)
    answer(monkeypatch, "", "Plants")
    assert run_here(capsys, "serve", "--setup").code == 1
    assert (folder / "config.toml").read_text() == OWN
