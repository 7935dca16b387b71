"""The budget of a refinement, held over everything: the runs, the judge, the proposals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from chatmd.errors import LimitReached
from lmm.messages import Usage
from lmm.models.budget import Limits


class Purse:
    """What was spent, and what is left. Something is begun only if what is under way, and it, will be covered.

    What a run, a judgement or a proposal will take is not known before: the largest so far of its kind counts.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.usage = Usage()
        self._largest: dict[str, float] = {}
        self._under_way: list[str] = []
        self._changed = asyncio.Condition()

    def left(self) -> Limits:
        """What may still be spent."""
        tokens = None if self.limits.tokens is None else max(self.limits.tokens - int(self._spent()), 0)
        dollars = None if self.limits.dollars is None else max(self.limits.dollars - self._spent(), 0.0)
        return Limits(None, tokens, dollars)

    def count(self, kind: str, usage: Usage) -> None:
        """Something was paid, now or when it was recorded."""
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
