"""Identifying the caller, logging in and out for students and the teacher, and slowing down wrong passwords.

Every caller gets an opaque name in ``request.state.student`` before anything else happens. It is a keyed hash of the
login's name, of an API key's name, of a random number that the browser keeps in a signed cookie or, without any of
these, of the address. A log with it reveals nobody's name or address.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import string
import time
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, Protocol

import msgspec
import sqlalchemy as sa
from limits import RateLimitItem, parse
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Scope

from lmm.errors import ConfigError
from lmm_education.config import ServeSettings
from lmm_education.database import Database
from lmm_education.errors import Denied
from lmm_education.web.http import NO_STORE, is_encrypted, too_soon
from lmm_education.web.state import ENDED, KEPT, seconds_to_wait

# -- signatures --------------------------------------------------------------------------------------

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


def matches(password: str, stored: str) -> bool:
    """Return whether a password matches its stored hash; False if `hash_password` did not make that hash."""
    try:
        kind, logarithm, r, p, salt, expected = stored.split(":")
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

    def stored_password(self, name: str) -> str | None:
        """Return the password hash for a user name; the course's password has the empty name."""
        return (self.users.get(name) if name else self.password) or None

    def user_named(self, name: str) -> str:
        """Return the user's name as it is stored, for one written with other capitals: phones begin with one.

        >>> Logins(users={"Ada": "…"}).user_named("ada"), Logins(users={"Ada": "…", "ada": "…"}).user_named("ada")
        ('Ada', 'ada')
        """
        others = (known for known in self.users if known.casefold() == name.casefold())
        return name if name in self.users else next(others, name)

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
        remaining = {name: known for name, known in getattr(self, kind).items() if name not in names}
        return replace(self, users=remaining) if kind == "users" else replace(self, keys=remaining)


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
            connection.execute(sa.delete(KEPT).where(KEPT.c.name == self._name))
            connection.execute(sa.insert(KEPT), {"name": self._name, "value": msgspec.json.encode(changed).decode()})
        return changed

    def _logins(self, connection: sa.Connection) -> Logins:
        text = connection.execute(sa.select(KEPT.c.value).where(KEPT.c.name == self._name)).scalar() or "{}"
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

    def stored_password(self, name: str) -> str | None:
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
        stored = logins.stored_password(name)
        assert stored is not None
        expires = int(self._clock()) + self.seconds
        written = base64.urlsafe_b64encode(name.encode()).decode()
        return self._signer.sign("session", f"{secrets.token_urlsafe(16)}:{expires}:{self._mark(stored)}:{written}")

    def read(self, signed: str, logins: Keeper) -> Session | None:
        """Return the session of a cookie; None if it is invalid, expired, ended, or older than the password.

        Raises:
            FileReadError: the ended sessions cannot be read.
        """
        if not signed or not (text := self._signer.read("session", signed)):
            return None
        id, expires, mark, written = text.split(":")
        name = base64.urlsafe_b64decode(written).decode()
        stored = logins.stored_password(name)
        if stored is None or mark != self._mark(stored) or int(expires) <= self._clock():
            return None
        with self._database.reading() as connection:
            has_ended = connection.execute(sa.select(ENDED.c.id).where(ENDED.c.id == id)).first()
        return None if has_ended else Session(id, int(expires), name)

    def end(self, session: Session) -> None:
        """End a session, in every browser that has its cookie.

        Raises:
            FileReadError: this cannot be stored.
        """
        use_once(self._database, session.id, session.expires, int(self._clock()))

    def _mark(self, stored: str) -> str:
        """Return the part of a session that changes with the password of its login."""
        return self._signer.pseudonym("login", stored)


def use_once(database: Database, id: str, expires: int, now: int | None = None) -> bool:
    """Record that something was used up or ended, until it would have expired; return whether it had not been.

    Raises:
        FileReadError: this cannot be stored.
    """
    with database.writing("ended") as connection:
        connection.execute(sa.delete(ENDED).where(ENDED.c.expires <= (int(time.time()) if now is None else now)))
        is_new = connection.execute(sa.select(ENDED.c.id).where(ENDED.c.id == id)).first() is None
        if is_new:
            connection.execute(sa.insert(ENDED), {"id": id, "expires": expires})
        return is_new


