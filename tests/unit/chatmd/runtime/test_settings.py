"""The table [chatmd]: what `lmm init` writes names every rule with its default; mistakes are told."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from chatmd.context import Rules
from chatmd.runtime.settings import read_rules
from lmm.config import read_toml
from lmm.errors import ConfigError

TEMPLATE = resources.files("lmm").joinpath("config_template.toml").read_text(encoding="utf-8")
UNCOMMENTED = re.sub(r"^# (?=\w+ = )", "", TEMPLATE, flags=re.MULTILINE)


def test_the_template_has_every_rule_with_its_default() -> None:
    """As it is, and uncommented."""
    assert read_rules(TEMPLATE) == read_rules(UNCOMMENTED) == Rules()
    assert set(read_toml(UNCOMMENTED)[0]["chatmd"]) == {rule.name for rule in fields(Rules)} - {"withheld"}


def test_folders_are_relative_to_the_file() -> None:
    """Wherever one runs."""
    rules = read_rules('[chatmd]\nroots = ["shared"]', config_file=Path("/course/config.toml"), own=True)
    assert rules.roots == (Path("/course/shared"),)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("max_turns = 0", "a whole number above 0"),
        ("max_turns = true", "a whole number above 0"),
        ('tool_timeout = "1"', "a number above 0"),
        ("remote_tools = 1", "true or false"),
        ('roots = "x"', "a list of folders"),
        ("max_turn = 1", "did you mean 'max_turns'"),
    ],
)
def test_mistakes(line: str, wanted: str) -> None:
    """With what was meant."""
    with pytest.raises(ConfigError, match=wanted):
        read_rules(f"[chatmd]\n{line}")
