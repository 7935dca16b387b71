"""The client for all requests to models: with a journal, a budget and a listener.

Code that needs a model is a generator, a flow: it yields an `Ask` and receives the `Reply`, without any I/O of its own;
a test drives a flow with ``next`` and ``send``. A `Client` runs flows: it looks into the journal, asks the model,
records the reply, notifies a listener, and counts the cost. (httpx writes authentication in this way.)

>>> def doubt(question: str) -> Flow[str]:
...     first = yield Ask.of(question)
...     return (yield Ask.of(f"Sure? {first.text}")).text
>>> flow = doubt("Is a leaf green?")
>>> next(flow).request.messages[0].text
'Is a leaf green?'
>>> flow.send(Reply("Yes.", "a model")).request.messages[0].text
'Sure? Yes.'
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from lmm.config import ModelSettings, Settings, load_settings
from lmm.disk import journal
from lmm.errors import Interrupted, LmmError, Place
from lmm.loop import to_its_end
from lmm.messages import Asked, ChatEvent, ChatRequest, Event, Failed, Listener, Notice, Reply, Usage, ignore, render
from lmm.models.budget import SharedBudget
from lmm.models.chat import shared_chat
from lmm.models.port import Ask, ChatModel, Flow, ask, is_journaled
from lmm.models.structured import Schema, structured
from lmm.models.tokens import estimated

T = TypeVar("T")


class Client:
    """A client for the model of one tier, for one run; `other` returns one for another tier, on the same budget.

    Nothing is opened before the first request. `model` replaces the configured one; `again` asks anew even if the
    journal has a reply; `estimate` sends nothing and counts what would be sent. `budget` is a limit as users write it,
    or a budget that several clients share. Without `journal`, nothing is recorded: what students write is
    never journaled.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        tier: str = "major",
        model: ChatModel | None = None,
        again: bool = False,
        estimate: bool = False,
        journal: bool = True,
        budget: str | SharedBudget = "",
        listener: Listener = ignore,
    ) -> None:
        self.settings, self.again, self.estimate, self.listener = settings, again, estimate, listener
        self.tier: ModelSettings = getattr(settings, tier)
        self.tier_name, self.journal = self.tier.table or tier, journal and is_journaled(model)
        self.usage, self.interrupted = Usage(), False
        self._budget = SharedBudget.of(budget)
        self._told: dict[int, LmmError] = {}
        self._forgets = False
        self._given, self._root = model, self
        self._opened: ChatModel | None = Estimate(self.name) if estimate else model

    @classmethod
    def of(cls, model: ChatModel) -> Client:
        """Make a client for an open model, regardless of the settings; it has no journal."""
        return cls(_unset(), tier="aux", model=model, journal=False)

    @property
    def name(self) -> str:
        """The name of the model; reading it does not open the model."""
        return self._given.name if self._given is not None else str(self.tier.model)

    def journal_key(self, ask: Ask) -> str:
        """Return the journal's key for the reply, by server: two servers may use one name for different models."""
        return ask.journal_key(self.name, "" if self._given is not None else self.tier.base_url or "")

    @property
    def model(self) -> ChatModel:
        """The model itself.

        Raises:
            ModelError, ConfigError: it cannot be opened.
        """
        if self._opened is None:
            self._opened = shared_chat(self.tier)
        return self._opened

    def open(self) -> None:
        """Open the model now, so that errors are raised before anything is asked.

        Raises:
            ModelError, ConfigError: it cannot be opened.
        """
        _ = self.model

    def other(self, tier: str, *, listener: Listener | None = None) -> Client:
        """Return a client for another tier with the same journal, listener and budget; a given `model` is kept."""
        client = copy.copy(self)
        client.tier, client.listener = getattr(self.settings, tier), listener or self.listener
        client.tier_name = client.tier.table or tier
        client._opened = Estimate(client.name) if self.estimate else self._given
        client.usage, client.interrupted = Usage(), False
        return client

    # -- one request -----------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Reply:
        """Return the reply to a request: the journal's, else the model's, which is journaled when it arrives.

        Raises:
            ModelError: the model did not answer.
        """
        reply = None
        try:
            async with contextlib.aclosing(self.stream(ask)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        reply = event
        except asyncio.CancelledError:
            self._root.interrupted = True
            if reply is None:
                raise
        if reply is None:
            raise RuntimeError(f"{self.name} ended its stream without a reply")
        return reply

    async def stream(self, ask: Ask) -> AsyncGenerator[Event]:
        """Ask as `ask` does and iterate over the events; the listener receives the same ones."""
        if self._root.interrupted:  # the previous reply arrived in spite of it
            raise asyncio.CancelledError
        key = self.journal_key(ask)
        remembered = _remembered(key) if self.journal and not (self.again or ask.again) else None
        self._tell(Asked(ask.request, self.name, ask.text, ask.about), ask.place)
        if remembered is not None:
            self._tell(remembered, ask.place)
            yield remembered
            return
        budget = self._root._budget
        budget.limits.check_price(self.name)
        async with (
            budget.paying(ask.request.task, estimated(ask.request, Reply("", self.name))) as paid,
            contextlib.aclosing(self.model.stream(ask.request)) as events,
        ):
            async for event in events:
                if isinstance(event, Reply):
                    paid(event.usage)
                    self._root.usage += event.usage
                    if budget.excess:
                        self._tell(Notice(budget.excess), ask.place)
                    if self.journal and not self.estimate and not await _kept(key, event, self._tell_forgotten):
                        self._root.interrupted = True
                self._tell(event, ask.place)
                yield event

    def tell(self, event: Event, place: Place) -> None:
        """Send an event to the listener; a failure is sent once."""
        if isinstance(event, Failed):
            if id(event.error) in self._root._told:
                return
            self._root._told[id(event.error)] = event.error
        self.listener(event, place)

    def _tell_forgotten(self, error: LmmError) -> None:
        """Report, once, that replies are not put into the journal."""
        if not self._root._forgets:
            self._root._forgets = True
            self.listener(Notice(f"replies are not remembered, in case this run is killed: {error}"), Place())

    def _tell(self, event: Event, place: Place) -> None:
        if not self.estimate:
            self.listener(event, place)

    async def value(self, ask: Ask, schema: Schema, *, retries: int = 1) -> Any:
        """Return the model's reply as data that fits `schema` (see `structured`).

        Raises:
            NoValidReply: no reply was valid, or one was cut off.
            ModelError: the model did not answer.
        """
        retries = 0 if self.estimate else retries  # its reply is none
        found = await self.run(structured(ask, schema, tier=self.tier_name, retries=retries))
        return found if schema.many else found[0]

    # -- flows -----------------------------------------------------------------------------------------

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end. On cancellation it receives `Interrupted` and may return what it has.

        Raises:
            ModelError: a request failed, and the flow did not catch the error.
        """
        try:
            ask = next(flow)
            while True:
                try:
                    reply = await self.ask(ask)
                except asyncio.CancelledError:
                    self._root.interrupted = True
                    ask = flow.throw(Interrupted("the call was interrupted", where=str(ask.place)))
                except LmmError as error:
                    ask = flow.throw(error)
                else:
                    ask = flow.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T | LmmError]:
        """Await coroutines concurrently; return the result of each, or its error, in their order.

        On cancellation all of them are cancelled, and what they then return is returned; `interrupted` is set.
        """
        tasks = [asyncio.create_task(self._outcome(coroutine)) for coroutine in coroutines]
        try:
            return list(await asyncio.gather(*tasks))
        except asyncio.CancelledError:
            self._root.interrupted = True
            for task in tasks:
                task.cancel()
            return list(await asyncio.gather(*tasks))
        except BaseException:  # a bug in a flow, or in a user's function that it calls
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _outcome(self, coroutine: Coroutine[Any, Any, T]) -> T | LmmError:
        try:
            return await coroutine
        except LmmError as error:
            return error
        except asyncio.CancelledError:
            return Interrupted("interrupted")


@functools.cache
def _unset() -> Settings:
    return load_settings(env={})


async def ask_once(model: ChatModel, request: ChatRequest, key: str) -> Reply:
    """Return the reply journaled under `key` (with no usage) if it is complete, else the model's, which is journaled.

    Raises:
        ModelError: the model did not answer.
    """
    if not is_journaled(model):
        return await ask(model, request)
    reply = _remembered(key)
    if reply is None or reply.cut:  # its limit may have been raised
        reply = await ask(model, request)
        await _kept(key, reply)
    return reply


def _remembered(key: str) -> Reply | None:
    match journal.get(key):
        case {"text": str(text), "model": str(name), **rest}:
            return Reply(text, name, cut=rest.get("cut") is True, remembered=True)
    return None


async def _kept(key: str, reply: Reply, on_failure: Callable[[LmmError], None] = lambda error: None) -> bool:
    """Put a reply into the journal; return False if this was cancelled in the meantime: the reply counts anyway."""
    entry = {"text": reply.text, "model": reply.model} | ({"cut": True} if reply.cut else {})
    try:  # other calls continue while it waits for the disk
        await to_its_end(asyncio.to_thread(journal.put, key, entry))
    except LmmError as error:  # a full disk must not cost the reply
        on_failure(error)
    except asyncio.CancelledError:
        return False
    return True


class Estimate:
    """A stand-in for the model `name` that sends nothing and estimates tokens, four characters to one."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Answer with a text of typical length, or with data made of texts."""
        sent = sum(len(render(message)) for message in request.messages) // 4
        asked = (request.schema or {}).get("properties", {})
        sizes = {"summary": 70, "questions": 60, "keywords": 20}
        words = sum(sizes.get(name, 100) for name in asked or (request.task,))
        made = {name: "word" if one.get("type") == "string" else ["word"] for name, one in asked.items()}
        reply = json.dumps(made) if made else "word"
        yield Reply(reply, self.name, Usage(sent, words * 4 // 3, None, 1))
