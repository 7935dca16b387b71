"""Python in a process of its own, without the second that imports take: a server imports what commands use, and each
process is a fork of it. `tests/hostile` starts every command once from nothing.

`python` is what tests call; `serve` is the server, a process that ends with theirs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

# Beside the commands themselves: what they import when they need it.
_LATER = (
    *("chatmd.chat", "lmm.models.completions", "lmm.models.tokens", "httpx2", "jsonschema", "watchfiles"),
    *("chatmd.mcp_server", "mcp.server.stdio", "prompt_toolkit", "numpy", "safetensors", "tokenizers"),
    *("lmm.importing.import_document", "lmm.importing.read_html", "lmm.importing.word_count", "lmm.importing.pandoc"),
    *("lmm.importing.read_pdf", "lmm.importing.read_pptx", "lmm.importing.read_xlsx", "openpyxl", "pptx", "pypdfium2"),
    *("lmm_editor.server", "chatmd.terminal.session", "acp", "chatmd.acp_server", "sqlalchemy", "uvicorn"),
    *(
        "starlette.applications",
        "jinja2",
        "limits",
        "markdown_it",
        "mdit_py_plugins",
        "latex2mathml",
        "pygments.lexers",
        "segno",
    ),
    *("lmm_education.store.edge", "lmm_education.ingestion.ingest", "lmm_education.answer.answering"),
)
_FILES = ("p2cread", "c2pwrite", "errwrite")  # what Popen calls a process's standard files; -1 if they are ours
AT_START = ("PYTHON", "LANG", "LC_", "TZ")  # a process with others of these is started anew
_PR_SET_CHILD_SUBREAPER = 36
_UNBUFFERED = "PYTHONUNBUFFERED"  # a fork can do that as well
_UTF8 = {"PYTHONIOENCODING": "utf-8"}  # in a locale with UTF-8, that is what Python does anyway
Popen = subprocess.Popen  # as it is without `forking`
_lock = threading.Lock()


def python(*words: str | Path, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` of this Python with these words: a script, ``-c`` and code, or ``-m`` and a module."""
    env = os.environ if env is None else env
    forked = sys.platform == "linux" and _UTF8 | _at_start(env) == _server()[1]
    return (_Forked if forked else Popen)([sys.executable, *map(str, words)], env=env, **options)


def run_python(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of this Python with these words, to its end; what it printed, as text."""
    pipe = subprocess.PIPE
    with python(*words, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(given, timeout=100)
        finally:
            process.kill()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@contextmanager
def forking() -> Iterator[None]:
    """While this is open, whoever starts this Python through `subprocess`, such as a library, gets a fork."""

    def start(line: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return python(*line[1:], **options) if line[0] == sys.executable else Popen(line, **options)

    subprocess.Popen = start  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        subprocess.Popen = Popen  # type: ignore[misc]


class _Forked(Popen[Any]):
    """A process that the server forks and this process adopts."""

    def _execute_child(self, *given: Any) -> None:
        values = dict(zip(list(inspect.signature(Popen._execute_child).parameters)[1:], given, strict=True))  # type: ignore[attr-defined]
        asked = {"words": values["args"][1:], "env": dict(values["env"]), "session": values["start_new_session"]}
        asked["folder"] = str(Path(os.fsdecode(values["cwd"] or "")).absolute())
        files = [number if values[name] == -1 else values[name] for number, name in enumerate(_FILES)]
        with _lock:
            _adopting(True)
            socket.send_fds(_server()[0], [json.dumps(asked).encode()], files)
            self.pid = int(_server()[0].recv(100))
            _adopting(False)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(values[name] for name in pipes))  # type: ignore[attr-defined]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a process whose test failed: waiting for it would never end."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


def _adopting(on: bool) -> None:
    """Whether this process is the parent of those whose parent ended."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START) and name != _UNBUFFERED}


@cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """What forks, and the environment that it was started with."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {**os.environ, **_UTF8}
    process = Popen([sys.executable, __file__], stdin=theirs.fileno(), env=env, start_new_session=True)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # called first: the server ends
    return ours, _at_start(env)


# -- the server ------------------------------------------------------------------------------------


def serve() -> list[str]:
    """Import, and fork for everyone who asks until nobody can. In a fork: what it is to run."""
    from lmm.cli.main import COMMANDS, load

    for row in COMMANDS:
        load(row)
    for name in _LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    os.fsync = lambda fd: None  # no test takes the power away, so none waits for a disk
    gc.collect()
    gc.freeze()
    asking, (reading, writing) = socket.socket(fileno=os.dup(0)), os.pipe()
    while True:
        data, files, _, _ = socket.recv_fds(asking, 1 << 20, 3)
        if not data:
            os._exit(0)
        if not (between := os.fork()):  # ends at once, so that who asked becomes the parent
            if child := os.fork():
                os.write(writing, str(child).encode())
                os._exit(0)
            asking.close()
            return _become(json.loads(data), files)
        os.waitpid(between, 0)
        asking.send(os.read(reading, 100))
        for file in files:
            os.close(file)


def _become(asked: dict[str, Any], files: Sequence[int]) -> list[str]:
    """Be a process that was just started."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if asked["session"]:
        os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(write_through=_UNBUFFERED in asked["env"])
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    words: list[str] = asked["words"]
    return words


def be_python(words: Sequence[str]) -> None:
    """What ``python WORDS`` does."""
    if words[0] == "-P":  # nothing is imported from the current folder
        sys.path[:1] = []
        words = words[1:]
    elif words[0] in ("-c", "-m"):
        sys.path[0] = "" if words[0] == "-c" else str(Path.cwd())
    if words[0] in ("-c", "-m"):
        sys.argv[:] = [words[0], *words[2:]]
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(words[0]).parent)
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


_codes: list[int] = []  # of a fork that ends


def end() -> None:
    """End a fork at once: Python would take the whole of `lmm` apart. Without a code, it does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if _codes:
        os._exit(_codes[0])


if __name__ == "__main__":
    atexit.register(end)  # the first, so that it is called last
    asked_for = serve()
    try:
        be_python(asked_for)
        _codes.append(0)
    except SystemExit as stop:
        _codes.append(stop.code if isinstance(stop.code, int) else int(stop.code is not None))
        raise
