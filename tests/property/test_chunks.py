"""What holds for the chunks of every document: nothing lost, nothing torn, each at its place, few moved by a change."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given, strategies as st
from strategies import documents, written_documents

from lmm_education.books.rendered_text import rendered_text
from lmm_education.config import AnnotationModel, Preparation
from lmm_education.ingestion.block_kinds import kind_of
from lmm_education.ingestion.outline import Heading, read_outline
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.prepared import is_edited, prepared_text, step_files
from lmm_education.ingestion.source_files import is_own_output
from lmm_education.material import Chunk, PreparedDocument

_LINES = [f"| {n} | row {n} of a table |" for n in range(12)]
_WHITE = " \t\r\n"
_LARGE = [
    "A sentence that is of middling length. " * 12, "\n".join(["| n | text |", "|---|------|", *_LINES]),
    "```r\n" + "\n".join(f"x{n} <- {n}" for n in range(30)) + "\n```",
    "- item one\n\n- item two\n\n  more of it\n\n- three", "\n".join(f"{n}. item number {n}" for n in range(20)),
    "> quoted words. And more.\n" * 8, "word " * 80,
    "x" * 300, "$$\n" + "\n".join(f"a_{n} = {n}" for n in range(30)) + "\n$$", "<div>\n\ninside\n\n</div>",
    "葉は緑色です。" * 40, "    code\n    more", "---\ntype: exercise\n---\nWhy?",
    "---\ntype: exercise\n---\n1. First\n\n\n2. Second " + "words " * 25 + "\n\n   more\n\n3. Third",
    "---\n~summary_: Short.\n~questions_: [Why?, How?]\n---\n## S",
    "# A\n\n" + "Prose of one line.\n\n" * 9, "---\nskip: true\n---\nhidden", "---\ntopic: review\n---\n# B",
]  # fmt: skip
LARGE_DOCUMENTS = st.lists(st.sampled_from(_LARGE), max_size=8).map(lambda pieces: "\n\n".join(pieces) + "\n")
ANY_DOCUMENT = LARGE_DOCUMENTS | written_documents() | documents()
SETTINGS = st.builds(
    Preparation,
    pool=st.booleans(),
    pool_size=st.just(20),
    documents=st.sampled_from(["heading", "level", "size", "none"]),
    level=st.just(1),
    document_size=st.sampled_from([200, 1000]),
    splitter=st.sampled_from(["default", "default", "none"]),
    min_size=st.just(60),
    max_size=st.sampled_from([90, 200]),
    overlap=st.sampled_from([0, 0, 40]),
    annotation_model=st.just(AnnotationModel(("topic",), ("topic",))),
)


def prepared(text: str, settings: Preparation) -> PreparedDocument:
    return prepare_document(text, docid="d", file="notes/a.md", settings=settings)


def texts_of(document: PreparedDocument) -> list[Chunk]:
    """The chunks that were cut from the text."""
    return [chunk for chunk in document.chunks if chunk.type != "summary"]


def bodies(chunk: Chunk) -> list[str]:
    """What a chunk may hold of its section: its text, without lines repeated at its start or its end."""
    lines = chunk.text.split("\n")
    return ["\n".join(lines[head : len(lines) - foot]).strip(_WHITE) for head in (0, 1, 2) for foot in (0, 1)]


@given(ANY_DOCUMENT, SETTINGS)
@example(" ~~~" + "0" * 34 + "\n" + "0" * 43 + "\n~~~0\n~~~", Preparation(min_size=60, max_size=90))
def test_chunks_give_back_the_text_of_their_section(text: str, settings: Preparation) -> None:
    """Without repeated lines, the chunks stand in their section's text in order, and nothing else but headings does."""
    settings = settings.replace(documents="heading" if settings.documents == "none" else settings.documents)
    document = prepared(text, settings)
    headings = [item.text for item in read_outline(text).items if isinstance(item, Heading)]
    for section in document.sections:
        rests = {section.text}  # several: a line may be repeated, or stand there
        for chunk in texts_of(document):
            if chunk.section == section.id:
                rests = {end for rest in rests for end in after(rest, chunk, headings)}
                assert rests, f"{chunk.text!r} does not come next in {section.text!r}"
        assert not all(without_headings(rest, headings)[-1] for rest in rests)


def after(rest: str, chunk: Chunk, headings: Sequence[str]) -> set[str]:
    """What may follow a chunk in the rest of its section's text."""
    return {
        start[len(body) :]
        for body in filter(None, bodies(chunk))
        for start in without_headings(rest, headings)
        if start.startswith(body)
    }


def without_headings(text: str, headings: Sequence[str]) -> list[str]:
    """The text without white space at its ends, and without the headings that it begins with: one, two, …"""
    sources = {heading.strip(_WHITE) for heading in headings}
    found = [text.strip(_WHITE)]
    while (line := found[-1].partition("\n"))[0].strip(_WHITE) in sources:
        found.append(line[2].strip(_WHITE))
    return found


@given(ANY_DOCUMENT, SETTINGS)
def test_a_chunks_lines_are_those_of_its_text(text: str, settings: Preparation) -> None:
    """The range holds every word of it; where readers see what is written, it begins and ends with the text, and holds
    every line of it, in order."""
    file = [line.removesuffix("\r") for line in text.split("\n")]
    is_as_written = rendered_text(text) == text
    for chunk in texts_of(prepared(text, settings)):
        first, last = chunk.place.lines
        assert 1 <= first <= last <= len(file)
        lines = file[first - 1 : last]
        words = {word for line in lines for word in re.findall(r"\w+", line)}
        if is_as_written:
            assert any(stands_in(body, lines) for body in bodies(chunk)), (chunk, lines)
        else:
            assert any(words.issuperset(re.findall(r"\w+", body)) for body in bodies(chunk)), (chunk, lines)


