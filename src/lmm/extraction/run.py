"""Extract data from documents: ask the model about each section, validate, ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from lmm import loop
from lmm.disk import journal
from lmm.errors import LmmError
from lmm.extraction.json_reply import NoJson, read_json
from lmm.extraction.plan import ExtractOptions, Job, Source, plan_extraction
from lmm.extraction.schemas import Mismatch, Schema, make_schema
from lmm.messages import ChatRequest, Message, Usage
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.models.remembered import ask_once

RETRIES = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A valid value and where it came from: file (empty for a string or tree), line, titles down to it."""

    file: str
    line: int
    headings: tuple[str, ...]
    value: T


@dataclass(frozen=True, slots=True)
class Failure:
    """A section that gave no data, and why."""

    file: str
    line: int
    headings: tuple[str, ...]
    error: LmmError

    def __str__(self) -> str:
        return f"{self.file or 'text'}:{self.line}: {self.error}"


@dataclass(slots=True)
class Extraction:
    """What came of it, in the order of the documents. `sections` is how many were read."""

    records: list[Record[Any]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    sections: int = 0
    usage: Usage = field(default_factory=Usage)
    hints: tuple[str, ...] = ()


class ExtractionFailed(LmmError):
    """Some sections gave no data; `extraction` has the records of the others."""

    def __init__(self, extraction: Extraction) -> None:
        failures = extraction.failures
        more = f", and {len(failures) - 1} more sections" if len(failures) > 1 else ""
        super().__init__(f"{failures[0]}{more}", hint="the records of the others: error.extraction.records")
        self.extraction = extraction


Progress = Callable[[int, int], None]


def _no_progress(done: int, total: int) -> None:
    """Tell nobody."""


@overload
def extract(
    document: Source,
    schema: type[list[T]],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[T]]: ...
@overload
def extract(
    document: Source,
    schema: type[T],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[T]]: ...
@overload
def extract(
    document: Source,
    schema: Mapping[str, Any],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]: ...
def extract(
    document: Source,
    schema: Any,
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]:
    """One record per section of a document, or several where `schema` is a list.

    Every record is valid: a reply that is not is sent back with the error, twice. The same question is not
    paid twice: what the journal knows is not asked, unless `again` is set.

    Args:
        document: a path; a string with a line end in it, which is the markdown itself; or a tree.
        schema: a Pydantic model, a list of one, any type Pydantic knows, or a JSON schema as a mapping.
        select: a title or part of one, or ``key=value`` for metadata; else every section with text of its own.
        model: a name, such as ``OpenAI/gpt-4.1-mini``, or a model; else the configured minor model.

    Raises:
        ExtractionFailed: after all sections were read, if some gave no data; it has the records of the others.
        DocumentError, ConfigError: the document, the schema or the configuration cannot be read.

    >>> from lmm.models.testing import ScriptedModel
    >>> schema = {"type": "object", "properties": {"phases": {"type": "integer"}}, "required": ["phases"]}
    >>> extract("# Mitosis\\n\\nFour phases.\\n", schema, model=ScriptedModel(['{"phases": 4}']))
    [Record(file='', line=1, headings=('Mitosis',), value={'phases': 4})]
    """
    return loop.run(_extract(document, schema, select, model, config, again))


@overload
async def aextract(
    document: Source,
    schema: type[list[T]],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[T]]: ...
@overload
async def aextract(
    document: Source,
    schema: type[T],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[T]]: ...
@overload
async def aextract(
    document: Source,
    schema: Mapping[str, Any],
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]: ...
async def aextract(
    document: Source,
    schema: Any,
    select: str | None = None,
    model: str | ChatModel | None = None,
    *,
    config: str | Path | None = None,
    again: bool = False,
) -> list[Record[Any]]:
    """`extract` for callers with an event loop of their own; many at once stay within the model's limit."""
    return await loop.run_async(_extract(document, schema, select, model, config, again))


def extract_files(
    paths: Sequence[Path],
    schema: Schema,
    options: ExtractOptions = ExtractOptions(),
    *,
    model: ChatModel | None = None,
    progress: Progress = _no_progress,
) -> Extraction:
    """The data in files, the sections of all of them read side by side; failures are reported, not raised.

    Raises:
        DocumentError, ConfigError: a file, or the configuration, cannot be read.
    """
    return loop.run(_run(plan_extraction(paths, schema, options, model), schema, options.again, progress))


async def _extract(
    document: Source,
    schema: Any,
    select: str | None,
    model: str | ChatModel | None,
    config: str | Path | None,
    again: bool,
) -> list[Record[Any]]:
    named, given = (model, None) if model is None or isinstance(model, str) else (None, model)
    options = ExtractOptions(select, named, Path(config) if config else None, again)
    compiled = make_schema(schema)
    extraction = await _run(plan_extraction([document], compiled, options, given), compiled, again, _no_progress)
    if extraction.failures:
        raise ExtractionFailed(extraction)
    return extraction.records


# -- asking ----------------------------------------------------------------------------------------


async def _run(jobs: Sequence[Job], schema: Schema, again: bool, progress: Progress) -> Extraction:
    """Read all sections side by side, as far as the model's limit allows."""
    result = Extraction(sections=len(jobs), hints=tuple(dict.fromkeys(h for job in jobs for h in job.settings.hints)))
    done = 0

    async def one(job: Job) -> list[Record[Any]] | Failure:
        nonlocal done
        place = (job.file, job.section.line, job.section.headings)
        try:
            found: list[Record[Any]] | Failure = [
                Record(*place, value) for value in await _values(job, models[job.settings.minor], schema, again, result)
            ]
        except LmmError as error:
            found = Failure(*place, error)
        done += 1
        progress(done, len(jobs))
        return found

    progress(0, len(jobs))
    models = {job.settings.minor: job.given or shared_chat(job.settings.minor) for job in jobs}
    tasks = [asyncio.ensure_future(one(job)) for job in jobs]
    try:
        outcomes = await asyncio.gather(*tasks)
    except BaseException:  # Ctrl-C, or a validator of the user's that fails: what arrived is in the journal
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            result.failures.append(outcome)
        else:
            result.records += outcome
    if result.usage.requests:
        journal.forget_old()
    return result


async def _values(job: Job, model: ChatModel, schema: Schema, again: bool, result: Extraction) -> list[Any]:
    """The valid records of a section. What an earlier run remembers as invalid to the end is asked anew.

    Raises:
        LmmError: the model did not answer, or not validly.
    """
    try:
        return await _converse(job, model, schema, again, result)
    except _NeverValid as error:
        if error.is_new:
            raise
    return await _converse(job, model, schema, True, result)


async def _converse(job: Job, model: ChatModel, schema: Schema, again: bool, result: Extraction) -> list[Any]:
    request, problem, any_new = job.request, "", False
    for _ in range(1 + RETRIES):
        reply, is_new = await ask_once(model, request, job.key(request), again=again)
        result.usage += reply.usage
        any_new |= is_new
        try:
            return _read(reply.text, schema)
        except (NoJson, Mismatch) as error:
            problem = str(error)
        if reply.cut:
            raise _NeverValid(
                "the reply was cut off at the model's output limit",
                hint="set a larger max_tokens under [minor], or choose smaller sections",
                is_new=any_new,
            )
        told = job.prompts.fill("extract_again", error=problem)
        exchange = (Message("assistant", reply.text), Message("user", told))
        request = ChatRequest((*request.messages, *exchange), "extract")
    raise _NeverValid(f"no valid reply in {1 + RETRIES}; the last one:\n{problem}", is_new=any_new)


class _NeverValid(LmmError):
    """No reply was valid; `is_new` tells whether one of them was asked for in this run."""

    def __init__(self, message: str, *, hint: str = "", is_new: bool) -> None:
        super().__init__(message, hint=hint)
        self.is_new = is_new


def _read(reply: str, schema: Schema) -> list[Any]:
    """The valid records in a reply: of the first value that is valid, whatever else is there.

    Raises:
        NoJson, Mismatch: there is none; the message is about the first value.
    """
    problems = []
    for value in read_json(reply):
        try:
            return schema.records(value)
        except Mismatch as error:
            problems.append(error)
    raise problems[0]
