"""A question that is answered in a buffer: the reply streams into it, and is put there for good when it is whole."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from lsprotocol import types as lsp

from lmm import terminal
from lmm.document import Document
from lmm.errors import LmmError, Place
from lmm.markdown.blocks import serialize
from lmm.messages import Asked, Event, Notice, Reply, Retrying, TextDelta, Waiting
from lmm.notebook.answers import AnsweredPrompt, AnswerPlan, AnswerPlanner, Outcomes
from lmm.pipeline import ParsedDocument, Report
from lmm.prompts.templates import load_prompts
from lmm_editor.overlay import Overlay

if TYPE_CHECKING:
    from lmm_editor.open_document import OpenDocument

PAUSE = 0.1  # seconds between two changes of the buffer, at least
_SHARE = 4  # a change that took long is followed by so many times that without one


class ArrivingReplies:
    """What arrives of the replies to a document's prompts, as it is put into a text."""

    def __init__(self, document: Document) -> None:
        self._title, self._file = document._parsed.name, document._parsed.file
        self._settings = document.settings
        self._prompts = {prompt.line: prompt for prompt in document.pending}
        self._replies: dict[int, Reply] = {}
        self._planner = AnswerPlanner(load_prompts(self._settings.prompts_folder))
        self._plan = AnswerPlan(document._parsed, (), self._settings)
        self.words, self.note = 0, ""

    def take(self, event: Event, place: Place) -> None:
        """Hear what happens."""
        before = self._replies.get(place.line)
        match event:
            case Asked(model=model):
                self._replies[place.line] = Reply("", model)
            case TextDelta(text=text) if before is not None:
                self._replies[place.line] = Reply(before.text + text, before.model)
            case Retrying(reason=reason) if before is not None:
                self._replies[place.line], self.note = Reply("", before.model), reason
            case Reply():
                self._replies[place.line] = event
            case Waiting(reason=reason) | Notice(text=reason):
                self.note = reason
        self.words = sum(len(reply.text.split()) for reply in self._replies.values())

    def draft(self, author: str) -> str:
        """The text of its author with what has arrived, put where the whole replies will be."""
        version = ParsedDocument(author, self._title, self._file)
        arrived = [(self._prompts.get(line), reply) for line, reply in [*self._replies.items()]]
        found: Outcomes = [AnsweredPrompt(prompt, reply) for prompt, reply in arrived if prompt and reply.text.strip()]
        return serialize(self._planner.apply(version, self._plan, found).blocks)


async def ask(opened: OpenDocument, line: int | None, model: str | None = None) -> None:
    """Answer the prompts of the block on a line (1-based), or all, in the buffer.

    Raises:
        LmmError: nothing waits there; the configuration asks for something unknown; the model cannot be opened.
    """
    loop = asyncio.get_running_loop()
    document, opened.refusals = opened.document(), 0
    reading = await asyncio.to_thread(ArrivingReplies, document)

    def listen(event: Event, place: Place) -> None:
        loop.call_soon_threadsafe(reading.take, event, place)

    document.listener = listen
    name = model or str(document.settings.major.model)
    answering = asyncio.create_task(document.aanswer(at=line, model=model))
    opened.cancels[line or 0] = answering.cancel
    report: Report[AnsweredPrompt] = Report(interrupted=True)
    async with WorkProgress(opened, f"Asking {name}", answering) as progress:
        try:
            with opened.overlay(answering.cancel) as overlay:
                opened.overlays[line or 0] = overlay
                await _stream(opened, overlay, reading, answering, progress)
                if not answering.cancelled():  # else what had been answered before is in the document
                    report = answering.result()
                if not opened.follows(overlay):
                    progress.end = "stopped: you changed the reply while it arrived"
                    return
                lost = await opened.settle(document.rebased, overlay, "lmm: reply")
        finally:
            answering.cancel()
        progress.end = "cancelled" if report.interrupted else terminal.usage_text(report.usage)
    for failure in (*report.failures, *lost):
        opened.server.tell(str(failure))
    for hint in report.hints:
        opened.server.tell(hint, lsp.MessageType.Info)


async def annotate(opened: OpenDocument, field: str) -> None:
    """Make a field of a document's metadata again where its text has changed, in the buffer.

    Raises:
        LmmError: as `ask`.
    """
    document = opened.document(listener=opened.server.listen)
    with opened.overlay() as overlay:
        working = asyncio.create_task(document.aannotate(field))
        opened.cancels[0] = working.cancel
        async with WorkProgress(opened, f"Making {field}", working) as progress:
            await asyncio.wait((working,))
            failures = () if working.cancelled() else working.result().failures
            lost = await opened.settle(document.rebased, overlay, "lmm: annotate")
            progress.end = "cancelled" if working.cancelled() else terminal.usage_text(working.result().usage)
    for failure in (*failures, *lost):
        opened.server.tell(str(failure))


async def _stream(
    opened: OpenDocument,
    overlay: Overlay,
    reading: ArrivingReplies,
    answering: asyncio.Task[object],
    progress: WorkProgress,
) -> None:
    """Show what arrives, until there is no more."""
    pause, shown = PAUSE, 0
    while True:
        await asyncio.wait((answering,), timeout=pause)
        if answering.done():
            return
        if reading.words == shown or not opened.server.streams or opened.refusals:
            progress.report(reading.note or (f"{reading.words} words" if reading.words else "waiting for the model"))
            continue
        began, shown = time.monotonic(), reading.words
        text = await asyncio.to_thread(reading.draft, overlay.author)
        await opened.show(text, overlay, "lmm: reply")
        progress.report(f"{shown} words")
        pause = max(PAUSE, _SHARE * (time.monotonic() - began))


class WorkProgress:
    """What an editor shows of work that goes on, with a button that cancels it; nothing where it shows none."""

    def __init__(self, opened: OpenDocument, title: str, work: asyncio.Task[object]) -> None:
        self._server, self._title, self._work = opened.server, title, work
        self._token = str(uuid4())
        window = opened.server.client_capabilities.window
        self._shown = bool(window and window.work_done_progress)
        self._said = ""
        self.end = ""

    async def __aenter__(self) -> WorkProgress:
        if self._shown:
            loop, shown = asyncio.get_running_loop(), self._server.work_done_progress
            try:
                await asyncio.wait_for(shown.create_async(self._token), 5)
            except Exception:  # it is only shown
                self._shown = False
                return self
            shown.tokens[self._token].add_done_callback(lambda _: loop.call_soon_threadsafe(self._work.cancel))
            shown.begin(self._token, lsp.WorkDoneProgressBegin(self._title, cancellable=True))
        return self

    def report(self, text: str) -> None:
        """Say how far it is."""
        if self._shown and text != self._said:
            self._said = text
            self._server.work_done_progress.report(self._token, lsp.WorkDoneProgressReport(message=text))

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LmmError):
            self.end = error.message
        if self._shown:
            self._server.work_done_progress.end(self._token, lsp.WorkDoneProgressEnd(message=self.end))
            self._server.work_done_progress.tokens.pop(self._token, None)
