"""How much longer every function that takes a text needs for a longer one; each call in a process that can be ended.

python tests/growth.py [PART]    a line for each function, of modules with PART in their names, that grows too fast
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import mmap
import multiprocessing
import os
import pkgutil
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

PACKAGES = ("lmm", "lmm_education", "chatmd")
EXCEPT = {
    "lmm.models.builtin._overlap": "the product of 500 and 2,000 characters, a tenth of a second at most",
    "lmm_education.course.query": "opens the course of the current folder: `ask` and `search` are what grows",
    "lmm_education.web.login": "a hash of a password takes its time on purpose",
    "lmm.terminal.word_diff": "a text of few words is compared in quadratic time, half a second at most",
    "lmm.permissions._is_outside": "from 3.12 on, Python follows a path part by part, each from the root",
    "lmm_education.agent_tools.course_folder": "the same",
    "lmm_education.ingestion.source_files._is_inside": "the same",
    "chatmd.refine.cases._loaded": "the same",
    "lmm.config_tables._parsed": "tomllib adds the parts of a dotted key one by one",
    "lmm.config_tables.read_toml": "the same",
    "lmm.config_files.converted": "the same",
    "lmm.config_files._comment": "the descriptions of our own settings, wrapped by textwrap",
}
# fmt: off
_LINES = (
    "", "\r", "---", "a:", "a: b", "- a", "1. a", "# a", "> a", "| a |", "|---|", "```", "~~~", "    a", "    ", "a\n",
    "::: a", ":::", "<user>", "?: a", "[a]: b", "a =", "@a{b,", "*.a", "[b](c.png)",
)
_MARKS = (
    "[", "]", "(", ")", "{", "}", "<", ">", "{{", "[[", "](", "![", "![](", "[^", "^[", "[@", "{#", "<!--", "-->", "</",
    "<a ", "*", "**", "_", "__", "~", "-", "--", "`", "`a ", "$", "$$", "$a ", "\\", "\\(", "\\[", "\\a{", "|", "| a ",
    ":", ":::", "=", "@", "&", "&#", "#", "!", "?", "+", "/", ".", ",", ";", "%", "^", '"', "'", " ", "\t", "\0", "a",
    "a ", "a_", "a,", "a.b", "a='b' ", '"a":', "{a:", "1", "1.", "é", "😀", "…", "。", "../", "http://", "a@b.",
)
_BETWEEN = (
    ("# ", " ", "x\n"), ("a\n", " ", "x"), ("a", "\n", "a"), ("[a](", "(", "\n"), ("| a |\n|", "-", "\na"),
    ("`", "a", "\n"), ("---\n", "a: b\n", "---\n"), ("$", "\\a", "\n"), ("{#", "a ", "\n"), ("<a b='", "a", "\n"),
    ("```", "`", "\na\n"),
)
# fmt: on
UNITS = (*(("", f"{line}\n", "") for line in _LINES), *(("", mark, "") for mark in _MARKS), *_BETWEEN)
"""What a text repeats: lines, marks, and what stands between a beginning and an end."""
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
SIZES = (500, 2_000, 16_000)
FAST = (0.0001, 0.0006)  # seconds: who takes no more for the first two sizes is not asked for the next
SUSPECT = 5.0  # times as long for the second size as for the first: who takes less is not asked for the last
SLOW, GROWTH = 0.04, 20.0  # seconds for the last, and as multiple of the second: the square takes 64 times as long
ATTEMPTS = 3  # before the last size is asked for
KILLED = 2.0  # seconds after which a call is ended


class Slow(NamedTuple):
    """A function that needs more time than its text is longer: seconds for 2 and 16 kB; it may have been ended."""

    name: str
    unit: tuple[str, str, str]
    small: float
    large: float

    def __str__(self) -> str:
        return f"{self.name}({' … '.join(map(repr, self.unit))}): {self.small:.3f} s, then {self.large:.3f} s"


def functions(part: str = "") -> dict[str, Callable[..., object]]:
    """The functions whose first parameter is a text, and that need nothing else but what `_values` knows."""
    found: dict[str, Callable[..., object]] = {}
    for package in PACKAGES:
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if part not in info.name or "__main__" in info.name:
                continue
            for name, value in vars(importlib.import_module(info.name)).items():
                if f"{info.name}.{name}".startswith(tuple(EXCEPT)):
                    continue
                function = inspect.unwrap(value) if callable(value) else None
                if inspect.isfunction(function) and function.__module__ == info.name and _values(function, "a"):
                    found[f"{info.name}.{name}"] = function
    return found


TEXTS = {"text", "old", "new", "ours", "theirs", "other", "after", "changed", "later", "reply", "inner", "knitted"}
_VALUES: dict[str, Any] = {
    **{"int": 0, "float": 0.0, "bool": False, "bytes": b"", "Path": Path("a.md"), "object": None, "Any": None},
    **{"Sequence": (), "Collection": (), "Iterable": (), "Set": frozenset(), "list": [], "tuple": ()},
    **{"Mapping": {}, "dict": {}},
}


def _values(function: Callable[..., object], text: str) -> list[Any]:
    """A value for each parameter that needs one, of which the first is a text; empty where one is not known."""
    values: list[Any] = []
    if inspect.iscoroutinefunction(function):
        return values
    for parameter in _parameters(function):
        kind = str(parameter.annotation).partition("[")[0]
        if parameter.default is not parameter.empty or parameter.kind > parameter.POSITIONAL_OR_KEYWORD:
            continue
        if kind == "str":
            values.append(text if not values or parameter.name in TEXTS else "a")
        elif values and kind in _VALUES:
            values.append(_VALUES[kind])
        else:
            try:  # settings are what they are by default
                values.append(function.__globals__[kind]() if values else function.__globals__[""])
            except Exception:
                return []
    return values


@cache
def _parameters(function: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def units(name: str) -> Iterator[tuple[str, str, str]]:
    """The units that a function is tried with: all of them, or, where time is short, a part that its name decides.

    A private function is called by public ones, which are tried with others.
    """
    share = 1 if THOROUGH else 10 if name.rpartition(".")[2].startswith("_") else 4
    first = crc32(name.encode())
    return (unit for number, unit in enumerate(UNITS, first) if number % share == 0)


def slow(part: str = "") -> Iterator[Slow]:
    """The functions of modules with `part` in their names that grow faster than their text; one unit for each."""
    called = functions(part)
    rest = list(called)
    gc.freeze()
    context = multiprocessing.get_context("fork")
    now = mmap.mmap(-1, 8)  # what is called: the numbers of a function and of a unit
    while rest:
        reading, writing = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(writing, now, {name: called[name] for name in rest}))
        worker.start()
        writing.close()
        with contextlib.suppress(EOFError):
            while True:
                yield reading.recv()
        worker.join()
        number, unit = struct.unpack("ii", now[:])
        ended = Slow(rest[number], UNITS[unit], KILLED, KILLED)
        if worker.exitcode == -signal.SIGPROF:
            yield ended
        else:
            assert worker.exitcode == 0, f"{ended} ended with {worker.exitcode}"
        rest = rest[number + 1 :]


def _work(writing: Connection, now: mmap.mmap, called: dict[str, Callable[..., object]]) -> None:
    """Call each function with each of its units, and tell of it if it was slow. A call without end ends this."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with Path(os.devnull).open("r+") as nothing:
        for stream in range(3):
            os.dup2(nothing.fileno(), stream)
    sys.addaudithook(_keep_inside)
    gc.disable()  # it comes when it likes, and takes as long as all that is there is large
    for number, (name, function) in enumerate(called.items()):
        gc.collect()
        for unit in units(name):
            now[:] = struct.pack("ii", number, UNITS.index(unit))
            if (grown := _grown(function, unit)) and (again := _grown(function, unit)):
                writing.send(Slow(name, unit, *min(grown, again, key=lambda each: each[1] / each[0])))
                break
    signal.setitimer(signal.ITIMER_PROF, 0)


