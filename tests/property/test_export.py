"""Clean notes hold no metadata and no special material; all else is there byte for byte."""

from __future__ import annotations

import re

import pytest
import talking
from hypothesis import example, given, reject, strategies as st
from strategies import PIECES, documents, written_documents

from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.testing import ScriptedModel
from lmm_education.config import Preparation
from lmm_education.errors import ExportError
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.options import Edits
from lmm_education.study.notes import Notes, clean_notes

TYPES = ["type: exercise", "type: text", "type: topic\nother: 1", "type:", "a: 1", "skip: true", "~chat_: []"]


@st.composite
def materials(draw: st.DrawFn) -> str:
    """Documents with types of material on paragraphs, headings and in the header; blank lines may be missing."""
    typed = st.sampled_from(TYPES).map(lambda body: f"---\n{body}\n---\n")
    texts = st.sampled_from(
        ["Text.\n\n", "```\n---\na: b\n---\n```\n", "- item\n\n", "$$\nx\n$$\n", "# A\n", "## B\n\n"]
    )
    pieces = draw(st.lists(st.one_of(typed, typed, texts, texts, PIECES), max_size=10))
    text = draw(st.sampled_from(["", "", "\ufeff", "\n\n"])) + "".join(pieces)
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.sampled_from([False, False, True])) else text


anything = st.one_of(materials(), written_documents(), documents())


def clean(text: str, *, edits: Edits = "refuse", keep_lines: bool = False) -> Notes:
    """The notes; of documents that are refused, which are another test's matter, none."""
    try:
        return clean_notes(text, edits=edits, keep_lines=keep_lines)
    except ExportError:
        reject()


def staying(blocks: list[Block]) -> list[Block]:
    """The texts that are no special material, and the headings that are none or have something that is none."""
    kept: list[Block] = []
    around: list[tuple[int, str, HeadingBlock | None]] = [(0, "text", None)]  # level, type, and heading if it waits
    own = None
    for block in blocks:
        if isinstance(block, MetadataBlock):
            value = str(block.get("type") or "") or None
            if isinstance(block, HeaderBlock):
                around = [(0, value or "text", None)]
            else:
                own = value
            continue
        if isinstance(block, HeadingBlock):
            while around[-1][0] >= block.level:
                around.pop()
            around.append((block.level, own or around[-1][1], block))
        kind = around[-1][1] if isinstance(block, HeadingBlock) else own or around[-1][1]
        if kind == "text":
            kept += [heading for _, _, heading in around if heading is not None]
            around = [(level, kind, None) for level, kind, _ in around]
            kept += [] if isinstance(block, HeadingBlock) else [block]
        own = None
    return kept


@given(anything)
def test_no_metadata_is_left(text: str) -> None:
    """But what of the header is not ours."""
    blocks = parse_markdown_text(clean(text).text)
    assert not any(isinstance(block, ErrorBlock) for block in blocks)
    assert not any(isinstance(block, MetadataBlock) for block in blocks[1:])
    if blocks and isinstance(header := blocks[0], MetadataBlock):
        assert isinstance(header, HeaderBlock)
        assert not {"docid", "model", "RAG", "type"} & header.values().keys()
        assert not any(key.startswith("~") for key in header.values())
        assert not header.prompts


def test_a_rule_that_would_begin_metadata_is_named() -> None:
    """Once the metadata is gone that made it a rule."""
    with pytest.raises(ExportError, match="document:1: without our metadata, this rule would begin metadata"):
        clean_notes("---\n```\n```\n---\n0:\n---\n=:\n---")


@given(anything)
def test_exporting_again_changes_nothing(text: str) -> None:
    """Whether line numbers were kept or not."""
    for notes in (clean(text), clean(text, keep_lines=True)):
        again = clean_notes(notes.text)
        assert again.text == notes.text
        assert not again.left_out


@given(anything)
def test_all_else_is_there_byte_for_byte(text: str) -> None:
    """Texts and headings in their order, each as it was; where something between two went, blank lines may come."""
    notes = clean(text)
    marked = "\ufeff" if text.startswith("\ufeff") else ""
    assert notes.text.startswith(marked) or not notes.text
    rest, before = notes.text.removeprefix(marked), -1
    header = parse_markdown_text(rest)[:1]
    rest = rest.removeprefix(header[0].source) if header and isinstance(header[0], HeaderBlock) else rest
    blocks = parse_markdown_text(text)
    for block in staying(blocks):
        here = next(i for i, other in enumerate(blocks) if other is block)
        if before >= 0 and here != before + 1:
            while not rest.startswith(block.source):
                assert rest.startswith(("\n", "\r\n"))
                rest = rest.removeprefix("\r").removeprefix("\n")
        source = block.source.removeprefix(marked) if here == 0 else block.source
        assert rest.startswith(source)
        rest, before = rest.removeprefix(source), here
    assert rest == ""


