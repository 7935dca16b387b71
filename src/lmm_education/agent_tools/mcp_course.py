"""A course as it is published to other programs: its tools, an answer with sources among them, and its documents.

`chatmd.mcp_server` opens this by name and knows it by its attributes only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
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
from lmm_education.material import Section
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument
from lmm_education.search.search import CourseSearch

ASK = object_schema(["question"], question={"type": "string"})


@dataclass(frozen=True, slots=True)
class McpCourse:
    """One course that is open. `tools` are those of `course_tools`, and ``ask``."""

    course: CourseParts
    lookup: Lookup
    tools: tuple[RunnableTool, ...]

    @property
    def name(self) -> str:
        return self.course.settings.storage.course

    @property
    def title(self) -> str:
        """What students know it as."""
        return self.course.settings.serve.title or self.name

    @property
    def instructions(self) -> str:
        """What a client's model should know before it uses the tools."""
        return (
            f"The material of the course '{self.title}'. Search it before you answer questions about its subject, and "
            "cite the places that results come with, such as cells.md:12-40. open_section reads on from a place."
        )

    def documents(self) -> list[tuple[str, str]]:
        """File and title of each document, by file; none where nothing was ingested."""
        return [(document.file, document.title) for document in self._stored()]

    def read(self, file: str) -> str:
        """A document as it was ingested: its sections in order.

        Raises:
            LmmError: there is no such document.
        """
        with self.course.view() as catalogue:
            sections = catalogue.sections_of(file)
        if not sections:
            raise LmmError(f"the course has no document '{file}'")
        return "\n\n".join(_with_headings(sections)) + "\n"

    def _stored(self) -> Sequence[StoredDocument]:
        try:
            with self.course.view() as catalogue:
                return catalogue.documents
        except StoreMissing:
            return ()


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


def _with_headings(sections: Sequence[Section]) -> Iterator[str]:
    """The texts of sections, with the headings that are new at each."""
    above: tuple[str, ...] = ()
    for section in sections:
        headings = section.place.headings
        for depth in range(1, len(headings) + 1):
            if headings[:depth] != above[:depth]:
                yield f"{'#' * max(1, section.level - len(headings) + depth)} {headings[depth - 1]}"
        above = headings
        if text := section.text.strip("\n"):
            yield text


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
