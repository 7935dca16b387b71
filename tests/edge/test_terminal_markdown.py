"""Replies and answers on a terminal of 80 columns, and in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = "# Leaves\n\n---\n?: why green?\n---\nA leaf is green.\n\n- because of *chlorophyll*\n- and light\n"
REPLY = '[{"prompt": "why green", "reply": "Because of **chlorophyll**:\\n\\n- red\\n- blue\\n"}]'


def on_a_terminal(folder: Path, *words: str) -> str:
    """What a command prints on a terminal."""
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "lmm", *words]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        printed = b""
        while piece := _read(mine):
            printed += piece
    os.close(mine)
    return printed.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.timeout(60)
def test_replies_are_rendered_on_a_terminal_only(tmp_path: Path) -> None:
    """Emphasis and items as rich shows them; in a pipe, the reply is what the model wrote."""
    (tmp_path / "replies.json").write_text(REPLY)
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "b.md").write_text(TEXT)
    shown = on_a_terminal(tmp_path, "messages", "a.md", "--model", "Recorded/replies.json")
    assert "\x1b[1mchlorophyll\x1b[0m" in shown
    assert [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()[1:5]] == [
        "Because of chlorophyll:",
        "",
        " • red",
        " • blue",
    ]
    command = [sys.executable, "-m", "lmm", "messages", "b.md", "--model", "Recorded/replies.json"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "Because of **chlorophyll**:\n\n- red\n- blue\n" in piped
    assert "Because of **chlorophyll**:" in (tmp_path / "a.md").read_text()


@pytest.mark.timeout(60)
def test_answers_are_rendered_on_a_terminal_only(tmp_path: Path) -> None:
    """The quotation of the built-in model, and the sources as before."""
    (tmp_path / "leaves.md").write_text("# Leaves\n\nA leaf is green because of *chlorophyll*.\n")
    subprocess.run([sys.executable, "-m", "lmm", "ingest", "."], cwd=tmp_path, capture_output=True, check=True)
    shown = on_a_terminal(tmp_path, "ask", "Why is a leaf green?")
    assert "**Leaves**" not in shown
    assert "\x1b[1mLeaves" in shown
    assert "leaves.md:1-3" in shown
