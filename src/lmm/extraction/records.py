"""Records of the sections of documents: which sections are read, what is asked about each, what is valid in a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lmm.errors import Interrupted, LmmError, Place
from lmm.extraction.sections import Section, choose
from lmm.markdown.tree import HeadingNode
from lmm.messages import Attachment, ChatRequest, Message, Progress, Usage
from lmm.models.client import Ask, Client
from lmm.models.structured import Schema, structured
from lmm.pipeline import Failure, Report
from lmm.prompts.templates import Prompts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A valid value and where it came from: file (empty for a string or tree), line, titles down to it."""

    file: str
    line: int
    headings: tuple[str, ...]
    value: T


@dataclass(frozen=True, slots=True)
class Source:
    """A document that records are taken from, who is asked about it, and in which words."""

    tree: HeadingNode
    client: Client
    prompts: Prompts
    file: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One section to be read, and what is asked about it."""

    source: Source
    section: Section
    ask: Ask


def plan_records(sources: Sequence[Source], schema: Schema, select: str | None = None) -> list[Job]:
    """The sections to be read, in the order of the documents (see `lmm.extraction.sections.choose`). Asks nothing."""
    chosen = choose([source.tree for source in sources], select)
    return [
        Job(source, section, _ask(source, section, schema))
        for source, sections in zip(sources, chosen, strict=True)
        for section in sections
    ]


def _ask(source: Source, section: Section, schema: Schema) -> Ask:
    settings = source.client.settings
    # The default system message is about chats; one that somebody wrote counts here too.
    system = () if settings.origins["system"] == "default" else (Message("system", settings.system),)
    prompt = source.prompts.fill("extract", schema=schema.text)
    about = Attachment(section.text, "text", section.source.replace('"', "'"))
    request = ChatRequest((*system, Message("user", prompt, (about,))), "extract")
    return Ask(request, Place(source.file, section.line, path=section.headings), "extract")


async def read_records(jobs: Sequence[Job], schema: Schema) -> Report[Record[Any]]:
    """Read all sections side by side, as far as the models' limits allow; `results` are in the documents' order."""
    done = 0

    def tell() -> None:
        if jobs:
            jobs[0].source.client.tell(Progress("sections", done, len(jobs)), Place())

    async def one(job: Job) -> list[Record[Any]] | Failure | None:
        nonlocal done
        place = job.ask.place
        told = job.source.prompts
        try:
            flow = structured(job.ask, schema, again=lambda problem: told.fill("extract_again", error=problem))
            values = await job.source.client.run(flow)
        except Interrupted:
            return None
        except LmmError as error:
            return Failure(place, error)
        finally:
            done += 1
            tell()
        return [Record(place.file, place.line, place.path, value) for value in values]

    if not jobs:
        return Report()
    for job in jobs:
        job.source.client.open()
    tell()
    outcomes = await jobs[0].source.client.gather(one(job) for job in jobs)
    clients = {id(job.source.client): job.source.client for job in jobs}.values()
    return Report(
        results=tuple(record for found in outcomes if isinstance(found, list) for record in found),
        failures=tuple(found for found in outcomes if isinstance(found, Failure)),
        usage=sum((client.usage for client in clients), Usage()),
        hints=tuple(dict.fromkeys(hint for client in clients for hint in client.settings.hints)),
        model=", ".join(sorted({client.name for client in clients})),
        interrupted=any(client.interrupted for client in clients),
    )
