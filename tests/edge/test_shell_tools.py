"""Programs as tools, with real processes: what they get, what comes back, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from edge.support import lmm, wait_until
from fakes.openai_server import Action, ScriptedServer

from chatmd.config import ChatmdSettings
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools import command, process
from chatmd.tools.command import open_command
from chatmd.tools.process import bubblewrap
from lmm.config import load_settings
from lmm.loop import run
from lmm.messages import ToolOutput
from lmm.models.port import RunnableTool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX programs")
KEY = "sk-never-shown"
OUTSIDE = {"OPENAI_API_KEY": KEY, "MY_TOKEN": "t0ken", "SCRIPTS": "42", "PATH": os.environ["PATH"], "HOME": "/home/me"}


def place(folder: Path, environment: Mapping[str, str] = OUTSIDE, rules: ChatmdSettings = ChatmdSettings()) -> Run:
    return Run(folder, load_settings(env=environment), rules, environment)


def declared(command: str, **attributes: object) -> Tool:
    return Tool("command", "tool", command=command, **attributes)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def opened(tool: Tool, where: Run):  # type: ignore[no-untyped-def]
    async with open_command(tool, where) as tools:
        yield tools[0]


def call(
    where: Path | Run, command: str, *arguments: str, stdin: str | None = None, **attributes: object
) -> ToolOutput:
    """What one call of a declared command returns."""
    here = where if isinstance(where, Run) else place(where)

    async def go() -> ToolOutput:
        tool: RunnableTool
        async with opened(declared(command, **attributes), here) as tool:
            given: dict[str, object] = {"arguments": list(arguments)}
            return await tool.call(given if stdin is None else given | {"stdin": stdin})

    return run(go())


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet buried does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    except NotADirectoryError:  # no /proc
        os.kill(pid, 0)
        return True


def pids_in(folder: Path, name: str = "pids") -> list[int]:
    file = folder / name
    return [int(word) for word in file.read_text().split()] if file.exists() else []


@pytest.fixture
def leftovers(folder: Path) -> Iterator[None]:
    """Whatever a failing test leaves running is ended."""
    yield
    for file in folder.glob("pids*"):
        for pid in pids_in(folder, file.name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


# -- what goes in, what comes out --------------------------------------------------------------------------


def test_arguments_arrive_as_they_are(folder: Path) -> None:
    """Nothing that a shell would read means anything."""
    words = ["a  b", "$HOME", "*", "; echo x", "`id`", "$(id)", "'", '"', "\\n", "|", "", "ü\n"]
    output = call(folder, f'{sys.executable} -c "import sys; print(sys.argv[1:])" first', *words)
    assert output == ToolOutput(f"exit code 0\n\nstdout:\n{['first', *words]}\n")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; echo err >&2; exit 3", "exit code 3\n\nstdout:\nout\n\nstderr:\nerr\n"),
        ("exit 7", "exit code 7, no output"),
        ("kill -SEGV $$", "killed by SIGSEGV, no output"),
        ("printf 'no newline'", "exit code 0\n\nstdout:\nno newline\n"),
        ("printf '\\033[31mred\\033[0m \\377\\n'", "exit code 0\n\nstdout:\nred \\xff\n"),
    ],
)
def test_how_it_ended_and_what_it_printed(folder: Path, command: str, text: str) -> None:
    assert call(folder, "sh -c", command) == ToolOutput(text)


def test_stdin_is_closed_unless_it_is_given(folder: Path) -> None:
    assert call(folder, "cat").text == "exit code 0, no output"
    assert call(folder, "cat", stdin="für\0 you\n").text == "exit code 0\n\nstdout:\nfür\\x00 you\n"
    assert call(folder, "cat", "/dev/stdin", stdin="by name").text == "exit code 0\n\nstdout:\nby name\n"
    assert call(folder, "true", stdin="x" * 1_000_000).text == "exit code 0, no output"


def test_it_runs_in_the_folder_of_the_prompt_or_below(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wherever `lmm` was started."""
    prompts = tmp_path_factory.mktemp("prompts")
    (prompts / "sub").mkdir()
    (prompts / "here.sh").write_text("#!/bin/sh\npwd\n")
    (prompts / "here.sh").chmod(0o755)
    assert call(prompts, "./here.sh").text == f"exit code 0\n\nstdout:\n{prompts}\n"
    assert call(prompts, "./here.sh", cwd="sub").text == f"exit code 0\n\nstdout:\n{prompts / 'sub'}\n"


