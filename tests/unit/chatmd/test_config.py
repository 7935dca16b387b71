"""The table [chatmd]: folders are the file's, and mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatmd.context import Rules
from lmm.config_tables import Config
from lmm.errors import ConfigError


def test_folders_are_relative_to_the_file() -> None:
    """Wherever one runs."""
    rules = Rules.of(Config(Path("/course/config.toml"), '[chatmd]\nroots = ["shared"]', own=True))
    assert rules.roots == (Path("/course/shared"),)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("max_turns = 0", "a whole number above 0"),
        ("max_turns = true", "a whole number above 0"),
        ('tool_timeout = "1"', "a number above 0"),
        ("compact_at = 1.5", "a number from 0 to 1"),
        ("private_network = 1", "true or false"),
        ('roots = "x"', "a list of names"),
        ("max_turn = 1", "did you mean 'max_turns'"),
    ],
)
def test_mistakes(line: str, wanted: str) -> None:
    """With what was meant."""
    with pytest.raises(ConfigError, match=wanted) as error:
        Rules.of(Config(text=f"[chatmd]\n{line}"))
    assert error.value.where == "config.toml:2"
