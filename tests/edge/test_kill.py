"""A run that is killed, at any moment, leaves the old file or the new one, and pays for no reply twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from edge.support import exchanges_of, files_in
from fakes.openai_server import Action, Recorded, ScriptedServer

Note = Callable[[str, object], None]
RUNS = 100
PROMPTS = ("one", "two", "three", "four", "five")
# Large enough that writing the file takes a moment in which a run can be killed.
FILLER = "A paragraph of some length, that stands between the questions. " * 20 + "\n\n"
DOCUMENT = "---\ntitle: T\n---\n\n" + "".join(
    f"---\n?: {prompt}\n---\nParagraph {prompt}.\n\n{FILLER * 20}" for prompt in PROMPTS
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run's process, how it ended, and how long it took."""

    process: str
    code: int
    seconds: float


@dataclass(slots=True)
class Runner:
    """A process that runs `scan_messages` in children, one at a time."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls) -> Runner:
        script = Path(__file__).with_name("kill_child.py")
        return cls(
            subprocess.Popen(
                [sys.executable, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def run(self, url: str, path: Path, *, kill_after: float | None = None) -> Ended:
        """Answer a file; kill -9 the process after so many seconds."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{'never' if kill_after is None else kill_after} {url} {path}\n")
        self.process.stdin.flush()
        process, code, seconds = self.process.stdout.readline().split()
        return Ended(process, int(code), float(seconds))

    def stop(self) -> str:
        """End the process; what it printed on standard error."""
        _, errors = self.process.communicate(timeout=60)
        return errors


@pytest.fixture
def runner() -> Iterator[Runner]:
    """A runner; nothing may have gone to its standard error."""
    running = Runner.start()
    yield running
    assert running.stop() == ""


def staggered(request: Recorded) -> Action:
    """Replies that arrive one after the other, so that a kill falls between any two."""
    return Action(f"Reply to {request.prompt}.", delay=0.004 * (1 + PROMPTS.index(request.prompt)))


def journaled(state_folder: Path) -> set[str]:
    """The texts of the replies in the journal."""
    return {json.loads(file.read_text())["text"] for file in state_folder.glob("journal/*/*.json")}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_at_any_moment(
    server: ScriptedServer,
    runner: Runner,
    folder: Path,
    state_folder: Path,
    record_property: Note,
) -> None:
    """100 processes killed, at moments spread over the whole run; after each, a second run completes the work.

    The file is always whole: the old or the new one. What had been journaled is not asked for again. What
    the killed run left in the folder confuses nothing. (A process that had ended before its moment is
    checked too, and does not count.)
    """
    server.answer = staggered
    notes = folder / "notes"
    notes.mkdir()
    path = notes / "d.md"
    path.write_text(DOCUMENT)
    durations = []
    for _ in range(5):
        path.write_text(DOCUMENT)
        _forget(state_folder)
        ended = runner.run(server.url, path)
        assert ended.code == 0
        durations.append(ended.seconds)
    new = path.read_text()
    assert exchanges_of(path) == [(prompt, f"Reply to {prompt}.") for prompt in PROMPTS]
    whole = median(durations) * 1.05

    seen = {"killed": 0, "ended before": 0, "old": 0, "new": 0, "partly journaled": 0, "temporary files": 0}
    generator = random.Random(20251121)
    while seen["killed"] < RUNS:
        assert seen["ended before"] < 3 * RUNS, seen
        path.write_text(DOCUMENT)
        _forget(state_folder)
        killed = runner.run(server.url, path, kill_after=whole * generator.random())
        assert killed.code in (0, -signal.SIGKILL)
        text = path.read_text()
        assert text in (DOCUMENT, new)
        known = journaled(state_folder)
        left = files_in(notes) - {"d.md"}
        second = runner.run(server.url, path)
        assert (second.code, path.read_text()) == (0, new)
        again = [
            f"Reply to {request.prompt}."
            for request in server.requests
            if request.headers["x-process"] == second.process
        ]
        assert not known.intersection(again)
        assert len(again) == (0 if text == new else len(PROMPTS) - len(known))
        if killed.code == 0:
            seen["ended before"] += 1
            assert text == new
            continue
        seen["killed"] += 1
        seen["old"] += text == DOCUMENT
        seen["new"] += text == new
        seen["partly journaled"] += 0 < len(known) < len(PROMPTS)
        seen["temporary files"] += bool(left)
        for name in left:
            assert name.startswith(".lmm-")
            (notes / name).unlink()
    record_property("seen", seen)
    # The kills did fall before, between and after the replies.
    assert seen["old"] > RUNS / 10, seen
    assert seen["partly journaled"] > RUNS / 20, seen


def _forget(state_folder: Path) -> None:
    for file in state_folder.glob("journal/*/*"):
        file.unlink()
