"""Applies one patch again and again, each time in a process that is killed one step later; prints what was found.

Arguments: the folder to work in. A step is whatever changes names or contents on the disk.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from chatmd.tools.patch import apply_patch
from chatmd.tools.roots import Root, ToolRoots

BEFORE = {"a.md": "a\n", "b.md": "b\n", "sub/c.md": "c\n"}
PATCH = """*** Begin Patch
*** Update File: a.md
-a
+A
*** Delete File: b.md
*** Add File: new/d.md
+d
*** Update File: sub/c.md
*** Move to: sub/e.md
-c
+C
*** End Patch"""
STEPS = {"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"}


def contents(folder: Path) -> dict[str, str]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def make(folder: Path) -> None:
    """The files before the patch, and no others."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, text in BEFORE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def killed_at(folder: Path, step: int) -> bool:
    """Apply the patch in a process that is killed before a step; whether it was."""
    child = os.fork()
    if child == 0:
        left = step

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_CREAT | os.O_WRONLY)
            if event in STEPS or writes:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        apply_patch(PATCH, ToolRoots(folder, (Root(".", folder),)))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main() -> None:
    """For each step: what a kill before it left."""
    folder = Path(sys.argv[1])
    found, step, killed = [], 0, True
    while killed:
        make(folder)
        killed = killed_at(folder, step)
        found.append({"step": step, "killed": killed, "left": contents(folder)})
        step += 1
    print(json.dumps(found))  # noqa: T201 - for the test


if __name__ == "__main__":
    main()
