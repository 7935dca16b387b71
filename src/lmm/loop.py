"""One background event loop for the whole process.

All our coroutines run here, whoever the caller is: a script, a notebook whose own loop is running, a
server. Vendors' clients are bound to the loop they were first used on; with one loop, this is no problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_AWAKE, _STOP_POLL = 0.2, 0.1  # seconds
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

    Ctrl-C cancels the coroutine and waits until it has cleaned up; if it still returns a result,
    that result is returned, else `KeyboardInterrupt` is raised.
    """
    if threading.current_thread() is _thread:
        coroutine.close()
        why = "this runs on the background loop, which cannot wait for itself: await the coroutine instead"
        raise RuntimeError(why)
    # Not a Future: its condition is acquired by Python code, and a signal in the middle of that code would leave it
    # locked forever, with the loop waiting for it. A lock's own `acquire` is not changed by a signal.
    ended = threading.Lock()
    ended.acquire()
    done: list[asyncio.Task[T]] = []

    def hand_over(task: asyncio.Task[T]) -> None:
        done.append(task)
        ended.release()

    start, cancel = _prepare(coroutine, hand_over)
    try:
        start()
        return _result(done, ended)
    except KeyboardInterrupt:
        cancel()
        try:
            return _result(done, ended)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


def _result(done: list[asyncio.Task[T]], ended: threading.Lock) -> T:
    """Wait for the result. The thread wakes up regularly, to notice signals that another thread received."""
    while not done:
        ended.acquire(timeout=_AWAKE)
    return done[0].result()


async def ended(task: asyncio.Task[Any]) -> None:
    """Wait until a task has ended, with a result or an exception.

    Code that suppresses `CancelledError` around ``await task`` suppresses its own cancellation, too; this passes it on.
    """
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,))
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved: else asyncio complains


async def to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine; if cancelled in the meantime, wait for its end before passing the cancellation on."""
    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def cancel_when(stop: threading.Event, task: asyncio.Task[Any] | None) -> None:
    """Cancel a task when an event is set, possibly by another thread."""
    while not stop.is_set():
        await asyncio.sleep(_STOP_POLL)
    if task:
        task.cancel()


async def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and await it from another loop.

    Cancellation is passed on, and waits until the coroutine has cleaned up.
    """
    if asyncio.get_running_loop() is _background():
        return await coroutine
    here, has_ended, done = asyncio.get_running_loop(), asyncio.Event(), list[asyncio.Task[T]]()

    def hand_over(task: asyncio.Task[T]) -> None:
        done.append(task)
        _ = task.cancelled() or task.exception()  # retrieved: no warning if the caller was cancelled
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed
            here.call_soon_threadsafe(has_ended.set)

    start, cancel = _prepare(coroutine, hand_over)
    start()
    try:
        await has_ended.wait()
    except asyncio.CancelledError:
        cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await has_ended.wait()
        raise
    return done[0].result()


def _prepare(
    coroutine: Coroutine[Any, Any, T], hand_over: Callable[[asyncio.Task[T]], object]
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two functions: one starts a coroutine on the background loop, one cancels it, started or not."""
    loop = _background()
    started: list[asyncio.Task[T]] = []

    def start() -> None:
        if not started:
            started.append(loop.create_task(coroutine))
            started[0].add_done_callback(hand_over)

    def cancel() -> None:
        start()
        started[0].cancel()

    return lambda: loop.call_soon_threadsafe(start), lambda: loop.call_soon_threadsafe(cancel)


# -- synchronous and asynchronous twins ------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    """A method was interrupted by Ctrl-C; the results until then are in its object, and `report` describes them."""

    def __init__(self, report: Any) -> None:
        super().__init__("interrupted; what arrived is kept")
        self.report = report


def background(coroutine: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a coroutine function run on the background loop, whatever the caller's loop."""

    @functools.wraps(coroutine)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(coroutine(*args, **kwargs))

    return twin


def blocking(twin: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the synchronous twin of a `background` function, named without its leading ``a``.

    If the result says that it was `interrupted`, `Stopped` is raised.
    """
    coroutine: Callable[P, Coroutine[Any, Any, T]] = inspect.unwrap(twin)

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
    """Return the asynchronous twin of a blocking function: it runs in a thread."""

    @functools.wraps(call)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, *args, **kwargs)

    twin.__name__ = f"a{call.__name__}"
    twin.__qualname__ = call.__qualname__.removesuffix(call.__name__) + twin.__name__
    return twin


async def bridge(stream: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Iterate, on the caller's loop (which may be the same), over a stream that runs on the background loop.

    The stream ends when the caller stops iterating.
    """
    here = asyncio.get_running_loop()
    if here is _background():
        async with contextlib.aclosing(stream) as mine:
            async for one in mine:
                yield one
        return
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
