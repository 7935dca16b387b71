"""The day's budget holds over restarts and for many at once."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lmm.messages import Usage
from lmm_education.database import Database
from lmm_education.web.state import Budget, Spent

NOON = dt.datetime(2026, 11, 21, 12)


def budget(folder: Path, tokens: int = 0, cost: float = 0.0, now: dt.datetime = NOON) -> Budget:
    """A budget on disk, as a process that was just started sees it."""
    return Budget(Database(folder / "spent.sqlite"), tokens, cost, Spent(100, 0.01), now=lambda: now)


def test_what_was_spent_counts_after_a_restart(tmp_path: Path) -> None:
    """Until the next day."""
    first = budget(tmp_path, tokens=250)
    for _ in range(2):
        reservation = first.reserve()
        assert reservation is not None
        first.settle(reservation, Usage(100, 25))
    assert budget(tmp_path, tokens=250).spent() == Spent(250, 0.0)
    assert budget(tmp_path, tokens=250).reserve() is None
    assert budget(tmp_path, tokens=251).reserve() is not None
    assert budget(tmp_path, tokens=250, now=NOON + dt.timedelta(days=1)).reserve() is not None


def test_many_at_once_do_not_go_over(tmp_path: Path) -> None:
    """What is on its way counts; what was not answered stays counted."""
    shared = budget(tmp_path, tokens=1000)
    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(lambda _: shared.reserve(), range(30)))
    assert sum(one is not None for one in reserved) == 10
    assert shared.spent().tokens == 1000


def test_money(tmp_path: Path) -> None:
    """What an answer did cost takes the place of what it was expected to."""
    shared = budget(tmp_path, cost=0.02)
    reservation = shared.reserve()
    assert reservation is not None
    shared.settle(reservation, Usage(5, 5, cost=0.5))
    assert shared.reserve() is None
    assert shared.expected.cost > 0.01
    assert shared.until_tomorrow() == 12 * 3600
