"""The course as tools for agents: in a ChatMD file, or through a Model Context Protocol server.

`chatmd` refers to these functions by name only, in its table of tools, and this module knows its declarations only as
protocols. ``course_search`` offers the tools of a course; ``index_markdown_docs`` and ``markdown_search`` index and
search folders of markdown. Such an index is a folder with a store of its own and the file `ABOUT`, which says what was
indexed. Only changed files are embedded again, and those that are gone are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lmm.disk.folder import Folder, configured
from lmm.errors import LmmError
from lmm.messages import Attachment, Message, ToolDefinition, object_schema, render
from lmm.models.port import RunnableTool
from lmm_education.answer.answer import Answer, basis_notice
from lmm_education.answer.answering import Answering
from lmm_education.answer.lookup import NOTHING, CourseTool, Lookup, course_tools
from lmm_education.answer.sources import LABEL
from lmm_education.answer.verification import mark_of, marked
from lmm_education.config import CourseSettings, StorageSettings
from lmm_education.errors import SearchError, StoreMissing
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.reports import IngestReport
from lmm_education.ingestion.stored import has_other_settings
from lmm_education.material import Passage
from lmm_education.options import IngestOptions, SearchOptions
from lmm_education.parts import CourseParts, course_root
from lmm_education.search.search import CourseSearch

if TYPE_CHECKING:
    from lmm_education.web.gate import CourseGate


class DeclaredTool(Protocol):
    """The part of a tool declaration that is used here."""

    @property
    def name(self) -> str: ...
    @property
    def include(self) -> tuple[str, ...]: ...
    @property
    def roots(self) -> tuple[str, ...]: ...
    @property
    def course(self) -> str: ...


class PromptPlace(Protocol):
    """The part of the place of a prompt that is used here: its folder, and the environment."""

    @property
    def folder(self) -> Path: ...
    @property
    def settings(self) -> Any: ...
    @property
    def environment(self) -> Mapping[str, str]: ...


# -- a course declared in a ChatMD file: ``<tool name="course_search" course="../notes"/>`` ----


@asynccontextmanager
async def open_course_search(declared: DeclaredTool, place: PromptPlace) -> AsyncGenerator[Sequence[RunnableTool]]:
    """Open the tools of the course that a declaration names, or of the course that contains the prompt.

    Raises:
        LmmError: there is no course, nothing was ingested, or its settings cannot be read.
    """
    folder = course_folder(declared.course, place.folder)
    with CourseParts.open(folder, env=dict(place.environment) or None) as course:
        if await asyncio.to_thread(course.store.manifest) is None:
            raise StoreMissing(course.store.location)
        tools = course_tools(Lookup(CourseSearch(course)), among_others=True)
        known = {tool.definition.name: tool for tool in tools}
        for name in declared.include:
            if name not in known:
                raise LmmError(f"course_search has no tool '{name}'", hint=f"it has {', '.join(known)}")
        yield [known[name] for name in declared.include or known]


def course_folder(named: str, folder: Path) -> Path:
    """Return the folder of a course: the named one, relative to the prompt's, or the nearest above the prompt.

    Raises:
        LmmError: there is none.
    """
    if named:
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # circular links, invalid names
            if (found := configured(folder, Path(named).expanduser()).resolve()).is_dir():
                return found
        raise LmmError(f"there is no folder '{named}'", hint="course is relative to the prompt's folder")
    if (above := course_root(folder)) is None:
        raise LmmError("the prompt is not in a course", hint='name one: course="../notes"')
    return above


# -- folders of markdown ---------------------------------------------------------------------------


ABOUT = "index.json"
FOLDER = ".md_index"
ALL = "all"
_NAME = re.compile(r"\w[\w.-]{0,63}")
_LONGEST = 8000  # characters of a passage in a result
_FAILURES = 5  # failed documents listed in a message
_TEXT = {"type": "string"}
_WHERE = _TEXT | {"description": f"the folder in which indexes are kept; {FOLDER} if left out"}
INDEX = object_schema(
    ["root", "index_name", "description"],
    root=_TEXT | {"description": "the folder whose markdown files are indexed, with its subfolders"},
    index_name=_TEXT | {"description": "letters, digits, '_', '-' and '.'"},
    description=_TEXT | {"description": "what is in there, in a sentence, for the model that searches"},
    vector_db_root=_WHERE,
)
SEARCH = object_schema(
    ["query"],
    query=_TEXT | {"description": "a question, or key words"},
    k={"type": "integer", "minimum": 1, "maximum": 50, "default": 5, "description": "how many passages"},
    index_name=_TEXT | {"description": f"one index; '{ALL}' if left out"},
    vector_db_root=_WHERE,
)


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """An index as its file `ABOUT` describes it; `root` is the folder of its documents."""

    folder: Path
    root: Path
    description: str

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Indexes:
    """The functions of the two tools, confined to `roots`; `place` has the models' settings."""

    place: PromptPlace
    roots: tuple[Path, ...]

    async def index(self, root: str, index_name: str, description: str, vector_db_root: str = FOLDER) -> str:
        """Index the markdown files of a folder, or update an existing index.

        Raises:
            LmmError: a path is outside of the roots, or the store or the embedding model fails.
        """
        if not _NAME.fullmatch(index_name) or index_name == ALL:
            raise LmmError(f"'{index_name}' is not a valid name for an index", hint="letters, digits, '_', '-' and '.'")
        documents, folder = self.path(root), self.path(vector_db_root) / index_name
        if not documents.is_dir():
            raise LmmError(f"there is no folder '{root}'")
        if folder.exists() and any(folder.iterdir()) and read_index(folder) is None:
            raise LmmError(f"'{folder.name}' is a folder of something else", hint="choose another index_name")
        index = FolderIndex(folder, documents, description)
        report = await asyncio.to_thread(self._bring_up_to_date, index)
        return _indexing_text(index, report)

    async def search(self, query: str, k: int = 5, index_name: str = ALL, vector_db_root: str = FOLDER) -> str:
        """Return the best passages from one index, or from all indexes in a folder.

        Raises:
            LmmError: there is no such index, or it cannot be searched.
        """
        known = {index.name: index for index in read_indexes(self.path(vector_db_root))}
        if index_name != ALL and index_name not in known:
            has = f"there are {', '.join(known)}" if known else "index_markdown_docs makes one"
            raise SearchError(f"there is no index '{index_name}'", hint=has)
        wanted = list(known.values()) if index_name == ALL else [known[index_name]]
        if not wanted:
            raise SearchError("nothing has been indexed yet", hint="index_markdown_docs does it")
        found = []
        for index in wanted:
            with self._open(index) as course:
                hits = (await CourseSearch(course).asearch(query, SearchOptions(limit=k, sections=False))).hits
            found.append([(index, hit) for hit in hits])
        # The best of each index, then the second of each: scores of different stores are not comparable.
        best = enumerate((each for rank in zip_longest(*found) for each in rank if each), 1)
        passages = [_passage(index, hit, number, self.place.folder) for number, (index, hit) in islice(best, k)]
        return render(Message("tool", "", tuple(passages))).rstrip() or NOTHING

    def path(self, written: str) -> Path:
        """Resolve a path that the model gave, relative to the prompt's folder.

        Raises:
            LmmError: it is outside of the roots.
        """
        if "\0" in written:
            raise LmmError("a path cannot contain a NUL character")
        path = (self.place.folder / Path(written)).resolve()
        if not any(path.is_relative_to(root) for root in self.roots):
            raise LmmError(f"'{written}' is outside of what this tool may use",
                           hint=f"it may use {', '.join(map(str, self.roots))}")  # fmt: skip
        return path

    def _bring_up_to_date(self, index: FolderIndex) -> IngestReport:
        with self._open(index) as course:
            options = IngestOptions(prune=True, again=has_other_settings(course))
            report = ingest_into(course, [index.root], options)
        about = {"description": index.description, "root": str(index.root)}
        Folder(index.folder).write(ABOUT, json.dumps(about, ensure_ascii=False, indent=2) + "\n")
        return report

    @contextmanager
    def _open(self, index: FolderIndex) -> Iterator[CourseParts]:
        """Open the store of an index, with default settings and the prompt's embedding model."""
        storage = StorageSettings(folder=index.folder / "store", root=index.folder, course="documents")
        settings = CourseSettings(root=index.root, storage=storage)
        with CourseParts(settings, self.place.settings, index.root, env=dict(self.place.environment)) as course:
            yield course