def stands_in(body: str, lines: Sequence[str]) -> bool:
    wanted = [line.strip(_WHITE) for line in body.split("\n") if line.strip(_WHITE)]
    lines = [line for line in lines if line.strip(_WHITE)]
    if not wanted or wanted[0] not in lines[0] or wanted[-1] not in lines[-1]:
        return False
    rest = iter(lines)
    return all(any(line in there for there in rest) for line in wanted)


@given(ANY_DOCUMENT, SETTINGS)
def test_no_chunk_is_larger_than_allowed(text: str, settings: Preparation) -> None:
    """Whatever the text: a row, a fence line or a word that is longer than all limits included."""
    assume(settings.splitter == "default")
    document = prepared(text, settings)
    assert all(len(chunk.text) <= settings.max_size for chunk in texts_of(document))
    assert all(len(chunk.overlap) <= settings.overlap for chunk in document.chunks)


@given(st.lists(st.sampled_from(_LARGE), max_size=8))
def test_what_fits_is_not_torn(pieces: list[str]) -> None:
    """A table, fence, equation, quote or list that fits into a chunk is in one chunk, whole."""
    text = "".join(f"This stands between.\n\n{piece}\n\n" for piece in pieces)
    chunks = [chunk.text for chunk in prepared(text, Preparation(min_size=300, max_size=600)).chunks]
    for piece in pieces:
        whole = len(piece) <= 600 and kind_of(piece) not in ("prose", "html") and not piece.startswith(("---", "#"))
        if whole:
            assert any(piece.strip("\n") in chunk for chunk in chunks)


@given(ANY_DOCUMENT, SETTINGS)
def test_ids_are_distinct_and_stay(text: str, settings: Preparation) -> None:
    """Twins are told apart, and preparing again gives the same."""
    document = prepared(text, settings)
    ids = [chunk.id for chunk in document.chunks] + [section.id for section in document.sections]
    assert len(set(ids)) == len(ids)
    assert prepared(text, settings) == document
    assert document.sections == () or {chunk.section for chunk in document.chunks} <= {s.id for s in document.sections}


@given(ANY_DOCUMENT, SETTINGS)
@example("% 0\n# 1", Preparation())
@example("% 0\n---\n# 1", Preparation())
def test_a_prepared_document_has_the_same_words_for_the_same_readers(text: str, settings: Preparation) -> None:
    """It is prepared like any other; each file knows that nobody edited it."""
    document = prepare_document(text, docid="d", file="notes/a.md", settings=settings)
    pooled = prepared_text(text, "a.md", docid="d", file="notes/a.md")
    for name, saved in step_files(document, pooled).items():
        assert is_own_output(saved)
        assert not is_edited(saved)
        assert is_edited(saved + "More.\n")
        if name == "a.pooled.md":
            again = prepare_document(saved, docid="d", file="notes/a.pooled.md", settings=settings)
            assert (again.title, words_for(again)) == (document.title, words_for(document))


def words_for(document: PreparedDocument) -> list[tuple[str, str]]:
    """The words of the chunks, each with those who may read it."""
    return [(chunk.audience, word) for chunk in texts_of(document) for word in chunk.text.split()]


@given(written_documents())
def test_conversations_reach_neither_text_nor_metadata(text: str) -> None:
    """Chats, edits, prompts and bookkeeping are about the text; they are not of it."""
    for chunk in prepared(text, Preparation()).chunks:
        assert not [
            key for key in chunk.metadata if key.startswith("~") or key in ("chat_", "edit_", "query", "message")
        ]
        assert "why? # honestly" not in chunk.text


# -- few chunks change with a paragraph --------------------------------------------------------------


def paragraph(at: random.Random, words: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(at.choices(letters, k=at.randrange(2, 9))) for _ in range(words)).capitalize() + "."


@pytest.mark.parametrize("change", ["insert", "delete", "change"])
def test_few_chunks_change_with_a_paragraph(change: str) -> None:
    """In long sections, at most two chunks in nearly all cases, and never many."""
    at = random.Random(4)
    counts: list[int] = []
    for _ in range(100):
        paragraphs = [paragraph(at, at.randrange(10, 120)) for _ in range(40)]
        before = texts(paragraphs)
        place = at.choice([0, len(paragraphs) // 2, len(paragraphs) - 1, at.randrange(len(paragraphs))])
        if change != "insert":
            del paragraphs[place]
        if change != "delete":
            paragraphs.insert(place, paragraph(at, at.randrange(10, 120)))
        counts.append(sum((texts(paragraphs) - before).values()))
    assert sum(count > 2 for count in counts) <= 0.06 * len(counts), Counter(counts)
    assert max(counts) <= 5


def texts(paragraphs: Sequence[str]) -> Counter[str]:
    return Counter(chunk.text for chunk in prepared("\n\n".join(paragraphs), Preparation()).chunks)


def test_equal_paragraphs_take_linear_time() -> None:
    """Ten thousand times the same line is no worst case."""
    text, settings = "The same line again.\n\n" * 10_000, Preparation(pool=False)
    assert 100 < len(prepare_document(text, docid="d", file="a.md", settings=settings).chunks) < 300
