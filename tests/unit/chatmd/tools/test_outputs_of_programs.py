"""Long outputs of programs, and what is seen of them while they run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from unit.chatmd.tools.turns import results_of

from lmm.errors import Place
from lmm.messages import Event, ToolProgress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX programs")
SCRIPT = "#!/bin/sh\ni=1; while [ $i -le 3000 ]; do echo line number $i; i=$((i+1)); done\n"


def script(folder: Path, text: str) -> str:
    (folder / "run.sh").write_text(text)
    (folder / "run.sh").chmod(0o755)
    return '<tool name="run" command="./run.sh"/><tool name="read_file"/>'


def test_a_long_output_is_cut_and_the_whole_of_it_can_be_read(tmp_path: Path) -> None:
    """Its beginning and end are in the result, with what is left out and where it is."""
    tools = script(tmp_path, SCRIPT)
    (result,) = results_of(tmp_path, tools, ("run", {}), file="a.chatmd")
    assert len(result.text) < 8_300
    assert "line number 1\n" in result.text
    assert "line number 3000\n" in result.text
    missing = re.search(r"characters left out, in lines (\d+) to 2,?\d\d\d", result.text)
    where = re.search(r"the whole output is in (\S+)]", result.text)
    assert where is not None
    assert missing is not None
    arguments = {"path": where[1], "offset": int(missing[1]), "line_count": 1}
    (read,) = results_of(tmp_path, tools, ("read_file", arguments))
    before, _, _ = result.text.partition("[…")
    number = int(before.split()[-1]) + 1  # of the first line that is left out
    assert f"\tline number {number}\n" in read.text


def test_a_short_output_is_whole_and_stored_nowhere(tmp_path: Path) -> None:
    (result,) = results_of(tmp_path, script(tmp_path, "#!/bin/sh\necho done\n"), ("run", {}), file="a.chatmd")
    assert result.text == "exit code 0\n\nstdout:\ndone\n"


def test_the_last_lines_are_told_while_it_runs(tmp_path: Path) -> None:
    """Each time with the call that they belong to."""
    told: list[ToolProgress] = []

    def listen(event: Event, place: Place) -> None:
        told.extend([event] if isinstance(event, ToolProgress) else [])

    tools = script(tmp_path, "#!/bin/sh\necho one\necho two\nsleep 0.9\necho three\nsleep 0.9\n")
    results_of(tmp_path, tools, ("run", {}), listener=listen)
    assert [(event.call, event.name, event.text) for event in told] == [
        ("c0", "run", "one\ntwo"),
        ("c0", "run", "one\ntwo\nthree"),
    ]
