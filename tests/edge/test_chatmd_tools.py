"""`lmm tools`, and questions about tools on a terminal: the real command, a real (pseudo) terminal."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.support import PATIENCE, lmm
from fakes.forked import python

from chatmd.tools import registry

PROMPT = """\
<tool name="search" command="cat -n" description="Find lines."/>
<tool name="read_file"/>
<tool mcp_server="stdio:no-such-server" includes="a, b"/>
<user>Go.</user>
"""


@pytest.fixture
def prompt(folder: Path) -> Path:
    path = folder / "p.chatmd"
    path.write_text(PROMPT)
    return path


def test_for_people(prompt: Path) -> None:
    done = lmm("tools", prompt)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "search  command: runs cat -n"
    assert lines[1].startswith("  Find lines. Runs `cat -n` with your arguments after it")
    assert (
        "    stdin      string, optional          What the program reads from its standard input; nothing by default."
        in lines
    )
    assert f"read_file  built in: reads files in {prompt.parent}" in lines
    assert "(mcp)  MCP server: starts the MCP server no-such-server for a and b" in lines
    assert "  its tools are listed with --servers" in lines
    assert lines[-1] == "lmm run asks you to agree to these tools, before the first run."


def test_for_programs(prompt: Path) -> None:
    """Exactly what models get, a line each."""
    search, read_file, server = map(json.loads, lmm("tools", "--json", prompt).out.splitlines())
    assert search["name"] == "search"
    assert search["parameters"]["properties"]["arguments"]["items"] == {"type": "string"}
    assert (search["kind"], search["powers"], search["asks"]) == ("command", ["process"], True)
    assert search["where"] == f"{prompt}:1:1"
    assert (read_file["powers"], read_file["asks"], read_file["strict"]) == (["read"], False, False)
    assert (server["kind"], server["opened"]) == ("mcp", False)


def test_servers_are_started_only_with_consent(prompt: Path) -> None:
    refused = lmm("tools", "--servers", prompt)
    assert (refused.code, refused.out) == (2, "")
    assert "starts the MCP server no-such-server for a and b (run it in a terminal" in refused.err
    agreed = lmm("tools", "--servers", "--yes", prompt)
    assert agreed.code == 1
    assert "  not usable: " in agreed.out


def test_a_tool_that_cannot_be_used_does_not_hide_the_others(folder: Path) -> None:
    text = '<tool name="no-such" command="no-such-program"/><tool name="fork"/><tool name="read_file"/>'
    (folder / "p.md").write_text(text)
    done = lmm("tools", "p.md")
    assert done.code == 1
    assert "not usable: p.md:1:1: there is no program 'no-such-program' on the PATH" in done.out
    said = " ".join(done.out.split())
    assert "not usable: p.md:1:49: ochat's tool 'fork' is not available here (let an agent of its own" in said
    assert "read_file  built in: " in done.out
    (folder / "none.md").write_text("<user>Hello</user>")
    assert lmm("tools", "none.md").out == "none.md: no tools\n"


def test_agents_whose_files_are_missing_or_wrong_are_not_usable(folder: Path) -> None:
    (folder / "torn.chatmd").write_text("<user>")
    (folder / "good.chatmd").write_text("<system>Be brief.</system>")
    tools = "".join(f'<tool name="{name}" agent="{name}.chatmd" local/>' for name in ("none", "torn", "good"))
    (folder / "p.md").write_text(tools)
    done = lmm("tools", "p.md")
    assert done.code == 1
    none, torn, good = done.out.strip().split("\n\n")
    assert "not usable: 'none.chatmd': there is no such file" in none
    assert "not usable: " in torn
    assert "torn.chatmd:1:1: <user> is never closed" in torn
    assert "not usable" not in good


def test_files_that_may_hold_keys_are_listed(folder: Path) -> None:
    """No tool, but asked about all the same."""
    (folder / "p.md").write_text('<user><doc src=".env" local/></user>')
    assert lmm("tools", "p.md").out == (
        "<doc>  sends the file .env, which may contain keys, to the model\n"
        "lmm run asks you to agree to this, before the first run.\n"
    )


@pytest.mark.parametrize("name", registry.ELSEWHERE)
def test_tools_that_we_do_not_have_say_what_to_use(name: str, folder: Path) -> None:
    (folder / "p.md").write_text(f'<tool name="{name}"/>')
    assert registry.ELSEWHERE[name] in " ".join(lmm("tools", "p.md").out.split())


def test_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    (folder / "p.md").write_text('<tool name="x" command="cat \x1b[2J" description="\x1b]0;title\x07"/>')
    done = lmm("tools", "p.md")
    assert "\x1b" not in done.out + done.err


# -- on a terminal -----------------------------------------------------------------------------------------

pty = pytest.importorskip("pty", reason="needs POSIX terminals")


class Terminal:
    """A process on a terminal of its own: what it shows, and what is typed."""

    def __init__(self, *words: str) -> None:
        self.descriptor, its = pty.openpty()
        self.process = python(*words, stdin=its, stdout=its, stderr=its)
        os.close(its)
        self.shown = ""

    def until(self, text: str) -> str:
        """All that is shown up to and with `text`, from where the last call ended."""
        while text not in self.shown:
            ready, _, _ = select.select([self.descriptor], [], [], PATIENCE)
            assert ready, self.shown
            self._read()
        seen, _, self.shown = self.shown.partition(text)
        return seen + text

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def ended(self) -> tuple[str, int]:
        """The rest of what is shown, and the exit code."""
        with contextlib.suppress(OSError):  # Linux tells of the end in this way
            while self._read():
                pass
        return self.shown, self.process.wait(PATIENCE)

    def _read(self) -> bool:
        data = os.read(self.descriptor, 65536)
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@contextlib.contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """A process on a terminal, which does not outlive this."""
    opened = Terminal(*words)
    try:
        yield opened
    finally:
        os.close(opened.descriptor)
        opened.process.kill()
        opened.process.wait()


def test_consent_is_asked_for_and_kept(prompt: Path) -> None:
    with terminal("-m", "lmm", "tools", "--servers", str(prompt)) as one:
        question = one.until("[y/N] ")
        assert "its tools can do more than read in its folder:\n  search     runs cat -n\n" in question
        one.type("\n")
        shown, code = one.ended()
        assert "not run: you did not agree to its tools" in shown
        assert code == 2
    with terminal("-m", "lmm", "tools", "--servers", str(prompt)) as one:
        one.until("[y/N] ")
        one.type("y\n")
        assert "You agreed" not in one.ended()[0]  # the server does not exist
    assert "no-such-server" in lmm("tools", "--servers", prompt).out
    assert "asks you to agree" not in lmm("tools", prompt).out


APPROVING = """
import asyncio
from chatmd.call_texts import approve_on_terminal
from chatmd.errors import StoppedByUser
from lmm import loop
from lmm.messages import ToolCall

