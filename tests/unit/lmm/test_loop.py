"""One background loop serves every caller."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys

import pytest

from lmm import loop


async def _double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_from_a_script_again_and_again() -> None:
    """Successive calls share one loop."""
    assert [loop.run(_double(n)) for n in range(3)] == [0, 2, 4]


def test_from_inside_a_running_loop() -> None:
    """As in Jupyter: a synchronous call works although a loop runs in this thread."""

    async def notebook() -> tuple[int, int]:
        return loop.run(_double(1)), await loop.run_async(_double(2))

    assert asyncio.run(notebook()) == (2, 4)


def test_errors_come_through() -> None:
    """An exception is raised where the call was made."""

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(fail())


def test_an_error_of_what_was_cancelled_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    """Its caller is gone."""

    async def fail() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("no")

    async def cancelled() -> None:
        task = asyncio.create_task(loop.run_async(fail()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with caplog.at_level(logging.ERROR, "asyncio"):
        asyncio.run(cancelled())
        loop.run(asyncio.sleep(0))  # the background loop lets go of it
        gc.collect()
    assert not caplog.records


def test_waiting_for_itself_is_refused() -> None:
    """A coroutine on the loop that calls `run` gets an error, where it would hang for ever."""

    async def wrong() -> int:
        return loop.run(_double(1))

    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        loop.run(wrong())


_SIGNALS = """
import asyncio, random, signal
from lmm import loop

loop._AWAKE = 0.00005

def end(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, end)
for _ in range(500):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.006))
        loop.run(asyncio.sleep(0.01))
    except KeyboardInterrupt:
        continue
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no timer that sends signals")
def test_a_signal_at_any_moment_ends_it() -> None:
    """None finds the background loop and its caller waiting for each other (one in 200 did)."""
    subprocess.run([sys.executable, "-c", _SIGNALS], check=True, timeout=60)
