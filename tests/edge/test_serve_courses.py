"""Several courses in one server: the real command, each course with its own login, limits and pages."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.conftest import write_config
from edge.support import finish, lmm, run_here, start
from fakes.openai_server import ScriptedServer

from lmm_education.web.accounts import Accounts
from lmm_education.web.state import open_state


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
def courses(folder: Path, server: ScriptedServer) -> Path:
    """Two courses in a folder; the second wants a password."""
    folder = folder / "courses"
    for name, text in (("plants", "A leaf is green."), ("stones", "Granite is hard.")):
        (folder / name / "notes").mkdir(parents=True)
        (folder / name / "notes/a.md").write_text(f"# {name.title()}\n\n{text}\n")
        write_config(folder / name, server)
        assert lmm("ingest", "--config", folder / name / "config.toml", folder / name / "notes").code == 0
    with (folder / "plants/config.toml").open("a") as file:
        file.write('[serve]\ntitle = "Pflanzen & Pilze"\nlanguage = "de"\ndescription = "Über *Blätter*."\n')
    with (folder / "stones/config.toml").open("a") as file:
        file.write('[serve]\nlogin = "password"\n')
    logins = Accounts(open_state(folder / "stones", "course"))
    logins.change(lambda old: old.with_password("open sesame"))
    return folder


@pytest.fixture
def address(courses: Path) -> Iterator[str]:
    """Both, served by the command."""
    process = start("serve", "--port", "0", courses)
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    found = re.search(r"plants, stones: (http://127\.0\.0\.1:\d+)/", line)
    try:
        assert found, line
        yield found[1]
    finally:
        process.send_signal(2)
        ended = finish(process)
    assert ended.code == 0, ended.err


def test_each_course_is_its_own(address: str, server: ScriptedServer) -> None:
    """A page lists them; who has logged in at one is a stranger at the other."""
    status, page, _ = send(f"{address}/")
    assert status == 200
    assert '<a href="plants/">Pflanzen &amp; Pilze</a>' in page
    assert "Über <em>Blätter</em>." in page
    assert send(f"{address}/healthz") == (200, {"courses": {"plants": "ok", "stones": "ok"}}, "")
    assert "Pflanzen &amp; Pilze" in send(f"{address}/plants")[1]  # led to the course's own slash
    assert send(f"{address}/plants/static/page.js")[0] == 200
    assert send(f"{address}/plants/healthz")[0] == 200
    server.queue("Green [1].")
    asked = {"model": "course", "messages": [{"role": "user", "content": "Which colour is a leaf?"}]}
    done = send(f"{address}/plants/v1/chat/completions", asked)[1]
    assert done["sources"][0]["file"] == "notes/a.md"
    assert send(f"{address}/stones/v1/chat/completions", asked)[0] == 401
    assert 'type="password"' in send(f"{address}/stones/")[1]  # led to the login
    status, _, cookies = send(f"{address}/stones/login", {"password": "open sesame"})
    assert status == 200
    assert send(f"{address}/stones/contents", cookie=cookies)[0] == 200
    renamed = re.sub(
        r"lmm_session_\w+", send(f"{address}/plants/")[2].split("=")[0].replace("student", "session"), cookies
    )
    assert send(f"{address}/stones/contents", cookie=renamed)[0] == 401
    assert [send(f"{address}/{path}")[0] for path in ("nosuch/", "contents", "chat")] == [404] * 3


def test_all_courses_are_models_of_one_server(address: str, server: ScriptedServer) -> None:
    """At the root, a client chooses the course by its name; each keeps its own login."""
    assert [model["id"] for model in send(f"{address}/v1/models")[1]["data"]] == ["plants", "stones"]
    server.queue("Green [1].")
    said = [{"role": "user", "content": "Which colour is a leaf?"}]
    done = send(f"{address}/v1/chat/completions", {"model": "plants", "messages": said})[1]
    assert done["sources"][0]["file"] == "notes/a.md"
    assert done["choices"][0]["message"]["annotations"][0]["url_citation"]["url"].startswith(f"{address}/plants/#")
    assert send(f"{address}/v1/responses", {"model": "stones", "input": "What is granite?"})[0] == 401
    status, told, _ = send(f"{address}/v1/embeddings", {"model": "course", "input": "a"})
    assert (status, told["error"]["param"]) == (404, "model")
    assert send(f"{address}/v1/nothing", {"model": "plants"})[0] == 404
    assert send(f"{address}/v1/responses", {"model": ["plants"]})[0] == 404


def test_courses_that_cannot_be_served(
    courses: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of one name, none, or one without a login where others come."""
    monkeypatch.chdir(courses)
    folder = courses
    (folder / "more/plants").mkdir(parents=True)
    (folder / "more/plants/config.toml").write_text("")
    ran = run_here(capsys, "serve", "plants", "more")
    assert (ran.code, "two courses would have the address /plants/" in ran.err) == (2, True)
    assert run_here(capsys, "serve", "more/plants", "--course", "x").code == 2
    (folder / "empty").mkdir()
    assert "no config.toml" in run_here(capsys, "serve", "empty").err
    ran = run_here(capsys, "serve", ".", "--host", "0.0.0.0")
    assert (ran.code, "has no login" in ran.err) == (2, True)
    (folder / "empty/config.toml").write_text('[serve]\nlogin = "users"\n')
    assert f"{folder}/empty: [serve] login: there are no users yet" in run_here(capsys, "serve", "plants", "empty").err


def test_several_processes_serve_one_course(courses: Path, server: ScriptedServer) -> None:
    """They tell one count, and that each limits a student's questions for itself; several courses have one process."""
    (courses / "plants/config.toml").write_text(
        (courses / "plants/config.toml").read_text() + "questions_per_minute = 4\n"
    )
    server.answer = lambda request: "Green [1]."
    process = start("serve", "--port", "0", "--workers", "2", courses / "plants")
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
    assert lmm("serve", "--workers", "2", courses).code == 2
