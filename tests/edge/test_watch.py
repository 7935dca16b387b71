"""`lmm watch` as a process: real saves of every kind, a real server, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from edge.support import PATIENCE, Ran, exchanges_of, start, wait_until, waiting
from fakes.forked import python
from fakes.openai_server import Action, ScriptedServer, fail, hang

QUIET = "0.2"
# So long that a busy machine does not take a pause within a save for the quiet after it.
LONG_QUIET = "1"


class Watching:
    """A running `lmm watch`, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        assert process.stdout
        assert process.stderr
        self._threads = [
            threading.Thread(target=self._read, args=args, daemon=True)
            for args in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[bytes], lines: list[str]) -> None:
        lines.extend(line.decode() for line in stream)

    def says(self, text: str, times: int = 1) -> None:
        """Wait until it has said this."""
        wait_until(lambda: sum(text in line for line in [*self.out, *self.err]) >= times)

    def stop(self) -> Ran:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return Ran(code, "".join(self.out), "".join(self.err))


@contextmanager
def watching(*words: str, quiet: str = QUIET) -> Iterator[Watching]:
    """`lmm watch` with these words, once it watches; it is stopped, cleanly, at the end."""
    process = start("watch", "--quiet", quiet, *words)
    watch = Watching(process)
    try:
        watch.says("Ctrl-C stops")
        yield watch
        if process.poll() is None:
            ran = watch.stop()
            assert (ran.code, "Traceback" in ran.err) == (0, False)
            assert ran.out.splitlines()[-1].startswith("stopped: ")
    except AssertionError as error:
        error.add_note("".join(["lmm watch said:\n", *watch.out, *watch.err]))
        raise
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream
            stream.close()


def asks(prompt: str) -> str:
    """A document with one prompt."""
    return f"---\n?: {prompt}\n---\nA paragraph.\n"


def answered(path: Path, *prompts: str) -> None:
    """Wait until these prompts, and no others, are answered in a file."""

    def done() -> bool:
        found = [prompt for prompt, _ in exchanges_of(path)] if path.exists() else []
        return found == list(prompts) and not waiting(path.read_text())

    wait_until(done)


# -- ways to save ----------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    """In place: the file is truncated and written."""
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    """A new file takes the old one's name."""
    new = path.with_name("4913")
    new.write_text(text)
    new.replace(path)


def move_away_and_write(path: Path, text: str) -> None:
    """As vim with backupcopy=no: the old file becomes the backup, and for a moment there is none."""
    backup = path.with_name(path.name + "~")
    if path.exists():
        path.replace(backup)
    path.write_text(text)
    backup.unlink(missing_ok=True)


def delete_and_write(path: Path, text: str) -> None:
    """Gone for a while, longer than an editor would take."""
    path.unlink(missing_ok=True)
    time.sleep(0.1)
    path.write_text(text)


SAVES: list[Callable[[Path, str], None]] = [write, rename_over, move_away_and_write, delete_and_write]


@pytest.mark.parametrize("mode", [[], ["--poll"]], ids=["notifications", "poll"])
def test_every_way_to_save(server: ScriptedServer, folder: Path, mode: list[str]) -> None:
    """What waits at the start, then one save of each kind: each is answered, by one request."""
    path = folder / "d.md"
    path.write_text(asks("at the start"))
    with watching("d.md", *mode):
        answered(path, "at the start")
        for save in SAVES:
            save(path, asks(save.__name__))
            answered(path, save.__name__)
    assert server.prompts == ["at the start", *(save.__name__ for save in SAVES)]


def test_a_prompt_that_just_misses_is_told_once(server: ScriptedServer, folder: Path) -> None:
    """With its place and the form that works; once it is mended, it is answered."""
    path = folder / "d.md"
    path.write_text("---\n? why\n---\nA paragraph.\n")
    with watching("d.md") as watch:
        watch.says("d.md:2:1: '?' is not a prompt (write '?: why')")
        write(path, "---\n? why\n---\nAnother paragraph.\n")
        write(path, "---\n?: why\n---\nAnother paragraph.\n")
        answered(path, "why")
        ran = watch.stop()
    assert ran.err.count("is not a prompt") == 1


