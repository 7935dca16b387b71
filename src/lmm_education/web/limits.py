"""How often something may be done: token buckets, one for each name. Time is given, in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_MOST = 20_000  # names that are remembered
_ROUNDING = 1e-6  # seconds


@dataclass(slots=True)
class Buckets:
    """`burst` at once, and after that one every `every` seconds; for each name by itself.

    >>> buckets = Buckets(burst=2, every=10)
    >>> [buckets.take("ada", now=0.0) for _ in range(3)], buckets.take("bob", now=0.0)
    ([0.0, 0.0, 10.0], 0.0)
    >>> buckets.take("ada", now=11.0), buckets.take("ada", now=11.0)
    (0.0, 9.0)
    """

    burst: float
    every: float
    _full_at: dict[str, float] = field(default_factory=dict)  # when a name's bucket will be full again

    def take(self, name: str, now: float, *, burst: float | None = None, every: float | None = None) -> float:
        """Take one: 0, or if there is none, the seconds until there will be. A name may have its own measure."""
        every = every or self.every
        wait = self._waits(name, now, burst or self.burst, every)
        if wait <= _ROUNDING:
            self._make_room(now)
            self._full_at[name] = max(self._full_at.get(name, now), now) + every
            return 0.0
        return wait

    def give_back(self, name: str, *, every: float | None = None) -> None:
        """Undo a `take`."""
        if name in self._full_at:
            self._full_at[name] -= every or self.every

    def _waits(self, name: str, now: float, burst: float, every: float) -> float:
        missing = max(0.0, self._full_at.get(name, now) - now)  # seconds until the bucket is full
        return missing - (burst - 1) * every

    def _make_room(self, now: float) -> None:
        """Forget full buckets; if that does not help, those that are nearest to it."""
        if len(self._full_at) < _MOST:
            return
        left = sorted((at, name) for name, at in self._full_at.items() if at > now)
        self._full_at = {name: at for at, name in left[-_MOST // 2 :]}


def whole_seconds(wait: float) -> int:
    """For ``Retry-After``.

    >>> whole_seconds(0.2), whole_seconds(9.0)
    (1, 9)
    """
    return max(1, math.ceil(wait))
