"""Prepared files in a person's hands: corrected, cut, added to, broken."""

from __future__ import annotations

import re

import pytest

from lmm_education.config import AnnotationModel, Preparation
from lmm_education.errors import IngestError
from lmm_education.ingestion.prepare import prepare_document, prepare_steps
from lmm_education.ingestion.prepared import is_edited, read_steps, step_files
from lmm_education.ingestion.source_files import is_own_output
from lmm_education.material import PreparedDocument

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


def pooled_file(text: str = TEXT, settings: Preparation = SETTINGS) -> str:
    return step_files(prepare_steps(text, docid="b", file="notes/botany.md", settings=settings))["botany.pooled.md"]


def read_prepared(text: str) -> PreparedDocument:
    return read_steps(text).document


def edited(old: str, new: str) -> PreparedDocument:
    """The document that the file of pooled texts shows after a change by hand."""
    saved = pooled_file()
    assert old in saved
    return read_prepared(saved.replace(old, new, 1))


def test_it_says_which_document_it_shows() -> None:
    """The id, the file, the title and the settings are in its header."""
    document = read_prepared(pooled_file())
    assert (document.id, document.file, document.title) == ("b", "notes/botany.md", "Botany")
    assert document.chunks[-1].annotations == ("review", "Botany - Leaves")


def test_a_corrected_text_keeps_its_place() -> None:
    """Only the chunk that was corrected has another id."""
    before, after = read_prepared(pooled_file()), edited("yellow and red", "yellow, then red")
    changed = [new for old, new in zip(before.chunks, after.chunks, strict=True) if old.id != new.id]
    assert [(chunk.text, chunk.place) for chunk in changed] == [
        ("In autumn, they turn yellow, then red.", before.chunks[1].place)
    ]
    assert [section.id for section in after.sections] == [section.id for section in before.sections]


def test_an_annotation_corrected_on_a_heading_holds_for_all_below() -> None:
    """Annotations stand where they belong, not on each chunk."""
    after = edited("~titles_: Botany - Leaves", "titles: All about leaves")
    assert {chunk.annotations[-1] for chunk in after.chunks} == {"All about leaves"}


def test_hashes_of_annotations_are_kept() -> None:
    """So that `lmm annotate` on this file knows what is up to date."""
    assert "~txthash_: a b c" in pooled_file()


def test_a_text_can_be_taken_out_and_split() -> None:
    """A metadata block begins a text."""
    one, two = "Leaves are green because of chlorophyll.", "In autumn, they turn yellow and red."
    assert [c.text for c in edited(f"---\n~~lines: 13\n---\n{two}\n\n", "").chunks][:2] == [one, "Why are they green?"]
    split = edited("they turn", "they\n\n---\ntype: note\n---\nturn").chunks
    assert split[0].text.endswith("In autumn, they")
    assert (split[1].text, split[1].type) == ("turn yellow and red.", "note")
    assert split[1].place.lines.first >= split[0].place.lines.first


def test_a_chunk_can_be_skipped() -> None:
    """With the word that leaves a text out of the source, too."""
    assert len(edited("topic: review\n", "topic: review\nskip: true\n").chunks) == 2


@pytest.mark.parametrize("documents", ["heading", "level", "size", "none"])
def test_reading_a_file_goes_on_with_the_next_step(documents: str) -> None:
    """The file of pooled texts gives the document that the source gives; the others are refused."""
    settings = SETTINGS.replace(documents=documents, document_size=70, overlap=10)
    files = step_files(prepare_steps(TEXT, docid="b", file="notes/botany.md", settings=settings))
    if documents == "none":
        assert list(files) == ["botany.pooled.md", "botany.chunks.md"]
    original = prepare_document(TEXT, docid="b", file="notes/botany.md", settings=settings)
    assert read_prepared(files.pop("botany.pooled.md")) == original
    for shown in files.values():
        with pytest.raises(IngestError, match=r"for reading only.*pooled texts"):
            read_prepared(shown)


@pytest.mark.parametrize("splitter", ["default", "none"])
@pytest.mark.parametrize("documents", ["heading", "level", "size", "none"])
def test_the_list_of_chunks_has_those_of_summaries(documents: str, splitter: str) -> None:
    """Each below its heading, or above its small entry, as what it is; the header's above everything."""
    settings = Preparation(documents=documents, splitter=splitter)  # type: ignore[arg-type]
    steps = prepare_steps(SUMMARIES, docid="b", file="botany.md", settings=settings)
    shown = step_files(steps)["botany.chunks.md"].partition("---\n\n")[2]
    listed = re.findall(r"type: summary\n~~lines: .*\n---\n(.*)", shown)
    assert listed == ["Of plants.", "In short.", "On reds."]
    assert [chunk.text for chunk in steps.document.chunks if chunk.type == "summary"] == listed
    assert re.findall(r"^(?:# .*|## .*|In short.*|On reds.*)", shown, re.MULTILINE) == [
        "# Leaves",
        "In short.",
        "On reds.",
        "## Red",
    ]


def test_ours_are_recognised_with_other_line_ends_and_after_edits() -> None:
    """A document that only speaks of such files is none."""
    saved = pooled_file()
    windows = saved.replace("\n", "\r\n")
    assert is_own_output(windows)
    assert not is_edited(windows)
    assert read_prepared(windows) == read_prepared(saved)
    assert is_edited(saved.replace("green", "red"))
    assert not is_own_output(TEXT)
    assert not is_own_output("# About\n\n---\n~~prepared: x\n---\nText.\n")
    assert not is_own_output("")


@pytest.mark.parametrize(
    "broken", [("docid: b", "id: b"), ("step: pooled", "step: other"), ("~~prepared:", "~~prepared: x")]
)
def test_a_broken_header_is_an_error_that_says_what_to_do(broken: tuple[str, str]) -> None:
    """And not a document under another name."""
    with pytest.raises(IngestError, match="--save-files"):
        read_prepared(pooled_file().replace(*broken, 1))
