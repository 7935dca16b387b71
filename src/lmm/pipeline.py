"""The one pipeline of whatever changes a document: read, plan, ask, apply, save.

A planner says what is to be asked about a document, which is pure; a client asks; the planner puts what came back into
the document, which is pure again. Reading and saving are `lmm.Document`'s. Questions, edits, annotations, batch models
and extraction are planners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from lmm.config import Settings
from lmm.disk.diff import Conflict, three_way
from lmm.errors import Changed, Failure, LmmError, PartlyFailed
from lmm.markdown.blocks import Block, HeaderBlock, serialize
from lmm.markdown.parse_markdown import header_of, parse_markdown_text
from lmm.markdown.tree import HeaderNode, blocks_to_tree
from lmm.messages import Failed, Usage
from lmm.models.client import Client

R = TypeVar("R")
P = TypeVar("P")


@dataclass(frozen=True)
class ParsedDocument:
    """One version of a document, parsed once. `name` stands for its title where it has none; `file` is for messages.

    >>> parsed = ParsedDocument("# Cells\\n\\nThey divide.\\n", name="bio")
    >>> [block.kind for block in parsed.blocks], parsed.header
    (['heading', 'text'], None)
    """

    text: str
    name: str = ""
    file: str = ""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks, in order."""
        return tuple(parse_markdown_text(self.text))

    @property
    def header(self) -> HeaderBlock | None:
        """Its header, if it begins with one that can be read."""
        return header_of(self.blocks)

    def tree(self) -> HeaderNode:
        """A new tree of it: nodes can be changed."""
        return blocks_to_tree(self.blocks, title=self.name) or HeaderNode(title=self.name)


@dataclass(frozen=True, slots=True)
class Report(Generic[R]):
    """The outcome of one method on a document: results, failures, usage, whether the document changed.

    `hints` are for the author, `model` is who was asked; `interrupted` says that only what had arrived is there;
    `error` is what ended the work early: what was made before is in the document.
    """

    results: tuple[R, ...] = ()
    failures: tuple[Failure, ...] = ()
    usage: Usage = field(default_factory=Usage)
    changed: bool = False
    hints: tuple[str, ...] = ()
    model: str = ""
    interrupted: bool = False
    error: LmmError | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values; `results` are as they say themselves (``as_json``)."""
        return {
            "results": [result.as_json() for result in self.results],  # type: ignore[attr-defined]
            "failures": [{"place": str(f.place), "what": f.what, "error": str(f.error)} for f in self.failures],
            "usage": asdict(self.usage),
            "model": self.model,
            "changed": self.changed,
            "interrupted": self.interrupted,
        }

    def check(self) -> Report[R]:
        """This report, if nothing failed.

        Raises:
            PartlyFailed: something did; it carries the report.
        """
        if self.failures:
            raise PartlyFailed(self)
        return self

    def __add__(self, other: Report[R]) -> Report[R]:
        return Report(
            results=self.results + other.results,
            failures=self.failures + other.failures,
            usage=self.usage + other.usage,
            changed=self.changed or other.changed,
            hints=tuple(dict.fromkeys(self.hints + other.hints)),
            model=self.model or other.model,
            interrupted=self.interrupted or other.interrupted,
            error=self.error or other.error,
        )


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A document with what came back in it: its blocks, and the results and failures."""

    blocks: Sequence[Block]
    report: Report[Any] = field(default_factory=Report)


class Planner(Protocol[P, R]):
    """Something to do to a document with a model. `plan` and `apply` do no I/O."""

    def plan(self, document: ParsedDocument, settings: Settings) -> P:
        """What is to be asked."""
        ...

    async def ask(self, plan: P, client: Client) -> R:
        """Ask it; what failed is in the result. Cancelled, return what arrived."""
        ...

    def apply(self, document: ParsedDocument, plan: P, result: R) -> ChangedDocument:
        """The document, or a version of it that its author has changed since, with the result in it.

        What finds no place in that version any more is a failure; what failed before is none again.
        """
        ...


Change = Callable[[ParsedDocument], ChangedDocument]
"""What was done to a document, to be done again in a version that its author has changed since; pure."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change of which only the outcome is known: it is done again line by line."""

    before: str
    after: str

    def __call__(self, version: ParsedDocument) -> ChangedDocument:
        """The version with the lines that were changed.

        Raises:
            Changed: its author has changed the same lines.
        """
        try:
            text = three_way(self.before, self.after, version.text)
        except Conflict as conflict:
            raise Changed(version.text.encode(), Path(version.file), line=conflict.line) from None
        return ChangedDocument(parse_markdown_text(text))


async def work(document: ParsedDocument, planner: Planner[P, R], client: Client) -> tuple[str, Report[Any], Change]:
    """Plan, ask, apply: the document's text with what came of it, in memory."""
    plan = planner.plan(document, client.settings)
    result = await planner.ask(plan, client)

    def change(version: ParsedDocument) -> ChangedDocument:
        return planner.apply(version, plan, result)

    applied = change(document)
    for failure in applied.report.failures:
        client.tell(Failed(failure.error, failure.what), failure.place)
    text = serialize(applied.blocks)
    report = replace(
        applied.report,
        usage=client.usage,
        changed=text != document.text,
        hints=tuple(dict.fromkeys((*client.settings.hints, *applied.report.hints))),
        model=client.name,
        interrupted=client.interrupted,
    )
    return text, report, change
