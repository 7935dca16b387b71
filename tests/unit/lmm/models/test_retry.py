"""Retries and bounded concurrency around any model, with a fake sleep: no test waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from lmm.errors import (
    EmptyReply,
    ModelBusy,
    ModelError,
    ModelKeyMissing,
    ModelNotFound,
    ModelNotInstalled,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
)
from lmm.messages import ChatEvent, ChatRequest, Message, Reply, Retrying, TextDelta
from lmm.models.chat import MAX_WAIT, Resilient, backoff
from lmm.models.port import ChatModel, ask
from lmm.testing import ScriptedModel

REQUEST = ChatRequest((Message("user", "Why?"),))


@dataclass
class FakeSleep:
    """Remembers how long it was asked to sleep, and does not."""

    waits: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


def resilient(model: ChatModel, sleep: FakeSleep, *, retries: int = 3, limit: int = 1) -> Resilient:
    """`model`, wrapped."""
    return Resilient(model, retries, asyncio.Semaphore(limit), sleep)


def events_of(script: Sequence[str | Exception], *, retries: int = 3) -> tuple[list[ChatEvent], list[float]]:
    """What a consumer sees of a scripted model, and the waits."""
    sleep = FakeSleep()

    async def collect() -> list[ChatEvent]:
        return [event async for event in resilient(ScriptedModel(script), sleep, retries=retries).stream(REQUEST)]

    return asyncio.run(collect()), sleep.waits


@pytest.mark.parametrize(
    "error", [ModelBusy("busy"), ModelUnavailable("down"), ModelTimeout("slow"), EmptyReply("nothing")]
)
def test_what_may_pass_is_tried_again(error: ModelError) -> None:
    """The consumer is told before each wait, and gets the reply in the end."""
    events, waits = events_of([error, error, "Four."])
    assert [type(event) for event in events] == [Retrying, Retrying, TextDelta, Reply]
    assert [event.wait for event in events if isinstance(event, Retrying)] == waits
    assert [event.reason for event in events if isinstance(event, Retrying)] == [error.message] * 2
    assert 0.5 <= waits[0] <= 0.75
    assert 1.0 <= waits[1] <= 1.5
    assert isinstance(events[-1], Reply)
    assert events[-1].text == "Four."


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_tries_are_counted(retries: int) -> None:
    """After so many further attempts the error is raised as it is."""
    errors = [ModelBusy(f"busy {n}") for n in range(5)]
    with pytest.raises(ModelBusy, match=f"busy {retries}"):
        events_of(errors, retries=retries)


@pytest.mark.parametrize(
    "error",
    [ModelRejected("too long"), ModelKeyMissing("no key"), ModelNotFound("no model"), ModelNotInstalled("no extra")],
)
def test_what_cannot_pass_is_not_tried_again(error: ModelError) -> None:
    """One attempt, no wait, the same error."""
    model, sleep = ScriptedModel([error, "never asked"]), FakeSleep()
    with pytest.raises(type(error)) as raised:
        asyncio.run(ask(resilient(model, sleep), REQUEST))
    assert raised.value is error
    assert (len(model.seen), sleep.waits) == (1, [])


def test_errors_that_are_not_the_models_pass_through() -> None:
    """A mistake in our own code is not retried."""
    with pytest.raises(AssertionError, match="no reply number 1"):
        events_of([])


@pytest.mark.parametrize(
    ("retry_after", "wait"), [(0, 0.0), (7, 7.0), (0.25, 0.25), (MAX_WAIT, MAX_WAIT), (3600, MAX_WAIT)]
)
def test_the_server_says_when(retry_after: float, wait: float) -> None:
    """Retry-After is obeyed, up to a minute."""
    _, waits = events_of([ModelBusy("busy", retry_after=retry_after), "Four."])
    assert waits == [wait]


def test_backoff_grows_to_a_limit() -> None:
    """Each wait is twice the one before, spread by half at most, and never more than a minute."""
    plain = [backoff(attempt, None, 0.0) for attempt in range(1, 12)]
    spread = [backoff(attempt, None, 1.0) for attempt in range(1, 12)]
    assert plain[:4] == [0.5, 1.0, 2.0, 4.0]
    assert all(later == min(2 * earlier, MAX_WAIT) for earlier, later in pairwise(plain))
    assert all(one <= two <= min(1.5 * one, MAX_WAIT) for one, two in zip(plain, spread, strict=True))


@pytest.mark.parametrize("text", ["", " ", "\n\t\n"])
def test_an_empty_reply_is_an_error(text: str) -> None:
    """A reply of nothing but white space is asked for again, and raised if it stays so."""
    events, _ = events_of([text, "Four."])
    assert isinstance(events[-1], Reply)
    assert events[-1].text == "Four."
    with pytest.raises(EmptyReply, match="Scripted/replies sent an empty reply"):
        events_of([text, text], retries=1)


class Breaking:
    """Sends two pieces, then loses the connection; the second time it finishes."""

    name = "Test/breaking"

    def __init__(self) -> None:
        self.calls = 0
        self.closed = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Two pieces, then an error or the reply."""
        self.calls += 1
        try:
            yield TextDelta("One ")
            yield TextDelta("two")
            if self.calls == 1:
                raise ModelUnavailable("the connection broke")
            yield Reply("One two", self.name)
        finally:
            self.closed += 1


