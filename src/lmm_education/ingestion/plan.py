"""What a file is, and what has to change so that a store holds the files as they are now.

A document is its ``docid``, else its path. It keeps its identity when its text changes and, with a docid, when its
file is moved. `plan_ingest` and `changes` are pure: they look at what was read, and at what is stored.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from lmm.disk import files
from lmm.errors import LmmError
from lmm.importing.formats import FORMATS, suffix_of
from lmm.markdown.blocks import ErrorBlock, HeaderBlock
from lmm.markdown.parse_markdown import first_block, header_values
from lmm.messages import Waiting
from lmm.terminal import count
from lmm_education.books.chapters import BookChapter, Books
from lmm_education.books.rendered_text import rendered_text
from lmm_education.errors import IngestError
from lmm_education.ingestion.near_types import check_metadata
from lmm_education.ingestion.prepared import ORIGINAL, read_mark
from lmm_education.ingestion.source_files import OUR_OWN, POOLED, SourceFile, file_name, is_own_output, step_of
from lmm_education.material import Chunk, PreparedDocument, Withheld
from lmm_education.payloads import Payload, StoredDocument, chunk_payload, hash_of_text, section_payload

# -- reports and events of an ingestion ------------------------------------------------------------


State = Literal["new", "changed", "unchanged", "failed", "skipped", "prepared"]
_STATES: tuple[State, ...] = ("new", "changed", "unchanged", "prepared", "failed")  # those that are counted


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """The result for one document.

    Numbers of chunks: `chunks` in total, `embedded`, `reused` (with the vectors of an equal text), `updated` (only the
    payload changed) and `removed`. `moved_from` is its former file, `saved` the files that show what was prepared. The
    state ``prepared`` is that of a document that was not to be stored. `withheld` is what students do not get of a
    prepared one.
    """

    path: Path
    file: str
    id: str = ""
    state: State = "unchanged"
    chunks: int = 0
    sections: int = 0
    embedded: int = 0
    reused: int = 0
    updated: int = 0
    removed: int = 0
    moved_from: str = ""
    saved: tuple[Path, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    error: LmmError | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A stored document whose file is gone, or holds another document; `pruned` if its points went too."""

    id: str
    file: str
    pruned: bool = False


