"""A university's OpenID Connect provider and a learning platform (LTI 1.3) on 127.0.0.1, which know one person."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "course-chat", "a secret of the client's"
_LTI = "https://purl.imsglobal.org/spec/lti/claim/"


class IdentityProvider:
    """A context manager. `alter` changes what a token claims, before it is signed with `key`; `course` is where the
    platform's activity leads."""

    def __init__(self) -> None:
        self.user, self.course = "ada", ""
        self.alter: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.key = self.published = RSAKey.generate_key(2048, {"kid": "k1"}, auto_kid=False)
        self.codes: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, asked = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
                provider.answer(self, path, {name: values[0] for name, values in asked.items()})

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"])).decode()
                provider.answer(self, self.path, {name: values[0] for name, values in parse_qs(data).items()})

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self, nonce: str, **more: Any) -> str:
        """What says who the person is."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": self.user, "nonce": nonce, "iat": now, "exp": now + 300}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, self.alter(claims | more), self.key)

    def answer(self, request: BaseHTTPRequestHandler, path: str, asked: dict[str, str]) -> None:
        """Answer a request."""
        if path == "/.well-known/openid-configuration":
            at = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            _json(request, {"issuer": self.url, **{name: f"{self.url}/{end}" for name, end in at.items()}})
        elif path == "/keys":
            _json(request, KeySet([self.published]).as_dict(private=False))
        elif path == "/authorize":
            code = secrets.token_hex(8)
            self.codes[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            _send(request, 303, "", {"Location": f"{asked['redirect_uri']}?{back}"})
        elif path == "/token":
            self._give_token(request, asked)
        elif path == "/platform":  # the page with the activity
            known = {"iss": self.url, "client_id": CLIENT, "login_hint": "7", "lti_message_hint": "h"}
            _send(request, 200, f'<h1>Platform</h1><iframe src="{self.course}/lti/login?{urlencode(known)}"></iframe>')
        elif path == "/platform/login":
            lti = {
                f"{_LTI}message_type": "LtiResourceLinkRequest", f"{_LTI}version": "1.3.0",
                f"{_LTI}deployment_id": "1", f"{_LTI}target_link_uri": asked["redirect_uri"],
            }  # fmt: skip
            fields = {"state": asked["state"], "id_token": self.token(asked["nonce"], **lti)}
            written = "".join(f'<input name="{name}" value="{html.escape(value)}">' for name, value in fields.items())
            form = f'<form method="post" action="{asked["redirect_uri"]}">{written}</form>'
            _send(request, 200, f"{form}<script>document.forms[0].submit()</script>")
        else:
            _send(request, 404, "")

    def _give_token(self, request: BaseHTTPRequestHandler, asked: dict[str, str]) -> None:
        begun = self.codes.pop(asked["code"], {})
        hashed = base64.urlsafe_b64encode(hashlib.sha256(asked["code_verifier"].encode()).digest()).decode().rstrip("=")
        client = base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if begun.get("code_challenge") != hashed or begun.get("redirect_uri") != asked.get("redirect_uri"):
            _send(request, 400, '{"error": "invalid_grant"}', {"Content-Type": "application/json"})
        elif client != f"{CLIENT}:{SECRET}":
            _send(request, 401, '{"error": "invalid_client"}', {"Content-Type": "application/json"})
        else:
            given = {"access_token": "x", "token_type": "Bearer", "id_token": self.token(begun["nonce"])}
            _json(request, given)


def _json(request: BaseHTTPRequestHandler, values: object) -> None:
    _send(request, 200, json.dumps(values), {"Content-Type": "application/json"})


def _send(request: BaseHTTPRequestHandler, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in {"Content-Type": "text/html", **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(text.encode())
