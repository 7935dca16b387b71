"""How a run ends that is told to end: SIGTERM and SIGHUP are taken as Ctrl-C, so that no program stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While this is open, the first such signal raises `KeyboardInterrupt`; what cleans up is not disturbed by others.

    A signal that whoever started us ignores (``nohup``) stays ignored.
    """
    told = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = True
            if number != signal.SIGTERM:
                leave_terminal()
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_terminal() -> None:
    """The terminal has gone: what is written to it from now on goes nowhere, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if os.isatty(stream.fileno()):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
