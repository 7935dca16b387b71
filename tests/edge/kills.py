"""Real commands that are killed at any moment, and what the next run finds."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from edge.support import Ran, copy_course, files_in, finish, lmm, start
from fakes.courses import contents_of
from fakes.openai_server import Action, Recorded, ScriptedServer, annotation_reply

from lmm.disk import swap
from lmm_education import Course

_FILLER = "A paragraph of some length, that stands between the questions. " * 20
ASKING = "---\ntitle: T\n---\n\n" + "".join(
    f"# Section {number}\n\n---\n{word}: question {number}\n---\nParagraph {number}. {_FILLER}\n\n"
    for number, word in enumerate(("?", "?", "=", "?", "=", "?"))
)
"""A document with questions and edits."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "messages": ("messages", "d.md"),
    "annotate": ("annotate", "d.md", "--summaries", "--questions"),
}


def kill_command(server: ScriptedServer, folder: Path, state: Path, name: str, kills: int) -> Counter[str]:
    """Kill one of `COMMANDS` so often in `folder`, the current one, and let another run end the work; what was seen.

    Raises:
        AssertionError: a file that is neither old nor new, a reply that is paid twice, a temporary file that stays.
    """
    server.answer = _told
    path, command, chance = folder / "d.md", COMMANDS[name], random.Random(name)
    path.write_text(ASKING)
    asking = time_to_answer(server, *command)
    new, seen = path.read_text(), Counter[str]()
    others = files_in(folder)
    while seen["killed"] < kills or not seen["partly journaled"]:
        path.write_text(ASKING)
        shutil.rmtree(state / "journal", ignore_errors=True)
        begun, process = len(server.requests), start(*command)  # in this order: it may ask at once
        if chance.random() < 0.8:  # else while it begins
            server.wait_for(begun + 1)
        ran = killed(process, 1.2 * asking * chance.random())
        found = path.read_text()
        assert found in (ASKING, new), f"neither the old file nor the new one: {found}"
        known, begun = _journaled(state), len(server.requests)
        assert lmm(*command).code == 0
        assert path.read_text() == new, "the next run made another file"
        again = {_reply(request) for request in server.requests[begun:]}
        assert not known & again, f"asked again: {known & again}"
        seen["temporary files"] += len(files_in(folder) - others)
        _sweep(folder)
        assert files_in(folder) == others
        seen[("killed" if ran.code == -signal.SIGKILL else "ended before")] += 1
        seen["new" if found == new else "partly journaled" if known else "nothing journaled"] += 1
    return seen


def _told(request: Recorded) -> Action:
    """A reply of its own for every request, which takes a time of its own."""
    return Action(_reply(request), delay=int(_digest(request)[-2:], 16) / 2550)


def _reply(request: Recorded) -> str:
    words = f"Reply {_digest(request)} "
    return annotation_reply(request, words) if request.fields else words.strip()


def _digest(request: Recorded) -> str:
    return hashlib.sha256(json.dumps(request.messages).encode()).hexdigest()[:12]


def _journaled(state: Path) -> set[str]:
    return {json.loads(file.read_text())["text"] for file in state.glob("journal/*/*.json")}


def _sweep(folder: Path) -> None:
    """What the first save more than a minute later does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swap, "LEFT_AFTER", -1.0)
        assert swap.remove_leftovers(folder) == [], "nobody had saved"


def time_to_answer(server: ScriptedServer, *command: str) -> float:
    """How long a command takes from its first request to its end."""
    ran = lmm(*command)
    assert ran.code == 0, ran
    return time.monotonic() - server.requests[0].time


def killed(process: subprocess.Popen[bytes], seconds: float) -> Ran:
    """Kill a command after so long: how it ended."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return finish(process)


# -- the store -------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, Any]:
    """What is in the store."""
    with Course.open(folder=folder) as opened:
        return contents_of(opened.store)


def write_lectures(course: Path, word: str) -> None:
    """12 documents of the course."""
    for number in range(12):
        paragraphs = "\n\n".join(f"Paragraph {n} of the {word} text, of lecture {number}. " * 8 for n in range(12))
        (course / f"{number}.md").write_text(f"# Lecture {number}\n\n{paragraphs}\n")


def kill_ingest(course: Path, kills: int, seed: int) -> Counter[str]:
    """Kill ``lmm ingest`` so often in the current folder, each time from the same store; which store was found.

    Raises:
        AssertionError: the store is neither the old one nor the new one, or the next run does not end the work.
    """
    write_lectures(course, "old")
    assert lmm("ingest", ".").code == 0
    old = contents(course)
    kept = course.parent / f"{course.name}-kept"
    copy_course(course / ".lmm", kept)
    write_lectures(course, "new")
    begun = time.monotonic()
    assert lmm("ingest", ".").code == 0
    took = time.monotonic() - begun
    new = contents(course)
    assert old != new
    chance, seen = random.Random(seed), Counter[str]()
    try:
        for number in range(kills):
            shutil.rmtree(course / ".lmm")
            copy_course(kept, course / ".lmm")
            killed(start("ingest", "."), took * 2.5 * number / kills * (0.5 + chance.random()))
            found = contents(course)
            assert found in (old, new)
            seen["new" if found == new else "old"] += 1
        assert lmm("ingest", ".").code == 0
        assert contents(course) == new
        assert len(list(course.glob(".lmm/store/*/generations/*"))) <= 3, "what killed runs left was not removed"
    finally:
        shutil.rmtree(kept)
    return seen
