"""A command that is killed, at any moment, leaves the old file or the new one, and pays for no reply twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from edge.kills import COMMANDS, kill_command
from edge.support import MANY
from fakes.openai_server import ScriptedServer


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_kill_at_any_moment(server: ScriptedServer, folder: Path, state_folder: Path, name: str) -> None:
    """What had been journaled is not asked for again; the next run, and the first save later, leave nothing behind."""
    config = folder / "config.toml"
    config.write_text(config.read_text() + config.read_text().replace("[major]", "[minor]"))
    kill_command(server, folder, state_folder, name, 6 * MANY)
