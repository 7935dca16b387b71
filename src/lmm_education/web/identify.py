"""Who is asking: an opaque name for everybody in ``request.state.student``, before anything else is done.

The name is a keyed hash: of the login's name, of a key's name, of a random number that the browser keeps in a signed
cookie, or where there is none of these, of the address. A log with it tells nobody's name or address.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmm.errors import ConfigError, LmmError
from lmm_education.serve_settings import ServeSettings
from lmm_education.web.logins import ApiKey, LoginFile, Logins
from lmm_education.web.network import caller_address, household, is_in, networks
from lmm_education.web.passwords import KEY_MARK
from lmm_education.web.sessions import Session, Sessions
from lmm_education.web.signing import Signer
from lmm_education.web.state import ServeState

_AGE = 180 * 24 * 3600  # seconds that a browser is remembered
_LONGEST_NAME = 200  # characters that a proxy may call somebody


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `student` is the opaque name, `admitted` whether the login lets him in, `address` the household's.

    `session` and `key` are there if that is how he was known; `browser` is the number in his browser's cookie.
    """

    student: str
    admitted: bool
    address: str = ""
    browser: str = ""
    session: Session | None = None
    key: ApiKey | None = None


class Identity:
    """Tells who is asking. One for each course.

    Raises:
        ConfigError: a proxy is to be believed, and none is named.
        FileReadError, FileWriteError: the course's key cannot be read or made.
    """

    def __init__(self, settings: ServeSettings, state: ServeState) -> None:
        self.login, self.header = settings.login, settings.proxy_header
        self.trusted = networks(settings.trusted_proxy)
        if self.login == "proxy" and not self.trusted:
            hint = 'the proxy\'s address, such as trusted_proxy = ["127.0.0.1"]'
            raise ConfigError("login = \"proxy\" in [serve] needs 'trusted_proxy'", where="config.toml", hint=hint)
        self.signer = Signer(state.key())
        self.logins = LoginFile(state.logins)
        self.sessions = Sessions(self.signer, state.ended, settings.session_hours)
        self.student_cookie, self.session_cookie = (cookie_name(what, self.signer) for what in ("student", "session"))

    def caller(self, connection: HTTPConnection, fresh: str = "") -> Caller:
        """Who sent a request; `fresh` is the number for a browser that has none yet.

        Raises:
            FileReadError: the file of logins is damaged.
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
        return self._logged_in(connection, self.logins.read(), Caller(student, False, address, browser))

    def _from_proxy(self, connection: HTTPConnection, peer: str, stranger: Caller) -> Caller:
        """The header counts from a trusted proxy only, and only if there is one: what a caller adds, none can tell."""
        named = connection.headers.getlist(self.header) if is_in(peer, self.trusted) else []
        name = named[0].strip() if len(named) == 1 else ""
        if not name or len(name) > _LONGEST_NAME:
            return stranger
        return Caller(self.signer.pseudonym("proxy", name), True, stranger.address, stranger.browser)

    def _logged_in(self, connection: HTTPConnection, logins: Logins, stranger: Caller) -> Caller:
        kind, _, shown = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and shown.startswith(KEY_MARK):
            found = logins.key_of(shown.strip())
            if found is None:
                return stranger
            return Caller(self.signer.pseudonym("key", found[0]), True, stranger.address, key=found[1])
        session = self.sessions.read(connection.cookies.get(self.session_cookie, ""), logins)
        if session is None or bool(session.name) != (self.login == "users"):
            return stranger
        student = self.signer.pseudonym("user", session.name) if session.name else stranger.student
        return Caller(student, True, stranger.address, stranger.browser, session)


class Identify:
    """Middleware that sets ``request.state.student``, ``request.state.caller``, and the cookie of a new browser.

    `enter` raises an error for who may not go on; `failed` makes a response of an error.
    """

    def __init__(
        self,
        app: ASGIApp,
        identity: Identity,
        enter: Callable[[HTTPConnection, Caller], None],
        failed: Callable[[Request, Exception], Awaitable[Response]],
    ) -> None:
        self.app, self.identity, self.enter, self.failed = app, identity, enter, failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, identity = Request(scope), self.identity
        fresh = secrets.token_urlsafe(16) if _opens_a_page(scope) else ""
        try:
            caller = identity.caller(request, fresh)
            scope.setdefault("state", {}).update(caller=caller, student=caller.student)
            self.enter(request, caller)
        except LmmError as error:
            await (await self.failed(request, error))(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                signed = identity.signer.sign("student", fresh)
                set_cookie(MutableHeaders(scope=message), request, identity.student_cookie, signed, _AGE)
            await send(message)

        await self.app(scope, receive, send_with_cookie if fresh and caller.browser == fresh else send)


def caller_of(connection: HTTPConnection) -> Caller:
    """Who sent a request, as the middleware found."""
    caller = connection.state.caller
    assert isinstance(caller, Caller)
    return caller


def cookie_name(what: str, signer: Signer) -> str:
    """A name of the course's own: browsers send cookies to all ports and paths of a host."""
    return f"lmm_{what}_{signer.pseudonym('cookie', what)[:8]}"


def set_cookie(headers: MutableHeaders, connection: HTTPConnection, name: str, value: str, age: int) -> None:
    """Let the browser keep a cookie for `age` seconds, out of reach of scripts and of other sites' requests; where it
    came by TLS, as far as is told, out of reach of plain connections: who lies here keeps a cookie from himself."""
    tls = "https" in (connection.url.scheme, connection.headers.get("x-forwarded-proto", "").strip().lower())
    secure = "; Secure" if tls else ""
    headers.append("Set-Cookie", f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}")


def route_of(scope: Scope) -> str:
    """The path of a request within the course, without what the course is mounted under."""
    return str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"


def _opens_a_page(scope: Scope) -> bool:
    return scope["method"] == "GET" and route_of(scope) in ("/", "/login")