@given(anything)
def test_lines_keep_their_numbers_if_asked(text: str) -> None:
    """Each line of the notes stands where it stood; all others are blank."""
    notes = clean(text, keep_lines=True)
    before, after = text.split("\n"), notes.text.split("\n")
    begin = next((b.line for b in parse_markdown_text(notes.text) if not isinstance(b, HeaderBlock)), len(after) + 1)
    for old, new in list(zip(before, after, strict=False))[begin - 1 :]:
        assert new.lstrip("\ufeff") in (old.lstrip("\ufeff"), "", "\r")


@example("# A\n\n---\n{a: 1}\n?: beside flow\n---\n# A\n\n", "old")
@given(written_documents(), st.sampled_from(["old", "new"]))
def test_edits_that_wait_are_resolved_as_asked(text: str, which: Edits) -> None:
    """As if the author had accepted or rejected them; unasked, the export is refused with the line."""
    edited = talking.answered(text, again=True, model=ScriptedModel(["A new text."] * 99)).text
    resolve = talking.accepted if which == "new" else talking.rejected
    if "~edit_" not in edited:
        return
    assert clean(edited, edits=which).text == clean(resolve(edited)).text
    with pytest.raises(ExportError) as refused:
        clean_notes(edited, where="notes.md")
    assert re.match(r"notes\.md:\d+", refused.value.where)


MARKS = ["type: solution", "type: [exercise, Solution]", "type: exercise", "type: text", "topic: x", "?: why", "~a: 1"]
FENCES = ["::: {.solution}", "::: {#sol-x}", "::: {.callout-tip}", "::: {#exr-x}", ":::", ":::"]


@st.composite
def courses(draw: st.DrawFn) -> str:
    """A document in which every paragraph and item has a word of its own."""
    kinds = st.sampled_from(["mark", "mark", "text", "text", "text", "item", "code", "chunk", "fence", "heading"])
    pieces = []
    for number, kind in enumerate(draw(st.lists(kinds, max_size=14))):
        match kind:
            case "mark":
                pieces.append(f"---\n{draw(st.sampled_from(MARKS))}\n---\n")
            case "fence":
                pieces.append(f"{draw(st.sampled_from(FENCES))}\n\n")
            case "heading":
                pieces.append(f"{'#' * draw(st.integers(1, 3))} Heading {number}\n\n")
            case "chunk":
                pieces.append(f"```{{{draw(st.sampled_from(['solution', 'exercise', 'r']))}}}\nword{number}x\n```\n\n")
            case _:
                pieces.append({"text": "", "item": "- ", "code": "    "}[kind] + f"word{number}x\n\n")
    return draw(st.sampled_from(["", "# Leaves\n\n", "Text.\n\n", "---\ntitle: x\n---\n"])) + "".join(pieces)


@given(courses(), st.sampled_from(["heading", "level", "size", "none"]), st.sampled_from(["default", "none"]))
def test_students_read_of_the_course_what_they_read_of_the_notes(text: str, documents: str, splitter: str) -> None:
    """Of solutions: neither a chunk, nor a section, nor the notes have a text that the others have not."""
    try:
        notes = clean_notes(text, keep=["exercise"]).text
    except ExportError:
        reject()
    settings = Preparation(documents=documents, level=1, splitter=splitter)  # type: ignore[arg-type]
    prepared = prepare_document(text, docid="d", file="d.md", settings=settings)
    chunks = [chunk.text for chunk in prepared.chunks if chunk.audience == "everyone"]
    sections = [str(s.for_students.get("text", s.text)) for s in prepared.sections if s.audience == "everyone"]
    words = set(re.findall(r"word\d+x", text))
    assert {word for word in words if word in "".join(chunks)} == {word for word in words if word in notes}
    if documents != "none":
        assert {word for word in words if word in "".join(sections)} == {word for word in words if word in notes}
    lines = text.split("\n")
    withheld = "\n".join(line for each in prepared.withheld for line in lines[each.lines.first - 1 : each.lines.last])
    assert {word for word in words if word not in notes} <= set(re.findall(r"word\d+x", withheld))
