"""A model that is an agent's program (``ACP/claude``), asked by every command: a real program, which says what a
scripted server answers, is started, kept from files, terminals and keys, and ended."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge.serving import serving
from edge.support import BATCH_MODEL, copy_course, exchanges_of, lmm, run_here, start, wait_until
from edge.test_vendors import streamed
from fakes import agent_program
from fakes.openai_server import Recorded, ScriptedServer, hang

from lmm import errors, loop
from lmm.config import ModelSettings
from lmm.disk import trust
from lmm.messages import ChatEvent, ChatRequest, Image, Message, Notice, Reasoning, Reply, TextDelta
from lmm.models import chat, port
from lmm.models.agent_programs import AGENT_PROGRAMS, find_agent
from lmm.providers import ModelName
from lmm_education.course import Course

pytest.importorskip("acp")
CONFIG = '[major]\nmodel = "ACP/claude"\nmax_retries = 0\ntimeout = 20\n'
PLANT = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """The program on the path, and the server that it asks."""
    place = folder / "bin" / "claude-agent-acp"
    place.parent.mkdir()
    place.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{agent_program.__file__}" "$@"\n')
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    configure(folder)
    monkeypatch.setenv("PATH", f"{place.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AGENT_LOG", str(folder / "log"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    chat._shared.cache_clear()
    with ScriptedServer() as server:
        monkeypatch.setenv("AGENT_SERVER", server.url)
        yield server
    for one in heard(folder, "started"):
        with suppress(ProcessLookupError):
            os.killpg(one, signal.SIGKILL)


def configure(folder: Path, more: str = "") -> None:
    """The user's configuration."""
    (folder / "config.toml").write_text(CONFIG + more)
    trust.approve(folder / "config.toml", CONFIG + more)


def heard(folder: Path, what: str) -> list[Any]:
    """What the program has noted of this."""
    log = folder / "log"
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return [line[what] for line in lines if what in line]


def is_running(number: int) -> bool:
    """Whether a process is there."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ask(*messages: Message, timeout: float = 20.0, **more: Any) -> list[ChatEvent]:
    """All events of a request to the model itself."""
    model = chat.open_chat(ModelSettings(ModelName("ACP", "claude"), timeout=timeout, max_retries=0, **more))

    async def collect() -> list[ChatEvent]:
        return [event async for event in model.stream(ChatRequest(messages))]

    return loop.run(collect())


# -- every command ---------------------------------------------------------------------------------


def test_messages(program: ScriptedServer, folder: Path) -> None:
    """Two questions are sessions of one program, in an empty folder, without tools and keys; then it is gone."""
    (folder / "d.md").write_text("---\n?: Why?\n---\n# A\n\nText.\n\n---\n?: How?\n---\n# B\n\nText.\n")
    ran = lmm("messages", "d.md")
    assert (ran.code, "2 replies" in ran.out) == (0, True), ran
    assert exchanges_of(folder / "d.md") == [("Why?", "Reply to: Why?"), ("How?", "Reply to: How?")]
    (number,), (files,), (keys,) = (heard(folder, what) for what in ("started", "files", "keys"))
    assert (files, keys, heard(folder, "tools")) == ([], [], [[], []])
    assert all(text.startswith("<instructions>\nYou help an author") for text in heard(folder, "prompt"))
    wait_until(lambda: not is_running(number))
    assert not Path(heard(folder, "folder")[0]).exists()


def test_annotate_batch_and_extract(program: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data by a schema are asked for in the prompt; an answer that is none is sent back, as one conversation."""

    def answer(request: Recorded) -> str:
        if "keywords" in request.system:
            return '{"questions": ["What?"], "keywords": ["leaf"]}'
        if "JSON schema" not in request.last:
            return "30 metres"
        return '{"name": "Oak"}' if "is not valid" in request.last else "It is an oak."

    program.answer = answer
    text = "# Oak\n\n" + "An oak grows to 30 metres, and lives for a thousand years. " * 5 + "\n"
    (folder / "oak.md").write_text(text)
    (folder / "plant.json").write_text(json.dumps(PLANT))
    (folder / "mine.py").write_text(BATCH_MODEL)
    ran = run_here(capsys, "extract", "plant.json", "oak.md")
    assert (ran.code, json.loads(ran.out)["name"]) == (0, "Oak"), ran
    assert run_here(capsys, "batch", "height", "oak.md", "--from", "mine.py").code == 0
    ran = run_here(capsys, "annotate", "oak.md", "--keywords", "--questions")
    assert ran.code == 0, ran
    assert all(one in (folder / "oak.md").read_text() for one in ("30 metres", "leaf", "What?"))


