"""MCP servers that are programs: their environment, and what they write to their standard error."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from chatmd.errors import ChatmdError
from chatmd.tools.environment import minimal_environment

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_KEPT = 4000  # bytes of standard error: its end


class StandardError:
    """The end of what a program writes to its standard error, read in a thread of its own: it must never wait."""

    def __init__(self) -> None:
        self._tail = b""

    @property
    def text(self) -> str:
        """What it wrote last, without a line that is cut off at the beginning."""
        tail = self._tail
        whole = tail[-_KEPT:].partition(b"\n")[2] if len(tail) > _KEPT else tail
        return whole.decode("utf-8", "replace").strip()

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """What the program is to write to, for as long as it runs."""
        reading, writing = os.pipe()
        threading.Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True).start()
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            yield stream

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                self._tail = (self._tail + data)[-2 * _KEPT :]


def environment_for(env: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What a program is to see: what it needs to run, and the variables that its declaration names.

    Raises:
        ChatmdError: a variable that it names is not set.

    >>> environment_for(["TOKEN"], {"PATH": "/bin", "LANG": "C", "TOKEN": "t", "OPENAI_API_KEY": "k"})
    {'PATH': '/bin', 'LANG': 'C', 'TOKEN': 't', 'TERM': 'dumb', 'NO_COLOR': '1'}
    """
    missing = [name for name in env if name not in environment]
    if missing:
        raise ChatmdError(f"the environment variable {missing[0]} is not set", hint=f"export {missing[0]}=…")
    return minimal_environment(environment, env)


@asynccontextmanager
async def program(
    command: Sequence[str], folder: Path, env: Mapping[str, str], errors: StandardError
) -> AsyncGenerator[TransportStreams]:
    """A running server: what it says, and what it is told. At the end it is asked to stop, then made to.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=dict(env), cwd=folder, encoding_error_handler="replace"
    )
    with errors.opened() as stream:
        async with stdio_client(parameters, errlog=stream) as streams:
            yield streams
