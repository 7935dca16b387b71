"""Count tokens without a network, look up their price, and find the context window of a model.

Vendors' tokenizers have to be downloaded; the one in wordllama (Llama 2's, 32,000 tokens) is installed.
Vocabularies of later models are larger, so they need fewer tokens for the same text: the count is
meant as an upper bound for budgets, not as a bill.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmm.config import ModelSettings, ServerSettings
from lmm.errors import TooLong
from lmm.hosts import is_loopback_url
from lmm.loop import background
from lmm.messages import ChatRequest, Reply, Usage, message_texts
from lmm.models.server import ModelServer
from lmm.providers import PROVIDERS

if TYPE_CHECKING:
    import httpx2
    from tokenizers import Tokenizer

_BYTES_A_TOKEN = 2.5  # where no tokenizer is installed: less than any of them needs for prose
CHARACTERS_PER_TOKEN = 4
DEFAULT = 100_000
"""The context window in tokens that is assumed where nothing is known."""
_ASSUMED = "default: "
_SMALL = 4_000  # characters: the smallest windows of today are 2,048 tokens
_PATIENCE = 2.0  # seconds
_LARGEST = 8_000_000  # bytes; OpenRouter's list has 0.7 million
_FRESH = 600.0  # seconds: a server may be restarted with another window
_UNLOADED = 4_096  # Ollama's own choice with less than 24 GB of video memory


@functools.lru_cache(maxsize=4096)
def count_tokens(text: str) -> int:
    """Count the tokens of `text`, at least 1 unless it is empty; cached, since counting takes 0.3 s per megabyte.

    >>> count_tokens(""), count_tokens("A leaf is green.")
    (0, 5)
    """
    tokenizer = _tokenizer()
    if tokenizer is None:
        return math.ceil(len(text.encode()) / _BYTES_A_TOKEN)
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


@functools.cache
def _tokenizer() -> Tokenizer | None:
    folder = wordllama_folder()
    return None if folder is None else tokenizer_in(folder)


def wordllama_folder() -> Path | None:
    """Return where wordllama is installed, without importing it, which takes a quarter of a second."""
    spec = importlib.util.find_spec("wordllama")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def tokenizer_in(folder: Path) -> Tokenizer:
    """Load the tokenizer in wordllama's folder, without truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def priced(reply: Reply, request: ChatRequest, base_url: str = "") -> Reply:
    """Return a reply with the price of its usage, which is estimated if its server did not count."""
    usage = reply.usage
    if not (usage.input_tokens or usage.output_tokens):
        return replace(reply, usage=estimated(request, reply))
    return replace(reply, usage=replace(usage, cost=price(reply.model, usage, base_url)))


def estimated(request: ChatRequest, reply: Reply) -> Usage:
    """Estimate the usage and price of a request whose server did not count: four characters to a token.

    >>> from lmm.messages import Message
    >>> estimated(ChatRequest((Message("user", "Is a leaf green?"),)), Reply("Yes, it is.", "Ollama/llama3.2"))
    Usage(input_tokens=4, output_tokens=3, cost=None, requests=1, estimated=True, cached_tokens=0)
    """
    tools = [f"{tool.name}{tool.description}{json.dumps(tool.parameters)}" for tool in request.tools]
    sent = sum(len(text) for text in (*tools, *(text for one in request.messages for text in message_texts(one))))
    thought = [thought.text for thought in reply.reasoning]
    made = sum(len(text) for text in (reply.text, *thought, *(call.name + call.arguments for call in reply.calls)))
    usage = Usage(math.ceil(sent / 4), math.ceil(made / 4), None, 1, estimated=True)
    return replace(usage, cost=price(reply.model, usage))


# -- what they cost --------------------------------------------------------------------------------


def price(model: str, usage: Usage, base_url: str = "") -> float | None:
    """Return the price of a usage of ``Provider/model``, at a server, in US dollars, or None where it is not known.

    The prices are those that came with the installed `genai_prices`; nothing is asked over the network.

    >>> price("Builtin/extractive", Usage(1000, 100)), price("Ollama/llama3.2", Usage(1000, 100))
    (0.0, None)
    """
    provider, _, name = model.partition("/")
    if provider == "Builtin":
        return 0.0
    row = PROVIDERS.get(provider.lower())
    hosted = row is None or bool(row.keys)
    if not hosted and is_loopback_url(base_url):
        return None
    try:
        from genai_prices import Usage as PricedUsage, calc_price
    except ImportError:
        return None
    try:
        used = PricedUsage(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
        )
        if base_url and not hosted:
            result = calc_price(used, model_ref=name, provider_api_url=base_url)
        else:
            result = calc_price(used, model_ref=name, provider_id=provider.lower())
    except (LookupError, ValueError):
        return None
    return float(result.total_price)


