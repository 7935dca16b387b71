"""What a file is, and what has to change so that a store holds the files as they are now.

A document is its ``docid``, else its path. It keeps its identity when its text changes and, with a docid, when its
file is moved. `plan_ingest` and `changes` are pure: they look at what was read, and at what is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmm.disk import files
from lmm.errors import LmmError
from lmm.importing.formats import FORMATS, suffix_of
from lmm.markdown.blocks import ErrorBlock, HeaderBlock
from lmm.markdown.parse_markdown import first_block, header_values
from lmm.type_names import is_one_of, types_in
from lmm_education.audience import DEFAULT
from lmm_education.books.chapters import NO_BOOK, BookChapter, Books
from lmm_education.books.rendered_text import rendered_text
from lmm_education.errors import IngestError
from lmm_education.ingestion.near_types import check_metadata
from lmm_education.ingestion.outline import read_outline
from lmm_education.ingestion.prepared import ORIGINAL, read_mark
from lmm_education.ingestion.source_files import OUR_OWN, POOLED, SourceFile, file_name, step_of
from lmm_education.material import Chunk, PreparedDocument
from lmm_education.payloads import Payload, StoredDocument, chunk_payload, hash_of_text, section_payload

# A prompt or a transcript of an agent begins with one of these tags (comments aside), whatever its ending.
_CHATMD = re.compile(
    r"\ufeff?(?:\s|<!--.*?-->)*<(?:config|tool|msg|user|system|developer|assistant|import)(?=[\s/>])", re.DOTALL
)
# A text with one of these may depend on a file that is not there yet: a bibliography, what it includes, its original.
_REFERRING = ("bibliography", "{{#", "8<-", f"{ORIGINAL}:", "source:")


def without_solutions(chapter: BookChapter) -> BookChapter:
    """Return a chapter without the files that would contain a solution if they are included below an exercise."""

    def is_solution(text: str) -> bool:
        items = read_outline(f"::: exercise\nWhy?\n:::\n\n{text}").items
        return any(is_one_of(kind, DEFAULT.withhold) for item in items for kind in types_in(item.own))

    included = {name: text for name, text in chapter.included.items() if not is_solution(text)}
    return chapter if len(included) == len(chapter.included) else replace(chapter, included=included)


# -- what a file is --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A document in a file. `hash` covers its text and everything else that decides what is stored of it.

    `text` is empty where there was no room to keep it; `text_hash` covers it alone. `chapter` is that in its book,
    `original` the file that it was imported from, as in `Location`. For a prepared document, `made_from` is the path of
    the one that it replaces, and `made_of` the hash of the text that this had. `is_alone` tells that nothing of it
    depends on other files.
    """

    source: SourceFile
    id: str
    hash: str
    text: str = ""
    text_hash: str = ""
    chapter: BookChapter = NO_BOOK
    original: str = ""
    made_from: str = ""
    made_of: str = ""
    is_alone: bool = False

    @property
    def file(self) -> str:
        """The path of the document, relative to the course's folder."""
        return self.source.file


