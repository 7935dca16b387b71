"""What a real server logs and counts, and who may see it; a log that fails never costs a student an answer."""

from __future__ import annotations

import http.cookiejar
import json
import logging
import os
import re
import resource
import signal
import socket
import sqlite3
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from edge.serving import serving
from edge.support import copy_course, finish, lmm, run_here, start, wait_until
from fakes.openai_server import Action, ScriptedServer, fail, hang
from prometheus_client.parser import text_string_to_metric_families

from lmm_education.course import Course
from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.log_file import read_log
from lmm_education.web.login import Accounts
from lmm_education.web.service import state_of

QUESTION = {"question": "Why is a leaf green?"}
PASSWORD = "chalk and talk"


@pytest.fixture
def config(folder: Path, server: ScriptedServer, ingested: Path) -> Path:
    """A course that keeps a log; the scripted server is the major and the aux model."""
    copy_course(ingested, folder)
    file = folder / "config.toml"
    text = file.read_text()
    file.write_text(
        text + text.replace("[major]", "[aux]") + '[serve]\ncached_answers = 0\nlog = "log.sqlite"\nwithhold = []\n'
    )
    with Course.open(config=file) as course:
        course.ingest()
    return file


@pytest.fixture
def address(config: Path) -> Iterator[str]:
    """The course, served."""
    with serving(config) as running:
        yield running


class Visitor:
    """A browser as far as cookies go: it has opened the page."""

    def __init__(self, address: str, *, opens: bool = True) -> None:
        self.address = address
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)
        if opens:
            self.send("/")

    def send(self, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """A request and what comes back: status, and JSON or text."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(self.address + path, data, {"Content-Type": kind, **(headers or {})})
        try:
            with self._opener.open(request, timeout=30) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        return status, json.loads(text) if text.lstrip(" ").startswith(("{", "[")) else text

    def upload(self, name: str, data: bytes | str, *, replace: bool = False) -> tuple[int, Any]:
        """What the teacher's page sends for a file."""
        query = urllib.parse.urlencode({"name": name, **({"replace": "yes"} if replace else {})})
        return self.send(f"/teacher/documents?{query}", data.encode() if isinstance(data, str) else data)

    def ask(self, **values: object) -> dict[str, Any]:
        """The values of the answer, as the page gets them."""
        status, text = self.send("/chat", {**QUESTION, **values})
        assert status == 200
        found = re.search(r"^event: (answer|failure)\ndata: (.*)$", text, re.MULTILINE)
        assert found, text
        values = json.loads(found[2])
        return values


def logged(config: Path, count: int) -> list[LoggedExchange]:
    """The exchanges in the log, when there are so many."""
    file = config.parent / "log.sqlite"
    wait_until(lambda: file.exists() and len(read_log(file)) >= count)
    return read_log(file)


_ORDER = ("via", "outcome", "path", "status", "kind", "direction", "reaction", "le", "model")


def measured(text: str) -> dict[tuple[str, ...], float]:
    """Metrics by name and labels' values."""
    families = text_string_to_metric_families(text)
    found = [sample for family in families for sample in family.samples]
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels, key=_ORDER.index))): one.value for one in found
    }


# -- the log ---------------------------------------------------------------------------------------


def test_an_exchange_is_logged(address: str, config: Path, server: ScriptedServer) -> None:
    """With its rewritten question, sources, tokens and times; the page and the API get its id."""
    server.queue(
        "Because of chlorophyll [1].", '{"question": "Why does chlorophyll make leaves green?"}', "It absorbs [1]."
    )
    visitor = Visitor(address)
    first = visitor.ask()
    visitor.ask(question="And why?", history=[[QUESTION["question"], first["text"]]])
    one, other = logged(config, 2)
    assert (one.id, one.question, one.answer) == (first["exchange"], QUESTION["question"], first["text"])
    assert (one.via, one.outcome, one.model) == ("page", "answered", "OpenAICompatible/test")
    assert [(s.file, s.headings) for s in one.sources if s.cited] == [("notes/botany.md", ("Leaves",))]
    assert {s.headings for s in one.sources} == {("Leaves",), ("Roots",)}
    assert one.input_tokens + one.output_tokens == 18
    assert one.first_word is not None
    assert 0 < one.first_word <= one.total < 30
    assert abs(one.time - time.time()) < 60
    assert (other.question, other.searched) == ("And why?", "Why does chlorophyll make leaves green?")
    assert other.session == one.session


