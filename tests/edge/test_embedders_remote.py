"""Embedding models behind HTTP: what goes over the wire, how much at once, and what happens when it fails."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from edge.embedders import REMOTE, TEXTS, remote
from fakes.embeddings_protocol import DIMENSIONS, vector_of
from fakes.openai_server import Action, ScriptedServer, fail, hang

from lmm import loop
from lmm.errors import (
    ModelBusy,
    ModelError,
    ModelKeyMissing,
    ModelNotFound,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    NoValidReply,
)
from lmm_education.encode.encoder import open_embedder


@pytest.mark.parametrize("name", REMOTE)
def test_the_vectors_are_the_servers(server: ScriptedServer, name: str) -> None:
    """Whatever their form (numbers, base64) and their order in the reply; exact as four-byte floats."""
    vectors = open_embedder(remote(server, name)).embed(TEXTS, kind="document")
    sent = {text: vector_of(text) for request in server.requests for text in request.texts}
    assert len(sent) == 3  # equal texts go out once
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector in [sent[key] for key in sent if key.endswith(text)]


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("Ollama/nomic-embed-text", "search_query: Why?", "search_document: Why?"),
        ("vLLM/intfloat/multilingual-e5-small", "query: Why?", "passage: Why?"),
        ("OpenAICompatible/BAAI/bge-m3", "Why?", "Why?"),
        (
            "LMStudio/text-embedding-embeddinggemma-300m",
            "task: search result | query: Why?",
            "title: none | text: Why?",
        ),
        ("Google/gemini-embedding-2", "task: search result | query: Why?", "title: none | text: Why?"),
        ("OpenAI/text-embedding-3-small", "Why?", "Why?"),
    ],
)
def test_prefixes(server: ScriptedServer, name: str, query: str, document: str) -> None:
    """Questions and documents go out as the model's card asks."""
    settings = remote(server, name)
    if name.startswith("Google"):
        settings = settings.replace(base_url=server.url.removesuffix("/v1"))
    embedder = open_embedder(settings)
    embedder.embed(["Why?"], kind="query")
    embedder.embed(["Why?"], kind="document")
    assert [request.texts for request in server.requests] == [[query], [document]]


def test_prefixes_of_the_settings_win(server: ScriptedServer) -> None:
    """Also an empty one; the documents' is part of the space."""
    settings = remote(server, "Ollama/nomic-embed-text", query_prefix="q: ", document_prefix="")
    embedder = open_embedder(settings)
    embedder.embed(["Why?"], kind="query")
    embedder.embed(["Why?"], kind="document")
    assert [request.texts for request in server.requests] == [["q: Why?"], ["Why?"]]
    assert embedder.space == "Ollama/nomic-embed-text"
    usual = open_embedder(remote(server, "Ollama/nomic-embed-text")).space
    assert usual == "Ollama/nomic-embed-text document_prefix='search_document: '"


@pytest.mark.parametrize(
    ("name", "path", "header", "told"),
    [
        ("OpenAI/text-embedding-3-small", "/v1/embeddings", ("authorization", "Bearer sk-0123456789"), {}),
        ("Mistral/mistral-embed", "/v1/embeddings", ("authorization", "Bearer sk-0123456789"), {"input": ["Why?"]}),
        ("Voyage/voyage-4", "/v1/embeddings", ("authorization", "Bearer sk-0123456789"), {"input_type": "query"}),
        ("Cohere/embed-v4.0", "/v2/embed", ("authorization", "Bearer sk-0123456789"), {"input_type": "search_query"}),
        (
            "Google/gemini-embedding-001",
            "/v1beta/models/gemini-embedding-001:batchEmbedContents",
            ("x-goog-api-key", "sk-0123456789"),
            {"taskType": "RETRIEVAL_QUERY"},
        ),
    ],
)
def test_each_vendors_protocol(
    server: ScriptedServer, name: str, path: str, header: tuple[str, str], told: dict[str, str]
) -> None:
    """Path, key and side as the vendor wants them; `dimensions` under the vendor's name for it."""
    open_embedder(remote(server, name, dimensions=4)).embed(["Why?"], kind="query")
    (request,) = server.requests
    assert request.path == path
    assert request.headers[header[0]] == header[1]
    body = request.body.get("requests", [request.body])[0]
    assert told.items() <= body.items()
    assert 4 in (body.get("dimensions"), body.get("output_dimension"), body.get("outputDimensionality"))


