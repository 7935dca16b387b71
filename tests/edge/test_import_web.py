"""`lmm import URL` and `--site`, from real servers on this machine: they are reached because the tests say so."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes import web_server
from fakes.web_server import WebServer, page, redirect

from lmm.book_project import book_of
from lmm.errors import FetchFailed, FileReadError, FileWriteError, LmmError
from lmm.importing import import_file, web as importing
from lmm.importing.web import WEB, import_site, import_url
from lmm.loop import Stopped
from lmm.markdown import parse_markdown_text
from lmm.markdown.blocks import HeaderBlock
from lmm_education.ingestion.source_files import find_sources

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
        for options in ([], ["--site"]):
            ran = run_here(capsys, "import", *options, f"http://{host}:{web.port}/")
            assert ran.code == 1
            assert "is not a public address" in ran.err or "there is no host" in ran.err
    assert not web.requests


# -- a site ----------------------------------------------------------------------------------------------


def test_a_site_becomes_a_folder(web: WebServer, folder: Path) -> None:
    """In the order of its navigation, with links that lead from file to file; a course takes it as a book."""
    web.answers |= {
        "/book": redirect("/book/"),
        "/book/": html(f'<p>See <a href="part/three.html#x">three</a> and <a href="/else">else</a>.</p>{NAV}'),
        "/book/one": html(
            f'{NAV}<a href="/book/index.html">Home</a>, <a href="old.html">moved</a> <img src="../dot.png" alt=d>'
        ),
        "/book/two.html": html(f'{NAV}<h1>Two</h1><p><a href="two.html?print=1">print</a></p>'),
        "/book/old.html": redirect("part/three.html"),
        "/book/part/three.html": html('<h2 id=x>X</h2><h2 id=y>Y</h2><a href="../../book/two.html#t">two</a>'),
        "/dot.png": page(DOT, "image/png"),
        "/book/a.pdf": page(b"%PDF-"),
    }
    asked: list[tuple[str, int, int]] = []
    reports, notes = import_site(f"{web.url}/book", rules=HERE, tell=lambda *told: asked.append(told))
    assert notes == []
    assert [str(report.output) for report in reports] == [
        "book/index.md", "book/two.md", "book/one.md", "book/part/three.md"
    ]  # fmt: skip
    assert body(Path("book/index.md")) == f"See [three](part/three.md#x) and [else]({web.url}/else).\n"
    assert body(Path("book/one.md")) == "[Home](index.md), [moved](part/three.md) ![d](one_files/image-1.png)\n"
    assert body(Path("book/part/three.md")) == "## X {#x}\n\n## Y\n\n[two](../two.md#t)\n"
    assert Path("book/one_files/image-1.png").read_bytes() == DOT
    assert (asked[0], asked[-1][1:]) == ((f"{web.url}/book", 1, 1), (5, 5))
    assert not [path for path in web.paths if "print" in path or "else" in path]
    book = book_of(Path("book/index.md").absolute())
    assert book is not None
    assert [source.file for source in find_sources(["book"], Path.cwd()).documents] == [
        "book/index.md", "book/two.md", "book/one.md", "book/part/three.md"
    ]  # fmt: skip
    with pytest.raises(FileWriteError, match="this folder is not empty"):
        import_site(f"{web.url}/book/", "book", rules=HERE)


def test_pages_that_name_the_next_one_are_read_in_that_order(web: WebServer, folder: Path) -> None:
    """Also where only some of them may be read; a page of all pages, to be printed, is none."""
    web.answers |= {
        "/": html('<a href=print>P</a><a href=c>C</a><a href=a rel=next>A</a><p>0</p>'),
        "/a": html('<p>A</p>', '<link rel="next" href="b">'),
        "/b": html('<p>B</p><a rel="prefetch next" href="/c">c</a>'),
        "/c": html("<p>C</p>"),
        "/print": html("<p>0 A B C</p>", '<meta name=robots content="noindex">'),
    }  # fmt: skip
    reports, notes = import_site(web.url, "all", rules=HERE)
    assert [report.output.name for report in reports] == ["index.md", "a.md", "b.md", "c.md"]
    reports, notes = import_site(web.url, "some", pages=3, rules=HERE)
    assert [report.output.name for report in reports] == ["index.md", "a.md", "b.md"]
    assert notes == ["left out: 2 more pages (--pages 5)"]


def test_robots_are_respected(web: WebServer, folder: Path) -> None:
    """Of pages and pictures; where their file cannot be had, nothing is read; nofollow leads nowhere."""
    rules = "User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /*.png$\nDisallow: /no"
    links = "".join(f'<a href="/{name}">{name}</a>' for name in ("no", "yes", "last"))
    web.answers |= {
        "/robots.txt": page(rules, "text/plain"),
        "/": html(f"{links}<img src=dot.png alt=d>"),
        "/yes": html('<p>Yes.</p><a href="/hidden">h</a>', "<meta name=Robots content='NOFOLLOW'>"),
        "/last": html("<p>Last.</p>"),
        "/dot.png": page(DOT, "image/png"),
    }
    reports, notes = import_site(web.url, "out", rules=HERE)
    assert [report.output.name for report in reports] == ["index.md", "yes.md", "last.md"]
    assert notes == [f"left out: {web.url}/no: its robots.txt does not allow programs to read this"]
    assert set(web.paths) == {"/robots.txt", "/", "/yes", "/last"}
    web.answers["/robots.txt"] = page("User-agent: LMMarkdown\nDisallow: /", "text/plain")
    with pytest.raises(FetchFailed, match="does not allow programs to read this"):
        import_site(web.url, "none", rules=HERE)
    web.answers["/robots.txt"] = lambda send: send(web_server.head("500 Oops", content_length=0))
    with pytest.raises(FetchFailed, match=r"robots.txt cannot be read: the server answered with status 500"):
        import_site(web.url, "none", rules=HERE)


def test_a_site_without_an_end(web: WebServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded are pages and bytes; names of files are harmless, and different; pages that fail are told of."""
    names = ["/%2e%2e%2fup", "/.ssh/id_rsa.html", "/A.html", "/a.html", "/con", "/b%20(1)%00", "/summary", "/gone"]
    links = "".join(f'<a href="{name}">x</a>' for name in names)
    web.answers |= {name: html(f"<p>{name[1]}</p>") for name in names[:-1]}
    web.answers |= {"/": html(f"<p>x</p>{links}"), "/gone": redirect("http://other.invalid/")}
    reports, notes = import_site(web.url, "out", rules=HERE)
    found = sorted(path.relative_to("out").as_posix() for path in Path("out").rglob("*.md"))
    assert found == [
        "A.md",
        "SUMMARY.md",
        "_con.md",
        "a-2.md",
        "b-1.md",
        "index.md",
        "ssh/id_rsa.md",
        "summary-2.md",
        "up.md",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["out"]
    assert len(notes) == 1
    assert "there is no host 'other.invalid'" in notes[0]
    monkeypatch.setattr(importing, "MOST_BYTES", 0)
    many = "".join(f'<a href="/p{number}">p</a>' for number in range(1000))
    web.answers |= {f"/p{number}": html(f"<p>{number}</p>") for number in range(1000)} | {"/": html(many)}
    web.requests.clear()
    reports, notes = import_site(web.url, "many", pages=3, rules=HERE)
    assert (len(reports), len(web.requests)) == (3, 4)
    assert notes[0].startswith("left out: ")


@dataclass
class AtOnce:
    """Answers, and how many of them at once: each waits a moment for `wanted` of them."""

    wanted: int
    most: int = 0
    _now: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, answer: web_server.Answer) -> web_server.Answer:
        def waiting(send: web_server.Send) -> None:
            with self._changed:
                self._now += 1
                self.most = max(self.most, self._now)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self.most >= self.wanted, 30)
            answer(send)
            with self._changed:
                self._now -= 1

        return waiting


