"""When a document is scanned: after its last save and a quiet time, once, and not for our own writes.

The tests run on an event loop whose clock jumps to the next thing that is due, so that seconds cost nothing
and nothing depends on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import selectors
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from talking import PaidScript

from lmm.disk.watching import WatchedPaths
from lmm.document import Document
from lmm.errors import ConfigError, ModelUnavailable, Place
from lmm.messages import Event, Failed, Notice
from lmm.pipeline import Report
from lmm.scan import watch_documents
from lmm.testing import ScriptedModel
from lmm.watcher import Scanned, Watcher, WatchReport

T = TypeVar("T")
E = TypeVar("E", bound=Event)
QUIET = 1.0
TAKES = 10.0  # seconds that a scan takes

# -- a clock that jumps ----------------------------------------------------------------------------


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting for what is not there, moves the clock on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen"
            self.now += timeout
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = _Jumping()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop whose clock jumps."""
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(coroutine)


def now() -> float:
    """The loop's time, to a millisecond."""
    return round(asyncio.get_running_loop().time(), 3)


# -- an author, a model, a watch -------------------------------------------------------------------

_ticks = itertools.count(1)


def save(path: Path, text: str) -> Path:
    """Save as an editor does; two saves never have the same time."""
    path.write_text(text)
    stamp = time.time_ns() + next(_ticks) * 1_000_000
    os.utime(path, ns=(stamp, stamp))
    return path


def asking(*prompts: str) -> str:
    """A document in which these prompts wait; as sentences, unless they end otherwise."""
    return "".join(f"---\n?: {prompt}{'?' * prompt[-1].isalnum()}\n---\nAbout {prompt}.\n\n" for prompt in prompts)


class Scanner:
    """Scans take some time, and then do what `lmm messages` does, with a scripted model."""

    def __init__(self, *script: str | Exception) -> None:
        self.model = PaidScript([*script, *map(str, range(100))])
        self.begun: list[tuple[float, str]] = []
        self.running = 0
        self.error: ConfigError | None = None
        self.at_the_end: Callable[[], object] = lambda: None

    async def __call__(self, document: Document) -> Scanned:
        self.running += 1
        self.begun.append((now(), document.text))
        try:
            if self.error:
                raise self.error
            report = document.answer(model=self.model)  # until it is saved, as if it was awaited
            await asyncio.sleep(TAKES)
            saved = document.save(settle=0)
            self.at_the_end()
            return Scanned(report, saved.text, saved.rebased)
        except asyncio.CancelledError:
            return Scanned(Report(interrupted=True))
        finally:
            self.running -= 1

    @property
    def times(self) -> list[float]:
        """When scans began."""
        return [at for at, _ in self.begun]


Step = tuple[float, Callable[[], Path | None]]


async def script(present: Collection[Path], *steps: Step) -> AsyncGenerator[Collection[Path]]:
    """A source of changes: at each time something is done, and the path it returns is told."""
    yield present
    for at, act in steps:
        await asyncio.sleep(at - now())
        path = act()
        yield [path] if path else []


class Watch:
    """A watch over a script of changes, and what it told."""

    def __init__(self, folder: Path, scanner: Scanner) -> None:
        self.told: list[tuple[float, Event, Place]] = []
        self.watcher: Watcher | None = None
        self.folder, self.scanner = folder, scanner

    async def __call__(self, *steps: Step) -> WatchReport:
        self.watcher = Watcher(
            WatchedPaths.at([self.folder]), self.scanner, QUIET, lambda e, place: self.told.append((now(), e, place))
        )
        return await self.watcher.run(script(sorted(self.folder.iterdir()), *steps))

    def of(self, kind: type[E]) -> list[E]:
        """Events of a kind."""
        return [event for _, event, _ in self.told if isinstance(event, kind)]

    @property
    def notices(self) -> list[tuple[float, str]]:
        """What was told in words about a file, and when."""
        return [(at, event.text) for at, event, place in self.told if isinstance(event, Notice) and place.file]


# -- when ------------------------------------------------------------------------------------------


def test_what_waits_at_the_start_is_answered_at_once(tmp_path: Path) -> None:
    """A document saved long ago is quiet; one saved a moment ago may be half a document."""
    old = save(tmp_path / "old.md", asking("a"))
    save(tmp_path / "new.md", asking("b"))
    os.utime(old, (1, 1))
    watch = Watch(tmp_path, scanner := Scanner())
    report = run(watch())
    assert [text for _, text in scanner.begun] == [asking("a"), asking("b")]
    assert scanner.times == [0.0, pytest.approx(QUIET, abs=0.5 * QUIET)]
    assert watch.of(Notice) == [Notice("watching 2 documents; Ctrl-C stops")]
    assert (report.answered, report.failed, report.usage.requests) == (2, 0, 2)


