"""Who may ask, and how much: logins, keys, proxies, consent, limits, the budget; under a real server."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from edge.serving import serving
from edge.support import copy_course, run_here
from edge.test_serve_log import set_password as set_password_of_teacher
from edge.test_serve_teacher import teacher_at
from fakes.openai_server import Recorded, ScriptedServer, fail

from lmm.cli.main import main
from lmm.errors import ConfigError
from lmm_education.agent_tools import open_published_course
from lmm_education.errors import Denied

QUESTION = {"question": "Why is a leaf green?"}
COMPLETION = {"model": "course", "messages": [{"role": "user", "content": "Why is a leaf green?"}]}
Serve = Callable[[str], str]


@dataclass
class Told:
    """A response."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def code(self) -> str:
        """Of an error."""
        return str(json.loads(self.text)["error"]["code"])

    @property
    def message(self) -> str:
        """Of an error."""
        return str(json.loads(self.text)["error"]["message"])


@dataclass
class Client:
    """Keeps cookies as a browser does; `source` is the address that it calls from."""

    address: str
    cookies: dict[str, str] = field(default_factory=dict)
    source: str = "127.0.0.1"

    def send(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Told:
        """GET, or POST where there is a body."""
        host = urlsplit(self.address).netloc
        connection = http.client.HTTPConnection(host, timeout=20, source_address=(self.source, 0))
        sent = {"Content-Type": "application/json", "Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        data = None if body is None else json.dumps(body)
        connection.request("GET" if data is None else "POST", path, data, {**sent, **(headers or {})})
        response = connection.getresponse()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                key, _, kept = value.partition(";")[0].partition("=")
                self.cookies[key] = kept
        told = Told(response.status, dict(response.getheaders()), response.read().decode())
        connection.close()
        return told

    def log_in(self, password: str, name: str = "") -> Told:
        """What the page of the login sends."""
        return self.send("/login", {"name": name, "password": password})


@pytest.fixture
def serve(folder: Path, server: ScriptedServer, ingested: Path) -> Iterator[Serve]:
    """Serves the course with these lines under [serve]; the scripted server is the major and the aux model."""
    copy_course(ingested, folder)
    text = (folder / "config.toml").read_text()
    models = text + text.replace("[major]", "[aux]")
    server.answer = lambda request: "Because of chlorophyll [1]."
    with ExitStack() as closing:

        def start(lines: str) -> str:
            (folder / "config.toml").write_text(f"{models}[serve]\ncached_answers = 0\n{lines}\n")
            return closing.enter_context(serving(folder / "config.toml"))

        yield start


def set_password(monkeypatch: pytest.MonkeyPatch, folder: Path, password: str, *words: str) -> None:
    """`lmm serve password` or `lmm serve users add NAME`, with the password from a pipe."""
    (folder / "typed").write_text(f"{password}\n")
    if not (folder / "config.toml").exists():
        (folder / "config.toml").write_text("")
    with (folder / "typed").open() as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert main(["serve", *(words or ("password",))]) == 0


def test_a_password_that_is_set_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is set, where, and what to do next; never the password."""
    for words, expected in (
        ((), f"the students' password for '{folder.name}' is set; next: lmm serve\n"),
        (
            ("teacher",),
            f"the teacher's password for '{folder.name}' is set; next: lmm serve, then log in at /teacher\n",
        ),
        (("users", "add", "Ada"), "Ada may log in\n"),
        (("users", "remove", "Ada"), "user Ada removed\n"),
    ):
        set_password(monkeypatch, folder, f"open sesame {words}", *words)
        out = capsys.readouterr().out
        assert out.endswith(expected)
        assert "sesame" not in out
        assert words[:1] == ("users",) or Path(out.partition(": ")[0]).is_file()


# -- passwords -------------------------------------------------------------------------------------


def test_a_password(serve: Serve, folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks without; the page leads to the login; who has logged in asks until he logs out."""
    set_password(monkeypatch, folder, "open sesame")
    address = serve('login = "password"')
    client = Client(address)
    first = client.send("/")
    assert (first.status, first.headers["location"]) == (303, "login")
    assert client.send("/login").text.count('type="password"') == 1
    for path, body in (("/chat", QUESTION), ("/v1/chat/completions", COMPLETION), ("/search", {"query": "x"})):
        assert client.send(path, body).status == 401
    for path in ("/contents", "/v1/models", "/sections/x"):
        assert client.send(path).status == 401
    assert client.send("/healthz").status == 200
    assert client.send("/static/page.css").status == 200
    wrong = client.log_in("open sesam")
    assert (wrong.status, wrong.code) == (401, "wrong_password")
    assert not server.requests
    assert client.log_in("open sesame").status == 200
    assert client.send("/").status == 200
    assert "event: answer" in client.send("/chat", QUESTION).text
    stolen = Client(address, dict(client.cookies))
    assert stolen.send("/contents").status == 200
    assert client.send("/logout", {}).status == 200
    assert client.send("/contents").status == 401
    assert stolen.send("/contents").status == 401


def test_users_and_their_names(
    serve: Serve,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each by his own password; who is removed is out at once; no log says who it was, or what he typed."""
    caplog.set_level(logging.DEBUG)
    set_password(monkeypatch, folder, "ada's password", "users", "add", "Ada")
    assert capsys.readouterr().out == "Ada may log in\n"
    made = run_here(capsys, "serve", "users", "add", "--generate", "Bob", "Cläre")
    passwords = dict(line.split("\t") for line in made.out.splitlines())
    assert set(passwords) == {"Bob", "Cläre"}
    address = serve('login = "users"')
    ada, bob = Client(address), Client(address)
    assert ada.log_in("ada's password").status == 401
    assert ada.log_in(passwords["Bob"], "Ada").status == 401
    assert ada.log_in("ada's password", "Nobody").status == 401
    assert ada.log_in("ada's password", "Ada").status == 200
    assert bob.log_in(passwords["Bob"], "Bob").status == 200
    assert Client(address).log_in(passwords["Cläre"], " Cläre ").status == 200
    assert run_here(capsys, "serve", "users", "remove", "Bob").code == 0
    assert bob.send("/contents").status == 401
    assert ada.send("/contents").status == 200
    assert run_here(capsys, "serve", "users", "list").out.split() == ["Ada", "Cläre"]
    assert not [word for word in ("ada's", "Ada", "Cläre", *passwords.values()) if word in caplog.text]
    assert run_here(capsys, "serve", "users", "remove", "Bob").code == 2


def test_forged_cookies_are_strangers(
    serve: Serve, folder: Path, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, of another kind, of another course, or nonsense."""
    set_password(monkeypatch, folder, "open sesame")
    client = Client(serve('login = "password"'))
    client.send("/login")
    client.log_in("open sesame")
    (session,) = (name for name in client.cookies if "session" in name)
    (student,) = (name for name in client.cookies if "student" in name)
    good = client.cookies[session]
    forged = good.split(":")
    forged[1] = "99999999999"
    for cookie in (":".join(forged), good[:-1], client.cookies[student], "", "x", "a:b:c:d.e", "%00", good + "A"):
        assert Client(client.address, {session: cookie}).send("/contents").status == 401, cookie
    assert Client(client.address, {session: good}).send("/contents").status == 200
    (kept,) = state_folder.rglob("serve/*/state.sqlite")
    assert kept.stat().st_mode & 0o077 == 0


def test_guessing_is_slowed(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; a browser that has logged in before is not kept out by it, nor are others behind the same address."""
    set_password(monkeypatch, folder, "ada's password", "users", "add", "Ada")
    set_password(monkeypatch, folder, "bob's password", "users", "add", "Bob")
    address = serve('login = "users"')
    ada = Client(address)
    ada.send("/login")
    assert ada.log_in("ada's password", "Ada").status == 200
    guesser = Client(address)
    told = [guesser.log_in(f"guess {i}", "Ada") for i in range(8)]
    assert [one.status for one in told] == [401] * 6 + [429] * 2
    assert 1 <= int(told[-1].headers["retry-after"]) <= 180
    assert guesser.log_in("ada's password", "Ada").status == 429  # not even the right one
    assert ada.log_in("ada's password", "Ada").status == 200
    assert Client(address).log_in("bob's password", "Bob").status == 200


def test_a_class_behind_one_address_logs_in(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, after somebody's wrong tries."""
    set_password(monkeypatch, folder, "open sesame")
    address = serve('login = "password"')
    assert {Client(address).log_in("wrong").status for _ in range(3)} == {401}
    with ThreadPoolExecutor(20) as pool:
        logins = [pool.submit(Client(address).log_in, "open sesame") for _ in range(20)]
    assert {login.result().status for login in logins} == {200}


def test_a_login_that_was_not_set_up(serve: Serve) -> None:
    """The command that is missing is told."""
    with pytest.raises(ConfigError, match="lmm serve password"):
        serve('login = "password"')


# -- keys, proxies ---------------------------------------------------------------------------------


def test_keys_for_programs(
    serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key does instead of a login, and may have a limit of its own."""
    set_password(monkeypatch, folder, "open sesame")
    key = run_here(capsys, "serve", "keys", "add", "front-end", "--questions-per-minute", "0").out.split()[-1]
    client = Client(serve('login = "password"\nquestions_per_minute = 1'))
    shown = {"Authorization": f"Bearer {key}"}
    assert [client.send("/v1/chat/completions", COMPLETION, headers=shown).status for _ in range(5)] == [200] * 5
    wrong = client.send("/v1/models", headers={"Authorization": f"Bearer {key[:-1]}x"})
    assert (wrong.status, wrong.headers["www-authenticate"]) == (401, "Bearer")
    assert run_here(capsys, "serve", "keys", "remove", "front-end").code == 0
    assert client.send("/v1/models", headers=shown).status == 401


def test_a_proxys_header_counts_from_the_proxy_alone(serve: Serve) -> None:
    """A name from elsewhere, two names, or none are nobody's."""
    address = serve('login = "proxy"\ntrusted_proxy = ["127.0.0.2"]\nproxy_header = "Remote-User"')
    proxy, stranger = Client(address, source="127.0.0.2"), Client(address)
    assert proxy.send("/contents", headers={"Remote-User": "ada"}).status == 200
    assert proxy.send("/contents").status == 401
    assert proxy.send("/contents", headers={"Remote-User": ""}).status == 401
    assert proxy.send("/contents", headers={"X-Forwarded-User": "ada"}).status == 401
    for more in ({}, {"X-Forwarded-For": "127.0.0.2"}, {"Forwarded": "for=127.0.0.2"}):
        assert stranger.send("/contents", headers={"Remote-User": "ada", **more}).status == 401
    assert proxy.send("/login", {"password": "x"}).status == 404


def test_cookies_and_tls(serve: Serve) -> None:
    """Scripts do not read them, other sites' requests do not carry them; behind TLS they stay with it."""
    address = serve("")
    plain = Client(address).send("/").headers["set-cookie"]
    behind = Client(address).send("/", headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert plain.endswith("; HttpOnly; SameSite=Lax")
    assert behind == behind.split(";")[0] + plain[plain.index(";") :] + "; Secure"


def test_pages_elsewhere(serve: Serve, server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of another site can neither ask nor log in or out, whatever it sends."""
    set_password(monkeypatch, folder, "open sesame")
    client = Client(serve('login = "password"'))
    client.log_in("open sesame")
    for path in ("/chat", "/login", "/logout", "/consent", "/search"):
        for site in ("cross-site", "same-site"):
            assert client.send(path, QUESTION, headers={"Sec-Fetch-Site": site}).code == "cross_site"
        assert client.send(path, QUESTION, headers={"Content-Type": "text/plain"}).status == 415
    assert client.send("/contents").status == 200
    assert not server.requests


# -- consent, limits, the budget -------------------------------------------------------------------


def test_consent(serve: Serve, server: ScriptedServer) -> None:
    """Nothing is asked before; it is remembered in the browser, and counts for this text and nobody else."""
    address = serve('consent = "Questions go to *ExampleAI*."')
    client, other = Client(address), Client(address)
    page, _ = client.send("/").text, other.send("/")
    told = client.send("/consent")
    consent = json.loads(told.text)["consent"]
    assert f'data-consent="{consent}"' in page
    assert "<em>ExampleAI</em>" in page
    for path, body in (("/chat", QUESTION), ("/v1/chat/completions", COMPLETION), ("/search", {"query": "leaf"})):
        refused = client.send(path, body)
        assert (refused.status, refused.code) == (403, "consent_required")
    assert not server.requests
    assert client.send("/consent", {"consent": "another"}).status == 409
    assert client.send("/consent", {"consent": consent}).status == 200
    assert client.send("/chat", QUESTION).status == 200
    assert 'data-consent=""' in client.send("/").text
    (cookie,) = ((name, value) for name, value in client.cookies.items() if "consent" in name)
    other.cookies.update([cookie])
    assert other.send("/chat", QUESTION).status == 403
    assert other.send("/v1/chat/completions", COMPLETION, headers={"X-Consent": consent}).status == 200
    again = Client(serve('consent = "Questions go elsewhere."'), dict(client.cookies))
    assert again.send("/chat", QUESTION).status == 403


def test_the_limit_is_each_students_own(serve: Serve, server: ScriptedServer) -> None:
    """A polite sentence with the seconds; other students go on; nothing is asked of the model."""
    address = serve("questions_per_minute = 6")
    client, other = Client(address), Client(address)
    client.send("/")
    other.send("/")
    assert [client.send("/chat", QUESTION).status for _ in range(4)] == [200, 200, 200, 429]
    refused = client.send("/v1/chat/completions", COMPLETION)
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert refused.message == f"You are asking too fast. Please wait {refused.headers['retry-after']} seconds."
    assert other.send("/chat", QUESTION).status == 200
    assert Client(address).send("/v1/chat/completions", COMPLETION).status == 200
    assert len(server.requests) == 5


def test_the_budget_outlives_a_restart(serve: Serve, server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    """When the tokens of the day are used, students are told to come tomorrow, and the log once."""
    lines = "daily_tokens = 30\nquestions_per_minute = 0"  # an answer of the scripted server takes 18
    first = Client(serve(lines))
    assert [first.send("/v1/chat/completions", COMPLETION).status for _ in range(2)] == [200, 200]
    with caplog.at_level(logging.WARNING, "lmm.serve"):
        again = Client(serve(lines))
        refused = [again.send("/v1/chat/completions", COMPLETION) for _ in range(2)]
    assert [(one.status, one.code) for one in refused] == [(429, "insufficient_quota")] * 2
    assert 0 < int(refused[0].headers["retry-after"]) <= 90_000
    assert "come back tomorrow" in refused[0].message
    assert "come back tomorrow" in again.send("/chat", QUESTION).text
    assert caplog.text.count("the day's budget is spent") == 1
    assert len(server.requests) == 2


def test_a_search_that_asks_a_model_is_counted(serve: Serve, server: ScriptedServer, folder: Path) -> None:
    """With the budget that answers have, in the queue that they have; one that asks no model goes on."""
    server.answer = lambda request: '{"texts": ["What is chlorophyll?"]}'
    lines = "daily_tokens = 30\nquestions_per_minute = 0\n[search]\nexpand = 2"  # a reply takes 18
    client = Client(serve(lines))
    asked = [client.send("/search", {"query": f"Why is leaf {i} green?"}) for i in range(4)]
    assert [each.status for each in asked] == [200, 200, 429, 429]
    assert asked[-1].code == "insufficient_quota"
    published = asyncio.run(_asked_over_mcp(folder / "config.toml", "Why is a leaf green?"))
    assert published == ["the day's budget of this course is used up"] * 2
    plain = Client(serve("daily_tokens = 30\nquestions_per_minute = 4"))  # two at once, three at least
    assert [plain.send("/search", {"query": "leaf"}).status for _ in range(4)] == [200, 200, 200, 429]


async def _asked_over_mcp(config: Path, question: str) -> list[str]:
    said = []
    async with open_published_course(config, None, None) as published:
        for tool in published.tools:
            name = {"ask": "question", "search": "query"}.get(tool.definition.name)
            if name:
                try:
                    said.append((await tool.call({name: question})).text)
                except Denied as error:
                    said.append(error.message)
    return said


def test_the_log_and_the_teacher_are_warned_before_the_budget_is_spent(
    serve: Serve, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """From 80 % on, once a day."""
    client = Client(serve('daily_tokens = 40\nquestions_per_minute = 0\nlog = "log.sqlite"'))
    with caplog.at_level(logging.WARNING, "lmm.serve"):
        for _ in range(2):
            client.send("/v1/chat/completions", COMPLETION)
            assert "of today's budget" not in caplog.text
        assert [client.send("/v1/chat/completions", COMPLETION).status for _ in range(2)] == [200, 429]
    assert caplog.text.count("90% of today's budget is spent or reserved: 36 tokens") == 1
    set_password_of_teacher()
    assert "Of today&#39;s budget, 135% is spent." in teacher_at(client.address).send("/teacher")[1]


def test_a_price_that_is_not_known_is_told(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Once: a limit in dollars would limit nothing."""
    client = Client(serve("daily_cost = 1.0"))
    with caplog.at_level(logging.WARNING, "lmm.serve"):
        assert [client.send("/v1/chat/completions", COMPLETION).status for _ in range(2)] == [200, 200]
    assert caplog.text.count("the price of OpenAICompatible/test is not known") == 1


def test_a_model_that_is_down_uses_no_budget(serve: Serve, server: ScriptedServer) -> None:
    """What was never answered is not counted."""
    client = Client(serve("daily_tokens = 4000\nquestions_per_minute = 0"))
    server.queue(fail(500), fail(500), fail(500))
    statuses = [client.send("/v1/chat/completions", COMPLETION).status for _ in range(4)]
    assert statuses == [503, 503, 503, 200]


# -- the topic -------------------------------------------------------------------------------------


def judged(verdict: str) -> Callable[[Recorded], str]:
    """A model that answers, and judges every question like this."""
    return lambda request: verdict if "allowed: true" in request.last else "Because of chlorophyll [1]."


def test_questions_about_something_else(serve: Serve, server: ScriptedServer) -> None:
    """Get the author's sentence, on the page and over the API; what is about the course is answered."""
    client = Client(serve('allowed_content = "botany"\ntexts = { off_topic = "Only plants." }'))
    server.answer = judged('{"allowed": true}')
    assert "Because of chlorophyll" in client.send("/chat", QUESTION).text
    server.answer = judged('{"allowed": false}')
    told = client.send("/chat", QUESTION).text
    assert "Only plants." in told
    assert "chlorophyll" not in told
    (choice,) = json.loads(client.send("/v1/chat/completions", COMPLETION).text)["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("content_filter", "Only plants.")


def test_several_topics_may_be_a_list(serve: Serve, server: ScriptedServer) -> None:
    """As lm-markdown's users write them: the model that checks reads all of them."""
    client = Client(serve('allowed_content = ["botany", "the care of gardens"]'))
    server.answer = judged('{"allowed": true}')
    client.send("/chat", QUESTION)
    assert any("botany, the care of gardens" in str(request.body) for request in server.requests)


@pytest.mark.parametrize(("chosen", "status"), [("refuse", 503), ("answer", 200)])
def test_a_check_that_fails(
    serve: Serve, server: ScriptedServer, caplog: pytest.LogCaptureFixture, chosen: str, status: int
) -> None:
    """The author has chosen; the log tells him."""
    client = Client(serve(f'allowed_content = "botany"\non_check_failure = "{chosen}"'))
    server.answer = judged("Perhaps.")
    with caplog.at_level(logging.WARNING, "lmm.serve"):
        assert client.send("/v1/chat/completions", COMPLETION).status == status
    assert "no valid reply" in caplog.text