def test_no_key_is_in_the_environment(folder: Path) -> None:
    """Only what programs need, and what the declaration names."""
    text = call(folder, "env").text
    names = {line.partition("=")[0] for line in text.splitlines()[3:]}
    assert names == {"PATH", "HOME", "LANG", "TERM", "NO_COLOR", process.MARK}
    assert "SCRIPTS=42" in call(folder, "env", env=("SCRIPTS",)).text


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
def test_arguments_that_no_program_can_get(folder: Path, bad: str) -> None:
    with pytest.raises(ChatmdError, match=r"NUL|surrogate"):
        call(folder, "echo", bad)


def test_too_long_arguments(folder: Path) -> None:
    with pytest.raises(ChatmdError, match=r"too long .*stdin"):
        call(folder, "echo", "x" * 5_000_000)


def test_programs_that_cannot_be_run(folder: Path) -> None:
    """A file that another tool may yet build is looked for when it is called."""
    (folder / "text").write_text("hello")
    with pytest.raises(ChatmdError, match=r"text: this file is not executable \(chmod \+x"):
        call(folder, "./text")
    (folder / "text").chmod(0o755)
    with pytest.raises(ChatmdError, match="text: this file is not a program"):
        call(folder, "./text")
    (folder / "text").write_text("#!/no/such/interpreter\n")
    with pytest.raises(ChatmdError, match="names an interpreter that does not exist"):
        call(folder, "./text")
    with pytest.raises(ChatmdError, match="there is no such program"):
        call(folder, "./missing")


# -- limits ------------------------------------------------------------------------------------------------


