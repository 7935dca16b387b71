"""A failed call: the prompt stays, the file is whole, other replies are kept, and the message helps.

Every case runs the command's own code on a real server; `test_commands.py` runs some of it in processes.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import exchanges_of, run_here, waiting
from fakes.openai_server import Action, Recorded, ScriptedServer, fail, hang

from lmm.cli.main import main

DOCUMENT = """\
---
title: T
---

---
?: the good one
---
First paragraph.

---
kind: x
?: the bad one
+: and after it
---
Second paragraph, without final newline."""

SECRET = "sk-secret-0123456789"


@dataclass(frozen=True, slots=True)
class Case:
    """A way to fail, and words that the message must have: what happened, and how to mend it."""

    action: Action
    says: tuple[str, ...]


CASES = {
    "401": Case(fail(401, f"Incorrect API key provided: {SECRET}"), ("HTTP 401", "check the API key")),
    "403": Case(fail(403, "not for you"), ("HTTP 403", "not for you", "check the API key")),
    "404": Case(fail(404, "no model 'test'"), ("HTTP 404", "no model 'test'", "check the model's name")),
    "429": Case(fail(429, "slow down"), ("HTTP 429", "slow down", "try again later")),
    "quota": Case(
        Action(status=429, body={"error": {"message": "quota", "code": "insufficient_quota"}}), ("credit is used up",)
    ),
    "400": Case(fail(400, "bad parameter"), ("HTTP 400", "bad parameter", "change the request or the model")),
    "too long": Case(
        Action(status=400, body={"error": {"message": "too long", "code": "context_length_exceeded"}}),
        ("too long for this model", "ask about a smaller part"),
    ),
    "500": Case(fail(500, "boom"), ("HTTP 500", "boom", "try again later")),
    "502 in HTML": Case(Action(status=502, body="<html>Bad Gateway</html>"), ("HTTP 502", "Bad Gateway")),
    "not an API": Case(Action(body="<html>Welcome</html>"), ("sent a web page", "check base_url")),
    "no stream": Case(Action(body={"error": {"message": "crashed"}}), ("crashed", "try again")),
    "time-out": Case(hang(), ("sent nothing for 0.4 s", "longer 'timeout'")),
    "stalled": Case(
        Action("the beginning of a reply", hold=threading.Event(), hold_after=1), ("sent nothing for 0.4 s",)
    ),
    "cut at once": Case(Action("never seen", cut_after=0), ("broke off", "try again")),
    "cut connection": Case(Action("the beginning of a reply", cut_after=1), ("broke off", "try again")),
    "no end": Case(Action("the beginning of a reply", finish=None), ("broke off", "try again")),
    "empty reply": Case(Action(""), ("empty reply", "try again")),
    "blank reply": Case(Action(" \n\t\n"), ("empty reply",)),
    "only reasoning": Case(Action("", reasoning="hm"), ("empty reply",)),
}


def bad_one(action: Action) -> Callable[[Recorded], Action | str]:
    """The good prompt is answered, the bad one meets `action`."""
    return lambda request: "A good reply." if request.prompt == "the good one" else action


@pytest.mark.parametrize("name", CASES)
def test_a_failed_call_leaves_its_prompt_and_keeps_the_other_replies(
    server: ScriptedServer,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Exit code 1; one line on stderr with place, cause and remedy; no traceback; no key; nothing else touched."""
    case = CASES[name]
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    write_config(folder, server, timeout=0.4 if case.action.hold else 20, api_key_env='"LOCAL_KEY"')
    assert run_here(capsys, "trust", "--yes").code == 0
    server.answer = bad_one(case.action)
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    ran = run_here(capsys, "messages", "d.md")
    assert ran.code == 1
    assert exchanges_of(path) == [("the good one", "A good reply.")]
    assert waiting(path.read_text()) == ["the bad one", "and after it"]
    assert path.read_text().endswith(DOCUMENT[DOCUMENT.index("First") :])
    assert path.read_text().startswith("---\ntitle: T\n---\n\n---\n~chat_:\n")
    (line,) = (line for line in ran.err.splitlines() if line)
    assert line.startswith("lmm: d.md:12: ")
    assert not [words for words in case.says if words not in line]
    assert "Traceback" not in ran.out + ran.err
    assert SECRET not in ran.out + ran.err
    assert ran.out.endswith("d.md: 1 reply, 1 not answered, 11 tokens in, 7 out\n")
    assert all(request.headers["authorization"] == f"Bearer {SECRET}" for request in server.requests)


def test_the_answered_half_is_not_asked_again(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a failure, the next run asks only what failed, and what was to follow it."""
    server.answer = bad_one(fail(400))
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    run_here(capsys, "messages", "d.md")
    asked = len(server.requests)
    server.answer = lambda request: f"Now {request.prompt}."
    assert run_here(capsys, "messages", "d.md").code == 0
    assert server.prompts[asked:] == ["the bad one", "and after it"]
    assert exchanges_of(path) == [
        ("the good one", "A good reply."),
        ("the bad one", "Now the bad one."),
        ("and after it", "Now and after it."),
    ]


def test_when_everything_fails_not_a_byte_changes(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the file's time."""
    server.answer = lambda request: fail(500)
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    assert run_here(capsys, "messages", "d.md").code == 1
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_a_refused_connection(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No server at the address: the address is named."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    (folder / "config.toml").write_text(
        f'[major]\nmodel = "OpenAICompatible/test"\nbase_url = "{url}"\nmax_retries = 0\n'
    )
    path = folder / "d.md"
    path.write_text(DOCUMENT)
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, path.read_text()) == (1, DOCUMENT)
    assert f"is the server running at {url}?" in ran.err
    assert "Traceback" not in ran.err