@dataclass(slots=True)
class IngestReport:
    """The result of an ingestion, or with `dry_run` what it would be. `seconds` is its duration.

    `errors` are those of paths that are no document; those of documents are in `documents`. `notices` are
    for the author.
    """

    documents: list[DocumentReport] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    errors: list[LmmError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    location: str = ""
    dry_run: bool = False
    rebuilt: bool = False
    seconds: float = 0.0

    @property
    def failed(self) -> list[LmmError]:
        """All errors, of paths and of documents."""
        return [*self.errors, *(d.error for d in self.documents if d.error is not None)]

    def count(self, state: State) -> int:
        """Return how many documents are in a state."""
        return sum(document.state == state for document in self.documents)

    @property
    def embedded(self) -> int:
        """The number of chunks that were embedded."""
        return sum(document.embedded for document in self.documents)

    @property
    def saved(self) -> list[Path]:
        """The files that show what was prepared."""
        return [path for document in self.documents for path in document.saved]

    def counts(self) -> list[str]:
        """Return how many documents are new, changed and so on, and how many chunks were embedded, in words."""
        shown = [d for d in self.documents if d.state != "skipped"]
        states = [f"{n} {state}" for state in _STATES if (n := self.count(state))]
        parts = [f"{count(len(shown), 'document')}" + (f": {', '.join(states)}" if states else "")]
        if any(d.state in ("new", "changed") for d in shown):
            verb = "would be embedded" if self.dry_run else "embedded"
            parts.append(f"{self.embedded} of {count(sum(d.chunks for d in shown), 'chunk')} {verb}")
        if ours := sum(d.reason == OUR_OWN for d in self.documents):
            parts.append(f"skipped {count(ours, 'prepared file')}")
        return parts

    def __repr__(self) -> str:
        failed = [f"{len(self.errors)} not read"] if self.errors else []
        return f"IngestReport({'; '.join(self.counts() + failed)})"

    def _repr_markdown_(self) -> str:
        """Return the counts and the errors, as a notebook shows them."""
        return "\n".join(("; ".join(self.counts()), *(f"- {error}" for error in self.failed)))

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for ``--json``."""
        values: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return values | {"embedded": self.embedded, "seconds": round(self.seconds, 3)}


# -- events ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The run begins, with this number of documents."""

    documents: int


@dataclass(frozen=True, slots=True)
class Annotating:
    """A document gets its annotations before it is read; the language model may be asked."""

    path: Path


@dataclass(frozen=True, slots=True)
class Embedding:
    """The number of a document's chunks that are embedded so far."""

    path: Path
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A document is done, with its report."""

    document: DocumentReport


Event = Begun | Annotating | Embedding | Waiting | Ended
"""An event; a wait is for a server that does not answer, for another run, or because there is much to do."""
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing with an event: the default listener."""


# A prompt or a transcript of an agent begins with one of these tags (comments aside), whatever its ending.
_CHATMD = re.compile(
    r"\ufeff?(?:\s|<!--.*?-->)*<(?:config|tool|msg|user|system|developer|assistant|import)(?=[\s/>])", re.DOTALL
)


# -- what a file is --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A document in a file. `hash` covers its text and everything else that decides what is stored of it.

    `text_hash` covers the text alone. For a prepared document, `made_from` is the path of the one that it replaces, and
    `made_of` the hash of the text that this had.
    """

    source: SourceFile
    id: str
    hash: str
    text_hash: str = ""
    made_from: str = ""
    made_of: str = ""

    @property
    def file(self) -> str:
        """The path of the document, relative to the course's folder."""
        return self.source.file


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not ingested, and why."""

    source: SourceFile
    reason: str


class Read(NamedTuple):
    """A document, its text, its chapter in a book, and the file it was imported from, as in `Location`."""

    document: DocumentFile
    text: str
    chapter: BookChapter
    original: str = ""


def read_file(
    source: SourceFile, stamp: str, books: Books, *, prepared: bool = True, stored: Collection[str] = ()
) -> Read | Skipped:
    """Read the document in a file, which may be a chapter of one of `books`.

    Agents' files and lists of the steps are skipped, unless they were named; without `prepared`, so are prepared
    documents.

    `stamp` goes into the document's hash: everything else that decides what is stored of it. The metadata of documents
    whose hashes are among the `stored` are not checked again.

    Raises:
        LmmError: it cannot be read; the error says where and why.
    """
    try:
        return _read(source, stamp, books, prepared, stored)
    except LmmError as error:
        raise error_of(error, source.file, source.path) from error


def _read(source: SourceFile, stamp: str, books: Books, prepared: bool, stored: Collection[str]) -> Read | Skipped:
    try:
        source.file.encode("utf-8")
    except UnicodeEncodeError as error:
        raise IngestError("the name of this file is not UTF-8", hint="rename it") from error
    text = books.read(source.path)
    if "\0" in text:
        raise IngestError("this is not text: it has NUL characters", hint="leave it out, or convert it")
    if reason := passed_over(source, text, prepared=prepared):
        return Skipped(source, reason)
    made_from = made_of = ""
    if is_own_output(text):
        name, made_of = read_mark(text)
        made_from = posixpath.normpath(posixpath.join(posixpath.dirname(source.file), name))
        chapter = books.chapter_of_prepared(source.path.parent / name, text)
    else:
        chapter = books.chapter(source.path, text)
    original = _original(source, text)
    if (hash := _hash(text, stamp + original, chapter)) not in stored:
        check_metadata(text)
    docid = docid_of(text) or source.file
    return Read(DocumentFile(source, docid, hash, hash_of_text(text), made_from, made_of), text, chapter, original)


def _original(source: SourceFile, text: str) -> str:
    """Return the file from which a document was imported, as its header names it: a URL, or a path relative to the
    course's folder; empty if it is not in there."""
    values = header_values(text) if "<!--" in text else {}
    name = str(values.get(ORIGINAL) or values.get("source") or "")
    if name.startswith(("https://", "http://")):
        return name
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source.file), name))
    is_there = suffix_of(name) in FORMATS and not file.startswith(("/", "..")) and (source.path.parent / name).is_file()
    return file if is_there else ""


