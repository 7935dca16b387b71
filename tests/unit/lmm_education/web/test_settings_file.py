"""config.toml while its course is served: what counts at once, and what the teacher's page may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.config_tables import Config
from lmm.disk import trust
from lmm.errors import ConfigError
from lmm_education.web.settings_file import SettingsFile
from lmm_education.web.teacher_course import checked
from lmm_education.web.words import Wording

TEXT = '[serve]  # ours\ntitle = "Plants"  # short\nlogin = "users"\n'


@pytest.fixture
def file(tmp_path: Path) -> SettingsFile:
    """That of a course."""
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return SettingsFile(Config(path, TEXT, own=False))


def path_of(file: SettingsFile) -> Path:
    """Where it is."""
    assert file.path is not None
    return file.path


def test_other_keys_and_comments_stay(file: SettingsFile) -> None:
    """Those too that came after the start; and only what counts at once is written."""
    path_of(file).write_text(TEXT + "session_hours = 5\n")
    now = file.write({"title": "Trees", "daily_tokens": 9})
    assert (now.title, now.daily_tokens, now.session_hours) == ("Trees", 9, 5)
    assert path_of(file).read_text() == (
        '[serve]  # ours\ndaily_tokens = 9\ntitle = "Trees"  # short\nlogin = "users"\nsession_hours = 5\n'
    )
    with pytest.raises(ConfigError):
        file.write({"log": "../elsewhere.sqlite"})


def test_another_process_notices(file: SettingsFile) -> None:
    """What one wrote, the other has at its next look; a file that its author is still at changes nothing."""
    other = SettingsFile(file.config)
    assert other.changed() is None
    file.write({"title": "Trees and shrubs"})
    other._next = 0
    found = other.changed()
    assert found is not None
    assert found.title == "Trees and shrubs"
    path_of(file).write_text("[serve]\ntitle = ")
    other._next = 0
    assert other.changed() is None


@pytest.mark.parametrize("broken", ["[serve]\nnosuch = 1\n", "[serve\n", '[serve]\nlogin = "x"\n', "serve = 1\n"])
def test_a_file_with_which_no_server_starts_stays(file: SettingsFile, broken: str) -> None:
    """Somebody has to mend it before."""
    path_of(file).write_text(broken)
    with pytest.raises(ConfigError):
        file.write({"title": "Trees"})
    assert path_of(file).read_text() == broken


@pytest.mark.parametrize("agreed", [True, False])
def test_what_was_agreed_to_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agreed: bool) -> None:
    """And nothing else is agreed to by changing a title."""
    monkeypatch.setenv("LMM_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "config.toml"
    text = '[serve]\nlog = "../log.sqlite"\n'
    path.write_text(text)
    config = Config(path, text, own=False)
    if agreed:
        trust.approve(path, text)
    SettingsFile(config).write({"title": "Trees"})
    assert trust.is_approved(path, path.read_text()) is agreed


def test_without_a_file() -> None:
    """As where a program made the course."""
    with pytest.raises(ConfigError, match="no file"):
        SettingsFile(Config()).write({"title": "Trees"})


WRONG = [
    ("daily_cost", "nan"), ("daily_cost", "1e999"), ("daily_cost", "1,5"), ("daily_tokens", "1.5"),
    ("daily_tokens", ""), ("questions_per_minute", 7), ("title", None), ("title", "\ud800"),
    ("welcome", "\x7f"), ("title", "\0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_will_not_do(name: str, value: object) -> None:
    """Is told beside its field."""
    values, errors = checked({name: value}, Wording("de"))
    assert (values, set(errors)) == ({}, {name})


@pytest.mark.parametrize("value", ['"""\n# [x]', "a\nb\\", "ü – 漢", "' = ]", ""])
def test_any_text_comes_back(file: SettingsFile, value: str) -> None:
    """Whatever it looks like in TOML."""
    values, errors = checked({"description": value}, Wording("en"))
    assert errors == {}
    assert file.write(values).description == value
