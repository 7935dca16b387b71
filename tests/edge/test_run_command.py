"""`lmm run` as people use it: what it prints, how it ends, what Ctrl-C does, who else may run the file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from edge.support import finish, lmm, run_here, start, wait_until
from fakes.openai_server import Action, Recorded, ScriptedServer, fail
from fakes.web_server import WebServer, page

import chatmd
from lmm.cli import console

HI = "<user>Hi</user>\n"


def write(folder: Path, text: str, name: str = "a.chatmd") -> Path:
    """A file to run."""
    path = folder / name
    path.write_text(text)
    return path


def test_what_is_printed(server: ScriptedServer, folder: Path) -> None:
    """What the model says on standard output; calls and the account beside it; control characters as text."""
    write(folder, '<tool name="read_file"/>\n' + HI)
    (folder / "n.txt").write_text("the first line\nthe second")
    server.queue(Action("Let me see.\x1b[31m", calls=(("c1", "read_file", '{"path": "n.txt"}'),)), "A note.")
    done = lmm("run", "a.chatmd")
    assert (done.code, done.out) == (0, "Let me see.\\x1b[31m\nA note.\n")
    assert '→ read_file(path="n.txt")' in done.err
    assert done.err.endswith("a.chatmd: 2 requests, 22 tokens in, 14 out; your turn\n")


def test_exit_codes(server: ScriptedServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when done or nothing is to do, 1 for what fails, 2 for what was asked wrongly."""
    path = write(folder, HI)
    assert run_here(capsys, "run", "missing.chatmd").code == console.FAILED
    assert run_here(capsys, "run", "--budget", "much", "a.chatmd").code == console.USAGE
    assert run_here(capsys, "run", "--ask", "a.chatmd").err.startswith("lmm: --ask needs a terminal")
    assert run_here(capsys, "run", "--model", "Nobody/x", "a.chatmd").code == console.USAGE
    server.queue(fail(400, "no"))
    failed = run_here(capsys, "run", "a.chatmd")
    assert (failed.code, "no" in failed.err, path.read_text()) == (console.FAILED, True, HI)
    assert run_here(capsys, "run", "a.chatmd").code == console.DONE
    again = run_here(capsys, "run", "a.chatmd")
    assert (again.code, again.err) == (console.DONE, "a.chatmd; your turn\n")
    write(folder, "<usr>x</usr>", "b.chatmd")
    assert run_here(capsys, "run", "b.chatmd").err.startswith("lmm: b.chatmd:1:1: this text stands in no element")


def test_ctrl_c_while_the_model_speaks(server: ScriptedServer, folder: Path) -> None:
    """What it said so far stays, the file is valid, and it is the user's turn."""
    path = write(folder, HI)
    server.queue(Action("I begin to speak, and then I", hold=threading.Event(), hold_after=2))
    process = start("run", "a.chatmd")
    wait_until(lambda: "then" in path.read_text() or "speak" in path.read_text())
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, "interrupted" in done.err) == (console.INTERRUPTED, True)
    assert path.read_text().endswith("|RAW</assistant>\n\n<user>\n\n</user>\n")
    assert not chatmd.check(chatmd.parse(path.read_text()))


def test_ctrl_c_before_the_model_speaks(server: ScriptedServer, folder: Path) -> None:
    """Nothing happened, and the next run asks again."""
    path = write(folder, HI)
    server.queue(Action("late", hold=threading.Event()))
    process = start("run", "a.chatmd")
    server.wait_for(1)
    process.send_signal(signal.SIGINT)
    assert finish(process).code == console.INTERRUPTED
    assert path.read_text() == HI


def test_ctrl_c_while_a_tool_works(server: ScriptedServer, folder: Path) -> None:
    """Its process is ended, its result says so, and the next run goes on with that."""
    path = write(folder, '<config show_tool_call/>\n<tool name="wait" command="sleep 60"/>\n' + HI)
    server.queue(Action("", calls=(("c1", "wait", '{"arguments": []}'),)))
    process = start("run", "--yes", "a.chatmd")
    wait_until(lambda: "<tool_call" in path.read_text())
    process.send_signal(signal.SIGINT)
    assert finish(process).code == console.INTERRUPTED
    assert "cancelled this call" in path.read_text()
    assert lmm("run", "--yes", "a.chatmd").code == 0
    assert "cancelled" in server.requests[-1].body["messages"][-1]["content"]


def test_two_at_once(server: ScriptedServer, folder: Path) -> None:
    """The second is told, at once."""
    write(folder, HI)
    hold = threading.Event()
    server.queue(Action("Hello.", hold=hold))
    first = start("run", "a.chatmd")
    server.wait_for(1)
    second = lmm("run", "a.chatmd")
    assert (second.code, "another lmm is working on this document" in second.err) == (1, True)
    hold.set()
    assert finish(first).code == 0


def test_line_by_line(server: ScriptedServer, folder: Path) -> None:
    """With -i, each line is a message; at the end of the input it is over."""
    path = write(folder, "<system>Be brief.</system>\n")
    done = lmm("run", "-i", "a.chatmd", stdin="One </user>\n\nTwo é".encode())
    assert (done.code, done.out) == (0, "Reply to: One </user>\nReply to: Two é\n")
    assert [entry[1] for entry in server.requests[1].messages] == [
        "Be brief.",
        "One </user>",
        "Reply to: One </user>",
        "Two é",
    ]
    assert path.read_text().count("<user>\n\n</user>") == 1


