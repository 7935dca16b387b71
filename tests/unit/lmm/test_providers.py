"""Model names, and the table of providers."""

from __future__ import annotations

import pytest

from lmm.errors import ConfigError
from lmm.providers import ALIASES, PROVIDERS, ModelName, Provider, find_provider, parse_name
from lmm_education.encode.encoder import ADAPTERS


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("OpenAI/gpt-4.1-mini", "OpenAI", "gpt-4.1-mini"),
        ("openai/gpt-4.1-mini", "OpenAI", "gpt-4.1-mini"),
        (" OLLAMA/llama3.2:3b ", "Ollama", "llama3.2:3b"),
        ("OpenAICompatible/meta-llama/Llama-3", "OpenAICompatible", "meta-llama/Llama-3"),
        ("gemini/gemini-2.5-flash", "Google", "gemini-2.5-flash"),
        ("lm-studio/x", "LMStudio", "x"),
        ("openai-compatible/x", "OpenAICompatible", "x"),
        ("vllm / x ", "vLLM", "x"),
        ("llama.cpp/gemma", "LlamaCpp", "gemma"),
        ("Builtin/extractive", "Builtin", "extractive"),
        ("sentence-transformers/intfloat/e5-small-v2", "SentenceTransformers", "intfloat/e5-small-v2"),
        ("Model2Vec//srv/models/mine", "Model2Vec", "/srv/models/mine"),
        ("VoyageAI/voyage-4", "Voyage", "voyage-4"),
    ],
)
def test_parse_name(text: str, provider: str, model: str) -> None:
    """The provider's case does not matter and it is spelled as in the table; the model is taken as it is."""
    name = parse_name(text)
    assert name == ModelName(provider, model)
    assert parse_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gpt-4o", "'gpt-4o' is not a model name", "write Provider/model"),
        ("OpenAI/", "is not a model name", "write Provider/model"),
        ("OpenAI/ ", "is not a model name", "write Provider/model"),
        ("", "'' is not a model name", "write Provider/model"),
        ("/x", "unknown provider ''", "known: Builtin, OpenAI"),
        ("Opnai/gpt-4o", "unknown provider 'Opnai'", "did you mean OpenAI?"),
        ("xyz/model", "unknown provider 'xyz'", "known: Builtin, OpenAI"),
    ],
)
def test_what_is_not_a_name(text: str, message: str, hint: str) -> None:
    """The error says where, what, and what it could have been."""
    with pytest.raises(ConfigError) as raised:
        parse_name(text, where="config.toml [major]")
    assert message in raised.value.message
    assert raised.value.hint.startswith(hint)
    assert raised.value.where == "config.toml [major]"


@pytest.mark.parametrize("key", [*PROVIDERS, *ALIASES])
def test_every_row_can_be_found(key: str) -> None:
    """By its name in any case, and by its aliases."""
    provider = find_provider(key)
    assert find_provider(key.upper()) is find_provider(provider.name) is provider


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=str)
def test_rows_are_complete(provider: Provider) -> None:
    """A provider needs a key, or says where its server is, or runs inside; a known major model has a small one."""
    row = provider
    inside = row.name in ("ACP", "Builtin", "Recorded", "FastEmbed", "SentenceTransformers", "Model2Vec")
    assert row.keys or row.base_url or row.needs_base_url or inside
    assert bool(row.major) == bool(row.minor)
    assert not (row.embedding and not row.embedder)
    assert not (row.major and not row.chats)
    assert not row.embedder or row.embedder in ADAPTERS
    assert row.chats or row.embedder
