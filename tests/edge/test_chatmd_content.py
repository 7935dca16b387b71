"""Documents, images and agents in real runs, and `lmm render`: what it prints is what the model gets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.support import run_here
from fakes.openai_server import Action, ScriptedServer, fail
from fakes.web_server import WebServer, page

import chatmd
from lmm.cli.main import main

GIF = b"GIF89a\x03\0\x02\0\0\0\0;"
PAGE = r"<title>Leaves</title><main><h1>Leaves</h1><p>Rate \(v_1\)</p></main><nav>Home</nav>"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({"/leaves": page(PAGE)}) as running:
        yield running


@pytest.fixture
def files(folder: Path, server: ScriptedServer, web: WebServer) -> Path:
    """A prompt with everything that can stand in a message, in a folder whose settings allow this machine."""
    config = folder / "config.toml"
    config.write_text(config.read_text() + "[chatmd]\nprivate_network = true\n")
    assert main(["trust", "--yes"]) == 0
    (folder / "note.md").write_text("old note\r\n", newline="")
    (folder / "a.gif").write_bytes(GIF)
    (folder / "sub.chatmd").write_text("<system>Sum up.</system>\n")
    (folder / "a.chatmd").write_text(
        '<user>Right? <doc src="note.md" local/> <img src="a.gif" local/>'
        f'<doc src="{web.url}/leaves" markdown/><agent src="sub.chatmd" local>This: <doc src="note.md" local/></agent>'
        "</user>\n"
    )
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    done = run_here(capsys, "run", "a.chatmd", *words)
    assert done.code == 0, done.err


def bodies(server: ScriptedServer) -> list[Any]:
    return [request.body["messages"] for request in server.requests]


def test_a_resumed_run_sends_the_same_history(
    files: Path, server: ScriptedServer, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, page, image and agent change or vanish between two runs; what was said before does not."""
    server.queue("Summary.", "Yes.")
    run(capsys)
    (sub, first) = bodies(server)
    assert [message["content"] for message in sub] == ["Sum up.", "This: old note\r\n"]
    image = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"}}
    texts = [{"type": "text", "text": text} for text in ("Right? ", "old note\r\n", " ")]
    assert first[0]["content"] == [
        *texts,
        image,
        *({"type": "text", "text": text} for text in ("# Leaves\n\nRate $v_1$\n", "Summary.")),
    ]
    (files / "note.md").write_text("new note")
    (files / "a.gif").unlink()
    (files / "sub.chatmd").unlink()
    web.answers.clear()
    with (files / "a.chatmd").open("a") as transcript:
        transcript.write('<user>And now? <doc src="note.md" local/></user>\n')
    server.queue("Better.")
    run(capsys)
    assert len(server.requests) == 3
    third = bodies(server)[2]
    assert third[0] == first[0]
    assert third[2]["content"] == "And now? new note"
    assert web.paths == ["/leaves"]
    assert not list(files.glob("*.jsonl"))


