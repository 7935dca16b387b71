"""One background event loop for the whole process.

Every coroutine of ours runs here, whoever calls: a script, a notebook whose own loop is running, a
server. Vendors' clients are bound to the loop they were first used on; with one loop, that is settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_AWAKE = 0.2  # seconds
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def _background() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="lmm-loop", daemon=True)
            _thread.start()
        return _loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on the background loop and return its result.

    Ctrl-C cancels the coroutine and waits until it has cleaned up; if it returns a result all the same,
    that result is returned, else `KeyboardInterrupt` is raised.
    """
    if threading.current_thread() is _thread:
        coroutine.close()
        raise RuntimeError("this runs on the background loop, which would wait for itself: await the coroutine instead")
    done, cancel = _start(coroutine)
    try:
        return _result(done)
    except KeyboardInterrupt:
        cancel()
        try:
            return _result(done)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


def _result(done: Future[T]) -> T:
    """The result, when it is there. A signal that another thread gets is seen when this one wakes up: so it does."""
    while not wait([done], timeout=_AWAKE).done:
        pass
    return done.result()


async def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and await it from another.

    Cancelling passes through, and waits until the coroutine has cleaned up.
    """
    if asyncio.get_running_loop() is _background():
        return await coroutine
    done, cancel = _start(coroutine)
    result = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(result)
    except asyncio.CancelledError:
        cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.shield(result)
        raise


def _start(coroutine: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], object]]:
    """The future result of a coroutine on the background loop, and a function that cancels it."""
    loop, done = _background(), Future[T]()
    started: list[asyncio.Task[T]] = []

    def start() -> None:
        task = loop.create_task(coroutine)
        started.append(task)
        task.add_done_callback(lambda t: _hand_over(t, done))

    loop.call_soon_threadsafe(start)
    return done, lambda: loop.call_soon_threadsafe(lambda: started[0].cancel())


def _hand_over(task: asyncio.Task[T], done: Future[T]) -> None:
    if task.cancelled():
        done.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


# -- twins -----------------------------------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    """A verb was ended by Ctrl-C; what had arrived is in its object, and `report` tells of it."""

    def __init__(self, report: Any) -> None:
        super().__init__("interrupted; what had arrived is kept")
        self.report = report


def background(coroutine: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a coroutine function run on the background loop, whatever loop its caller has."""

    @functools.wraps(coroutine)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(coroutine(*args, **kwargs))

    return twin


def blocking(twin: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The synchronous twin of a `background` function that is called with an ``a`` in front.

    A result that says it was `interrupted` becomes `Stopped`.
    """
    coroutine: Callable[P, Coroutine[Any, Any, T]] = getattr(twin, "__wrapped__", twin)

    @functools.wraps(coroutine)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        result = run(coroutine(*args, **kwargs))
        if getattr(result, "interrupted", False):
            raise Stopped(result)
        return result

    call.__name__ = coroutine.__name__.removeprefix("a")
    call.__qualname__ = coroutine.__qualname__.removesuffix(coroutine.__name__) + call.__name__
    return call


def threaded(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The asynchronous twin of a function that waits for disks and models itself: it runs in a thread."""

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, *args, **kwargs)

    twin.__name__ = f"a{call.__name__}"
    twin.__qualname__ = call.__qualname__.removesuffix(call.__name__) + twin.__name__
    return twin


async def bridge(stream: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The items of a stream that runs on the background loop, for the loop of its caller.

    Who stops listening ends the stream.
    """
    here = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[T] | None] = asyncio.Queue()

    async def pump() -> None:
        try:
            async with contextlib.aclosing(stream) as items:
                async for item in items:
                    here.call_soon_threadsafe(arrived.put_nowait, (item,))
        finally:
            here.call_soon_threadsafe(arrived.put_nowait, None)

    pumping = asyncio.create_task(run_async(pump()))
    try:
        while (item := await arrived.get()) is not None:
            yield item[0]
        await pumping  # raises what ended it
    finally:
        pumping.cancel()
