"""Limits of requests, tokens and money, shared by all requests that serve one purpose."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from lmm.errors import ConfigError, LimitReached, LmmError
from lmm.messages import ChatEvent, ChatRequest, Reply, TextDelta, Usage
from lmm.models.port import ChatModel, is_journaled
from lmm.models.tokens import estimated, price

_BUDGET = re.compile(
    r"\$\s*(\d+(?:\.\d+)?|\.\d+)|(\d+(?:\.\d+)?|\.\d+)\s*(?:\$|USD|dollars?)"
    r"|(\d{1,3}(?:[_,]\d{3})+|\d+(?:\.\d+)?)\s*(k|m)?(?:\s*tokens?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """Limits, None for no limit: `turns` counts requests, `tokens` those sent and received, `dollars` is US money."""

    turns: int | None = None
    tokens: int | None = None
    dollars: float | None = None

    def check_price(self, model: str) -> None:
        """Raise, before anything is paid, if there is a limit in money and the price of a model is unknown.

        Raises:
            LimitReached: there is a limit in dollars, and the price of `model` is unknown.
        """
        if self.dollars is not None and price(model, Usage(1000, 1000)) is None:
            raise LimitReached(f"the price of {model} is not known", hint="set the budget in tokens")


def parse_budget(text: str | float) -> UsageLimits:
    """Parse a budget as users write it: tokens, a number too, or US dollars.

    Raises:
        ConfigError: it is neither.

    >>> parse_budget(20000).tokens, parse_budget("20k").tokens, parse_budget("0.50$").dollars
    (20000, 20000, 0.5)
    """
    found = _BUDGET.fullmatch(str(text).strip())
    if found and (money := found[1] or found[2]):
        return UsageLimits(dollars=float(money))
    if found:
        unit = {"": 1, "k": 1000, "m": 1_000_000}[(found[4] or "").lower()]
        tokens = float(found[3].replace("_", "").replace(",", "")) * unit
        if tokens >= 1 and tokens.is_integer():
            return UsageLimits(tokens=int(tokens))
    raise ConfigError(f"'{text}' is not a budget", where="budget", hint="such as 20000 (tokens) or 0.50$")


class SharedBudget:
    """The use so far of all clients that share this budget, and its limits.

    Requests are counted one by one (`begin`, `add`). A step of several requests, such as a run, a judgement or a
    proposal, begins only if the budget covers it and the steps in progress (`paying`): as its cost is not known
    before, the largest cost so far of its kind is assumed.

    >>> budget = SharedBudget(UsageLimits(turns=1))
    >>> budget.begin("Builtin/extractive")
    >>> budget.add("Builtin/extractive", Usage(10, 2, None, 1)).cost
    0.0
    >>> budget.begin("Builtin/extractive")
    Traceback (most recent call last):
    lmm.errors.LimitReached: the run made 1 request, the limit (allow more: --max-turns...)
    """

    def __init__(self, limits: UsageLimits = UsageLimits()) -> None:
        self.limits = limits
        self.usage = Usage()
        self.turns = 0
        self._largest: dict[str, float] = {}
        self._under_way: list[str] = []
        self._changed = asyncio.Condition()

    @classmethod
    def of(cls, budget: str | float | SharedBudget) -> SharedBudget:
        """Make a budget from text as users write it (empty for none), or return the given shared one.

        Raises:
            ConfigError: the text is not a budget.
        """
        if isinstance(budget, SharedBudget):
            return budget
        return cls(parse_budget(budget)) if budget else cls()

    def begin(self, model: str) -> None:
        """Count a request that is about to be made.

        Raises:
            LimitReached: the number of requests, or the budget, is used up.
        """
        self.limits.check_price(model)
        if self.limits.turns is not None and self.turns >= self.limits.turns:
            requests = "1 request" if self.turns == 1 else f"{self.turns} requests"
            raise LimitReached(f"the run made {requests}, the limit", hint="allow more: --max-turns")
        if self.is_used_up:
            raise LimitReached(f"the run used up its budget of {self._told()}", hint="allow more: --budget")
        self.turns += 1

    def add(self, model: str, usage: Usage) -> Usage:
        """Count the usage of a request, and return it with its price, where that is known."""
        cost = usage.cost if usage.cost is not None else price(model, usage)
        priced = replace(usage, cost=cost)
        self.usage += priced
        return priced

    async def counted(self, model: ChatModel, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Send a request that was begun and count its usage, estimated if its reply is cancelled or breaks off.

        The reply's usage has its price.
        """
        came, usage = "", None
        try:
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        came += event.text
                    elif isinstance(event, Reply):
                        usage = self.add(event.model, event.usage)
                        event = replace(event, usage=usage)
                    yield event
        except BaseException as error:
            if usage is None and (came or not isinstance(error, LmmError)):
                self.add(model.name, estimated(request, Reply(came, model.name)))
            raise

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left."""
        left = self.left()
        return left.tokens == 0 or left.dollars == 0

    def left(self) -> UsageLimits:
        """What may still be used."""
        limits, used = self.limits, self.usage
        tokens = None if limits.tokens is None else max(limits.tokens - _tokens(used), 0)
        dollars = None if limits.dollars is None else max(limits.dollars - (used.cost or 0.0), 0.0)
        return UsageLimits(None, tokens, dollars)

    def count(self, kind: str, usage: Usage) -> None:
        """Count the usage of a step of this kind."""
        self.usage += usage
        self._largest[kind] = max(self._largest.get(kind, 0.0), self._measure(usage))

    @asynccontextmanager
    async def paying(self, kind: str) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait until the budget covers a step of this kind; yield a function to call with its usage.

        Raises:
            LimitReached: the budget does not cover it.
        """
        async with self._changed:
            while self._under_way and not self._covers(kind):
                await self._changed.wait()
            if not self._covers(kind):
                raise LimitReached(f"the budget of {self._told()} does not cover more", hint="allow more: --budget")
            self._under_way.append(kind)
        try:
            yield lambda usage: self.count(kind, usage)
        finally:
            async with self._changed:
                self._under_way.remove(kind)
                self._changed.notify_all()

    def _covers(self, kind: str) -> bool:
        """Return whether one more step is covered; the first of a kind runs alone, since its cost is unknown."""
        most = self.limits.tokens if self.limits.dollars is None else self.limits.dollars
        if most is None:
            return True
        if kind in self._under_way and kind not in self._largest:
            return False
        planned = sum(self._largest.get(one, 0.0) for one in (*self._under_way, kind))
        return self._measure(self.usage) + planned <= most and not self.is_used_up

    def _measure(self, usage: Usage) -> float:
        return (usage.cost or 0.0) if self.limits.dollars is not None else _tokens(usage)

    def _told(self) -> str:
        limits, used = self.limits, self.usage
        money = "" if limits.dollars is None else f"${limits.dollars:g} (${used.cost or 0.0:.4f} spent)"
        tokens = "" if limits.tokens is None else f"{limits.tokens:,} tokens ({_tokens(used):,} spent)"
        return " and ".join(filter(None, (money, tokens)))


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


@dataclass(frozen=True, slots=True)
class BudgetedModel:
    """A model that answers as long as a budget lasts; several may share one.

    >>> import asyncio
    >>> from lmm.messages import Message
    >>> from lmm.models.port import ask
    >>> from lmm.testing import ScriptedModel
    >>> model = BudgetedModel(ScriptedModel(["Yes.", "No."]), SharedBudget.of("3"))
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it green?"),)))).text
    'Yes.'
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it red?"),)))).text
    Traceback (most recent call last):
    lmm.errors.LimitReached: the run used up its budget of 3 tokens (4 spent) (allow more: --budget; in Python budget=…)
    """

    model: ChatModel
    budget: SharedBudget

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def journaled(self) -> bool:
        """See `lmm.models.port.is_journaled`."""
        return is_journaled(self.model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Send a request, and count its usage.

        Raises:
            LimitReached: nothing is left.
        """
        self.budget.begin(self.name)
        async with aclosing(self.budget.counted(self.model, request)) as events:
            async for event in events:
                yield event
