"""Types of material: what ``type:`` in metadata says of a text, and which texts are in the notes that students read.

The type of a text is its own, else that of the nearest heading above it that has one, else the header's,
else ``text``. Texts of every other type are special material: they are found and asked for, and stay out of
the notes, unless their type is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lmm.markdown.parse_markdown import parse_markdown_text
from lmm_education.ingestion.identity import docid_of
from lmm_education.ingestion.outline import Heading, Outline, Text, read_outline
from lmm_education.payloads import types_in

TEXT = "text"


@dataclass(frozen=True, slots=True)
class StudyDocument:
    """A document to make study material from.

    `id` is its docid, or its path in the course; `file` is the path to show. The outline leaves out what has
    ``skip: true``, and shows the old text where an edit waits, as in ingestion.
    """

    id: str
    file: str
    outline: Outline

    @property
    def title(self) -> str:
        """The document's title."""
        return self.outline.title


def study_document(text: str, *, file: str, id: str = "") -> StudyDocument:
    """The document in a markdown text; `id` is for one that has no docid, by default the file.

    Raises:
        IngestError: its header cannot be read.
    """
    stem = file.rpartition("/")[2].rpartition(".")[0] or file
    return StudyDocument(docid_of(parse_markdown_text(text)) or id or file, file, read_outline(text, title=stem))


def type_in(values: Mapping[str, Any], inherited: str = TEXT) -> str:
    """The type that these properties give, the first if several, else the inherited one.

    >>> type_in({"type": "exercise"}), type_in({}, "topic"), type_in({"type": None})
    ('exercise', 'topic', 'text')
    """
    return next(iter(types_in(values)), inherited)


def type_of(item: Heading | Text) -> str:
    """The type of a text, or what a heading gives the texts under it."""
    if isinstance(item, Heading):
        return type_in(item.all)
    return type_in(item.own, type_in(item.heading.all))


def is_special(kind: str, keep: Collection[str] = ()) -> bool:
    """Whether texts of this type stay out of the notes; upper and lower case are the same.

    >>> is_special("Definition"), is_special("definition", keep=["Definition"]), is_special("text")
    (True, False, False)
    """
    return not is_one_of(kind, (TEXT, *keep))


def is_one_of(kind: str, kinds: Collection[str]) -> bool:
    """Whether a type is one of several, upper and lower case the same."""
    return kind.strip().casefold() in {each.strip().casefold() for each in kinds}