def test_half_a_prompt_is_not_sent(tmp_path: Path) -> None:
    """An editor that saves while the author types: one scan, of the whole prompt, a quiet time after the last save."""
    path = tmp_path / "d.md"
    typed = ["wh", "what is", "what is a le", "what is a leaf?"]
    steps = [(0.7 * n, lambda text=text: save(path, asking(text))) for n, text in enumerate(typed)]
    run(Watch(tmp_path, scanner := Scanner())(*steps))
    assert [(round(at, 2), text) for at, text in scanner.begun] == [(3.1, asking("what is a leaf?"))]


@pytest.mark.parametrize(("typed", "wait"), [("what is a", 3 * QUIET), ("what is", 3 * QUIET), ("what?", QUIET)])
def test_a_pause_in_the_middle_of_a_prompt(tmp_path: Path, typed: str, wait: float) -> None:
    """What does not end like a sentence gets more time: the author may be thinking how to go on."""
    path = tmp_path / "d.md"
    text = asking("x.").replace("x.", typed)
    run(Watch(tmp_path, scanner := Scanner())((0.0, lambda: save(path, text))))
    assert scanner.times == [wait]


def test_a_save_that_nobody_told_of_counts_too(tmp_path: Path) -> None:
    """Where notifications get lost, the quiet time still begins with the last save."""
    path = tmp_path / "d.md"

    def in_secret() -> None:
        save(path, asking("what is a leaf?"))

    run(Watch(tmp_path, scanner := Scanner())((0.0, lambda: save(path, asking("wh"))), (0.5, in_secret)))
    assert scanner.begun == [(2 * QUIET, asking("what is a leaf?"))]


def test_our_own_writes_are_no_saves(tmp_path: Path) -> None:
    """A notification of what the scan wrote leads to nothing."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, scanner := Scanner())
    run(watch((20.0, lambda: path), (25.0, lambda: path), (30.0, lambda: path)))
    assert len(scanner.begun) == 1


def test_a_document_without_prompts_is_not_scanned(tmp_path: Path) -> None:
    """Nor one with an empty prompt: its author has just begun to type."""
    save(tmp_path / "d.md", "---\n?:\n---\nText.\n")
    watch = Watch(tmp_path, scanner := Scanner())
    run(watch())
    assert (scanner.begun, watch.of(Scanned)) == ([], [Scanned(None)])


def test_saves_during_a_scan_lead_to_one_more_at_once(tmp_path: Path) -> None:
    """A quiet time after the last of them: what they ask does not wait for the reply to the first, and nothing is asked
    twice."""
    path = save(tmp_path / "d.md", asking("a"))
    saves = [(at, lambda at=at: save(path, asking("a", f"b{at}"))) for at in (3.0, 4.0, 5.0)]
    run(Watch(tmp_path, scanner := Scanner())(*saves))
    assert scanner.times == [pytest.approx(QUIET, abs=0.01), 5.0 + QUIET]
    assert [len(request.messages) for request in scanner.model.seen] == [2, 2]
    assert "?:" not in path.read_text()
    assert "About b5.0" in path.read_text()


def test_a_prompt_merged_in_is_asked_without_a_notification(tmp_path: Path) -> None:
    """What was saved during a scan is on the disk already when the scan ends: nothing would change any more."""
    path = save(tmp_path / "d.md", asking("a"))

    def in_secret() -> None:
        save(path, asking("a", "b"))

    run(Watch(tmp_path, scanner := Scanner())((5.0, in_secret)))
    assert len(scanner.begun) == 2
    assert "?:" not in path.read_text()


def test_a_save_right_after_our_own(tmp_path: Path) -> None:
    """Before the scan has ended: it is not taken for what the scan wrote."""
    path = save(tmp_path / "d.md", asking("a"))
    scanner = Scanner()

    def once() -> None:
        save(path, path.read_text() + asking("b"))
        scanner.at_the_end = lambda: None

    scanner.at_the_end = once
    run(Watch(tmp_path, scanner)((20.0, lambda: path)))
    assert len(scanner.begun) == 2
    assert "?:" not in path.read_text()


def test_documents_are_scanned_side_by_side(tmp_path: Path) -> None:
    """One scan per document, several documents at once."""
    for name in ("a.md", "b.md", "c.md"):
        os.utime(save(tmp_path / name, asking(name)), (1, 1))
    run(Watch(tmp_path, scanner := Scanner())())
    assert scanner.times == [0.0, 0.0, 0.0]


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_failed_call_is_tried_again_on_the_next_save_only(tmp_path: Path) -> None:
    """Also if the text is the same: saving again is how an author asks to try again."""
    path = save(tmp_path / "d.md", asking("a", "b"))
    watch = Watch(tmp_path, scanner := Scanner(ModelUnavailable("no"), "fine", ModelUnavailable("no"), "now"))
    report = run(
        watch(
            (20.0, lambda: path),
            (40.0, lambda: save(path, path.read_text())),
            (60.0, lambda: path),
            (80.0, lambda: save(path, path.read_text())),
        )
    )
    assert scanner.times == [pytest.approx(1.0, abs=0.01), 41.0, 81.0]
    assert [len(scanned.report.failures) for scanned in watch.of(Scanned) if scanned.report] == [1, 1, 0]
    assert (report.answered, report.failed) == (2, 0)


def test_what_still_fails_at_the_end_is_counted_once(tmp_path: Path) -> None:
    """A prompt that failed twice is one prompt."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, Scanner(ModelUnavailable("no"), ModelUnavailable("no")))
    report = run(watch((20.0, lambda: save(path, path.read_text()))))
    assert (report.answered, report.failed) == (0, 1)