def test_hundreds_of_megabytes_are_read_in_little_memory(folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = call(
        folder, "sh -c", "echo begin; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo end", max_output=200
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert output.text.startswith("exit code 0\n\nstdout:\nbegin\n")
    assert "characters left out" in output.text
    assert output.text.endswith("end\n")
    assert len(output.text) < 400
    assert grown < 20_000 * (1024 if sys.platform == "darwin" else 1)


def test_a_flood_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FLOOD", 10_000_000)
    output = call(folder, "yes", max_output=100)
    assert output.failed
    assert output.text.startswith("stopped after ")
    assert "left out" in output.text


def test_the_limits_of_the_run_hold_by_default(folder: Path) -> None:
    async def go() -> ToolOutput:
        rules = ChatmdSettings(tool_timeout=0.3, max_output=60)
        async with opened(declared("sh -c"), place(folder, rules=rules)) as tool:
            output: ToolOutput = await tool.call({"arguments": ["yes | head -c 5000; sleep 60"]})
            return output

    output = run(go())
    assert output.failed
    assert output.text.startswith("stopped after 0.3 s, which is the limit\n\nstdout:\ny\n")
    assert output.text.count("\n") < 50


# -- nothing is left ---------------------------------------------------------------------------------------

STUBBORN = """
trap '' TERM
echo $$ >> pids
(sleep 1000 & echo $! >> pids; wait) &
sleep 1000 &
echo $! >> pids
wait
"""


@pytest.mark.usefixtures("leftovers")
def test_a_time_out_kills_all_and_keeps_what_was_printed(folder: Path) -> None:
    """Grandchildren that ignore the signal and hold the pipes open included."""
    output = call(folder, "sh -c", f"echo started; {STUBBORN}", timeout=0.7)
    assert (output.failed, output.text) == (True, "stopped after 0.7 s, which is the limit\n\nstdout:\nstarted\n")
    pids = pids_in(folder)
    assert len(pids) == 3
    wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only where processes can be found by their mark")
@pytest.mark.usefixtures("leftovers")
def test_a_time_out_finds_those_that_left_the_group(folder: Path) -> None:
    daemon = "import os, time; os.setsid(); open('pids', 'a').write(f'{os.getpid()}\\n'); time.sleep(1000)"
    (folder / "daemon.py").write_text(f"import os\nif os.fork() == 0:\n    {daemon}\nelse:\n    os.wait()\n")
    assert call(folder, f"{sys.executable} daemon.py", timeout=1.0).failed
    (pid,) = pids_in(folder)
    wait_until(lambda: not alive(pid))


@pytest.mark.usefixtures("leftovers")
def test_a_program_that_is_asked_to_end_can_clean_up(folder: Path) -> None:
    call(folder, "sh -c", "touch lock; trap 'rm lock; exit 0' TERM; while :; do sleep 0.05; done", timeout=0.5)
    assert not (folder / "lock").exists()


@pytest.mark.usefixtures("leftovers")
def test_what_a_program_leaves_behind_is_killed(folder: Path) -> None:
    """It ends; its child would go on, with the pipes open."""
    output = call(folder, "sh -c", "sleep 1000 & echo $! >> pids; echo done", timeout=30)
    assert output.text == "exit code 0; remaining processes were killed\n\nstdout:\ndone\n"
    (pid,) = pids_in(folder)
    wait_until(lambda: not alive(pid))


@pytest.mark.usefixtures("leftovers")
def test_cancelling_a_call_leaves_no_process(folder: Path) -> None:
    async def go() -> None:
        async with opened(declared("sh -c"), place(folder)) as tool:
            task = asyncio.create_task(tool.call({"arguments": [STUBBORN]}))
            while len(pids_in(folder)) < 3:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(go())
    pids = pids_in(folder)
    wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.usefixtures("leftovers")
def test_cancelling_at_any_moment_leaves_no_process(folder: Path) -> None:
    """Also while the process is only being made."""

    async def go() -> None:
        async with opened(declared("sh -c"), place(folder)) as tool:
            for attempt in range(25):
                task = asyncio.create_task(tool.call({"arguments": [f"echo $$ >> pids{attempt}; sleep 1000"]}))
                for _ in range(attempt):
                    await asyncio.sleep(0)
                await asyncio.sleep(0 if attempt < 15 else attempt / 5000)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    run(go())
    time.sleep(0.1)
    pids = [pid for file in folder.glob("pids*") for pid in pids_in(folder, file.name)]
    wait_until(lambda: not any(map(alive, pids)))


def test_calls_run_side_by_side(folder: Path) -> None:
    """Each waits for the other: one after the other, they would never end."""
    script = "touch {mine}; while ! [ -e {other} ]; do sleep 0.01; done; echo {mine}"

    async def go() -> list[ToolOutput]:
        async with opened(declared("sh -c", timeout=60), place(folder)) as tool:
            pairs = [("a", "b"), ("b", "a"), ("c", "a")]
            return list(
                await asyncio.gather(
                    *(tool.call({"arguments": [script.format(mine=one, other=two)]}) for one, two in pairs)
                )
            )

    assert [output.text for output in run(go())] == [f"exit code 0\n\nstdout:\n{name}\n" for name in "abc"]


@pytest.mark.skipif(not bubblewrap(), reason="no bubblewrap, or no right to use it")
def test_a_sandbox_has_no_network_and_writes_below_its_roots(folder: Path) -> None:
    """It reads what is there, but for another /tmp; the conversation and the prompt stay as they are."""
    prompt, beside = folder / "out/a.chatmd", folder / "beside.txt"
    (folder / "out").mkdir(exist_ok=True)
    prompt.write_text("prompt")
    beside.write_text("read\n")
    here = replace(place(folder, {**OUTSIDE, "TMPDIR": str(folder)}), protected=(prompt,))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = f"</dev/tcp/127.0.0.1/{listening.getsockname()[1]}"
        script = f"""cat beside.txt; echo w > out/new.txt; echo w > made.txt; echo w > out/a.chatmd
        echo w > /tmp/lmm-test; cat /tmp/lmm-test; echo $TMPDIR; bash -c '{connect}'"""
        text = call(here, "sh -c", script, sandbox=True, roots=("out",)).text
    assert (folder / "out/new.txt").read_text() == "w\n"
    assert (prompt.read_text(), (folder / "made.txt").exists(), Path("/tmp/lmm-test").exists()) == (
        "prompt",
        False,
        False,
    )
    assert "read\nw\n/tmp\n" in text
    assert text.count("Read-only file system") == 2
    assert "Connection refused" in text or "Network is unreachable" in text


def test_without_bubblewrap_a_sandbox_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs without the sandbox that its author asked for."""
    monkeypatch.setattr(command, "bubblewrap", lambda: "")
    with pytest.raises(ChatmdError, match=r"needs bubblewrap.*lmmarkdown\[sandbox\]"):
        call(place(folder), "sh -c", "echo free > made.txt", sandbox=True)
    assert not (folder / "made.txt").exists()


@pytest.mark.skipif(not bubblewrap(), reason="no bubblewrap, or no right to use it")
def test_a_sandbox_works_when_the_file_is_named_by_a_relative_path(folder: Path, server: ScriptedServer) -> None:
    """The file itself, which is protected, is mounted by its real path."""
    (folder / "sub").mkdir()
    (folder / "sub/t.chatmd").write_text('<tool name="sh" command="sh -c" sandbox/><user>Go.</user>')
    server.queue(Action("", calls=(("c1", "sh", '{"arguments": ["echo made > new.txt; cat new.txt"]}'),)), "Done.")
    done = lmm("run", "--yes", "sub/t.chatmd")
    assert (done.code, (folder / "sub/new.txt").read_text()) == (0, "made\n"), done.err
