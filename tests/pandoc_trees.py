"""What Pandoc reads in many documents, by one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_FILTER = """
function Pandoc(doc)
  local file = io.open(os.getenv('LMM_TEXTS'), 'rb')
  local all = file:read('a')
  file:close()
  for text in all:gmatch('([^%z]*)%z') do
    local ok, read = pcall(pandoc.read, text, os.getenv('LMM_READER'))
    io.stdout:write(ok and pandoc.write(pandoc.Pandoc(read.blocks), 'json') or 'null', '\\n')
  end
  io.stdout:flush()
end
"""


def trees(texts: Sequence[str], program: str = "pandoc", reader: str = "markdown") -> list[Any]:
    """Pandoc's blocks of each text, without its metadata; None for one that Pandoc refuses.

    Skips the test where there is no Pandoc; in CI it fails, so that this is noticed.
    """
    if shutil.which(program) is None:
        pytest.fail("pandoc must be installed in CI") if os.environ.get("CI") == "true" else pytest.skip("no pandoc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts").write_text("".join(f"{text}\0" for text in texts), encoding="utf-8", newline="")
        (folder / "many.lua").write_text(_FILTER)
        command = [program, "-f", "markdown", "-t", "plain", "-L", str(folder / "many.lua"), os.devnull]
        environment = {**os.environ, "LMM_TEXTS": str(folder / "texts"), "LMM_READER": reader}
        done = subprocess.run(command, capture_output=True, check=True, timeout=120, env=environment)
    found = [json.loads(line) for line in done.stdout.decode().split("\n")[: len(texts)]]
    assert len(found) == len(texts)
    return [tree and tree["blocks"] for tree in found]
