"""A course as it is published to other programs: its tools, an answer with sources among them.

`chatmd.mcp_server` opens this by name and knows it by its attributes only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from lmm.errors import LmmError
from lmm.messages import ToolDefinition, object_schema
from lmm.models.port import RunnableTool
from lmm_education.answer.answer import Answer, basis_notice
from lmm_education.answer.answering import Answering
from lmm_education.answer.lookup import CourseTool, Lookup, course_tools
from lmm_education.answer.verification import mark_of, marked
from lmm_education.errors import StoreMissing
from lmm_education.parts import CourseParts
from lmm_education.search.search import CourseSearch

ASK = object_schema(["question"], question={"type": "string"})


@dataclass(frozen=True, slots=True)
class McpCourse:
    """One course that is open. `tools` are those of `course_tools`, and ``ask``."""

    course: CourseParts
    lookup: Lookup
    tools: tuple[RunnableTool, ...]

    @property
    def title(self) -> str:
        """What students know it as."""
        return self.course.settings.serve.title or self.course.settings.storage.course

    @property
    def instructions(self) -> str:
        """What a client's model should know before it uses the tools."""
        return (
            f"The material of the course '{self.title}'. Search it before you answer questions about its subject, and "
            "cite the places that results come with, such as cells.md:12-40. open_section reads on from a place."
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ingested."""
        try:
            with self.course.view() as catalogue:
                return not catalogue.documents
        except StoreMissing:
            return True


@asynccontextmanager
async def open_published_course(
    config: Path | None, course: str | None, model: str | None
) -> AsyncGenerator[McpCourse]:
    """The course that `lmm serve` would serve here, for as long as the context is open.

    Raises:
        ConfigError: the configuration cannot be read.
        StoreError: the store cannot be read.
    """
    with CourseParts.open(config=config, course=course, model=model) as opened:
        served = opened.for_students()
        answering = Answering(CourseSearch(served))
        lookup = Lookup(answering.searching)
        tools = (_ask_tool(answering), *course_tools(lookup, among_others=False))
        yield McpCourse(served, lookup, tools)


def _ask_tool(answering: Answering) -> RunnableTool:
    async def ask(question: str) -> str:
        async for event in answering.stream(question):
            if isinstance(event, Answer):
                return answer_text(event)
        raise LmmError("the answer was not completed")

    words = "Answer a question from the course's material, by a language model that sees its best passages; with "
    words += "the sources that the answer cites. Slower than search."
    return CourseTool(ToolDefinition("ask", words, ASK), ask)


def answer_text(answer: Answer) -> str:
    """An answer and where it comes from, as text; what was not found in its sources is marked where it stands."""
    text = marked(answer.text, answer.verification.failures, lambda failure: f"[{mark_of(failure)}]").strip()
    cited = [source.reference for source in (answer.cited if answer.found else answer.offered)]
    notices = [f"Note: {notice}" for notice in (*answer.notices, *basis_notice(answer))]
    nearest = "" if answer.found or not cited else "What comes nearest:"
    return "\n\n".join(part for part in (text, nearest, "\n".join(cited), "\n".join(notices)) if part)
