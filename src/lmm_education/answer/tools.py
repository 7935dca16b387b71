"""The tools of agent mode: the model looks for itself. One row of `TOOLS` is one tool.

What they return is numbered like the sources of any answer, between tags, so that the model can cite it and
nothing in it passes for an instruction. A call that cannot be done returns a sentence that says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partialmethod
from typing import Any

from lmm.messages import Message, ToolCall, ToolDefinition, ToolResult, object_schema, render
from lmm_education.answer.sources import Source, Sources
from lmm_education.catalogue import Catalogue
from lmm_education.errors import SearchError
from lmm_education.material import Hit, is_called

Search = Callable[[str, int], Awaitable[Sequence[Hit]]]
_MOST_CHARACTERS = 8000  # of a section that is opened
_AROUND = 160  # characters on each side of a mention


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1}
_OF_A_SECTION = object_schema(
    ["number"], number=_NUMBER | {"description": "the number of a source that you were shown"}
)
TOOLS: tuple[ToolDefinition, ...] = (
    ToolDefinition(
        "search",
        "Find the passages of the course that fit a question or some key words best.",
        object_schema(["query"], query=_TEXT, limit=_NUMBER | {"maximum": 20, "default": 5}),
    ),
    ToolDefinition(
        "mentions",
        "Find every passage of the course that contains a term, letter for letter (case does not matter).",
        object_schema(["term"], term=_TEXT, limit=_NUMBER | {"maximum": 50, "default": 20}),
    ),
    ToolDefinition("open_section", "Read the whole section that a source belongs to.", _OF_A_SECTION),
    ToolDefinition("next_section", "Read the section after the one that a source belongs to.", _OF_A_SECTION),
    ToolDefinition("previous_section", "Read the section before the one that a source belongs to.", _OF_A_SECTION),
    ToolDefinition(
        "table_of_contents",
        "List the sections of the course, or of one document of it.",
        object_schema([], document=_TEXT | {"description": "the document's title or file; leave out for all"}),
    ),
)


class _CannotDo(Exception):
    """A call that makes no sense; the model reads why."""


@dataclass(slots=True)
class CourseTools:
    """The tools over a course, whose catalogue `view` gives; `sources` grows with what they return."""

    view: Callable[[], AbstractContextManager[Catalogue]]
    search: Search
    sources: Sources = field(default_factory=Sources)

    async def run(self, call: ToolCall) -> ToolResult:
        """What a call comes to; a wrong call comes to a sentence that says what is wrong."""
        try:
            arguments = _arguments(call)
            text = await getattr(self, f"_{call.name}")(**arguments)
        except (_CannotDo, SearchError) as error:
            return ToolResult(call.id, call.name, str(error), failed=True)
        return ToolResult(call.id, call.name, text)

    async def _search(self, query: str, limit: int = 5) -> str:
        return self._shown([Source.of(hit) for hit in await self.search(query, limit)])

    async def _mentions(self, term: str, limit: int = 20) -> str:
        if not term.strip():
            raise _CannotDo("name a term")
        with self.view() as catalogue:
            found = catalogue.mentions(term)
        rest = f"\n\n{len(found) - limit} more passages contain it." if len(found) > limit else ""
        return self._shown([Source.of(hit, text=excerpt(hit.text, term)) for hit in found[:limit]]) + rest

    async def _table_of_contents(self, document: str = "") -> str:
        with self.view() as catalogue:
            sections = catalogue.sections
        if document:
            sections = tuple(
                (s, title) for s, title in sections if is_called(document, s.place.document, s.place.file, title)
            )
        if not sections:
            raise _CannotDo("there is no such document" if document else "the course has no sections")
        lines, last = [], ""
        for section, title in sections:
            if section.place.file != last:
                last = section.place.file
                lines.append(f"{title} ({section.place.file})")
            if section.place.headings:
                lines.append(f"{'  ' * len(section.place.headings)}- {section.place.headings[-1]}")
        return "\n".join(lines)

    async def _open_section(self, number: int, by: int = 0) -> str:
        source = next((s for s in self.sources if s.number == number), None)
        if source is None:
            raise _CannotDo(f"you were shown no source {number}")
        with self.view() as catalogue:
            sections = catalogue.sections_of(source.place.file)
        at = next((i for i, section in enumerate(sections) if section.id == source.section), None)
        if at is None:
            raise _CannotDo("the sections of this course are not stored; search instead")
        if not 0 <= at + by < len(sections):
            raise _CannotDo(f"there is no section {'after' if by > 0 else 'before'} this one")
        section = sections[at + by]
        text = section.text[:_MOST_CHARACTERS]
        left_out = len(section.text) - len(text)
        cut = f"\n\nThe section goes on; {left_out} characters are left out." if left_out else ""
        return self._shown([Source.of_section(section, source.title, text)]) + cut

    _next_section = partialmethod(_open_section, by=1)
    _previous_section = partialmethod(_open_section, by=-1)

    def _shown(self, sources: Sequence[Source]) -> str:
        if not sources:
            return "Nothing was found."
        offered = []
        for source in sources:
            number = self.sources.number_of(source.id) or self.sources.next_number
            shown = replace(source, number=number)
            self.sources.add(shown)
            offered.append(shown.as_document())
        return render(Message("tool", "", tuple(offered))).rstrip()


def excerpt(text: str, term: str) -> str:
    """The part of a text around the first mention of a term, cut at words.

    >>> excerpt("one two three four", "three")
    'one two three four'
    """
    at = text.casefold().find(term.casefold())
    start, end = max(at - _AROUND, 0), at + len(term) + _AROUND
    if start:
        start = text.find(" ", start) + 1 or start
    cut = text[start:end] if end >= len(text) else text[start : text.rfind(" ", start, end)]
    return ("… " if start else "") + cut + (" …" if end < len(text) else "")


def _arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, checked against its tool's schema.

    >>> _arguments(ToolCall("1", "search", '{"query": "residual", "limit": 99}'))
    {'query': 'residual', 'limit': 20}
    """
    tool = next((t for t in TOOLS if t.name == call.name), None)
    if tool is None:
        raise _CannotDo(f"there is no tool {call.name}; there are {', '.join(t.name for t in TOOLS)}")
    try:
        given = json.loads(call.arguments)
    except ValueError as error:
        raise _CannotDo(f"the arguments are not JSON: {error}") from error
    known = tool.parameters["properties"]
    if not isinstance(given, dict) or not set(tool.parameters["required"]) <= set(given) <= set(known):
        raise _CannotDo(f"{call.name} takes an object with {', '.join(known)}; needed: {tool.parameters['required']}")
    return {name: _value(name, value, known[name]) for name, value in given.items()}


def _value(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "string":
        if not isinstance(value, str):
            raise _CannotDo(f"'{name}' must be text")
        return value
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,6}", str(value)):
        raise _CannotDo(f"'{name}' must be a whole number of 1 or more")
    return min(max(int(value), 1), schema.get("maximum", 10**6))
