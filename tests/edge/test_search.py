"""`lmm search`, from documents on disk to what is printed; rerankers behind HTTP."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from edge.support import copy_course, lmm, run_here
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

import lmm_education
from lmm.cli.main import main

LEAVES = """---
title: Botany
docid: botany
---
# Leaves

Chlorophyll makes leaves green. A model of \x1b[31mred\x1b[0m light explains it; other models do not.

---
type: exercise
topic: colour
---
Put a leaf into alcohol and describe the chlorophyll.

# Roots

Root hairs take up water and minerals.
"""
LAW = "---\ntitle: Law\n---\n# Tax\n\nThe *tax* of a couple is computed jointly.\n"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents in a store."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "config.toml").write_text("")
    (folder / "leaves.md").write_text(LEAVES)
    (folder / "law.md").write_text(LAW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMM_STATE_DIR", str(folder / "state"))
        patch.setenv("LMM_CACHE_DIR", str(folder / "cache"))
        lmm_education.ingest([folder / "leaves.md", folder / "law.md"], config=folder / "config.toml")
    return folder


@pytest.fixture
def here(ingested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the course as the current folder."""
    copy_course(ingested, tmp_path / "course")
    monkeypatch.chdir(tmp_path / "course")
    return tmp_path / "course"


def test_a_result_shows_place_headings_and_matches(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Score, file:lines, heading path, the words in any form; nothing that controls a terminal."""
    ran = run_here(capsys, "search", "Which models explain green leaves?", "--limit", "1")
    assert ran.code == 0
    head, body = ran.out.splitlines()[:2]
    assert head.startswith(" 1  ")
    assert "leaves.md:7  Leaves" in head
    assert "makes **leaves** **green**" in body
    assert "A **model** of" in body
    assert "other **models** do" in body
    assert "\x1b" not in ran.out
    assert "\\x1b[31mred" in ran.out
    assert "The *tax* of a **couple** is" in run_here(capsys, "search", "tax of couples", "--limit", "1").out


def test_the_whole_command_in_its_own_process(here: Path) -> None:
    """As users run it; found is 0, nothing found 1, wrong usage 2."""
    found = lmm("search", "water for roots", "--json", "--limit", "2")
    assert found.code == 0, found.err
    result = json.loads(found.out)
    assert result["hits"][0]["headings"] == ["Roots"]
    assert len(result["hits"]) == 2
    assert result["sections"][0]["before"] == "Leaves"
    assert lmm("search", "--limit", "0", "x").code == 2


def test_nothing_found_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 1, so that scripts notice."""
    ran = run_here(capsys, "search", "--where", "topic=nothing")
    assert (ran.code, ran.out) == (1, "nothing was found\n")
    assert run_here(capsys, "search", "--where", "topic=nothing", "--json").code == 1


def test_what_does_not_fit_counts_as_not_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a threshold, the nearest are still shown."""
    (here / "config.toml").write_text("[search]\nthreshold = 0.2\n")
    assert run_here(capsys, "search", "green leaves").code == 0
    ran = run_here(capsys, "search", "leaves won a football match, who?")
    assert (ran.code, "nothing fits well" in ran.err, "leaves.md:7" in ran.out) == (1, True, True)


def test_filters_fields_and_ids(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is listed can be fetched by its id."""
    ran = run_here(capsys, "search", "--where", "topic=colour", "--fields", "topic,file", "--json")
    (hit,) = json.loads(ran.out)["hits"]
    assert hit["fields"] == {"topic": "colour", "file": "leaves.md"}
    assert hit["type"] == "exercise"
    ran = run_here(capsys, "search", "--id", hit["id"], "--fields", "topic")
    assert "Put a leaf into alcohol" in ran.out
    assert "topic: colour" in ran.out
    ran = run_here(capsys, "search", "green", "--doc", "leaves", "--type", "exercise")
    assert ran.out.count("leaves.md:") == 1
    assert "[exercise]" in ran.out


def test_sections_are_shown_whole_or_ranked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of passages, or after them."""
    whole = run_here(capsys, "search", "green leaves", "--documents", "--limit", "1", "--full")
    assert "Chlorophyll makes" in whole.out.replace("*", "")
    ranked = run_here(capsys, "search", "green leaves", "--sections")
    assert "sections\n 1  leaves.md:5" in ranked.out
    assert "before “Roots”" in ranked.out


def test_errors_say_what_to_do(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No question, an unknown name, no store, another model."""
    assert "ask one" in run_here(capsys, "search").err
    assert "did you mean 'law.md'" in run_here(capsys, "search", "x", "--doc", "lav.md").err
    ran = run_here(capsys, "search", "x", "--where", "topic")
    assert (ran.code, "key=value" in ran.err) == (2, True)
    assert "lmm ingest" in run_here(capsys, "search", "x", "--course", "other").err
    (here / "config.toml").write_text('[RAG]\nencoding_model = "content"\n')
    ran = run_here(capsys, "search", "x")
    assert ran.code == 1
    assert "[RAG] encoding_model was hybrid, is content" in ran.err
    assert "lmm ingest --again PATH" in ran.err


def test_a_german_course_says_how_it_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By words alone, on standard error, and found all the same."""
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text('[RAG]\nlanguage = "de"\n')
    Path("haus.md").write_text("# Bau\n\nDie Häuser haben rote Dächer.\n\n# Tor\n\nDas Tor ist zu.\n")
    lmm_education.ingest("haus.md")
    ran = run_here(capsys, "search", "Haus mit Dach")
    assert ran.code == 0
    assert "Die **Häuser** haben rote **Dächer**" in ran.out
    assert "haus.md:3" in ran.out
    assert ran.out.count("haus.md:") == 1
    assert ran.err.count("words alone (BM25)") == 1


def test_each_passage_is_marked_in_its_own_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stop words of English are words in German."""
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text("")
    Path("en.md").write_text("# Slopes\n\nWhat is the slope of this line?\n")
    Path("de.md").write_text("---\nlang: de\n---\n# Dinge\n\nEtwas anderes: die Häuser.\n")
    lmm_education.ingest(["en.md", "de.md"])
    ran = run_here(capsys, "search", "what is the slope of this", "--doc", "en")
    assert "What is the **slope** of this line?" in ran.out


def test_in_a_terminal_passages_are_broken_to_fit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their indent; in a file they are one line."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["search", "--where", "topic=colour"]) == 0
    head, *body = screen.getvalue().rstrip().split("\n")
    assert head == " 1  leaves.md:13  Leaves  [exercise]"
    assert body == ["    Put a leaf into alcohol and describe", "    the chlorophyll."]


# -- a reranker behind HTTP ------------------------------------------------------------------------


def by_length(request: Recorded) -> Action:
    """A server that likes short passages."""
    rows = [{"index": i, "relevance_score": 1 / len(text)} for i, text in enumerate(request.body["documents"])]
    return Action(body={"results": sorted(rows, key=lambda row: -row["relevance_score"])})


def configured(server: ScriptedServer, here: Path, more: str = "") -> None:
    """Use that server."""
    url = server.url + "/rerank"
    (here / "config.toml").write_text(f'[search]\nreranker = "http"\nreranker_url = "{url}"\n{more}')


def test_a_server_ranks(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It gets question, passages with their headings, model and key; its scores make the order."""
    monkeypatch.setenv("RERANK_KEY", "secret")
    with ScriptedServer(by_length) as server:
        configured(server, here, 'reranker_model = "jina-reranker-v2"\nreranker_key_env = "RERANK_KEY"\n')
        assert run_here(capsys, "trust", "--yes", str(here)).code == 0
        ran = run_here(capsys, "search", "green leaves", "--json")
    hits = json.loads(ran.out)["hits"]
    lengths = [len(hit["text"]) + len("".join(hit["headings"])) + len(hit["title"]) for hit in hits]
    assert lengths == sorted(lengths)
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    (request,) = server.requests
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.body["query"] == "green leaves"
    assert request.body["model"] == "jina-reranker-v2"
    assert any(text.startswith("Botany\nRoots\n\nRoot hairs") for text in request.body["documents"])


def test_a_server_that_is_busy_is_asked_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As long as it says."""
    with ScriptedServer(by_length) as server:
        server.queue(fail(429, headers={"Retry-After": "0"}), fail(503, headers={"Retry-After": "0"}))
        configured(server, here)
        assert run_here(capsys, "search", "green leaves").code == 0
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (fail(401), "reranker_key_env"),
        (fail(404), "reranker_model"),
        (fail(400, "too long"), "too long"),
    ],
)
def test_a_server_that_fails_is_told(here: Path, capsys: pytest.CaptureFixture[str], action: Action, said: str) -> None:
    """And no other order is given in place of its own."""
    with ScriptedServer(lambda request: action) as server:
        configured(server, here)
        ran = run_here(capsys, "search", "green leaves")
    assert ran.code == 1
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"embeddings": []}, "contains no scores"),
        ({"results": []}, "contains no scores"),
        ({"results": [{"index": 0, "relevance_score": float("nan")}]}, "contains no scores"),
        ("<html>", "sent a web page"),
    ],
)
def test_a_server_whose_reply_is_no_ranking(
    here: Path, capsys: pytest.CaptureFixture[str], reply: Any, said: str
) -> None:
    """The list as it was, with a notice."""
    plain = json.loads(run_here(capsys, "search", "green leaves", "--json").out)["hits"]
    with ScriptedServer(lambda request: Action(body=reply)) as server:
        configured(server, here)
        ran = run_here(capsys, "search", "green leaves", "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in plain]
    assert any("the reranker http" in notice and said in notice for notice in found["notices"])


def test_a_model_that_cannot_rank(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two replies that are no ranking: the list as it was, with a notice."""
    with ScriptedServer(lambda request: "I cannot rank these.") as server:
        (here / "config.toml").write_text(f'[aux]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\n')
        plain = json.loads(run_here(capsys, "search", "green leaves", "--json").out)["hits"]
        ran = run_here(capsys, "search", "green leaves", "--rerank", "model", "--json")
    assert (ran.code, len(server.requests)) == (0, 2)
    found = json.loads(ran.out)
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in plain]
    assert any("the reranker model" in notice for notice in found["notices"])


def test_sub_questions_and_ranking_by_a_model_behind_http(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The aux model writes, then ranks; what was asked too is shown."""

    def answer(request: Recorded) -> Any:
        ranks = "You rank passages" in request.last
        return '{"best_first": [2, 1]}' if ranks else '{"texts": ["How is tax computed?"]}'

    with ScriptedServer(answer) as server:
        (here / "config.toml").write_text(f'[aux]\nmodel = "OpenAICompatible/m"\nbase_url = "{server.url}"\n')
        ran = run_here(capsys, "search", "green leaves", "--expand", "2", "--rerank", "model", "--limit", "2")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("also asked:\n  How is tax computed?\n")
    assert len(server.requests) == 2
    assert '<passage number="1">' in server.requests[1].last