@pytest.mark.parametrize("mode", [[], ["--poll"]], ids=["notifications", "poll"])
def test_a_folder(server: ScriptedServer, folder: Path, mode: list[str]) -> None:
    """Documents that come into it or into its subfolders, also with their folder; nothing else is touched."""
    notes = folder / "notes"
    for name in ("old.md", ".hidden/no.md", "no.txt", "no.chatmd", "no.knit.md"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(asks(name))
    (notes / "made.md").write_text(asks("made from R Markdown"))
    (notes / "made.Rmd").touch()
    with watching("notes", *mode) as watch:
        answered(notes / "old.md", "old.md")
        (notes / "new.Rmd").write_text(asks("new"))
        answered(notes / "new.Rmd", "new")
        (notes / "sub").mkdir()
        (notes / "sub" / "new.qmd").write_text(asks("in a new folder"))
        answered(notes / "sub" / "new.qmd", "in a new folder")
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere" / "moved.markdown").write_text(asks("moved"))
        (folder / "elsewhere").rename(notes / "moved")
        answered(notes / "moved" / "moved.markdown", "moved")
        (notes / "old.md").unlink()
        watch.says("old.md: no longer there")
        (notes / "old.md").write_text(asks("back"))
        answered(notes / "old.md", "back")
    assert server.prompts == ["old.md", "new", "in a new folder", "moved", "back"]
    assert "?: no.knit.md" in (notes / "no.knit.md").read_text()


@pytest.mark.parametrize("mode", [[], ["--poll"]], ids=["notifications", "poll"])
def test_half_a_prompt_is_not_sent(server: ScriptedServer, folder: Path, mode: list[str]) -> None:
    """An editor that saves while the author types, many times within a second, and slowly: one request, the whole."""
    path = folder / "d.md"
    path.write_text("A paragraph.\n")
    prompt = "what is a residual?"
    with watching("d.md", *mode, quiet=LONG_QUIET):
        for end in range(1, len(prompt) + 1):
            (write if end % 2 else rename_over)(path, asks(prompt[:end]))
            time.sleep(0.03)
        with path.open("w") as file:  # the last save is a slow one
            for character in asks(prompt):
                file.write(character)
                file.flush()
                time.sleep(0.01)
        answered(path, prompt)
    assert server.prompts == [prompt]


def test_our_own_writes_and_an_overwritten_reply(server: ScriptedServer, folder: Path) -> None:
    """An editor that saves an old buffer over the reply gets it back without a request; `=:` likewise."""
    path = folder / "d.md"
    text = "---\n?: a question\n---\nA paragraph.\n\n---\n=: shorten\n---\nA long paragraph.\n"
    path.write_text(text)
    with watching("d.md") as watch:
        watch.says("tokens in", 2)
        wait_until(lambda: "###### new text" in path.read_text())
        with_replies = path.read_text()
        path.write_text(text)
        watch.says("remembered from an earlier run", 2)
        wait_until(lambda: path.read_text() == with_replies)
        path.write_text(with_replies + "\n---\n?: another\n---\nLast.\n")
        watch.says("d.md:", 6)
        wait_until(lambda: "Reply to: another" in path.read_text())
    assert len(server.requests) == 3
    assert watch.out[-1].startswith("stopped: 3 replies, 2 remembered, 33 tokens in")


def test_a_save_while_the_model_is_asked(server: ScriptedServer, folder: Path) -> None:
    """It is merged; what it asks is asked next, what is being answered is not asked again."""
    release = threading.Event()
    server.queue(hang(release, text="Reply to: first"))
    path = folder / "d.md"
    path.write_text(asks("first"))
    with watching("d.md"):
        server.wait_for(1)
        path.write_text(asks("first") + "\n---\n?: second\n---\nWritten meanwhile.\n")
        release.set()
        answered(path, "first", "second")
    assert server.prompts == ["first", "second"]
    assert "Written meanwhile." in path.read_text()


def test_a_second_prompt_is_asked_while_a_reply_is_awaited(server: ScriptedServer, folder: Path) -> None:
    """And answered, before the first one is; nothing is asked twice. Edits come with their warnings."""
    release = threading.Event()
    server.answer = lambda request: (
        hang(release, text="Reply to: first") if request.prompt == "first" else "<new>\nShort.\n</new>\n\nNo id."
    )
    path = folder / "d.md"
    path.write_text(asks("first"))
    with watching("d.md") as watch:
        server.wait_for(1)
        path.write_text(asks("first") + "\n---\n=: shorter\n---\nWritten meanwhile, see @sec-a.\n")
        wait_until(lambda: "###### new text\n\nShort." in path.read_text())
        assert [prompt for prompt, _ in exchanges_of(path)] == []
        release.set()
        answered(path, "first")
        watch.says("remark: No id.")
        watch.says("warning: it drops the citation or reference @sec-a")
    assert len(server.requests) == 2
    assert "Reply to: first" in path.read_text()


def test_a_reply_that_comes_while_the_editor_writes(server: ScriptedServer, folder: Path) -> None:
    """It waits until the editor has done: replacing the file before would lose what the editor writes after."""
    release = threading.Event()
    server.queue(hang(release, text="Reply to: first"))
    path = folder / "d.md"
    path.write_text(asks("first"))
    with watching("d.md", quiet=LONG_QUIET) as watch:
        server.wait_for(1)
        inode = path.stat().st_ino
        with path.open("w") as file:
            for number in range(20):
                file.write(f"Line {number}.\n\n" if number != 10 else asks("first") + "\n")
                file.flush()
                if number == 5:
                    release.set()
                    watch.says("answered")
                time.sleep(0.02)
            assert path.stat().st_ino == inode
        answered(path, "first")
    assert [line for line in path.read_text().splitlines() if line.startswith("Line")] == [
        f"Line {number}." for number in range(20) if number != 10
    ]


# -- what goes wrong -------------------------------------------------------------------------------


def test_nothing_there(server: ScriptedServer, folder: Path) -> None:
    """A mistyped path is said at once."""
    process = start("watch", "d.md")
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.decode()) == (2, "lmm: d.md: there is no such file or folder (check the path)\n")


