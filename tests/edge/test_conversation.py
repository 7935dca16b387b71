"""`lmm run -i` in a real terminal, against a scripted server: what one sees, and what is in the file."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import lmm
from fakes.openai_server import Action, Recorded, ScriptedServer, fail
from fakes.terminal import Terminal

import chatmd

if os.name == "nt":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

PROMPT = "<system>Be brief.</system>\n"
TOOLS = '<tool name="sleep" command="sleep" timeout="60"/>\n<tool name="echo" command="echo"/>\n'
WAITS = """<tool name="sleep" command="sh -c 'echo $$ > {folder}/pid; exec sleep 60'"/>\n"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415478da63f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)
ENTER_KEY = "/help"  # the hint when it is the user's turn


@pytest.fixture
def chat(folder: Path) -> Path:
    """A file to converse with."""
    path = folder / "chat.chatmd"
    path.write_text(PROMPT)
    return path


@pytest.fixture
def terminal(server: ScriptedServer, chat: Path) -> Iterator[Terminal]:
    """A conversation that waits for the user."""
    with Terminal("run", "-i", chat.name) as opened:
        opened.wait_for(ENTER_KEY)
        yield opened


def sent(request: Recorded) -> list[tuple[str, str]]:
    """Role and text of each message; parts of several are joined."""
    found = []
    for message in request.body["messages"]:
        content = message["content"]
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        found.append((message["role"], "".join(part.get("text", "") for part in parts)))
    return found


def check_valid(path: Path) -> None:
    """The file can be gone on with."""
    document = chatmd.parse(path.read_text())
    assert not [problem for problem in chatmd.check(document) if problem.severity == "error"]
    assert not chatmd.read_agent(document).unanswered()


def test_a_file_that_is_not_there_is_begun(server: ScriptedServer, folder: Path) -> None:
    """A conversation needs no file that somebody prepared; a run without one does, and makes none."""
    server.queue("Green.")
    with Terminal("run", "-i", "new.chatmd") as opened:
        opened.wait_for("new.chatmd: a new conversation", ENTER_KEY)
        opened.enter("What colour?")
        opened.wait_for("Green.", ENTER_KEY)
    check_valid(folder / "new.chatmd")
    assert sent(server.requests[0]) == [("user", "What colour?")]
    assert "create one with -i" in lmm("run", "none.chatmd").err
    assert not (folder / "none.chatmd").exists()


