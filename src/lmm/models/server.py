"""A server of models: JSON over HTTP, with time-outs, and its refusals as our own errors."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lmm import errors
from lmm.config import ServerSettings
from lmm.hosts import tls_for
from lmm.terminal import clipped

if TYPE_CHECKING:
    import httpx2

_CONNECTING = 30.0  # seconds
_METHODS = ("/chat/completions", "/responses", "/embeddings", "/rerank")


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that is asked at `url`. `name` is for messages; `table` is where config.toml has its settings, and
    `setting` the one of the address.

    `key` is shown in no message; `headers` carry it. `hints` replace the usual ones by HTTP status. `connections` is
    their largest number, None for no limit.
    """

    name: str
    url: str
    table: str = ""
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    retries: int = 3
    connections: int | None = None
    hints: Mapping[int, str] = field(default_factory=dict)
    setting: str = "base_url"

    @classmethod
    def of(cls, settings: ServerSettings, path: str, base_url: str = "") -> ModelServer:
        """Return the server of a tier's model; `base_url` counts if the settings have none."""
        key = settings.api_key.reveal() if settings.api_key else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = (settings.base_url or base_url).rstrip("/") + path
        pull = {404: f"ollama pull {settings.model.model}"} if settings.model.provider == "Ollama" else {}
        return cls(str(settings.model), url, "", key, headers, settings.timeout, settings.max_retries, hints=pull)

    def client(self) -> httpx2.AsyncClient:
        """Make a client, whose connections stay open until it is closed."""
        import httpx2

        made: httpx2.AsyncClient = self.client_of(httpx2)
        return made

    def client_of(self, library: Any) -> Any:
        """Make a client of httpx2, or of httpx, which some vendors' clients need."""
        limits = library.Limits(max_connections=self.connections)
        patience = library.Timeout(self.timeout, connect=min(self.timeout, _CONNECTING), pool=None)
        return library.AsyncClient(headers=self.headers, verify=tls_for(self.url), timeout=patience, limits=limits)

    @asynccontextmanager
    async def post(self, client: httpx2.AsyncClient, body: Mapping[str, Any]) -> AsyncGenerator[httpx2.Response]:
        """Send `body`, and yield the response, whose content is read within the ``with`` block.

        Raises:
            ModelError: the server cannot be reached, refuses, sends nothing for too long, or breaks off.
        """
        import httpx2

        begun, sent = False, json.dumps(body).encode()
        try:
            kind = {"Content-Type": "application/json"}
            async with client.stream("POST", self.url, content=sent, headers=kind) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise self.refusal(response.status_code, response.text, response.headers)
                begun = True
                yield response
        except httpx2.TimeoutException as error:
            raise self.silent() from error
        except httpx2.HTTPError as error:
            if begun:
                raise self.broke_off() from error
            raise self.unreachable(error) from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            hint = f"correct it under {self.table}" if self.table else f"correct {self.setting} in config.toml"
            raise errors.ModelRejected(f"{self.name}: {self.url} is not an address", hint=hint) from error

    @property
    def base(self) -> str:
        """The address without the protocol's own path: what `base_url` sets."""
        return next((self.url.removesuffix(path) for path in _METHODS if self.url.endswith(path)), self.url)

    def unreachable(self, error: Exception) -> errors.ModelUnavailable:
        """Make the error for a server to which there is no connection."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, socket.gaierror):
                host = urlsplit(self.url).hostname
                message = f"{self.name}: there is no host '{host}'" if host else f"{self.name}: its host was not found"
                return errors.ModelUnavailable(message, hint=f"check the network and {self.setting}")
            cause = cause.__cause__ or cause.__context__
        message = f"{self.name}: {self.shown(str(error)) or type(error).__name__}"
        return errors.ModelUnavailable(message, hint=f"is the server running at {self.base or 'its usual address'}?")

    def silent(self) -> errors.ModelTimeout:
        """Make the error for a server that sends nothing for too long."""
        where = f"under {self.table}" if self.table else "for this model"
        fact = f"{self.name} sent nothing for {self.timeout:g} s"
        return errors.ModelTimeout(fact, hint=f"set a longer 'timeout' {where} in config.toml, or try again")

    def broke_off(self) -> errors.ModelUnavailable:
        """Make the error for a reply that ends in the middle."""
        return errors.ModelUnavailable(f"{self.name} broke off in the middle of its reply", hint="try again")

    def filtered(self) -> errors.ModelRejected:
        """Make the error for a reply that the provider's filter stopped."""
        return errors.ModelRejected(f"{self.name}: the provider's filter stopped the reply", hint="ask in other words")

    def no_reply(self, content: bytes, what: str) -> errors.NoValidReply:
        """Make the error for a response that contains no `what`, such as a web page."""
        text = content.decode(errors="replace")
        if _PAGE.match(text):
            login = f"if it is a login page, log in to that network or gateway first; else check {self.setting}"
            fact = f"{self.name}: {self.base} sent a web page instead of a reply"
            return errors.NoValidReply(fact, hint=self._path_hint() or login)
        hint = self.hints.get(200, f"does {self.url} support this protocol?")
        shown = f": {self.shown(text)}" if text else ""
        return errors.NoValidReply(f"{self.name}: the reply contains no {what}{shown}", hint=hint)

    def refusal(self, status: int, text: str, headers: Mapping[str, str] = {}) -> errors.ModelError:
        """Make the error that a response or an error within a stream stands for; `status` 0 if there is none.

        >>> server = ModelServer("Jina", "http://127.0.0.1/")
        >>> [type(server.refusal(status, text)).__name__ for status, text in ((408, ""), (400, "API key not valid."))]
        ['ModelTimeout', 'ModelKeyMissing']
        """
        said, body = read_refusal(text)
        label = f"HTTP {status}: " if status else ""
        message = f"{self.name}: {label}{self.shown(said)}".removesuffix(".")
        if 300 <= status < 400:
            target = headers.get("location", "").partition("?")[0]
            fact = f"{self.name}: HTTP {status}: {self.base} redirects to {target or 'another address'}"
            return errors.ModelRejected(fact, hint=f"set {self.setting} to the address that the server has now")
        if _TOO_LONG.search(text):
            return errors.TooLong(message, hint=_SHORTER, window=_window_in(body, said))
        if status == 402 or (status == 429 and "insufficient_quota" in text):  # waiting would not help
            return errors.ModelRejected(message, hint="the account's quota or credit is used up")
        if status == 400 and "API key not valid" in text:  # Google
            status = 401
        unsure = status >= 500 or not status
        other = errors.ModelUnavailable if unsure else errors.ModelRejected
        kind, hint = _KINDS.get(status, (other, "try again later" if unsure else "change the request or the model"))
        path = self._path_hint() if status in (404, 405) else ""
        return kind(message, hint=path or self.hints.get(status, hint), retry_after=_retry_after(headers))

    def _path_hint(self) -> str:
        """Return what to change in the setting, if it does not end as addresses of such servers do."""
        if named := next((path for path in _METHODS if self.base.endswith(path)), ""):
            return f"leave out '{named}' at the end of {self.setting}"
        if urlsplit(self.base).path in ("", "/") and self.base != self.url:
            path = "" if self.setting == "base_url" else self.url.removeprefix(self.base)
            return f"{self.setting} may lack '/v1': {self.base.rstrip('/')}/v1{path}"
        return ""

    def shown(self, text: str) -> str:
        """Return the beginning of what a server said; some quote the key that they refuse."""
        return clipped(text.replace(self.key, "…") if len(self.key) > 7 else text, 300)


