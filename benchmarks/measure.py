"""What the benchmarks share: timing, the machine they ran on, and the rows they report."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results. `met` is None where there is no target, or nothing to measure."""

    what: str
    peer: str = ""
    ours: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """The row as texts, in the order of `HEADINGS`."""
        met = {None: "", True: "yes", False: "**no**"}[self.met]
        return self.what, self.peer, self.ours, self.ratio, self.target, met


HEADINGS = ("what", "peer in the same run", "ours", "ratio", "target", "met?")


def times(run: Callable[[], object], n: int, *, warm_up: int = 1) -> list[float]:
    """Seconds that each of `n` calls took, after `warm_up` calls that do not count."""
    for _ in range(warm_up):
        run()
    found = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def best(run: Callable[[], object], n: int, *, warm_up: int = 1) -> float:
    """The shortest of `n` calls in seconds: what the code costs, without what the machine did besides."""
    return min(times(run, n, warm_up=warm_up))


def median(run: Callable[[], object], n: int, *, warm_up: int = 1) -> float:
    """The median of `n` calls in seconds: what people wait."""
    return statistics.median(times(run, n, warm_up=warm_up))


def seconds(value: float) -> str:
    """A time for people.

    >>> seconds(0.0304), seconds(1.56)
    ('30 ms', '1.56 s')
    """
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def machine() -> str:
    """Python, cores and processor of this machine."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, {_processor()}, {platform.system()}"


def load_average() -> str:
    """How busy the machine was in the last minute: above its number of cores, no speed below means much."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.is_file() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(rows: Iterable[Row]) -> str:
    """Rows as a markdown table."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n" for cells in lines)


def show(rows: Iterable[Row]) -> None:
    """Print rows, for a benchmark that is run by itself."""
    print(table(rows), end="")