def test_pieces_before_a_retry_are_void() -> None:
    """The consumer sees the pieces, then `Retrying`, then all pieces anew; the broken stream is closed."""
    model = Breaking()

    async def collect() -> list[ChatEvent]:
        return [event async for event in resilient(model, FakeSleep()).stream(REQUEST)]

    events = asyncio.run(collect())
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["TextDelta", "TextDelta", "Retrying", "TextDelta", "TextDelta", "Reply"]
    assert (model.calls, model.closed) == (2, 2)


class Stalling:
    """Sends so many pieces, then nothing for ever."""

    name = "Test/stalling"

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.closed = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Pieces, each a little later than the one before, then silence."""
        try:
            for number in range(self.pieces):
                await asyncio.sleep(0.02)
                yield TextDelta(str(number))
            await asyncio.Event().wait()
        finally:
            self.closed += 1


class Counting:
    """Knows how many of its answers are under way at once."""

    name = "Test/counting"

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """A reply after two turns of the loop."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.now -= 1
        yield Reply("ok", self.name)


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_bounded(limit: int) -> None:
    """Ten askers, never more than the limit at the model, and all get their reply."""
    model = Counting()

    async def ask_ten() -> list[Reply]:
        wrapped = resilient(model, FakeSleep(), limit=limit)
        return list(await asyncio.gather(*(ask(wrapped, REQUEST) for _ in range(10))))

    assert [reply.text for reply in asyncio.run(ask_ten())] == ["ok"] * 10
    assert model.most == limit


def test_whoever_stops_listening_frees_the_place() -> None:
    """Closing or cancelling closes the model's stream, and the next one has its turn."""
    model = Stalling(1)

    async def stop_early() -> str:
        wrapped = resilient(model, FakeSleep())
        stream = wrapped.stream(REQUEST)
        await anext(stream)
        await stream.aclose()
        waiting = asyncio.create_task(ask(wrapped, REQUEST))
        await asyncio.sleep(0.03)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        other = Resilient(ScriptedModel(["Four."]), 0, wrapped.limit)
        return (await ask(other, REQUEST)).text

    assert asyncio.run(stop_early()) == "Four."
    assert model.closed == 2


def test_it_answers_under_the_models_name() -> None:
    """Wrapping does not change who answers."""
    assert resilient(ScriptedModel([], name="Test/x"), FakeSleep()).name == "Test/x"


class _ClosesSlowly:
    """A model whose connection takes a while to close after the reply."""

    name = "slow to close"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        try:
            yield Reply("Because.", self.name)
        finally:
            await asyncio.sleep(5)


def test_ctrl_c_while_the_connection_is_closed_is_not_lost() -> None:
    """What follows the reply, such as its tools, does not begin."""

    async def run() -> bool:
        asking = asyncio.create_task(ask(resilient(_ClosesSlowly(), FakeSleep()), REQUEST))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.wait((asking,))
        return asking.cancelled()

    assert asyncio.run(run())