_KINDS: dict[int, tuple[type[errors.ModelError], str]] = {
    401: (errors.ModelKeyMissing, "check the API key: lmm status"),
    403: (errors.ModelKeyMissing, "check the API key: lmm status"),
    404: (errors.ModelNotFound, "check the model's name and the server: lmm status"),
    408: (errors.ModelTimeout, "try again, or set a longer 'timeout'"),
    425: (errors.ModelUnavailable, "try again later"),
    429: (errors.ModelBusy, "try again later"),
}
_PAGE = re.compile(
    r"\ufeff?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_SHORTER = "the text is too long for this model: ask about a smaller part, or set a model with a larger window"
# llama.cpp, Ollama, LM Studio, vLLM, text-generation-inference, OpenAI, Anthropic, Google, Mistral
_TOO_LONG = re.compile(
    r"exceeds? (?:the )?(?:available |maximum )?context (?:size|length|window)"
    r"|context (?:size|length|window)(?: has been| is| was)? exceeded|context_length_exceeded"
    r"|maximum (?:context|model) length|prompt is too long|too long to fit into the model|context the overflows"
    r"|cannot truncate prompt with n_keep|`?inputs`? (?:tokens )?\+ `?max_new_tokens`? must be"
    r"|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:context size|context length|context window|model length|tokens allowed)(?: is|:| of)?:? \(?(\d[\d,]*)"
    r"|(?:>|with) (\d[\d,]*) maximum",
    re.IGNORECASE,
)


def read_refusal(text: str) -> tuple[str, Any]:
    """Return what a server says of an error, in whichever of the usual forms, and the object that it is in.

    >>> read_refusal('{"error": {"message": "no such model", "code": 404}}')[0]
    'no such model'
    """
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text, text
    inside = body[0] if isinstance(body, list) and body else body  # Google's compatible server sends a list
    for key in ("error", "message", "detail"):
        while isinstance(inside, Mapping) and key in inside:
            body, inside = inside, inside[key]
    return inside if isinstance(inside, str) else json.dumps(inside), body


def _window_in(body: Any, said: str) -> int:
    """Return the window that a server names when it refuses a request as too long; 0 if it names none.

    >>> _window_in("", "prompt is too long: 210000 tokens > 200000 maximum")
    200000
    """
    if isinstance(body, Mapping) and isinstance(told := body.get("n_ctx"), int):
        return told
    found = _WINDOW.search(said)
    return int((found[1] or found[2]).replace(",", "")) if found else 0


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, if it says so in seconds."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None
