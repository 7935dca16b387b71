"""Logins: signed texts, hashed passwords and keys, users, sessions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import string
import time
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import msgspec
from sqlalchemy import Connection, delete, insert, select

from lmm.errors import ConfigError
from lmm_education.database import Database
from lmm_education.web.state import ENDED, KEPT

_PSEUDONYM = 20  # hexadecimal digits: 80 bits


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and verifies texts with one key. A text signed for one `purpose` is not valid for another."""

    key: bytes = field(repr=False)

    def sign(self, purpose: str, text: str) -> str:
        """Return `text`, printable ASCII without blanks, commas or semicolons, with its signature appended.

        >>> signed = Signer(b"key").sign("student", "abc")
        >>> Signer(b"key").read("student", signed), Signer(b"key").read("session", signed)
        ('abc', None)
        """
        return f"{text}.{self._mac(purpose, text)}"

    def read(self, purpose: str, signed: str) -> str | None:
        """Return the text of a signed one; None if the signature is missing, invalid, or for another purpose."""
        text, dot, mac = signed.rpartition(".")
        genuine = hmac.compare_digest(_bytes(mac), _bytes(self._mac(purpose, text)))
        return text if dot and genuine else None

    def pseudonym(self, kind: str, value: str) -> str:
        """Return a stable pseudonym for `value`, which cannot be computed or reversed without the key.

        >>> Signer(b"key").pseudonym("name", "ada") == Signer(b"key").pseudonym("name", "ada")
        True
        >>> len(Signer(b"key").pseudonym("name", "ada"))
        20
        """
        return self._digest(f"pseudonym {kind}", value).hex()[:_PSEUDONYM]

    def _mac(self, purpose: str, text: str) -> str:
        return base64.urlsafe_b64encode(self._digest(f"signature {purpose}", text)).decode().rstrip("=")

    def _digest(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self.key, _bytes(f"{purpose}\0{text}"), hashlib.sha256)


def _bytes(text: str) -> bytes:
    """Encode any text, even with the lone surrogates that a cookie may contain."""
    return text.encode("utf-8", "surrogatepass")


# -- hashes of passwords and keys -------------------------------------------------------------------

SHORTEST = 8
"""The least number of characters of a password."""
KEY_MARK = "lmm-"
"""The prefix of API keys."""
# 32 MB and 0.1 s on one core: a class of 200 that logs in at once waits 20 s; guessing is slowed down elsewhere.
_COST = (15, 8, 1)  # binary logarithm of scrypt's N, r, p


def hash_password(password: str, salt: bytes) -> str:
    """Return the hash of a password to be stored; `salt` must be random and unique.

    >>> kept = hash_password("correct horse", b"0123456789abcdef")
    >>> matches("correct horse", kept), matches("wrong horse", kept)
    (True, False)
    """
    numbers = ":".join(map(str, _COST))
    return f"scrypt:{numbers}:{_encoded(salt)}:{_encoded(_scrypt(password, salt, *_COST))}"


def matches(password: str, kept: str) -> bool:
    """Return whether a password matches its stored hash; False if `hash_password` did not make that hash."""
    try:
        kind, logarithm, r, p, salt, expected = kept.split(":")
        found = _scrypt(password, base64.b64decode(salt), int(logarithm), int(r), int(p))
    except (ValueError, TypeError, OverflowError):
        return False
    return kind == "scrypt" and hmac.compare_digest(_encoded(found), expected)


def hash_key(key: str) -> str:
    """Return the hash of an API key. Keys have 256 random bits, too many to guess, so that a fast hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _scrypt(password: str, salt: bytes, logarithm: int, r: int, p: int) -> bytes:
    """Return the same hash for an ö typed as one character or as two, since keyboards differ."""
    data = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=1 << logarithm, r=r, p=p, maxmem=1 << 28, dklen=32)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- logins ------------------------------------------------------------------------------------------


_LETTERS = string.ascii_lowercase.translate({ord(c): None for c in "lo"}) + "23456789"  # no look-alikes
_GROUPS = 4


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The hash of an API key; `questions_per_minute` is its own rate limit, if it has one, and 0 means no limit."""

    hash: str
    questions_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Logins:
    """The course's password, and users and keys by name; passwords are hashed with `hash_password`."""

    password: str = ""
    users: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, ApiKey] = field(default_factory=dict)

    def kept(self, name: str) -> str | None:
        """Return the password hash for a user name; the course's password has the empty name."""
        return (self.users.get(name) if name else self.password) or None

    def key_of(self, key: str) -> tuple[str, ApiKey] | None:
        """Return the name and the entry of a key."""
        wanted = hash_key(key)  # compared as hashes of 256 random bits, so that timing reveals nothing
        return next(((name, known) for name, known in self.keys.items() if known.hash == wanted), None)

    def with_password(self, password: str) -> Logins:
        """Return a copy with another password for the course.

        Raises:
            ConfigError: it is too short.
        """
        return replace(self, password=_hashed(password))

    def with_user(self, name: str, password: str) -> Logins:
        """Return a copy with another user, or another password for an existing one.

        Raises:
            ConfigError: the password is too short, or the name is invalid.
        """
        return replace(self, users={**self.users, checked_name(name): _hashed(password)})

    def with_key(self, name: str, key: str, questions_per_minute: int | None = None) -> Logins:
        """Return a copy with a key, which replaces one of the same name.

        Raises:
            ConfigError: the name is invalid.
        """
        return replace(self, keys={**self.keys, checked_name(name): ApiKey(hash_key(key), questions_per_minute)})

    def without(self, kind: Literal["users", "keys"], names: Collection[str]) -> Logins:
        """Return a copy without the users or keys of these names."""
        kept = {name: known for name, known in getattr(self, kind).items() if name not in names}
        return replace(self, users=kept) if kind == "users" else replace(self, keys=kept)


