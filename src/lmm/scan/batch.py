"""Batch models: functions over a document's tree that add properties to its sections.

A batch model is registered under a name and gets a `Batch`, through which it asks the language model and
makes fields. The fields are made bottom-up, all sections of one depth side by side; what was made before
and whose text did not change is not made again; what people wrote or edited is never touched. The RAG
annotations are such a model (`lmm.scan.annotations`).

>>> @batch_model("shout")
... def shout(batch: Batch) -> None:
...     batch.run(batch.annotate("shout", lambda section, text: section.title.upper()))
>>> "shout" in registered()
True
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lmm import journal
from lmm.errors import ConfigError, LmmError, ModelRejected
from lmm.markdown import metadata
from lmm.markdown.tree import HeadingNode
from lmm.markdown.walk import without_metadata
from lmm.models.port import ChatModel, ChatRequest, Document, Message, Task, Usage, ask, render
from lmm.models.remembered import ask_once
from lmm.scan.fingerprints import State

BatchFunction = Callable[["Batch"], Awaitable[None] | None]

_REGISTRY: dict[str, BatchFunction] = {}


# -- the registry ----------------------------------------------------------------------------------


def batch_model(name: str) -> Callable[[BatchFunction], BatchFunction]:
    """Register a function, sync or async, as the batch model `name`.

    A sync function runs in a thread of its own and uses `Batch.run` for what must be awaited.
    """

    def register(function: BatchFunction) -> BatchFunction:
        _REGISTRY[name] = function
        return function

    return register


def registered() -> list[str]:
    """The names of all batch models: those registered in this process, and those of entry points."""
    return sorted({*_entry_points(), *_REGISTRY})


def find_batch_model(name: str) -> BatchFunction:
    """The batch model of that name; one registered in this process comes before an entry point.

    Raises:
        ConfigError: there is none (the error names those that exist), or its entry point cannot be loaded.
    """
    if name in _REGISTRY:
        return _REGISTRY[name]
    point = _entry_points().get(name)
    if point is None:
        known = ", ".join(registered()) or "none is registered"
        raise ConfigError(f"there is no batch model '{name}'", hint=f"known: {known}; --from FILE.py loads yours")
    try:
        function: BatchFunction = point.load()
    except Exception as error:
        raise ConfigError(
            f"the batch model '{name}' cannot be loaded: {type(error).__name__}: {error}",
            where=f"entry point {point.value}",
            hint="install or mend the package that it comes from",
        ) from error
    return function


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="lmm.batch_models")}


# -- what happens, for whoever shows progress ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another process holds the document's lock."""

    document: str


@dataclass(frozen=True, slots=True)
class Planned:
    """So many sections are going to be looked at for a field; each gives one `Visited` or `FieldFailed`."""

    field: str
    count: int


@dataclass(frozen=True, slots=True)
class Visited:
    """A field was looked at: made anew (`made`), or not, for the reason in `state`."""

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


BatchEvent = Waiting | Planned | Visited | FieldFailed
BatchListener = Callable[[BatchEvent], None]


# -- what fields are made from ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Material:
    """What a value is made from.

    `text` is what the function that makes it gets. `counted` is the part of it whose change makes the value
    stale, by default all; `headings` the other part, whose change is only listed. `value` is taken as the
    value, without making one. A section whose material `stands` for itself gets no value; the section above
    it gets the material in its place.
    """

    text: str
    counted: str | None = None
    headings: tuple[str, ...] = ()
    value: Any = None
    stands: bool = False

    @property
    def fingerprinted(self) -> str:
        """The text whose change makes the value stale."""
        return self.text if self.counted is None else self.counted


def is_on(value: Any) -> bool:
    """Whether a switch such as ``skip`` or ``frozen`` is on; ``no`` and ``off`` are text in YAML 1.2, and mean no.

    >>> is_on(True), is_on("yes"), is_on("no"), is_on(None), is_on("False")
    (True, True, False, False, False)
    """
    return str(value).strip().lower() not in ("no", "off", "false", "n", "0", "none", "")


