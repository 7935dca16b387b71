"""Who may log in: signed texts, passwords, users and keys, hashed, in one file that only its owner reads; sessions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import string
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmm.disk import files
from lmm.disk.files import document_lock, read_document
from lmm.errors import ConfigError, FileReadError, FileWriteError

_PSEUDONYM = 20  # hexadecimal digits: 80 bits


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and checks with one key. What is signed for one `purpose` counts for no other."""

    key: bytes = field(repr=False)

    def sign(self, purpose: str, text: str) -> str:
        """`text`, which must be printable ASCII without blanks, commas and semicolons, with its signature.

        >>> signed = Signer(b"key").sign("student", "abc")
        >>> Signer(b"key").read("student", signed), Signer(b"key").read("session", signed)
        ('abc', None)
        """
        return f"{text}.{self._mac(purpose, text)}"

    def read(self, purpose: str, signed: str) -> str | None:
        """What was signed; None if it was not, or not by us for this purpose."""
        text, dot, mac = signed.rpartition(".")
        genuine = hmac.compare_digest(mac.encode(), self._mac(purpose, text).encode())
        return text if dot and genuine else None

    def pseudonym(self, kind: str, value: str) -> str:
        """A name for `value` that tells nothing of it without the key, the same every time.

        >>> Signer(b"key").pseudonym("name", "ada") == Signer(b"key").pseudonym("name", "ada")
        True
        >>> len(Signer(b"key").pseudonym("name", "ada"))
        20
        """
        return self._digest(f"pseudonym {kind}", value).hex()[:_PSEUDONYM]

    def _mac(self, purpose: str, text: str) -> str:
        return base64.urlsafe_b64encode(self._digest(f"signature {purpose}", text)).decode().rstrip("=")

    def _digest(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self.key, f"{purpose}\0{text}".encode("utf-8", "surrogateescape"), hashlib.sha256)


# -- passwords and keys as they are kept ------------------------------------------------------------

SHORTEST = 8
"""Characters of a password."""
KEY_MARK = "lmm-"
"""What keys for the API begin with."""
# 32 MB and 0.1 s on one core: a class of 200 that logs in at once has waited 20 s, and guessing is slowed elsewhere.
_COST = (15, 8, 1)  # binary logarithm of scrypt's N, r, p


def hash_password(password: str, salt: bytes) -> str:
    """A password as it is kept; `salt` is random, and its own.

    >>> kept = hash_password("correct horse", b"0123456789abcdef")
    >>> matches("correct horse", kept), matches("wrong horse", kept)
    (True, False)
    """
    numbers = ":".join(map(str, _COST))
    return f"scrypt:{numbers}:{_encoded(salt)}:{_encoded(_scrypt(password, salt, *_COST))}"


def matches(password: str, kept: str) -> bool:
    """Whether a password is the one that was kept; False for what was not made by `hash_password`."""
    try:
        kind, logarithm, r, p, salt, expected = kept.split(":")
        found = _scrypt(password, base64.b64decode(salt), int(logarithm), int(r), int(p))
    except (ValueError, TypeError, OverflowError):
        return False
    return kind == "scrypt" and hmac.compare_digest(_encoded(found), expected)


def hash_key(key: str) -> str:
    """A key as it is kept. Keys are random, 256 bits: there is nothing to guess, so that a fast hash will do."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(password: str, salt: bytes, logarithm: int, r: int, p: int) -> bytes:
    """The same for an ö in one character or two, as keyboards differ."""
    data = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=1 << logarithm, r=r, p=p, maxmem=1 << 28, dklen=32)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- logins ------------------------------------------------------------------------------------------


_LETTERS = string.ascii_lowercase.translate({ord(c): None for c in "lo"}) + "23456789"  # none looks like another
_GROUPS = 4
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key for programs, by its hash; `questions_per_minute` if it has a limit of its own, 0 for none."""

    hash: str
    questions_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Logins:
    """The course's password, users and keys by name; passwords as `hash_password` gives them."""

    password: str = ""
    users: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, ApiKey] = field(default_factory=dict)

    def kept(self, name: str) -> str | None:
        """The hash that a login is checked with; the course's password is nobody's: the name is empty."""
        return (self.users.get(name) if name else self.password) or None

    def key_of(self, key: str) -> tuple[str, ApiKey] | None:
        """The name of a key and what is known of it."""
        wanted = hash_key(key)  # looked up by the hash of 256 random bits: how long that takes tells nothing of them
        return next(((name, known) for name, known in self.keys.items() if known.hash == wanted), None)

    def with_password(self, password: str) -> Logins:
        """The same with another password for the course.

        Raises:
            ConfigError: it is too short.
        """
        return replace(self, password=_hashed(password))

    def with_user(self, name: str, password: str) -> Logins:
        """The same with a user, or another password for him.

        Raises:
            ConfigError: it is too short, or the name will not do.
        """
        return replace(self, users={**self.users, checked_name(name): _hashed(password)})

    def with_key(self, name: str, key: str, questions_per_minute: int | None = None) -> Logins:
        """The same with a key, instead of one of that name.

        Raises:
            ConfigError: the name will not do.
        """
        return replace(self, keys={**self.keys, checked_name(name): ApiKey(hash_key(key), questions_per_minute)})

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        keys = {n: {"hash": k.hash, "questions_per_minute": k.questions_per_minute} for n, k in self.keys.items()}
        return {"password": self.password, "users": dict(self.users), "keys": keys}


class LoginFile:
    """The file of a course's logins. Threads may share it; what another process writes counts at once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int, int], Logins] | None = None

    def read(self) -> Logins:
        """Who may log in now; nobody if there is no file.

        Raises:
            FileReadError: it cannot be read, or is damaged.
        """
        with self._lock:
            try:
                found = self.file.stat()
            except FileNotFoundError:
                return Logins()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._read is None or self._read[0] != stamp:
                self._read = (stamp, _logins(read_document(self.file), self.file))
            return self._read[1]

    def change(self, change: Callable[[Logins], Logins]) -> Logins:
        """Change it, one process at a time; what it holds then.

        Raises:
            ConfigError: as `change` raises it.
            FileReadError, FileWriteError: it cannot be read or written.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with document_lock(self.file, timeout=10):
            changed = change(self.read())
            if not self.file.exists():
                self.file.touch(_OWNER_ONLY)
            self.file.chmod(_OWNER_ONLY)
            files.replace(self.file, json.dumps(changed.as_json(), indent=1, ensure_ascii=False) + "\n")
        return changed


def checked_name(name: str) -> str:
    """A name for a user or a key.

    Raises:
        ConfigError: it is empty, long, or has characters that nobody types.
    """
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or ":" in name:
        raise ConfigError(f"{name!r} cannot be a name", hint="up to 100 characters, no colon, no blanks around it")
    return name


def new_password() -> str:
    """A password that can be read aloud: 16 characters of 32, 80 bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(_GROUPS))


def new_key() -> str:
    """A key for the API: 256 bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def _hashed(password: str) -> str:
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has less than {SHORTEST} characters")
    return hash_password(password, secrets.token_bytes(16))


def _logins(text: str, file: Path) -> Logins:
    try:
        values = json.loads(text)
        keys = {name: ApiKey(key["hash"], key["questions_per_minute"]) for name, key in values["keys"].items()}
        return Logins(values["password"], dict(values["users"]), keys)
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "restore it, or remove it and set the passwords anew"
        raise FileReadError("this is no list of logins", where=str(file), hint=hint) from None


# -- sessions ----------------------------------------------------------------------------------------


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
