"""The table [chatmd]: folders are relative to the file, and mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatmd.config import ChatmdSettings
from lmm.config_tables import Config
from lmm.errors import ConfigError


def test_folders_are_relative_to_the_file() -> None:
    """Whatever the current folder is."""
    rules = ChatmdSettings.of(Config(Path("/course/config.toml"), '[chatmd]\nroots = ["shared"]', own=True))
    assert rules.roots == (Path("/course/shared"),)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("max_turns = 0", "a whole number of at least 1"),
        ("max_turns = true", "a whole number"),
        ('tool_timeout = "1"', "a number"),
        ("compact_at = 1.5", "a number of at most 1"),
        ("private_network = 1", "true or false"),
        ('roots = "x"', "a list"),
        ("max_turn = 1", "did you mean 'max_turns'"),
    ],
)
def test_mistakes(line: str, wanted: str) -> None:
    """The error says what is expected."""
    with pytest.raises(ConfigError, match=wanted) as error:
        ChatmdSettings.of(Config(text=f"[chatmd]\n{line}"))
    assert error.value.where == "config.toml:2"
