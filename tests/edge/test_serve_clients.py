"""The other ways to a course: OpenAI's client, scripts and frames of other sites' pages."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai
import pytest
from edge.serving import serving
from edge.support import copy_course
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import Action, ScriptedServer

WHY = "Why is a leaf green?"


def site(server: ThreadingHTTPServer) -> str:
    """Its address, by a name that makes it another site than the course."""
    return f"http://localhost:{server.server_port}"


@pytest.fixture
def address(folder: Path, server: ScriptedServer, ingested: Path, elsewhere: ThreadingHTTPServer) -> Iterator[str]:
    """The course, served, which does not fit into the budget, so that passages are cited; the other site may frame its
    page, and its scripts may use the API."""
    copy_course(ingested, folder)
    with (folder / "config.toml").open("a") as file:
        file.write("[answer]\ncontext_tokens = 60\n")
        file.write(f'[serve]\nframe_ancestors = ["{site(elsewhere)}"]\nallowed_origins = ["{site(elsewhere)}"]\n')
    with serving(folder / "config.toml") as running:
        yield running


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    """OpenAI's own client."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def ask(client: openai.OpenAI, **more: Any) -> Any:
    """A chat completion."""
    create: Any = client.chat.completions.create
    return create(**{"model": "course", "messages": [{"role": "user", "content": WHY}], **more})


def test_what_an_answer_cites(client: openai.OpenAI, address: str, server: ScriptedServer) -> None:
    """Each citation names its source, and has a link that opens it."""
    server.queue("Because of chlorophyll [1].")
    done = ask(client, temperature=1)
    assert done.usage.total_tokens == 18
    said = done.choices[0].message
    assert said.content.splitlines()[0] == "Because of chlorophyll [1]."
    cited = said.annotations[0].url_citation
    assert (said.content[cited.start_index : cited.end_index], cited.title) == ("[1]", "Botany > Leaves")
    link = urlsplit(cited.url)
    assert f"{link.scheme}://{link.netloc}{link.path}" == f"{address}/"
    wanted = parse_qs(link.fragment)
    with urllib.request.urlopen(f"{address}/sections/{wanted['section'][0]}?passage={wanted['passage'][0]}") as found:
        assert "chlorophyll" in json.load(found)["html"]


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_ignored_is_named(client: openai.OpenAI, server: ScriptedServer, stream: bool) -> None:
    """In a header, for what clients and their users set without thinking of a course."""
    server.queue("Because of chlorophyll [1].")
    create: Any = client.chat.completions.with_raw_response.create
    said = [{"role": "user", "content": None}, {"role": "user", "content": WHY}]
    more = {"num_ctx": 4096, "thinking": {"type": "disabled"}, "features": {"web_search": False}, "suffix": ""}
    done = create(model="course", messages=said, stream=stream, top_p=0.5, stop=["\n"], extra_body=more)
    named = ["features", "num_ctx", "stop", "thinking", "top_p"]
    assert sorted(done.headers["x-ignored-parameters"].split(", ")) == named


def test_an_answer_that_breaks_off(client: openai.OpenAI, server: ScriptedServer) -> None:
    """What was said stays said; the last event says that it failed, and why in words for students."""
    server.queue(Action("Because of chlorophyll, which is green.", cut_after=2))
    pieces = []
    with pytest.raises(openai.APIError, match="try again"):
        pieces.extend(ask(client, stream=True))
    assert pieces[0].choices[0].delta.content


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"model": "gpt-5"}, "model"),
    ],
)
def test_what_a_course_does_not_do(client: openai.OpenAI, more: dict[str, Any], param: str) -> None:
    """Is refused by its name, also what nobody knows: an answer as if it counted would be a lie."""
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, **more)
    assert refused.value.param == param
    with pytest.raises(openai.NotFoundError, match="use /v1/chat/completions"):
        ask(client.with_options(base_url=str(client.base_url).removesuffix("v1/")))


# -- other sites -----------------------------------------------------------------------------------


@pytest.mark.skipif(PROGRAM is None, reason="needs Debian's chromium")
def test_the_link_of_a_citation_opens_its_source(
    address: str, client: openai.OpenAI, server: ScriptedServer, tmp_path: Path
) -> None:
    """On the page, with the passage marked."""
    server.queue("Because of chlorophyll [1].")
    done = ask(client)
    with Browser(tmp_path / "profile") as browser:
        browser.open(done.choices[0].message.annotations[0].url_citation.url)
        browser.wait_for("document.querySelector('dialog[open] .passage')")
        browser.keep("linked")


def loaded(address: str) -> int:
    """How many static files were asked for; a frame of another site is a process of its own, which the browser's
    protocol does not tell of."""
    with urllib.request.urlopen(f"{address}/metrics") as found:
        return int(sum(float(line.split()[-1]) for line in found.read().decode().splitlines() if "/static/" in line))


@pytest.mark.skipif(PROGRAM is None, reason="needs Debian's chromium")
def test_a_frame_in_another_sites_page(
    address: str, elsewhere: ThreadingHTTPServer, tmp_path: Path, server: ScriptedServer
) -> None:
    """A script tag puts the chat there, and one can ask in it; a site that is not named shows nothing, and its
    scripts read nothing."""
    server.queue("Because of chlorophyll [1].")
    elsewhere.page = f'<h1>Moodle</h1><script src="{address}/static/embed.js" data-title="Ask" async></script>'  # type: ignore[attr-defined]
    asks = f"""fetch("{address}/v1/chat/completions", {{method: "POST", headers: {{"Content-Type": "application/json"}},
        body: JSON.stringify({{model: "course", messages: [{{role: "user", content: "{WHY}"}}]}})}})
        .then(got => got.json()).then(got => got.choices[0].message.content).catch(error => "refused")"""
    framed = "performance.getEntriesByType('resource').some(each => each.initiatorType === 'iframe')"
    with Browser(tmp_path / "profile") as browser:
        browser.open(site(elsewhere))
        browser.wait_for(f"document.querySelector('iframe')?.title === 'Ask' && {framed}")
        assert browser.run(asks).startswith("Because of chlorophyll [1].")
        browser.keep("framed")
        assert not browser.problems
        assert (shown := loaded(address)) > 2  # with style and scripts
        browser.open(f"http://127.0.0.1:{elsewhere.server_port}")
        browser.wait_for(f"document.querySelector('iframe')?.title === 'Ask' && {framed}")
        assert browser.run(asks) == "refused"
        assert loaded(address) == shown + 1  # `embed.js`
        assert [problem for problem in browser.problems if "frame-ancestors" in problem]


def test_only_the_api_and_only_named_sites(address: str, elsewhere: ThreadingHTTPServer) -> None:
    """The page's own requests bring cookies, and are for the page alone."""

    def status(path: str, origin: str) -> tuple[int, str | None]:
        headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}{path}", b'{"query": "leaf"}', headers)
        try:
            with urllib.request.urlopen(request) as found:
                return found.status, found.headers["access-control-allow-origin"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["access-control-allow-origin"]

    own = site(elsewhere)
    assert status("/search", own) == (200, own)
    assert status("/search", "https://evil.example") == (403, None)
    assert status("/chat", own)[0] == 403
    assert status("/reactions", own)[0] == 403