def read_file(
    source: SourceFile, stamp: str, books: Books, *, prepared: bool = True, stored: Collection[str] = ()
) -> DocumentFile | str:
    """Read the document in a file, which may be a chapter of one of `books`; or return why there is none in it.

    Agents' files and lists of the steps are none, unless they were named; without `prepared`, nor are prepared
    documents.

    `stamp` goes into the document's hash: everything else that decides what is stored of it. The metadata of documents
    whose hashes are among the `stored` are not checked again.

    Raises:
        LmmError: it cannot be read; the error says where and why.
    """
    with errors_naming(source.file, source.path):
        try:
            source.file.encode("utf-8")
        except UnicodeEncodeError as error:
            raise IngestError("the name of this file is not UTF-8", hint="rename it") from error
        text, folder = books.read(source.path), posixpath.dirname(source.file)
        if "\0" in text:
            raise IngestError("this is not text: it has NUL characters", hint="leave it out, or convert it")
        if reason := passed_over(source, text, prepared=prepared):
            return reason
        made_from = made_of = original = ""
        if step_of(text) is not None:
            name, made_of = read_mark(text)
            made_from = posixpath.normpath(posixpath.join(folder, name))
            chapter = books.chapter_of_prepared(source.path.parent / name, text)
        else:
            chapter = books.chapter(source.path, text)
            chapter = without_solutions(chapter) if chapter.included else chapter
        if "<!--" in text:  # with marks of pages, it may be imported
            values = header_values(text)
            original = str(values.get(ORIGINAL) or values.get("source") or "")
            if not original.startswith(("https://", "http://")):
                path, is_known = source.path.parent / original, suffix_of(original) in FORMATS
                original = posixpath.normpath(posixpath.join(folder, original))
                original = original if is_known and not original.startswith(("/", "..")) and path.is_file() else ""
        rendered = rendered_text(text, chapter) if chapter.refers else text  # references change where the text does not
        digest = hashlib.sha256((stamp + original + chapter.stamp).encode())
        digest.update((text if rendered == text else f"{text}\0{rendered}").encode("utf-8", "surrogatepass"))
        if (hash := digest.hexdigest()[:32]) not in stored:
            check_metadata(text)
        is_alone = source.path.suffix.lower() in (".md", ".markdown") and not made_from and chapter.book is None
        return DocumentFile(
            source,
            id=docid_of(text) or source.file,
            hash=hash,
            text=text,
            text_hash=hash_of_text(text),
            chapter=chapter,
            original=original,
            made_from=made_from,
            made_of=made_of,
            is_alone=is_alone and not chapter.refers and not any(mark in text for mark in _REFERRING),
        )


def passed_over(source: SourceFile, text: str, *, prepared: bool = False) -> str:
    """Return why a file in a folder is no document of the course; empty if it is one, or was named itself. A prepared
    document is one only with `prepared`.

    >>> passed_over(SourceFile(Path("a.md"), "a.md", named=False), '<config model="x"/>\\n<user>Hello</user>')
    'a prompt or transcript of an agent'
    """
    if source.named:
        return ""
    if (step := step_of(text)) is not None:
        return "" if prepared and step == "pooled" else OUR_OWN
    return "a prompt or transcript of an agent" if _CHATMD.match(text) else ""


def docid_of(text: str) -> str:
    """Return the ``docid`` in the header of a text, or an empty string.

    Raises:
        IngestError: the header cannot be read but seems to contain one; the path would be another identity.
    """
    first = first_block(text)
    if isinstance(first, ErrorBlock) and "docid" in first.source:
        place = f"{first.error_line}:{first.error_column}"
        raise IngestError(f"the header cannot be read: {first.reason}", where=place, hint=first.hint)
    value = first.get("docid") if isinstance(first, HeaderBlock) else None
    return str(value).strip() if isinstance(value, str | int | float) else ""


def error_of(error: Exception, file: str, path: Path | None = None) -> LmmError:
    """Convert an error about a document to one that names the document instead of the `path` where it was read."""
    if not isinstance(error, LmmError):
        return IngestError(f"{type(error).__name__}: {error}", where=file)
    if path is not None and error.where.startswith(str(path)):
        error.where = file + error.where.removeprefix(str(path))
    elif not error.where.startswith(file):
        error.where = f"{file}:{error.where}" if error.where else file
    return error


@contextlib.contextmanager
def errors_naming(file: str, path: Path | None = None) -> Iterator[None]:
    """Let the errors of the block name a document; see `error_of`."""
    try:
        yield
    except LmmError as error:
        raise error_of(error, file, path) from error


def ids_by_file_of(
    stored: Iterable[StoredDocument], documents: Iterable[DocumentFile], root: Path
) -> dict[str, str | None]:
    """Return the id of the document that each stored file outside of `documents` now contains, None where it is gone.

    Only files whose documents are elsewhere now are opened; for the others, the store is trusted.
    """
    given_files, ids, ids_by_file = (
        {each.file for each in documents},
        {each.id for each in documents},
        dict[str, str | None](),
    )
    for each in stored:
        path = root / each.file
        if each.file in given_files:
            continue
        try:
            is_there = stat.S_ISREG(path.stat().st_mode)
        except PermissionError:  # there may be one in a folder that cannot be read
            is_there = True
        except (OSError, ValueError):
            is_there = False
        ids_by_file[each.file] = each.id if is_there else None
        if is_there and each.id in ids:
            with contextlib.suppress(LmmError):
                ids_by_file[each.file] = docid_of(files.read_document(path)) or file_name(path, root)
    return ids_by_file


