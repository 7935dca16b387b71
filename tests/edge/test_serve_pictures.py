"""Pictures of the course in sections and answers, over a real server and in a real browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from edge.conftest import write_config
from edge.serving import serving
from fakes.chromium import PROGRAM, Browser
from fakes.openai_server import ScriptedServer

import lmm_education

NOTES = """---
title: Botany
---
# Leaves

![A leaf](figures/leaf.svg){width=50%}

A leaf is green because chlorophyll absorbs light. ![Outside](../../secret.svg)
"""
LEAF = """<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80" onload="document.title='pwned'">
<script>document.title = "pwned"; fetch("/contents")</script>
<ellipse cx="60" cy="40" rx="55" ry="30" fill="green"/></svg>
"""


@pytest.fixture
def address(tmp_path: Path, folder: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A course with a picture, and one outside of it."""
    course = folder / "course"
    (course / "notes/figures").mkdir(parents=True)
    (course / "notes/botany.md").write_text(NOTES)
    (course / "notes/figures/leaf.svg").write_text(LEAF)
    (folder / "secret.svg").write_text(LEAF)
    write_config(course, server)
    monkeypatch.chdir(course)
    lmm_education.ingest("notes")
    with serving(course / "config.toml") as running:
        yield running


def section_html(address: str) -> str:
    """The first section as the page gets it."""
    with urllib.request.urlopen(f"{address}/contents") as response:
        section = json.load(response)["documents"][0]["sections"][0]["section"]
    with urllib.request.urlopen(f"{address}/sections/{section}") as response:
        return str(json.load(response)["html"])


def test_a_picture_comes_with_its_own_policy(address: str) -> None:
    """In which nothing runs, even if it is opened by itself; it is asked for again only when it has changed."""
    html = section_html(address)
    assert html.count("<img ") == 1
    assert '<span class="picture">Outside</span>' in html
    assert "width=50%" not in html
    picture = html.partition('src="')[2].partition('"')[0]
    with urllib.request.urlopen(f"{address}/{picture}") as response:
        headers, data = response.headers, response.read()
    assert data.decode() == LEAF
    assert headers["content-type"] == "image/svg+xml"
    assert headers["content-security-policy"].endswith("; sandbox")
    assert headers["x-content-type-options"] == "nosniff"
    again = urllib.request.Request(f"{address}/{picture}", headers={"If-None-Match": headers["etag"]})
    with pytest.raises(urllib.error.HTTPError) as unchanged:
        urllib.request.urlopen(again)
    assert unchanged.value.code == 304
    unchanged.value.close()


@pytest.mark.parametrize(
    "path", ["notes/figures/leaf.svg", "../course/notes/figures/leaf.svg", "..%2f..%2fsecret.svg", "x", ".", "a.b"]
)
def test_paths_are_no_addresses(address: str, path: str) -> None:
    """Only what the server has signed is served."""
    for tried in (path, quote(path, safe="")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/pictures/{tried}")
        assert refused.value.code == 404
        refused.value.close()


@pytest.mark.browser
@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_pictures_on_the_page(address: str, server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """In the answer, in the section, and opened by itself where it is pressed; its script never runs. None is higher
    than 45 % of the window."""
    server.queue("![A leaf](figures/leaf.svg)\n\nGreen [1]. ![Outside](../../secret.svg)")
    with Browser(tmp_path_factory.mktemp("profile")) as page:
        page.screen(390, 800)
        page.open(f"{address}/")
        page.click("#question")
        page.type("Why is a leaf green?")
        page.press("Enter", 13)
        page.wait_for(
            "document.querySelector('aside li') && document.querySelector('.answer img').naturalWidth === 120"
        )
        assert page.run("document.querySelectorAll('.answer img').length") == 1
        page.click("aside button")
        page.wait_for("document.querySelector('#section img')?.naturalWidth === 120")
        page.keep("picture")
        assert page.run("document.title") == "Botany"
        assert page.run("getComputedStyle(document.querySelector('.answer img')).maxHeight") == "360px"
        page.open(page.run("document.querySelector('#section a[target=_blank]:has(> img)').href"))
        assert page.run("document.title") != "pwned"
        assert not [url for url in page.requests if not url.startswith(f"{address}/")]
        assert sum(url.endswith("/contents") for url in page.requests) == 1
