"""Which document a file is: its ``docid``, else its path; and the cases in which that is open to doubt.

A document keeps its identity when its text changes, and, with a docid, when its file is moved. Where two
files claim one identity, or a file seems to have changed its own, guessing would lose somebody's text or keep
it twice: that is a `Doubt`, for a person or a flag to decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lmm.errors import LmmError
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock
from lmm_education.errors import IngestError
from lmm_education.payloads import StoredDocument

# A prompt or a transcript of an agent begins with one of these tags (comments aside), whatever its ending.
_CHATMD = re.compile(
    r"\ufeff?(?:\s|<!--.*?-->)*<(?:config|tool|msg|user|system|developer|assistant|import)(?=[\s/>])", re.DOTALL
)
DoubtKind = Literal["twins", "copy", "renamed", "docid"]


def docid_of(blocks: Sequence[Block]) -> str:
    """The header's ``docid``, or nothing.

    Raises:
        IngestError: the header cannot be read but seems to hold one; the path would be another identity.
    """
    first = blocks[0] if blocks else None
    if isinstance(first, ErrorBlock) and "docid" in first.source:
        place = f"{first.error_line}:{first.error_column}"
        raise IngestError(f"the header cannot be read: {first.reason}", where=place, hint=first.hint)
    value = first.get("docid") if isinstance(first, HeaderBlock) else None
    return str(value).strip() if isinstance(value, str | int | float) else ""


def is_chatmd(text: str) -> bool:
    """Whether a text is a prompt or a transcript of an agent, not a document.

    >>> is_chatmd('<config model="x"/>\\n<user>Hello</user>'), is_chatmd("# Cells\\n\\n<user>"), is_chatmd("<userland>")
    (True, False, False)
    """
    return _CHATMD.match(text) is not None


@dataclass(frozen=True, slots=True)
class Found:
    """A document of this run: its id, whether a docid says so, its file, and the hash that its record would have."""

    id: str
    file: str
    hash: str
    has_docid: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """A document whose identity is not certain, and the stored document (or the other file) it may be."""

    kind: DoubtKind
    found: Found
    other: str  # the other file
    other_id: str = ""

    @property
    def question(self) -> str:
        """What to ask; yes means that the document moved (or, for ``twins``, that this file is the one)."""
        return _WORDS[self.kind].question.format(f=self.found, other=self.other, other_id=self.other_id)

    def as_error(self) -> IngestError:
        """The doubt as an error that names the flag that decides."""
        words = _WORDS[self.kind]
        values = {"f": self.found, "other": self.other, "other_id": self.other_id}
        return IngestError(words.error.format(**values), where=self.found.file, hint=words.hint.format(**values))


@dataclass(frozen=True, slots=True)
class _Words:
    error: str
    hint: str
    question: str


_WORDS: dict[DoubtKind, _Words] = {
    "twins": _Words(
        "it has the same docid '{f.id}' as {other}",
        "remove the docid of the copy; lmm scan gives it a new one",
        "{f.file} and {other} have the same docid '{f.id}'. Is {f.file} that document?",
    ),
    "copy": _Words(
        "its docid '{f.id}' belongs to {other}, which is still there",
        "remove the docid of the copy, lmm scan gives it a new one; or --moved if this file replaces the other",
        "The docid '{f.id}' of {f.file} belongs to {other}, which is still there. Does {f.file} replace it?",
    ),
    "renamed": _Words(
        "it has the text of {other}, which is stored and gone",
        "--moved if the file was renamed, --not-moved if not; a docid, which lmm scan adds, settles it for good",
        "{f.file} has the text of {other}, which is gone. Was it renamed?",
    ),
    "docid": _Words(
        "this file is stored as '{other_id}', and is now '{f.id}'",
        "--moved if it is still the same document, --not-moved if the file now holds another one",
        "{f.file} is stored as '{other_id}' and is now '{f.id}'. Is it still the same document?",
    ),
}


def find_doubts(
    found: Sequence[Found], stored: Iterable[StoredDocument], present: Mapping[str, str | None]
) -> dict[str, Doubt]:
    """The doubts about the documents of a run, by file.

    `present` tells for the files of `stored` which document each holds now: its id, or None if it is gone.
    Files of this run need not be in it.

    >>> old = StoredDocument("a.md", "a.md", "h1")
    >>> find_doubts([Found("x", "a.md", "h2", True)], [old], {})["a.md"].kind
    'docid'
    >>> find_doubts([Found("b.md", "b.md", "h1")], [old], {"a.md": None})["b.md"].kind
    'renamed'
    """
    known = {document.id: document for document in stored}
    now = dict(present) | {f.file: f.id for f in found}
    times = Counter(f.id for f in found)
    checks = (_twins, _copy, _docid, _renamed)
    scene = _Scene(found, known, now, times)
    doubts = ((f, next((d for check in checks if (d := check(f, scene))), None)) for f in found)
    return {f.file: doubt for f, doubt in doubts if doubt is not None}


@dataclass(frozen=True, slots=True)
class _Scene:
    found: Sequence[Found]
    known: Mapping[str, StoredDocument]
    now: Mapping[str, str | None]
    times: Mapping[str, int]


def _twins(f: Found, scene: _Scene) -> Doubt | None:
    if scene.times[f.id] < 2:
        return None
    mine = scene.known.get(f.id)
    files = [other.file for other in scene.found if other.id == f.id]
    if mine is not None and mine.file in files:  # it was that file before; the others are copies
        return None if mine.file == f.file else Doubt("copy", f, mine.file, f.id)
    return Doubt("twins", f, next(file for file in files if file != f.file), f.id)


def _copy(f: Found, scene: _Scene) -> Doubt | None:
    mine = scene.known.get(f.id)
    if mine is None or mine.file == f.file or scene.now.get(mine.file) != f.id:
        return None
    return Doubt("copy", f, mine.file, f.id)


def _docid(f: Found, scene: _Scene) -> Doubt | None:
    if f.id in scene.known:
        return None
    here = next((k for k in scene.known.values() if k.file == f.file and k.id not in scene.times), None)
    return Doubt("docid", f, f.file, here.id) if here else None


def _renamed(f: Found, scene: _Scene) -> Doubt | None:
    if f.id in scene.known:
        return None
    gone = (k for k in scene.known.values() if scene.now.get(k.file) is None and k.id not in scene.times)
    same = next((k for k in gone if k.hash and k.hash == f.hash), None)
    return Doubt("renamed", f, same.file, same.id) if same else None


def lost_documents(stored: Iterable[StoredDocument], present: Mapping[str, str | None]) -> list[StoredDocument]:
    """The stored documents whose file is gone, or holds another document now."""
    return [document for document in stored if present.get(document.file) != document.id]


def error_of(error: Exception, file: str) -> LmmError:
    """Any error about a document, with the document's name in front."""
    if not isinstance(error, LmmError):
        return IngestError(f"{type(error).__name__}: {error}", where=file)
    if error.where.startswith(file):
        return error
    error.where = f"{file}:{error.where}" if error.where else file
    return error
