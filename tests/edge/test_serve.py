"""The HTTP API under a real server: OpenAI's client in front of it, the scripted model behind it."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import openai
import pytest
from edge.serving import serving
from edge.support import copy_course, finish, lmm, run_here, start, wait_until
from fakes.openai_server import Action, Recorded, ScriptedServer, fail

from lmm.errors import LmmError
from lmm.server_socket import listen
from lmm_education.cli.serve import _check_course
from lmm_education.course import Course
from lmm_education.exchange_log.log_file import read_log


@pytest.fixture
def address(folder: Path, server: ScriptedServer, ingested: Path) -> Iterator[str]:
    """The course, served; the scripted server is the major and the aux model."""
    copy_course(ingested, folder)
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text + text.replace("[major]", "[aux]"))
    with serving(folder / "config.toml") as running:
        yield running


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    """OpenAI's own client, told that the course is its server."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def send(address: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """A request and what comes back: status, and JSON or text."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode()
    return status, json.loads(text) if text.startswith("{") else text


def ask(client: openai.OpenAI, *messages: str) -> Any:
    """The completion for messages of user and assistant in turn."""
    roles = ("user", "assistant")
    said: Any = [{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)]
    return client.chat.completions.create(model="course", messages=said)


# -- Chat Completions ------------------------------------------------------------------------------


def test_a_completion_has_its_sources(client: openai.OpenAI, server: ScriptedServer) -> None:
    """In the text as a list, for people; in a field, for programs."""
    server.queue("Because of chlorophyll [1].")
    done = ask(client, "Why is a leaf green?")
    text = done.choices[0].message.content
    assert text.startswith("Because of chlorophyll [1].\n\n**Sources**\n\n- [1] Botany > Leaves (notes/botany.md:")
    (source,) = done.model_extra["sources"]
    assert (source["number"], source["file"], source["headings"]) == (1, "notes/botany.md", ["Leaves"])
    assert (done.choices[0].finish_reason, done.usage.total_tokens, done.model) == ("stop", 18, "course")


