"""Limits of requests, tokens and money, shared by all requests that serve one purpose."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from lmm.errors import ConfigError, LimitReached, LmmError
from lmm.messages import ChatEvent, ChatRequest, Notice, Reply, TextDelta, Usage
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

    A request is sent only if the budget covers its estimated input and that of the requests in progress (`begin`); its
    reply may still exceed the budget (`excess`). A step, such as a run or a judgement, begins only if the budget covers
    it and the steps in progress (`paying`): its input where that is known, and the largest cost so far of its kind.

    >>> from lmm.messages import Message
    >>> budget, request = SharedBudget(UsageLimits(tokens=5)), ChatRequest((Message("user", "Is a leaf green?"),))
    >>> budget.begin("Builtin/extractive", request)
    Usage(input_tokens=4, output_tokens=0, cost=0.0, requests=1, estimated=True, cached_tokens=0)
    >>> budget.add("Builtin/extractive", Usage(4, 3, None, 1)).cost, budget.excess
    (0.0, 'the budget of 5 tokens (7 spent) is exceeded by 2 tokens')
    """

    def __init__(self, limits: UsageLimits = UsageLimits()) -> None:
        self.limits = limits
        self.usage = Usage()
        self.turns = 0
        self._largest: dict[str, float] = {}
        self._under_way: list[tuple[str, Usage]] = []
        self._sent: list[Usage] = []
        self.refused = False
        """Whether the budget did not cover a request."""
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

    def begin(self, model: str, request: ChatRequest) -> Usage:
        """Count a request that is about to be made, and reserve its estimated input, which is returned.

        Raises:
            LimitReached: the number of requests is used up, or the budget does not cover the request.
        """
        self.limits.check_price(model)
        if self.limits.turns is not None and self.turns >= self.limits.turns:
            requests = "1 request" if self.turns == 1 else f"{self.turns} requests"
            raise LimitReached(f"the run made {requests}, the limit", hint="allow more: --max-turns")
        needed = estimated(request, Reply("", model))
        limits, planned = self.limits, sum((*self._sent, needed), self.usage)
        if self.is_used_up or _over(limits.tokens, _tokens(planned)) or _over(limits.dollars, planned.cost):
            raise self._refusal(needed)
        self.turns += 1
        self._sent.append(needed)
        return needed

    def add(self, model: str, usage: Usage) -> Usage:
        """Count the usage of a request, and return it with its price, where that is known."""
        cost = usage.cost if usage.cost is not None else price(model, usage)
        priced = replace(usage, cost=cost)
        self.usage += priced
        return priced

    async def counted(self, model: ChatModel, request: ChatRequest, reserved: Usage) -> AsyncGenerator[ChatEvent]:
        """Send a request that was begun and count its usage, estimated if its reply is cancelled or breaks off.

        The reply's usage has its price; if it exceeds the budget, a notice comes before it.
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
                        if self.excess:
                            yield Notice(self.excess)
                    yield event
        except BaseException as error:
            if usage is None and (came or not isinstance(error, LmmError)):
                self.add(model.name, estimated(request, Reply(came, model.name)))
            raise
        finally:
            self._sent.remove(reserved)

    @property
    def excess(self) -> str:
        """By how much the budget is exceeded; empty if it is not."""
        limits, used = self.limits, self.usage
        tokens, dollars = _over(limits.tokens, _tokens(used)), _over(limits.dollars, used.cost)
        by = " and ".join([f"${dollars:.4f}"] * (dollars > 0) + [f"{tokens:,} tokens"] * (tokens > 0))
        return by and f"the budget of {self._stated()} is exceeded by {by}"

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
    async def paying(self, kind: str, needed: Usage = Usage()) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait until the budget covers a step of this kind that needs at least this; yield a function to call with its
        usage.

        Raises:
            LimitReached: the budget does not cover it.
        """
        async with self._changed:
            while self._under_way and not self._covers(kind, needed):
                await self._changed.wait()
            if not self._covers(kind, needed):
                raise self._refusal(needed)
            self._under_way.append((kind, needed))
        try:
            yield lambda usage: self.count(kind, usage)
        finally:
            async with self._changed:
                self._under_way.remove((kind, needed))
                self._changed.notify_all()

    def _covers(self, kind: str, needed: Usage) -> bool:
        """Return whether one more step is covered; the first of a kind runs alone, since its cost is unknown."""
        most = self.limits.tokens if self.limits.dollars is None else self.limits.dollars
        if most is None:
            return True
        if kind not in self._largest and any(one == kind for one, _ in self._under_way):
            return False
        steps = (*self._under_way, (kind, needed))
        planned = sum(max(self._largest.get(one, 0.0), self._measure(least)) for one, least in steps)
        return self._measure(self.usage) + planned <= most and not self.is_used_up

    def _measure(self, usage: Usage) -> float:
        return (usage.cost or 0.0) if self.limits.dollars is not None else _tokens(usage)

    def _refusal(self, needed: Usage) -> LimitReached:
        """Return the error for a request, or a step, that the budget does not cover."""
        self.refused = True
        money = "" if self.limits.dollars is None else f" (${needed.cost or 0.0:.4f})"
        what = f"this request of about {_tokens(needed):,} tokens{money}" if needed.requests else "more"
        return LimitReached(f"the budget of {self._stated()} does not cover {what}", hint="allow more: --budget")

    def _stated(self) -> str:
        limits, used = self.limits, self.usage
        money = "" if limits.dollars is None else f"${limits.dollars:g} (${used.cost or 0.0:.4f} spent)"
        tokens = "" if limits.tokens is None else f"{limits.tokens:,} tokens ({_tokens(used):,} spent)"
        return " and ".join(filter(None, (money, tokens)))


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _over(limit: float | None, used: float | None) -> float:
    return 0 if limit is None else max((used or 0) - limit, 0)


@dataclass(frozen=True, slots=True)
class BudgetedModel:
    """A model that answers as long as a budget lasts; several may share one.

    >>> import asyncio
    >>> from lmm.messages import Message
    >>> from lmm.models.port import ask
    >>> from lmm.testing import ScriptedModel
    >>> model = BudgetedModel(ScriptedModel(["Yes.", "No."]), SharedBudget.of("6"))
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it green?"),)))).text
    'Yes.'
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it red?"),)))).text
    Traceback (most recent call last):
    lmm.errors.LimitReached: the budget of 6 tokens (4 spent) does not cover this request of about 3 tokens (allow ...)
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
            LimitReached: the budget does not cover the request.
        """
        reserved = self.budget.begin(self.name, request)
        async with aclosing(self.budget.counted(self.model, request, reserved)) as events:
            async for event in events:
                yield event
