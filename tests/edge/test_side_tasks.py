"""A text that names its model stays with it: summaries, judgements and compaction ask nobody else.

Two servers: the one of the model that the file names, and the one that a key in the environment would be used with.
Nothing may arrive at the second, unless the author chose its model for such tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from edge.support import Ran, run_here
from fakes.openai_server import Action, Recorded, ScriptedServer, annotation_reply
from transcript_texts import transcript_text

import chatmd
from lmm.config import ModelSettings
from lmm.messages import Message
from lmm.models.chat import open_chat
from lmm.providers import ModelName

LONG = "The leaf turns to the light, and what it does not need it gives away. " * 30
WINDOW = 4_000  # tokens


class Servers(NamedTuple):
    """The server that the file's model is at, and the one of the provider whose key is in the environment."""

    own: ScriptedServer
    other: ScriptedServer


def answer(request: Recorded) -> Action:
    """Summaries, judgements, annotations: whatever is asked for."""
    if "summary" in request.fields:
        return Action(annotation_reply(request))
    if "json" in str(request.body).lower():
        return Action(json.dumps({"score": 9, "reason": "ok", "questions": ["Why?"]}))
    return Action("## Goal\nA short summary.", usage=(len(str(request.body)) // 4, 5))


@pytest.fixture
def servers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with ScriptedServer(answer) as own, ScriptedServer(answer) as other:
        monkeypatch.setenv("VLLM_BASE_URL", own.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody")
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        for server in (own, other):
            names = ("mine", "chosen", "given", "gpt-4o-mini", "gpt-4.1-nano")
            server.pages["/v1/models"] = {"data": [{"id": name, "max_model_len": WINDOW} for name in names]}
        yield Servers(own, other)


@pytest.fixture
def transcript(folder: Path) -> Path:
    """A conversation that fills its model's window."""
    said = [message for n in range(10) for message in (Message("user", f"Go {n}."), Message("assistant", LONG))]
    path = folder / "long.chatmd"
    path.write_text(f'<config model="vLLM/mine" max_tokens="9"/>\n{transcript_text(said)}<user>And now?</user>\n')
    return path


def lmm(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    ran = run_here(capsys, *words)
    assert ran.code == 0, ran.err
    return ran


def models(server: ScriptedServer) -> set[str]:
    return {request.body["model"] for request in server.requests}


def test_compacting_by_hand(servers: Servers, transcript: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lmm(capsys, "compact", str(transcript), "--keep", "1")
    assert "summary by vLLM/mine" in ran.out
    assert (models(servers.own), servers.other.requests) == ({"mine"}, [])
    assert "max_tokens" not in servers.own.requests[0].body  # those are for its answers


def test_compacting_during_a_run(servers: Servers, transcript: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lmm(capsys, "run", str(transcript))
    assert "compacted by vLLM/mine" in ran.err
    assert (models(servers.own), servers.other.requests) == ({"mine"}, [])


def test_the_model_that_a_caller_gave(servers: Servers, folder: Path) -> None:
    """A model from Python counts more than any configured one, for the summary too."""
    said = "".join(f"<user>Go {n}.</user>\n<assistant>{LONG}</assistant>\n" for n in range(10))
    model = open_chat(ModelSettings(ModelName("vLLM", "given"), base_url=servers.own.url))
    _, chat = chatmd.Chat.from_text(said, folder=folder).reply("And now?", model=model)
    assert "conversation-summary" in chat.text
    assert (models(servers.own), servers.other.requests) == ({"given"}, [])


def test_the_model_of_the_command_line(servers: Servers, transcript: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript.write_text(transcript.read_text().replace('model="vLLM/mine" ', ""))
    lmm(capsys, "run", str(transcript), "--model", "vLLM/chosen")
    assert (models(servers.own), servers.other.requests) == ({"chosen"}, [])


def test_what_the_author_configured_counts(
    servers: Servers,
    transcript: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For that tier, in config.toml or in the environment; what stands for everything does not."""
    config, text = folder / "config.toml", transcript.read_text()
    monkeypatch.setenv("LMM_SOURCE", "OpenAI")
    assert "summary by vLLM/mine" in lmm(capsys, "compact", str(transcript), "--keep", "1").out
    assert servers.other.requests == []
    config.write_text('[aux]\nmodel = "OpenAI/small"\n')
    transcript.write_text(text)
    assert "summary by OpenAI/small" in lmm(capsys, "compact", str(transcript), "--keep", "1").out
    config.unlink()
    monkeypatch.delenv("LMM_SOURCE")
    monkeypatch.setenv("LMM_MODEL_MINOR", "OpenAI/minor")
    transcript.write_text(text)
    assert "summary by OpenAI/minor" in lmm(capsys, "compact", str(transcript), "--keep", "1").out


def test_refining(servers: Servers, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The judge and the writer of new instructions see the file and its replies."""
    (folder / "a.chatmd").write_text('<config model="vLLM/mine"/><system>Answer.</system><user></user>')
    (folder / "cases.json").write_text('[{"input": "Hello", "equals": "Good day", "judge": "It is polite."}]\n')
    run_here(capsys, "refine", "a.chatmd", "--cases", "cases.json", "--rounds", "1")
    assert len(servers.own.requests) >= 3
    assert (models(servers.own), servers.other.requests) == ({"mine"}, [])


@pytest.mark.parametrize("source", [None, "OpenAI"])
def test_documents(
    servers: Servers,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    source: str | None,
) -> None:
    """Annotations, and an answer about a text that is too long without its summaries, by the model of the header."""
    if source:
        monkeypatch.setenv("LMM_SOURCE", source)
    sections = "".join(f"## Part {n}\n\n{LONG}\n\n" for n in range(20))
    document = folder / "a.md"
    document.write_text(
        f"---\ntitle: Leaves\nmodel:\n  major: vLLM/mine\n---\n\n---\n?: Why?\n---\n# All\n\n{sections}"
    )
    lmm(capsys, "annotate", str(document), "--summaries", "--questions")
    assert (before := len(servers.own.requests)) > 5
    lmm(capsys, "messages", str(document))
    assert len(servers.own.requests) == before + 1
    assert (models(servers.own), servers.other.requests) == ({"mine"}, [])