def test_ask_and_leave(terminal: Terminal, server: ScriptedServer, chat: Path, state_folder: Path) -> None:
    """Question and answer stay on the screen and in the file; the history is for the user alone."""
    server.queue(Action("It is **green**, `mostly`.", usage=(1200, 34)))
    terminal.enter("What colour?")
    seen = terminal.wait_for("› What colour?", "It is green, mostly.", "1,200 tokens in, 34 out")
    assert "**" not in seen
    terminal.type("\x04")
    assert terminal.wait_for_end() == 0
    assert "1 request, 1,200 tokens in" in terminal.text
    assert chatmd.read_agent(chatmd.parse(chat.read_text())).waits_for_user
    assert "<user>What colour?</user>" in chat.read_text()
    history = state_folder / "conversations.txt"
    assert history.read_text().endswith("\n+What colour?\n")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_earlier_messages(server: ScriptedServer, chat: Path) -> None:
    """Up brings back what was typed in another conversation; a space before it keeps a message out."""
    with Terminal("run", "-i", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("first thing")
        terminal.wait_for("Reply to: first thing", ENTER_KEY)
        terminal.enter(" secret")
        terminal.wait_for("Reply to:  secret", ENTER_KEY)
        terminal.type("\x04")
        terminal.wait_for_end()
    with Terminal("run", "-i", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.type("\x1b[A")
        terminal.wait_for("› first thing")


def test_a_reply_arrives(terminal: Terminal, server: ScriptedServer) -> None:
    """A reply longer than the screen is seen as it comes, and each line of it once when it is there."""
    code = "\n".join(f"line_{n} = {n}" for n in range(60))
    text = f"# Title\n\nSome words.\n\n```python\n{code}\n```\n\n1. one\n2. two\n\nThe end.\n"
    server.answer = lambda request: Action(text, pieces=tuple(text[i : i + 7] for i in range(0, len(text), 7)))
    terminal.enter("go")
    seen = terminal.wait_for("The end.", "tokens in")
    lines = [line.strip() for line in seen.split("\n")]
    for expected in ["Title", "Some words.", *(f"line_{n} = {n}" for n in range(60)), "1 one", "2 two", "The end."]:
        assert lines.count(expected) == 1, expected
    assert lines.index("Title") < lines.index("line_0 = 0") < lines.index("line_59 = 59") < lines.index("The end.")


def test_no_colour(server: ScriptedServer, chat: Path) -> None:
    """NO_COLOR is heeded, by the prompt too."""
    server.queue("```python\ndef f(): return 'x'\n```\n\n- [a](http://b.c)")
    with Terminal("run", "-i", chat.name, NO_COLOR="1") as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("code")
        terminal.wait_for("def f(): return 'x'", "a (http://b.c)", "tokens in")
        assert not [code for code in (b"\x1b[3", b"\x1b[1;3", b";3") if b"%b1m" % code in terminal.raw]
        assert b"\x1b[36m" not in terminal.raw


def test_cancel(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """Ctrl-C ends the turn and keeps what was said; the conversation goes on. Twice at the prompt leaves."""
    server.queue(Action("So far so good. More follows.", hold=(hold := _event()), hold_after=1))
    terminal.enter("talk")
    terminal.wait_for("So far so")
    terminal.type("\x03")
    terminal.wait_for("cancelled", ENTER_KEY)
    hold.set()
    check_valid(chat)
    assert "So far so" in chat.read_text()
    terminal.enter("again")
    terminal.wait_for("Reply to: again", ENTER_KEY)
    terminal.type("half a thought\x03")
    terminal.wait_for("›", gone=["half a thought"])
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again leaves")
    terminal.type("\x03")
    assert terminal.wait_for_end() == 0


def _event() -> threading.Event:
    return threading.Event()


def test_an_interrupt_that_is_a_signal(terminal: Terminal, server: ScriptedServer) -> None:
    """It is Ctrl-C: it cancels the turn, and at the prompt, twice leaves."""
    server.queue(Action("So far so good. More follows.", hold=_event(), hold_after=1))
    terminal.enter("talk")
    terminal.wait_for("So far so")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("cancelled", ENTER_KEY)
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.wait_for_end() == 0


def test_an_interrupt_in_an_editor_is_the_editors(server: ScriptedServer, chat: Path, folder: Path) -> None:
    """It does not end the conversation behind the editor's back."""
    editor = folder / "editor"
    editor.write_text("#!/bin/sh\ntrap '' INT\nfor n in 1 2 3; do kill -INT 0; sleep 0.3; done\necho edited > $1\n")
    editor.chmod(0o755)
    with Terminal("run", "-i", chat.name, EDITOR=str(editor), VISUAL="") as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.type("draft\x18\x05")
        terminal.wait_for("› edited")
        terminal.type("\r")
        terminal.wait_for("Reply to: edited", ENTER_KEY)


def test_a_tool_is_watched_and_steered(server: ScriptedServer, chat: Path) -> None:
    """Each call has a line while it runs and one when it is done; a note reaches the model with the result."""
    chat.write_text(TOOLS + PROMPT)
    calls = (("c1", "sleep", '{"arguments": ["1.5"]}'), ("c2", "echo", '{"arguments": ["hi"]}'))
    server.queue(Action("Let me see.", calls=calls), "Done, in German.")
    with Terminal("run", "-i", "--yes", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("look")
        terminal.wait_for("Let me see.", '● sleep(arguments=["1.5"])')
        terminal.enter("in German please")
        terminal.wait_for("› in German please (waits)")
        seen = terminal.wait_for("Done, in German.", "(with the result above)", ENTER_KEY)
        assert "✓ sleep" in seen.partition("(with the result above)")[0]
        assert '✓ echo(arguments=["hi"])' in seen
        assert "(waits)" not in seen
        assert "●" not in seen
    (request,) = [request for request in server.requests if request.number == 2]
    results = [text for role, text in sent(request) if role == "tool"]
    assert len(results) == 2
    note = "This is a note from the user:\nin German please"
    assert results[-1].endswith(f"<system-reminder>\n{note}\n</system-reminder>")
    check_valid(chat)


def test_a_note_without_a_tool_is_the_next_message(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """What is typed while the model speaks its last words is answered."""
    server.queue(Action("One two three four.", hold=(hold := _event()), hold_after=1))
    terminal.enter("count")
    terminal.wait_for("One two")
    terminal.enter("and five?")
    terminal.wait_for("(waits)")
    hold.set()
    terminal.wait_for("Reply to: and five?", ENTER_KEY, gone=["(waits)"])
    assert sent(server.requests[-1])[-1] == ("user", "and five?")


def test_a_note_of_a_cancelled_turn_is_a_draft(terminal: Terminal, server: ScriptedServer) -> None:
    """What the model did not get comes back into the prompt."""
    server.queue(Action("One two three four.", hold=_event(), hold_after=1))
    terminal.enter("count")
    terminal.wait_for("One two")
    terminal.enter("no, stop")
    terminal.wait_for("(waits)")
    terminal.type("\x03")
    terminal.wait_for("cancelled", "› no, stop", gone=["(waits)"])
    assert len(server.requests) == 1


def test_what_is_said_while_the_tools_are_opened_waits_in_the_file(chat: Path, server: ScriptedServer) -> None:
    """Leaving before the model was asked loses nothing."""
    chat.write_text(f"<tool mcp_server='stdio:sleep 60' timeout='60'/>\n{PROMPT}")
    with Terminal("run", "-i", "--yes", chat.name) as terminal:
        terminal.wait_for("opening the tools")
        terminal.enter("What colour?")
        terminal.wait_for("What colour? (waits)")
        terminal.type("\x04")
        assert terminal.wait_for_end() == 0
    assert chat.read_text().endswith("<user>What colour?</user>\n")
    check_valid(chat)


def test_edit_the_last_message(terminal: Terminal, server: ScriptedServer, chat: Path, folder: Path) -> None:
    """/edit takes it back into the prompt, and the model never hears of what is cut off; that is kept."""
    for text in ("first", "secnd"):
        terminal.enter(text)
        terminal.wait_for(f"Reply to: {text}", ENTER_KEY)
    before = chat.read_text()
    terminal.enter("/edit")
    terminal.wait_for("taken back; the original is kept in .chatmd/chat.")
    (kept,) = (folder / ".chatmd").glob("chat.*.chatmd")
    assert kept.read_text() == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    terminal.wait_until(lambda seen: "› secnd" in seen.partition("taken back")[2])  # it stands further up, too
    terminal.type("\x7f" * 2 + "ond\r")
    terminal.wait_for("Reply to: second", ENTER_KEY)
    assert sent(server.requests[-1]) == [
        ("system", "Be brief."), ("user", "first"), ("assistant", "Reply to: first"), ("user", "second"),
    ]  # fmt: skip
    assert "secnd" not in chat.read_text()
    check_valid(chat)


def test_undo(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """/undo takes the last exchange away."""
    terminal.enter("first")
    terminal.wait_for("Reply to: first", ENTER_KEY)
    terminal.enter("/undo")
    terminal.wait_for("taken back", ENTER_KEY)
    assert chat.read_text() == f"{PROMPT}\n<user>\n\n</user>\n"
    terminal.enter("/undo")
    terminal.wait_for("there is no message of yours")


def test_paste_and_new_lines(terminal: Terminal, server: ScriptedServer) -> None:
    """What is pasted is one message, marked by the terminal or not; Alt-Enter and Ctrl-J are new lines."""
    terminal.paste("one\rtwo\rthree")
    terminal.wait_for("  three")
    assert not server.requests
    terminal.type("\x1b\rfour\nfive")
    terminal.wait_for("  five")
    terminal.type("\r")
    server.wait_for(1)
    assert sent(server.requests[0])[-1] == ("user", "one\ntwo\nthree\nfour\nfive")
    terminal.wait_for("tokens in", ENTER_KEY)
    terminal.type("six\rseven\reight")
    terminal.wait_for("  eight")
    terminal.type("\r")
    server.wait_for(2)
    assert sent(server.requests[1])[-1] == ("user", "six\nseven\neight")


def test_a_file_is_sent_along(terminal: Terminal, server: ScriptedServer, folder: Path, chat: Path) -> None:
    """After @ names are completed, and what the file holds is sent, as a <doc/>; none from outside."""
    (folder / "notes.md").write_text("Leaves are green.")
    (folder.parent / "outside.md").write_text("no")
    server.queue("Yes.")
    terminal.type("Is @no")
    terminal.wait_for(" notes.md")
    terminal.type("\t")
    terminal.wait_for("Is @notes.md")
    terminal.type(" right?\r")
    terminal.wait_for("Is @notes.md right? [notes.md]", "tokens in")
    assert sent(server.requests[0])[-1] == ("user", "Is @notes.md right?\n\nnotes.md:\nLeaves are green.")
    assert '<doc src="notes.md" local/>' in chat.read_text()
    terminal.wait_for(ENTER_KEY)
    terminal.enter("and @../outside.md")
    terminal.wait_for("'../outside.md' is outside of")
    assert len(server.requests) == 1
    terminal.type("\x03")
    terminal.enter("/edit")
    terminal.wait_for("taken back", "› Is @notes.md right?")


def test_what_an_editor_does_counts(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """A file that is changed while the prompt waits is read anew: what was removed is not sent again."""
    terminal.enter("first")
    terminal.wait_for("Reply to: first", ENTER_KEY)
    changed = '<config temperature="0.5"/>\n<system>Be long.</system>\n\n<user>\nFrom outside.\n</user>\n'
    chat.write_text(changed)
    terminal.wait_for("the file was changed, and is read again", "Enter continues")
    assert chat.read_text() == changed
    assert len(server.requests) == 1
    terminal.type("\r")
    terminal.wait_for("Reply to:", "From outside.", ENTER_KEY)
    assert sent(server.requests[1]) == [("system", "Be long."), ("user", "\nFrom outside.\n")]
    assert server.requests[1].body["temperature"] == 0.5


def test_a_touch_is_no_change(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """A file whose time alone is another is not read again."""
    chat.touch()
    time.sleep(0.6)
    terminal.enter("first")
    seen = terminal.wait_for("Reply to: first", ENTER_KEY)
    assert "was changed" not in seen


def test_a_running_program_is_watched(server: ScriptedServer, chat: Path) -> None:
    """The last line that it printed stands beside its call."""
    chat.write_text("""<tool name="slow" command="sh -c 'echo one; echo two; sleep 1.5'"/>\n""" + PROMPT)
    server.queue(Action("", calls=(("c1", "slow", "{}"),)), "Done.")
    with Terminal("run", "-i", "--yes", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("go")
        terminal.wait_until(lambda seen: re.search(r"● slow\(\) \d\.\d s: two\n", seen) is not None)
        terminal.wait_for("✓ slow()", "Done.")


def test_what_a_tool_changes_is_shown(server: ScriptedServer, chat: Path, folder: Path) -> None:
    """Below the call, as the lines of a patch, whatever tool changed the file; a call that failed changed nothing."""
    (folder / "a.py").write_text("def f():\n    return 1\n")
    chat.write_text('<tool name="apply_patch"/>\n<tool name="find_and_replace"/>\n<tool name="write_file"/>\n' + PROMPT)
    lines = "*** Begin Patch\n*** Update File: a.py\n@@\n def f():\n-    return 1\n+    return 2\n*** End Patch"
    replaced = {"path": "a.py", "find": "def f():\n    return 2", "replace": "def f():\n    return 3"}
    written = {"path": "b.py", "content": "".join(f"x{n} = {n}\n" for n in range(50))}
    refused = {"path": "b.py", "content": "not this"}
    calls = (
        ("apply_patch", {"patch": lines}),
        ("find_and_replace", replaced),
        ("write_file", written),
        ("write_file", refused),
    )
    server.queue(
        Action("", calls=tuple((f"c{n}", name, json.dumps(given)) for n, (name, given) in enumerate(calls))), "Done."
    )
    with Terminal("run", "-i", "--yes", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("go")
        seen = terminal.wait_for("Done.", ENTER_KEY)
    assert "  *** Update File: a.py\n  @@\n   def f():\n  -    return 1\n  +    return 2\n✓ find_and_replace" in seen
    assert "  *** a.py\n   def f():\n  -    return 2\n  +    return 3\n✓ write_file" in seen
    assert "  *** b.py\n  +x0 = 0\n" in seen
    assert "  +x38 = 38\n  … 11 more lines\n✗ write_file" in seen
    assert "+not this" not in seen


def test_a_file_that_is_broken_meanwhile(terminal: Terminal, server: ScriptedServer, chat: Path) -> None:
    """Its error is told, and once it is mended the conversation goes on."""
    text = chat.read_text()
    chat.write_text(text + "<system>")
    terminal.wait_for("<system> is never closed")
    chat.write_text(text)
    terminal.wait_for(ENTER_KEY, gone=["Enter tries again"])
    terminal.enter("still there?")
    terminal.wait_for("Reply to: still there?")


def test_errors_and_limits_do_not_end_it(server: ScriptedServer, chat: Path) -> None:
    """They are told; an empty message tries again; /budget allows more."""
    server.queue(fail(400, "not today"))
    with Terminal("run", "-i", "--budget", "15", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("hello")
        terminal.wait_for("not today", "Enter continues")
        terminal.type("\r")
        terminal.wait_for("is exceeded by 3 tokens", "Reply to: hello", ENTER_KEY)
        terminal.enter("more")
        terminal.wait_for("the budget of 15 tokens (18 spent) does not cover", "Enter continues")
        terminal.enter("/budget 100")
        terminal.wait_for("100 more from now on")
        terminal.type("\r")
        terminal.wait_for("Reply to: more", ENTER_KEY)
    check_valid(chat)


def test_asked_about_calls(server: ScriptedServer, chat: Path) -> None:
    """--ask: what was being typed is no answer, and is there again afterwards; a refusal says why."""
    chat.write_text(TOOLS + PROMPT)
    call = ("c1", "echo", '{"arguments": ["a\\nb"]}')
    server.queue(Action(calls=(call,), hold=(hold := _event())), Action(calls=(call,)), "Well then.")
    with Terminal("run", "-i", "--yes", "--ask", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("do it")
        server.wait_for(1)
        terminal.type("y but")
        terminal.wait_for("› y but")
        hold.set()
        terminal.wait_for("Make this call?", "y/n/a/q ›", gone=["y but"])
        terminal.enter("sure")
        terminal.wait_for("'sure' is not an answer")
        terminal.enter("n not that")
        terminal.wait_for("✗ echo", "The user refused this call: not that")
        terminal.wait_until(lambda seen: seen.count("Make this call?") == 2 and "y/n/a/q ›" in seen)
        terminal.enter("y")
        terminal.wait_for("✓ echo", "Well then.", "› y but", gone=["y/n/a/q ›"])
    assert "not that" in sent(server.requests[1])[-1][1]


def test_the_window_changes(terminal: Terminal, server: ScriptedServer) -> None:
    """What comes after a resize fits, and nothing of it is lost."""
    words = " ".join(f"word{n}" for n in range(60))
    server.queue(Action(f"{words}\n\nThe end.", hold=(hold := _event()), hold_after=5))
    terminal.enter("go")
    terminal.wait_for("word0")
    terminal.resize(40, 12)
    hold.set()
    seen = terminal.wait_for("The end.", "tokens in")
    after = seen[seen.rindex("word0 ") :]
    assert after.split()[:60] == words.split()
    assert max(map(len, after.split("\n"))) <= 40


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "window"])
def test_a_signal_leaves_nothing_behind(server: ScriptedServer, chat: Path, folder: Path, how: str) -> None:
    """The file is whole, and the program that a tool started has ended."""
    chat.write_text(WAITS.format(folder=folder) + PROMPT)
    server.queue(Action(calls=(("c1", "sleep", '{"arguments": []}'),)))
    with Terminal("run", "-i", "--yes", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("wait")
        terminal.wait_for("● sleep")
        pid = _read_pid(folder / "pid")
        if how == "window":
            terminal.hang_up()
        else:
            terminal.process.send_signal(getattr(signal, how))
        assert terminal.wait_for_end() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    check_valid(chat)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_without_a_conversation(server: ScriptedServer, chat: Path, folder: Path, how: signal.Signals) -> None:
    """`lmm run` is ended by them as by Ctrl-C."""
    chat.write_text(f"{WAITS.format(folder=folder)}{PROMPT}<user>Wait.</user>\n")
    server.queue(Action(calls=(("c1", "sleep", '{"arguments": []}'),)))
    with Terminal("run", "--yes", chat.name) as terminal:
        pid = _read_pid(folder / "pid")
        terminal.process.send_signal(how)
        assert terminal.wait_for_end() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    check_valid(chat)


def _read_pid(path: Path) -> int:
    end = time.monotonic() + 20
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return int(path.read_text())


def test_compact(server: ScriptedServer, chat: Path, folder: Path) -> None:
    """/compact: the aux model's summary stands for the older part, and the conversation goes on with it."""
    config = folder / "config.toml"
    config.write_text(config.read_text() + "[aux]\n" + config.read_text().partition("\n")[2])
    words = "Leaves make sugar out of water, air and light, and fall in autumn. " * 30
    turns = "".join(f"<user>Question {n}?</user>\n<assistant>{words}</assistant>\n" for n in range(6))
    chat.write_text(f"{PROMPT}{turns}<user>\n\n</user>\n")
    server.answer = lambda request: "## Goal\nLeaves." if "summary" in str(request.body["messages"][0]) else "Yes."
    with Terminal("run", "-i", chat.name) as terminal:
        terminal.wait_for(ENTER_KEY)
        terminal.enter("/compact")
        terminal.wait_for("tokens became", ".chatmd/chat.", ENTER_KEY)
        terminal.enter("still?")
        terminal.wait_for("Yes.", "tokens in")
    texts = [text for _, text in sent(server.requests[-1])]
    assert "## Goal" in "".join(texts)
    assert not any("Question 0?" in text for text in texts[2:])


def test_a_long_paste_is_one_line(terminal: Terminal, server: ScriptedServer) -> None:
    """It is sent whole, and shown as one line; two are told apart, and what is deleted is not sent."""
    long, other = ("\n".join(f"{word} {n}" for n in range(120)) for word in ("leaf", "root"))
    terminal.paste(long)
    terminal.wait_for("[pasted 120 lines]")
    terminal.paste(other)
    terminal.wait_for("[pasted 120 lines, 2]")
    terminal.type("\x7f" * len("[pasted 120 lines, 2]") + " what is it?\r")
    seen = terminal.wait_for("› [pasted 120 lines] what is it?", "tokens in")
    assert "leaf 60" not in seen.partition("Reply to")[0]
    assert sent(server.requests[0])[-1] == ("user", f"{long} what is it?")


def test_what_a_shell_prints_is_offered(server: ScriptedServer, chat: Path, folder: Path) -> None:
    """!command is agreed to once as a tool is, gets no key, and its output is sent if it is not deleted."""
    with Terminal("run", "-i", chat.name, columns=200) as terminal:  # for the path of the folder, on a line
        terminal.wait_for(ENTER_KEY)
        terminal.enter("!echo one; echo key=$OPENAI_API_KEY; pwd")
        terminal.wait_for("!  runs sh -c", "y/N ›")
        terminal.enter("y")
        terminal.wait_for("key=\n", str(folder.resolve()), "› [!echo one;")
        terminal.type("right?\r")
        terminal.wait_for("tokens in", ENTER_KEY)
        said = sent(server.requests[0])[-1][1]
        assert said.startswith("$ echo one; echo key=$OPENAI_API_KEY; pwd\nexit code 0\n\nstdout:\none\nkey=\n")
        assert said.endswith("\n right?")
        terminal.enter("!exit 3")
        terminal.wait_for("exit code 3", "› [!exit 3]")
        terminal.type("\x15no output")
        terminal.wait_for("› no output")
        terminal.type("\r")
        terminal.wait_for("Reply to: no output", ENTER_KEY)
        assert sent(server.requests[1])[-1] == ("user", "no output")
        terminal.enter("!echo $$ > pid; exec sleep 60")
        pid = _read_pid(folder / "pid")
        terminal.type("\x03")
        terminal.wait_for("cancelled")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_go_on_with_a_conversation(server: ScriptedServer, chat: Path, folder: Path) -> None:
    """The latest ones are listed with their last exchange, and it is shown when one goes on."""
    for name, said in (("one.chatmd", "What colour?"), ("two.chatmd", "What shape?")):
        with Terminal("run", "-i", name) as terminal:
            terminal.wait_for(ENTER_KEY)
            terminal.enter(said)
            terminal.wait_for(f"Reply to: {said}", ENTER_KEY)
    with Terminal("run", "-i") as terminal:
        terminal.wait_for("1  two.chatmd", "What shape? → Reply to: What shape?", "2  one.chatmd", "What colour?")
        terminal.enter("2")
        terminal.wait_for("› What colour?", "Reply to: What colour?", ENTER_KEY)
        terminal.enter("And now?")
        terminal.wait_for("Reply to: And now?", ENTER_KEY)
    assert sent(server.requests[-1])[0] == ("user", "What colour?")


def test_what_is_no_command(terminal: Terminal, server: ScriptedServer) -> None:
    """It is told, and not left in the line for the next one to be added to; a path is a message."""
    for wrong, told in (("/nosuch", "there is no command /nosuch"), ("/undo it", "/undo takes no argument")):
        terminal.enter(wrong)
        terminal.wait_for(told, "› /help")
    terminal.enter("/etc/passwd is a file")
    terminal.wait_for("Reply to: /etc/passwd is a file", ENTER_KEY)
    assert sent(server.requests[0])[-1] == ("user", "/etc/passwd is a file")


def test_retry_and_fork(terminal: Terminal, server: ScriptedServer, chat: Path, folder: Path) -> None:
    """The reply is made anew; another way is gone in a file of its own, the message in the prompt."""
    server.queue("Green.", "Round.", "Oval.", "Red.")
    terminal.enter("Colour?")
    terminal.wait_for("Green.", ENTER_KEY)
    terminal.enter("Shape?")
    terminal.wait_for("Round.", ENTER_KEY)
    terminal.enter("/retry")
    terminal.wait_for("Oval.", ENTER_KEY)
    whole = chat.read_text()
    assert whole.count("Shape?") == 1
    assert "Round." not in whole
    terminal.enter("/fork 3")
    terminal.wait_for("there is no message 3 of the user")
    terminal.enter("/fork 1")
    terminal.wait_until(lambda seen: "› Colour?\nOpenAI" in seen.partition("chat-2.chatmd goes another way")[2])
    terminal.type(" Again?\r")
    terminal.wait_for("Red.", ENTER_KEY)
    assert chat.read_text() == whole
    assert sent(server.requests[-1]) == [("system", "Be brief."), ("user", "Colour? Again?")]
    assert "Colour? Again?" in (folder / "chat-2.chatmd").read_text()


def test_the_status_line_and_another_model(server: ScriptedServer, folder: Path) -> None:
    """Model, window and cost are at the foot; /model counts more than the file, and one that cannot be is told."""
    write_config(folder, server, context_window=8000)
    (folder / "chat.chatmd").write_text('<config model="OpenAI/gpt-4o"/>\n' + PROMPT)
    server.answer = lambda request: Action("Yes.", usage=(1200, 40))
    with Terminal("run", "-i", "chat.chatmd", OPENAI_API_KEY="x", OPENAI_BASE_URL=server.url) as terminal:
        terminal.wait_for(ENTER_KEY, "OpenAI/gpt-4o · ", " tokens (0 %)")
        terminal.enter("/model Nobody/none")
        terminal.wait_for("/model: unknown provider 'Nobody'")
        terminal.enter("/budget x")
        terminal.wait_for("/budget: 'x' is not a budget")
        terminal.enter("/model OpenAICompatible/test")
        terminal.wait_for("OpenAICompatible/test is asked from now on", "OpenAICompatible/test · ")
        terminal.enter("Yes?")
        terminal.wait_for("tokens in", "OpenAICompatible/test · 1,240 of ", ENTER_KEY)
    assert server.requests[0].body["model"] == "test"


def test_pictures(terminal: Terminal, server: ScriptedServer, folder: Path) -> None:
    """Those that are named are sent."""
    server.queue("A leaf.")
    (folder / "here.png").write_bytes(PNG)
    terminal.enter("@here.png like?")
    terminal.wait_for("tokens in", ENTER_KEY)
    parts = server.requests[0].body["messages"][-1]["content"]
    assert [part["type"] for part in parts if part["type"] != "text"] == ["image_url"]


def test_the_history_is_searched_as_one_types(terminal: Terminal, server: ScriptedServer) -> None:
    """What begins so is shown, and found by Up and Ctrl-R."""
    for said in ("green leaves", "brown bark"):
        terminal.enter(said)
        terminal.wait_for(f"Reply to: {said}", ENTER_KEY)
    terminal.type("gre")
    terminal.wait_until(lambda seen: seen.count("› green leaves\n") == 2)
    terminal.type("\x1b[C\r")
    terminal.wait_until(lambda seen: seen.count("Reply to: green leaves") == 2 and ENTER_KEY in seen)
    terminal.type("bro\x1b[A\r")
    terminal.wait_until(lambda seen: seen.count("Reply to: brown bark") == 2 and ENTER_KEY in seen)
    terminal.type("\x12een")
    terminal.wait_for("green leaves")
    terminal.type("\r\r")
    terminal.wait_until(lambda seen: seen.count("Reply to: green leaves") == 3 and ENTER_KEY in seen)


def test_a_message_while_the_file_is_changed_is_sent(terminal: Terminal, server: ScriptedServer) -> None:
    """What is typed before a command is done comes after it."""
    terminal.enter("first")
    terminal.wait_for("Reply to: first", ENTER_KEY)
    terminal.type("/undo\r")
    time.sleep(0.05)
    terminal.type("second\r")
    terminal.wait_for("taken back", "Reply to: second", ENTER_KEY)
    assert sent(server.requests[-1]) == [("system", "Be brief."), ("user", "second")]


def test_a_terminal_that_only_prints_is_none(server: ScriptedServer, chat: Path) -> None:
    """TERM=dumb: it is said what to do there."""
    with Terminal("run", "-i", chat.name, TERM="dumb") as terminal:
        assert terminal.wait_for_end() == 2
        assert "--say TEXT" in terminal.text


def test_another_model_that_is_named_while_the_first_one_is_at_work(terminal: Terminal, server: ScriptedServer) -> None:
    """It is asked once the first one is done."""
    goes_on = _event()
    server.queue(Action("One two three four.", hold=goes_on, hold_after=1))
    terminal.enter("count")
    terminal.wait_for("One two")
    terminal.enter("/model OpenAICompatible/other")
    terminal.wait_for("/model comes once the model is done")
    goes_on.set()
    terminal.wait_for("OpenAICompatible/other is asked from now on", ENTER_KEY)
    terminal.enter("again")
    terminal.wait_for("Reply to: again", ENTER_KEY)
    assert server.requests[-1].body["model"] == "other"


def test_an_error_at_the_start_does_not_end_it(server: ScriptedServer, chat: Path) -> None:
    """It is told, and once the file is mended the conversation begins; what --say sends is sent once."""
    whole = chat.read_text()
    chat.write_text(f"<usr>{whole}")
    with Terminal("run", "-i", "--say", "Colour?", chat.name) as terminal:
        terminal.wait_for("outside of any element", "Enter tries again")
        chat.write_text(whole)
        terminal.wait_for("Reply to: Colour?", ENTER_KEY)
        terminal.enter("/undo")
        terminal.wait_for("taken back", ENTER_KEY)
        terminal.enter("Shape?")
        terminal.wait_for("Reply to: Shape?", ENTER_KEY)
    assert sent(server.requests[-1]) == [("system", "Be brief."), ("user", "Shape?")]