# -- addresses ---------------------------------------------------------------------------------------


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_HOUSEHOLD = 64  # bits of an IPv6 address that identify a household


def networks(names: Sequence[str], *, where: str = "config.toml") -> tuple[Network, ...]:
    """Parse addresses and networks.

    Raises:
        ConfigError: a name is neither an address nor a network.

    >>> networks(["127.0.0.1", "10.0.0.0/8"])
    (IPv4Network('127.0.0.1/32'), IPv4Network('10.0.0.0/8'))
    """
    try:
        return tuple(ipaddress.ip_network(name) for name in names)
    except ValueError as error:
        hint = "such as 127.0.0.1 or 10.0.0.0/8"
        raise ConfigError(f"'trusted_proxy' in [serve]: {error}", where=where, hint=hint) from None


def is_in(address: str, trusted: Sequence[Network]) -> bool:
    """Return whether an address is in one of the networks.

    >>> is_in("10.1.2.3", networks(["10.0.0.0/8"])), is_in("::ffff:10.1.2.3", networks(["10.0.0.0/8"])), is_in("x", ())
    (True, True, False)
    """
    known = _parsed(address)
    return known is not None and any(known in network for network in trusted)


def caller_address(peer: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """Return the address of the client: the peer, or behind trusted proxies, the last other one in ``X-Forwarded-For``.

    >>> proxies = networks(["127.0.0.1"])
    >>> caller_address("127.0.0.1", "198.51.100.1, 192.0.2.7", proxies), caller_address("192.0.2.9", "1.1.1.1", proxies)
    ('192.0.2.7', '192.0.2.9')
    """
    if not is_in(peer, trusted):
        return peer
    for named in reversed([part.strip() for part in forwarded.split(",") if part.strip()]):
        if not is_in(named, trusted):
            return named
    return peer


def household(address: str) -> str:
    """Return the part of an address that distinguishes households: all of IPv4, 64 bits of IPv6.

    >>> household("192.0.2.7"), household("2001:db8:1:2:3:4:5:6"), household("nonsense")
    ('192.0.2.7', '2001:db8:1:2::/64', '')
    """
    known = _parsed(address)
    if known is None:
        return ""
    if known.version == 4:
        return str(known)
    return str(ipaddress.ip_network((known, _HOUSEHOLD), strict=False))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return mapped or known


# -- callers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: `student` is the opaque name, `address` the household's; `admitted` says whether the login
    lets him in. `session` or `key` is set if it identified him; `browser` is the number in his browser's cookie.
    """

    student: str
    admitted: bool
    address: str = ""
    browser: str = ""
    session: Session | None = None
    key: ApiKey | None = None


def caller_of(connection: HTTPConnection) -> Caller:
    """Return the caller of a request, as the middleware determined it."""
    caller = connection.state.caller
    assert isinstance(caller, Caller)
    return caller


def cookie_name(what: str, signer: Signer) -> str:
    """Return a cookie name unique to the course, because browsers send cookies to all ports and paths of a host."""
    return f"lmm_{what}_{signer.pseudonym('cookie', what)[:8]}"


def set_cookie(headers: MutableHeaders, connection: HTTPConnection, name: str, value: str, age: int) -> None:
    """Set a cookie for `age` seconds, hidden from scripts and from other sites' requests. If the request seems to have
    come by TLS, the cookie is sent by TLS only; a false header harms only the client who sends it.

    If other sites may frame the page, the browser partitions the cookie by site, which requires TLS.
    """
    secure = "; Secure" if (encrypted := is_encrypted(connection)) else ""
    site = "None; Partitioned" if encrypted and connection.state.framed else "Lax"
    headers.append("Set-Cookie", f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite={site}{secure}")


def route_of(scope: Scope) -> str:
    """Return the path of a request within the course, without the path under which it is mounted."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"


# -- login -----------------------------------------------------------------------------------------

_YEAR = 365 * 24 * 3600
_OF_A_NAME = parse("6/3 minutes")
OF_A_CLASS, OF_ONE = parse("100/15 minutes"), parse("30/15 minutes")
"""Limits on wrong passwords: for an address that many may share, and for a login that one person uses."""
_hashing = ThreadPoolExecutor(2, thread_name_prefix="lmm-login")  # each takes 32 MB and a core for 0.1 s


class Attempts:
    """Limits wrong passwords by name and by address, without locking out a class that shares an address.

    Only wrong attempts count. A browser that was logged in before has a limit of its own, so that somebody who guesses
    the user's password from elsewhere does not lock him out.
    """

    def __init__(
        self, signer: Signer, limiter: MovingWindowRateLimiter, of_an_address: RateLimitItem = OF_A_CLASS
    ) -> None:
        self._signer, self._wrong, self._of_an_address = signer, limiter, of_an_address
        self._owner = signer.pseudonym("attempts", "")  # students and teacher share the limiter

    def wait(self, name: str, address: str, known: str = "") -> float:
        """Return the seconds until another attempt is allowed; 0 if it is allowed now.

        `known` identifies a browser in which this name has logged in before.
        """
        return max(seconds_to_wait(self._wrong, *each, count=False) for each in self._counted(name, address, known))

    def was_wrong(self, name: str, address: str, known: str = "") -> None:
        """Count a wrong attempt."""
        for each in self._counted(name, address, known):
            self._wrong.hit(*each)

    def _counted(self, name: str, address: str, known: str) -> list[tuple[RateLimitItem, str, str, str]]:
        if known:
            return [(_OF_A_NAME, self._owner, "browser", known)]
        by_name = [(_OF_A_NAME, self._owner, "name", name)] if name else []
        return [(self._of_an_address, self._owner, "address", address), *by_name]

    def mark(self, name: str, browser: str) -> str:
        """Return the cookie value of a browser in which `name` (empty: anybody with the password) has logged in."""
        return self._signer.sign("device", self._signer.pseudonym("device", f"{browser} {name}"))

    def known(self, name: str, browser: str, shown: str) -> str:
        """Return what to count a browser by if `shown` proves that `name` logged in with it; otherwise nothing."""
        return browser if browser and shown == self.mark(name, browser) else ""


class Login:
    """A login with its accounts and sessions: one for the students of a course, another for its teacher. If a
    `provider` identifies users, sessions are tied to it."""

    def __init__(
        self, what: str, signer: Signer, accounts: Accounts, hours: int, attempts: Attempts,
        provider: Keeper | None = None,
    ) -> None:  # fmt: skip
        self.accounts, self.attempts, self.provider = accounts, attempts, provider
        self._sessions = Sessions(signer, accounts.database, hours)
        self._cookie, self._device_cookie = cookie_name(what, signer), cookie_name("device", signer)

    def session(self, connection: HTTPConnection) -> Session | None:
        """Return the session of a request, if it is valid."""
        return self._sessions.read(connection.cookies.get(self._cookie, ""), self._keeper)

    @property
    def _keeper(self) -> Keeper:
        return self.provider or self.accounts.read()

    @property
    def has_password(self) -> bool:
        """Whether a shared password has been set.

        Raises:
            FileReadError: this cannot be read.
        """
        return bool(self.accounts.read().password)

    async def check(self, request: Request, name: str, password: str, texts: Mapping[str, str]) -> None:
        """Raise `Denied` if the password is wrong, or if there were too many wrong ones before."""
        caller, shown = caller_of(request), request.cookies.get(self._device_cookie, "")
        counted = (name, caller.address, self.attempts.known(name, caller.browser, shown))
        # Both in the pool's threads: if a class logs in at once, two are checked at a time, and none counts too early.
        wait = await asyncio.get_running_loop().run_in_executor(_hashing, self._attempt, password, counted)
        if wait == 0:
            raise Denied(texts["wrong"], status=401, code="wrong_password")
        if wait is not None:
            raise too_soon(texts["too_many"], wait, code="too_many_attempts")

    def _attempt(self, password: str, counted: tuple[str, str, str]) -> float | None:
        """Return None if the password is right; otherwise the seconds to wait before the next attempt."""
        if wait := self.attempts.wait(*counted):
            return wait
        stored = self.accounts.read().stored_password(counted[0])
        if matches(password, stored or _nobody()) and stored is not None:
            return None
        self.attempts.was_wrong(*counted)
        return 0

    async def begin(self, request: Request, name: str, password: str, texts: Mapping[str, str]) -> Response:
        """Log in; the response sets the session cookie."""
        name = await asyncio.to_thread(lambda: self.accounts.read().user_named(name))
        await self.check(request, name, password, texts)
        response, browser = JSONResponse({"status": "ok"}, headers=NO_STORE), caller_of(request).browser
        if browser:
            set_cookie(response.headers, request, self._device_cookie, self.attempts.mark(name, browser), _YEAR)
        return self._begun(request, name, response)

    def arrived(self, request: Request, name: str) -> Response:
        """Log in a user whom the provider identified; the response sets the session cookie and leads to the page."""
        return self._begun(request, name, RedirectResponse("../", 303, headers=NO_STORE))

    def _begun(self, request: Request, name: str, response: Response) -> Response:
        signed = self._sessions.begin(name, self._keeper)
        set_cookie(response.headers, request, self._cookie, signed, self._sessions.seconds)
        return response

    async def end(self, request: Request) -> Response:
        """Log out: end the session wherever its cookie is."""
        session = await asyncio.to_thread(self.session, request)
        if session is not None:
            await asyncio.to_thread(self._sessions.end, session)
        response = JSONResponse({"status": "ok"}, headers=NO_STORE)
        set_cookie(response.headers, request, self._cookie, "", 0)
        return response


@cache
def _nobody() -> str:
    """Return a hash to check unknown names with, so that they take as long as known ones."""
    return hash_password("nobody", b"nobody's salt...")


# -- identification -----------------------------------------------------------------------------------


_LONGEST_NAME = 200  # characters of a name that a proxy sends


class Identity:
    """Identifies callers; one for each course.

    Raises:
        ConfigError: login is "proxy", and no trusted proxy is named.
    """

    def __init__(self, settings: ServeSettings, signer: Signer, students: Login) -> None:
        self.login, self.header, self.students = settings.login, settings.proxy_header, students
        self.framed = bool(settings.frame_ancestors) or self.login == "lti"
        self.trusted = networks(settings.trusted_proxy)
        if self.login == "proxy" and not self.trusted:
            hint = 'the proxy\'s address, such as trusted_proxy = ["127.0.0.1"]'
            raise ConfigError("login = \"proxy\" in [serve] needs 'trusted_proxy'", where="config.toml", hint=hint)
        self.signer, self.student_cookie = signer, cookie_name("student", signer)

    def caller(self, connection: HTTPConnection, fresh: str = "") -> Caller:
        """Return who sent a request; `fresh` is the number for a browser that has none yet.

        Raises:
            FileReadError: the logins cannot be read.
        """
        peer = connection.client.host if connection.client else ""
        forwarded = connection.headers.get("x-forwarded-for", "")
        address = household(caller_address(peer, forwarded, self.trusted))
        browser = self.signer.read("student", connection.cookies.get(self.student_cookie, "")) or fresh
        student = self.signer.pseudonym("browser", browser) if browser else self.signer.pseudonym("address", address)
        if self.login == "none":
            return Caller(student, True, address, browser)
        if self.login == "proxy":
            return self._from_proxy(connection, peer, Caller(student, False, address, browser))
        return self._logged_in(connection, Caller(student, False, address, browser))

    def _from_proxy(self, connection: HTTPConnection, peer: str, stranger: Caller) -> Caller:
        """Accept the header only from a trusted proxy, and only a single one: a client may have added others."""
        named = connection.headers.getlist(self.header) if is_in(peer, self.trusted) else []
        name = named[0].strip() if len(named) == 1 else ""
        if not name or len(name) > _LONGEST_NAME:
            return stranger
        return Caller(self.signer.pseudonym("proxy", name), True, stranger.address, stranger.browser)

    def _logged_in(self, connection: HTTPConnection, stranger: Caller) -> Caller:
        kind, _, shown = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and shown.startswith(KEY_MARK):
            found = self.students.accounts.read().key_of(shown.strip())
            if found is None:
                return stranger
            return Caller(self.signer.pseudonym("key", found[0]), True, stranger.address, key=found[1])
        session = self.students.session(connection)
        if session is None or bool(session.name) == (self.login == "password"):
            return stranger
        kind = "user" if self.students.provider is None else "provider"
        student = self.signer.pseudonym(kind, session.name) if session.name else stranger.student
        return Caller(student, True, stranger.address, stranger.browser, session)