@pytest.mark.parametrize(("robots", "wanted"), [("", importing.AT_ONCE), ("User-agent: *\nCrawl-delay: 0.001", 1)])
def test_pages_are_asked_for_at_once(web: WebServer, folder: Path, robots: str, wanted: int) -> None:
    """Four, where the server wants no pause between them; a picture on all of them comes once, and to all."""
    names = [f"/p{number}" for number in range(4)]
    at_once = AtOnce(wanted)
    links = "".join(f'<a href="{name}">x</a>' for name in names)
    web.answers |= {name: at_once(html(f"<p>{name}</p><img src=dot.png alt=d>")) for name in names}
    web.answers |= {"/": html(links), "/dot.png": page(DOT, "image/png"), "/robots.txt": page(robots, "text/plain")}
    reports, _ = import_site(web.url, "out", rules=HERE)
    assert [report.output.stem for report in reports] == ["index", "p0", "p1", "p2", "p3"]
    assert [len(report.images) for report in reports] == [0, 1, 1, 1, 1]
    assert (at_once.most, web.paths.count("/dot.png")) == (wanted, 1)


def test_a_site_that_is_broken_off_keeps_what_had_come(web: WebServer, folder: Path) -> None:
    """Its links lead to what is there, and to the web for what is not."""

    def interrupt(send: web_server.Send) -> None:
        signal.raise_signal(signal.SIGINT)
        web_server.slow(send)

    web.answers |= {
        "/": html('<a rel=next href=a>A</a>'),
        "/a": html('<p>A, see <a href="/">the first</a>.</p><a rel=next href=b>B</a>'),
        "/b": interrupt,
    }  # fmt: skip
    with pytest.raises(Stopped) as stopped:
        import_site(web.url, "out", rules=HERE)
    reports, notes = stopped.value.report
    assert notes == ["left out: 1 more page (interrupted)"]
    assert [report.output.name for report in reports] == ["index.md", "a.md"]
    assert body(Path("out/a.md")) == f"A, see [the first](index.md).\n\n[B]({web.url}/b)\n"
    assert Path("out/SUMMARY.md").read_text() == "# Summary\n\n- [T](index.md)\n- [T](a.md)\n"


def test_images_lie_beside_the_markdown_in_a_relative_folder(folder: Path) -> None:
    """As for every import."""
    (folder / "out").mkdir()
    (folder / "a.html").write_text('<img src="data:image/png;base64,iVBORw0KGgo=" alt=x>')
    assert import_file("a.html", "out").images == (Path("out/a_files/image-1.png"),)
    assert Path("out/a_files/image-1.png").is_file()
