"""Login at another server: a university's OpenID Connect provider, or the learning platform that opens the chat
(LTI 1.3, which is OpenID Connect initiated by the platform).

OpenID Connect Core 1.0, the code flow with PKCE (RFC 7636); 1EdTech's Security Framework 1.0 and LTI Core 1.3. A signed
cookie with the values of the request ties the response to the browser that started the login.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lmm.errors import ConfigError, LmmError
from lmm.extras import check_installed
from lmm.hosts import is_loopback_url
from lmm_education.config import ServeSettings
from lmm_education.database import Database
from lmm_education.errors import Denied, RequestError
from lmm_education.web.http import NO_STORE, address_of, read_body
from lmm_education.web.login import Signer, cookie_name, set_cookie, use_once

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384")
_AWAY = 600  # seconds that a login may take
_FRESH = 3600.0  # seconds for which a provider's addresses and keys are cached
_TIMEOUT = 10.0
_LEEWAY = 60  # seconds by which clocks may differ
_LARGEST, _MOST_FIELDS = 64 * 1024, 50  # bytes and fields of a launch
_CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
logger = logging.getLogger("lmm.serve")


@dataclass(frozen=True, slots=True)
class Away:
    """The values with which a browser was sent to the provider, valid until `until` (seconds since 1970)."""

    state: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    until: int = field(default_factory=lambda: int(time.time()) + _AWAY)


class LoginProvider(ABC):
    """A server at which users log in.

    Raises:
        ConfigError: a required setting is missing.
    """

    needs: tuple[str, ...] = ("issuer", "client_id")
    """Required keys of [serve]."""

    def __init__(self, settings: ServeSettings, signer: Signer, database: Database) -> None:
        self.settings, self.signer, self._database = settings, signer, database
        self.cookie = cookie_name("away", signer)
        self._read: dict[str, tuple[float, Mapping[str, Any]]] = {}
        check_installed("openid", f'login = "{settings.login}" needs', "authlib", "joserfc", kind=ConfigError)
        for name in self.needs:
            if not getattr(settings, name):
                raise ConfigError(f"login = \"{settings.login}\" in [serve] needs '{name}'", where="config.toml")
        for name in ("issuer", *_ADDRESSES):
            _check_address(getattr(settings, name), name)

    def stored_password(self, name: str) -> str | None:
        """Return what ties sessions to this provider (`accounts.Keeper`): those from another provider are invalid."""
        return f"{self.settings.issuer} {self.settings.client_id}"

    @abstractmethod
    async def begin(self, request: Request) -> Response:
        """Redirect a browser to the provider."""

    @abstractmethod
    async def came_back(self, request: Request) -> str:
        """Return the name of a user who comes back from the provider; it is the provider's id, and no secret.

        Raises:
            Denied: the response does not prove who the user is, in this browser, at this time.
            LmmError: the provider cannot be reached.
        """

    def _sent(self, request: Request, address: str, away: Away) -> Response:
        response = RedirectResponse(address, 303, headers=NO_STORE)
        signed = self.signer.sign("away", ":".join((away.state, away.nonce, away.verifier, str(away.until))))
        set_cookie(response.headers, request, self.cookie, signed, _AWAY)
        return response

    def _away(self, request: Request, state: str) -> Away:
        cookie = self.signer.read("away", request.cookies.get(self.cookie, ""))
        if not cookie:
            raise _refused("the login did not start here")
        begun, nonce, verifier, until = cookie.split(":")
        away = Away(begun, nonce, verifier, int(until))
        if not hmac.compare_digest(away.state.encode(), state.encode()) or away.until < time.time():
            raise _refused("the login was started differently, or took too long")
        return away

    async def _claims(self, token: str, away: Away) -> Mapping[str, Any]:
        """Return the claims of a verified token.

        Raises:
            Denied: the token is not by the provider, for this client, current, and in response to this login, which
                was not used before.
            LmmError: the provider's keys cannot be read, or the login cannot be recorded.
        """
        from joserfc import jwt
        from joserfc.errors import JoseError

        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.client_id},
            nonce={"essential": True, "value": away.nonce},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            try:
                decoded = jwt.decode(token, await self._known_keys(), algorithms=_ALGORITHMS)
            except (JoseError, ValueError):  # the provider may have a new key
                decoded = jwt.decode(token, await self._known_keys(again=True), algorithms=_ALGORITHMS)
            registry.validate(decoded.claims)
        except (JoseError, ValueError) as error:
            raise _refused(f"the token is not valid: {error}") from error
        claims: Mapping[str, Any] = decoded.claims
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != self.settings.client_id:
            raise _refused("the token is for another login")
        if not await asyncio.to_thread(use_once, self._database, away.state, away.until + _LEEWAY):
            raise _refused("the login was used before")
        return claims

    async def _known_keys(self, *, again: bool = False) -> KeySet:
        from joserfc.jwk import KeySet

        read = await self._published(await self._keys_address(), _LEEWAY if again else _FRESH)
        return KeySet.import_key_set({"keys": read.get("keys", [])})

    async def _published(self, address: str, fresh: float = _FRESH) -> Mapping[str, Any]:
        """Return the JSON that a provider publishes, cached for at most so many seconds."""
        at, read = self._read.get(address, (-_FRESH, {}))
        if time.monotonic() - at > fresh:
            read = await _json(address)
            self._read[address] = time.monotonic(), read
        return read

    @abstractmethod
    async def _keys_address(self) -> str: ...


class OpenIdConnect(LoginProvider):
    """An OpenID Connect provider, which publishes its addresses."""

    needs = ("issuer", "client_id", "client_secret_env")

    def __init__(self, settings: ServeSettings, signer: Signer, database: Database) -> None:
        super().__init__(settings, signer, database)
        self._secret = os.environ.get(settings.client_secret_env, "")
        if not self._secret:
            hint = f"export {settings.client_secret_env}=…"
            raise ConfigError(f"{settings.client_secret_env} is not set", where="[serve] client_secret_env", hint=hint)

    async def begin(self, request: Request) -> Response:
        """See `LoginProvider.begin`."""
        away, addresses = Away(), await self._addresses()
        async with self._client(request) as client:
            address, _ = client.create_authorization_url(
                addresses["authorization_endpoint"], state=away.state, nonce=away.nonce, code_verifier=away.verifier
            )
        return self._sent(request, address, away)

    async def came_back(self, request: Request) -> str:
        """See `LoginProvider.came_back`."""
        from authlib.common.errors import AuthlibBaseError
        from httpx2 import HTTPError

        away = self._away(request, request.query_params.get("state", ""))
        if not (code := request.query_params.get("code")):
            raise _refused(f"the provider says {request.query_params.get('error', 'nothing')}")
        addresses = await self._addresses()
        try:
            async with self._client(request) as client:
                address = addresses["token_endpoint"]
                token = await client.fetch_token(address, code=code, code_verifier=away.verifier)
        except AuthlibBaseError as error:
            raise _refused(f"the provider gives no token: {error}") from error
        except (HTTPError, ValueError) as error:
            raise _unreachable(addresses["token_endpoint"], error) from error
        return str((await self._claims(str(token.get("id_token", "")), away))["sub"])

    def _client(self, request: Request) -> Any:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        return AsyncOAuth2Client(
            self.settings.client_id,
            self._secret,
            scope="openid",
            redirect_uri=f"{address_of(request)}login/back",
            code_challenge_method="S256",
            timeout=_TIMEOUT,
        )

    async def _addresses(self) -> Mapping[str, Any]:
        where = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        meta, names = await self._published(where), ("authorization_endpoint", "token_endpoint", "jwks_uri")
        try:
            if meta.get("issuer") != self.settings.issuer or not all(isinstance(meta.get(name), str) for name in names):
                raise LmmError("this is not an OpenID Connect provider with that name", where=self.settings.issuer)
            for name in names:
                _check_address(meta[name], name)
        except LmmError:
            del self._read[where]  # it may be corrected soon
            raise
        return meta

    async def _keys_address(self) -> str:
        return str((await self._addresses())["jwks_uri"])


class LearningPlatform(LoginProvider):
    """A platform that opens the chat as one of its activities: Moodle, Canvas, ILIAS, Blackboard."""

    needs = ("issuer", "client_id", "platform_login", "platform_keys")

    async def begin(self, request: Request) -> Response:
        """``GET`` or ``POST /lti/login``: the platform announces a user, and is asked to identify him."""
        form = await _form(request) if request.method == "POST" else dict(request.query_params)
        if form.get("iss") != self.settings.issuer or form.get("client_id", self.settings.client_id) != (
            self.settings.client_id
        ):
            raise _refused(f"the platform is {form.get('iss')!r}, client {form.get('client_id')!r}")
        away = Away()
        asked = {
            "scope": "openid", "response_type": "id_token", "response_mode": "form_post", "prompt": "none",
            "client_id": self.settings.client_id, "redirect_uri": f"{address_of(request)}lti/launch",
            "state": away.state, "nonce": away.nonce, "login_hint": form.get("login_hint", ""),
        }  # fmt: skip
        if hint := form.get("lti_message_hint"):
            asked["lti_message_hint"] = hint
        login = self.settings.platform_login
        return self._sent(request, f"{login}{'&' if '?' in login else '?'}{urlencode(asked)}", away)

    async def came_back(self, request: Request) -> str:
        """``POST /lti/launch``: see `LoginProvider.came_back`."""
        form = await _form(request)
        away = self._away(request, form.get("state", ""))
        claims = await self._claims(form.get("id_token", ""), away)
        wanted = {"message_type": "LtiResourceLinkRequest", "version": "1.3.0"}
        if any(claims.get(_CLAIM + name) != value for name, value in wanted.items()):
            raise _refused("this is not an LTI 1.3 launch")
        deployment = claims.get(f"{_CLAIM}deployment_id")
        if not deployment or (self.settings.deployments and deployment not in self.settings.deployments):
            raise _refused(f"the deployment {deployment!r} is not among 'deployments'")
        return str(claims["sub"])

    async def _keys_address(self) -> str:
        return self.settings.platform_keys


_ADDRESSES = ("platform_login", "platform_keys")
_PROVIDERS: dict[str, type[LoginProvider]] = {"oidc": OpenIdConnect, "lti": LearningPlatform}


def open_provider(settings: ServeSettings, signer: Signer, database: Database) -> LoginProvider | None:
    """Return the provider for logging in at another server, if one is configured; `database` has used logins."""
    kind = _PROVIDERS.get(settings.login)
    return kind(settings, signer, database) if kind else None


def _check_address(address: str, name: str) -> None:
    """Raise `ConfigError` for an address without TLS, where the server's identity is not verified."""
    if address and not address.startswith("https://") and not is_loopback_url(address):
        raise ConfigError(f"'{name}' must begin with https://", where=address)


def _refused(why: str) -> Denied:
    logger.warning("a login was refused: %s", why)
    return Denied("This login failed. Please try again.", status=401, code="login_refused")


def _unreachable(address: str, error: Exception) -> LmmError:
    return LmmError(f"is not reachable: {type(error).__name__}: {error}", where=address)


async def _json(address: str) -> Mapping[str, Any]:
    """Return the JSON object that a provider publishes.

    Raises:
        LmmError: it cannot be read.
    """
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=_TIMEOUT) as client:
            response = (await client.get(address)).raise_for_status()
            found = response.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise _unreachable(address, error) from error
    if not isinstance(found, dict):
        raise LmmError("this is not a JSON object", where=address)
    return found


async def _form(request: Request) -> dict[str, str]:
    """Return the first value of each field of a form."""
    data = await read_body(request, _LARGEST)
    try:
        fields = parse_qs(data.decode(errors="replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise RequestError(f"the form has more than {_MOST_FIELDS} fields") from None
    return {name: values[0] for name, values in fields.items()}
