"""`webpage_to_markdown` against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fakes.web_server import WebServer, page, redirect
from unit.chatmd.content.places import HERE, place

from chatmd.config import ChatmdSettings
from chatmd.language.agent import Tool
from chatmd.tools.web import open_webpage_to_markdown
from lmm.errors import LmmError
from lmm.fetch import Resolve, resolve_host
from lmm.models.port import RunnableTool

ARTICLE = """<!doctype html><html lang=en><head><title>Leaves - Botany</title><style>p {}</style></head><body>
<nav><a href=/>Home</a></nav><main><h1>Leaves</h1><p>Rate \\(v = \\frac{s}{t}\\), see <a href="roots">roots</a>.</p>
<pre><code class="language-python">a &lt; b
</code></pre><table><tr><th>x<th>y<tr><td>1<td>2</table></main>
<footer>© cookies</footer><script>track()</script></body></html>"""


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({"/leaves": page(ARTICLE)}) as server:
        yield server


def tool(rules: ChatmdSettings = HERE, most: int | None = None, resolve: Resolve = resolve_host) -> RunnableTool:
    declared = Tool("builtin", "webpage_to_markdown", max_output=most)
    opened = open_webpage_to_markdown(declared, place(Path(), rules=rules), resolve=resolve)

    async def enter() -> Sequence[RunnableTool]:
        async with opened as tools:
            return tools

    (one,) = asyncio.run(enter())
    return one


def read(url: str, one: RunnableTool | None = None, **arguments: object) -> str:
    return asyncio.run((one or tool()).call({"url": url, **arguments})).text


def test_a_page(web: WebServer) -> None:
    assert read(f"{web.url}/leaves") == (
        f"Source: {web.url}/leaves\n[left out: 4 words in the page outside its main part]\n\n"
        "# Leaves\n\n"
        f"Rate $v = \\frac{{s}}{{t}}$, see [roots]({web.url}/roots).\n\n"
        "```python\na < b\n```\n\n| x   | y   |\n|-----|-----|\n| 1   | 2   |"
    )


def test_other_texts_are_code(web: WebServer) -> None:
    web.answers |= {
        "/a.json": page('{"a": "```"}', "application/json"),
        "/a.txt": page("one\ntwo\n", "text/plain"),
        "/a.md": page("# A\n", "text/markdown"),
        "/b.md": page("# B\n", "text/plain"),
    }
    assert read(f"{web.url}/a.json").endswith('\n\n````json\n{"a": "```"}\n````')
    assert read(f"{web.url}/a.txt").endswith("\n\n```txt\none\ntwo\n```")
    assert read(f"{web.url}/a.md").endswith("\n\n# A")
    assert read(f"{web.url}/b.md").endswith("\n\n# B")


def test_a_redirect_is_told_without_its_query(web: WebServer) -> None:
    web.answers["/old"] = redirect("/leaves?token=secret")
    text = read(f"{web.url}/old")
    assert f"Source: {web.url}/leaves?…\n" in text
    assert "secret" not in text


def test_long_pages_are_read_on(web: WebServer) -> None:
    lines = [f"line {number}" for number in range(1000)]
    web.answers["/long"] = page("\n".join(lines), "text/markdown")
    one, seen, offset = tool(most=2_000), [], 1
    while True:
        text = read(f"{web.url}/long", one, offset=offset)
        assert len(text) <= 2_000
        _, _, rest = text.partition("\n\n")
        body, _, footer = rest.partition("\n[")
        seen += body.split("\n")
        if not footer:
            break
        offset = int(footer.rpartition("=")[2].rstrip("]"))
    assert seen == lines
    assert web.paths == ["/long"]  # fetched once: later parts come from the same page
    with pytest.raises(LmmError, match="it has 1000 lines only"):
        read(f"{web.url}/long", one, offset=1001)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/none", "there is no such page .404."),
        ("/empty", "there is no text in this page"),
        ("/blank", "there is no text in it"),
        ("/image", "this is a PNG image, not text .it can only be looked at"),
        ("/binary", "this is a binary file, not text$"),
    ],
)
def test_what_cannot_be_read(web: WebServer, path: str, message: str) -> None:
    web.answers |= {
        "/empty": page("<script>1</script>"),
        "/blank": page(" \n", "text/plain"),
        "/image": page(b"\x89PNG\r\n\x1a\n", "image/png"),
        "/binary": page(b"\0\1", "application/octet-stream"),
    }
    with pytest.raises(LmmError, match=message) as caught:
        read(f"{web.url}{path}?key=secret")
    assert "secret" not in str(caught.value)
    assert caught.value.where == f"{web.url}{path}?…"


def test_this_machine_is_not_read(web: WebServer) -> None:
    with pytest.raises(LmmError, match="not a public address"):
        read(f"{web.url}/leaves", tool(ChatmdSettings()))
    assert not web.requests


def test_files_on_github_are_fetched_as_text() -> None:
    """The request goes to the host of raw files, which has no address here."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(f"{host}:{port}")
        return []

    with pytest.raises(LmmError, match=r"raw\.githubusercontent\.com"):
        read("https://github.com/o/r/blob/main/a.py#L1-L2", tool(resolve=resolve))
    assert asked == ["raw.githubusercontent.com:443"]


def test_what_the_model_is_told() -> None:
    definition = tool().definition
    assert definition.name == "webpage_to_markdown"
    assert definition.parameters["required"] == ["url"]
    assert definition.parameters["additionalProperties"] is False
