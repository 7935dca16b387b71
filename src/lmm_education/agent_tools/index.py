"""Folders of markdown as agents index and search them: ``index_markdown_docs`` and ``markdown_search``.

An index is a folder with a store of its own and `ABOUT`, which says what was indexed. Only what changed is embedded
again, and what is gone goes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from lmm.disk.folder import Folder
from lmm.errors import LmmError
from lmm.messages import Attachment, Message, ToolDefinition, object_schema, render
from lmm.models.port import RunnableTool
from lmm_education.agent_tools.tools import DeclaredTool, PromptPlace
from lmm_education.answer.lookup import NOTHING, CourseTool
from lmm_education.answer.sources import LABEL
from lmm_education.config import CourseSettings, StorageSettings
from lmm_education.errors import SearchError
from lmm_education.ingestion.apply import IngestOptions, is_made_otherwise
from lmm_education.ingestion.ingest import ingest_into
from lmm_education.ingestion.plan import IngestReport
from lmm_education.material import Passage
from lmm_education.parts import CourseParts
from lmm_education.search.query import SearchOptions
from lmm_education.search.search import CourseSearch

ABOUT = "index.json"
FOLDER = ".md_index"
ALL = "all"
_NAME = re.compile(r"\w[\w.-]{0,63}")
_LONGEST = 8000  # characters of a passage that are shown
_FAILURES = 5  # documents that could not be indexed, in a message
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
    """An index as its `ABOUT` tells; `root` is the folder of its documents."""

    folder: Path
    root: Path
    description: str

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Indexes:
    """What the two tools work with: where they may go, and the models' settings."""

    place: PromptPlace
    roots: tuple[Path, ...]

    async def index(self, root: str, index_name: str, description: str, vector_db_root: str = FOLDER) -> str:
        """Index the markdown files of a folder; what is in the index already is brought up to date.

        Raises:
            LmmError: a path leads out of the roots, or the store or the embedding model fails.
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
        return _told(index, report)

    async def search(self, query: str, k: int = 5, index_name: str = ALL, vector_db_root: str = FOLDER) -> str:
        """The passages that fit best, in one index or in all of a folder.

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
        # The best of each, then the second of each: scores of different stores do not compare.
        best = enumerate((each for rank in zip_longest(*found) for each in rank if each), 1)
        passages = [_passage(index, hit, number, self.place.folder) for number, (index, hit) in islice(best, k)]
        return render(Message("tool", "", tuple(passages))).rstrip() or NOTHING

    def path(self, written: str) -> Path:
        """A path that the model named, relative to the prompt's folder, as a real path.

        Raises:
            LmmError: it leads out of the roots.
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
            options = IngestOptions(prune=True, again=is_made_otherwise(course))
            report = ingest_into(course, [index.root], options)
        about = {"description": index.description, "root": str(index.root)}
        Folder(index.folder).write(ABOUT, json.dumps(about, ensure_ascii=False, indent=2) + "\n")
        return report

    @contextmanager
    def _open(self, index: FolderIndex) -> Iterator[CourseParts]:
        """Its store, with ordinary settings and the prompt's embedding model."""
        storage = StorageSettings(folder=index.folder / "store", root=index.folder, course="documents")
        settings = CourseSettings(root=index.root, storage=storage)
        with CourseParts(settings, self.place.settings, index.root, env=dict(self.place.environment)) as course:
            yield course


# -- the declarations ------------------------------------------------------------------------------


@asynccontextmanager
async def open_index_markdown_docs(
    declared: DeclaredTool, place: PromptPlace
) -> AsyncGenerator[Sequence[RunnableTool]]:
    """``<tool name="index_markdown_docs"/>``, confined to its roots."""
    words = "Index the markdown files of a folder, so that markdown_search finds passages in them. Later calls with "
    words += "the same index_name bring it up to date."
    yield [CourseTool(ToolDefinition(declared.name, words, INDEX), Indexes(place, _roots(declared, place)).index)]


@asynccontextmanager
async def open_markdown_search(declared: DeclaredTool, place: PromptPlace) -> AsyncGenerator[Sequence[RunnableTool]]:
    """``<tool name="markdown_search"/>``, confined to its roots; the model is told which indexes there are now."""
    words = "Search markdown files that were indexed with index_markdown_docs, by meaning and by words."
    known = read_indexes(place.folder / FOLDER)
    listed = "".join(f"\n- {index.name}: {' '.join(index.description.split())}" for index in known)
    definition = ToolDefinition(declared.name, words + (f" Indexes:{listed}" if listed else ""), SEARCH)
    yield [CourseTool(definition, Indexes(place, _roots(declared, place)).search)]


def _roots(declared: DeclaredTool, place: PromptPlace) -> tuple[Path, ...]:
    named = declared.roots or (".",)
    return tuple((place.folder / Path(root).expanduser()).resolve() for root in named)


# -- what is kept, and shown -----------------------------------------------------------------------


def read_index(folder: Path) -> FolderIndex | None:
    """What a folder says that it indexes; None if it is no index."""
    try:
        about = json.loads(Folder(folder).read(ABOUT))
        return FolderIndex(folder, Path(about["root"]), str(about.get("description", "")))
    except (LmmError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_indexes(folder: Path) -> list[FolderIndex]:
    """The indexes in a folder, by name."""
    inside = [folder / one.name for one in Folder(folder).entries() if one.kind == "folder"] if folder.is_dir() else []
    return [index for each in inside if (index := read_index(each)) is not None]


def _passage(index: FolderIndex, hit: Passage, number: int, folder: Path) -> Attachment:
    """A passage as the model sees it; its file is named as other tools would have to name it."""
    file = Path(os.path.relpath(index.root / hit.place.file, folder.resolve())).as_posix()
    parts = [f"{file}:{hit.place.lines}", hit.path, f"index: {index.name}"]
    cut = " …" if len(hit.text) > _LONGEST else ""
    return Attachment(hit.text[:_LONGEST] + cut, LABEL, ", ".join(filter(None, parts)), number)


def _told(index: FolderIndex, report: IngestReport) -> str:
    """What an agent wants to know of an indexing."""
    counts = {state: report.count(state) for state in ("new", "changed", "unchanged")}
    counts["removed"] = sum(lost.pruned for lost in report.lost)
    done = ", ".join(f"{number} {state}" for state, number in counts.items() if number) or "no documents"
    text = f"Index {index.name}: {done}; {report.embedded} passages embedded."
    if failed := report.failed:
        more = f"; and {len(failed) - _FAILURES} more" if len(failed) > _FAILURES else ""
        text += f" Not indexed: {'; '.join(map(str, failed[:_FAILURES]))}{more}."
    return text
