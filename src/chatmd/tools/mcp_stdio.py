"""MCP servers that are programs: how they run, and what they write to their standard error."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_KEPT = 4000  # bytes of standard error: its end
_LAST_WORDS = 0.3  # seconds to read what is still in the pipe when the program has ended


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
        reader = threading.Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        reader.start()
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as stream:
                yield stream
        finally:
            reader.join(_LAST_WORDS)  # not for long: what the program started may still hold its standard error

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while data := stream.read(65536):
                self._tail = (self._tail + data)[-2 * _KEPT :]


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