# -- how much a model reads at once ----------------------------------------------------------------
# A configured window counts; else the server's: each common server reports it in a different place, and these are tried
# one after the other, once. The windows of hosted models are published with their prices. What a server says when it
# refuses a request as too long overrides all of that.


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The number of `tokens` that a model reads at once, including its reply; `origin` is the source of the number."""

    tokens: int
    origin: str

    @property
    def is_known(self) -> bool:
        """Whether the number is more than the one assumed where nothing is known."""
        return not self.origin.startswith(_ASSUMED)


def check_fits(text: str, window: ContextWindow, name: str, *, hint: str) -> None:
    """Check that a text may fit into the window of the model `name`, if the window is known.

    In any vocabulary, a word is at least one token; how many it is in the model's own, only its server knows.

    Raises:
        TooLong: it surely does not.
    """
    words = len(text.split())
    if window.is_known and words > window.tokens:
        fact = f"{name}: the text has {words:,} words, more than the {window.tokens:,} tokens that it reads at once"
        raise TooLong(fact, hint=hint, window=window.tokens)


ASSUMED = ContextWindow(DEFAULT, _ASSUMED)
_Server = tuple[str, str]  # the model's name, and the server's address
_told: dict[_Server, tuple[float, ContextWindow]] = {}
_refused: dict[_Server, int] = {}


def learn(settings: ModelSettings, refusal: TooLong, sent: int) -> int:
    """Return and record the window that a server names when it refuses `sent` tokens, else less than those."""
    tokens = refusal.window or max(sent * 3 // 4, 1)
    server = _server(settings)
    _refused[server] = min(tokens, _refused.get(server, tokens))
    return _refused[server]


def surely_fits(settings: ModelSettings, text: str) -> bool:
    """Return whether a text is so short that its model's window need not be known."""
    return len(text) <= _SMALL and settings.context_window is None and _server(settings) not in _refused


async def known_window(settings: ModelSettings) -> ContextWindow:
    """Return the window of a tier's model as far as it is known without asking its server."""
    known = ContextWindow(_refused.get(_server(settings)) or settings.context_window or 0, "known")
    return known if known.tokens else _published(settings) or ASSUMED


@background
async def window_of(settings: ModelSettings) -> ContextWindow:
    """Return the window of a tier's model; its server is asked if none is configured."""
    if refused := _refused.get(_server(settings)):
        return ContextWindow(refused, "reported by its server when it refused a longer text")
    if settings.context_window is not None:
        return ContextWindow(settings.context_window, "configured")
    asked = await _asked(settings) if settings.base_url else ContextWindow(0, "nothing is known about it")
    return asked if asked.tokens else _published(settings) or ContextWindow(DEFAULT, f"{_ASSUMED}{asked.origin}")


def _server(settings: ModelSettings) -> _Server:
    return str(settings.model), settings.base_url


def _published(settings: ModelSettings) -> ContextWindow | None:
    """Look up the window in `genai_prices`, by the provider's name, else by the server's address, without a network."""
    if settings.model.provider == "Builtin":
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    provider = None if settings.base_url else settings.model.provider.lower()
    try:
        found = get_snapshot().find_provider_model(settings.model.model, None, provider, settings.base_url or None)[1]
    except LookupError:
        return None
    return ContextWindow(found.context_window, "published (genai-prices)") if found.context_window else None


