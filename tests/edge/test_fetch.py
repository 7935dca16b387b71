"""Fetching from real servers that do what servers should not."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fakes import web_server
from fakes.web_server import WebServer, page, redirect
from hypothesis import given, strategies as st

from lmm.errors import FetchFailed
from lmm.fetch import Fetched, FetchRules, Resolve, fetch, resolve_host

HERE = FetchRules(20, 100_000, private=True, more_time="wait", more_bytes="more", more_private="allow it")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({"/": page("<p>Leaves</p>")}) as server:
        yield server


def get(url: str, rules: FetchRules = HERE, resolve: Resolve = resolve_host) -> Fetched:
    return asyncio.run(fetch(url, rules, resolve=resolve))


def failure(url: str, rules: FetchRules = HERE, resolve: Resolve = resolve_host) -> str:
    with pytest.raises(FetchFailed) as caught:
        get(url, rules, resolve)
    return str(caught.value)


def meaning(*addresses: str) -> Resolve:
    """A resolver by which every host has these addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def test_what_is_fetched_and_what_is_sent(web: WebServer) -> None:
    came = get(f"{web.url}/?a=b#part")
    assert came == Fetched(b"<p>Leaves</p>", "text/html", "utf-8", f"{web.url}/?a=b")
    lines = web.requests[0].splitlines()
    assert lines[0] == "GET /?a=b HTTP/1.1"
    names = [line.partition(":")[0] for line in lines[1:]]
    assert sorted(names) == ["Accept", "Accept-Encoding", "Host", "User-Agent"]
    assert f"Host: 127.0.0.1:{web.port}" in lines


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{}/",
        "http://localhost:{}/",
        "http://2130706433:{}/",
        "http://0x7f.1:{}/",
        "http://0:{}/",
        "http://0177.0.0.1:{}/",
    ],
)
def test_this_machine_is_not_reached_by_any_name(web: WebServer, url: str) -> None:
    told = failure(url.format(web.port), FetchRules(more_private="save it yourself"))
    assert "is not a public address, but this machine (save it yourself)" in told
    assert not web.requests


_PIECES = ["0177", "0x7f", "127", "0", "1", "2130706433", "256", "08", "localhost", "a", "xn--a", "é", "①", "。", "%31",
           "%00", "_", "-", "*", "\u202e", "\ud800", "\u200b", "::1", "::ffff:127.0.0.1", "[", "]", "%lo", "@", ":",
           "99999", "٣", "\\", "?", "#", "/"]  # fmt: skip
HOSTS = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=5).flatmap(
    lambda parts: st.sampled_from(["", ".", ":"]).map(lambda joint: joint.join(parts))
)


@given(HOSTS | HOSTS.map("[{}]".format) | st.text(max_size=20), st.sampled_from(["http", "https", "HTTP"]))
def test_whatever_a_host_is_called_this_machine_is_not_reached(host: str, scheme: str) -> None:
    """Refused or looked up, it ends in words. Every name means this machine here: name servers may be a stranger's."""
    assert failure(f"{scheme}://{host}/", FetchRules(), meaning("127.0.0.1"))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_a_public_name_with_a_private_address(web: WebServer, address: str) -> None:
    url = f"http://example.org:{web.port}/"
    assert "'example.org' is not a public address" in failure(url, FetchRules(), meaning(address))
    assert "'example.org' is not a public address" in failure(url, FetchRules(), meaning("93.184.216.34", address))
    assert not web.requests