def test_a_stream_is_the_same_in_pieces(client: openai.OpenAI, server: ScriptedServer) -> None:
    """Each paragraph when it is complete; at the end the sources, and what is cited in it, as Open WebUI reads it."""
    go_on = threading.Event()
    server.queue(
        Action(pieces=("Leaves are ", "green.\n\nBecause ", "of ", "chlorophyll [1]", "."), hold=go_on, hold_after=3)
    )
    said, sources, cited = "", list[Any](), list[Any]()
    with client.chat.completions.create(
        model="course",
        messages=[{"role": "user", "content": "Why is a leaf green?"}],
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            said += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            go_on.set()  # the model waits until its first pieces were read here
            sources += (chunk.model_extra or {}).get("sources", [])
            for choice in chunk.choices:
                cited += (choice.delta.model_extra or {}).get("annotations", [])
    assert said.startswith("Leaves are green.\n\nBecause of chlorophyll [1].\n\n**Sources**\n\n- [1] Botany")
    assert [(source["number"], "document" in source) for source in sources] == [(1, False)]
    (citation,) = [each["url_citation"] for each in cited]
    assert (said[citation["start_index"] : citation["end_index"]], citation["title"]) == ("[1]", "Botany > Leaves")
    assert chunk.usage is not None
    assert chunk.usage.total_tokens == 18


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_before_the_first_word_stops_the_model(address: str, server: ScriptedServer, stream: bool) -> None:
    """Nobody pays for an answer that nobody reads."""
    go_on = threading.Event()
    server.queue(Action("Because of chlorophyll [1].", hold=go_on))
    body = json.dumps({"model": "course", "stream": stream, "messages": [{"role": "user", "content": "Why green?"}]})
    place = urlsplit(address)
    running = "lmm_answers_running"
    with socket.create_connection((place.hostname, place.port), 20) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_until(lambda: server.requests)
    try:
        wait_until(lambda: f"{running} 0.0" in send(f"{address}/metrics")[1], timeout=8)
    finally:
        go_on.set()


def test_earlier_messages_are_the_history(client: openai.OpenAI, server: ScriptedServer) -> None:
    """The aux model reads the question in its conversation, without the lists of sources."""
    server.queue(
        "Because of chlorophyll [1].", '{"question": "Why does chlorophyll make leaves green?"}', "It absorbs [1]."
    )
    first = ask(client, "Why is a leaf green?").choices[0].message.content
    assert ask(client, "Why is a leaf green?", first, "And why does it?").choices[0].message.content
    rewriting, answering = server.requests[1:]
    assert "Why is a leaf green?" in rewriting.last
    assert "Because of chlorophyll" in rewriting.last
    assert "**Sources**" not in rewriting.last
    assert "Why does chlorophyll make leaves green?" in answering.last


def test_the_same_question_again(
    client: openai.OpenAI, address: str, server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the answer that was given, and says so; not after other questions, where one asks for a new one, nor over
    texts that have changed."""

    def told(**more: str) -> tuple[str, list[str]]:
        done = client.chat.completions.create(
            model="course", messages=[{"role": "user", "content": "Why is  a leaf green?"}], extra_headers=more
        )
        assert done.model_extra is not None
        return (done.choices[0].message.content or "").partition("\n")[0], done.model_extra["notices"]

    server.queue("One [1].", "Two [1].", '{"question": "Why is a leaf green?"}', "Three [1].", "Four [1].")
    first = ask(client, "Why is a leaf green?")
    again = ask(client, " Why is a leaf green? ")
    assert again.choices[0].message.content == first.choices[0].message.content
    assert (again.usage.total_tokens, len(server.requests), len(first.model_extra["notices"])) == (0, 1, 0)
    assert told()[1] == ["this question was asked before; this is the answer from then"]
    assert "lmm_cached_answers_total 2.0" in send(f"{address}/metrics")[1]
    assert told(**{"Cache-Control": "no-cache"}) == ("Two [1].", [])
    assert told()[0] == "Two [1]."
    assert ask(client, "What is a root?", "An organ.", "Why is a leaf green?").choices[0].message.content[:5] == "Three"
    (folder / "notes/botany.md").write_text("# Leaves\n\nA leaf is green because of chlorophyll, mostly.\n")
    assert run_here(capsys, "ingest", "-q", "notes").code == 0
    assert told() == ("Four [1].", [])


def test_models(client: openai.OpenAI) -> None:
    """The course is the one there is."""
    assert [model.id for model in client.models.list()] == ["course"]
    assert client.models.retrieve("course").id == "course"
    with pytest.raises(openai.NotFoundError, match="gpt-5"):
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Why?"}])


def test_what_is_not_done_is_refused(client: openai.OpenAI, server: ScriptedServer) -> None:
    """In OpenAI's form, so that its client raises what its users know."""
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "x" * 5000)
    assert refused.value.body == {
        "message": "the question has more than 4000 characters", "type": "invalid_request_error",
        "param": "question", "code": None,
    }  # fmt: skip
    with pytest.raises(openai.BadRequestError, match="is empty"):
        ask(client, " ")
    assert not server.requests


@pytest.mark.parametrize(("status", "raised"), [(500, openai.InternalServerError), (429, openai.RateLimitError)])
def test_a_model_that_is_down_is_a_polite_error(
    client: openai.OpenAI,
    server: ScriptedServer,
    status: int,
    raised: type[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Streaming or not; the student reads nothing of the model, the log all; the next question is answered."""
    server.queue(fail(status, "secret detail"), fail(status, "secret detail"), "Green [1].")
    with caplog.at_level(logging.ERROR, "lmm.serve"):
        with pytest.raises(raised) as one:
            ask(client, "Why is a leaf green?")
        with pytest.raises(raised) as other:
            client.chat.completions.create(
                model="course", messages=[{"role": "user", "content": "Why is a leaf green?"}], stream=True
            )
    for told in (one, other):
        assert "try again" in str(told.value)
        assert "secret" not in str(told.value)
    assert "secret detail" in caplog.text
    assert ask(client, "Why is a leaf green?").choices[0].message.content.startswith("Green")


def test_a_stream_that_breaks_ends_in_an_error(client: openai.OpenAI, server: ScriptedServer) -> None:
    """Which the client raises: half an answer is not taken for a whole one."""
    server.queue(Action("Because of chlorophyll, which is green.", cut_after=2))
    with (
        pytest.raises(openai.APIError, match="try again"),
        client.chat.completions.create(
            model="course", messages=[{"role": "user", "content": "Why is a leaf green?"}], stream=True
        ) as stream,
    ):
        for _ in stream:
            pass


def test_what_is_ingested_meanwhile_changes_the_next_answer(
    address: str, client: openai.OpenAI, server: ScriptedServer, folder: Path
) -> None:
    """The same server, a new generation of the store, made by another process; the contents follow too."""

    def answer(request: Recorded) -> str:
        found = re.search(r'<source number="(\d+)" from="notes/moss[^>]*>', request.last)
        return f"Moss [{found[1]}]." if found else "I do not know."

    server.answer = answer
    assert ask(client, "What has rhizoids?").choices[0].message.content.startswith("I do not know.")
    titles = [document["title"] for document in send(f"{address}/contents")[1]["documents"]]
    (folder / "notes/moss.md").write_text("---\ntitle: Moss\n---\n# Moss\n\nMoss has rhizoids instead of roots.\n")
    assert lmm("ingest", "notes").code == 0
    done = ask(client, "What has rhizoids?")
    assert done.choices[0].message.content.startswith("Moss [")
    assert done.model_extra["sources"][0]["file"] == "notes/moss.md"
    assert titles == ["Botany"]
    assert [d["title"] for d in send(f"{address}/contents")[1]["documents"]] == ["Botany", "Moss"]
    with urllib.request.urlopen(f"{address}/") as page:  # a course of several documents without a name
        assert f"<title>{folder.name}</title>" in page.read().decode()


# -- the rest --------------------------------------------------------------------------------------


def test_search(address: str) -> None:
    """What `lmm search --json` prints."""
    status, found = send(f"{address}/search", {"query": "Why is a leaf green?", "limit": 1})
    assert status == 200
    (hit,) = found["hits"]
    assert "chlorophyll" in hit["text"]
    status, found = send(f"{address}/search", {"query": "chlorophyll", "types": ["exercise"]})
    assert {hit["type"] for hit in found["hits"]} == {"exercise"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": ""}, 400),
        ({"query": "x", "limit": 0}, 400),
        ({"query": "x", "limit": True}, 400),
        ({"query": "x", "types": ["nosuch"]}, 400),
        ({"query": "x", "type": ["exercise"]}, 400),
        ({"query": "x", "where": 3}, 400),
        ({"query": "x", "where": {"a": {}}}, 400),
        ([], 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b" " * 600_000, 413),
    ],
)
def test_requests_that_cannot_be_read(address: str, body: object, status: int) -> None:
    """An error that says what is wrong, never a failure of the server."""
    got, told = send(f"{address}/search", body)
    assert (got, told["error"]["type"]) == (status, "invalid_request_error")


@pytest.mark.parametrize("half", [b"\\ud83c", b"\\uDF43 x", b"\xed\xa0\xbc", b"\xff"])
def test_half_a_character_is_a_bad_request(
    address: str, server: ScriptedServer, caplog: pytest.LogCaptureFixture, half: bytes
) -> None:
    """Wherever a text is sent; a failure of ours, with a traceback in the log, it was."""
    said = b'{"role": "user", "content": "Why %b?"}' % half
    for path, body in {
        "chat": b'{"question": "Why %b?"}' % half,
        "search": b'{"query": "x", "where": {"%b": "x"}}' % half,
        "feedback": b'{"answer": "a", "exercise": "%b"}' % half,
        "reactions": b'{"exchange": "%b", "reaction": "up"}' % half,
        "v1/chat/completions": b'{"model": "course", "messages": [%b]}' % said,
        "consent": b'{"consent": "%b"}' % half,
    }.items():
        assert send(f"{address}/{path}", body)[0] == 400, path
    assert (server.requests, caplog.records) == ([], [])


def test_a_conversation_without_end_is_refused(address: str, server: ScriptedServer) -> None:
    """Before any work: 40,000 pairs in one request once stopped the course for everybody for half a minute."""
    status, told = send(f"{address}/chat", {"question": "Why is a leaf green?", "history": [["a", "b"]] * 40_000})
    assert (status, told["error"]["param"]) == (400, "history")
    said = [{"role": role, "content": "a"} for role in ("user", "assistant") * 6_000]
    asked = {"model": "course", "messages": [*said, {"role": "user", "content": "Why is a leaf green?"}]}
    status, told = send(f"{address}/v1/chat/completions", asked)
    assert (status, told["error"]["param"], told["error"]["type"]) == (400, "messages", "invalid_request_error")
    status, told = send(f"{address}/chat", {"question": "Why?", "history": [["a", "x" * 70_000]]})
    assert (status, told["error"]["param"]) == (413, "history")
    assert send(f"{address}/search", {"query": "leaf", "documents": ["Botany"] * 50_000})[0] == 400
    assert not server.requests


def test_other_pages_cannot_ask(address: str, server: ScriptedServer) -> None:
    """A page elsewhere can send forms and plain text unasked, or point a name of its own at this machine."""
    question = {"question": "Why is a leaf green?"}
    assert send(f"{address}/chat", question, headers={"Content-Type": "text/plain"})[0] == 415
    assert send(f"{address}/chat", question, headers={"Host": "evil.example"})[0] == 400
    assert not server.requests


def test_opening_a_source_compares_nothing(address: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One student's words once stopped the page for all: for 46 seconds, with a long section."""
    paragraphs = (f"Leaf number {i} is green because chlorophyll absorbs red and blue light." for i in range(1500))
    (folder / "notes/long.md").write_text("# Long\n\n" + "\n\n".join(paragraphs) + "\n")
    assert run_here(capsys, "ingest", "-q", "notes").code == 0
    documents = send(f"{address}/contents")[1]["documents"]
    ids = {part["section"] for each in documents for part in (each, *each["sections"])} - {""}
    quoted = "\n\n".join(f"leaf {i} is red because chlorophyll absorbs green light" for i in range(200))
    begun = time.monotonic()
    for id in ids:
        for name in ("quoted", "searched"):
            assert send(f"{address}/sections/{id}?{name}={quote(quoted[:8000])}")[0] == 200
    assert time.monotonic() - begun < 6


def test_a_source_is_marked_at_what_was_quoted(address: str) -> None:
    """As it is written there."""
    (document, *_) = send(f"{address}/contents")[1]["documents"]
    html = send(f"{address}/sections/{document['sections'][0]['section']}?quoted={quote('chlorophyll absorbs')}")[1][
        "html"
    ]
    assert "chlorophyll absorbs" in html.split('<div class="passage">')[1].split("</div>")[0]


def test_paths_and_methods(address: str) -> None:
    """What is not there is told in the same form."""
    for path in ("/nosuch", "/static/nosuch", "/sections/nosuch", "/static/..%2fapp.py"):
        status, told = send(f"{address}{path}")
        assert (status, told["error"]["type"]) == (404, "invalid_request_error"), path
    assert send(f"{address}/contents", {})[0] == 405


def test_health(address: str, folder: Path) -> None:
    """A store that cannot be read is told, in words that say nothing of it."""
    assert send(f"{address}/healthz") == (200, {"status": "ok", "course": "course"})
    (folder / "empty").mkdir()
    (folder / "empty/config.toml").write_text("")
    with serving(folder / "empty/config.toml") as other:
        assert send(f"{other}/healthz") == (503, {"status": "nothing to search", "course": "course"})
        assert send(f"{other}/contents")[1] == {"types": [], "documents": []}


def test_a_model_that_does_not_answer_is_not_well(address: str, server: ScriptedServer) -> None:
    """As the last question showed, at once; the metrics say so too, and the next answer ends it."""
    server.queue(fail(503), "Green [1].")
    question = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
    assert send(f"{address}/healthz")[0] == 200
    assert "lmm_model_up 1.0" in send(f"{address}/metrics")[1]
    assert send(f"{address}/v1/chat/completions", question)[0] >= 500
    assert send(f"{address}/healthz") == (503, {"status": "the model does not answer", "course": "course"})
    assert "lmm_model_up 0.0" in send(f"{address}/metrics")[1]
    assert send(f"{address}/v1/chat/completions", question)[0] == 200
    assert send(f"{address}/healthz")[0] == 200


def test_a_server_that_is_gone_is_found_before_anybody_asks(folder: Path, ingested: Path) -> None:
    """It lists no models."""
    copy_course(ingested, folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    (folder / "config.toml").write_text(f'[major]\nmodel = "OpenAICompatible/x"\nbase_url = "{gone}"\n')
    with serving(folder / "config.toml") as address:
        assert send(f"{address}/healthz") == (503, {"status": "the model does not answer", "course": "course"})


# -- the command -----------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said_once() -> None:
    """With the address, which the system's own words repeat."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(LmmError) as caught:
        listen("127.0.0.1", port := taken.getsockname()[1])
    assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use (choose another port)"


def test_the_command_serves_until_it_is_interrupted(ingested: Path, folder: Path) -> None:
    """It says where."""
    copy_course(ingested, folder)
    process = start("serve", "--port", "0")
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line
    assert send(f"{found[0]}/healthz")[0] == 200
    process.send_signal(2)
    assert finish(process).code == 0


def test_a_server_that_is_stopped_logs_every_question(folder: Path, server: ScriptedServer, ingested: Path) -> None:
    """Also those whose answers are on their way, with what was said; their readers are told, and nothing is thrown."""
    copy_course(ingested, folder)
    with (folder / "config.toml").open("a") as config:
        config.write('[serve]\nlog = "log.sqlite"\nquestions_per_minute = 0\ncached_answers = 0\n')
    server.answer = lambda request: Action(
        pieces=("Because ", "of ", "chlorophyll."), hold=threading.Event(), hold_after=2
    )
    process = start("serve", "--port", "0")
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline().decode())
    assert found
    with ThreadPoolExecutor(36) as pool:
        asked = [pool.submit(_streamed, found[0], "/chat", {"question": f"Why is leaf {i} green?"}) for i in range(30)]
        said = {"model": "course", "messages": [{"role": "user", "content": "Why green?"}]}
        asked += [pool.submit(_streamed, found[0], "/v1/chat/completions", said | {"stream": i > 2}) for i in range(6)]
        server.wait_for(36)
        time.sleep(1)
        process.send_signal(15)
        told = [each.result() for each in asked]
    ended = finish(process)
    assert ended.code == 0
    assert "Traceback" not in ended.err, ended.err
    assert all("try again" in text for text in told)
    assert len(read_log(folder / "log.sqlite")) == 36


def _streamed(address: str, path: str, body: object) -> str:
    text = send(f"{address}{path}", body)[1]
    return text if isinstance(text, str) else json.dumps(text)


def test_a_lecture_hall_is_shown_where(ingested: Path, folder: Path) -> None:
    """An address that others reach, and its code to be scanned; and that without a model it only quotes."""
    copy_course(ingested, folder)
    assert "no login" in lmm("serve", "--share", "--port", "0").err
    process = start("serve", "--share", "--public", "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    said = [process.stdout.readline().decode() for _ in range(12)]
    found = re.search(r"http://[\d.]+:\d+/", said[1])
    assert found, said
    assert sum("█" in line for line in said) >= 8
    assert send(f"{found[0]}healthz")[0] == 200
    process.send_signal(2)
    ended = finish(process)
    assert (ended.code, "without a model the chat only quotes" in ended.err) == (0, True)


def test_a_budget_in_money_wants_a_price(
    ingested: Path, folder: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """That it will limit nothing is told at the start."""
    copy_course(ingested, folder)
    with (folder / "config.toml").open("a") as config:
        config.write("[serve]\ndaily_cost = 1.0\n")
    with Course.open() as course:
        _check_course(course, 1)
    assert "the price of OpenAICompatible/test is not known: daily_cost does not count it" in capsys.readouterr().err


def test_others_are_let_in_only_when_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no login."""
    for word, more in (("--host", ["0.0.0.0"]), ("--share", [])):
        ran = run_here(capsys, "serve", word, *more)
        assert ran.code == 2
        assert f"{word}: 0.0.0.0 can be reached by others, and the course in {folder} has no login" in ran.err
        assert "--public" in ran.err