def test_no_key_no_header(server: ScriptedServer) -> None:
    """A local server gets no key, whatever the environment holds."""
    open_embedder(remote(server)).embed(["Why?"], kind="query")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("OpenAI/text-embedding-3-small", 256),
        ("Cohere/embed-v4.0", 96),
        ("Google/gemini-embedding-001", 100),
        ("Voyage/voyage-4", 128),
    ],
)
def test_batches_keep_to_the_vendors_limit(server: ScriptedServer, name: str, most: int) -> None:
    """No request has more texts than the vendor takes."""
    texts = [f"text {n}" for n in range(most + 10)]
    open_embedder(remote(server, name)).embed(texts, kind="document")
    assert sorted(len(request.texts) for request in server.requests) == [10, most]


def test_batches_keep_to_the_settings_and_to_a_number_of_characters(server: ScriptedServer) -> None:
    """`batch_size` bounds the texts; long texts go out in smaller batches, in one request each if need be."""
    open_embedder(remote(server, batch_size=3)).embed([f"text {n}" for n in range(10)], kind="document")
    assert sorted(len(request.texts) for request in server.requests) == [1, 3, 3, 3]
    server.requests.clear()
    open_embedder(remote(server)).embed([f"{n}" * 60_000 for n in range(3)], kind="document")
    assert [len(request.texts) for request in server.requests] == [1, 1, 1]


def test_so_many_requests_at_once_and_no_more(server: ScriptedServer) -> None:
    """`concurrency` holds over all calls of one embedder; several do run side by side."""
    server.answer = lambda request: Action(delay=0.05)
    embedder = open_embedder(remote(server, batch_size=1, concurrency=3))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda side: embedder.embed([f"{side} {n}" for n in range(8)], kind="document"), ("a", "b")))
    assert server.most_in_flight == 3


@pytest.mark.parametrize(
    "trouble",
    [
        fail(429, headers={"Retry-After": "0"}),
        fail(503, headers={"Retry-After": "0"}),
        fail(500, headers={"retry-after-ms": "1"}),
    ],
    ids=["429", "503", "500"],
)
def test_what_may_pass_is_tried_again(server: ScriptedServer, trouble: Action) -> None:
    """429 and 5xx, after the pause that the server asks for."""
    server.queue(trouble, trouble)
    vectors = open_embedder(remote(server, max_retries=2)).embed(["Why?"], kind="query")
    assert vectors == [vector_of("Why?")]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "message", "hint"),
    [
        (fail(401, "bad key sk-0123456789"), ModelKeyMissing, "HTTP 401: bad key …", "lmm status"),
        (fail(404, "model not found"), ModelNotFound, "model not found", "check the model's name"),
        (fail(429), ModelBusy, "HTTP 429", "concurrency"),
        (fail(500), ModelUnavailable, "HTTP 500", "later"),
        (fail(400, "too long"), ModelRejected, "too long", "too long for the model"),
        (fail(413), ModelRejected, "HTTP 413", "batch_size"),
        (Action(status=429, body={"error": {"code": "insufficient_quota"}}), ModelRejected, "429", "quota"),
        (Action(status=400, body={"error": {"message": "API key not valid."}}), ModelKeyMissing, "not valid", "key"),
        (Action(status=422, body={"detail": "batch size 64 > 32"}), ModelRejected, "422: batch size", "batch_size"),
        (Action(status=302, body="", headers={"Location": "/"}), ModelRejected, "302", ""),
        (Action(body="<html>proxy</html>"), NoValidReply, "sent a web page", "login"),
        (Action(body={"data": []}), ModelRejected, "0 vectors for 1 texts", "log"),
        (Action(body={"data": [{"index": 3, "embedding": [1.0]}]}), NoValidReply, "contains no vectors", ""),
        (Action(body={"data": [{"index": 0, "embedding": "%%"}]}), NoValidReply, "contains no vectors", ""),
        (Action(body={"data": [{"index": 0, "embedding": [0.0, 0.0]}]}), ModelRejected, "no vector of “Why?”", "skip"),
        (Action(body='{"data": [{"index": 0, "embedding": [NaN, 1]}]}'), ModelRejected, "no vector of “Why?”", "skip"),
        (Action(body='{"data": [{"index": 0, "embedding": [1e99, 1]}]}'), ModelRejected, "no vector of “Why?”", "skip"),
        (Action(body={"data": [{"index": 0, "embedding": []}]}), ModelRejected, "no vector", ""),
    ],
)
def test_errors(server: ScriptedServer, answer: Action, kind: type[ModelError], message: str, hint: str) -> None:
    """Each says what happened and what to do; none is a vendor's, and no key is in it."""
    server.queue(answer)
    with pytest.raises(ModelError) as raised:
        open_embedder(remote(server, "OpenAI/text-embedding-3-small")).embed(["Why?"], kind="query")
    assert type(raised.value) is kind
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert "sk-0123456789" not in str(raised.value)


