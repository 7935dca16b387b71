"""Reading standard input as lines of a client's protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def lines_of_stdin() -> AsyncGenerator[Any]:
    """Iterate over the lines of standard input, read in a daemon thread, so that Ctrl-C works at once.

    Processes started in the meantime get the null device instead, and cannot read the client's messages.
    """
    mine = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield _lines(mine)
    finally:
        os.dup2(mine, 0)


async def _lines(descriptor: int) -> AsyncGenerator[str]:
    """Iterate over the lines of a file descriptor."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with os.fdopen(descriptor, encoding="utf-8", errors="replace", closefd=False) as stream:
                for line in stream:
                    loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line