def published_models(provider: str) -> list[str]:
    """Return the names of a provider's models in `genai_prices`, without a network."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return []
    return [model.id for each in get_snapshot().providers if each.id == provider.lower() for model in each.models]


# -- asking the server -----------------------------------------------------------------------------


async def _asked(settings: ModelSettings) -> ContextWindow:
    """Return the server's window, perhaps cached for minutes; 0 tokens if it reports none or does not answer."""
    told = _told.get(_server(settings))
    if told is not None and time.monotonic() - told[0] < _FRESH:
        return told[1]
    import httpx2

    base, model = settings.base_url.rstrip("/"), settings.model.model
    root, answer, is_loaded = base.removesuffix("/v1"), dict[str, Any](), True
    try:
        async with _quick_client(settings) as client:
            for path, key, names in _PLACES:
                url = path.format(base=base, root=root)
                answer = await _json(client, url)
                if tokens := _window_in(answer, model, key, names):
                    break
            if not tokens and "models" in answer:  # it is Ollama
                url, is_loaded = f"{root}/api/show", False
                tokens = _unloaded(await _json(client, url, {"model": model}))
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return ContextWindow(0, "its server does not answer")
    window = ContextWindow(tokens, f"reported by {url}" if tokens else "its server does not report it")
    if is_loaded or not tokens:  # another one may be loaded in a moment
        _told[_server(settings)] = (time.monotonic(), window)
    return window


def _quick_client(settings: ServerSettings) -> httpx2.AsyncClient:
    return ModelServer.of(settings.replace(timeout=_PATIENCE), "").client()


async def unreachable(settings: ServerSettings) -> str:
    """Return why a model's server cannot be reached, or ``""`` if it lists its models or its address is not known
    (a provider's own server shows when it is asked)."""
    if not settings.base_url:
        return ""
    import httpx2

    try:
        async with _quick_client(settings) as client:
            answer = await client.get(settings.base_url.rstrip("/") + "/models")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return str(error) or type(error).__name__
    refused = answer.status_code in (401, 403) or answer.status_code >= 500
    return f"its server answers with {answer.status_code}" if refused else ""


async def _json(client: Any, url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a server's answer if it is a JSON object that is not too large; else an empty one."""
    async with client.stream("POST" if body else "GET", url, json=body) as response:
        data = b""
        async for piece in response.aiter_bytes():
            data += piece
            if response.status_code != 200 or len(data) > _LARGEST:
                return {}
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


# Where servers report it: a path, the key of the list of models, and names in the model's entry or the answer.
_PLACES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # vLLM and SGLang, OpenRouter and Together, Groq, llama.cpp; llama.cpp earlier; LM Studio; Ollama
    ("{base}/models", "data", ("max_model_len", "context_length", "context_window", "meta.n_ctx")),
    ("{root}/props", "", ("default_generation_settings.n_ctx",)),
    ("{root}/api/v0/models", "data", ("loaded_context_length", "max_context_length")),
    ("{root}/api/ps", "models", ("context_length",)),
)


def _window_in(answer: Mapping[str, Any], model: str, key: str, names: Iterable[str]) -> int:
    """Return the window that an answer contains under one of these names; 0 if it has none.

    >>> _window_in({"data": [{"id": "/models/gemma.gguf", "meta": {"n_ctx": 4096}}]}, "gemma", *_PLACES[0][1:])
    4096
    >>> _window_in({"models": [{"name": "llama3.2:latest", "context_length": 16384}]}, "llama3.2", *_PLACES[3][1:])
    16384
    """
    entry = _entry(answer, model, key) if key else answer

    def inside(value: Any, name: str) -> Any:
        return value.get(name) if isinstance(value, Mapping) else None

    return next((found for name in names if (found := _whole(functools.reduce(inside, name.split("."), entry)))), 0)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 1 else 0


def _entry(answer: Mapping[str, Any], model: str, key: str) -> Mapping[str, Any]:
    """Return the entry for a model in a list of models; a single one under ``data`` counts under any name."""
    entries = answer.get(key)
    entries = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    names = (model, f"{model}:latest")
    named = (one for one in entries if any(one.get(name) in names for name in ("id", "name", "model")))
    return next(named, entries[0] if len(entries) == 1 and key == "data" else {})


def _unloaded(answer: Mapping[str, Any]) -> int:
    """Return Ollama's window for a model that is not loaded: its file's, else Ollama's default, which cuts silently.

    >>> _unloaded({"parameters": "num_ctx                        8192", "model_info": {}})
    8192
    >>> _unloaded({"model_info": {"llama.context_length": 131072}})
    4096
    """
    if not isinstance(info := answer.get("model_info"), Mapping):
        return 0
    words = str(answer.get("parameters", "")).split()
    if "num_ctx" in words[:-1] and (said := words[words.index("num_ctx") + 1]).isdecimal():
        return int(said)
    most = next((_whole(value) for key, value in info.items() if str(key).endswith(".context_length")), 0)
    return min(most or _UNLOADED, _UNLOADED)
