"""The gate before whatever asks a model or compares texts: the student's limit, the queue, the day's budget.

Endpoints call `CourseGate.admit` before they begin, and do the work inside of `CourseGate.passing`; or, for an answer
whose place in the queue is shown, inside of `CourseGate.spending` when its turn has come.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from lmm.errors import LmmError
from lmm.messages import Usage
from lmm_education.config import ServeSettings
from lmm_education.database import Database
from lmm_education.options import SearchOptions
from lmm_education.search.query import SearchResult
from lmm_education.search.search import CourseSearch
from lmm_education.web.http import too_soon
from lmm_education.web.questions import Queue
from lmm_education.web.state import Budget, Reservation, Spent, seconds_to_wait

NEARLY_SPENT = 0.8
"""The share of the day's budget above which the server's log and the teacher's page show a warning."""
_LEAST = 3  # questions allowed at once
_QUIET = 60.0  # seconds without the same failure after which it is reported again
_ONCE = math.inf
logger = logging.getLogger("lmm.serve")


class Reports:
    """Which warnings were logged already: an outage is one line in the log, not one for each question."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}

    def is_new(self, what: Hashable, quiet: float = _QUIET) -> bool:
        """Return whether this was not reported within the last `quiet` seconds, nor has happened since.

        >>> reports = Reports()
        >>> reports.is_new("no database"), reports.is_new("no database")
        (True, False)
        """
        last, self._last[what] = self._last.get(what), time.monotonic()
        return last is None or time.monotonic() - last > quiet


class CourseGate:
    """The gate of one course. `queue` is None for a caller who waits for nobody, `limiter` where nobody is known."""

    def __init__(
        self,
        settings: ServeSettings,
        database: Database,
        expected: Spent,
        queue: Queue | None = None,
        limiter: MovingWindowRateLimiter | None = None,
    ) -> None:
        """Open the gate; `expected` is the usage of an answer before any is known.

        Raises:
            FileReadError: the server's database cannot be used.
        """
        self.settings, self.queue, self.reports = settings, queue or Queue(10_000), Reports()
        self._limiter = limiter
        self.budget: Budget | None = None
        if settings.daily_tokens or settings.daily_cost:
            self.budget = Budget(database, settings.daily_tokens, settings.daily_cost, expected)
            self.budget.spent()  # raises if it cannot be read

    async def admit(self, student: str, limit: int, refusal: str) -> None:
        """Count a request of a student who may send `limit` a minute (0: any number), half of them at once.

        Raises:
            Denied: there were too many; `refusal` says so.
        """
        if not limit or self._limiter is None:
            return
        burst = max(_LEAST, limit // 2)
        item = RateLimitItemPerSecond(burst, math.ceil(60 * burst / limit))
        counted = self._limiter, item, "asked", student
        try:  # a thread is worth it only if the limits are counted on another server
            in_memory = isinstance(self._limiter.storage, MemoryStorage)
            wait = seconds_to_wait(*counted) if in_memory else await asyncio.to_thread(seconds_to_wait, *counted)
        except StorageError as error:  # a failing counter is the teacher's concern, not the student's
            if self.reports.is_new(type(error).__name__):
                logger.error("%s: %s; until it works, nobody is limited", type(error).__name__, error)
            return
        if wait:
            raise too_soon(refusal, wait, code="rate_limit_exceeded")

    @asynccontextmanager
    async def passing(self, refusal: str, *, asks_model: bool = True) -> AsyncGenerator[Spending]:
        """Wait in the queue, and count what is used; with `asks_model` false, no model is asked.

        Raises:
            Denied: the day's budget is used up; `refusal` says so.
        """
        with self.queue.turn() as turn:
            ahead = -1
            while (ahead := await self.queue.ahead(turn, ahead)) > 0:
                pass
            if not asks_model:
                yield Spending(self)
                return
            async with self.spending(refusal) as spending:
                yield spending

    @asynccontextmanager
    async def spending(self, refusal: str) -> AsyncGenerator[Spending]:
        """Count the expected usage of an answer until its own is known. If nobody waits for it, the expected usage
        stays counted: the model was asked. A model that fails before it says anything costs nothing.

        Raises:
            Denied: the day's budget is used up.
            FileReadError: the usage cannot be counted.
        """
        spending = Spending(self, await asyncio.to_thread(self._reserve, refusal) if self.budget else None)
        try:
            yield spending
        except LmmError:
            if not spending.has_begun:
                await spending.settle(Usage())
            raise

    def _reserve(self, refusal: str) -> Reservation:
        assert self.budget is not None
        reservation = self.budget.reserve()
        spent = reservation.before if reservation else self.budget.spent()
        used = f"{spent.tokens} tokens" + (f", ${spent.cost:.2f}" if spent.cost else "")
        if reservation is not None:
            if (share := self.budget.share(spent)) >= NEARLY_SPENT:
                self.warn(f"nearly {self.budget.today}", f"{share:.0%} of today's budget is spent or reserved: {used}")
            return reservation
        self.warn(f"spent {self.budget.today}", f"the day's budget is spent: {used}")
        raise too_soon(refusal, self.budget.until_tomorrow(), code="insufficient_quota")

    def warn(self, once: str, message: str) -> None:
        """Log a warning once."""
        if self.reports.is_new(once, _ONCE):
            logger.warning("%s", message)


@dataclass(slots=True)
class Spending:
    """The usage of one answer. `has_begun`: the model has said something."""

    gate: CourseGate
    reservation: Reservation | None = None
    has_begun: bool = False
    _settled: bool = field(default=False)

    async def settle(self, usage: Usage, model: str = "") -> None:
        """Count the usage of the finished answer, once."""
        if self._settled:
            return
        self._settled, gate = True, self.gate
        if gate.settings.daily_cost and usage.requests and usage.cost is None:  # then a limit in dollars has no effect
            gate.warn("price", f"the price of {model} is not known: daily_cost does not count it, daily_tokens does")
        if self.reservation is None or gate.budget is None:
            return
        try:
            await asyncio.to_thread(gate.budget.settle, self.reservation, usage)
        except LmmError as error:  # that concerns the teacher, not the student
            if gate.reports.is_new(str(error.where)):
                logger.error("%s: %s", type(error).__name__, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedSearch(CourseSearch):
    """A search whose questions pass a gate: those of `POST /search` and of MCP clients, not those for an answer, which
    has passed it already. `refusal` is what is said when the day's budget is used up."""

    gate: CourseGate
    refusal: str

    async def asearch(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """See `CourseSearch.asearch`.

        Raises:
            Denied: the day's budget is used up.
        """
        filled = options.filled(self.course.settings.search)
        asks_model = bool(filled.expand) or filled.reranker == "model"
        async with self.gate.passing(self.refusal, asks_model=asks_model) as spending:
            result = await CourseSearch.asearch(self, question, options)
            await spending.settle(result.usage)
            return result
