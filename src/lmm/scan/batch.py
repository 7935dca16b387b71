"""Batch models: functions over a document's tree that add properties to it.

A batch model is registered under a name and gets a `Batch`, through which it asks the language model and
writes fields. The fields are made bottom-up, all sections of one depth side by side; what was made before
and whose text did not change is not made again; what people wrote or edited is never touched. The RAG
annotations are such a model (`lmm.scan.annotations`).

>>> @batch_model("shout")
... async def shout(batch: Batch) -> None:
...     async def make(node, text):
...         return node.title.upper()
...     await batch.annotate("shout", make)
>>> "shout" in registered()
True
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from lmm import journal
from lmm.errors import ConfigError, LmmError
from lmm.markdown.tree import HeaderNode, HeadingNode
from lmm.markdown.walk import own_text
from lmm.models.port import ChatModel, ChatRequest, Document, Message, Reply, Task, Usage, render
from lmm.scan import fingerprints
from lmm.scan.fingerprints import Fingerprint, State

Make = Callable[[HeadingNode, str], Awaitable[Any] | Any]
Source = Callable[[HeadingNode, Sequence[Any]], str | None]
BatchFunction = Callable[["Batch"], Awaitable[None] | None]

_REGISTRY: dict[str, BatchFunction] = {}


def batch_model(name: str) -> Callable[[BatchFunction], BatchFunction]:
    """Register a function, sync or async, as the batch model `name`.

    A sync function runs in a thread of its own and uses `Batch.run` for what must be awaited.
    """

    def register(function: BatchFunction) -> BatchFunction:
        _REGISTRY[name] = function
        return function

    return register


def registered() -> dict[str, BatchFunction]:
    """All batch models by name: those registered in this process, and those of entry points."""
    found = {point.name: point for point in entry_points(group="lmm.batch_models")}
    return {**{name: _loader(point) for name, point in found.items()}, **_REGISTRY}


def _loader(point: Any) -> BatchFunction:
    return lambda batch: point.load()(batch)


def find_batch_model(name: str) -> BatchFunction:
    """The batch model of that name.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    models = registered()
    if name not in models:
        known = ", ".join(sorted(models)) or "none is registered"
        raise ConfigError(f"there is no batch model '{name}'", hint=f"known: {known}; --from FILE.py loads yours")
    return models[name]


# -- what happens, for whoever shows progress ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """So many fields may have to be made for a field name."""

    field: str
    count: int


@dataclass(frozen=True, slots=True)
class Visited:
    """A field was looked at: made anew (`made`), or left as it is for the reason in `state`."""

    field: str
    node: HeadingNode
    state: State
    made: bool


@dataclass(frozen=True, slots=True)
class FieldFailed:
    """A field could not be made; those of the sections above it cannot be made either."""

    field: str
    node: HeadingNode
    error: LmmError


BatchEvent = Planned | Visited | FieldFailed
BatchListener = Callable[[BatchEvent], None]


class _Unavailable(Exception):
    """A value below is missing because its call failed."""


