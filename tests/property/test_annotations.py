"""What holds for annotating any document, by a model or with what students asked: a second run does nothing, and the
author's text stays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import talking
from fakes.section_model import SectionModel
from hypothesis import event, given, strategies as st
from strategies import documents, texts

from lmm import Document
from lmm.markdown.blocks import Block, HeaderBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import without_metadata
from lmm.notebook.generated_fields import Batch, Field
from lmm_education.exchange_log.exchanges import LoggedExchange, LoggedSource
from lmm_education.exchange_log.figures import QuestionGroup
from lmm_education.exchange_log.open_questions import NotedQuestions

FIELDS = ("titles", "summary", "questions", "keywords")
ALL = dict.fromkeys(FIELDS, True)
_WORDS = "Prose of many words, enough for questions and for a summary. " * 6


@st.composite
def prose(draw: st.DrawFn) -> str:
    """Nasty documents in which some paragraphs are long enough to be annotated."""
    pieces = draw(st.lists(documents() | st.just(f"\n\n{_WORDS}\n\n") | st.just(f"\n\n## H\n\n{_WORDS}\n"), max_size=4))
    return "".join(pieces)


def annotated(text: str, model: SectionModel) -> talking.Talked:
    """The document with all annotations; documents whose header refuses settings are not drawn."""
    return talking.annotated(text, flags=ALL, model=model, title="file")


def without_ours(text: str, before: str) -> str:
    """A document without what annotating adds: fields, their hashes, blocks that hold nothing else, a header."""
    old = parse_markdown_text(before)
    known = {block.source.strip("\ufeff\r\n \t") for block in old}
    had_header = bool(old) and isinstance(old[0], HeaderBlock)
    kept: list[Block] = []
    for block in parse_markdown_text(text):
        if isinstance(block, HeaderBlock) and not had_header:
            assert all(key.startswith("~") for key in block.values())
            continue
        if isinstance(block, MetadataBlock) and block.source.strip("\ufeff\r\n \t") not in known:
            for key in ("~txthash_", *(f"~{name}_" for name in FIELDS)):
                if key in block.values():
                    block = block.without_key(key)
        if isinstance(block, MetadataBlock) and not block.body.strip():
            continue  # ours, or an empty one that was there and got our fields
        kept.append(block)
    return serialize(kept)


def words(text: str) -> list[str]:
    """The visible part of a text."""
    return text.replace("\ufeff", "").split()


@given(prose())
def test_a_second_run_asks_nothing_and_changes_nothing(text: str) -> None:
    """Whatever the document is, and whatever in it could not be annotated."""
    model = SectionModel()
    first = annotated(text, model)
    event("asked" if model.requests else "nothing asked")
    event("failures" if first.failures else "no failures")
    model.forget()
    second = annotated(first.text, model)
    assert (second.text, model.asked) == (first.text, [])


@given(prose())
def test_taking_away_what_we_added_gives_the_text_back(text: str) -> None:
    """Up to the blank lines around blocks that we put there."""
    assert words(without_ours(annotated(text, SectionModel()).text, text)) == words(without_ours(text, text))


@given(prose())
def test_no_line_of_the_author_is_lost(text: str) -> None:
    """All lines are there, in their order."""
    after = iter(annotated(text, SectionModel()).text.replace("\ufeff", "").replace("\r", "").split("\n"))
    for line in text.replace("\ufeff", "").replace("\r", "").split("\n"):
        assert line in after, line  # consumes the iterator up to the line


@given(prose())
def test_an_estimate_counts_what_a_run_asks(text: str) -> None:
    """As many fields; at least as many calls as a run makes (equal texts are asked once)."""
    estimate = talking.annotated(text, flags=ALL, estimate=True, model=SectionModel(), title="file")
    model = SectionModel()
    report = annotated(text, model)
    assert estimate.text == text
    assert len(model.requests) <= estimate.report.usage.requests or report.failures


@given(prose())
def test_the_order_of_replies_does_not_matter(text: str) -> None:
    """Whichever field is made first, the bytes are the same: one after the other, or all at once."""

    async def together(batch: Batch) -> None:
        await batch.make_fields(*(Field(name, _title, made_by="x") for name in FIELDS))

    async def apart(batch: Batch) -> None:
        for name in FIELDS:
            await batch.annotate(name, _title, made_by="x")

    one, other = (talking.worked(f, text, model=SectionModel(), title="file") for f in (together, apart))
    assert sorted(one.text.split("\n")) == sorted(other.text.split("\n"))


async def _title(section: object, text: str) -> str:
    return text[:20].encode("utf-8", "replace").decode()


@given(prose(), st.lists(texts(), max_size=3, unique_by=lambda text: " ".join(text.split())))
def test_questions_of_students_change_nothing_else(text: str, asked: list[str]) -> None:
    """Whatever they wrote: it is read back as it is, lines stay in order, and taken out, nothing is left to see."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.md")
        file.write_bytes(text.encode())
        sections = [LoggedSource(1, "", "a.md", path) for path in [("H",), ()]]
        exchanges = [
            LoggedExchange(str(i), 0.0, question, outcome="not found", sources=tuple(sections[i % 2 :]))
            for i, question in enumerate(asked)
        ]
        groups = [QuestionGroup([exchange]) for exchange in exchanges]
        writer = NotedQuestions({"a.md": Document.open(file)})
        noted = writer.write(groups)
        written = file.read_bytes().decode()
        if not writer.failures and (held := [each.question for each in noted if each.file]):
            event("written")
            read = [each["question"] for block in parse_markdown_text(written) if isinstance(block, MetadataBlock)
                    for each in block.values().get("~~students_", ())]  # fmt: skip
            assert sorted(read) == sorted(held)
        NotedQuestions({"a.md": Document.open(file)}).write(groups)
        assert file.read_bytes().decode() == written
        NotedQuestions({"a.md": Document.open(file)}).write([])
        before, after = (without_metadata(parse_markdown_text(each)) for each in (text, file.read_bytes().decode()))
        assert words(before) == words(after)
        lines = iter(written.replace("\ufeff", "").replace("\r", "").split("\n"))
        for line in text.replace("\ufeff", "").replace("\r", "").split("\n"):
            assert line in lines, line