def test_retry_after_is_honoured(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A 429 that names a time: the repetition comes no sooner, and is announced."""
    write_config(folder, server, max_retries=1)
    server.queue(fail(429, "slow down", headers={"Retry-After-Ms": "400"}), "At last.")
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    first, second = server.requests
    assert 0.4 <= second.time - first.time < 10
    assert (ran.code, exchanges_of(path)) == (0, [("q", "At last.")])
    assert "slow down; again in 0.4 s" in ran.out
    assert first.body == second.body


def test_a_busy_server_is_given_up_after_the_configured_retries(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`max_retries` counts further attempts; then the prompt stays."""
    write_config(folder, server, max_retries=2)
    server.answer = lambda request: fail(429, "slow down", headers={"Retry-After": "0"})
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, len(server.requests), ran.out.count("again in")) == (1, 3, 2)
    assert path.read_text() == "---\n?: q\n---\nText.\n"
    assert ran.err.count("HTTP 429") == 1


@pytest.mark.parametrize(
    "action",
    [
        fail(500),
        fail(503),
        fail(529),
        Action("cut here in the middle", cut_after=1),
        Action("no end", finish=None),
        Action(""),
        hang(),
    ],
    ids=["500", "503", "529", "cut", "no end", "empty", "silence"],
)
def test_what_may_pass_is_tried_again(
    server: ScriptedServer, folder: Path, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of the server or the connection, then success: one reply, without the pieces of the first attempt."""
    monkeypatch.setattr("lmm.models.chat.FIRST_WAIT", 0.01)
    write_config(folder, server, timeout=0.5, max_retries=1)
    server.queue(action, "At last.")
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    assert main(["messages", "d.md"]) == 0
    assert (len(server.requests), exchanges_of(path)) == (2, [("q", "At last.")])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_will_not_pass_is_not_tried_again(server: ScriptedServer, folder: Path, status: int) -> None:
    """A refusal is final."""
    write_config(folder, server, max_retries=3)
    server.answer = lambda request: fail(status)
    (folder / "d.md").write_text("---\n?: q\n---\nText.\n")
    assert main(["messages", "d.md"]) == 1
    assert len(server.requests) == 1


def test_a_slow_stream_that_goes_on_is_no_time_out(server: ScriptedServer, folder: Path) -> None:
    """The time-out counts from the last sign of the server, not from the beginning."""
    write_config(folder, server, timeout=0.8)
    go_on = threading.Event()
    server.answer = lambda request: Action("a beginning and an end", delay=0.5, hold=go_on, hold_after=1)
    threading.Timer(1.0, go_on.set).start()
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    begin = time.monotonic()
    assert main(["messages", "d.md"]) == 0
    assert time.monotonic() - begin > 0.8
    assert exchanges_of(path) == [("q", "a beginning and an end")]


def test_a_cut_off_reply_is_kept_and_marked(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reply that hit the model's output limit is a reply; the author is told that it is not whole."""
    server.queue(Action("One, two, thr", finish="length"))
    path = folder / "d.md"
    path.write_text("---\n?: q\n---\nText.\n")
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, exchanges_of(path)) == (0, [("q", "One, two, thr")])
    assert "cut off at the model's output limit" in ran.out


def test_a_block_that_cannot_take_a_reply_is_told(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a reply cannot be placed without touching the author's lines, the prompt stays and we say why."""
    path = folder / "d.md"
    text = "---\n~chat_: &log\n- query: a\n  ~reply: b\nagain: *log\n?: q\n---\nText.\n"
    path.write_text(text)
    ran = run_here(capsys, "messages", "d.md")
    assert (ran.code, path.read_text()) == (1, text)
    assert "lmm: d.md:6: " in ran.err
    assert "Traceback" not in ran.err


def test_a_reply_that_the_providers_filter_stopped_is_no_reply(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a content filter left of a reply is not stored as if it were whole."""
    path = folder / "a.md"
    path.write_text("---\n?: why?\n---\nText.\n")
    server.queue(Action("Half of a", finish="content_filter"))
    ran = run_here(capsys, "messages", str(path))
    assert ran.code == 1
    assert "filter stopped the reply" in ran.err
    assert path.read_text() == "---\n?: why?\n---\nText.\n"


def test_a_reply_cannot_control_the_terminal(
    server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escape sequences are spelled out on the screen; the file has them as they came."""
    path = folder / "a.md"
    path.write_text("---\n?: why?\n---\nText.\n")
    server.queue("\x1b[2JGone.")
    ran = run_here(capsys, "messages", str(path))
    assert "\x1b" not in ran.out
    assert "\\x1b[2JGone." in ran.out
    assert '~reply: "\\x1b[2JGone."' in path.read_text()
