"""What runs a command in a clone, and looks afterwards what it did."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.forked import AT_START, python
from hostile.clone import SECRET, World, variables

WATCH = Path(__file__).parent / "watch"
LITTLE = 1.5  # seconds in which what goes on may do its worst
PATIENCE = 90.0  # seconds; processor time is bounded more tightly, in watch/sitecustomize.py
_WATCHED = f"""
import runpy, sys
del sys.path[0]  # the clone
runpy.run_path({str(WATCH / "sitecustomize.py")!r})
from lmm.cli.main import main
sys.exit(main())
"""
LMM = Path(sys.executable).parent / "lmm"
Listing = dict[str, tuple[object, ...]]


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    log: list[str] = field(default_factory=list)


Poke = Callable[[World, str], str]
"""What is done to a program that goes on, by what it said; what came of it."""


def run(
    world: World,
    words: Sequence[str | bytes],
    folder: str = ".",
    *,
    long_running: bool = False,
    poke: Poke = lambda world, said: "",
    from_nothing: bool = True,
) -> Done:
    """Run the installed command with nothing to read and no terminal; what would go on is poked, and then ended.
    Not `from_nothing`: in a process that had imported `lmm` before, and is watched from then on.
    """
    log = world.state / "watch.log"
    log.unlink(missing_ok=True)
    environment = variables(world, WATCH, log)
    if not from_nothing:
        environment = {name: value for name, value in environment.items() if not name.startswith(AT_START)}
        environment |= {name: value for name, value in os.environ.items() if name.startswith(AT_START)}
    process = (_installed if from_nothing else _forked)(
        *map(os.fsdecode, words),
        cwd=world.clone / folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    said = b""
    try:
        if long_running:
            said = _begin(process)
            said += poke(world, said.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")
            time.sleep(LITTLE)
            process.terminate()
        said += process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said += process.communicate()[0] + b"\n(it did not end)"
    lines = log.read_text().splitlines() if log.exists() else []
    return Done(process.returncode, said.decode("utf-8", "backslashreplace"), lines)


def _installed(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(LMM), *words], **options)


def _forked(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    return python("-c", _WATCHED, *words, **options)


def _begin(process: subprocess.Popen[bytes]) -> bytes:
    """Wait until a program says something; what it says."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    return os.read(process.stdout.fileno(), 1 << 20) if ready else b""


def listing(*folders: Path) -> Listing:
    """Everything below folders that are not ours: kind, rights, time, contents or where a link leads."""
    found: Listing = {}
    for top in folders:
        for path in [top, *top.rglob("*")]:
            status = path.lstat()
            what = str(path.readlink()) if path.is_symlink() else ""
            if stat.S_ISREG(status.st_mode):
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = (oct(status.st_mode), status.st_mtime_ns, what)
    return found


def holding_secrets(*folders: Path) -> list[str]:
    """Files, no links, in which the secret stands."""
    found = []
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder) / name
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_size < 50 << 20 and SECRET.encode() in path.read_bytes():
                    found.append(str(path))
    return found
