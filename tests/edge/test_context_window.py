"""How much a model reads at once: configured, reported by its server, published, or default; lmm status shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge.conftest import write_config
from edge.support import run_here
from fakes.openai_server import ScriptedServer

from lmm import loop
from lmm.config import load_settings
from lmm.models.tokens import window_of

META = {"vocab_type": 1, "n_vocab": 262144, "n_ctx": 4096, "n_ctx_train": 32768, "n_params": 268098176}
OTHER = {"id": "other", "max_model_len": 1, "context_length": 1, "max_context_length": 1}
TOLD: dict[str, tuple[str, Any, int]] = {
    "llama.cpp": ("/v1/models", {"models": [{}], "data": [{"id": "/x.gguf", "object": "model", "meta": META}]}, 4096),
    "llama.cpp, earlier": ("/props", {"default_generation_settings": {"n_ctx": 8192, "params": {}}}, 8192),
    "vLLM": ("/v1/models", {"object": "list", "data": [OTHER, {"id": "test", "max_model_len": 32768}]}, 32768),
    "OpenRouter": ("/v1/models", {"data": [OTHER, {"id": "test", "context_length": 1047576}]}, 1047576),
    "LM Studio": ("/api/v0/models",
                  {"data": [OTHER, {"id": "test", "max_context_length": 32768, "loaded_context_length": 9000}]}, 9000),
    "LM Studio, not loaded": ("/api/v0/models", {"data": [OTHER, {"id": "test", "max_context_length": 32768}]}, 32768),
    "Ollama": ("/api/ps", {"models": [{"name": "test:latest", "context_length": 65536}]}, 65536),
    "Ollama, not loaded": ("/api/show", {"model_info": {"llama.context_length": 131072}, "parameters": "stop x"}, 4096),
    "nobody": ("/v1/models", {"data": [{"id": "test", "object": "model", "owned_by": "me"}]}, 0),
    "not what it seems": ("/v1/models", {"data": [{"id": "test", "max_model_len": "many"}, 7], "meta": None}, 0),
    "a page": ("/v1/models", "<html>Log in</html>", 0),
}  # fmt: skip


@pytest.mark.parametrize("who", TOLD)
def test_the_server_tells(server: ScriptedServer, who: str) -> None:
    """Each in its own place; where it does not, the default counts, and says so."""
    page, answer, tokens = TOLD[who]
    ollama: dict[str, Any] = {"/api/ps": {"models": []}} if page == "/api/show" else {}
    server.pages = {"/v1/models": {"data": [{"id": "test"}]}, **ollama, page: answer}
    toml = f'[major]\nmodel = "OpenAICompatible/test"\nbase_url = "{server.url}"\n'
    window = loop.run(window_of(load_settings(toml, {}).major))
    told = f"reported by {server.url.removesuffix('/v1')}{page}"
    expected = (tokens, told) if tokens else (100_000, "default: its server does not report it")
    assert (window.tokens, window.origin) == expected


def test_status_shows_where_each_is_known_from(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server's word, a published figure, a configured one."""
    server.pages["/v1/models"] = {"data": [{"id": "test", "max_model_len": 32768}]}
    config = write_config(folder, server)
    minor, aux = '[minor]\nmodel = "OpenAI/gpt-5-mini"\n', '[aux]\nmodel = "Ollama/x"\ncontext_window = 9000\n'
    config.write_text(config.read_text() + minor + aux)
    tiers = json.loads(run_here(capsys, "status", "--json").out)["tiers"]
    assert {name: (tiers[name]["window"]["tokens"], tiers[name]["window"]["origin"]) for name in list(tiers)[:3]} == {
        "major": (32768, f"reported by {server.url}/models"),
        "minor": (400_000, "published (genai-prices)"),
        "aux": (9000, "configured"),
    }
    assert f"reads 32,768 tokens at once      reported by {server.url}/models" in run_here(capsys, "status").out


def test_a_server_that_nobody_approved_is_not_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The clone's config.toml names it; status tells of it, and sends nothing."""
    (folder / "config.toml").write_text('[major]\nmodel = "vLLM/x"\nbase_url = "http://192.0.2.1:9/v1"\n')
    assert json.loads(run_here(capsys, "status", "--json").out)["tiers"]["major"]["model"] == "Builtin/extractive"


def test_a_window_belongs_to_the_model_beside_which_it_stands() -> None:
    """Another model that a document names is not taken for as small."""
    toml = '[major]\nmodel = "Ollama/small"\ncontext_window = 2000\n'
    header = {"model": {"major": "OpenAI/gpt-5"}}
    windows = [loop.run(window_of(load_settings(toml, {}, one).major)).tokens for one in ({}, header)]
    assert windows == [2000, 400_000]
