"""Nothing takes longer than a text is long: no function that takes one, and no command on a line without end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import growth
import pytest
from edge.support import run_here

MODELS = "".join(f'{tier} = "Builtin/extractive"\n' for tier in ("major", "minor", "aux"))
UNITS = ("`", "| a ", "[", "](", "$a ", "<a ", "<!--", "_")
VERBS = (
    ["scan", "a.md"],
    ["ingest", "a.md"],
    ["export", "a.md", "-o", "clean.md"],
    ["messages", "a.md"],
    ["search", "why"],
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each call runs in a process that is ended if it takes too long")
def test_no_function_grows_faster_than_its_text(tmp_path: Path) -> None:
    """Eight times the text takes about eight times as long, whatever the text repeats."""

    def found() -> set[str]:
        ran = subprocess.run(
            [sys.executable, growth.__file__], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return set(ran.stdout.splitlines())

    slow = found()
    again = {line.partition("(")[0] for line in found()} if slow else set[str]()  # a busy machine slows others
    assert [line for line in slow if line.partition("(")[0] in again] == []


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_line_takes_as_long_as_it_is(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a document of a few lines, asked about, exported, ingested and searched: it took minutes."""
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(MODELS)

    def work(text: str) -> None:
        Path("a.md").write_text(text)
        for words in VERBS:
            assert run_here(capsys, *words).code == 0, words

    work("# A\n\n---\n?: why?\n---\nText.\n")  # imports what it needs
    assert growth.is_linear(work, unit, "# A\n\n---\n?: why?\n---\n", "\n\nMore.\n")