# -- what must change ------------------------------------------------------------------------------


@dataclass(slots=True)
class PlannedDocument:
    """A document to store. `stored` is its record; `replaces` are stored documents that its file held before.

    When it has been `prepared`: `saved` are the files that show it, `changes` what is written; of its chunks so many
    are `embedded`, and so many have the vectors of an equal text (`reused`).
    """

    document: DocumentFile
    stored: StoredDocument | None = None
    replaces: tuple[str, ...] = ()
    prepared: PreparedDocument = field(init=False)
    changes: Changes = field(default_factory=lambda: Changes())
    saved: tuple[Path, ...] = ()
    embedded: int = 0
    reused: int = 0

    def hash_of(self, chunk: Chunk) -> str:
        """Return the hash of what is embedded of a chunk that is written."""
        return str(self.changes.payloads[chunk.id]["hash"])

    @property
    def moved_from(self) -> str:
        """Its former file, if it was moved."""
        return self.stored.file if self.stored and self.stored.file != self.document.file else ""

    @property
    def is_stored(self) -> bool:
        """Whether the store already has this version."""
        document, stored = self.document, self.stored
        return stored is not None and (stored.hash, stored.file, self.replaces) == (document.hash, document.file, ())


@dataclass(slots=True)
class IngestPlan:
    """The documents of a run, and what to do with them. `replaced` are those with a prepared document, which comes with
    each; `missing` are stored documents whose files, among those looked for, are gone or contain another document.
    """

    changed: list[PlannedDocument] = field(default_factory=list)
    unchanged: list[PlannedDocument] = field(default_factory=list)
    failed: list[tuple[DocumentFile, IngestError]] = field(default_factory=list)
    replaced: list[tuple[DocumentFile, DocumentFile]] = field(default_factory=list)
    missing: list[StoredDocument] = field(default_factory=list)


def plan_ingest(
    documents: Sequence[DocumentFile],
    stored: Sequence[StoredDocument],
    *,
    ids_by_file: Mapping[str, str | None] = {},
    covers: Callable[[str], bool] = lambda file: True,
    again: bool = False,
) -> IngestPlan:
    """Plan what must change so that the store contains these documents.

    A file without a docid that was renamed is a new document, and the old one is gone. A file that contains another
    document than before replaces it. A docid in two files is an error for those of them that are not the
    stored document.

    Args:
        ids_by_file: see `ids_by_file_of`.
        covers: whether a file of the course was looked for.
        again: whether unchanged documents count as changed.

    >>> note = DocumentFile(SourceFile(Path("b.md"), "b.md"), "x", "h2")
    >>> plan = plan_ingest([note], [StoredDocument("x", "a.md", "h1"), StoredDocument("y", "b.md", "h1")])
    >>> plan.changed[0].moved_from, plan.changed[0].replaces, plan.missing
    ('a.md', ('y',), [])
    """
    plan, known = IngestPlan(), {each.id: each for each in stored}
    prepared = {document.made_from: document for document in documents if document.made_from}
    plan.replaced = [(each, prepared[each.file]) for each in documents if each.file in prepared]
    remaining = [document for document in documents if document.file not in prepared]
    files_of: dict[str, list[str]] = {}
    for document in remaining:
        files_of.setdefault(document.id, []).append(document.file)
    stored_in: dict[str, list[str]] = {}
    for each in stored:
        stored_in.setdefault(each.file, []).append(each.id)
    replaced = set[str]()
    for document in remaining:
        own_record = known.get(document.id)
        if error := _duplicate_docid(document, own_record, files_of[document.id], ids_by_file):
            plan.failed.append((document, error))
            continue
        replaces = tuple(id for id in stored_in.get(document.file, ()) if id not in files_of)
        replaced.update(replaces)
        planned = PlannedDocument(document, own_record, replaces)
        (plan.unchanged if planned.is_stored and not again else plan.changed).append(planned)
    now = {**ids_by_file, **{document.file: document.id for document in documents}}
    plan.missing = [
        each
        for each in stored
        if now.get(each.file) != each.id and each.id not in files_of and each.id not in replaced and covers(each.file)
    ]
    return plan


