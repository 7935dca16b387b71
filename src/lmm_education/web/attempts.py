"""Wrong passwords are slowed down, by address and by name, without locking out a class that shares an address.

Only wrong ones count. A browser in which somebody has logged in before has a measure of its own: who guesses at his
name from elsewhere does not keep him out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lmm_education.web.limits import Buckets
from lmm_education.web.signing import Signer


@dataclass(slots=True)
class Attempts:
    """Counts attempts to log in; threads may share it. `clock` is in seconds, and never goes back."""

    signer: Signer
    clock: Callable[[], float] = time.monotonic
    by_address: Buckets = field(default_factory=lambda: Buckets(burst=30, every=6))
    by_name: Buckets = field(default_factory=lambda: Buckets(burst=6, every=30))
    by_browser: Buckets = field(default_factory=lambda: Buckets(burst=6, every=30))

    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, name: str, address: str, known: str = "") -> float:
        """Count an attempt as wrong until `succeed` says otherwise; seconds to wait, 0 if it may be made now.

        `known` is the mark of a browser in which this name has logged in before.
        """
        now = self.clock()
        with self._lock:
            if known:
                return self.by_browser.take(known, now)
            wait = self.by_address.take(address, now)
            if wait > 0 or not name:
                return wait
            wait = self.by_name.take(name, now)
            if wait > 0:
                self.by_address.give_back(address)
            return wait

    def succeed(self, name: str, address: str, known: str = "") -> None:
        """The attempt was right: it does not count."""
        with self._lock:
            if known:
                self.by_browser.give_back(known)
                return
            self.by_address.give_back(address)
            if name:
                self.by_name.give_back(name)

    def mark(self, name: str, browser: str) -> str:
        """What a browser keeps after `name` logged in with it; with the course's password, the name is empty."""
        return self.signer.sign("device", self.signer.pseudonym("device", f"{browser} {name}"))

    def known(self, name: str, browser: str, shown: str) -> str:
        """What a browser that shows this mark is counted by; nothing if `name` has not logged in with it."""
        return browser if browser and shown == self.mark(name, browser) else ""