def passed_over(source: SourceFile, text: str, *, prepared: bool = False) -> str:
    """Return why a file in a folder is no document of the course; empty if it is one, or was named itself. A prepared
    document is one only with `prepared`."""
    if source.named:
        return ""
    if (step := step_of(text)) is not None:
        return "" if prepared and step == "pooled" else OUR_OWN
    return "a prompt or transcript of an agent" if is_chatmd(text) else ""


def _hash(text: str, stamp: str, chapter: BookChapter) -> str:
    """Return the hash of a document and its references, which may change where its text does not."""
    shown = rendered_text(text, chapter) if chapter.refers else text
    return fingerprint(text if shown == text else f"{text}\0{shown}", stamp + chapter.stamp)


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


def is_chatmd(text: str) -> bool:
    """Return whether a text is a prompt or a transcript of an agent, not a document.

    >>> is_chatmd('<config model="x"/>\\n<user>Hello</user>'), is_chatmd("# Cells\\n\\n<user>"), is_chatmd("<userland>")
    (True, False, False)
    """
    return _CHATMD.match(text) is not None


def fingerprint(text: str, stamp: str) -> str:
    """Return a hash of a document's text and of `stamp`, which covers every setting that decides what is stored."""
    digest = hashlib.sha256(stamp.encode())
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def error_of(error: Exception, file: str, path: Path | None = None) -> LmmError:
    """Convert an error about a document to one that names the document instead of the `path` where it was read."""
    if not isinstance(error, LmmError):
        return IngestError(f"{type(error).__name__}: {error}", where=file)
    if path is not None and error.where.startswith(str(path)):
        error.where = file + error.where.removeprefix(str(path))
    elif not error.where.startswith(file):
        error.where = f"{file}:{error.where}" if error.where else file
    return error


def held_by(stored: Iterable[StoredDocument], documents: Iterable[DocumentFile], root: Path) -> dict[str, str | None]:
    """Return the id of the document that each stored file outside of `documents` now contains, None where it is gone.

    Only files whose documents are elsewhere now are opened; for the others, the store is trusted.
    """
    here, ids = {document.file for document in documents}, {document.id for document in documents}
    return {each.file: _held(each, root, look=each.id in ids) for each in stored if each.file not in here}


def _held(stored: StoredDocument, root: Path, *, look: bool) -> str | None:
    path = root / stored.file
    if not _may_exist(path):
        return None
    if not look:
        return stored.id
    try:
        return docid_of(files.read_document(path)) or file_name(path, root)
    except LmmError:
        return stored.id


def _may_exist(path: Path) -> bool:
    """Return whether there is a file, or may be one, in a folder that cannot be read."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


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
    each; `gone` are stored documents whose files, among those looked for, are gone or contain another document.
    """

    changed: list[PlannedDocument] = field(default_factory=list)
    unchanged: list[PlannedDocument] = field(default_factory=list)
    failed: list[tuple[DocumentFile, IngestError]] = field(default_factory=list)
    replaced: list[tuple[DocumentFile, DocumentFile]] = field(default_factory=list)
    gone: list[StoredDocument] = field(default_factory=list)


