"""What a server logs with: a thread writes, so that no answer waits for the disk, and no failure of the log is one of
the answer."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from lmm_education.errors import LogError
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.log_file import LogFile

DAY = 24 * 3600.0
_TIDY = 3600.0  # seconds between two looks for what is too old
_BUSY = 2.0  # seconds that we wait for another process that writes: a student may be waiting for us
_AGAIN = 5.0  # seconds after which what could not be written is tried again
_MOST_WAITING = 2000  # exchanges that wait for the log to be writable again
logger = logging.getLogger("lmm.serve")


@dataclass(frozen=True, slots=True)
class _Reaction:
    id: str
    student: str
    reaction: int
    comment: str
    done: Future[bool]


_Work = tuple[LoggedExchange, str] | _Reaction | None


class LogWriter:
    """Writes exchanges and reactions into a log, and deletes what is older than `days`; threads may share it.

    While the log cannot be written, exchanges wait and are tried again; beyond some thousand, the oldest are given up.
    That is told once, and once again when it is over. `lost` counts those given up, `failures` the tries that failed;
    `is_failing`: the last did.
    """

    def __init__(
        self,
        file: Path,
        *,
        days: int,
        clock: Callable[[], float] = time.time,
        again: float = _AGAIN,
        busy: float = _BUSY,
    ) -> None:
        self.file, self.days = file, days
        self.lost = self.failures = 0
        self._clock, self._again, self._busy = clock, again, busy
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._waiting: deque[tuple[LoggedExchange, str]] = deque()
        self._open: LogFile | None = None
        self.is_failing = False
        self._tidied = float("-inf")
        self._thread = threading.Thread(target=self._run, name="lmm-log", daemon=True)
        self._thread.start()

    def add(self, exchange: LoggedExchange, student: str) -> None:
        """Log an exchange of that student, soon."""
        self._work.put((exchange, student))

    def react(self, id: str, student: str, reaction: int, comment: str) -> Future[bool]:
        """Set a reaction: whether there is such an exchange of that student; raises `LogError` if it cannot be kept."""
        done: Future[bool] = Future()
        self._work.put(_Reaction(id, student, reaction, comment, done))
        return done

    def close(self) -> None:
        """Write what waits, and end; the second time does nothing."""
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()

    # -- in the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        self._try(self._tidy)
        ended = False
        while not ended:
            reactions, ended = self._take()
            written = self._try(self._write)
            for reaction in reactions:
                self._try(self._react if written else self._refuse, reaction)
            if written:
                self._try(self._tidy)
        self.lost += len(self._waiting)
        self._close()

    def _take(self) -> tuple[list[_Reaction], bool]:
        """Wait for something to do, and take all there is: exchanges to those that wait."""
        reactions: list[_Reaction] = []
        work = self._next(self._again if self._waiting else _TIDY)
        while not isinstance(work, queue.Empty):
            if work is None:
                return reactions, True
            if isinstance(work, _Reaction):
                reactions.append(work)
            else:
                self._waiting.append(work)
            work = self._next(0)
        return reactions, False

    def _next(self, timeout: float) -> _Work | queue.Empty:
        try:
            return self._work.get(timeout=timeout) if timeout else self._work.get_nowait()
        except queue.Empty as empty:
            return empty

    def _try(self, action: Callable[..., None], *values: object) -> bool:
        """Do something with the log; what fails is counted, and told the first time."""
        try:
            action(*values)
        except LogError as error:
            self.failures += 1
            if not self.is_failing:
                logger.error("%s; answers go on, and what was asked is written when that is mended", error)
            self.is_failing = True
            self._close()
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self.lost += 1
            return False
        if self.is_failing:
            self.is_failing = False
            logger.warning("the log is written again; lost: %d exchanges", self.lost)
        return True

    def _write(self) -> None:
        if self._waiting:
            self._log.add(self._waiting)
            self._waiting.clear()

    def _react(self, reaction: _Reaction) -> None:
        try:
            kept = self._log.react(reaction.id, reaction.student, reaction.reaction, reaction.comment)
        except LogError as error:
            reaction.done.set_exception(error)
            raise
        reaction.done.set_result(kept)

    def _refuse(self, reaction: _Reaction) -> None:
        """The log could not be written just now: nobody waits for another try."""
        error = LogError("the log cannot be written", where=str(self.file))
        reaction.done.set_exception(error)
        raise error

    def _tidy(self) -> None:
        now = self._clock()
        if now - self._tidied >= _TIDY:
            self._log.delete(before=now - self.days * DAY, now=now)
            self._tidied = now

    @property
    def _log(self) -> LogFile:
        if self._open is None:
            self._open = LogFile(self.file, busy=self._busy)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
