"""The cache between texts and embedding models: nothing is paid or computed twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from edge.embedders import TEXTS, local, model2vec_folder, remote
from fakes.embeddings_protocol import DIMENSIONS, vector_of
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

from lmm.errors import ModelRejected
from lmm.providers import parse_name
from lmm_education.encode.encoder import VectorCache, open_embedder


def test_the_second_time_nothing_is_sent(server: ScriptedServer) -> None:
    """Known texts come from the cache, new ones from the model; a question is not a document."""
    settings = remote(server)
    first = open_embedder(settings).embed(TEXTS, kind="document")
    assert open_embedder(settings).embed([*TEXTS, "New."], kind="document")[:4] == first
    assert [request.texts for request in server.requests] == [TEXTS[:3], ["New."]]
    open_embedder(settings).embed(["New."], kind="query")
    open_embedder(settings.replace(dimensions=4)).embed(["New."], kind="query")
    open_embedder(settings.replace(query_prefix="q: ")).embed(["New."], kind="query")
    open_embedder(settings.replace(model=parse_name("OpenAICompatible/other"))).embed(["New."], kind="query")
    open_embedder(settings.replace(base_url=f"{server.url}/")).embed(["New."], kind="query")
    assert len(server.requests) == 7
    assert open_embedder(settings).dimensions == DIMENSIONS
    assert open_embedder(settings).dimensions == DIMENSIONS
    assert len(server.requests) == 8  # one to learn it, and never again


def test_another_process_uses_it(server: ScriptedServer) -> None:
    """The cache is a file that processes share."""
    script = (
        "import sys\n"
        "from lmm.config import EmbeddingSettings\n"
        "from lmm_education.encode.encoder import open_embedder\n"
        "from lmm.providers import parse_name\n"
        "s = EmbeddingSettings(parse_name('OpenAICompatible/some-model'), base_url=sys.argv[1])\n"
        "print(open_embedder(s).embed(['Why?'], kind='query'))\n"
    )
    line = [sys.executable, "-c", script, server.url]
    found = {subprocess.run(line, capture_output=True, check=True, text=True).stdout for _ in range(2)}
    assert found == {f"{[vector_of('Why?')]}\n"}
    assert len(server.requests) == 1


def test_what_arrived_before_a_failure_is_not_paid_again(server: ScriptedServer) -> None:
    """A batch is remembered when it arrives, not when all have."""

    def answer(request: Recorded) -> Action:
        return fail(400) if "c" in request.texts else Action()

    server.answer = answer
    settings = remote(server, batch_size=1, concurrency=1)
    with pytest.raises(ModelRejected):
        open_embedder(settings).embed(["a", "b", "c", "d"], kind="document")
    server.answer = lambda request: Action()
    server.requests.clear()
    open_embedder(settings).embed(["a", "b", "c", "d"], kind="document")
    assert {"c", "d"} >= {text for request in server.requests for text in request.texts} >= {"c"}


def test_what_is_no_vector_is_not_remembered(server: ScriptedServer) -> None:
    """A refused vector is asked for again."""
    server.queue(Action(body={"data": [{"index": 0, "embedding": [0.0]}]}))
    with pytest.raises(ModelRejected):
        open_embedder(remote(server)).embed(["Why?"], kind="query")
    assert open_embedder(remote(server)).embed(["Why?"], kind="query") == [vector_of("Why?")]


def test_a_cached_text_needs_no_model(tmp_path: Path) -> None:
    """Weights are not loaded, the library not even imported, where every text is known."""
    folder = model2vec_folder(tmp_path)
    settings = local(f"Model2Vec/{folder}")
    expected = open_embedder(settings).embed(TEXTS, kind="document")
    script = (
        "import sys\n"
        "from lmm.config import EmbeddingSettings\n"
        "from lmm_education.encode.encoder import open_embedder\n"
        "from lmm.providers import parse_name\n"
        f"e = open_embedder(EmbeddingSettings(parse_name({str(settings.model)!r})))\n"
        f"print(e.embed({TEXTS!r}, kind='document'), 'model2vec' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    assert found == f"{expected} False\n"


def test_other_weights_in_a_folder_are_another_model(tmp_path: Path) -> None:
    """The cache does not mix them up, nor does the store."""
    folder = model2vec_folder(tmp_path)
    before = open_embedder(local(f"Model2Vec/{folder}"))
    before.embed(TEXTS, kind="document")
    (folder / "model.safetensors").touch()
    assert open_embedder(local(f"Model2Vec/{folder}")).space != before.space


def test_the_builtin_model_is_not_cached() -> None:
    """It is so fast that a cache would cost more than it saves."""
    open_embedder(local("Builtin/wordllama")).embed(TEXTS, kind="document")
    assert not VectorCache().file.exists()
