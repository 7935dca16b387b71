"""Prepared files in a person's hands: corrected, cut, added to, broken."""

from __future__ import annotations

import re

import pytest

from lmm_education.config import AnnotationModel, Preparation
from lmm_education.errors import IngestError
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.prepared import is_edited, prepared_text, read_mark, step_files
from lmm_education.ingestion.source_files import is_own_output
from lmm_education.material import PreparedDocument
from lmm_education.payloads import hash_of_text

SETTINGS = Preparation(min_size=20, max_size=60, pool=False, annotation_model=AnnotationModel(("topic",)))
TEXT = """---
title: Botany
docid: b
---
---
~titles_: Botany - Leaves
~txthash_: a b c
---
# Leaves

Leaves are green because of chlorophyll.

In autumn, they turn yellow and red.

---
topic: review
---
Why are they green?
"""
SUMMARIES = """---
title: Botany
summary: Of plants.
---
---
~summary_: In short.
---
# Leaves

At length.

---
summary: On reds.
---
## Red

Reds.
"""


def pooled_file(text: str = TEXT) -> str:
    return prepared_text(text, "botany.md", docid="b", file="notes/botany.md")


def read_prepared(text: str, settings: Preparation = SETTINGS) -> PreparedDocument:
    return prepare_document(text, docid="b", file="notes/botany.pooled.md", settings=settings)


def edited(old: str, new: str) -> PreparedDocument:
    """The document that the prepared one is after a change by hand."""
    saved = pooled_file()
    assert old in saved
    return read_prepared(saved.replace(old, new, 1))


def test_it_is_the_document_under_its_own_name() -> None:
    """The id and the source are in its header; chunks have the same ids, and the places in this file."""
    original = prepare_document(TEXT, docid="b", file="notes/botany.md", settings=SETTINGS)
    document = read_prepared(pooled_file())
    assert (document.title, document.metadata["source"]) == ("Botany", "botany.md")
    assert read_mark(pooled_file()) == ("botany.md", hash_of_text(TEXT))
    assert [chunk.id for chunk in document.chunks] == [chunk.id for chunk in original.chunks]
    assert [section.id for section in document.sections] == [section.id for section in original.sections]
    assert document.chunks[-1].annotations == ("review", "Botany - Leaves")
    assert {chunk.place.file for chunk in document.chunks} == {"notes/botany.pooled.md"}


def test_a_corrected_text_keeps_its_place() -> None:
    """Only the chunk that was corrected has another id."""
    before, after = read_prepared(pooled_file()), edited("yellow and red", "yellow, then red")
    changed = [new for old, new in zip(before.chunks, after.chunks, strict=True) if old.id != new.id]
    assert [(chunk.text, chunk.place) for chunk in changed] == [
        ("In autumn, they turn yellow, then red.", before.chunks[1].place)
    ]


def test_an_annotation_corrected_on_a_heading_holds_for_all_below() -> None:
    """Annotations stand where they belong, not on each chunk."""
    after = edited("~titles_: Botany - Leaves", "titles: All about leaves")
    assert {chunk.annotations[-1] for chunk in after.chunks} == {"All about leaves"}


def test_hashes_of_annotations_are_kept() -> None:
    """So that `lmm annotate` on this file knows what is up to date."""
    assert "~txthash_: a b c" in pooled_file()


def test_a_chunk_can_be_skipped() -> None:
    """With the word that leaves a text out of the source, too."""
    assert len(edited("topic: review\n", "topic: review\nskip: true\n").chunks) == 2


def test_what_students_do_not_get_is_the_same() -> None:
    """A solution of several paragraphs, the text after it, and one that is added to the prepared document."""
    text = "# A\n\nWhy?\n\n::: solution\nSo.\n\nAnd so.\n:::\n\nAfter it.\n\n## Solution\n\nThus.\n"
    settings = Preparation(pool=False, max_size=20, min_size=0)
    saved = prepared_text(text, "b.md", docid="b", file="b.md")
    audiences = [
        [(chunk.text, chunk.audience) for chunk in read_prepared(each, settings).chunks]
        for each in (text, saved, f"{saved}\n---\ntype: solution\n---\nMore.\n")
    ]
    assert audiences[0] == audiences[1]
    assert audiences[2] == [*audiences[0], ("More.", "teacher")]
    assert {audience for _, audience in audiences[0]} == {"teacher", "everyone"}


def test_the_lists_are_to_look_at() -> None:
    """One that is named is refused."""
    files = step_files(prepare_document(TEXT, docid="b", file="notes/botany.md", settings=SETTINGS), "")
    for name in ("botany.documents.md", "botany.chunks.md"):
        with pytest.raises(IngestError, match=r"for reading only.*pooled texts"):
            read_mark(files[name])
    without = prepare_document(TEXT, docid="b", file="botany.md", settings=SETTINGS.replace(documents="none"))
    assert list(step_files(without, "")) == ["botany.chunks.md"]


@pytest.mark.parametrize("splitter", ["default", "none"])
@pytest.mark.parametrize("documents", ["heading", "level", "size", "none"])
def test_the_list_of_chunks_has_those_of_summaries(documents: str, splitter: str) -> None:
    """As what they are, and every other chunk, in order."""
    settings = Preparation(documents=documents, splitter=splitter)  # type: ignore[arg-type]
    document = prepare_document(SUMMARIES, docid="b", file="botany.md", settings=settings)
    shown = step_files(document, "")["botany.chunks.md"].partition("---\n\n")[2]
    assert re.findall(r"type: summary\n(?:annotations:\n(?:  - .*\n)+)?~~lines: .*\n---\n(.*)", shown) == [
        "Of plants.",
        "In short.",
        "On reds.",
    ]
    assert re.findall(r"~~lines: (?:\d+–)?(\d+)\n---\n(.*)", shown) == [
        (str(chunk.place.lines.last), chunk.text.partition("\n")[0]) for chunk in document.chunks
    ]


def test_ours_are_recognised_with_other_line_ends_and_after_edits() -> None:
    """A document that only speaks of such files is none."""
    saved = pooled_file()
    windows = saved.replace("\n", "\r\n")
    assert is_own_output(windows)
    assert not is_edited(windows)
    assert is_edited(saved.replace("green", "red"))
    assert not is_own_output(TEXT)
    assert not is_own_output("# About\n\n---\n~~prepared: x\n---\nText.\n")
    assert not is_own_output("")


@pytest.mark.parametrize(
    "broken", [("docid: b", "id: b"), ("step: pooled", "step: other"), ("source: botany", "of: botany")]
)
def test_a_broken_header_is_an_error_that_says_what_to_do(broken: tuple[str, str]) -> None:
    """And not a document under another name."""
    with pytest.raises(IngestError, match="--save-files"):
        read_mark(pooled_file().replace(*broken, 1))
