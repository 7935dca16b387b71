"""What an agent can be offered of a course: one row is one tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lmm.disk.folder import configured
from lmm.errors import LmmError
from lmm.messages import ToolDefinition, ToolOutput, object_schema
from lmm.models.port import RunnableTool
from lmm_education.agent_tools.lookup import Lookup
from lmm_education.parts import CourseParts, course_above, is_course
from lmm_education.search.run import open_search

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
_NAMES = {"type": "array", "items": _TEXT}


@dataclass(frozen=True, slots=True)
class Row:
    """A tool: the name it has on a server of its own, as `Lookup` has it, and its name among an agent's other tools."""

    name: str
    among_others: str
    description: str
    parameters: Mapping[str, Any]


ROWS = (
    Row(
        "search",
        "course_search",
        "Find the passages of the course that fit a question or some key words best. Each comes with its place, as in "
        "cells.md:12-40, by which it can be cited and its section opened.",
        object_schema(
            ["query"],
            query=_TEXT | {"description": "a question, or key words"},
            limit=_COUNT | {"maximum": 20, "default": 5},
            types=_NAMES | {"description": "only these types of material, as exercise or definition"},
            documents=_NAMES | {"description": "only these documents: file or title"},
        ),
    ),
    Row(
        "mentions",
        "course_mentions",
        "Find every passage of the course that contains a term, letter for letter (case does not matter).",
        object_schema(["term"], term=_TEXT, limit=_COUNT | {"maximum": 50, "default": 20}),
    ),
    Row(
        "open_section",
        "course_section",
        "Read a whole section of the course.",
        object_schema(
            ["place"],
            place=_TEXT | {"description": "where it is, as places are shown: cells.md:12-40; or cells.md#Mitosis"},
            offset={"type": "integer", "minimum": -50, "maximum": 50, "default": 0,
                    "description": "1 reads the section after it, -1 the one before it"},
            page=_COUNT | {"default": 1, "description": "of a long section"},
        ),
    ),
    Row(
        "contents",
        "course_contents",
        "List the headings of the course, or of one document of it, with their places.",
        object_schema([], document=_TEXT | {"description": "the document's title or file; leave it out for all"}),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CourseTool:
    """One tool over a course that is open."""

    definition: ToolDefinition
    function: Callable[..., Awaitable[str]]

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """What the course has.

        Raises:
            SearchError: the question makes no sense here.
            StoreError: the store cannot be read.
            ModelError: a model is needed and does not answer.
        """
        return ToolOutput(await self.function(**arguments))


def course_tools(lookup: Lookup, *, among_others: bool) -> list[RunnableTool]:
    """The tools of `ROWS`; `among_others` gives names that tell them from tools that are not the course's."""
    return [
        CourseTool(
            ToolDefinition(row.among_others if among_others else row.name, row.description, row.parameters),
            getattr(lookup, row.name),
        )
        for row in ROWS
    ]


# -- declared in a ChatMD file ---------------------------------------------------------------------
# ``<tool name="course_search" course="../notes"/>``. What declares the tools and what it works with are known here by
# their attributes only.


class DeclaredTool(Protocol):
    """What is read of a declaration."""

    @property
    def name(self) -> str: ...
    @property
    def include(self) -> tuple[str, ...]: ...
    @property
    def roots(self) -> tuple[str, ...]: ...
    @property
    def course(self) -> str: ...


class PromptPlace(Protocol):
    """What is read of the place in which it stands: the prompt's folder, and the environment."""

    @property
    def folder(self) -> Path: ...
    @property
    def settings(self) -> Any: ...
    @property
    def environment(self) -> Mapping[str, str]: ...


@asynccontextmanager
async def open_course_search(declared: DeclaredTool, place: PromptPlace) -> AsyncGenerator[Sequence[RunnableTool]]:
    """The tools of the course that a declaration names; without one, of the course that the prompt lies in.

    Raises:
        LmmError: there is no course, nothing was ingested, or its settings cannot be read.
    """
    folder = course_folder(declared.course, place.folder)
    with CourseParts.open(folder, env=dict(place.environment) or None) as course:
        if await asyncio.to_thread(course.store.manifest) is None:
            raise LmmError(f"nothing was ingested into {course.store.location}", hint="lmm ingest PATH, in that folder")
        tools = course_tools(Lookup(open_search(course)), among_others=True)
        yield chosen(tools, declared.include)


def chosen(tools: Sequence[RunnableTool], names: Sequence[str]) -> list[RunnableTool]:
    """The tools of these names; all, if none are named.

    Raises:
        LmmError: there is no such tool.
    """
    known = {tool.definition.name: tool for tool in tools}
    for name in names:
        if name not in known:
            raise LmmError(f"course_search has no tool '{name}'", hint=f"it has {', '.join(known)}")
    return [known[name] for name in names] if names else list(tools)


def course_folder(named: str, folder: Path) -> Path:
    """The folder of a course: as it is named, relative to the prompt's, else the nearest above the prompt.

    Raises:
        LmmError: there is none.
    """
    if named:
        found = configured(folder, Path(named).expanduser()).resolve()
        if not found.is_dir():
            raise LmmError(f"there is no folder '{named}'", hint="course is relative to the prompt's folder")
        return found
    if is_course(folder):
        return folder
    above = course_above(folder)
    if above is None:
        raise LmmError("the prompt lies in no course", hint='say which: course="../notes"')
    return above
