"""docs/commands.md says what the commands say."""

from __future__ import annotations

from docs.commands_page import PAGE, page


def test_the_page_is_made_from_the_commands() -> None:
    """After a change of a command, `make reference` writes the page again."""
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make reference"
