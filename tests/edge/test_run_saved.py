"""What `lmm run` writes into its file: whole elements, paid for once, whatever others write, whenever it is killed."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from edge.conftest import write_config
from edge.support import finish, lmm, start, wait_until
from fakes.chain_game import conversation
from fakes.openai_server import Action, Recorded, ScriptedServer

import chatmd
from lmm.errors import FileReadError

A, TURN = "<user>A</user>\n", "\n<user>\n\n</user>\n"
SHOWN = "<config show_tool_call/>\n"


def said(text: str) -> str:
    """A reply as it stands in a file."""
    return f"\n<assistant>\nRAW|{text}|RAW</assistant>\n"


@pytest.fixture
def path(folder: Path) -> Path:
    """A file with a question."""
    path = folder / "a.chatmd"
    path.write_text(A)
    return path


def test_killed_while_the_model_speaks(server: ScriptedServer, path: Path) -> None:
    """The file is as before the request, and the next run asks again."""
    server.queue(Action("I begin to speak, and then I", hold=threading.Event(), hold_after=2))
    process = start("run", path.name)
    server.wait_for(1)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert path.read_text() == A
    assert lmm("run", path.name).out == "Reply to: A\n"
    assert path.read_text() == A + said("Reply to: A") + TURN


def test_killed_while_the_second_of_two_calls_runs(server: ScriptedServer, path: Path) -> None:
    """The first, which is done, is not done again; of the second, nobody knows, and the model is told so."""
    path.write_text(f'{SHOWN}<tool name="slow" command="sh -c \'echo $1 >> made; sleep $1\' -"/>\n{A}')
    calls = tuple((f"c{n}", "slow", f'{{"arguments": ["{n}"]}}') for n in (0, 30))
    server.queue(Action("Both.", calls=calls))
    process = start("run", "--yes", path.name)
    made = path.parent / "made"
    wait_until(lambda: "<tool_response" in path.read_text() and made.read_text().endswith("30\n"))
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert path.read_text().count("<tool_response") == 1
    assert lmm("run", "--yes", path.name).code == 0
    results = [entry[1:] for entry in conversation(server.requests[1].body) if entry[0] == "result"]
    assert [call for call, _ in results] == ["c0", "c30"]
    assert ["was interrupted" in text for _, text in results] == [False, True]
    assert made.read_text().split() == ["0", "30"]


def test_results_are_written_as_they_arrive_and_sent_in_the_order_of_the_calls(
    server: ScriptedServer, path: Path
) -> None:
    """A slow agent, called first, does not keep the others from the file."""
    path.write_text(f'{SHOWN}<tool name="read_file"/><tool name="helper" agent="helper.chatmd" local/>\n{A}')
    (path.parent / "helper.chatmd").write_text("<system>You help.</system>\n")
    (path.parent / "n.txt").write_text("the note")

    def answer(request: Recorded) -> Action:
        if conversation(request.body)[0] == ("system", "You help."):
            wait_until(lambda: "the note" in path.read_text())
            return Action("I helped.")
        calls = (("c1", "helper", '{"input": "Help."}'), ("c2", "read_file", '{"path": "n.txt"}'))
        return Action("Both.", calls=calls) if request.number == 1 else Action("Done.")

    server.answer = answer
    chatmd.Chat.open(path).run()
    sent = conversation(server.requests[-1].body)
    assert [entry[1] for entry in sent if entry[0] == "result"] == ["c1", "c2"]
    assert path.read_text().index("the note") < path.read_text().index("I helped.")


@pytest.mark.parametrize("number", [2, 3])
def test_an_old_buffer_of_an_editor_undoes_nothing(server: ScriptedServer, folder: Path, number: int) -> None:
    """It is saved after replies and results: all of them are put back, and what was added comes after them."""
    write_config(folder, server)
    path, begin = folder / "a.chatmd", f'{SHOWN}<tool name="read_file"/>\n{A}'
    path.write_text(begin)
    (folder / "n.txt").write_text("the note")

    def answer(request: Recorded) -> Action:
        if request.number == number:
            _replace(path, f"{begin}\n<user>B</user>\n")
        if request.number < 3:
            return Action(f"Look {request.number}.", calls=((f"c{request.number}", "read_file", '{"path": "n.txt"}'),))
        return Action(f"Done {request.number}.")

    server.answer = answer
    chatmd.Chat.open(path).run()
    text = path.read_text()
    assert [text.count(part) for part in ("Look 1.", "Look 2.", "Done 3.", "<tool_response ")] == [1, 1, 1, 2]
    assert text.index("Look 1.") < text.index("<user>B</user>") < text.rindex("Done ")
    sent = conversation(server.requests[-1].body)
    assert ("user", "B") in sent
    assert [entry[1] for entry in sent if entry[0] == "result"] == ["c1", "c2"]


def _replace(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def _meanwhile(server: ScriptedServer, change: Callable[[], object]) -> None:
    def answer(request: Recorded) -> str:
        if request.number == 1:
            change()
        return f"Reply to: {request.prompt}"

    server.answer = answer


def test_the_place_of_a_reply_is_changed(server: ScriptedServer, path: Path) -> None:
    """The author's version stays, and ours is beside it: nothing is merged or lost; the next run says so."""
    _meanwhile(server, lambda: path.write_text("<user>Something else</user>\n"))
    with pytest.raises(FileReadError, match=r"changed where the run was writing.*a\.aside\.chatmd"):
        chatmd.Chat.open(path).run()
    assert path.read_text() == "<user>Something else</user>\n"
    assert (path.parent / ".chatmd" / "a.aside.chatmd").read_text() == A + said("Reply to: A") + TURN
    assert "a.aside.chatmd contains what an earlier run could not write" in lmm("run", path.name).err


