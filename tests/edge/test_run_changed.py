"""A file that others change while it runs: nothing is lost, each message is answered once, and in order."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.conftest import write_config
from fakes.chain_game import conversation
from fakes.openai_server import Action, Recorded, ScriptedServer

import chatmd
from chatmd.errors import InvalidDocument
from chatmd.runtime import turns as module
from lmm.errors import FileReadError

A, B = "<user>A</user>\n", "<user>B</user>\n"
TURN = "\n<user>\n\n</user>\n"


def reply(text: str) -> str:
    """A reply to a text as it stands in a file."""
    return f"\n<assistant>\nRAW|Reply to: {text}|RAW</assistant>\n"


def test_lines_end_as_in_the_file(server: ScriptedServer, folder: Path) -> None:
    """A file from Windows stays one; what the model said keeps its own."""
    path = folder / "a.chatmd"
    begin = "<config show_tool_call/>\r\n<tool name='read_file'/>\r\n<user>A</user>\r\n"
    path.write_bytes(begin.encode())
    (folder / "n.txt").write_bytes(b"one\ntwo")
    call = ("c1", "read_file", '{"path": "n.txt"}')
    server.queue(Action("One\ntwo.", calls=(call,)), Action("Three\nfour.", reasoning="Hm\nhm."))
    chatmd.Chat.open(path).run()
    text = path.read_bytes().decode()
    layout = re.sub(r"RAW\|.*?\|RAW", "", text, flags=re.DOTALL)
    assert text.startswith(begin + "\r\n<assistant>\r\nRAW|One\ntwo.|RAW</assistant>\r\n<tool_call ")
    assert text.endswith("RAW|Three\nfour.|RAW</assistant>\r\n\r\n<user>\r\n\r\n</user>\r\n")
    assert layout.count("\n") == layout.count("\r\n")


@pytest.fixture
def path(folder: Path) -> Path:
    """A file with a question."""
    path = folder / "a.chatmd"
    path.write_text(A)
    return path


def meanwhile(server: ScriptedServer, change: Callable[[], object]) -> None:
    """Do something while the model works on the first request."""

    def answer(request: Recorded) -> str:
        if request.number == 1:
            change()
        return f"Reply to: {request.prompt}"

    server.answer = answer


@pytest.mark.parametrize("begun", [False, True])
def test_a_message_is_appended(server: ScriptedServer, path: Path, begun: bool) -> None:
    """Before the reply begins or in its middle: the reply comes after its question, and the message is answered."""
    if begun:
        hold = threading.Event()
        server.queue(Action("Reply to: A", pieces=("Reply ", "to: A"), hold=hold, hold_after=1))

        def append() -> None:
            server.wait_for(1)
            time.sleep(0.3)
            assert path.read_text() == A  # a reply is written when it is complete
            path.write_text(A + "\n" + B)
            hold.set()

        threading.Thread(target=append).start()
    else:
        meanwhile(server, lambda: path.write_text(A + "\n" + B))
    chatmd.Chat.open(path).run()
    assert path.read_text() == f"{A}{reply('A')}\n{B}{reply('B')}{TURN}"
    assert [conversation(request.body)[-1] for request in server.requests] == [("user", "A"), ("user", "B")]


def test_messages_are_appended_in_every_turn(server: ScriptedServer, path: Path) -> None:
    """An editor that has the file as it is, three times."""

    def answer(request: Recorded) -> str:
        if request.number < 4:
            path.write_text(f"{path.read_text()}\n<user>{request.number}</user>\n")
        return f"Reply to: {request.prompt}"

    server.answer = answer
    chatmd.Chat.open(path).run()
    later = "".join(f"\n<user>{n}</user>\n{reply(str(n))}" for n in (1, 2, 3))
    assert path.read_text() == f"{A}{reply('A')}{later}{TURN}"
    assert len(server.requests) == 4


def test_half_a_tag_is_saved(server: ScriptedServer, path: Path) -> None:
    """Somebody goes on typing: it is waited for, and the reply stays."""

    def type_on() -> None:
        path.write_text(A + "\n<user>B</us")
        threading.Timer(1.0, path.write_text, [A + "\n" + B]).start()

    meanwhile(server, type_on)
    chatmd.Chat.open(path).run()
    assert path.read_text() == f"{A}{reply('A')}\n{B}{reply('B')}{TURN}"
    assert len(server.requests) == 2


def test_half_a_tag_stays(server: ScriptedServer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names its place in the file as it is, and what was paid is there."""
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    meanwhile(server, lambda: path.write_text(A + "\n<usr>B</usr>\n"))
    with pytest.raises(InvalidDocument, match=r"a\.chatmd:6:1: "):
        chatmd.Chat.open(path).run()
    assert path.read_text() == f"{A}{reply('A')}\n<usr>B</usr>\n"
    path.write_text(path.read_text().replace("usr", "user"))
    chatmd.Chat.open(path).run()
    assert path.read_text() == f"{A}{reply('A')}\n{B}{reply('B')}{TURN}"


def test_a_file_is_emptied_and_written(server: ScriptedServer, path: Path) -> None:
    """As many editors save: nothing is written into it before they have."""

    def save() -> None:
        path.write_text("")
        threading.Timer(0.7, path.write_text, [A + "\n" + B]).start()

    meanwhile(server, save)
    chatmd.Chat.open(path).run()
    assert path.read_text() == f"{A}{reply('A')}\n{B}{reply('B')}{TURN}"


def test_a_file_stays_empty(server: ScriptedServer, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked without the question; what was paid is kept, and the next run says where."""
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    meanwhile(server, lambda: path.write_text(""))
    with pytest.raises(FileReadError, match="emptied"):
        chatmd.Chat.open(path).run()
    assert (path.read_text(), len(server.requests)) == ("", 1)
    assert (path.parent / ".chatmd" / "a.aside.chatmd").read_text().startswith(A + reply("A"))


def test_an_earlier_message_is_changed(server: ScriptedServer, folder: Path, path: Path) -> None:
    """While a tool works, by an editor that has the file as it is; the next request has it."""
    write_config(folder, server)
    path.write_text('<config show_tool_call/>\n<tool name="read_file"/>\n' + A)
    (folder / "n.txt").write_text("the note")

    def answer(request: Recorded) -> Action:
        if request.number == 1:
            return Action("I look.", calls=(("c1", "read_file", '{"path": "n.txt"}'),))
        if request.number == 2:
            path.write_text(path.read_text().replace("<user>A<", "<user>A, please<").replace("I look", "I do look"))
            return Action("Good.", calls=(("c2", "read_file", '{"path": "n.txt"}'),))
        return Action("Done.")

    server.answer = answer
    chatmd.Chat.open(path).run()
    assert conversation(server.requests[-1].body)[0] == ("user", "A, please")
    text = path.read_text()
    assert [text.count(part) for part in ("I do look.", "Good.", "Done.", "<tool_response", "<assistant>")] == [
        1, 1, 1, 2, 3,
    ]  # fmt: skip