@dataclass(slots=True)
class Batch:
    """What a batch model works with: the tree, the language model, and where it all goes.

    `refresh` makes anew also what was made with another prompt, model or heading path; `again` asks anew
    what the journal could answer; `estimate` says that the model only counts.
    """

    tree: HeadingNode
    model: ChatModel
    system: str = ""
    language: str = "en"
    refresh: bool = False
    again: bool = False
    estimate: bool = False
    listener: BatchListener = lambda event: None
    usage: Usage = field(default_factory=Usage)
    failures: list[FieldFailed] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, prompt: str, *documents: Document, task: Task = "answer") -> str:
        """The model's reply to a prompt about documents; journaled, so that no reply is paid twice."""
        system = (Message("system", self.system),) if self.system else ()
        request = ChatRequest((*system, Message("user", prompt, documents)), task)
        key = journal.key_of("batch", self.model.name, [render(m) for m in request.messages])
        if not self.again and not self.estimate and (known := journal.get(key)) is not None:
            return str(known["text"])
        async with contextlib.aclosing(self.model.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, Reply):
                    if not self.estimate:
                        journal.put(key, {"text": event.text, "model": event.model})
                    self.usage += event.usage
                    return event.text
        raise RuntimeError(f"{self.model.name} ended its stream without a reply")

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Await something from a sync batch model."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_await(awaitable), self._loop).result()

    async def annotate(
        self, name: str, make: Make, *, source: Source | None = None, root: bool = False, made_by: str = ""
    ) -> None:
        """Make the field `name` for every section that needs it, bottom-up, sections side by side.

        Args:
            name: the field's name; it is written as ``~name``.
            make: the value from the section and its text; called only where the field is missing or its
                text changed. None writes nothing.
            source: the text that the value is made from, given the section and the values of the sections
                directly under it; None leaves the field out. By default the section's own text.
            root: whether the document itself gets the field, in its header.
            made_by: names the prompt; with the model and the heading path, it tells how a value was made.

        A failed call leaves out its field and those of the sections above; all others are made.
        """
        nodes = [node for node in _sections(self.tree) if root or not isinstance(node, HeaderNode)]
        self.listener(Planned(name, len(nodes)))
        how = f"{self.model.name if made_by else ''}\0{made_by}"
        with contextlib.suppress(_Unavailable):
            await self._visit(self.tree, name, make, source or _own_text, root, how)

    async def _visit(self, node: HeadingNode, name: str, make: Make, source: Source, root: bool, how: str) -> Any:
        children = [child for child in node.headings if not child.own("skip")]
        below = await asyncio.gather(
            *(self._visit(child, name, make, source, root, how) for child in children), return_exceptions=True
        )
        for result in below:
            if isinstance(result, BaseException):
                raise result
        if isinstance(node, HeaderNode) and not root:
            return None
        return await self._field(node, name, make, source(node, below), f"{how}\0{' > '.join(node.heading_path)}")

    async def _field(self, node: HeadingNode, name: str, make: Make, text: str | None, how: str) -> Any:
        values = node.metadata
        current = fingerprints.value_of(values, name)
        if text is None:
            return current
        state = fingerprints.state_of(values, name, text, how)
        if node.own("frozen") or node.inherited("frozen"):
            state = State.LOCKED
        wanted = state in fingerprints.STALE or (self.refresh and state is State.OTHERWISE)
        if not wanted:
            self.listener(Visited(name, node, state, False))
            return current
        try:
            value = make(node, text)
            if inspect.isawaitable(value):
                value = await value
            if value is not None:
                write_field(node, name, value, Fingerprint.of(text, value, how))
        except LmmError as error:
            failed = FieldFailed(name, node, error)
            self.failures.append(failed)
            self.listener(failed)
            raise _Unavailable from error
        self.listener(Visited(name, node, state, True))
        return value


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _own_text(node: HeadingNode, below: Sequence[Any]) -> str | None:
    return own_text(node) or None


def _sections(tree: HeadingNode) -> list[HeadingNode]:
    """The tree's sections, the root included, those that are skipped left out."""
    found = [tree]
    for section in found:
        found += [child for child in section.headings if not child.own("skip")]
    return found


def write_field(node: HeadingNode, name: str, value: Any, fingerprint: Fingerprint) -> None:
    """Write a generated field and its fingerprint; what an older program wrote bare becomes ``~field``."""
    values = node.metadata
    if isinstance(values.get(fingerprints.KEY), str):
        scalar = values[fingerprints.KEY]
        kept = {}
        for old in ("titles", "questions", "summary", "keywords"):
            if old in values:
                node.remove_metadata(old)
                node.set_metadata(f"~{old}", values[old])
                kept[old] = str(Fingerprint(scalar, fingerprints.value_hash(values[old]), "-"))
        node.set_metadata(fingerprints.KEY, kept)
    node.set_metadata(f"~{name}", value)
    node.set_metadata(fingerprints.KEY, fingerprints.with_fingerprint(node.metadata, name, fingerprint))


async def run_batch(function: BatchFunction, batch: Batch) -> None:
    """Run a batch model, sync or async, on the loop of the caller."""
    batch._loop = asyncio.get_running_loop()
    if inspect.iscoroutinefunction(function):
        await function(batch)
        return
    result = await asyncio.to_thread(function, batch)
    if inspect.isawaitable(result):
        await result
