"""Sessions: what a browser shows after a login. All is in the cookie, signed, but for those that were ended early."""

from __future__ import annotations

import base64
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lmm.errors import FileWriteError
from lmm_education.web.logins import Logins
from lmm_education.web.signing import Signer


@dataclass(frozen=True, slots=True)
class Session:
    """A login that counts until `expires` (seconds since 1970); the name is empty with the course's password."""

    id: str
    expires: int
    name: str = ""


class Sessions:
    """Begins, reads and ends sessions; `clock` tells the time in seconds since 1970.

    The file `ended` grows by a line with each logout; those that are over anyway are not remembered.
    """

    def __init__(self, signer: Signer, ended: Path, hours: int, clock: Callable[[], float] = time.time) -> None:
        self.seconds = hours * 3600
        self._signer, self._file, self._clock = signer, ended, clock
        self._ended: frozenset[str] = frozenset()
        self._stamp = (0, 0)

    def begin(self, name: str, logins: Logins) -> str:
        """A new session for who has shown the password, as it goes into the cookie."""
        kept = logins.kept(name)
        assert kept is not None
        expires = int(self._clock()) + self.seconds
        written = base64.urlsafe_b64encode(name.encode()).decode()
        return self._signer.sign("session", f"{secrets.token_urlsafe(16)}:{expires}:{self._mark(kept)}:{written}")

    def read(self, signed: str, logins: Logins) -> Session | None:
        """The session of a cookie; None if it is none of ours, over, or from before the password was changed."""
        text = self._signer.read("session", signed) if signed else None
        if text is None:
            return None
        id, expires, mark, written = text.split(":")
        name = base64.urlsafe_b64decode(written).decode()
        kept = logins.kept(name)
        if kept is None or mark != self._mark(kept) or int(expires) <= self._clock() or self._has_ended(id):
            return None
        return Session(id, int(expires), name)

    def end(self, session: Session) -> None:
        """Let a session not count any more, wherever its cookie is.

        Raises:
            FileWriteError: that cannot be kept.
        """
        try:
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as opened:
                opened.write(f"{session.id} {session.expires}\n")
        except OSError as error:
            raise FileWriteError(f"cannot be written: {error.strerror}", where=str(self._file)) from error

    def _has_ended(self, id: str) -> bool:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return False
        if (stamp := (found.st_mtime_ns, found.st_size)) != self._stamp:
            lines = [line.split() for line in self._file.read_text(encoding="ascii").splitlines()]
            now = self._clock()
            self._ended = frozenset(line[0] for line in lines if len(line) == 2 and int(line[1]) > now)
            self._stamp = stamp
        return id in self._ended

    def _mark(self, kept: str) -> str:
        """What ties a session to the password of its login."""
        return self._signer.pseudonym("login", kept)
