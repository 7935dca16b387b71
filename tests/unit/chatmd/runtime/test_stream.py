"""The consumer of a stream can leave, and can be cancelled while leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from chatmd.context import RunOptions
from chatmd.runtime.runner import Runner, open_text, prepare
from lmm.errors import Place
from lmm.messages import Event, Notice, RunResult
from lmm.testing import ScriptedModel


def test_a_cancellation_while_a_run_is_being_closed_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer has left, and the run still cleans up; Ctrl-C then still ends the consumer."""
    leaving, hold = asyncio.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run(self: Runner, *, user_first: bool = False) -> RunResult:
        self.context.emit(Notice("begun"))
        try:
            return await asyncio.Future[RunResult]()
        finally:
            loops[0].call_soon_threadsafe(leaving.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(hold.wait(), loops[0]))

    async def listen(stream: AsyncGenerator[tuple[Event, Place]]) -> str:
        async with aclosing(stream) as events:
            async for _ in events:
                break
        return "went on as if nothing had been"

    async def main() -> asyncio.Task[str]:
        loops.append(asyncio.get_running_loop())
        listening = asyncio.create_task(listen(open_text("<user>Hi</user>", context).stream()))
        await leaving.wait()
        listening.cancel()
        hold.set()
        await asyncio.wait((listening,))
        return listening

    context = prepare(None, RunOptions(model=ScriptedModel(["Hello."])), folder=tmp_path)
    monkeypatch.setattr(Runner, "run", run)
    assert asyncio.run(main()).cancelled()
