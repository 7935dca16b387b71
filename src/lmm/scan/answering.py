"""Answer the prompts of one document: ask the model, or the journal, and place the replies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmm.config import Settings
from lmm.disk import journal
from lmm.errors import LmmError
from lmm.markdown.blocks import Block, serialize
from lmm.markdown.tree import HeadingNode
from lmm.messages import Reply, Retrying, TextDelta, Usage
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel
from lmm.prompts.templates import Prompts
from lmm.scan import events
from lmm.scan.batch import Batch
from lmm.scan.chat_log import Exchange
from lmm.scan.condense import NOTICE, condensed, fits, room
from lmm.scan.messages import Ask, Thread, chat_before, request_for, with_replies


@dataclass(slots=True)
class Outcome:
    """What became of a document: its text, what was answered and what not, and what it cost.

    `side_file` holds replies that found no place because the author changed the document meanwhile, which
    `merged` tells.
    """

    text: str
    answered: list[tuple[Ask, Reply]] = field(default_factory=list)
    failed: list[tuple[Ask, LmmError]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    side_file: Path | None = None
    interrupted: bool = False
    merged: bool = False


@dataclass
class Answering:
    """One run over a document's threads; threads run side by side, the prompts of one in order.

    `major` answers; `minor` summarises what is too long, and is opened when that is needed.
    """

    blocks: Sequence[Block]
    settings: Settings
    prompts: Prompts
    again: bool
    listener: events.Listener
    outcome: Outcome
    major: ChatModel
    minor: ChatModel | None = None

    async def threads(self, threads: Sequence[Thread]) -> None:
        """Ask what waits; what could take no reply costs nothing. Cancelled, it ends with what has arrived."""
        empty = Reply("", self.major.name)
        _, refused = with_replies(self.blocks, [(ask, empty) for thread in threads for ask in thread.asks])
        reasons = {id(ask): error for ask, error in refused}
        tasks = [asyncio.create_task(self._thread(thread, reasons)) for thread in threads]
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            self.outcome.interrupted = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _thread(self, thread: Thread, refused: Mapping[int, LmmError]) -> None:
        log = thread.log
        for ask in thread.asks:
            try:
                if id(ask) in refused:
                    raise refused[id(ask)]
                reply = await self._reply(await self._fitting(ask), chat_before(ask, log))
            except LmmError as error:
                self._fail(ask, error)
                return  # what follows in this block may continue what just failed
            if not ask.is_edit:
                log = (*log, Exchange(ask.prompt.word, ask.prompt.text, reply.text, reply.model))

    async def _fitting(self, ask: Ask) -> Ask:
        """`ask` with summaries in place of a text that is too long for the model."""
        window = self.settings.major.context_window
        if fits(ask.subject.text, window) or ask.is_edit or not isinstance(ask.node, HeadingNode):
            return ask
        self.minor = self.minor or open_chat(self.settings.minor)
        batch = Batch(ask.node, self.minor, language=str(ask.node.root.own("lang") or "en"), again=self.again)
        try:
            text = await condensed(ask.node, batch, self.prompts, room(window))
        finally:
            self.outcome.usage += batch.usage
        return replace(ask, subject=replace(ask.subject, text=text), condensed=True)

    def document(self) -> str:
        """The document with the replies placed; those that cannot be become failures (the journal has them)."""
        blocks, failed = with_replies(self.blocks, self.outcome.answered)
        for ask, error in failed:
            self.outcome.answered = [pair for pair in self.outcome.answered if pair[0] is not ask]
            self._fail(ask, error)
        return serialize(blocks)

    async def _remember(self, key: str, reply: Reply) -> None:
        """Put a reply into the journal; other replies arrive while the disk is waited for."""
        entry = {"text": reply.text, "model": reply.model} | ({"cut": True} if reply.cut else {})
        with contextlib.suppress(LmmError, OSError):  # a full disk must not cost the reply
            await asyncio.to_thread(journal.put, key, entry)

    def _fail(self, ask: Ask, error: LmmError) -> None:
        self.outcome.failed.append((ask, error))
        self.listener(events.Failed(ask, error))

    async def _reply(self, ask: Ask, chat: tuple[Exchange, ...]) -> Reply:
        request = request_for(ask, chat, self.settings.system, self.prompts)
        earlier = [(exchange.prompt, exchange.reply) for exchange in chat]
        asked = (self.settings.system, earlier, ask.prompt.text, ask.subject.text)
        key = journal.key_of(request.task, self.major.name, *asked)
        match None if self.again else journal.get(key):
            case {"text": str(text), "model": str(model), **rest}:
                remembered = Reply(text, model, cut=rest.get("cut") is True)
                self.outcome.answered.append((ask, remembered))
                self.listener(events.Answered(ask, remembered, "journal"))
                return remembered
        self.listener(events.Asking(ask, request))
        async with contextlib.aclosing(self.major.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    self.listener(events.Piece(ask, event.text))
                elif isinstance(event, Retrying):
                    self.listener(events.Again(ask, event.reason, event.wait))
                elif isinstance(event, Reply):
                    if ask.condensed:
                        event = replace(event, text=f"{event.text.rstrip()}\n\n{NOTICE}")
                        self.listener(events.Piece(ask, f"\n\n{NOTICE}"))
                    self.outcome.usage += event.usage
                    self.outcome.answered.append((ask, event))  # at once, so that Ctrl-C finds it there
                    await self._remember(key, event)
                    self.listener(events.Answered(ask, event, "model"))
                    return event
        raise RuntimeError(f"{self.major.name} ended its stream without a reply")