def plan_ingest(
    documents: Sequence[DocumentFile],
    stored: Sequence[StoredDocument],
    *,
    held: Mapping[str, str | None] = {},
    covers: Callable[[str], bool] = lambda file: True,
    again: bool = False,
) -> IngestPlan:
    """Plan what must change so that the store contains these documents.

    A file without a docid that was renamed is a new document, and the old one is gone. A file that contains another
    document than before replaces it. A docid in two files is an error for those of them that are not the
    stored document.

    Args:
        held: see `held_by`.
        covers: whether a file of the course was looked for.
        again: whether unchanged documents count as changed.

    >>> note = DocumentFile(SourceFile(Path("b.md"), "b.md"), "x", "h2")
    >>> plan = plan_ingest([note], [StoredDocument("x", "a.md", "h1"), StoredDocument("y", "b.md", "h1")])
    >>> plan.changed[0].moved_from, plan.changed[0].replaces, plan.gone
    ('a.md', ('y',), [])
    """
    plan, known = IngestPlan(), {each.id: each for each in stored}
    prepared = {document.made_from: document for document in documents if document.made_from}
    plan.replaced = [(each, prepared[each.file]) for each in documents if each.file in prepared]
    kept = [document for document in documents if document.file not in prepared]
    files_of: dict[str, list[str]] = {}
    for document in kept:
        files_of.setdefault(document.id, []).append(document.file)
    stored_in: dict[str, list[str]] = {}
    for each in stored:
        stored_in.setdefault(each.file, []).append(each.id)
    replaced = set[str]()
    for document in kept:
        mine = known.get(document.id)
        if error := _doubled(document, mine, files_of[document.id], held):
            plan.failed.append((document, error))
            continue
        replaces = tuple(id for id in stored_in.get(document.file, ()) if id not in files_of)
        replaced.update(replaces)
        planned = PlannedDocument(document, mine, replaces)
        (plan.unchanged if planned.is_stored and not again else plan.changed).append(planned)
    now = {**held, **{document.file: document.id for document in documents}}
    plan.gone = [
        each
        for each in stored
        if now.get(each.file) != each.id and each.id not in files_of and each.id not in replaced and covers(each.file)
    ]
    return plan


def _doubled(
    document: DocumentFile, mine: StoredDocument | None, files: Sequence[str], held: Mapping[str, str | None]
) -> IngestError | None:
    """Return the error for a file whose docid belongs to another file."""
    hint = "remove the docid of the copy; lmm scan gives it a new one"
    own = (document.file, document.made_from)  # a prepared document has the docid of its source
    is_elsewhere = mine is not None and mine.file not in own and not mine.file.endswith(POOLED)
    if mine is not None and is_elsewhere and (mine.file in files or held.get(mine.file) == document.id):
        message = f"its docid '{document.id}' belongs to {mine.file}, which is still there"
        return IngestError(message, where=document.file, hint=hint)
    if len(files) == 1 or (mine is not None and mine.file == document.file):
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

    @property
    def updated(self) -> dict[str, Payload]:
        """The payloads of chunks whose vectors stay as they are."""
        encoded = {chunk.id for chunk in self.encode}
        return {id: payload for id, payload in self.payloads.items() if id not in encoded}


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
    wanted: dict[str, Any] = {
        chunk.id: chunk_payload(chunk, language=document.language, hash=hashes[chunk.id]) for chunk in document.chunks
    }
    sections = {section.id: section_payload(section, title=document.title) for section in document.sections}
    encode = tuple(c for c in document.chunks if again or stored.get(c.id, {}).get("hash") != wanted[c.id]["hash"])
    encoded = {chunk.id for chunk in encode}
    gone = {id: old.get("what") == "section" for id, old in stored.items() if id not in wanted and id not in sections}
    return Changes(
        encode=encode,
        payloads={id: new for id, new in wanted.items() if id in encoded or _differs(stored[id], new)},
        removed=tuple(id for id, is_section in gone.items() if not is_section),
        sections={id: new for id, new in sections.items() if again or _differs(stored.get(id), new)},
        removed_sections=tuple(id for id, is_section in gone.items() if is_section),
    )


def _differs(stored: Payload | None, wanted: Payload) -> bool:
    """Whether payloads differ as JSON: to Python, true is 1 and 1 is 1.0. Only metadata may hold either."""
    return stored != wanted or _canonical(stored) != _canonical(wanted)


def _canonical(payload: Payload) -> str:
    metadata = payload["metadata"]
    return json.dumps(metadata, sort_keys=True) if metadata else ""