async def go():
    approve = approve_on_terminal()
    for number, (name, text) in enumerate([("sh", '{"arguments": ["-c", "id"], "stdin": "a\\\\nb"}')] * 2
                                          + [("cat", "{}")] * 3 + [("rm", "no \\x1b[2J json")]):
        try:
            print(f"<{await approve(ToolCall(str(number), name, text))}>")
        except StoppedByUser as stopped:
            print(f"<{stopped}>")

loop.run(go())
"""


def test_calls_are_shown_and_asked_about() -> None:
    with terminal("-c", APPROVING) as one:
        shown = one.until("[y/n/a/q] ")
        assert "sh" in shown
        assert '\n  arguments: ["-c", "id"]\n  stdin:\n    a\n    b\n' in shown
        one.type("what?\n")
        one.until("[y/n/a/q] ")
        one.type("y\n")
        one.until("<True>")
        one.until("[y/n/a/q] ")
        one.type("n not as root\n")
        one.until("<The user refused this call: not as root>")
        one.until("[y/n/a/q] ")
        one.type("No\n")
        one.until("<False>")
        one.until("[y/n/a/q] ")
        one.type("a\n")
        one.until("<True>")
        assert "[y/n/a/q]" not in one.until("<True>")
        assert "  no \\x1b[2J json" in one.until("[y/n/a/q] ")
        one.type("q\n")
        one.until("<stopped, as requested>")
        assert one.ended()[1] == 0


def test_a_question_can_be_interrupted() -> None:
    """Ctrl-C ends the process at once: no thread goes on waiting for a line."""
    with terminal("-c", APPROVING) as one:
        one.until("[y/n/a/q] ")
        one.process.send_signal(signal.SIGINT)
        shown, code = one.ended()
        assert "KeyboardInterrupt" in shown
        assert code != 0
