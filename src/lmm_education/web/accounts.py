"""Who may log in: signed texts, passwords, users and keys, hashed; sessions."""

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
        genuine = hmac.compare_digest(_bytes(mac), _bytes(self._mac(purpose, text)))
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
        return hmac.digest(self.key, _bytes(f"{purpose}\0{text}"), hashlib.sha256)


def _bytes(text: str) -> bytes:
    """Of any text, whatever somebody put into a cookie."""
    return text.encode("utf-8", "surrogatepass")


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

    def without(self, kind: Literal["users", "keys"], names: Collection[str]) -> Logins:
        """The same without users or keys of these names."""
        kept = {name: known for name, known in getattr(self, kind).items() if name not in names}
        return replace(self, users=kept) if kind == "users" else replace(self, keys=kept)


class Accounts:
    """Those of a course's logins that let somebody in: students, or the teacher. Threads may share them; what another
    process writes counts at once."""

    def __init__(self, database: Database, who: Literal["students", "teacher"] = "students") -> None:
        self.database, self.who, self._name = database, who, f"{who} may log in"
        self._read: tuple[str, Logins] = "{}", Logins()

    def read(self) -> Logins:
        """Who may log in now.

        Raises:
            FileReadError: that cannot be read.
        """
        with self.database.reading() as connection:
            return self._logins(connection)

    def change(self, change: Callable[[Logins], Logins]) -> Logins:
        """Change them, one process at a time; what they are then.

        Raises:
            ConfigError: as `change` raises it.
            FileReadError: they cannot be read or written; they are as they were.
        """
        with self.database.writing("logins") as connection:
            changed = change(self._logins(connection))
            connection.execute(delete(KEPT).where(KEPT.c.name == self._name))
            connection.execute(insert(KEPT), {"name": self._name, "value": msgspec.json.encode(changed).decode()})
        return changed

    def _logins(self, connection: Connection) -> Logins:
        text = connection.execute(select(KEPT.c.value).where(KEPT.c.name == self._name)).scalar() or "{}"
        if text != self._read[0]:  # two hundred users are not decoded for every request
            self._read = text, msgspec.json.decode(text, type=Logins)
        return self._read[1]

    def set_password(self, given: str) -> None:
        """Set the password that is nobody's in particular: the course's, or the teacher's.

        Raises:
            ConfigError: it is too short, or opens the other door, too.
        """
        other = Accounts(self.database, "students" if self.who == "teacher" else "teacher")
        if other.opens_with(given):
            raise ConfigError("students and teacher cannot have the same password", hint="choose another one")
        self.change(lambda logins: logins.with_password(given))

    def opens_with(self, password: str) -> bool:
        """Whether this is the password that is nobody's in particular; it takes 0.1 s."""
        return matches(password, self.read().password)


def checked_name(name: str) -> str:
    """A name for a user or a key.

    Raises:
        ConfigError: it is empty, long, or has characters that nobody types.
    """
    if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or ":" in name:
        raise ConfigError(f"{name!r} is not a valid name", hint="up to 100 characters, no colon, no blanks around it")
    return name


def new_password() -> str:
    """A password that can be read aloud: 16 characters of 32, 80 bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(_GROUPS))


def new_key() -> str:
    """A key for the API: 256 bits."""
    return KEY_MARK + secrets.token_urlsafe(32)


def _hashed(password: str) -> str:
    if len(password) < SHORTEST:
        raise ConfigError(f"the password has fewer than {SHORTEST} characters")
    return hash_password(password, secrets.token_bytes(16))


# -- sessions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A login that counts until `expires` (seconds since 1970); the name is empty with the course's password."""

    id: str
    expires: int
    name: str = ""


class Keeper(Protocol):
    """Knows to what the session of a name is tied: a password, or a provider that said who it is."""

    def kept(self, name: str) -> str | None:
        """It; None for a name that nobody has."""
        ...


class Sessions:
    """Begins, reads and ends sessions; `clock` tells the time in seconds since 1970. Those that ended before their time
    are remembered until then."""

    def __init__(self, signer: Signer, database: Database, hours: int, clock: Callable[[], float] = time.time) -> None:
        self.seconds = hours * 3600
        self._signer, self._database, self._clock = signer, database, clock

    def begin(self, name: str, logins: Keeper) -> str:
        """A new session for who has shown the password, as it goes into the cookie."""
        kept = logins.kept(name)
        assert kept is not None
        expires = int(self._clock()) + self.seconds
        written = base64.urlsafe_b64encode(name.encode()).decode()
        return self._signer.sign("session", f"{secrets.token_urlsafe(16)}:{expires}:{self._mark(kept)}:{written}")

    def read(self, signed: str, logins: Keeper) -> Session | None:
        """The session of a cookie; None if it is none of ours, over, or from before the password was changed.

        Raises:
            FileReadError: whether it was ended cannot be read.
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
        """Let a session not count any more, wherever its cookie is.

        Raises:
            FileReadError: that cannot be kept.
        """
        with self._database.writing("ended") as connection:
            over = (ENDED.c.expires <= int(self._clock())) | (ENDED.c.id == session.id)
            connection.execute(delete(ENDED).where(over))
            connection.execute(insert(ENDED), {"id": session.id, "expires": session.expires})

    def _mark(self, kept: str) -> str:
        """What ties a session to the password of its login."""
        return self._signer.pseudonym("login", kept)
