"""The common pipeline of all changes to a document: read, plan, ask, apply, save.

A planner plans the requests about a document (a pure function); a client sends them; the replies are a patch, which is
applied to the document (pure again). `lmm.Document` reads and saves. Questions, edits, annotations, batch models and
extraction are planners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from lmm.config import Settings
from lmm.errors import Failure, LmmError, PartlyFailed
from lmm.markdown.blocks import Block, HeaderBlock
from lmm.markdown.parse_markdown import header_of, parse_markdown_text
from lmm.markdown.tree import HeaderNode, blocks_to_tree
from lmm.messages import Usage
from lmm.models.client import Client
from lmm.terminal import count

R = TypeVar("R")
P = TypeVar("P")


@dataclass(frozen=True)
class ParsedDocument:
    """One version of a document, parsed once. `name` is used if it has no title; `file` is for messages.

    >>> parsed = ParsedDocument("# Cells\\n\\nThey divide.\\n", name="bio")
    >>> [block.kind for block in parsed.blocks], parsed.header
    (['heading', 'text'], None)
    """

    text: str
    name: str = ""
    file: str = ""

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the document, in order."""
        return tuple(parse_markdown_text(self.text))

    @property
    def header(self) -> HeaderBlock | None:
        """The header of the document, if it begins with one that can be read."""
        return header_of(self.blocks)

    def tree(self) -> HeaderNode:
        """Return a new tree of the document; its nodes can be changed."""
        return blocks_to_tree(self.blocks, title=self.name) or HeaderNode(title=self.name)


@dataclass(frozen=True, slots=True, repr=False)
class Report(Generic[R]):
    """The outcome of one method on a document: results, failures, usage, whether the document changed.

    `hints` are for the author, `model` is the model that was asked; `interrupted` says that the results are incomplete;
    `error` is the error that ended the work early: the results until then are in the document.
    """

    results: tuple[R, ...] = ()
    failures: tuple[Failure, ...] = ()
    usage: Usage = field(default_factory=Usage)
    changed: bool = False
    hints: tuple[str, ...] = ()
    model: str = ""
    interrupted: bool = False
    error: LmmError | None = None

    def __repr__(self) -> str:
        failed = [*map(str, self.failures), *([str(self.error)] if self.error else [])]
        return f"Report({'; '.join([count(len(self.results), 'result'), *failed])})"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values; each of the `results` is converted by its own ``as_json``."""
        return {
            "results": [result.as_json() for result in self.results],  # type: ignore[attr-defined]
            "failures": [{"place": str(f.place), "what": f.what, "error": str(f.error)} for f in self.failures],
            "usage": asdict(self.usage),
            "model": self.model,
            "changed": self.changed,
            "interrupted": self.interrupted,
        }

    def check(self) -> Report[R]:
        """Return this report, if nothing failed.

        Raises:
            PartlyFailed: something failed; it carries the report.
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
    """A document with the replies applied: its blocks, and a report of results and failures."""

    blocks: Sequence[Block]
    report: Report[Any] = field(default_factory=Report)


Patch = Callable[[ParsedDocument], ChangedDocument]
"""A change of a document as a value, which is applied to any version of it; a pure function.

What does not fit into a version is among the failures of the report.
"""


class Planner(Protocol[P, R]):
    """A task on a document that needs a model. `plan` does no I/O."""

    def plan(self, document: ParsedDocument, settings: Settings) -> P:
        """Plan the requests."""
        ...

    async def ask(self, plan: P, client: Client) -> tuple[Patch, Report[R]]:
        """Send the requests; return the patch with the results, and a report with the failures.

        When cancelled, the patch has what has arrived.
        """
        ...