class Accounts:
    """The logins of a course's students, or of its teacher. Thread-safe; other processes' changes apply at once."""

    def __init__(self, database: Database, who: Literal["students", "teacher"] = "students") -> None:
        self.database, self.who, self._name = database, who, f"{who} may log in"
        self._read: tuple[str, Logins] = "{}", Logins()

    def read(self) -> Logins:
        """Return the current logins.

        Raises:
            FileReadError: they cannot be read.
        """
        with self.database.reading() as connection:
            return self._logins(connection)

    def change(self, change: Callable[[Logins], Logins]) -> Logins:
        """Change the logins, one process at a time, and return the new ones.

        Raises:
            ConfigError: raised by `change`.
            FileReadError: they cannot be read or written, and stay unchanged.
        """
        with self.database.writing("logins") as connection:
            changed = change(self._logins(connection))
            connection.execute(delete(KEPT).where(KEPT.c.name == self._name))
            connection.execute(insert(KEPT), {"name": self._name, "value": msgspec.json.encode(changed).decode()})
        return changed

    def _logins(self, connection: Connection) -> Logins:
        text = connection.execute(select(KEPT.c.value).where(KEPT.c.name == self._name)).scalar() or "{}"
        if text != self._read[0]:  # avoids decoding two hundred users for every request
            self._read = text, msgspec.json.decode(text, type=Logins)
        return self._read[1]

    def set_password(self, given: str) -> None:
        """Set the shared password: the course's, or the teacher's.

        Raises:
            ConfigError: it is too short, or the same as the other of the two.
        """
        other = Accounts(self.database, "students" if self.who == "teacher" else "teacher")
        if other.opens_with(given):
            raise ConfigError("students and teacher cannot have the same password", hint="choose another one")
        self.change(lambda logins: logins.with_password(given))

    def opens_with(self, password: str) -> bool:
        """Return whether this is the shared password; takes 0.1 s."""
        return matches(password, self.read().password)


def checked_name(name: str) -> str:
    """Return a name for a user or a key if it is valid.

    Raises:
        ConfigError: it is empty, too long, or contains characters that are not allowed.
    """
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or ":" in name:
        raise ConfigError(f"{name!r} is not a valid name", hint="up to 100 characters, no colon, no blanks around it")
    return name


def new_password() -> str:
    """Return a new password that can be read aloud: 16 of 32 characters, 80 bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(_GROUPS))


def new_key() -> str:
    """Return a new API key: 256 bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def _hashed(password: str) -> str:
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has fewer than {SHORTEST} characters")
    return hash_password(password, secrets.token_bytes(16))


# -- sessions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A session, valid until `expires` (seconds since 1970); with the course's password, the name is empty."""

    id: str
    expires: int
    name: str = ""


class Keeper(Protocol):
    """Knows what ties a session to a login: a password hash, or the provider that identified the user."""

    def kept(self, name: str) -> str | None:
        """Return the value that ties a session to this name; None for an unknown name."""
        ...


class Sessions:
    """Begins, reads and ends sessions; `clock` returns seconds since 1970. Sessions that were ended early are stored
    until they would have expired."""

    def __init__(self, signer: Signer, database: Database, hours: int, clock: Callable[[], float] = time.time) -> None:
        self.seconds = hours * 3600
        self._signer, self._database, self._clock = signer, database, clock

    def begin(self, name: str, logins: Keeper) -> str:
        """Return the cookie value of a new session for somebody who has logged in."""
        kept = logins.kept(name)
        assert kept is not None
        expires = int(self._clock()) + self.seconds
        written = base64.urlsafe_b64encode(name.encode()).decode()
        return self._signer.sign("session", f"{secrets.token_urlsafe(16)}:{expires}:{self._mark(kept)}:{written}")

    def read(self, signed: str, logins: Keeper) -> Session | None:
        """Return the session of a cookie; None if it is invalid, expired, ended, or older than the password.

        Raises:
            FileReadError: the ended sessions cannot be read.
        """
        if not signed or not (text := self._signer.read("session", signed)):
            return None
        id, expires, mark, written = text.split(":")
        name = base64.urlsafe_b64decode(written).decode()
        kept = logins.kept(name)
        if kept is None or mark != self._mark(kept) or int(expires) <= self._clock():
            return None
        with self._database.reading() as connection:
            has_ended = connection.execute(select(ENDED.c.id).where(ENDED.c.id == id)).first()
        return None if has_ended else Session(id, int(expires), name)

    def end(self, session: Session) -> None:
        """End a session, in every browser that has its cookie.

        Raises:
            FileReadError: this cannot be stored.
        """
        use_once(self._database, session.id, session.expires, int(self._clock()))

    def _mark(self, kept: str) -> str:
        """Return the part of a session that changes with the password of its login."""
        return self._signer.pseudonym("login", kept)


def use_once(database: Database, id: str, expires: int, now: int | None = None) -> bool:
    """Record that something was used up or ended, until it would have expired; return whether it had not been.

    Raises:
        FileReadError: this cannot be stored.
    """
    with database.writing("ended") as connection:
        connection.execute(delete(ENDED).where(ENDED.c.expires <= (int(time.time()) if now is None else now)))
        is_new = connection.execute(select(ENDED.c.id).where(ENDED.c.id == id)).first() is None
        if is_new:
            connection.execute(insert(ENDED), {"id": id, "expires": expires})
        return is_new
