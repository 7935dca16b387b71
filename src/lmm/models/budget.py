"""What may be used, by all that is asked for one purpose together: requests, tokens, money."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

from lmm.errors import ConfigError, LimitReached
from lmm.messages import ChatEvent, ChatRequest, Reply, Usage
from lmm.models.port import ChatModel, is_journaled
from lmm.models.tokens import price

_TOKENS = re.compile(r"(\d{1,3}(?:[_,]\d{3})+|\d+(?:\.\d+)?)\s*(k|m)?(?:\s*tokens?)?", re.IGNORECASE)
_MONEY = re.compile(r"\$\s*(\d+(?:\.\d+)?|\.\d+)|(\d+(?:\.\d+)?|\.\d+)\s*(?:\$|USD|dollars?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """None is no limit. `turns` counts requests to models; `tokens` those sent and received; `dollars` is US money."""

    turns: int | None = None
    tokens: int | None = None
    dollars: float | None = None

    def check_price(self, model: str) -> None:
        """Before anything is paid: money can only be counted where prices are known.

        Raises:
            LimitReached: there is a limit in dollars, and nobody knows what `model` costs.
        """
        if self.dollars is not None and price(model, Usage(1000, 1000)) is None:
            raise LimitReached(f"the price of {model} is not known here", hint="give the budget in tokens")


def parse_budget(text: str) -> UsageLimits:
    """A budget as people write it: tokens, or US dollars.

    Raises:
        ConfigError: it is neither.

    >>> parse_budget("20000").tokens, parse_budget("20k").tokens, parse_budget("0.50$").dollars
    (20000, 20000, 0.5)
    """
    if found := _MONEY.fullmatch(text.strip()):
        return UsageLimits(dollars=float(found[1] or found[2]))
    if found := _TOKENS.fullmatch(text.strip()):
        unit = {"": 1, "k": 1000, "m": 1_000_000}[(found[2] or "").lower()]
        tokens = float(found[1].replace("_", "").replace(",", "")) * unit
        if tokens >= 1 and tokens.is_integer():
            return UsageLimits(tokens=int(tokens))
    raise ConfigError(f"'{text}' is no budget", where="--budget", hint="write tokens (20000) or dollars (0.50$)")


@dataclass(slots=True)
class UsageTally:
    """What was used so far by a run and the agents below it. All of them hold the same one.

    >>> tally = UsageTally(UsageLimits(turns=1))
    >>> tally.begin("Builtin/extractive")
    >>> tally.add("Builtin/extractive", Usage(10, 2, None, 1)).cost
    0.0
    >>> tally.begin("Builtin/extractive")
    Traceback (most recent call last):
    lmm.errors.LimitReached: the run made 1 request, as many as it may (allow more: --max-turns)
    """

    limits: UsageLimits = UsageLimits()
    usage: Usage = field(default_factory=Usage)
    turns: int = 0

    def begin(self, model: str) -> None:
        """Count a request that is about to be made.

        Raises:
            LimitReached: it would be one too many, or what it may use up is used.
        """
        limits, usage = self.limits, self.usage
        limits.check_price(model)
        if limits.turns is not None and self.turns >= limits.turns:
            requests = "1 request" if self.turns == 1 else f"{self.turns} requests"
            raise LimitReached(f"the run made {requests}, as many as it may", hint="allow more: --max-turns")
        tokens = usage.input_tokens + usage.output_tokens
        if limits.tokens is not None and tokens >= limits.tokens:
            raise LimitReached(
                f"the run used {tokens:,} tokens, and {limits.tokens:,} is its budget", hint="allow more: --budget"
            )
        if limits.dollars is not None and (usage.cost or 0.0) >= limits.dollars:
            raise LimitReached(
                f"the run cost ${usage.cost or 0.0:.4f}, and ${limits.dollars:g} is its budget",
                hint="allow more: --budget",
            )
        self.turns += 1

    def add(self, model: str, usage: Usage) -> Usage:
        """Count what a request used, and return it with its price, where that is known."""
        cost = usage.cost if usage.cost is not None else price(model, usage)
        priced = replace(usage, cost=cost)
        self.usage += priced
        return priced


@dataclass(frozen=True, slots=True)
class Budgeted:
    """A model that answers as long as a budget lasts; several may share a tally.

    >>> import asyncio
    >>> from lmm.messages import Message
    >>> from lmm.models.port import ask
    >>> from lmm.testing import ScriptedModel
    >>> model = Budgeted(ScriptedModel(["Yes.", "No."]), UsageTally(parse_budget("3")))
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it green?"),)))).text
    'Yes.'
    >>> asyncio.run(ask(model, ChatRequest((Message("user", "Is it red?"),)))).text
    Traceback (most recent call last):
    lmm.errors.LimitReached: the run used 4 tokens, and 3 is its budget (allow more: --budget)
    """

    model: ChatModel
    tally: UsageTally

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def journaled(self) -> bool:
        """See `lmm.models.port.is_journaled`."""
        return is_journaled(self.model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Ask, and count what that used.

        Raises:
            LimitReached: nothing is left.
        """
        self.tally.begin(self.name)
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    self.tally.add(self.name, event.usage)
                yield event


class SharedBudget:
    """What was spent, and what is left. Something is begun only if what is under way, and it, will be covered.

    What a run, a judgement or a proposal will take is not known before: the largest so far of its kind counts.
    """

    def __init__(self, limits: UsageLimits = UsageLimits()) -> None:
        self.limits = limits
        self.usage = Usage()
        self._largest: dict[str, float] = {}
        self._under_way: list[str] = []
        self._changed = asyncio.Condition()

    @classmethod
    def of(cls, budget: str | SharedBudget) -> SharedBudget:
        """A budget as people write it, the empty text for none, or one that is shared already.

        Raises:
            ConfigError: the text is no budget.
        """
        if isinstance(budget, SharedBudget):
            return budget
        return cls(parse_budget(budget)) if budget else cls()

    def left(self) -> UsageLimits:
        """What may still be spent."""
        tokens = None if self.limits.tokens is None else max(self.limits.tokens - int(self._spent()), 0)
        dollars = None if self.limits.dollars is None else max(self.limits.dollars - self._spent(), 0.0)
        return UsageLimits(None, tokens, dollars)

    def count(self, kind: str, usage: Usage) -> None:
        """Something was paid."""
        self.usage += usage
        self._largest[kind] = max(self._largest.get(kind, 0.0), self._measure(usage))

    @asynccontextmanager
    async def paying(self, kind: str) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait until it is sure that this can be paid; what comes out is told what it was.

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
        """Whether one more is covered; nothing runs beside the first of a kind, of which nobody knows what it takes."""
        most = self.limits.tokens if self.limits.tokens is not None else self.limits.dollars
        if most is None:
            return True
        if kind in self._under_way and kind not in self._largest:
            return False
        planned = sum(self._largest.get(one, 0.0) for one in (*self._under_way, kind))
        return self._spent() + planned <= most and self._spent() < most

    def _spent(self) -> float:
        return self._measure(self.usage)

    def _measure(self, usage: Usage) -> float:
        return (usage.cost or 0.0) if self.limits.dollars is not None else usage.input_tokens + usage.output_tokens

    def _told(self) -> str:
        if self.limits.dollars is not None:
            return f"${self.limits.dollars:g} (${self._spent():.4f} spent)"
        return f"{self.limits.tokens:,} tokens ({int(self._spent()):,} spent)"
