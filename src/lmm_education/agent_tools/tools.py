"""What an agent can be offered of a course: one row is one tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmm.messages import ToolDefinition, ToolOutput, object_schema
from lmm.models.port import RunnableTool
from lmm_education.agent_tools.lookup import Lookup

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
_NAMES = {"type": "array", "items": _TEXT}


@dataclass(frozen=True, slots=True)
class Row:
    """A tool: the name it has on a server of its own, and among an agent's other tools; the method it calls."""

    name: str
    among_others: str
    method: str
    description: str
    parameters: Mapping[str, Any]


ROWS = (
    Row(
        "search",
        "course_search",
        "search",
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
        "mentions",
        "Find every passage of the course that contains a term, letter for letter (case does not matter).",
        object_schema(["term"], term=_TEXT, limit=_COUNT | {"maximum": 50, "default": 20}),
    ),
    Row(
        "open_section",
        "course_section",
        "open_section",
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
        "contents",
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
            getattr(lookup, row.method),
        )
        for row in ROWS
    ]