# -- stopping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_of_a_call(server: ScriptedServer, folder: Path, way: signal.Signals) -> None:
    """The call is cancelled, the reply that had arrived is saved, the file is whole, exit 0 and a summary."""
    server.answer = lambda request: "Here." if request.prompt == "one" else Action("late", hold=threading.Event())
    path = folder / "d.md"
    text = asks("one") + "\n" + asks("two")
    path.write_text(text)
    with watching("d.md") as watch:
        watch.says("answered")
        server.wait_for(2)
        watch.process.send_signal(way)
        assert watch.process.wait(PATIENCE) == 0
    assert watch.out[-1] == "stopped: 1 reply, 11 tokens in, 7 out\n"
    assert watch.err == []
    log = "~chat_:\n  - query: one\n    ~reply: Here.\n    ~~model: OpenAICompatible/test\n    ~~text: j0JQkert1r\n"
    assert path.read_text() == text.replace("?: one\n", log)
    assert sorted(p.name for p in folder.iterdir()) == ["config.toml", "d.md"]


# -- on a terminal ---------------------------------------------------------------------------------


def test_a_line_for_everything_that_happens(
    server: ScriptedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal: what was asked, what came of it, and at Ctrl-C what it all came to."""
    pytest.importorskip("pty")
    import pty

    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.delenv("NO_COLOR", raising=False)
    server.answer = lambda request: fail(400, "bad") if "bad" in request.prompt else "ok"
    (folder / "a.md").write_text(asks("a question that is much longer than the terminal is wide"))
    (folder / "b.md").write_text(asks("bad"))
    ours, theirs = pty.openpty()
    line = ("-m", "lmm", "watch", "--quiet", QUIET, "a.md", "b.md")
    with python(*line, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        seen = b""
        while b"a.md:2 answered (" not in seen or b"b.md:2: " not in seen:
            seen += os.read(ours, 10_000)
        process.send_signal(signal.SIGINT)
        rest = b""
        while chunk := _read(ours):
            rest += chunk
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    drawn = seen.decode().replace("\r", "")
    assert "a.md:2 ?: a question that is much longer than the terminal is wide\n" in drawn
    assert "lmm:\x1b[0m b.md:2: " in drawn
    assert rest.decode().splitlines()[-1].endswith("stopped: 1 reply, 1 not answered, 11 tokens in, 7 out")


def _read(descriptor: int) -> bytes:
    """What is on a terminal; nothing when its other end is closed."""
    try:
        return os.read(descriptor, 10_000)
    except OSError:
        return b""
