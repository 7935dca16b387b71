"""docs/commands.md and the manual page say what the commands say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from docs.commands_page import MAN_PAGE, PAGE, man_page, page


@pytest.mark.parametrize(("path", "make"), [(PAGE, page), (MAN_PAGE, man_page)])
def test_the_page_is_made_from_the_commands(path: Path, make: Callable[[], str]) -> None:
    """After a change of a command, `make reference` writes the pages again."""
    assert path.read_text(encoding="utf-8") == make(), "run: make reference"


def test_what_a_group_does_without_a_command_is_there() -> None:
    """`lmm serve` serves; its options are those of a hidden command."""
    assert "--workers NUMBER" in page()
    assert r"\-\-workers NUMBER" in man_page()
