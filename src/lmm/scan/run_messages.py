"""Scan documents: read, plan, ask the model, place the replies, save. The one file here that waits.

Every function has a twin with an `a` in front for callers with an event loop of their own, and works on
a file or on a string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmm import config_files, loop
from lmm.config import Settings
from lmm.disk import files, journal
from lmm.errors import LmmError
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.models.chat import open_chat
from lmm.models.port import ChatModel
from lmm.prompts.load import load_prompts
from lmm.scan import events
from lmm.scan.answering import Answering, Outcome
from lmm.scan.document_file import is_sound, open_document
from lmm.scan.header import check_header
from lmm.scan.messages import Thread, plan, threads_at


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """How pending prompts are answered.

    `model` overrides the configured one; `config` names a configuration file; `at` answers only the
    metadata block on that line; `again` asks anew what the journal could answer. A file that changed while
    the model was asked is written to when it has not changed for `settle` seconds.
    """

    model: str | None = None
    config: Path | None = None
    at: int | None = None
    again: bool = False
    settle: float = 0.1

    def settings(self, document: Path | None, header: Mapping[str, Any] | None) -> Settings:
        """The settings for a document with this header."""
        overrides = {"major": self.model} if self.model else {}
        return config_files.settings_for(document, header, config=self.config, overrides=overrides)


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
    document = open_document(path)
    async with document.alocked(on_wait=lambda: listener(events.Waiting(str(path)))):
        base = document.base
        blocks = parse_markdown_text(base)
        if any(isinstance(b, MetadataBlock) and b.prompts for b in blocks):
            files.check_writable(path)
        outcome = await _answer_text(base, options, model, listener, title=files.title_of(path), document=path)
        if outcome.text != base:
            outcome.interrupted |= not await document.still(options.settle)
            saved = document.save(outcome.text, check=is_sound)
            outcome.text, outcome.side_file, outcome.merged = saved.text, saved.side_file, saved.merged
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
    check_header(blocks, document=str(document or ""))
    settings = options.settings(document, _header(blocks))
    threads = pending(blocks, options, settings, title=title)
    if not threads:
        return outcome
    major = model or open_chat(settings.major)
    prompts = load_prompts(settings.prompts_folder)
    chat = Answering(blocks, settings, prompts, options.again, listener, outcome, major, minor=model)
    await chat.threads(threads)
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
