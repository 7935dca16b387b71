"""One background loop serves every caller."""

from __future__ import annotations

import asyncio

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


def test_waiting_for_itself_is_refused() -> None:
    """A coroutine on the loop that calls `run` gets an error, where it would hang for ever."""

    async def wrong() -> int:
        return loop.run(_double(1))

    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        loop.run(wrong())
