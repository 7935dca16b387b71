"""Logging in elsewhere: at an OpenID Connect provider, from a learning platform (LTI 1.3); both are real servers."""

from __future__ import annotations

import html
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from edge.serving import serving
from edge.support import copy_course, lmm
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import ScriptedServer
from fakes.provider import CLIENT, SECRET, IdentityProvider
from joserfc.jwk import RSAKey

Serving = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """Who knows who somebody is."""
    with IdentityProvider() as opened:
        yield opened


@pytest.fixture
def served(
    folder: Path, server: ScriptedServer, ingested: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> Serving:
    """Serves the course, with these lines in [serve]."""
    copy_course(ingested, folder)
    monkeypatch.setenv("OIDC_SECRET", SECRET)

    @contextmanager
    def serve(login: str, *more: str) -> Iterator[str]:
        config = folder / "config.toml"
        own = {"oidc": 'client_secret_env = "OIDC_SECRET"'}.get(
            login, f'platform_login = "{provider.url}/platform/login"\nplatform_keys = "{provider.url}/keys"'
        )
        known = f'login = "{login}"\nissuer = "{provider.url}"\nclient_id = "{CLIENT}"'
        config.write_text("\n".join([config.read_text(), "[serve]", known, own, *more, ""]))
        assert lmm("trust", "--yes", folder).code == 0
        with serving(config) as address:
            provider.course = address
            yield address

    return serve


class Person:
    """A browser that follows where it is led, and keeps cookies."""

    def __init__(self) -> None:
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def open(self, address: str, **fields: str) -> tuple[int, str]:
        """Status and text of what is there in the end."""
        try:
            with self.opener.open(address, urlencode(fields).encode() if fields else None) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def launched(self, provider: IdentityProvider, times: int = 1) -> tuple[int, str]:
        """Open the platform's activity, and send its forms on, the last one several times."""
        hints = {"iss": provider.url, "client_id": CLIENT, "login_hint": "7"}
        _, form = self.open(f"{provider.course}/lti/login?{urlencode(hints)}")
        fields = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
        return [self.open(f"{provider.course}/lti/launch", **fields) for _ in range(times)][-1]


def test_a_login_at_a_provider(served: Serving, provider: IdentityProvider) -> None:
    """One is led there, comes back and is in; logging out and the other person's browser are out."""
    with served("oidc") as address:
        ada, stranger = Person(), Person()
        status, page = ada.open(f"{address}/")
        assert (status, "Botany" in page) == (200, True)
        assert ada.open(f"{address}/contents")[0] == 200
        assert stranger.open(f"{address}/contents")[0] == 401
        used = f"{address}/login/back?{urlencode({'code': 'x', 'state': 'guessed'})}"
        assert (stranger.open(used)[0], ada.open(used)[0]) == (401, 401)


SAYS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "to somebody else": lambda claims: claims | {"aud": "another"},
    "also to somebody else": lambda claims: claims | {"aud": [CLIENT, "another"]},
    "in another's name": lambda claims: claims | {"iss": "https://evil.example"},
    "to another question": lambda claims: claims | {"nonce": "old"},
    "long ago": lambda claims: claims | {"exp": int(time.time()) - 300},
    "for ever": lambda claims: {name: value for name, value in claims.items() if name != "exp"},
    "of nobody": lambda claims: {name: value for name, value in claims.items() if name != "sub"},
}


@pytest.mark.parametrize("login", ["oidc", "lti"])
def test_what_does_not_show_who_somebody_is(served: Serving, provider: IdentityProvider, login: str) -> None:
    """A token that says anything else than it should, or whose key the provider does not know, lets nobody in."""
    with served(login) as address:

        def arrives() -> int:
            person = Person()
            person.launched(provider) if login == "lti" else person.open(f"{address}/")
            return person.open(f"{address}/contents")[0]

        assert arrives() == 200
        for name, alter in SAYS.items():
            provider.alter = alter
            assert arrives() == 401, name
        provider.alter = lambda claims: claims
        provider.key = RSAKey.generate_key(2048, {"kid": "k1"}, auto_kid=False)
        assert arrives() == 401


def test_a_launch_counts_in_the_browser_that_began_it(served: Serving, provider: IdentityProvider) -> None:
    """What was sent to one browser lets no other in; another deployment, platform or kind of launch lets nobody in."""
    with served("lti", 'deployments = ["1"]') as address:
        token = provider.token("n")
        assert Person().open(f"{address}/lti/launch", id_token=token, state="s")[0] == 401
        assert Person().open(f"{address}/lti/login?iss=https://evil.example&login_hint=7")[0] == 401
        claim = "https://purl.imsglobal.org/spec/lti/claim/"
        for name, value in (("deployment_id", "2"), ("message_type", "LtiDeepLinkingRequest"), ("version", "1.1")):
            provider.alter = lambda claims, name=name, value=value: claims | {claim + name: value}  # type: ignore[misc]
            assert Person().launched(provider)[0] == 401, name
        provider.alter = lambda claims: claims
        ada = Person()
        status, page = ada.launched(provider)
        assert (status, "Botany" in page) == (200, True)
        assert Person().launched(provider, times=2)[0] == 401
        told = Person().open(f"{address}/")
        assert (told[0], "learning platform" in told[1]) == (401, True)


@pytest.mark.browser
@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_the_course_in_a_platforms_page(served: Serving, provider: IdentityProvider, tmp_path: Path) -> None:
    """A click on the activity, and one is in, in the platform's page."""
    with served("lti", f'frame_ancestors = ["{provider.url}"]') as address, Browser(tmp_path / "profile") as browser:
        browser.open(f"{provider.url}/platform")
        browser.wait_for(
            "document.querySelector('iframe')?.contentWindow.length === 0"
            " && performance.getEntriesByType('resource').some(each => each.initiatorType === 'iframe')"
        )
        deadline = time.monotonic() + 20
        while f"{address}/static/page.css" not in browser.requests and time.monotonic() < deadline:
            browser.run("1")
        assert f"{address}/static/page.css" in browser.requests


def test_what_cannot_be_served(served: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the secret, or at an address that anybody could answer."""
    monkeypatch.delenv("OIDC_SECRET")
    with pytest.raises(Exception, match="OIDC_SECRET is not set"), served("oidc"):
        pass
    config = folder / "config.toml"
    config.write_text(re.sub(r'issuer = ".*"', 'issuer = "http://login.example.edu"', config.read_text()))
    assert lmm("trust", "--yes", folder).code == 0
    with pytest.raises(Exception, match="must begin with https://"), serving(config):
        pass