_SAID = '{"message": "no", "detail": "no", "error": {"message": "no"}}'  # as Cohere, Voyage and Google say it
_BAD_KEY = _SAID.replace("no", "bad key sk-0123456789")


@pytest.mark.parametrize("name", ["Cohere/embed-v4.0", "Google/gemini-embedding-001", "Voyage/voyage-4"])
def test_errors_of_vendors(server: ScriptedServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours, whatever the vendor's client makes of a reply; neither redirect nor environment changes the server."""
    for variable in ("CO_API_URL", "GOOGLE_GEMINI_BASE_URL", "HTTP_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("VOYAGE_API_KEY_PATH", "/missing")
    embedder = open_embedder(remote(server, name, dimensions=DIMENSIONS, max_retries=1), cache=False)
    once = open_embedder(remote(server, name, timeout=0.2), cache=False)
    length = len(server.requests)
    server.queue(Action(status=429, body=_SAID, headers={"Retry-After": "0"}), Action(status=429, body=_SAID))
    for answer, kind, message in (
        (Action(status=429, body=_SAID), ModelBusy, "HTTP 429: no"),
        (Action(status=401, body=_BAD_KEY), ModelKeyMissing, "HTTP 401: bad key …"),
        (Action(status=404, body=_SAID), ModelNotFound, "HTTP 404: no"),
        (Action(status=400, body=_SAID), ModelRejected, "HTTP 400: no"),
        (Action(status=500, body=_SAID), ModelUnavailable, "HTTP 500: no"),
        (Action(status=302, body="", headers={"Location": f"{server.url}/x"}), ModelRejected, "redirects to"),
        (Action(body="<html>login</html>"), NoValidReply, "sent a web page"),
        (Action(body={}), ModelError, "vectors"),
        (Action(body=[]), ModelError, "vectors"),
        (hang(), ModelTimeout, "sent nothing for 0.2 s"),
    ):
        if message != "HTTP 429: no":
            server.queue(answer)
        with pytest.raises(kind, match=message) as raised:
            (embedder if message == "HTTP 429: no" else once).embed(["Why?"], kind="query")
        assert type(raised.value) in (kind, NoValidReply, ModelRejected)
        assert "sk-0123456789" not in str(raised.value)
    assert len(server.requests) == length + 11


def test_a_missing_model_of_ollama(server: ScriptedServer) -> None:
    """The error names the command that fetches it."""
    server.queue(fail(404, 'model "x" not found, try pulling it first'))
    with pytest.raises(ModelNotFound) as raised:
        open_embedder(remote(server, "Ollama/x")).embed(["Why?"], kind="query")
    assert raised.value.hint == "ollama pull x"


def test_a_server_that_is_silent_or_gone(server: ScriptedServer) -> None:
    """A time-out and a refused connection, each in its own words."""
    server.queue(hang())
    with pytest.raises(ModelTimeout, match=r"nothing for 0\.2 s"):
        open_embedder(remote(server, timeout=0.2)).embed(["Why?"], kind="query")
    nobody = remote(server).replace(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable, match=r"is the server running at http://127.0.0.1:9/v1"):
        open_embedder(nobody).embed(["Why?"], kind="query")
    with pytest.raises(ModelError):
        open_embedder(nobody.replace(base_url="nonsense")).embed(["Why?"], kind="query")


def test_vectors_of_another_length(server: ScriptedServer) -> None:
    """A server that ignores `dimensions`, or whose model changed, is found out."""
    short = Action(body={"data": [{"index": 0, "embedding": [1.0, 2.0]}]})
    server.queue(short)
    with pytest.raises(ModelRejected, match=r"2 numbers, not 4"):
        open_embedder(remote(server, dimensions=4)).embed(["Why?"], kind="query")
    embedder = open_embedder(remote(server))
    assert embedder.dimensions == DIMENSIONS
    server.queue(short)
    with pytest.raises(ModelRejected, match=r"2 numbers, not 8"):
        embedder.embed(["What?"], kind="query")


def test_no_connection_stays_open(server: ScriptedServer) -> None:
    """Between calls no connection is held."""
    before = threading.active_count()
    open_embedder(remote(server)).embed(["Why?"], kind="query")
    end = time.monotonic() + 10
    while threading.active_count() > before + 1:  # our loop's thread stays
        assert time.monotonic() < end
        time.sleep(0.01)


def test_embedding_on_our_own_loop_fails_instead_of_hanging(server: ScriptedServer) -> None:
    """A coroutine of ours that calls the synchronous function would wait for itself."""
    embedder = open_embedder(remote(server))

    async def wrong() -> list[list[float]]:
        return embedder.embed(["Why?"], kind="query")

    with pytest.raises(RuntimeError, match="await"):
        loop.run(wrong())
