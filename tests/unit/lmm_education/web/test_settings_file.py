"""config.toml while its course is served: what counts at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.config_tables import Config
from lmm_education.web.settings_file import SettingsFile

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


def test_another_process_notices(file: SettingsFile) -> None:
    """What one wrote, the other has at its next look; a file that its author is still at changes nothing."""
    other = SettingsFile(file.config)
    assert other.changed() is None
    path_of(file).write_text('[serve]\ntitle = "Trees and shrubs"\n')
    other._next = 0
    found = other.changed()
    assert found is not None
    assert found.title == "Trees and shrubs"
    path_of(file).write_text("[serve]\ntitle = ")
    other._next = 0
    assert other.changed() is None
