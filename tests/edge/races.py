"""An author who saves at the very moment in which we do: another process, aimed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from lmm import Document

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


def answered(path: Path, text: str) -> Document:
    """A file with that text, answered and not yet saved."""
    path.write_text(text)
    document = Document.open(path)
    document.answer(model="Builtin/extractive")
    return document


def race(path: Path, how: str, saves: int) -> list[str]:
    """Save so often while an editor does, in one of the `WAYS`; the saves that were lost."""
    base = "# A\n\n---\n?: why?\n---\nOne.\n"
    answered(path, base)
    begin = time.perf_counter()
    answered(path, base).save()
    takes = time.perf_counter() - begin
    aim, lost = random.Random(how), []
    command = [sys.executable, "-c", EDITOR, str(path), base]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        for number in range(saves):
            document = answered(path, base)
            editor.stdin.write(f"{number} {aim.uniform(0, 1.5 * takes)} {how}\n")
            editor.stdin.flush()
            editor.stdout.readline()
            saved = document.save()
            editor.stdout.readline()
            if f"Edit {number}." not in path.read_text():
                lost.append(f"{how}: save {number} of the author")
            if "~reply" not in path.read_text() and saved.rebased:  # else they saved after us, without having seen ours
                lost.append(f"{how}: our save {number}")
        editor.stdin.close()
    return lost