def sections_of(node: HeadingNode) -> list[HeadingNode]:
    """The sections directly under `node`, those with ``skip`` left out."""
    return [child for child in node.headings if not is_on(child.own("skip"))]


def text_of(node: HeadingNode) -> str:
    """The text directly under a heading, paragraphs with ``skip`` left out."""
    return without_metadata([b for text in node.texts if not is_on(text.own("skip")) for b in text.own_blocks()])


def own_material(node: HeadingNode, below: Sequence[Any]) -> str | None:
    """The default of `Field.source`: the section's own text, if it has any."""
    return text_of(node) or None


Make = Callable[[HeadingNode, str], Any]
MakeSource = Callable[[HeadingNode, Sequence[Any]], Material | str | None]


@dataclass(frozen=True, slots=True)
class Field:
    """A field that a batch model makes.

    Args:
        name: the field's name; it is written as ``~name``.
        make: the value from the section and its text, sync or async; called only where the field is missing
            or its text changed. None writes nothing.
        source: what the value is made from, given the section and the values (or the material that stands
            for them) of `sections_of` it; None leaves the field out.
        root: whether the document itself gets the field, in its header.
        made_by: names the prompt; with the model and the headings, it tells how a value was made.
    """

    name: str
    make: Make
    source: MakeSource = own_material
    root: bool = False
    made_by: str = ""


# -- the batch -------------------------------------------------------------------------------------


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
    _calls: set[asyncio.Task[Any]] = field(default_factory=set)
    _closed: bool = False

    async def ask(self, prompt: str, *documents: Document, task: Task = "answer") -> str:
        """The model's reply to a prompt about documents; journaled, so that no reply is paid twice.

        Raises:
            ModelError: the model did not answer, or its answer was cut off.
        """
        system = (Message("system", self.system),) if self.system else ()
        request = ChatRequest((*system, Message("user", prompt, documents)), task)
        key = journal.key_of("batch", self.model.name, [render(m) for m in request.messages])
        if self.estimate:
            return await self._estimated(request, key)
        reply, asked = await ask_once(self.model, request, key, again=self.again)
        if asked:
            self.usage += reply.usage
        if reply.cut:
            raise ModelRejected(
                f"{self.model.name} was cut off at its output limit",
                hint="set a larger 'max_tokens' in config.toml and run with --again",
            )
        return reply.text

    async def _estimated(self, request: ChatRequest, key: str) -> str:
        match None if self.again else journal.get(key):
            case {"text": str(text)}:
                return text
        reply = await ask(self.model, request)
        self.usage += reply.usage
        return reply.text

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Await something from a sync function."""
        if self._loop is None or self._running_loop() is self._loop:
            raise RuntimeError("Batch.run is for sync functions; in an async one, await")
        if self._closed:
            raise KeyboardInterrupt
        future = asyncio.run_coroutine_threadsafe(self._tracked(awaitable), self._loop)
        try:
            return future.result()
        except BaseException:
            if self._closed:  # cancelled: let the function end
                raise KeyboardInterrupt from None
            raise

    @staticmethod
    def _running_loop() -> asyncio.AbstractEventLoop | None:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    async def _tracked(self, awaitable: Awaitable[Any]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            return await awaitable
        finally:
            self._calls.discard(task)

    async def annotate(
        self, name: str, make: Make, *, source: MakeSource = own_material, root: bool = False, made_by: str = ""
    ) -> None:
        """Make one field for every section that needs it, bottom-up, sections side by side (see `Field`).

        A failed call leaves out its field and those of the sections above; all others are made.
        """
        await self.make_fields(Field(name, make, source, root, made_by))

    async def make_fields(self, *fields: Field) -> None:
        """Make several fields side by side; they are written in this order, whichever reply comes first."""
        from lmm.scan.making import Making

        await Making(self, fields).run()

    def value_below(self, node: HeadingNode, name: str) -> Any:
        """The value of a field that counts for a section, whoever wrote it."""
        return metadata.lookup(node.metadata, name)
