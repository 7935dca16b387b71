"""Programs in a sandbox, by bubblewrap: they read as their user does, reach no network, and write below roots alone."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from chatmd.tools.process import Program

_VIEW = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all")
_WAIT = 10.0  # seconds


@functools.cache
def bubblewrap() -> str:
    """The program that makes sandboxes; empty if there is none, or if the system lets it make none."""
    found = shutil.which("bwrap") or ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if found and not subprocess.run([found, *_VIEW, "true"], capture_output=True, timeout=_WAIT).returncode:
            return found
    return ""


def sandboxed(program: Program, roots: Iterable[Path], protected: Iterable[Path]) -> Program:
    """The program in a sandbox, in which it may write below `roots`, but for `protected` files; with its own /tmp."""
    binds = [("--ro-bind", program.folder), *(("--bind", root) for root in roots)]
    binds += [("--ro-bind", file) for file in protected if file.exists()]
    mounts = [word for option, path in binds for word in (option, str(path), str(path))]
    inside = ("--die-with-parent", "--new-session", "--setenv", "TMPDIR", "/tmp", "--chdir", str(program.folder), "--")
    return replace(program, argv=(bubblewrap(), *_VIEW, *mounts, *inside, *program.argv))