def test_a_config_error_is_told_and_the_document_stays_watched(tmp_path: Path) -> None:
    """The next save is scanned as ever."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, scanner := Scanner())
    scanner.error = ConfigError("no such provider")

    def mend() -> Path:
        scanner.error = None
        return save(path, asking("a, again"))

    report = run(watch((20.0, mend)))
    assert [str(failed.error) for failed in watch.of(Failed)] == ["no such provider"]
    assert (len(scanner.begun), report.answered) == (2, 1)


def test_a_file_that_vanishes_for_a_moment(tmp_path: Path) -> None:
    """An editor that removes the file before it writes it: nothing is told, one scan is made."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, scanner := Scanner())

    def remove() -> Path:
        path.unlink()
        return path

    run(watch((0.3, remove), (0.8, lambda: save(path, asking("a and b")))))
    assert [(round(at, 2), text) for at, text in scanner.begun] == [(0.8 + QUIET, asking("a and b"))]
    assert watch.notices == []


def test_a_file_that_is_deleted_and_comes_back(tmp_path: Path) -> None:
    """Its going is told, its coming back is a save."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, scanner := Scanner())

    def remove() -> Path:
        path.unlink()
        return path

    run(watch((20.0, remove), (30.0, lambda: save(path, asking("b")))))
    assert watch.notices == [(21.0, "no longer there; waiting for it to come back")]
    assert scanner.times == [pytest.approx(1.0, abs=0.01), 31.0]


def test_a_file_that_is_deleted_during_its_scan(tmp_path: Path) -> None:
    """The reply is not lost: when the file is back, the journal has it."""
    path = save(tmp_path / "d.md", asking("a"))
    watch = Watch(tmp_path, scanner := Scanner("only once"))

    def remove() -> Path:
        path.unlink()
        return path

    report = run(watch((5.0, remove), (30.0, lambda: save(path, asking("a")))))
    assert watch.of(Failed) == []
    assert (len(scanner.model.seen), report.usage.requests) == (1, 1)
    assert (report.answered, report.remembered) == (1, 1)
    assert "only once" in path.read_text()


def test_cancelling_ends_scans_and_reports(tmp_path: Path) -> None:
    """Those that run, one for each save, are cut short; none is begun again."""
    path = save(tmp_path / "d.md", asking("a"))
    os.utime(path, (1, 1))
    watch = Watch(tmp_path, scanner := Scanner())

    async def cancelled() -> WatchReport:
        task = asyncio.create_task(watch((3.0, lambda: save(path, asking("b"))), (100.0, lambda: None)))
        await asyncio.sleep(5.0)
        task.cancel()
        return await task

    assert run(cancelled()).answered == 0
    assert (len(scanner.begun), scanner.running) == (2, 0)


# -- the public function ---------------------------------------------------------------------------


@pytest.mark.parametrize("poll", [False, True])
def test_watching_until_told_to_stop(tmp_path: Path, poll: bool) -> None:
    """From a script: `watch_documents` in a thread, `stop` ends it, the report tells what was done."""
    path = save(tmp_path / "d.md", asking("a"))
    stop, heard = threading.Event(), threading.Event()

    def listener(event: Event, place: Place) -> None:
        if isinstance(event, Scanned) and event.report:
            heard.set()

    reports = list[WatchReport]()
    thread = threading.Thread(
        target=lambda: reports.append(
            watch_documents(
                [path], quiet=0.05, poll=poll, model=ScriptedModel(["A reply."]), listener=listener, stop=stop
            )
        )
    )
    thread.start()
    assert heard.wait(30)
    stop.set()
    thread.join(30)
    assert [(report.answered, report.usage.requests) for report in reports] == [(1, 1)]
    assert "A reply." in path.read_text()