def test_a_question_that_failed_is_read_anew(
    files: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mended file is what the model sees; its agent, whose own file is the same, is not paid again."""
    server.queue("Summary.", fail(500))
    assert run_here(capsys, "run", "a.chatmd").code == 1
    (files / "a.gif").write_bytes(GIF + b"!")
    server.queue("Yes.")
    run(capsys)
    assert len(server.requests) == 3
    content = bodies(server)[2][0]["content"]
    assert content[3]["image_url"]["url"].endswith(base64.b64encode(GIF + b"!").decode())
    assert content[5]["text"] == "Summary."


def test_replay_needs_neither_network_nor_agents(
    files: Path, server: ScriptedServer, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = (files / "a.chatmd").read_text()
    refused = run_here(capsys, "run", "a.chatmd", "--replay")
    assert refused.code == 1
    assert (
        "a.chatmd:1:14: what 'note.md' stood for was not recorded (run it without --replay, and it is)" in refused.err
    )
    assert not web.requests
    server.queue("Summary.", "Yes.")
    run(capsys)
    (files / "a.chatmd").write_text(prompt)
    for name in ("note.md", "a.gif", "sub.chatmd"):
        (files / name).unlink()
    web.answers.clear()
    server.queue("Yes again.")
    run(capsys, "--replay")
    assert bodies(server)[2] == bodies(server)[1]
    assert len(web.paths) == 1


def test_an_inline_agent_from_a_url_says_that_it_gets_no_tools(
    files: Path, server: ScriptedServer, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answer is sent, and the tools that it goes without are named."""
    web.answers["/sub"] = page('<tool name="read_file"/>\n<system>Sum up.</system>', content_type="text/plain")
    (files / "a.chatmd").write_text(f'<user>Well? <agent src="{web.url}/sub">This.</agent></user>\n')
    server.queue("Summary.", "Yes.")
    done = run_here(capsys, "run", "--yes", "a.chatmd")
    assert (done.code, done.out.strip()) == (0, "Yes."), done.err
    assert "an agent from a URL gets no tools" in done.err
    assert "goes without read_file" in done.err
    assert "tools" not in server.requests[0].body


def test_render_prints_what_a_run_sends(
    files: Path, server: ScriptedServer, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the run, with agents asked; after it, from the record; and nothing is written."""
    server.queue("Summary.")
    before = {path.name for path in files.iterdir()}
    first = run_here(capsys, "render", "a.chatmd", "--json", "--run-agents")
    assert first.code == 0, first.err
    assert {path.name for path in files.iterdir()} == before
    server.queue("Summary.", "Yes.")
    run(capsys)
    sent = bodies(server)[-1][0]["content"]
    rendered = json.loads(first.out)
    (message,) = rendered["messages"]
    shown = [part if isinstance(part, str) else "image" for part in message["content"]]
    assert shown == [part.get("text", "image") for part in sent]
    image = message["content"][3]
    assert (image["media_type"], image["data"]) == ("image/gif", base64.b64encode(GIF).decode())
    assert rendered["model"] == "OpenAICompatible/test"
    assert rendered["tokens"] == message["tokens"] > 10
    web.answers.clear()
    again = run_here(capsys, "render", "a.chatmd", "--json", "--replay")
    assert json.loads(again.out)["messages"][0] == message
    assert [one["role"] for one in json.loads(again.out)["messages"]] == ["user", "assistant"]
    assert json.loads(again.out)["notes"] == ["it is the user's turn: lmm run would send nothing"]


def test_render_reads_outside_with_the_same_consent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a run does: whole, and as one transcript."""
    (folder / "sub").mkdir()
    (folder / "notes.txt").write_text("A leaf is green.\n")
    (folder / "sub/a.chatmd").write_text(f'<user><doc src="{folder / "notes.txt"}" local/></user>\n')
    for more in ((), ("--transcript",)):
        refused = run_here(capsys, "render", "sub/a.chatmd", *more)
        assert (refused.code, "which is outside of its folder" in refused.err) == (2, True), refused.err
        assert "A leaf is green." in run_here(capsys, "render", "sub/a.chatmd", "--yes", *more).out


def test_render_says_what_it_did_not_ask(
    files: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_here(capsys, "render", "a.chatmd")
    assert done.code == 0
    assert "\n[the answer of the agent sub.chatmd, which was not asked yet]\n" in done.out
    assert "[GIF, 14 bytes]" in done.out
    assert "'sub.chatmd' was not asked yet (--run-agents asks it)" in done.err
    assert not server.requests
    assert not (files / ".chatmd").exists()


def test_render_counts_calls_results_and_tools(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b.chatmd").write_text(
        '<config model="OpenAI/gpt-4.1"/><tool name="read_file"/><tool name="no_such"/>\n<system>Be brief.</system>\n'
        '<user>Look \x1b[31m</user>\n<tool_call tool_call_id="c1" function_name="read_file">{"path": "a"}</tool_call>\n'
        '<tool_response tool_call_id="c1" status="failed">no such file</tool_response>\n'
    )
    done = run_here(capsys, "render", "b.chatmd")
    assert done.out.splitlines()[:9] == [
        "── system ── 3 tokens",
        "Be brief.",
        "── user ── 7 tokens",
        "Look \\x1b[31m",
        "── assistant ── 9 tokens",
        '[call c1] read_file {"path": "a"}',
        "── tool ── 3 tokens",
        "[failure of c1] read_file",
        "no such file",
    ]
    assert "read_file" in done.out.splitlines()[-2]
    assert done.out.splitlines()[-1].startswith("── OpenAI/gpt-4.1 ── ")
    assert "there is no built-in tool 'no_such'" in done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["none.chatmd"], 2, "none.chatmd: there is no such file"),
        (["bad.chatmd"], 1, "bad.chatmd:1:1: <user> is never closed"),
        (["doc.chatmd"], 1, "doc.chatmd:1:7: 'no.md': there is no such file"),
        (["doc.chatmd", "--model", "Nobody/x"], 2, "Nobody"),
        (["doc.chatmd", "--json", "--transcript"], 2, "--transcript and --json cannot be used together"),
    ],
)
def test_what_cannot_be_rendered(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.chatmd").write_text("<user>a")
    (folder / "doc.chatmd").write_text("<user><doc src='no.md' local/></user>")
    done = run_here(capsys, "render", *words)
    assert done.code == code
    assert message in done.err


def test_from_python(files: Path, server: ScriptedServer) -> None:
    rendered = chatmd.Chat.open("a.chatmd").render()
    (one,) = rendered.messages
    assert one.message.text == "Right? "
    assert rendered.tokens == one.tokens
    server.queue("Summary.")
    asked = chatmd.Chat.open("a.chatmd").render(run_agents=True)
    assert asked.messages[0].message.content[-1] == "Summary."


def test_a_tool_shows_the_model_an_image(
    files: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loop: the model asks for an image and for a page, and sees both."""
    (files / "c.chatmd").write_text(
        '<tool name="import_image"/><tool name="webpage_to_markdown"/>\n<user>What is on it?</user>\n'
    )
    with WebServer({"/p": page(PAGE)}) as other:
        calls = (
            ("c1", "import_image", '{"path": "a.gif"}'),
            ("c2", "webpage_to_markdown", f'{{"url": "{other.url}/p"}}'),
        )
        server.queue(Action("", calls=calls), "A leaf.")
        done = run_here(capsys, "run", "--yes", "c.chatmd")
    assert done.code == 0, done.err
    second = json.dumps(bodies(server)[1])
    assert base64.b64encode(GIF).decode() in second
    assert "Rate $v_1$" in second
    assert "Home" not in second