# -- the tools of folders --------------------------------------------------------------------------


@asynccontextmanager
async def open_index_markdown_docs(
    declared: DeclaredTool, place: PromptPlace
) -> AsyncGenerator[Sequence[RunnableTool]]:
    """Open ``<tool name="index_markdown_docs"/>``, confined to its roots."""
    words = "Index the markdown files of a folder, so that markdown_search finds passages in them. Later calls with "
    words += "the same index_name bring it up to date."
    yield [CourseTool(ToolDefinition(declared.name, words, INDEX), Indexes(place, _roots(declared, place)).index)]


@asynccontextmanager
async def open_markdown_search(declared: DeclaredTool, place: PromptPlace) -> AsyncGenerator[Sequence[RunnableTool]]:
    """Open ``<tool name="markdown_search"/>``, confined to its roots; its description lists the existing indexes."""
    words = "Search markdown files that were indexed with index_markdown_docs, by meaning and by words."
    known = read_indexes(place.folder / FOLDER)
    listed = "".join(f"\n- {index.name}: {' '.join(index.description.split())}" for index in known)
    definition = ToolDefinition(declared.name, words + (f" Indexes:{listed}" if listed else ""), SEARCH)
    yield [CourseTool(definition, Indexes(place, _roots(declared, place)).search)]


def _roots(declared: DeclaredTool, place: PromptPlace) -> tuple[Path, ...]:
    named = declared.roots or (".",)
    return tuple((place.folder / Path(root).expanduser()).resolve() for root in named)


# -- index files and results -----------------------------------------------------------------------


