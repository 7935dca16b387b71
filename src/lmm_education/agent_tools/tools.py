"""The tools of a course for agents, as a ChatMD file declares them: ``<tool name="course_search" course="../notes"/>``.

What declares the tools and what it works with are known here by their attributes only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from lmm.disk.folder import configured
from lmm.errors import LmmError
from lmm.models.port import RunnableTool
from lmm_education.answer.lookup import Lookup, course_tools
from lmm_education.errors import StoreMissing
from lmm_education.parts import CourseParts, course_root
from lmm_education.search.search import CourseSearch


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
            raise StoreMissing(course.store.location)
        tools = course_tools(Lookup(CourseSearch(course)), among_others=True)
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
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # a loop of links, a name no folder can have
            if (found := configured(folder, Path(named).expanduser()).resolve()).is_dir():
                return found
        raise LmmError(f"there is no folder '{named}'", hint="course is relative to the prompt's folder")
    if (above := course_root(folder)) is None:
        raise LmmError("the prompt is not in a course", hint='name one: course="../notes"')
    return above
