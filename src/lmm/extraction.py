"""Extraction of records from sections of documents: choosing sections, asking the model, writing tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic_core import to_jsonable_python

from lmm.csv_table import csv_text
from lmm.disk.files import check_writable, replace, shown
from lmm.errors import ConfigError, Failure, Interrupted, LmmError, Place
from lmm.markdown.blocks import Block, TextBlock
from lmm.markdown.quotations import line_of
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, TextNode, own_text, preorder, without_metadata
from lmm.messages import Attachment, ChatRequest, Message, Progress, Usage
from lmm.models.client import Client
from lmm.models.port import Ask
from lmm.models.structured import Schema, structured
from lmm.pipeline import Report
from lmm.prompts.templates import Prompts

_KEY_MARKS = str.maketrans("", "", "_.~-")
_MISSING = object()
Test = Callable[[Node], bool]


@dataclass(frozen=True, slots=True)
class RecordSection:
    """A part of a document that is read by itself: its first line, its path of headings, its text.

    `title` is the document's title, which is not a heading; `blocks` are its texts, each with its line.
    """

    line: int
    headings: tuple[str, ...]
    text: str
    title: str = ""
    blocks: tuple[tuple[int, str], ...] = ()

    @property
    def source(self) -> str:
        """The origin of the text, as sent to the model."""
        return " > ".join([self.title, *self.headings] if self.title not in ("", *self.headings[:1]) else self.headings)


def choose(trees: Sequence[HeadingNode], select: str | None = None) -> list[list[RecordSection]]:
    """Return the chosen sections of each tree, in document order; sections without text are left out.

    Without `select`: all headings, or the document if it has none, except those marked ``skip``.
    ``key=value`` and ``key=`` (any value) choose by metadata, own or inherited, and paragraphs by their own;
    any other text chooses by title: a part of it, or a pattern with ``*`` and ``?``, in any case. If no title
    matches, it is taken for a metadata key.

    A section's text is everything under it, except sections that are chosen themselves: nothing is read
    twice.

    >>> from lmm.markdown import load_text
    >>> tree = load_text("# Cells\\n\\nCells divide.\\n\\n## Mitosis\\n\\nFour phases.\\n")
    >>> [section.text for section in choose([tree])[0]]
    ['# Cells\\n\\nCells divide.', '## Mitosis\\n\\nFour phases.']
    >>> [section.text for section in choose([tree], "cells")[0]]
    ['# Cells\\n\\nCells divide.\\n\\n## Mitosis\\n\\nFour phases.']
    """
    test, found = _test(select, trees), list[list[RecordSection]]()
    for tree in trees:
        chosen = [node for node in preorder(tree) if _may_be_chosen(node, tree) and test(node)]
        ids, title = {id(node) for node in chosen}, tree.title if isinstance(tree, HeaderNode) else ""
        sections = ((node, _blocks(node, ids)) for node in chosen)
        found.append([
            RecordSection(*_place_of(node), text, title, tuple((block.line, block.source) for block in blocks))
            for node, blocks in sections
            if (text := without_metadata(blocks))
        ])  # fmt: skip
    return found


def _may_be_chosen(node: Node, tree: HeadingNode) -> bool:
    """Return whether a node is a heading, a document without headings, or a paragraph with metadata."""
    if isinstance(node, HeaderNode):
        return node is tree and not node.headings
    return isinstance(node, HeadingNode) or node.metadata_block is not None


def _test(select: str | None, trees: Sequence[HeadingNode]) -> Test:
    """Return the predicate on nodes for `select`."""
    if select is None:
        return lambda node: (
            isinstance(node, HeadingNode) and bool(own_text(node)) and not node.own("skip", node.inherited("skip"))
        )
    key, equals, sought = select.strip().partition("=")
    if equals and key and (key.translate(_KEY_MARKS) or "a").isalnum():
        return lambda node: _has(node, key, sought.strip())
    wanted = select.strip().casefold()

    def fits(node: Node) -> bool:
        title = node.title.casefold() if isinstance(node, HeadingNode) else None
        return title is not None and (wanted in title or fnmatchcase(title, wanted))

    if any(_may_be_chosen(node, tree) and fits(node) for tree in trees for node in preorder(tree)):
        return fits
    return lambda node: _has(node, select.strip(), "")


def _has(node: Node, key: str, value: str) -> bool:
    """Return whether a node has `key` (a section may inherit it) with `value`, or any value if `value` is empty."""
    found = node.own(key, _MISSING)
    if found is _MISSING and isinstance(node, HeadingNode):
        found = node.inherited(key, _MISSING)
    if found is _MISSING:
        return False
    items = found if isinstance(found, list) else [found]
    typed = ["null" if item is None else str(item).casefold() for item in items]
    return not value or value.casefold() in typed


def _blocks(node: Node, chosen: set[int]) -> list[Block]:
    """Return the blocks of a node without the chosen nodes under it; none if only headings are left."""
    if not isinstance(node, HeadingNode):
        return node.own_blocks()
    below = [block for child in node.children if id(child) not in chosen for block in _blocks(child, chosen)]
    heading = [node.heading] if node.heading is not None else []
    return [*heading, *below] if any(isinstance(block, TextBlock) for block in below) else []


def _place_of(node: Node) -> tuple[int, tuple[str, ...]]:
    """Return the line of the heading or paragraph (below its metadata; 1 for a document), and its heading path."""
    block = node.heading if isinstance(node, HeadingNode) else node.block if isinstance(node, TextNode) else None
    own = (node.title,) if isinstance(node, HeadingNode) and node.heading is not None else ()
    return block.line if block is not None else 1, (*node.heading_path, *own)


# -- one record, or several, per section -----------------------------------------------------------


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A valid value and its origin: file (empty for a string or tree), line, path of headings. `lines` has the line of
    each text and number in it that the section has in the same words; the others are `unfound`."""

    file: str
    line: int
    headings: tuple[str, ...]
    value: T
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    unfound: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A document to extract records from, with the model's client and the prompts."""

    tree: HeadingNode
    client: Client
    prompts: Prompts
    file: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One section to be read, and the request for it."""

    source: RecordSource
    section: RecordSection
    ask: Ask


def plan_records(sources: Sequence[RecordSource], schema: Schema, select: str | None = None) -> list[Job]:
    """Return the sections to be read, in the order of the documents (see `choose`), without asking a model."""
    chosen, schema = choose([source.tree for source in sources], select), schema.optional
    return [
        Job(source, section, _ask(source, section, schema))
        for source, sections in zip(sources, chosen, strict=True)
        for section in sections
    ]


def _ask(source: RecordSource, section: RecordSection, schema: Schema) -> Ask:
    settings = source.client.settings
    # The default system message is about chats; a configured one applies here, too.
    system = (Message("system", settings.messages.system),) if settings.is_set("messages", "system") else ()
    prompt = source.prompts.fill("extract", schema=schema.text, nothing="an empty list" if schema.many else "null")
    about = Attachment(section.text, "text", section.source.replace('"', "'"))
    request = ChatRequest((*system, Message("user", prompt, (about,))), "extract")
    return Ask(request, Place(source.file, section.line, path=section.headings), "extract")


async def read_records(jobs: Sequence[Job], schema: Schema) -> Report[Record[Any]]:
    """Read all sections concurrently, as far as the models' limits allow; `results` are in the documents' order.

    A section that contains no such data gives no record.
    """
    done, schema = -1, schema.optional

    def count_one() -> None:
        nonlocal done
        done += 1
        jobs[0].source.client.tell(Progress("sections", done, len(jobs)), Place())

    async def one(job: Job) -> list[Record[Any]] | Failure | None:
        place, prompts, client = job.ask.place, job.source.prompts, job.source.client
        flow = structured(
            job.ask, schema, tier=client.tier_name, again=lambda problem: prompts.fill("extract_again", error=problem)
        )
        try:
            return [_found_in(job, value) for value in await client.run(flow)]
        except Interrupted:
            return None
        except LmmError as error:
            return Failure(place, error, " > ".join(place.path))
        finally:
            count_one()

    if not jobs:
        return Report()
    clients = {id(job.source.client): job.source.client for job in jobs}.values()
    for client in clients:
        client.open()
    count_one()  # none yet
    outcomes = await jobs[0].source.client.gather(one(job) for job in jobs)
    return Report(
        results=tuple(record for found in outcomes if isinstance(found, list) for record in found),
        failures=tuple(found for found in outcomes if isinstance(found, Failure)),
        usage=sum((client.usage for client in clients), Usage()),
        hints=tuple(dict.fromkeys(hint for client in clients for hint in client.settings.hints)),
        model=", ".join(sorted({client.name for client in clients})),
        interrupted=any(client.interrupted for client in clients),
    )


def _found_in(job: Job, value: Any) -> Record[Any]:
    """Return a record with the lines of its values."""
    leaves = _leaves(to_jsonable_python(value, by_alias=False))
    found = {name: _lines_with(leaf, job.section.blocks) for name, leaf in leaves}
    together = Counter(line for lines in found.values() for line in lines)
    # A value that occurs several times counts where most of the record's values are: in one row of a table.
    lines = {name: max(there, key=lambda line: (together[line], -line)) for name, there in found.items() if there}
    place = job.ask.place
    return Record(place.file, place.line, place.path, value, lines, tuple(name for name in found if name not in lines))


def _lines_with(leaf: str | float, blocks: Iterable[tuple[int, str]]) -> set[int]:
    """Return the lines that have a value; the first line of one that goes over several."""
    lines = set[int]()
    for first, text in blocks:
        if (at := line_of(leaf, text)) is not None:
            rows = enumerate(text.split("\n"), first)
            lines |= {line for line, row in rows if line_of(leaf, row) is not None} or {first + at}
    return lines


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str | float]]:
    """Iterate over the texts and numbers in a JSON value, with their paths.

    >>> list(_leaves({"name": "oak", "sizes": [3, 4], "is_old": True}))
    [('name', 'oak'), ('sizes.0', 3), ('sizes.1', 4)]
    """
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        yield name or "value", value


# -- records as rows: JSON lines or CSV ----------------------------------------------------


PLACE, CHECKED = ("file", "line", "headings"), ("lines", "unfound")
_KINDS = (".csv", ".jsonl")
Row = dict[str, Any]


def check_output(path: Path) -> None:
    """Check, before a model is paid, that records can be written to this file.

    Raises:
        ConfigError: the file type is unknown, or its folder is missing.
        FileWriteError: it is not writable.
    """
    if path.suffix not in _KINDS:
        hint = f"use {', '.join(_KINDS)}"
        raise ConfigError(f"there is no table format '{path.suffix}'", where=str(path), hint=hint)
    if not path.resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    check_writable(path)


def save_records(path: Path, records: Iterable[Record[Any]], fields: Sequence[str]) -> None:
    """Replace a file by a table of the records, in the format of its suffix. `fields` come first, in their order.

    Raises:
        FileWriteError: it cannot be written; its old contents are intact.
    """
    rows = [row_of(record) for record in records]
    if path.suffix == ".jsonl":
        replace(path, json_lines(rows))
        return
    names = [*PLACE, *(_column(name) for name in fields), *(name for row in rows for name in row)]
    named = [name for name in dict.fromkeys(names) if name not in CHECKED] + [*CHECKED]
    cells = (
        row
        | {
            "headings": " > ".join(row["headings"]),
            "lines": ", ".join(f"{name} {line}" for name, line in row["lines"].items()),
            "unfound": ", ".join(row["unfound"]),
        }
        for row in rows
    )
    replace(path, csv_text(named, [[row.get(name) for name in named] for row in cells]))


def row_of(record: Record[Any]) -> Row:
    """Return a record's origin and fields as JSON values; a value that is not an object is the field ``value``.

    A field with the same name as a part of the origin gets an underscore.

    >>> row_of(Record("a.md", 3, ("A", "B"), {"line": "one"}))
    {'file': 'a.md', 'line': 3, 'headings': ['A', 'B'], 'line_': 'one', 'lines': {}, 'unfound': []}
    """
    value = to_jsonable_python(record.value, by_alias=False)
    fields = value if isinstance(value, dict) else {"value": value}
    place = {"file": shown(record.file), "line": record.line, "headings": list(record.headings)}
    checked = {"lines": dict(record.lines), "unfound": list(record.unfound)}
    return place | {_column(name): inner for name, inner in fields.items()} | checked


def json_lines(rows: Iterable[Row]) -> str:
    """Format rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _column(name: str) -> str:
    return f"{name}_" if name.rstrip("_") in (*PLACE, *CHECKED) else name