def read_until(terminal: int, text: bytes) -> bytes:
    """What a program writes up to a text."""
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 1000)
    return seen


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are Unix")
def test_in_a_plain_terminal_ctrl_c_cancels_the_turn_only(server: ScriptedServer, folder: Path) -> None:
    """With -i, the conversation goes on; Ctrl-C at the prompt ends it."""
    path = write(folder, "<user>Hi</user>\n")
    server.queue(Action("I begin to speak, and then I", hold=threading.Event(), hold_after=2))
    parent, child = pty.openpty()
    line = [sys.executable, "-m", "lmm", "run", "-i", "a.chatmd"]
    dumb = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(line, stdin=child, stdout=child, stderr=child, start_new_session=True, env=dumb) as process:
        os.close(child)
        read_until(parent, b"speak")
        process.send_signal(signal.SIGINT)
        assert b"cancelled" in read_until(parent, b"> ")
        os.write(parent, b"Go on\n")
        assert b"Reply to: Go on" in read_until(parent, b"\n> ")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == console.INTERRUPTED
    os.close(parent)
    assert not chatmd.check(chatmd.parse(path.read_text()))


def test_output(server: ScriptedServer, folder: Path) -> None:
    """The file stays; the copy means the same wherever it is, and can be gone on with."""
    path = write(folder, '<user>See <doc src="n.txt" local/></user>\n')
    (folder / "n.txt").write_text("the note")
    (folder / "out").mkdir()
    before = path.read_bytes()
    server.answer = lambda request: "seen" if "the note" in str(request.body) else "lost"
    assert lmm("run", "a.chatmd", "--output", "out/b.chatmd").out == "seen\n"
    assert path.read_bytes() == before
    assert '<doc src="../n.txt" local/>' in (folder / "out" / "b.chatmd").read_text()
    again = lmm("run", "a.chatmd", "--output", "out/b.chatmd")
    assert (again.code, "there is such a file already" in again.err) == (1, True)
    (folder / "n.txt").unlink()
    done = lmm("run", "-i", "--root", ".", "out/b.chatmd", stdin=b"More\n")
    assert done.out == "seen\n"


def test_replay(server: ScriptedServer, folder: Path) -> None:
    """What a document was when the model saw it is sent again, though it is gone; what was not recorded is refused."""
    path = write(folder, '<user>See <doc src="n.txt" local/></user>\n')
    (folder / "n.txt").write_text("the note")
    server.answer = lambda request: "seen" if "the note" in str(request.body) else "lost"
    assert lmm("run", "a.chatmd").code == 0
    path.write_text(path.read_text().partition("\n\n<assistant>")[0] + "\n")
    (folder / "n.txt").unlink()
    assert lmm("run", "--replay", "a.chatmd").out == "seen\n"
    write(folder, '<user>See <doc src="m.txt" local/></user>\n', "b.chatmd")
    refused = lmm("run", "--replay", "b.chatmd")
    assert (refused.code, "was not recorded" in refused.err) == (1, True)


def test_keys_are_never_written(server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that prints one, a server that quotes one: it stands in no file and no message."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    write(folder, '<config show_tool_call/>\n<tool name="read_file"/>\n' + HI)
    (folder / "n.txt").write_text("the key is sk-very-secret-key!")
    server.queue(Action("", calls=(("c1", "read_file", '{"path": "n.txt"}'),)), fail(400, "bad key sk-very-secret-key"))
    done = lmm("run", "--model", "OpenAICompatible/test", "a.chatmd")
    assert "the key is …!" in str(server.requests[1].body)
    (folder / "n.txt").unlink()
    kept = "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    assert "sk-very-secret-key" not in kept + done.out + done.err


def test_an_agent_from_a_url(server: ScriptedServer, folder: Path) -> None:
    """It answers without the tools that it declares, and may not read here; allowed to, it gets its tools."""
    helper = b'<tool name="read_file"/><system>You help.</system>'
    thief = b'<user><doc src="n.txt" local/></user>'
    with WebServer({"/helper.chatmd": page(helper, "text/plain"), "/thief.chatmd": page(thief, "text/plain")}) as web:
        (folder / "config.toml").write_text((folder / "config.toml").read_text() + "[chatmd]\nprivate_network = true\n")
        server.answer = _tools
        write(folder, f'<user><agent src="{web.url}/helper.chatmd">Help!</agent></user>')
        done = lmm("run", "a.chatmd")
        assert (done.code, "seen: none" in str(server.requests[-1].body)) == (0, True)
        write(folder, f'<user><agent src="{web.url}/thief.chatmd"/></user>')
        done = lmm("run", "a.chatmd")
        assert (done.code, "may not read 'n.txt' on this machine" in done.err) == (1, True)


def _tools(request: Recorded) -> str:
    tools = ", ".join(tool["function"]["name"] for tool in request.body.get("tools", ()))
    return f"seen: {tools or 'none'}"