def _grown(function: Callable[..., object], unit: tuple[str, str, str]) -> tuple[float, float] | None:
    """The seconds for 2 and for 16 kB, if they grow too fast.

    The processor's clock ticks every 4 ms on some machines, so what is short is measured by the other one.
    """
    small, medium, large = SIZES
    before, after = _seconds(function, unit, small), KILLED
    if before < FAST[0]:
        return None
    for _ in range(ATTEMPTS):  # what else runs on the machine takes time now and then
        after = min(after, _seconds(function, unit, medium))
        if after < max(FAST[1], before * SUSPECT):
            return None
        before = min(before, _seconds(function, unit, small))
    last = _seconds(function, unit, large, time.process_time)
    return (after, last) if last > max(SLOW, after * GROWTH) else None


@lru_cache(maxsize=1)
def _forgetting() -> tuple[Callable[[], None], ...]:
    """What empties the caches of results that depend on a text."""
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES]
    cached = {id(value): value for module in ours for value in vars(module).values() if hasattr(value, "cache_clear")}
    return tuple(value.cache_clear for value in cached.values() if inspect.signature(value).parameters)


def _seconds(
    function: Callable[..., object],
    unit: tuple[str, str, str],
    size: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    before, repeated, after = unit
    values = _values(function, before + (repeated * size)[:size] + after)
    for forget in _forgetting():
        forget()  # else what was read before, by another function too, would take no time
    signal.setitimer(signal.ITIMER_PROF, KILLED)
    started = clock()
    with contextlib.suppress(BaseException):  # that such a text is refused is none of this test's business
        result = function(*values)
        if isinstance(result, Iterator):
            deque(result, maxlen=0)
    return clock() - started


def is_linear(work: Callable[[str], object], piece: str, before: str = "", after: str = "") -> bool:
    """Whether a text with `piece` four times as often takes less than eight times as long; the square takes sixteen."""
    count = max(1, 20_000 // len(piece))
    while (one := _user_seconds(work, before + piece * count + after)) < 0.004:
        if count * len(piece) > 300_000:
            return True  # 300,000 characters in 4 ms: nothing but linear
        count *= 2
    more = before + piece * 4 * count + after
    return any(_user_seconds(work, more) < 8 * one for _ in range(3))


def _user_time() -> float:
    return time.process_time() if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_utime


def _user_seconds(work: Callable[[str], object], text: str) -> float:
    """Processor time of our own: what the system takes to hand out memory jumps at sizes that are not ours."""
    gc.disable()  # its full collections grow with everything that is alive, the tests included
    try:
        start = _user_time()
        work(text)
        return _user_time() - start
    finally:
        gc.enable()


def _keep_inside(event: str, given: tuple[Any, ...]) -> None:
    """Let nobody who is called write, talk, wait, or start something: who wants that is no function of a text."""
    reads = event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if not reads and event.startswith(("open", "os.", "socket.", "subprocess.", "shutil.", "time.sleep", "signal.")):
        raise PermissionError(event)


if __name__ == "__main__":
    for one in slow(*sys.argv[1:]):
        sys.stdout.write(f"{one}\n")