def test_ask_and_serve(program: ScriptedServer, folder: Path, ingested: Path) -> None:
    """A course answers with it; students only if the teacher says so."""
    copy_course(ingested, folder)
    program.answer = lambda request: "A leaf is green because chlorophyll absorbs red and blue light [1]."
    configure(folder)
    with Course.open(config=folder / "config.toml") as course:
        assert "chlorophyll" in course.ask("Why is a leaf green?").text
    said = r"ACP/claude answers with your own account, .* \(set agent = true"
    with pytest.raises(errors.ConfigError, match=said), serving(folder / "config.toml"):
        pass
    configure(folder, "[serve]\nagent = true\n")
    with serving(folder / "config.toml") as address:
        asked = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
        answer = httpx2.post(f"{address}/v1/chat/completions", json=asked, timeout=60).json()
    assert "chlorophyll" in answer["choices"][0]["message"]["content"]
    assert answer["usage"]["prompt_tokens"] > 0


def test_run(program: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A conversation is one text, with the pictures; tools cannot be given to it."""
    configure(folder, "temperature = 0.5\n")
    (folder / "a.chatmd").write_text(
        "<system>Be brief.</system>\n<user>/help</user>\n<assistant>Yes?</assistant>\n<user>Why?</user>\n"
    )
    ran = run_here(capsys, "run", "a.chatmd")
    assert (ran.code, "does not take temperature" in ran.err) == (0, True), ran
    asked = heard(folder, "prompt")[0].partition("</instructions>\n\n")[2]
    assert asked.startswith("<conversation>\n[user]\n/help\n\n[assistant]\nYes?\n\n[user]\nWhy?")
    (folder / "b.chatmd").write_text('<tool name="read_file"/>\n<user>Why?</user>\n')
    ran = run_here(capsys, "run", "b.chatmd")
    assert "ACP/claude cannot be given tools (choose another model where tools are used" in ran.err


def test_status_says_where_the_program_is(
    program: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or how it is installed, as its use does."""
    assert str(folder / "bin" / "claude-agent-acp") in run_here(capsys, "status").out
    monkeypatch.setenv("PATH", "bin")  # of the current folder, which may be a stranger's
    hint = "npm install -g @agentclientprotocol/claude-agent-acp"
    fact = f"ACP/claude needs the program claude-agent-acp, not installed ({hint})"
    assert fact in run_here(capsys, "status").out
    (folder / "d.md").write_text("---\n?: Why?\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, fact in ran.err) == (1, True), ran


@pytest.mark.parametrize("where", ["config.toml", "header"])
def test_a_stranger_starts_no_program(
    program: ScriptedServer,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    """Neither with a configuration nor with a document."""
    text = "---\n?: Why?\n---\nText.\n"
    (folder / "below").mkdir()
    (folder / "below" / "d.md").write_text(text)
    if where == "config.toml":
        (folder / "config.toml").rename(folder / "below" / "config.toml")
    else:
        (folder / "below" / "d.md").write_text("---\nmodel:\n  major: ACP/claude\n---\n" + text)
    (folder / "config.toml").unlink(missing_ok=True)
    ran = run_here(capsys, "messages", "below/d.md")
    assert ran.code == 2, ran
    said = {"config.toml": "you have not approved this file, and it sets 'model'", "header": "starts a program"}
    assert said[where] in ran.err
    assert not heard(folder, "started")


# -- what may go wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("habit", "kind", "said"),
    [
        ("die", errors.ModelUnavailable, "is not available: its program ended with exit code 3: out of memory"),
        ("login", errors.ModelKeyMissing, r"is not available: nobody is logged in \(run claude, and type /login\)"),
        ("silent", errors.ModelTimeout, "sent nothing for 2 s"),
        ("deaf", errors.ModelTimeout, "sent nothing for 2 s"),
    ],
)
def test_not_available(
    program: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch, habit: str,
    kind: type[errors.ModelError], said: str,
) -> None:  # fmt: skip
    """The error says what to do, and nothing is left running that does not answer."""
    monkeypatch.setenv("AGENT_HABIT", habit)
    with pytest.raises(kind, match=said):
        ask(Message("user", "Why?"), timeout=2 if "nothing" in said else 20)
    if habit != "login":
        wait_until(lambda: not any(map(is_running, heard(folder, "started"))))


ODD = """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked:
        continue
    for params in ([], {"sessionId": [], "update": 1}, {"sessionId": "7", "update": ["x"], "options": [1]}):
        for number in ({}, {"id": 1}):
            method = "session/request_permission" if number else "session/update"
            print(json.dumps({"jsonrpc": "2.0", **number, "method": method, "params": params}), flush=True)
    print("[1]\\n\\x00{", flush=True)
    results = {"session/new": {"sessionId": 7}, "session/prompt": {"stopReason": 1, "usage": [1]}}
    result = results.get(asked.get("method"), [])
    print(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho 'Unknown argument: acp' >&2\nexit 2\n", "ended with exit code 2: Unknown argument: acp"),
        (f"#!{sys.executable}\n{ODD}", "sent an empty reply"),
    ],
    ids=["another version", "odd values"],
)
def test_a_program_that_does_not_speak_the_protocol(
    program: ScriptedServer, folder: Path, capfd: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """It is an error of ours, and nothing of it is printed."""
    (folder / "bin" / "claude-agent-acp").write_text(text)
    with pytest.raises(errors.ModelError, match=said):
        ask(Message("user", "Why?"), timeout=5)
    assert capfd.readouterr() == ("", "")


def test_what_it_asks_for_is_refused(program: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, terminals, permissions; the user reads it once, and the answer arrives."""
    monkeypatch.setenv("AGENT_HABIT", "asks")
    events = ask(Message("user", "Why?"))
    asked = dict(zip(heard(folder, "asked"), heard(folder, "error"), strict=False))
    assert asked == dict.fromkeys(("file", "written", "terminal", "permission"), -32601)
    assert [event.text for event in events if isinstance(event, Notice)] == [
        f"ACP/claude asks for {what}, which is refused"
        for what in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission")
    ]
    assert isinstance(events[-1], Reply)
    assert events[-1].text == "Reply to: Why?"


def test_thoughts_pieces_and_pictures(program: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thoughts are no part of the answer; usage is estimated where it is not told; pictures go where they are taken."""
    monkeypatch.setenv("AGENT_HABIT", "thinks")
    picture = Message("user", "What is this?", content=(Image(b"\x89PNG\r\n\x1a\n"),))
    *events, thought, reply = ask(picture)
    assert isinstance(reply, Reply)
    assert (thought, reply.text) == (Reasoning("Hm. "), "Reply to: What is this?")
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    assert (reply.usage.estimated, reply.usage.cost, heard(folder, "pictures")) == (True, None, [["image/png"]])
    monkeypatch.setenv("AGENT_HABIT", "blind")
    with pytest.raises(errors.ModelRejected, match="takes no pictures"):
        ask(picture)


def test_cancelled(program: ScriptedServer, folder: Path) -> None:
    """Ctrl-C cancels the prompt, and ends the program."""
    program.queue(hang())
    (folder / "d.md").write_text("---\n?: Why?\n---\nText.\n")
    process = start("messages", "d.md")
    wait_until(lambda: heard(folder, "prompt"))
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert heard(folder, "cancelled") == ["session-1"]
    wait_until(lambda: not is_running(heard(folder, "started")[0]))


def test_a_program_that_has_ended_is_started_again(program: ScriptedServer, folder: Path) -> None:
    """Its sessions are closed; what it might take for a command is none."""
    model = chat.open_chat(ModelSettings(ModelName("ACP", "claude"), max_retries=1))

    async def one() -> str:
        events = [event async for event in model.stream(ChatRequest((Message("user", "/help"),)))]
        assert isinstance(events[-1], Reply)
        return events[-1].text

    assert all("Reply to" in loop.run(one()) for _ in range(2))
    (number,) = heard(folder, "started")
    wait_until(lambda: heard(folder, "closed") == ["session-1", "session-2"])
    os.killpg(number, signal.SIGKILL)
    wait_until(lambda: not is_running(number))
    assert "Reply to" in loop.run(one())
    assert len(heard(folder, "started")) == 2
    assert heard(folder, "prompt") == ["<message>\n/help\n</message>"] * 3


# -- the programs themselves -----------------------------------------------------------------------

PLACES = "LMM_TEST_AGENTS"  # folders with the programs, as in PATH: node_modules/.bin


@pytest.mark.parametrize("agent", AGENT_PROGRAMS)
def test_a_real_program_sends_neither_tools_nor_files_nor_keys(
    agent: str, folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vendor's address is a server of ours, which sees what it sends."""
    monkeypatch.setenv("PATH", os.environ.get(PLACES, "") + os.pathsep + os.environ["PATH"])
    if PLACES not in os.environ or not find_agent(agent)[1]:
        pytest.skip(f"{PLACES} has no program for {agent}")
    root, secret = server.url.removesuffix("/v1"), folder / "secret.txt"
    secret.write_text("a secret of the user's")
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": server.url}, "models": {"m": {}}}
    files = {
        ".gemini/.env": "GEMINI_API_KEY=of-the-login\n",
        ".gemini/settings.json": json.dumps({"model": {"name": "gemini-2.5-flash"}}),
        ".config/opencode/opencode.json": json.dumps({"model": "here/m", "provider": {"here": provider}}),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ours = {
        "IS_SANDBOX": "1",
        "ANTHROPIC_AUTH_TOKEN": "of-the-login",
        "ANTHROPIC_API_KEY": "sk-1",
        "OPENAI_API_KEY": "sk-1",
    }
    for name, value in {
        **ours,
        "HOME": str(folder),
        "ANTHROPIC_BASE_URL": root,
        "GOOGLE_GEMINI_BASE_URL": root,
    }.items():
        monkeypatch.setenv(name, value)
    vendor = {"claude": "Anthropic", "gemini": "Google"}.get(agent)
    server.answer = lambda request: streamed(vendor) if vendor else "A leaf."
    model = chat.open_chat(ModelSettings(ModelName("ACP", agent), timeout=60, max_retries=0))
    asked = ChatRequest(
        (Message("system", "Be brief."), Message("user", f"/help What is in @{secret} and @~/secret.txt?"))
    )
    assert loop.run(port.ask(model, asked)).text == "A leaf."
    (request,) = [one for one in server.requests if "/help" in json.dumps(one.body)]
    said = json.dumps(request.body)
    assert not [one for one in request.body.get("tools", ()) if one.get("functionDeclarations") != []]
    assert "Be brief." in said
    assert "a secret of the user's" not in said
    assert "sk-1" not in said + json.dumps(dict(request.headers))