def test_a_name_that_means_something_else_a_moment_later(web: WebServer) -> None:
    """The name is looked up once; the connection goes to what was checked, whatever the name means by then."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    came = get(f"http://rebinding.example:{web.port}/", HERE, resolve)
    assert (came.data, asked) == (b"<p>Leaves</p>", ["rebinding.example"])
    assert f"Host: rebinding.example:{web.port}" in web.requests[0]


def test_another_address_is_tried_if_one_does_not_answer(web: WebServer) -> None:
    assert get(f"http://two.example:{web.port}/", HERE, meaning("127.0.0.2", "127.0.0.1")).data


def test_redirects(web: WebServer) -> None:
    web.answers |= {"/a": redirect("/b/c"), "/b/c": redirect("../d?x=1#y", "308 Permanent Redirect"), "/d": page("D")}
    came = get(f"{web.url}/a")
    assert (came.data, came.url) == (b"D", f"{web.url}/d?x=1")
    assert web.paths == ["/a", "/b/c", "/d?x=1"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "only http:// and https:// are fetched"),
        ("http://ann:secret@example.org/", "with a user or a password"),
        ("gopher://example.org/", "only http:// and https:// are fetched"),
        ("http://[1", "not a URL"),
        ("/a", "redirects more than 8 times"),
    ],
)
def test_redirects_that_are_not_followed(web: WebServer, location: str, reason: str) -> None:
    web.answers["/a"] = redirect(location)
    told = failure(f"{web.url}/a?key=secret")
    assert reason in told
    assert "secret" not in told


def test_a_redirect_into_this_machine(web: WebServer) -> None:
    """Each step is checked like the first one."""
    web.answers |= {"/out": redirect(f"http://inner.example:{web.port}/in"), "/in": page("secret")}
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if host == "outer.example" else []

    assert "there is no host 'inner.example'" in failure(f"http://outer.example:{web.port}/out", HERE, resolve)
    assert asked == ["outer.example", "inner.example"]
    assert web.paths == ["/out"]


def test_size_is_limited_while_it_arrives(web: WebServer) -> None:
    web.answers |= {
        "/declared": web_server.declared(10_000_000_000),
        "/absurd": web_server.declared(10**4000),
        "/endless": web_server.endless,
        "/bomb": web_server.bomb,
        "/just": page(b"x" * 100_000),
        "/more": page(b"x" * 100_001),
    }
    for name in ("declared", "absurd", "endless", "bomb", "more"):
        told = failure(f"{web.url}/{name}")
        assert "it has more than 100 kB (more)" in told or (name == "absurd" and "does not speak HTTP" in told)
    assert len(get(f"{web.url}/just").data) == 100_000
    assert web.broken_off.wait(10)  # nobody listens to the endless one any more


@pytest.mark.parametrize("answer", [web_server.slow, web_server.slow_head])
def test_time_is_limited_over_all(web: WebServer, answer: web_server.Answer) -> None:
    web.answers["/slow"] = answer
    told = failure(f"{web.url}/slow", FetchRules(0.3, private=True, more_time="wait"))
    assert "it took more than 0.3 s (wait)" in told
    assert web.broken_off.wait(10)


def test_compression(web: WebServer) -> None:
    text = b"leaf " * 1000
    raw = zlib.compressobj(wbits=-15)
    web.answers |= {
        "/gzip": page(gzip.compress(text), content_encoding="gzip"),
        "/zlib": page(zlib.compress(text), content_encoding="deflate"),
        "/raw": page(raw.compress(text) + raw.flush(), content_encoding="Deflate"),
    }
    for name in ("gzip", "zlib", "raw"):
        assert get(f"{web.url}/{name}").data == text, name
    web.answers |= {
        "/br": page(b"..", content_encoding="br"),
        "/bad": page(b"no gzip", content_encoding="gzip"),
    }
    assert "compressed with 'br'" in failure(f"{web.url}/br")
    assert "damaged" in failure(f"{web.url}/bad")


def test_what_servers_answer(web: WebServer) -> None:
    web.answers |= {
        "/500": lambda send: send(web_server.head("500 Oops secret", content_length=0)),
        "/none": lambda send: None,
        "/ftp": lambda send: send(b"220 ready\r\n"),
        "/cut": lambda send: send(web_server.head(content_length=10) + b"12"),
    }
    assert failure(f"{web.url}/no?key=secret") == f"{web.url}/no?…: there is no such page (404)"
    assert failure(f"{web.url}/500") == f"{web.url}/500: the server answered with status 500"
    for name in ("none", "ftp", "cut"):
        assert failure(f"{web.url}/{name}").endswith("the server does not speak HTTP, or broke off")


def test_who_does_not_answer(web: WebServer) -> None:
    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    assert "nothing answers at this address" in failure("http://127.0.0.1:1/")
    assert "there is no host 'nowhere.example'" in failure("http://nowhere.example/", HERE, nowhere)
    assert "there is no host" in failure("http://nowhere.example/", HERE, meaning())


def test_servers_without_tls(web: WebServer) -> None:
    with WebServer({}, greeting=b"220 ready\r\n") as server:
        told = failure(f"https://127.0.0.1:{server.port}/")
    assert told == f"https://127.0.0.1:{server.port}/: no encrypted connection could be made"
    waits = FetchRules(0.3, private=True, more_time="wait")  # this one waits for the end of the request's head
    assert "it took more than 0.3 s" in failure(f"https://127.0.0.1:{web.port}/", waits)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_certificates_are_verified(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with WebServer({"/": page("secret")}, tls=context) as server:
        told = failure(f"https://localhost:{server.port}/")
        assert "its certificate is not valid: self-signed certificate" in told
        assert not server.requests


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "https://ann:pw@example.org/", "ftp://e.org/", "http://", "http://a b/", "http://e\\@f/"],
)
def test_urls_that_are_not_fetched(url: str) -> None:
    told = failure(url, HERE, meaning())
    assert "pw" not in told
    assert "is no host" not in told


def test_no_proxy_of_the_environment(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert get(web.url + "/").data