def read_index(folder: Path) -> FolderIndex | None:
    """Return the index in a folder; None if there is none."""
    try:
        about = json.loads(Folder(folder).read(ABOUT))
        return FolderIndex(folder, Path(about["root"]), str(about.get("description", "")))
    except (LmmError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_indexes(folder: Path) -> list[FolderIndex]:
    """Return the indexes in a folder, by name."""
    inside = [folder / one.name for one in Folder(folder).entries() if one.kind == "folder"] if folder.is_dir() else []
    return [index for each in inside if (index := read_index(each)) is not None]


def _passage(index: FolderIndex, hit: Passage, number: int, folder: Path) -> Attachment:
    """Return a passage as the model sees it; the file is named as other tools would have to name it."""
    file = Path(os.path.relpath(index.root / hit.place.file, folder.resolve())).as_posix()
    cut, more = " …" if len(hit.with_above) > _LONGEST else "", (("section", hit.path), ("index", index.name))
    return Attachment(hit.with_above[:_LONGEST] + cut, LABEL, str(replace(hit.place, file=file)), number, more)


def _indexing_text(index: FolderIndex, report: IngestReport) -> str:
    """Summarize the result of indexing for an agent."""
    counts = {state: report.count(state) for state in ("new", "changed", "unchanged")}
    counts["removed"] = sum(lost.pruned for lost in report.lost)
    done = ", ".join(f"{number} {state}" for state, number in counts.items() if number) or "no documents"
    text = f"Index {index.name}: {done}; {report.embedded} passages embedded."
    if failed := report.failed:
        more = f"; and {len(failed) - _FAILURES} more" if len(failed) > _FAILURES else ""
        text += f" Not indexed: {'; '.join(map(str, failed[:_FAILURES]))}{more}."
    return text


# -- a course for MCP clients ----------------------------------------------------------------------


ASK = object_schema(["question"], question={"type": "string"})


@dataclass(frozen=True, slots=True)
class McpCourse:
    """An open course for MCP clients. `tools` are those of `course_tools`, and ``ask``."""

    course: CourseParts
    lookup: Lookup
    tools: tuple[RunnableTool, ...]

    @property
    def title(self) -> str:
        """The title for students."""
        return self.course.settings.serve.title or self.course.settings.storage.course

    @property
    def instructions(self) -> str:
        """Instructions for the model of a client."""
        return (
            f"The material of the course '{self.title}'. Search it before you answer questions about its subject, and "
            "cite the places that results come with, such as cells.md:12-40. open_section reads on from a place."
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been ingested."""
        try:
            with self.course.view() as catalogue:
                return not catalogue.documents
        except StoreMissing:
            return True


@asynccontextmanager
async def open_published_course(
    config: Path | None, course: str | None, model: str | None
) -> AsyncGenerator[McpCourse]:
    """Open the course that `lmm serve` would serve here, for the duration of the context.

    Raises:
        ConfigError: the configuration cannot be read.
        StoreError: the store cannot be read.
    """
    with CourseParts.open(config=config, course=course, model=model) as opened:
        yield published(opened, Answering(CourseSearch(opened.for_students())))


def published(course: CourseParts, answering: Answering) -> McpCourse:
    """Return a course as MCP clients get it; `answering` is that of the course for students."""
    settings, served, searching, gate = course.settings.serve, answering.searching.course, answering.searching, None
    if settings.daily_tokens or settings.daily_cost:  # a budget that all who ask share with `lmm serve`
        from lmm_education.web.gate import GatedSearch
        from lmm_education.web.service import open_gate, state_of

        gate = open_gate(course, state_of(course))
        searching = GatedSearch(served, gate=gate, refusal=_SPENT)
    lookup = Lookup(searching)
    return McpCourse(served, lookup, (_ask_tool(answering, gate), *course_tools(lookup, among_others=False)))


_SPENT = "the day's budget of this course is used up"


def _ask_tool(answering: Answering, gate: CourseGate | None) -> RunnableTool:
    async def ask(question: str) -> str:
        async with gate.passing(_SPENT) if gate else nullcontext() as spending:
            async for event in answering.stream(question):
                if isinstance(event, Answer):
                    if spending:
                        await spending.settle(event.usage, event.model)
                    return answer_text(event)
        raise LmmError("the answer was not completed")

    words = "Answer a question from the course's material, by a language model that sees its best passages; with "
    words += "the sources that the answer cites. Slower than search."
    return CourseTool(ToolDefinition("ask", words, ASK), ask)


def answer_text(answer: Answer) -> str:
    """Return an answer with its sources as text; quotations and claims not found in its sources are marked."""
    text = marked(answer.text, answer.verification.failures, lambda failure: f"[{mark_of(failure)}]").strip()
    cited = [source.reference for source in answer.sources]
    notices = [f"Note: {notice}" for notice in (*answer.notices, *basis_notice(answer))]
    nearest = "" if answer.found or not cited else "What comes nearest:"
    return "\n\n".join(part for part in (text, nearest, "\n".join(cited), "\n".join(notices)) if part)
