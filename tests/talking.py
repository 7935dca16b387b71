"""Documents that are in no file, in one call: what tests ask, edit, annotate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lmm import Document, Report
from lmm.config_tables import Config
from lmm.errors import Failure
from lmm.messages import Listener, Reply, ignore
from lmm.models.port import ChatModel
from lmm.testing import ScriptedModel


class PaidScript(ScriptedModel):
    """A scripted model whose replies the journal keeps, as those of models that cost something."""

    journaled = True


class Talked(Document):
    """A document that a verb was applied to, and the verb's `report`."""

    report: Report[Any]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What failed."""
        return self.report.failures

    @property
    def answers(self) -> list[Reply]:
        """The replies to its prompts."""
        return [answered.reply for answered in self.report.results]


def answered(text: str, *, title: str = "", listener: Listener = ignore, **options: Any) -> Talked:
    """A document whose prompts were answered (`Document.answer`)."""
    document = Talked.from_text(text, title=title, listener=listener)
    document.report = document.answer(**options)
    return document


def annotated(
    text: str,
    *,
    flags: Mapping[str, bool | None] | None = None,
    title: str = "",
    listener: Listener = ignore,
    config: Config | None = None,
    **options: Any,
) -> Talked:
    """A document that was annotated (`Document.annotate`)."""
    document = Talked.from_text(text, title=title, listener=listener, config=config)
    document.report = document.annotate(flags=flags, **options)
    return document


def worked(
    batch: Any,
    text: str,
    *,
    model: ChatModel | None = None,
    title: str = "",
    listener: Listener = ignore,
    **options: Any,
) -> Talked:
    """A document that a batch model worked on (`Document.run`)."""
    document = Talked.from_text(text, title=title, listener=listener)
    document.report = document.batch(batch, model=model, **options)
    return document


def accepted(text: str, **options: Any) -> str:
    """The text with its edits accepted."""
    document = Document.from_text(text)
    document.accept(**options)
    return document.text


def rejected(text: str, **options: Any) -> str:
    """The text with its edits rejected."""
    document = Document.from_text(text)
    document.reject(**options)
    return document.text


def cleared(text: str, **options: Any) -> str:
    """The text without its chats."""
    document = Document.from_text(text)
    document.clear(**options)
    return document.text


def fixed(text: str) -> str:
    """The text with its header complete, and no code in metadata that knitr would run."""
    document = Document.from_text(text)
    document.complete()
    document.fix()
    return document.text


async def scanned(path: str | Path) -> Report[Any]:
    """`scan_messages` for callers with a loop of their own."""
    async with Document.open(path) as document:
        try:
            return await document.aanswer()
        finally:
            await document.asave()


async def asked(text: str) -> Report[Any]:
    """A text's prompts, answered on the caller's loop."""
    return await Document.from_text(text).aanswer()


def resolved(path: Path, verb: Callable[[Document], int]) -> int:
    """How many edits of a file were accepted or rejected, and saved."""
    document = Document.open(path)
    count = verb(document)
    document.save()
    return count
