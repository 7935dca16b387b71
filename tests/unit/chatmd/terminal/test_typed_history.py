"""The history of typed lines from earlier conversations."""

from __future__ import annotations

import stat
from pathlib import Path

from chatmd.terminal.screen import TypedHistory


def test_several_conversations(tmp_path: Path) -> None:
    """They write one file; newest first, each line once; torn and very long lines are left out."""
    path = tmp_path / "state" / "conversations.txt"
    one, two = TypedHistory(path), TypedHistory(path)
    for history, text in ((one, "a"), (two, "b\nc"), (one, "a"), (two, " secret"), (two, "x" * 100_000)):
        history.append_string(text)
    with path.open("a") as file:
        file.write("torn\n")
    assert list(TypedHistory(path).load_history_strings()) == ["a", "b\nc"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_had(tmp_path: Path) -> None:
    """It is empty."""
    history = TypedHistory(tmp_path / "file" / "x")
    (tmp_path / "file").write_text("")
    history.append_string("a")
    assert list(TypedHistory(tmp_path / "file" / "x").load_history_strings()) == []
