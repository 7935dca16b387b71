"""Parts are expanded when they are first sent, and keep their contents after that."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.web_server import WebServer, page
from unit.chatmd.content.places import Agents, items, place
from unit.chatmd.content.test_image_data import png

from chatmd.config import ChatmdSettings
from chatmd.content.expand import expansions
from chatmd.context import AgentRequest, Run
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.transcript import messages_of
from chatmd.sidecar import ExpansionRecord
from lmm.messages import Image

ANSWER = "<assistant>Yes.</assistant>"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({"/": page("<h1>Leaves</h1><p>a<sub>1</sub></p>")}) as server:
        yield server


def sent(text: str, where: Run, recorded: ExpansionRecord | None = None) -> list[str | Image]:
    """Return the texts and images that a model gets, in order."""
    conversation = items(text)
    found = asyncio.run(expansions(conversation, where, recorded))
    messages = messages_of(conversation, expand=found.__getitem__)
    return [part for message in messages for part in (message.text, *message.content) if part]


def failure(text: str, where: Run, recorded: ExpansionRecord | None = None) -> str:
    with pytest.raises(ChatmdError) as caught:
        sent(text, where, recorded)
    return str(caught.value)


def user(src: str, flags: str = "local") -> str:
    return f'<user><doc src="{src}" {flags}/></user>'


# -- documents ---------------------------------------------------------------------------------------------


def test_local_documents(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("\ufeffA <b>b</b> &amp;\r\n", newline="")
    (tmp_path / "p.html").write_text("<h1>T</h1><p>x<sup>2</sup>")
    here = place(tmp_path)
    assert sent(user("a.md"), here) == ["A <b>b</b> &amp;\r\n"]
    assert sent(user("a.md", "local strip"), here) == ["A b &amp;\r\n"]
    assert sent(user("a.md", "local markdown"), here) == ["A <b>b</b> &amp;\r\n"]
    assert sent(user("p.html"), here) == ["<h1>T</h1><p>x<sup>2</sup>"]
    assert sent(user("p.html", "local markdown"), here) == ["# T\n\nx^2^\n"]
    assert sent(user("p.html", "local markdown strip"), here) == ["T\nx2\n"]


def test_remote_documents(tmp_path: Path, web: WebServer) -> None:
    here = place(tmp_path)
    assert sent(user(web.url, ""), here) == ["<h1>Leaves</h1><p>a<sub>1</sub></p>"]
    assert sent(user(web.url, "markdown"), here) == ["# Leaves\n\na~1~\n"]
    assert sent(user(web.url, "strip"), here) == ["Leaves\na1\n"]


def test_everything_is_read_once_and_side_by_side(tmp_path: Path, web: WebServer) -> None:
    docs = "".join(f'<doc src="{web.url}/{name}"/>' for name in "aabab")
    web.answers |= {"/a": page("A"), "/b": page("B")}
    assert sent(f"<user>{docs}</user><system>{docs}</system>", place(tmp_path)) == ["A", "A", "B", "A", "B"] * 2
    assert sorted(web.paths) == ["/a", "/b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (user("b.md"), "a.chatmd:1:7: 'b.md': there is no such file (the path is "),
        (user("../b.md"), "a.chatmd:1:7: '../b.md' is outside of "),
        (user("/etc/passwd"), "a.chatmd:1:7: '/etc/passwd' is outside of "),
        (user("link.md"), "a.chatmd:1:7: 'link.md' is outside of "),
        (user("loop.md"), "a.chatmd:1:7: 'loop.md': "),
        (user("."), "a.chatmd:1:7: '.': this is a folder, not a file"),
        (user("pipe"), "a.chatmd:1:7: 'pipe': this is a device or a pipe"),
        (user("big.md"), "a.chatmd:1:7: 'big.md': this file has more than 100 kB (fetch_limit under [chatmd]"),
        (user("bad.md"), "a.chatmd:1:7: 'bad.md': byte 0xff is not UTF-8 (line 1, column 2) (convert it"),
        (user("i.png"), "a.chatmd:1:7: 'i.png': this is a PNG image, not text"),
        (user("i.png", "local markdown"), "a.chatmd:1:7: 'i.png': this is a PNG image, not text"),
        (
            user("https://e.org/"),
            "a.chatmd:1:7: 'https://e.org/': this is a URL, not a file on disk (leave 'local' out)",
        ),
        (user("b.md", ""), "a.chatmd:1:7: 'b.md': this is not a URL (write 'local' for a file on disk)"),
        (user("ftp://u:pw@e.org/", ""), "a.chatmd:1:7: ftp://e.org/: only http:// and https:// are fetched"),
        (
            "<user>\n <img src='bad.md' local/></user>",
            "a.chatmd:2:2: 'bad.md': this is text, not an image (models support PNG",
        ),
        ("<user><img src='../i.png' local/></user>", "a.chatmd:1:7: '../i.png' is outside of "),
        ("<user><agent src='../s.chatmd' local/></user>", "a.chatmd:1:7: '../s.chatmd' is outside of "),
        (
            "<user><agent src='s.chatmd' local>\n<doc src='b.md' local/></agent></user>",
            "a.chatmd:2:1: 'b.md': there is no",
        ),
        (
            user("b.md") + "\n" + user("c.md"),
            "'b.md': there is no such file",
        ),
    ],
)
def test_what_cannot_be_had_has_a_place(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (tmp_path / "b.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "b.md")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "big.md").write_text("x" * 100_001)
    (folder / "bad.md").write_bytes(b"a\xff")
    (folder / "i.png").write_bytes(png(3, 2))
    os.mkfifo(folder / "pipe")
    assert message in failure(text, place(folder))


def test_other_folders_have_to_be_named(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (tmp_path / "b.md").write_text("B")
    (folder / "link.md").symlink_to(tmp_path / "b.md")
    for name in ("../b.md", "link.md"):  # the folder of a link is that of its target
        assert f"(allow its folder: --root {tmp_path.resolve()}" in failure(user(name), place(folder))
    assert sent(user("../b.md"), place(folder, rules=ChatmdSettings(roots=(tmp_path,)))) == ["B"]


def test_the_network_has_rules(tmp_path: Path, web: WebServer) -> None:
    told = failure(user(f"{web.url}/?key=secret", ""), place(tmp_path, rules=ChatmdSettings()))
    assert told.startswith(f"a.chatmd:1:7: {web.url}/?…: '127.0.0.1' is not a public address, but this machine")
    assert "secret" not in told


def test_images(tmp_path: Path) -> None:
    (tmp_path / "i.gif").write_bytes(png(3, 2))  # the content counts, not the name
    text = "<user><img src='i.gif' local/><img src='https://e.org/a.png'/></user>"
    assert sent(text, place(tmp_path)) == [Image(png(3, 2)), Image(url="https://e.org/a.png")]


# -- agents ------------------------------------------------------------------------------------------------


def test_agents_get_what_stands_inside(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A")
    (tmp_path / "i.png").write_bytes(png(3, 2))
    agents = Agents()
    inner = "<agent src='t.chatmd' local/>"
    text = f"<user>x<agent src='s.chatmd' local>y<doc src='a.md' local/><img src='i.png' local/>{inner}</agent></user>"
    assert sent(text, place(tmp_path, agents)) == ["x", "answer 2"]
    first, second = agents.asked
    assert (first.src, second.src, second.folder) == ("t.chatmd", "s.chatmd", tmp_path)
    said, document, image, answer = second.input
    assert (said, document, answer) == ("y", "A", "answer 1")
    assert not isinstance(image, str)
    assert image.src.startswith("data:image/png;base64,")


def test_agents_are_asked_when_everything_else_is_there(tmp_path: Path) -> None:
    agents = Agents()
    assert "there is no such file" in failure(
        f"<user><agent src='s' local/></user>{user('b.md')}", place(tmp_path, agents)
    )
    assert not agents.asked


def test_what_stops_a_run_stays_what_it_is(tmp_path: Path) -> None:
    async def refuse(run: Run, request: AgentRequest) -> str:
        raise LimitReached("too deep")

    where = Run(tmp_path, place(tmp_path).settings, ask=refuse)
    with pytest.raises(LimitReached):
        sent("<user><agent src='s' local/><agent src='t' local/></user>", where)


# -- the record --------------------------------------------------------------------------------------------


def test_one_run_reads_what_it_knows_no_more(tmp_path: Path) -> None:
    """Within a run, the same items are expanded again with more after them."""
    (tmp_path / "a.md").write_text("old")
    here, first = place(tmp_path), items(user("a.md"))
    found = asyncio.run(expansions(first, here, None))
    (tmp_path / "a.md").write_text("new")
    both = (*first, *items(user("a.md")))
    again = asyncio.run(expansions(both, here, known=found))
    assert [again[part] for part in again] == ["old", "new"]


def test_what_a_tool_said_is_exact_and_not_recorded(tmp_path: Path) -> None:
    folder = tmp_path / ".chatmd"
    folder.mkdir()
    (folder / "x.txt").write_bytes("\ufeff%PDF-\r\n".encode())
    text = '<user>a</user><tool_call tool_call_id="c" function_name="f">{}</tool_call>'
    text += '<tool_response tool_call_id="c"><doc src=".chatmd/x.txt" local/></tool_response>'
    conversation = items(text)
    found = asyncio.run(expansions(conversation, place(tmp_path), ExpansionRecord(tmp_path / "a")))
    assert list(found.values()) == ["\ufeff%PDF-\r\n"]
    assert not (folder / "expansions.jsonl").exists()
