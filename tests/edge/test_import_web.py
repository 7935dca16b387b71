"""`lmm import URL`, from real servers on this machine: they are reached because the tests say so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes import web_server
from fakes.web_server import WebServer, page, redirect

from lmm.errors import FetchFailed, FileReadError, FileWriteError, LmmError
from lmm.importing import import_file
from lmm.importing.web import WEB, import_url
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import HeaderBlock

pytestmark = pytest.mark.usefixtures("forked_readers")
# The only way to an address that is not public: who calls the function says it. No option and no setting does.
HERE = replace(WEB, private=True)
DOT = b"\x89PNG\r\n\x1a\n" + bytes(20)
NAV = '<nav><a href="/book/">Home</a> <a href="/book/two.html">Two</a> <a href="one">One</a></nav>'


def html(body: str, head: str = "") -> web_server.Answer:
    return page(f"<html lang=en><head><title>T</title>{head}</head><body>{body}</body></html>")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({}) as server:
        yield server


def header(file: Path) -> dict[str, Any]:
    block = parse_markdown_text(file.read_text())[0]
    assert isinstance(block, HeaderBlock)
    return block.values()


def body(file: Path) -> str:
    return file.read_text().partition("\n---\n\n")[2]


# -- one page --------------------------------------------------------------------------------------------


def test_a_page_with_its_pictures(web: WebServer, folder: Path) -> None:
    """Title, authors, date and URL in the header; pictures of its host beside it; other links are whole."""
    meta = '<meta name=author content="Ann"><meta name=author content="Bo"><meta name=date content="2026-11-03T10:00Z">'
    text = """<h1 id=t>Leaves</h1><p>See <a href="#c">below</a>, <a href="/leaves#c">there</a>,
        <a href="b.html?x=1#y">b</a>, <img src="dot.png" alt=dot> <img src="/dot.png" alt=again>
        <img src="gone.png" alt=gone> <img src="http://other.invalid/a.png" alt=other>
        <img src="/text.png" alt=text></p><section id=c><h2>C</h2></section><h2 id=d>D</h2>"""
    web.answers |= {
        "/leaves": page(f"<html lang=en><title>Leaves | Site</title>{meta}<body>{text}</body></html>"),
        "/dot.png": page(DOT, "image/png"),
        "/text.png": page("no picture", "text/html"),
    }
    report = import_url(f"{web.url}/leaves#c", rules=HERE)
    assert header(Path("leaves.md")) == {
        "title": "Leaves", "author": ["Ann", "Bo"], "date": "2026-11-03", "source": f"{web.url}/leaves", "lang": "en"
    }  # fmt: skip
    assert body(Path("leaves.md")) == (
        f"# Leaves\n\nSee [below](#c), [there](#c), [b]({web.url}/b.html?x=1#y), ![dot](leaves_files/image-1.png)"
        f" ![again](leaves_files/image-1.png) ![gone]({web.url}/gone.png) ![other](http://other.invalid/a.png)"
        f" ![text]({web.url}/text.png)\n\n## C {{#c}}\n\n## D\n"
    )
    assert Path("leaves_files/image-1.png").read_bytes() == DOT
    assert report.images == (Path("leaves_files/image-1.png"),)
    assert web.paths.count("/dot.png") == 1
    with pytest.raises(FileWriteError, match="this file exists"):
        import_url(f"{web.url}/leaves", rules=HERE)


def test_files_are_told_by_what_they_are(web: WebServer, folder: Path) -> None:
    """Whatever the URL ends in."""
    notebook = '{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "markdown", "source": "# Hi"}]}'
    web.answers |= {
        "/n.ipynb": page(notebook, "text/plain"),
        "/": html("<p>Root.</p>"),
        "/a": page("text", "text/plain"),
    }
    import_url(f"{web.url}/n.ipynb", "out.md", rules=HERE)
    assert body(Path("out.md")) == "# Hi\n"
    assert import_url(web.url, rules=HERE).output == Path("127.0.0.1.md")
    with pytest.raises(LmmError, match=r"/a: files of this kind cannot be imported"):
        import_url(f"{web.url}/a", rules=HERE)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("<p>Öl</p>".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("<p>Öl</p>".encode("utf-16"), "text/html"),
        ("<p>Öl</p>".encode(), "text/html; charset=utf-16"),
        ("<p>Öl</p>".encode(), "text/html; charset=no-such-thing"),
        ("<meta charset=utf-8><p>Öl</p>".encode("latin-1"), "text/html"),
    ],
)
def test_charsets_that_are_named_or_wrong(web: WebServer, folder: Path, data: bytes, content_type: str) -> None:
    web.answers["/a"] = page(data, content_type)
    import_url(f"{web.url}/a", rules=HERE)
    assert body(Path("a.md")) == "Öl\n"


def test_hostile_pages(web: WebServer, folder: Path) -> None:
    """Each ends in words, within the bounds, and leaves nothing behind."""
    web.answers |= {
        "/endless": web_server.endless,
        "/bomb": web_server.bomb,
        "/slow": web_server.slow,
        "/round": redirect("/round"),
        "/empty": html("<script>x</script>"),
        "/deep": page("<div>" * 30_000),
        "/damaged": page(b"no gzip", content_encoding="gzip"),
    }
    small = replace(HERE, limit=300_000)
    for name, told in {
        "endless": "it has more than 300 kB (save it in your browser",
        "bomb": "it has more than 300 kB",
        "slow": "it took more than 1 s",
        "round": "it redirects more than 8 times",
        "empty": "there is no text in this page",
        "deep": "elements are open at once",
        "damaged": "cannot be unpacked",
        "none": "there is no such page (404)",
    }.items():
        with pytest.raises((FetchFailed, FileReadError)) as caught:
            import_url(f"{web.url}/{name}", rules=replace(small, timeout=1.0) if name == "slow" else small)
        assert told in str(caught.value)
        assert str(caught.value).startswith(f"{web.url}/{name}")
    assert not list(folder.iterdir())


def test_no_command_reaches_this_machine(web: WebServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By whatever name, option or setting: the rule is lifted in tests only, by who calls the function."""
    (folder / "config.toml").write_text("[chatmd]\nprivate_network = true\n")
    for host in ("127.0.0.1", "localhost", "0x7f.1", socket.gethostname()):
        ran = run_here(capsys, "import", f"http://{host}:{web.port}/")
        assert ran.code == 1
        assert "is not a public address" in ran.err or "there is no host" in ran.err
    assert not web.requests


def test_images_lie_beside_the_markdown_in_a_relative_folder(folder: Path) -> None:
    """As for every import."""
    (folder / "out").mkdir()
    (folder / "a.html").write_text('<img src="data:image/png;base64,iVBORw0KGgo=" alt=x>')
    assert import_file("a.html", "out").images == (Path("out/a_files/image-1.png"),)
    assert Path("out/a_files/image-1.png").is_file()