def test_a_source_that_the_model_invented_is_told_of(
    address: str, config: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is marked in the answer, whose text stays; student, log and teacher read that."""
    server.queue("Because of chlorophyll [1] [7] [9].")
    told = Visitor(address).ask()
    assert told["text"] == "Because of chlorophyll [1] [7] [9]."
    assert told["html"].count("no such source") == 2
    (exchange,) = logged(config, 1)
    assert exchange.unverified == "“[7]”: no such source\n“[9]”: no such source"
    assert "“[7]”: no such source" in run_here(capsys, "log", "show", exchange.id).out
    asked = server.requests[0].body["messages"][-1]["content"]
    assert asked in exchange.prompt
    set_password()
    teacher = Visitor(address)
    assert teacher.send("/teacher/login", {"password": PASSWORD})[0] == 200
    shown = json.dumps(teacher.send(f"/teacher/exchanges/{exchange.id}")[1])
    assert "no such source" in shown
    assert "What the model saw" in shown


def test_the_api_is_logged(address: str, config: Path, server: ScriptedServer) -> None:
    """Streaming and not; a failure too, with its reason, which the caller does not see."""
    server.queue("Green [1].", "Green [1].", fail(500, "secret detail"))
    visitor = Visitor(address, opens=False)
    body = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
    whole = visitor.send("/v1/chat/completions", body)[1]
    streamed = visitor.send("/v1/chat/completions", {**body, "stream": True})[1]
    assert visitor.send("/v1/chat/completions", body)[0] == 503
    one, other, failed = logged(config, 3)
    assert whole["exchange"] == one.id
    assert f'"exchange": "{other.id}"' in streamed
    assert (failed.outcome, failed.via, failed.answer) == ("failed", "api", "")
    assert failed.error.startswith("ModelUnavailable: ")


def test_nothing_found_is_logged(folder: Path, config: Path) -> None:
    """As what the teacher wants to know."""
    config.write_text(config.read_text() + "[search]\nthreshold = 1000000.0\n")
    with serving(config) as address:
        Visitor(address).ask()
    (one,) = logged(config, 1)
    assert (one.outcome, {source.cited for source in one.sources}) == ("not found", {False})


def test_a_refusal_of_the_model_is_logged_as_one(address: str, config: Path, server: ScriptedServer) -> None:
    """Though it names and cites what comes closest."""
    server.queue("The sources do not say who won. What comes closest is the chapter on leaves [1].")
    assert Visitor(address).ask()["found"] is False
    (one,) = logged(config, 1)
    assert (one.outcome, one.is_answered) == ("not found", False)


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_leaves(address: str, config: Path, server: ScriptedServer, stream: bool) -> None:
    """The model is stopped, whether the answer was streamed or not; the log has what was said until then."""
    server.queue(Action(pieces=("Because of\n\n", "chlorophyll."), hold=threading.Event(), hold_after=1))
    body = {"model": "course", "messages": [{"role": "user", "content": "Why?"}], "stream": stream}
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + data)
        wait_until(lambda: server.requests)
        if stream:
            received = b""
            while b"Because of" not in received:
                received += connection.recv(65536)
    (one,) = logged(config, 1)
    assert (one.outcome, one.total < 60) == ("left", True)
    assert one.answer.strip() in ("Because of", "" if not stream else "Because of")
    counted = measured(Visitor(address).send("/metrics")[1])
    assert counted["lmm_exchanges_total", "api", "left"] == 1
    assert counted[("lmm_answers_running",)] == 0


def test_a_student_who_leaves_while_a_follow_up_is_understood(config: Path, server: ScriptedServer) -> None:
    """That is no failure: the model was writing the question to search with. In the process of `lmm serve`, whose
    models and pages share a loop."""
    server.queue(hang())
    process = start("serve", "--port", "0")
    assert process.stderr is not None
    port = int(re.findall(rb"http://127.0.0.1:(\d+)/", process.stderr.readline())[0])
    data = json.dumps({"question": "And why?", "history": [["What is green?", "A leaf is green [1]."]]}).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"POST /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + data)
        wait_until(lambda: server.requests)
    (one,) = logged(config, 1)
    process.send_signal(signal.SIGINT)
    assert "Interrupted" not in finish(process).err
    assert (one.outcome, one.error) == ("left", "")


def test_reactions(address: str, config: Path, server: ScriptedServer) -> None:
    """A student's own, to be changed; nobody else's; and nothing that is none."""
    server.queue("Green [1].")
    ada, eve = Visitor(address), Visitor(address)
    exchange = ada.ask()["exchange"]
    said = {"exchange": exchange, "reaction": "down", "comment": "  Too short.  "}
    assert ada.send("/reactions", said) == (200, {**said, "comment": "Too short."})
    assert eve.send("/reactions", {**said, "reaction": "up"})[0] == 404
    assert ada.send("/reactions", {**said, "exchange": "nosuch"})[0] == 404
    for wrong in ({"reaction": "great"}, {"comment": "x" * 3000}, {"exchange": 7}):
        assert ada.send("/reactions", {**said, **wrong})[0] == 400
    assert [(e.reaction, e.comment) for e in logged(config, 1)] == [(-1, "Too short.")]
    assert ada.send("/reactions", {"exchange": exchange, "reaction": "none"})[0] == 200
    assert [(e.reaction, e.comment) for e in logged(config, 1)] == [(0, "")]


def test_without_a_log_nothing_is_kept(config: Path, server: ScriptedServer) -> None:
    """Which is so unless one asks for it; then students read it."""
    log = 'log = "log.sqlite"\n'
    with serving(config) as address:
        assert "kept for the teacher for 180 days" in Visitor(address).send("/")[1]
    config.write_text(config.read_text().replace(log, ""))
    (config.parent / "log.sqlite").unlink()
    server.queue("Green [1].")
    with serving(config) as address:
        visitor = Visitor(address)
        assert "kept for the teacher for 180 days" not in visitor.send("/")[1]
        assert visitor.ask()["exchange"] == ""
        assert visitor.send("/reactions", {"exchange": "", "reaction": "up"})[0] == 404
    assert not (config.parent / "log.sqlite").exists()


# -- a log that fails ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_log_that_is_locked(
    address: str, config: Path, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Students wait for nothing; the reaction is refused politely; what was asked is in the log when it is free."""
    server.queue("Green [1].", "Green [1].")
    visitor = Visitor(address)
    exchange = visitor.ask()["exchange"]
    logged(config, 1)
    holder = sqlite3.connect(config.parent / "log.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    assert visitor.ask()["text"] == "Green [1]."
    answered = time.monotonic()
    with caplog.at_level(logging.ERROR, "lmm.serve"):
        status, told = visitor.send("/reactions", {"exchange": exchange, "reaction": "up"})
    assert answered - begun < time.monotonic() - answered  # a reaction waits for the other process
    assert (status, "could not be kept" in told["error"]["message"]) == (503, True)
    holder.close()
    assert len(logged(config, 2)) == 2
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_a_disk_that_is_full(config: Path, server: ScriptedServer) -> None:
    """The server's process may not make any file longer: students get their answers, its own log tells it once."""
    for _ in range(5):
        server.queue("Green [1].")
    process = start("serve", "--port", "0")
    assert process.stderr is not None
    found = re.search(rb"http://127\.0\.0\.1:\d+", process.stderr.readline())
    assert found
    visitor = Visitor(found[0].decode())
    visitor.ask()
    logged(config, 1)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for _ in range(3):
        assert visitor.ask()["text"].startswith("Green")
    counted = measured(visitor.send("/metrics")[1])
    wait_until(lambda: measured(visitor.send("/metrics")[1])[("lmm_log_failures_total",)])
    assert counted["lmm_exchanges_total", "page", "answered"] == 4
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    visitor.ask()
    assert len(logged(config, 5)) == 5
    process.send_signal(2)
    ran = finish(process)
    assert ran.code == 0
    assert ran.err.count("the log cannot be written") == 1


@pytest.mark.skipif(os.name == "nt", reason="folders have modes")
def test_a_place_where_no_log_can_be(folder: Path, config: Path, server: ScriptedServer) -> None:
    """Not even at the start."""
    config.write_text(config.read_text().replace('"log.sqlite"', '"notes/botany.md/log.sqlite"'))
    server.queue("Green [1].")
    with serving(config) as address:
        visitor = Visitor(address)
        answer = visitor.ask()
        assert answer["text"] == "Green [1]."
        assert visitor.send("/reactions", {"exchange": answer["exchange"], "reaction": "up"})[0] == 503


# -- metrics and the teacher's page ----------------------------------------------------------------


def test_metrics(address: str, server: ScriptedServer) -> None:
    """Requests by route, answers, failures, waits, tokens; nothing about one student."""
    server.queue("Green [1].", fail(500, "secret"))
    visitor = Visitor(address)
    visitor.ask()
    visitor.ask()
    visitor.send("/sections/a-name")
    visitor.send("/nosuch/ada")
    text = visitor.send("/metrics")[1]
    counted = measured(text)
    assert counted["lmm_requests_total", "/chat", "200"] == 2
    assert counted["lmm_requests_total", "/sections/{id}", "404"] == 1
    assert counted["lmm_requests_total", "(none)", "404"] == 1
    assert counted["lmm_exchanges_total", "page", "answered"] == 1
    assert counted["lmm_errors_total", "ModelUnavailable"] == 1
    assert counted[("lmm_first_word_seconds_count",)] == 1
    assert counted["lmm_tokens_total", "output"] > 0
    assert "ada" not in text
    assert "a-name" not in text


def test_metrics_are_the_teachers(config: Path) -> None:
    """Where a password is set, it is needed, as Prometheus sends it; where the server is public, one must be set."""
    with serving(config, hosts=("*",)) as address:
        assert Visitor(address).send("/metrics")[0] == 403
        set_password()
        visitor = Visitor(address)
        assert visitor.send("/metrics")[0] == 401
        basic = {"Authorization": "Basic cHJvbWV0aGV1czp3cm9uZw=="}
        assert visitor.send("/metrics", headers=basic)[0] == 401
        basic = {"Authorization": "Basic cHJvbWV0aGV1czpjaGFsayBhbmQgdGFsaw=="}
        assert "lmm_requests_total" in visitor.send("/metrics", headers=basic)[1]


def test_the_teacher_logs_in(address: str, server: ScriptedServer) -> None:
    """With a password of his own, that students' logins have nothing to do with; and out again."""
    teacher = Visitor(address)
    status, text = teacher.send("/teacher")
    assert (status, "lmm serve teacher" in text) == (403, True)
    set_password()
    assert 'data-address="teacher/login"' in teacher.send("/teacher")[1]
    assert teacher.send("/teacher/login", {"password": "wrong"})[0] == 401
    assert teacher.send("/teacher/login", {"password": 7})[0] == 400
    assert teacher.send("/teacher/login", {"password": PASSWORD})[0] == 200
    server.queue("Green [1].")
    asked = Visitor(address)
    asked.ask(question="Why is a <b>leaf</b> green?")
    wait_until(lambda: "Why is a &lt;b&gt;leaf&lt;/b&gt; green?" in teacher.send("/teacher")[1])
    page = teacher.send("/teacher?days=7")[1]
    (section,) = set(re.findall(r'data-section="([^"]+)">Botany &gt; Leaves', page))
    assert "chlorophyll" in teacher.send(f"/teacher/sections/{section}")[1]["html"]
    assert asked.send(f"/teacher/sections/{section}")[0] == 401
    assert "lmm_requests_total" in teacher.send("/metrics")[1]
    assert teacher.send("/teacher/logout", {})[0] == 200
    assert "leaf" not in teacher.send("/teacher")[1]
    with Course.open() as course:  # as a server of before had it
        Accounts(state_of(course)).change(lambda logins: logins.with_password(PASSWORD))
    assert teacher.send("/teacher/login", {"password": PASSWORD})[0] == 403
    assert "leaf" not in teacher.send("/teacher")[1]


@pytest.mark.slow
def test_guessing_the_teachers_password(address: str) -> None:
    """Is slowed down."""
    set_password()
    visitor = Visitor(address)
    answers = [visitor.send("/teacher/login", {"password": f"guess {i}"})[0] for i in range(32)]
    assert answers[0] == 401
    assert answers[-1] == 429


def test_days_that_are_none(address: str) -> None:
    """Whatever stands in the address, the page is there."""
    set_password()
    teacher = Visitor(address)
    teacher.send("/teacher/login", {"password": PASSWORD})
    for query in (
        "from=x&to=y",
        "from=0001-01-01&to=9999-12-31",
        "days=0",
        "days=99999999",
        "days=%C2%B2",
        "from=2026-01-01",
    ):
        status, text = teacher.send(f"/teacher?{query}")
        assert (status, "Nobody asked" in text) == (200, True), query


def test_no_log_and_a_broken_log(config: Path) -> None:
    """The teacher reads what to do."""
    set_password()
    (config.parent / "log.sqlite").write_text("no database" * 1000)
    with serving(config) as address:
        teacher = Visitor(address)
        teacher.send("/teacher/login", {"password": PASSWORD})
        assert "cannot be read" in teacher.send("/teacher")[1]
    config.write_text(config.read_text().replace('log = "log.sqlite"\n', ""))
    with serving(config) as address:
        teacher = Visitor(address)
        teacher.send("/teacher/login", {"password": PASSWORD})
        assert "No log is kept" in teacher.send("/teacher")[1]


def set_password() -> None:
    """As a teacher does it."""
    assert lmm("serve", "teacher", stdin=f"{PASSWORD}\n".encode()).code == 0


# -- study material --------------------------------------------------------------------------------


def test_study_material(address: str, config: Path) -> None:
    """What the commands print, of what was ingested; solutions when one asks for them; anew when it changes."""
    visitor = Visitor(address)
    assert visitor.send("/material")[1] == {"plan": 2, "cards": 0, "exercises": 1}
    plan = visitor.send("/material/plan")[1]
    assert [(step["title"], step["minutes"]) for step in plan["steps"]] == [("Leaves", 1), ("Roots", 1)]
    assert f"{plan['steps'][0]['file']}, {plan['times'][0]})" in lmm("plan", "notes").out
    assert visitor.send(f"/sections/{plan['steps'][0]['section']}")[0] == 200
    text = "# Moss\n\n---\ntype: exercise\nsolution: A *secret*.\n---\nWhy?\n\n---\nquestions: [What?]\n---\nThat.\n"
    (config.parent / "notes/moss.md").write_text(text)
    assert visitor.send("/material")[1]["cards"] == 0
    assert lmm("ingest", "notes").code == 0
    assert visitor.send("/material/cards")[1][0]["html"] == {
        "title": "Moss", "question": "<p>What?</p>\n", "answer": "<p>That.</p>\n",
    }  # fmt: skip
    hidden = visitor.send("/material/exercises")[1]
    assert "secret" not in json.dumps(hidden)
    assert [each["has_solution"] for each in hidden] == [False, True]
    shown = visitor.send("/material/exercises?solutions=true")[1]
    assert (shown[1]["solution"], shown[1]["html"]["solution"]) == ("A *secret*.", "<p>A <em>secret</em>.</p>\n")
    assert visitor.send("/material/nosuch")[0] == 404


def test_a_section_hides_its_solutions(address: str, config: Path) -> None:
    """Until one asks; also where the passage that was found is the solution."""
    text = "# Moss\n\n---\ntype: exercise\n---\nWhy?\n\n---\ntype: solution\n---\nThe rhizoids.\nAnd so on.\n\n"
    (config.parent / "notes/moss.md").write_text(f"{text}---\ntopic: x\n---\nMore text about moss.\n")
    assert lmm("ingest", "notes").code == 0
    visitor = Visitor(address)
    section = next(chapter for chapter in visitor.send("/contents")[1]["documents"] if chapter["title"] == "Moss")
    for query in ("", "?searched=rhizoids"):
        html = visitor.send(f"/sections/{section['section']}{query}")[1]["html"]
        outside = re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)
        assert "rhizoids" in html
        assert "rhizoids" not in outside
        assert "And so on" not in outside
        assert "More text about moss" in outside