def test_the_file_is_not_utf8_any_more(server: ScriptedServer, path: Path) -> None:
    """It is not touched; what was paid for is kept beside it."""
    _meanwhile(server, lambda: path.write_bytes(b"caf\xe9"))
    with pytest.raises(FileReadError, match="not UTF-8"):
        chatmd.Chat.open(path).run()
    assert path.read_bytes() == b"caf\xe9"
    assert said("Reply to: A") in (path.parent / ".chatmd" / "a.aside.chatmd").read_text()


def test_the_file_is_deleted(server: ScriptedServer, path: Path) -> None:
    """It is written again: nothing that was there or that was paid for is lost."""
    _meanwhile(server, path.unlink)
    chatmd.Chat.open(path).run()
    assert path.read_text() == A + said("Reply to: A") + TURN


def test_a_link_is_followed(server: ScriptedServer, path: Path) -> None:
    """Its target is written; the link stays."""
    link = path.with_name("link.chatmd")
    link.symlink_to(path.name)
    _meanwhile(server, lambda: path.write_text(f"{A}\n<user>B</user>\n"))
    chatmd.Chat.open(link).run()
    assert link.is_symlink()
    assert path.read_text() == f"{A}{said('Reply to: A')}\n<user>B</user>\n{said('Reply to: B')}{TURN}"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are Unix")
def test_a_read_only_file_costs_nothing(server: ScriptedServer, path: Path) -> None:
    """It is refused before a model is asked."""
    path.chmod(0o444)
    done = lmm("run", path.name)
    assert (done.code, "read-only" in done.err, server.requests) == (1, True, []), done.err


def test_a_full_disk_leaves_whole_elements(server: ScriptedServer, path: Path) -> None:
    """The error says so, the file is as it was, and a later run goes on from there."""
    server.queue(
        Action(pieces=tuple(" ".join(map(str, range(start, start + 25_000))) for start in range(0, 200_000, 25_000)))
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_200_000, 1_200_000))

    command = [sys.executable, "-m", "lmm", "run", path.name]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True)
    assert (done.returncode, "cannot be written: File too large" in done.stderr) == (1, True), done.stderr
    assert path.read_text() == A
    assert lmm("run", path.name).out == "Reply to: A\n"


TORN = (
    "\n<assistant>\nRAW|Becau", "\n<assistant>\nRAW|So.|RAW</assistant>\n\n<us", "\n<reasoning id='r'>\nHm",
    '\n<tool_call tool_call_id="c" function_name="f">\nRAW|{"a"',
)  # fmt: skip


@pytest.mark.parametrize("torn", TORN)
def test_a_transcript_that_an_older_version_left_torn(server: ScriptedServer, path: Path, torn: str) -> None:
    """`lmm run` refuses it and names the line; `lmm check --fix` cuts what is not complete, and can be undone."""
    path.write_text(A + torn)
    line = (A + torn).rstrip().count("\n", 0, (A + torn).rindex("<")) + 1
    done = lmm("run", path.name)
    assert (done.code, f"a.chatmd:{line}:" in done.err, "lmm check --fix" in done.err) == (1, True, True), done.err
    assert (path.read_text(), server.requests) == (A + torn, [])
    assert lmm("check", "--fix", path.name).code == 0
    assert path.read_text() == (A + torn)[: (A + torn).rindex("<")]
    assert lmm("check", path.name).code == 0
    assert lmm("undo", path.name).code == 0
    assert path.read_text() == A + torn


@pytest.mark.parametrize("torn", ["<assistant>\nRAW|Because\n<user>And?</user>\n", "and then", "<user>Why?"])
def test_what_a_person_wrote_is_never_cut(path: Path, torn: str) -> None:
    """An open element with a message of the user behind it, and the user's own, stay errors."""
    path.write_text(A + torn)
    assert lmm("check", "--fix", path.name).code == 1
    assert path.read_text() == A + torn


@pytest.mark.parametrize("character", ["ü", "日", "🌿"])
def test_a_transcript_that_ends_within_a_character(path: Path, character: str) -> None:
    """An older version was killed while it wrote one: it is cut off with the element that it stands in."""
    torn = f"\n<assistant>\nRAW|So {character}".encode()
    for missing in range(1, len(character.encode())):
        path.write_bytes(A.encode() + torn[:-missing])
        assert lmm("check", "--fix", path.name).code == 0
        assert path.read_text().strip() == A.strip()


def test_a_touch_changes_nothing(server: ScriptedServer, path: Path) -> None:
    """A file whose time alone is another was not changed: it is not read again."""
    _meanwhile(server, path.touch)
    told: list[str] = []
    chatmd.Chat.open(path, listener=lambda event, place: told.append(str(event))).run()
    assert path.read_text() == A + said("Reply to: A") + TURN
    assert not [text for text in told if "was changed" in text]
