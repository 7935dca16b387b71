"""An author who saves at the very moment in which we do: another process, aimed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import talking

from lmm.disk.shared import SharedFile
from lmm.notebook.edits import merge_whole_edits

WAYS = ("renaming", "writing", "opening")
EDITOR = """
import os, sys, time
path, base = sys.argv[1:]
for line in sys.stdin:
    number, wait, how = line.split()
    text, end = f"{base}\\nEdit {number}.\\n", time.perf_counter() + float(wait)
    print("ready", flush=True)
    while time.perf_counter() < end:
        pass
    if how == "renaming":
        with open(path + ".new", "w") as file:
            file.write(text)
        os.replace(path + ".new", path)
    elif how == "writing":
        with open(path, "w") as file:
            file.write(text)
    else:
        with open(path, "r+") as file:  # long before it writes
            time.sleep(0.002)
            file.write(text)
    print("saved", flush=True)
"""


def race(path: Path, how: str, saves: int, seed: int | str = "") -> list[str]:
    """Save so often while an editor does, in one of the `WAYS`; the saves that were lost."""
    base = "# A\n\n---\n?: why?\n---\nOne.\n"
    ours = talking.answered(base, model="Builtin/extractive").text
    path.write_text(base)
    begin = time.perf_counter()
    SharedFile.open(path, merge=merge_whole_edits).save(ours)
    takes = time.perf_counter() - begin
    aim, lost = random.Random(f"{how}{seed}"), []
    command = [sys.executable, "-c", EDITOR, str(path), base]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        for number in range(saves):
            path.write_text(base)
            document = SharedFile.open(path, merge=merge_whole_edits)
            editor.stdin.write(f"{number} {aim.uniform(0, 1.5 * takes)} {how}\n")
            editor.stdin.flush()
            editor.stdout.readline()
            saved = document.save(ours)
            editor.stdout.readline()
            if f"Edit {number}." not in path.read_text():
                lost.append(f"{how}: save {number} of the author")
            if "~reply" not in path.read_text() and saved.merged:  # else they saved after us, without having seen ours
                lost.append(f"{how}: our save {number}")
        editor.stdin.close()
    return lost