def _duplicate_docid(
    document: DocumentFile,
    own_record: StoredDocument | None,
    files: Sequence[str],
    ids_by_file: Mapping[str, str | None],
) -> IngestError | None:
    """Return the error for a file whose docid belongs to another file."""
    hint = "remove one of them" if document.made_from else "remove the docid of the copy; lmm scan gives it a new one"
    own = (document.file, document.made_from)  # a prepared document has the docid of its source
    is_elsewhere = own_record is not None and own_record.file not in own and not own_record.file.endswith(POOLED)
    if (
        own_record is not None
        and is_elsewhere
        and (own_record.file in files or ids_by_file.get(own_record.file) == document.id)
    ):
        message = f"its docid '{document.id}' belongs to {own_record.file}, which is still there"
        return IngestError(message, where=document.file, hint=hint)
    if len(files) == 1 or (own_record is not None and own_record.file == document.file):
        return None
    other = next((file for file in files if file != document.file), document.file)
    return IngestError(f"it has the same docid '{document.id}' as {other}", where=document.file, hint=hint)


# -- the difference within a document --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changes:
    """What to write for a document.

    `encode` are the chunks whose vectors are missing or out of date, `payloads` those of all chunks to write
    by id, with vectors or without; `removed` are chunk ids, `removed_sections` section ids.
    """

    encode: tuple[Chunk, ...] = ()
    payloads: Mapping[str, Payload] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    sections: Mapping[str, Payload] = field(default_factory=dict)
    removed_sections: tuple[str, ...] = ()


def changes(
    document: PreparedDocument, stored: Mapping[str, Payload], hashes: Mapping[str, str], *, again: bool = False
) -> Changes:
    """Return the difference between a document and what is stored of it.

    Ids come from content and place, hashes from what is embedded. So an id that is stored with the same hash needs
    no embedding, whatever else about it changed; its payload is set. An id with another hash is embedded again.

    Args:
        stored: the payloads of its chunks and sections, by id.
        hashes: chunk ids to the hash of what is embedded of each.
        again: whether every chunk is embedded.

    >>> from lmm_education.material import Lines, Location
    >>> chunk = Chunk("1", Location("d", "a.md", Lines(1, 1)), "s", 0, "Green.")
    >>> leaves = PreparedDocument("d", "a.md", "Leaves", "en", (), (chunk,))
    >>> first = changes(leaves, {}, {"1": "h"})
    >>> [c.text for c in first.encode]
    ['Green.']
    >>> changes(leaves, first.payloads, {"1": "h"})
    Changes(encode=(), payloads={}, removed=(), sections={}, removed_sections=())
    """
    new_payloads: dict[str, Any] = {
        chunk.id: chunk_payload(chunk, language=document.language, hash=hashes[chunk.id]) for chunk in document.chunks
    }
    sections = {section.id: section_payload(section, title=document.title) for section in document.sections}
    encode = tuple(
        c for c in document.chunks if again or stored.get(c.id, {}).get("hash") != new_payloads[c.id]["hash"]
    )
    encoded = {chunk.id for chunk in encode}
    missing = {
        id: old.get("what") == "section" for id, old in stored.items() if id not in new_payloads and id not in sections
    }
    return Changes(
        encode=encode,
        payloads={id: new for id, new in new_payloads.items() if id in encoded or _differs(stored[id], new)},
        removed=tuple(id for id, is_section in missing.items() if not is_section),
        sections={id: new for id, new in sections.items() if again or _differs(stored.get(id), new)},
        removed_sections=tuple(id for id, is_section in missing.items() if is_section),
    )


def _differs(stored: Payload | None, new: Payload) -> bool:
    """Whether payloads differ as JSON: to Python, true is 1 and 1 is 1.0. Only metadata may hold either."""
    return stored != new or _canonical(stored) != _canonical(new)


def _canonical(payload: Payload) -> str:
    metadata = payload["metadata"]
    return json.dumps(metadata, sort_keys=True) if metadata else ""
