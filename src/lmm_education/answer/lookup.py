"""Tools with which models look things up in a course: agents, MCP clients, and the answering model in agent mode. Each
row of `ROWS` is a tool.

Nothing but the numbers of sources is remembered between calls. A section is identified by its place
(``cells.md:12-40``), which is part of every result. So a place from an earlier conversation, or from another client of
the same server, is still valid.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lmm.messages import Message, ToolCall, ToolDefinition, ToolOutput, ToolResult, object_schema, render
from lmm.models.port import RunnableTool
from lmm.models.structured import make_schema
from lmm_education.answer.sources import Sources, as_document
from lmm_education.catalogue import Catalogue, Entry, contents_of, spaced
from lmm_education.errors import SearchError
from lmm_education.material import Lines, Passage, Section, is_called
from lmm_education.options import SearchOptions
from lmm_education.search.search import CourseSearch, notices_of_files

T = TypeVar("T")
_AROUND = 160  # characters shown on each side of a mention
_PAGE = 12_000  # characters of a section per page
_PLACE = re.compile(r"(?P<file>[^#]*?)(?::(?P<line>\d+)(?:-\d+)?(?:, [^#]*)?)?(?:#(?P<heading>.*))?", re.DOTALL)
_MOST_HEADINGS = 400  # headings listed at once
NOTHING = "Nothing was found."


@dataclass(frozen=True, slots=True)
class Lookup:
    """Looks things up in one open course. Every method returns text for a model.

    With `sources`, every result is added to them and numbered, so that it can be cited; `options` apply to every
    search, their `documents` to everything.
    """

    searching: CourseSearch
    sources: Sources | None = None
    options: SearchOptions = field(default_factory=SearchOptions)

    async def run(self, call: ToolCall) -> ToolResult:
        """Run a call of one of the tools in `ROWS`; errors become messages in the result."""
        tools = {tool.name: tool for tool in ROWS.values()}
        try:
            if call.name not in tools:
                raise SearchError(f"there is no tool {call.name}; there are {', '.join(tools)}")
            arguments = make_schema(tools[call.name].parameters).validate(json.loads(call.arguments))
            return ToolResult(call.id, call.name, await getattr(self, call.name)(**arguments))
        except SearchError as error:
            return ToolResult(call.id, call.name, str(error), failed=True)
        except ValueError as error:
            return ToolResult(call.id, call.name, f"the arguments are not valid: {error}", failed=True)

    async def search(self, query: str, limit: int = 5, types: Sequence[str] = (), documents: Sequence[str] = ()) -> str:
        """Return the best passages for a query.

        Raises:
            SearchError: the query cannot be asked.
            StoreError: the store cannot be read.
        """
        own = self.options
        options = own.replace(limit=limit, types=own.types or types, documents=own.documents or documents)
        result = await self.searching.asearch(query, options)
        return "".join([self._rendered(result.hits), *(f"\n\nNote: {notice}" for notice in result.notices)])

    async def mentions(self, term: str, limit: int = 20) -> str:
        """Return all headings and passages that contain a term, in the order of the course.

        Raises:
            SearchError: the term is empty.
        """
        if not term.strip():
            raise SearchError("name a term")
        found = [hit for hit in await self._read(lambda catalogue: catalogue.mentions(term)) if self._may_read(hit)]
        rest = f"\n\n{len(found) - limit} more passages contain it." if len(found) > limit else ""
        notes = await self._notes(found[:limit])
        sections = [pair for pair in await self._read(lambda catalogue: catalogue.sections) if self._may_read(pair[0])]
        titled = [entry for entry in contents_of(sections) if entry.level and spaced(term) in spaced(entry.title)]
        above = "\n".join(["Headings that contain it:", *map(_line, titled[:limit]), "", ""]) if titled else ""
        texts = self._rendered(replace(hit, text=excerpt(hit.text, term)) for hit in found[:limit])
        return above + (texts if found or not titled else "") + rest + notes

    async def open_section(self, place: str, offset: int = 0, page: int = 1) -> str:
        """Return the section at a place, or the one `offset` sections after or before it; a long one in pages.

        Raises:
            SearchError: there is no such section.
        """
        sections = [pair for pair in await self._read(_sections) if self._may_read(pair[0])]
        at = _section_at(sections, place) + offset
        file = sections[at - offset][0].place.file
        if not 0 <= at < len(sections) or sections[at][0].place.file != file:
            raise SearchError(f"there is no section {'after' if offset > 0 else 'before'} this one in {file}")
        section, title = sections[at]

        def opened() -> list[Passage]:
            with self.searching.view() as view:
                return view.sections([section.id])

        if not (found := await asyncio.to_thread(opened)):
            raise SearchError("the course has changed: search again")
        whole = found[0]
        pages = max(1, -(-len(whole.text) // _PAGE))
        if page > pages:
            raise SearchError(f"the section has {pages} page{'s' if pages > 1 else ''}")
        text = whole.text[(page - 1) * _PAGE : page * _PAGE]
        more = f"\n\nThis is page {page} of {pages}." if pages > 1 else ""
        before, after = (_heading(sections, at + by, file) for by in (-1, 1))
        passage = replace(whole, text=text, title=title, above=(), before=before, after=after)
        return self._rendered([passage]) + more + await self._notes([passage])

    async def contents(self, document: str = "") -> str:
        """List the headings of the course or of one document, each with its place; for a large course, its documents.

        Raises:
            SearchError: there is no such document.
        """
        sections = [pair for pair in await self._read(_sections) if self._may_read(pair[0])]
        name = document.strip().casefold()
        chosen = [(s, title) for s, title in sections if not name or _is_in(s, title, name)]
        if not chosen:
            raise SearchError("there is no such document" if name else "the course has no sections")
        entries = list(contents_of(chosen))
        if not name and sum(entry.level > 0 for entry in entries) > _MOST_HEADINGS:
            return _documents(chosen)
        return "\n".join(map(_line, entries))

    async def _notes(self, found: Sequence[Passage]) -> str:
        """Return notes about files that changed since they were ingested."""
        root = self.searching.course.root
        notices = await self._read(lambda catalogue: notices_of_files(catalogue, root, found))
        return "".join(f"\n\nNote: {notice}" for notice in notices)

    def _may_read(self, of: Passage | Section) -> bool:
        """Return whether a text is in one of the documents that the tools are bound to."""
        names = self.options.documents
        return not names or any(is_called(name, of.place.document, of.place.file) for name in names)

    async def _read(self, read: Callable[[Catalogue], T]) -> T:
        def in_view() -> T:
            with self.searching.course.view() as catalogue:
                return read(catalogue)

        return await asyncio.to_thread(in_view)

    def _rendered(self, found: Iterable[Passage]) -> str:
        """Return sources between tags, so that the model does not take their text for instructions."""
        passages = found if self.sources is None else map(self.sources.offer, found)
        return render(Message("tool", "", tuple(as_document(source) for source in passages))).rstrip() or NOTHING


def _sections(catalogue: Catalogue) -> Sequence[tuple[Section, str]]:
    if not catalogue.sections:
        raise SearchError("the sections of this course are not stored", hint="search instead")
    return catalogue.sections


def _line(entry: Entry) -> str:
    place = f" ({entry.file}:{Lines(entry.line, entry.last)})" if entry.section else ""
    return f"{'  ' * entry.level}- {entry.title}{place}" if entry.level else f"{entry.title} ({entry.file})"


def _documents(sections: Sequence[tuple[Section, str]]) -> str:
    """List the documents of these sections, with their number of sections."""
    counted = Counter((title, section.place.file) for section, title in sections)
    lines = [
        f"{title or file} ({file}): {number} section{'s' if number > 1 else ''}"
        for (title, file), number in counted.items()
    ]
    more = [f"… and {len(lines) - _MOST_HEADINGS} more documents"] if len(lines) > _MOST_HEADINGS else []
    return "\n".join([*lines[:_MOST_HEADINGS], *more, "Name a document to see its headings."])


def _section_at(sections: Sequence[tuple[Section, str]], place: str) -> int:
    """Return the index of the section that a place refers to: a file, a line in it or a heading."""
    match = _PLACE.fullmatch(place.strip())
    assert match is not None  # it takes any text
    file, line, heading = match["file"].strip().casefold(), int(match["line"] or 0), match["heading"]
    inside = [i for i, (section, title) in enumerate(sections) if not file or _is_in(section, title, file)]
    if heading is not None:
        named = heading.strip().casefold()
        inside = [i for i in inside if named in map(str.casefold, sections[i][0].place.names)]
    if not inside:
        raise SearchError(f"there is no section at '{place}'", hint="give a place as it is shown, as in notes.md:12-40")
    return max((i for i in inside if sections[i][0].place.lines.first <= line), default=inside[0])


def _is_in(section: Section, title: str, document: str) -> bool:
    return is_called(document, section.place.document, section.place.file, title)


def _heading(sections: Sequence[tuple[Section, str]], at: int, file: str) -> str:
    if not 0 <= at < len(sections) or sections[at][0].place.file != file:
        return ""
    place = sections[at][0].place
    return place.headings[-1] if place.headings else str(place)


def excerpt(text: str, term: str) -> str:
    """Return the part of a text around the first mention of a term, cut at words.

    >>> excerpt("one two three four", "three")
    'one two three four'
    """
    at = text.casefold().find(term.casefold())
    start, end = max(at - _AROUND, 0), at + len(term) + _AROUND
    if start:
        start = text.find(" ", start) + 1 or start
    cut = text[start:end] if end >= len(text) else text[start : text.rfind(" ", start, end)]
    return ("… " if start else "") + cut + (" …" if end < len(text) else "")


# -- the tools -------------------------------------------------------------------------------------


_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
_NAMES = {"type": "array", "items": _TEXT}


ROWS = {
    "course_search": ToolDefinition(
        "search",
        "Find the passages of the course that fit a question or some key words best. Each comes with the lines of its "
        "text, as in cells.md:12-40, by which it can be cited and its section opened.",
        object_schema(
            ["query"],
            query=_TEXT | {"description": "a question, or key words"},
            limit=_COUNT | {"maximum": 20, "default": 5},
            types=_NAMES | {"description": "only material of these types, such as exercise, if there is any"},
            documents=_NAMES | {"description": "only these documents: file or title"},
        ),
    ),
    "course_mentions": ToolDefinition(
        "mentions",
        "Find where a term occurs in the course, letter for letter (case does not matter): headings, and excerpts of "
        "passages. Search or open a section to read on.",
        object_schema(["term"], term=_TEXT, limit=_COUNT | {"maximum": 50, "default": 20}),
    ),
    "course_section": ToolDefinition(
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
    "course_contents": ToolDefinition(
        "contents",
        "List the headings of the course, or of one document of it, with their lines and those below them.",
        object_schema([], document=_TEXT | {"description": "the document's title or file; leave it out for all"}),
    ),
}  # fmt: skip
"""The tools by their names among tools of other origin; each is a method of `Lookup`."""


@dataclass(frozen=True, slots=True)
class CourseTool:
    """A tool for an open course."""

    definition: ToolDefinition
    function: Callable[..., Awaitable[str]]

    async def call(self, arguments: Mapping[str, Any]) -> ToolOutput:
        """Run the tool.

        Raises:
            SearchError: the arguments make no sense for this course.
            StoreError: the store cannot be read.
            ModelError: a required model does not answer.
        """
        return ToolOutput(await self.function(**arguments))


def course_tools(lookup: Lookup, *, among_others: bool) -> list[RunnableTool]:
    """Return the tools of `ROWS`; with `among_others`, under names that are distinct from an agent's other tools."""
    return [
        CourseTool(replace(tool, name=name if among_others else tool.name), getattr(lookup, tool.name))
        for name, tool in ROWS.items()
    ]
