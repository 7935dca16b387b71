"""Scan documents: read, plan, ask the model, place the replies, save. The one file here that waits.

Every function has a twin with an `a` in front for callers with an event loop of their own, and works on
a file or on a string.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from lmm import config_files, files, journal, loop
from lmm.config import Settings
from lmm.errors import LmmError
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel, Reply, Retrying, TextDelta, Usage
from lmm.prompts.load import load_prompts
from lmm.prompts.templates import Prompts
from lmm.scan import events
from lmm.scan.chat_log import Exchange, clear_chat
from lmm.scan.edits import Verdict, resolve
from lmm.scan.header import complete_header
from lmm.scan.messages import Ask, Thread, chat_before, plan, request_for, threads_at, with_replies, with_reply
from lmm.scan.problems import Problem, find_problems, header_gaps
from lmm.scan.save import locked, save_merged


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """How pending prompts are answered.

    `model` overrides the configured one; `config` names a configuration file; `at` answers only the
    metadata block on that line; `again` asks anew what the journal could answer.
    """

    model: str | None = None
    config: Path | None = None
    at: int | None = None
    again: bool = False

    def settings(self, document: Path | None, header: Mapping[str, Any] | None) -> Settings:
        """The settings for a document with this header."""
        overrides = {"major": self.model} if self.model else {}
        return config_files.settings_for(document, header, config=self.config, overrides=overrides)


@dataclass(slots=True)
class Outcome:
    """What became of a document: its text, what was answered and what not, and what it cost.

    `side_file` holds replies that found no place because the author changed the document meanwhile.
    """

    text: str
    answered: list[tuple[Ask, Reply]] = field(default_factory=list)
    failed: list[tuple[Ask, LmmError]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    side_file: Path | None = None
    interrupted: bool = False


# -- messages ------------------------------------------------------------------------------------


def scan_messages(
    path: str | Path,
    options: MessageOptions = MessageOptions(),
    *,
    model: ChatModel | None = None,
    listener: events.Listener = events.ignore,
) -> Outcome:
    """Answer the pending prompts of a file and save it; nothing else in it changes.

    A failed call leaves its prompt in place; replies that did arrive are kept. What the author saved
    meanwhile is merged.

    Args:
        path: a UTF-8 markdown file.
        model: used instead of the configured one.

    Raises:
        DocumentError: the file cannot be read or written.
        ConfigError: the configuration or the header asks for something unknown.
    """
    return loop.run(_scan_messages(Path(path), options, model, listener))


async def ascan_messages(
    path: str | Path,
    options: MessageOptions = MessageOptions(),
    *,
    model: ChatModel | None = None,
    listener: events.Listener = events.ignore,
) -> Outcome:
    """`scan_messages` for callers with an event loop of their own."""
    return await loop.run_async(_scan_messages(Path(path), options, model, listener))


def scan_messages_text(
    text: str,
    options: MessageOptions = MessageOptions(),
    *,
    model: ChatModel | None = None,
    listener: events.Listener = events.ignore,
    title: str = "",
) -> Outcome:
    """Answer the pending prompts of a markdown string; the result's `text` is the new string.

    >>> outcome = scan_messages_text("---\\n?: what is a leaf?\\n---\\nA leaf is green.\\n",
    ...                              MessageOptions(model="Builtin/extractive"))
    >>> print(outcome.text.splitlines()[3])
        ~reply: |-
    """
    return loop.run(_answer_text(text, options, model, listener, title=title, document=None))


async def ascan_messages_text(
    text: str,
    options: MessageOptions = MessageOptions(),
    *,
    model: ChatModel | None = None,
    listener: events.Listener = events.ignore,
    title: str = "",
) -> Outcome:
    """`scan_messages_text` for callers with an event loop of their own."""
    return await loop.run_async(_answer_text(text, options, model, listener, title=title, document=None))


async def _scan_messages(
    path: Path, options: MessageOptions, model: ChatModel | None, listener: events.Listener
) -> Outcome:
    async with locked(path, lambda: listener(events.Waiting(str(path)))):
        base = files.read_document(path)
        blocks = parse_markdown_text(base)
        if any(isinstance(b, MetadataBlock) and b.prompts for b in blocks):
            files.check_writable(path)
        outcome = await _answer_text(base, options, model, listener, title=path.stem, document=path)
        if outcome.text != base:
            saved = save_merged(path, base, outcome.text)
            outcome.text, outcome.side_file = saved.text, saved.side_file
        if outcome.usage.requests:
            journal.forget_old()
        return outcome


async def _answer_text(
    text: str,
    options: MessageOptions,
    model: ChatModel | None,
    listener: events.Listener,
    *,
    title: str,
    document: Path | None,
) -> Outcome:
    outcome = Outcome(text)
    blocks = parse_markdown_text(text)
    settings = options.settings(document, _header(blocks))
    threads = pending(blocks, options, settings, title=title)
    if not threads:
        return outcome
    chat = _Answering(
        blocks,
        model or open_chat(settings.major),
        settings.system,
        load_prompts(settings.prompts_folder),
        options.again,
        listener,
        outcome,
    )
    tasks = [asyncio.create_task(chat.thread(thread)) for thread in threads]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        outcome.interrupted = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    outcome.text = chat.document()
    return outcome


def pending(blocks: Sequence[Block], options: MessageOptions, settings: Settings, *, title: str = "") -> list[Thread]:
    """The threads that these options ask to answer.

    Raises:
        LmmError: `options.at` names a line without a pending prompt; the error lists the lines that have one.
    """
    threads = plan(blocks, title=title, context_limit=settings.context_limit)
    if options.at is None:
        return threads
    found = threads_at(threads, blocks, options.at)
    if not found:
        lines = ", ".join(str(ask.line) for thread in threads for ask in thread.asks)
        raise LmmError(
            f"no prompt waits at line {options.at}", hint=f"prompts wait at {lines}" if lines else "none waits"
        )
    return found


def _header(blocks: Sequence[Block]) -> dict[str, Any] | None:
    return blocks[0].values() if blocks and isinstance(blocks[0], HeaderBlock) else None


@dataclass(frozen=True, slots=True)
class _Answering:
    """One run over a document's threads; threads run side by side, the prompts of one in order."""

    blocks: Sequence[Block]
    model: ChatModel
    system: str
    prompts: Prompts
    again: bool
    listener: events.Listener
    outcome: Outcome

    async def thread(self, thread: Thread) -> None:
        log = thread.log
        for ask in thread.asks:
            try:
                with_reply(self.blocks, ask, "", self.model.name)  # a block that takes no reply costs nothing
                reply = await self._reply(ask, chat_before(ask, log))
            except LmmError as error:
                self._fail(ask, error)
                return  # what follows in this block may continue what just failed
            if not ask.is_edit:
                log = (*log, Exchange(ask.prompt.word, ask.prompt.text, reply.text, reply.model))

    def document(self) -> str:
        """The document with the replies placed; those that cannot be become failures (the journal has them)."""
        answered = [(ask, reply.text, reply.model) for ask, reply in self.outcome.answered]
        blocks, failed = with_replies(self.blocks, answered)
        for ask, error in failed:
            self.outcome.answered = [pair for pair in self.outcome.answered if pair[0] is not ask]
            self._fail(ask, error)
        return serialize(blocks)

    def _keep(self, ask: Ask, reply: Reply, source: Literal["model", "journal"]) -> Reply:
        """Take a reply into the outcome at once, so that Ctrl-C finds it there."""
        self.outcome.answered.append((ask, reply))
        self.listener(events.Answered(ask, reply, source))
        return reply

    def _fail(self, ask: Ask, error: LmmError) -> None:
        self.outcome.failed.append((ask, error))
        self.listener(events.Failed(ask, error))

    async def _reply(self, ask: Ask, chat: tuple[Exchange, ...]) -> Reply:
        request = request_for(ask, chat, self.system, self.prompts)
        earlier = [(exchange.prompt, exchange.reply) for exchange in chat]
        key = journal.key_of(request.task, self.model.name, self.system, earlier, ask.prompt.text, ask.subject.text)
        match None if self.again else journal.get(key):
            case {"text": str(text), "model": str(model)}:
                return self._keep(ask, Reply(text, model), "journal")
        self.listener(events.Asking(ask, request))
        async with contextlib.aclosing(self.model.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    self.listener(events.Piece(ask, event.text))
                elif isinstance(event, Retrying):
                    self.listener(events.Again(ask, event.reason, event.wait))
                else:
                    with contextlib.suppress(LmmError, OSError):  # a full disk must not cost the reply
                        journal.put(key, {"text": event.text, "model": event.model})
                    self.outcome.usage += event.usage
                    return self._keep(ask, event, "model")
        raise RuntimeError(f"{self.model.name} ended its stream without a reply")


# -- scan ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanReport:
    """A document's text after a scan, what was found in it, and whether it was changed."""

    text: str
    problems: tuple[Problem, ...]
    changed: bool


def scan(path: str | Path, *, check: bool = False) -> ScanReport:
    """Complete a file's header where ``title`` or ``docid`` is missing, and report its problems.

    With `check`, nothing is written, and what is missing is reported.

    Raises:
        DocumentError: the file cannot be read or written.
    """
    path = Path(path)
    with contextlib.nullcontext() if check else files.document_lock(path):
        base = files.read_document(path)
        report = scan_text(base, name=path.stem, check=check)
        if report.changed:
            files.check_writable(path)
            saved = save_merged(path, base, report.text)
            return ScanReport(saved.text, report.problems, True)
        return report


def scan_text(text: str, *, name: str = "document", check: bool = False) -> ScanReport:
    """`scan` for a string; `name` stands for the file's name.

    >>> scan_text("Some text.\\n", name="notes").text.splitlines()[:2]
    ['---', 'title: notes']
    """
    blocks = parse_markdown_text(text)
    gaps = header_gaps(blocks) if check else []
    changed = text if check else serialize(complete_header(blocks, name=name))
    problems = find_problems(parse_markdown_text(changed))
    return ScanReport(changed, (*gaps, *problems), changed != text)


# -- clear ---------------------------------------------------------------------------------------


def clear_messages(path: str | Path, *, pending: bool = False) -> bool:
    """Remove the chats of a file (with `pending`, unanswered prompts too); whether there were any.

    A metadata block that held nothing else goes with them.
    """
    path = Path(path)
    with files.document_lock(path):
        base = files.read_document(path)
        text = clear_messages_text(base, pending=pending)
        if text == base:
            return False
        files.check_writable(path)
        save_merged(path, base, text)
        return True


def clear_messages_text(text: str, *, pending: bool = False) -> str:
    """`clear_messages` for a string.

    >>> clear_messages_text("---\\n~chat_:\\n  - query: a\\n    ~reply: b\\n---\\nText.\\n")
    'Text.\\n'
    """
    kept: list[Block] = []
    blocks = parse_markdown_text(text)
    for block, following in zip_longest(blocks, blocks[1:]):
        cleared = clear_chat(block, pending=pending) if isinstance(block, MetadataBlock) else block
        # An emptied header stays before another metadata block, which would take its place.
        if cleared is not None or (isinstance(block, HeaderBlock) and isinstance(following, MetadataBlock)):
            kept.append(cleared or block.with_source("---\n---\n"))
    return serialize(kept)


# -- edits ---------------------------------------------------------------------------------------


def accept_edits(path: str | Path, *, line: int | None = None) -> int:
    """Keep the new texts of a file's waiting edits (with `line`, of the one that covers it); how many.

    What the author made of a new text meanwhile is kept with it.

    Raises:
        LmmError: no edit waits at `line`, or an edit has lost its marks.
    """
    return _resolve_file(Path(path), "accept", line)


def reject_edits(path: str | Path, *, line: int | None = None) -> int:
    """Restore the old texts of a file's waiting edits, byte for byte; how many there were."""
    return _resolve_file(Path(path), "reject", line)


def accept_edits_text(text: str, *, line: int | None = None) -> str:
    """`accept_edits` for a string."""
    return serialize(resolve(parse_markdown_text(text), "accept", line=line)[0])


def reject_edits_text(text: str, *, line: int | None = None) -> str:
    """`reject_edits` for a string.

    >>> from lmm.models.testing import ScriptedModel
    >>> before = "---\\ntype: x\\n=: shorten\\n---\\nA long text.\\n"
    >>> edited = scan_messages_text(before, model=ScriptedModel(["A text."])).text
    >>> reject_edits_text(edited)
    '---\\ntype: x\\n---\\nA long text.\\n'
    >>> accept_edits_text(edited)
    '---\\ntype: x\\n---\\nA text.\\n'
    """
    return serialize(resolve(parse_markdown_text(text), "reject", line=line)[0])


def _resolve_file(path: Path, verdict: Verdict, line: int | None) -> int:
    with files.document_lock(path):
        base = files.read_document(path)
        blocks, count = resolve(parse_markdown_text(base), verdict, line=line)
        if count:
            files.check_writable(path)
            save_merged(path, base, serialize(blocks))
        return count
