"""`lmm serve COURSE`: which course it serves, and by how many processes."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from edge.conftest import write_config
from edge.support import finish, lmm, run_here, start
from fakes.openai_server import ScriptedServer


def send(address: str, body: object = None, cookie: str = "") -> tuple[int, Any, str]:
    """Status, JSON or text, and the cookies that came."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json", "Cookie": cookie})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            status, headers, text = response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            status, headers, text = error.code, error.headers, error.read().decode()
    cookies = "; ".join(value.partition(";")[0] for value in headers.get_all("set-cookie") or [])
    return status, json.loads(text) if text.startswith("{") else text, cookies


@pytest.fixture
def course(folder: Path, server: ScriptedServer) -> Path:
    """A course in a folder of its own."""
    (folder / "plants/notes").mkdir(parents=True)
    (folder / "plants/notes/a.md").write_text("# Plants\n\nA leaf is green.\n")
    write_config(folder / "plants", server)
    assert lmm("ingest", "--config", folder / "plants/config.toml", folder / "plants/notes").code == 0
    return folder / "plants"


def test_courses_that_cannot_be_served(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without one, two at once, or one without a login where others come."""
    monkeypatch.chdir(course.parent)
    assert "no config.toml" in run_here(capsys, "serve", "plants/notes").err
    assert run_here(capsys, "serve", "plants", "plants").code == 2
    assert run_here(capsys, "serve", "plants", "--config", "plants/config.toml").code == 2
    ran = run_here(capsys, "serve", "plants", "--host", "0.0.0.0")
    assert (ran.code, "has no login" in ran.err) == (2, True)


def test_several_processes_serve_one_course(course: Path, server: ScriptedServer) -> None:
    """They tell one count, and that each limits a student's questions for itself."""
    with (course / "config.toml").open("a") as file:
        file.write("[serve]\nquestions_per_minute = 4\n")
    server.answer = lambda request: "Green [1]."
    process = start("serve", "--port", "0", "--workers", "2", course)
    try:
        assert process.stderr is not None
        assert "each process counts questions and wrong passwords by itself" in process.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline().decode())
        assert found is not None
        cookie = send(found[0])[2]
        question = {"question": "Why is a leaf green?"}
        told = [send(f"{found[0]}chat", question, cookie)[0] for _ in range(8)]
        assert 3 <= told.count(200) <= 6
        assert told.count(200) + told.count(429) == 8
        counted = f'lmm_requests_total{{path="/chat",status="429"}} {float(told.count(429))}'
        assert counted in send(f"{found[0]}metrics")[1]
    finally:
        process.send_signal(signal.SIGINT)
        assert finish(process).code == 0
