"""Ingesting: what is embedded, what goes, what is refused."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.courses import CountingEmbedder, Course
from memory import temporary_folder

import lmm_education
from lmm.disk import files
from lmm.errors import ModelRejected, ModelUnavailable
from lmm_education.errors import IngestError, StoreMismatch, StoreOutdated
from lmm_education.ingestion import writing
from lmm_education.ingestion.reports import Begun, Ended, Event, IngestReport
from lmm_education.material import PreparedDocument
from lmm_education.store.generations import checksum_of
from lmm_education.store.port import FORMAT

PARAGRAPH = "Cell number {0} divides, and what it was made of is shared between two of them. " * 4


def section(title: str, paragraphs: int, first: int = 0) -> str:
    """A section with paragraphs that differ."""
    return f"# {title}\n\n" + "".join(PARAGRAPH.format(n) + "\n\n" for n in range(first, first + paragraphs))


@pytest.fixture
def course() -> Iterator[Course]:
    """An empty course."""
    with temporary_folder() as folder:
        yield Course(folder)


def states(report: IngestReport) -> dict[str, str]:
    """What became of each document."""
    return {document.file: document.state for document in report.documents}


# -- only what changed -----------------------------------------------------------------------------


def test_twice_changes_nothing(course: Course) -> None:
    """Not one text is embedded the second time, and no byte of the store changes."""
    course.write("a.md", section("Mitosis", 30))
    course.write("notes/b.md", section("Meiosis", 3))
    first = course.ingest()
    assert first.embedded == len(course.embedder.seen) > 5
    before = course.contents()
    second = course.ingest()
    assert course.embedder.seen == []
    assert states(second) == {"a.md": "unchanged", "notes/b.md": "unchanged"}
    assert course.contents() == before
    assert set(before["chunks"]) == set(course.contents()["chunks"])


def test_twice_keeps_the_generation(course: Course) -> None:
    """A run without changes leaves the store's files alone."""
    course.write("a.md", section("Mitosis", 3))
    course.ingest()
    pointer = next(course.folder.glob(".lmm/store/*/current"))
    before = pointer.stat().st_mtime_ns, pointer.read_bytes()
    course.ingest()
    course.ingest("a.md")
    assert (pointer.stat().st_mtime_ns, pointer.read_bytes()) == before


@pytest.mark.parametrize("options", [{}, {"prune": True}])
def test_of_two_runs_at_once_the_second_embeds_nothing_again(course: Course, options: dict[str, bool]) -> None:
    """It planned before the first had written anything; the text changed meanwhile, and what was there is gone."""
    path = course.write("a.md", section("Mitosis", 3))
    course.write("b.md", section("Meiosis", 3))
    other, inner = replace(course, embedder=CountingEmbedder()), list[IngestReport]()

    def first_run(event: Event) -> None:
        if isinstance(event, Begun) and not inner:
            inner.append(other.ingest())
            path.write_text(section("Mitosis", 1, first=7), encoding="utf-8")

    report = course.ingest(listener=first_run, **options)
    assert states(inner[0]) == {"a.md": "new", "b.md": "new"}
    assert states(report) == {"a.md": "changed", "b.md": "unchanged"}
    assert report.embedded == len(course.embedder.seen) == 1
    stored = [payload["text"] for payload, _ in course.contents()["chunks"].values() if payload["file"] == "a.md"]
    assert [text.count("number 7") for text in stored] == [4]
    assert states(course.ingest()) == {"a.md": "unchanged", "b.md": "unchanged"}


@pytest.mark.parametrize("at", [0, 1, 25, 49, 50])
def test_a_paragraph_in_a_long_section_embeds_at_most_two_chunks(course: Course, at: int) -> None:
    """At the start, in the middle and at the end; a paragraph of usual length."""
    paragraphs = [PARAGRAPH.format(n) for n in range(50)]
    path = course.write("a.md", "# Mitosis\n\n" + "\n\n".join(paragraphs) + "\n")
    chunks = course.ingest().embedded
    assert chunks > 8
    paragraphs.insert(at, "A paragraph that was not there before, of some words and not very many.")
    path.write_text("# Mitosis\n\n" + "\n\n".join(paragraphs) + "\n", encoding="utf-8")
    (document,) = course.ingest().documents
    assert 1 <= document.embedded <= 2
    assert len(course.embedder.seen) == document.embedded
    assert "A paragraph that was not there" in "".join(course.texts())


def test_a_change_above_moves_lines_and_embeds_nothing(course: Course) -> None:
    """Only payloads are set where a text stands on other lines than before."""
    path = course.write("a.md", "# A\n\nOne.\n\n# B\n\nTwo.\n")
    course.ingest()
    path.write_text("# A\n\nOne.\n\n\n\n# B\n\nTwo.\n", encoding="utf-8")
    (document,) = course.ingest().documents
    assert (document.embedded, document.updated) == (0, 1)
    lines = {p["text"]: p["first_line"] for p, _ in course.contents()["chunks"].values()}
    assert lines == {"One.": 3, "Two.": 9}


def test_equal_texts_are_embedded_once(course: Course) -> None:
    """Twins are told apart by their place, and share their vectors."""
    course.write("a.md", "# A\n\nThe same.\n\n# A\n\nThe same.\n")
    (document,) = course.ingest().documents
    assert (document.chunks, document.embedded, document.reused) == (2, 1, 1)
    one, two = course.contents()["chunks"].values()
    assert one[1] == two[1]


# -- companion documents ---------------------------------------------------------------------------


def test_sections_are_stored_in_order_whatever_metadata_stands_between(course: Course) -> None:
    """One document per section, with all of its text; and each chunk names its section."""
    course.write(
        "a.md",
        "# A\n\nOne.\n\n---\ntopic: x\n---\nTwo.\n\nThree.\n\n---\ntype: exercise\n---\nFour.\n\n## B\n\nFive.\n\n"
        + 500 * "word ",
    )
    course.ingest()
    points = course.contents()
    sections = sorted((p for p, _ in points["documents"].values() if p["what"] == "section"), key=lambda p: p["order"])
    assert [(s["headings"], re.findall(r"\w+\.", s["text"])) for s in sections] == [
        (["A"], ["One.", "Two.", "Three.", "Four."]),
        (["A", "B"], ["Five."]),
    ]
    ids = {id for id, (p, _) in points["documents"].items() if p["what"] == "section"}
    assert {p["section"] for p, _ in points["chunks"].values()} == ids


def test_summaries_are_chunks_of_their_own(course: Course) -> None:
    """A summary is found by its type, and its text is not embedded with the section's."""
    course.write("a.md", "---\n~summary_: In short.\n---\n# A\n\nAt length.\n")
    course.ingest()
    types = {p["type"]: p["text"] for p, _ in course.contents()["chunks"].values()}
    assert types == {"summary": "In short.", "text": "At length."}
    assert not any("In short." in text and "At length." in text for text in course.embedder.seen)


# -- identity --------------------------------------------------------------------------------------


def test_a_folder_and_its_file_mean_the_same(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is relative to the folder of config.toml, wherever one stands."""
    course.write("notes/a.md", section("Mitosis", 2))
    course.ingest("notes")
    monkeypatch.chdir(course.folder / "notes")
    assert states(course.ingest("notes/a.md")) == {"notes/a.md": "unchanged"}
    assert course.files() == ["notes/a.md"]


def test_a_file_with_a_docid_may_be_moved(course: Course) -> None:
    """It is the same document; its payloads say the new file, and nothing is embedded: its name is the same."""
    path = course.write("a.md", f"---\ndocid: cells\n---\n{section('Mitosis', 2)}")
    course.ingest()
    (course.folder / "old").mkdir()
    path.rename(course.folder / "old" / "a.md")
    (document,) = course.ingest().documents
    assert (document.moved_from, document.embedded) == ("a.md", 0)
    assert course.files() == ["old/a.md"]
    assert {p["file"] for p, _ in course.contents()["chunks"].values()} == {"old/a.md"}


def test_a_renamed_file_without_docid_is_a_new_document(course: Course) -> None:
    """The old one stays until it is pruned; vectors of a model that is worth it come from its cache."""
    path = course.write("a.md", section("Mitosis", 2))
    course.ingest()
    path.rename(course.folder / "b.md")
    report = course.ingest()
    assert (states(report), [(lost.file, lost.pruned) for lost in report.lost]) == ({"b.md": "new"}, [("a.md", False)])
    assert course.files() == ["a.md", "b.md"]
    course.ingest(prune=True)
    assert course.files() == ["b.md"]


def test_a_docid_added_later(course: Course) -> None:
    """The document under its new identity replaces the one that the file was."""
    path = course.write("a.md", section("Mitosis", 2))
    course.ingest()
    path.write_text(f"---\ndocid: cells\n---\n{section('Mitosis', 2)}", encoding="utf-8")
    (document,) = course.ingest().documents
    assert (document.id, document.state) == ("cells", "changed")
    assert {p["document"] for p, _ in course.contents()["chunks"].values()} == {"cells"}


def test_two_files_with_one_docid(course: Course) -> None:
    """Neither is taken for the other; the one that was stored first stays."""
    text = f"---\ndocid: cells\n---\n{section('Mitosis', 2)}"
    course.write("a.md", text)
    course.write("b.md", text)
    assert len(course.ingest().failed) == 2
    (course.folder / "b.md").unlink()
    course.ingest()
    course.write("b.md", text)
    report = course.ingest()
    assert states(report) == {"a.md": "unchanged", "b.md": "failed"}
    assert states(course.ingest("b.md")) == {"b.md": "failed"}
    (course.folder / "a.md").unlink()
    assert states(course.ingest("b.md")) == {"b.md": "changed"}
    assert course.files() == ["b.md"]


def test_a_file_that_is_gone_is_told_and_pruned(course: Course) -> None:
    """Without the flag nothing is removed; only documents of the paths given are looked for."""
    course.write("notes/a.md", section("Mitosis", 2))
    course.write("b.md", section("Meiosis", 2, 100))
    course.ingest()
    (course.folder / "notes" / "a.md").unlink()
    assert course.ingest("b.md").lost == []
    (lost,) = course.ingest().lost
    assert (lost.file, lost.pruned) == ("notes/a.md", False)
    assert course.files() == ["b.md", "notes/a.md"]
    report = course.ingest("notes", prune=True)
    assert [lost.pruned for lost in report.lost] == [True]
    assert course.files() == ["b.md"]
    assert "number 1 " not in "".join(course.texts())
    assert course.ingest(prune=True).lost == []


def test_files_that_exchange_their_names(course: Course) -> None:
    """Each is the document that its docid says, and is found by its new name."""
    one = course.write("a.md", "---\ndocid: one\ntitle: One\n---\nThe first.\n")
    two = course.write("b.md", "---\ndocid: two\ntitle: Two\n---\nThe second.\n")
    course.ingest()
    one.rename(course.folder / "c.md")
    two.rename(one)
    (course.folder / "c.md").rename(two)
    assert not course.ingest().failed
    assert course.embedder.seen == ["Two\na\n\nThe second.", "One\nb\n\nThe first."]
    places = {p["text"]: (p["file"], p["document"]) for p, _ in course.contents()["chunks"].values()}
    assert places == {"The first.": ("b.md", "one"), "The second.": ("a.md", "two")}


# -- what is no document ---------------------------------------------------------------------------


def test_a_bad_file_is_told_and_the_others_go_on(course: Course) -> None:
    """Not UTF-8, a header that asks for something unknown, a docid that cannot be read."""
    course.write("good.md", "Good.\n")
    (course.folder / "latin.md").write_bytes(b"caf\xe9\n")
    course.write("asks.md", "---\nRAG:\n  nonsense: 1\n---\nText.\n")
    course.write("broken.md", "---\ndocid: x\ntitle: [\n---\nText.\n")
    report = course.ingest()
    assert states(report)["good.md"] == "new"
    assert sorted(error.where.split(":")[0] for error in report.failed) == ["asks.md", "broken.md", "latin.md"]
    assert course.files() == ["good.md"]


@pytest.mark.parametrize("relative", [True, False])
def test_an_error_names_its_file_once(course: Course, monkeypatch: pytest.MonkeyPatch, relative: bool) -> None:
    """By its path in the course, wherever one works and however the file was named."""
    (course.folder / "notes").mkdir()
    (course.folder / "notes" / "broken.md").write_bytes(b"a\xff\xfe")
    monkeypatch.chdir(course.folder / "notes" if relative else "/")
    with course.open() as opened:
        report = opened.ingest("broken.md" if relative else course.folder)
    (error,) = report.failed
    assert str(error).startswith("notes/broken.md:1:2: byte 0xff is not UTF-8")


def test_files_of_agents_are_passed_over(course: Course) -> None:
    """In a folder; named, they are ingested."""
    course.write("agent.md", '<config model="x"/>\n<user>Hello</user>\n')
    (document,) = course.ingest().documents
    assert document.state == "skipped"
    assert states(course.ingest("agent.md")) == {"agent.md": "new"}


def test_an_empty_document_is_a_document(course: Course) -> None:
    """It has no chunks, and is not looked at twice."""
    course.write("a.md", "")
    assert states(course.ingest()) == {"a.md": "new"}
    assert states(course.ingest()) == {"a.md": "unchanged"}


# -- the store's settings --------------------------------------------------------------------------


def test_other_settings_are_refused_until_the_store_is_made_anew(course: Course) -> None:
    """The error says what differs; --again brings all documents along, named or not."""
    course.write("a.md", section("Mitosis", 5))
    course.write("b.md", section("Meiosis", 5, 100))
    course.ingest()
    course.config.write_text("[text_splitter]\nmin_size = 100\nmax_size = 400\n")
    with pytest.raises(StoreMismatch, match="max_size"):
        course.ingest("a.md")
    before = len(course.texts())
    report = course.ingest("a.md", again=True)
    assert report.rebuilt
    assert states(report) == {"a.md": "changed", "b.md": "changed"}
    assert len(course.texts()) > before
    assert states(course.ingest()) == {"a.md": "unchanged", "b.md": "unchanged"}


def test_a_store_is_not_made_anew_without_some_of_its_documents(course: Course) -> None:
    """A file that is gone, or one that is bad: the store is as it was."""
    course.write("a.md", section("Mitosis", 5))
    course.write("b.md", section("Meiosis", 5, 100))
    course.ingest()
    before = course.contents()
    course.config.write_text('[RAG]\nencoding_model = "content"\n')
    (course.folder / "b.md").write_bytes(b"\xff")
    assert course.ingest("a.md", again=True).failed
    assert course.contents() == before
    (course.folder / "b.md").unlink()
    with pytest.raises(IngestError, match="of its documents, 1 cannot be found"):
        course.ingest("a.md", again=True)
    assert course.contents() == before
    course.ingest(again=True, prune=True)
    assert course.files() == ["a.md"]


@pytest.mark.parametrize(("encoding", "embedded"), [("none", 0), ("sparse", 1), ("content", 2), ("multivector", 2)])
def test_every_encoding_is_counted_as_it_is(course: Course, encoding: str, embedded: int) -> None:
    """Without vectors nothing is embedded; what is encoded alike, once."""
    course.config.write_text(f'[RAG]\nencoding_model = "{encoding}"\n')
    asked = "---\n~questions_: [Why?]\n---\n"
    course.write("a.md", f"{asked}# A\n\nOne.\n\n{asked}# A\n\nTwo.\n")
    assert course.ingest(dry_run=True).embedded == course.ingest().embedded == embedded
    assert course.texts() == ["One.", "Two."]


def test_a_setting_of_the_document_is_followed(course: Course) -> None:
    """What the header says about cutting holds for this document, and needs no other store."""
    course.write("a.md", section("Mitosis", 12))
    course.ingest()
    before = len(course.texts())
    course.write("a.md", f"---\nRAG:\n  max_size: 400\n  min_size: 100\n---\n{section('Mitosis', 12)}")
    course.ingest()
    assert len(course.texts()) > before


def test_again_embeds_what_is_named(course: Course) -> None:
    """Under the same settings, the others are left alone."""
    course.write("a.md", section("Mitosis", 2))
    course.write("b.md", section("Meiosis", 2, 100))
    course.ingest()
    report = course.ingest("a.md", again=True)
    assert not report.rebuilt
    assert {document.file: document.embedded > 0 for document in report.documents} == {"a.md": True}


# -- trying and failing ----------------------------------------------------------------------------


def test_a_dry_run_changes_nothing_and_counts(course: Course) -> None:
    """It tells what the run then does."""
    course.write("a.md", section("Mitosis", 20))
    tried = course.ingest(dry_run=True)
    assert course.embedder.seen == []
    assert not (course.folder / ".lmm").exists()
    assert tried.embedded == course.ingest().embedded
    course.write("a.md", section("Mitosis", 21))
    before = course.contents()
    tried = course.ingest(dry_run=True)
    assert course.embedder.seen == []
    assert course.contents() == before
    assert 1 <= tried.embedded == course.ingest().embedded <= 2


def test_a_run_that_ends_in_the_middle_leaves_what_it_published(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole documents; the next run goes on with the others."""
    monkeypatch.setattr(writing, "PUBLISH_EVERY", 0.0)
    monkeypatch.setattr(writing, "PUBLISH_SHARE", 0.0)
    monkeypatch.setattr(writing, "GROUP", 1)
    for number in range(10):
        course.write(f"{number}.md", section(f"Part {number}", 2, 10 * number))
    done = []

    def until_the_seventh(event: object) -> None:
        done.extend([event] if isinstance(event, Ended) else [])
        if len(done) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        course.ingest(listener=until_the_seventh)
    assert course.files() == [f"{number}.md" for number in range(6)]
    assert course.ingest().count("new") == 4
    fresh = replace(course, name="fresh")
    fresh.ingest()
    assert course.contents() == fresh.contents()


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_long_run_keeps_no_more_than_the_group_it_is_at(
    course: Course, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """What was made of a document is let go when it is written: a course may be larger than the memory."""
    monkeypatch.setattr(writing, "BATCH", 1)
    kept = list[int]()

    def count(event: Event) -> None:
        if isinstance(event, Ended):
            gc.collect()
            kept.append(sum(isinstance(each, PreparedDocument) for each in gc.get_objects()))

    for number in range(4):
        course.write(f"{number}.md", section(f"Part {number}", 2))
    course.ingest(dry_run=dry_run, listener=count)
    assert len(kept) == 4
    assert len(set(kept)) == 1


def test_a_model_that_is_down_leaves_the_store_as_it_was(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, not for every document; all of them are told."""
    course.write("a.md", section("Mitosis", 2))
    course.ingest()
    before = course.contents()
    for name in "bcd":
        course.write(f"{name}.md", section(name, 20))
    asked = []

    def down(*args: object, **kwargs: object) -> list[list[float]]:
        asked.append(args)
        raise ModelUnavailable("no answer")

    monkeypatch.setattr(course.embedder, "embed", down)
    report = course.ingest()
    assert states(report) == {"a.md": "unchanged", "b.md": "failed", "c.md": "failed", "d.md": "failed"}
    assert len(asked) == 1
    assert course.contents() == before


def test_a_document_that_the_model_refuses_does_not_keep_the_others(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are embedded together, then one by one."""
    for name in "abc":
        course.write(f"{name}.md", f"Text of {name}.\n")
    embed = course.embedder.embed

    def picky(texts: list[str], **kwargs: object) -> list[list[float]]:
        if any("Text of b" in text for text in texts):
            raise ModelRejected("too long")
        return embed(texts, kind="document")

    monkeypatch.setattr(course.embedder, "embed", picky)
    assert states(course.ingest()) == {"a.md": "new", "b.md": "failed", "c.md": "new"}
    assert course.files() == ["a.md", "c.md"]


def test_annotations_that_are_missing_are_told_once(course: Course) -> None:
    """No model is asked for them; where none is switched on, nothing is said."""
    for name in "ab":
        course.write(f"{name}.md", section("Mitosis", 3))
    assert course.ingest(dry_run=True).notices == []
    course.config.write_text('minor = "Builtin/extractive"\n[RAG]\nkeywords = true\n')
    (notice,) = course.ingest().notices
    assert notice.startswith("2 annotations are missing")
    course.ingest(annotate=True)
    assert "~keywords_" in (course.folder / "a.md").read_text()
    assert course.ingest().notices == []


REVIEWED = """---
title: Chapter 1
---
## What are linear models?

Linear models are used in practice for prediction and for inference, and each of the two has its own problems.

::: note
They generalise to outcomes that are not numbers, such as yes and no, and to those that are counts of something.
:::
"""


def test_annotations_are_made_in_the_file_that_is_reviewed(course: Course) -> None:
    """As the seed has it: the source stays as it is; what is reviewed is what is ingested, and is not made again."""
    source = course.write("MyMarkdown.md", REVIEWED)
    course.config.write_text('minor = "Builtin/extractive"\n[RAG]\nquestions = True\ntitles = True\n')
    (report,) = course.ingest(save_files=True, ingest=False).documents
    assert source.read_text() == REVIEWED
    pooled, documents, chunks = (path.read_text() for path in report.saved)
    assert "~questions_:\n" in pooled
    assert "\nannotations:\n" in chunks
    for shown in (pooled, documents, chunks):
        assert "Chapter 1 - What are linear models?\n" in shown
    again = course.ingest("MyMarkdown.md", save_files=True, ingest=False)
    assert (again.notices, (course.folder / "MyMarkdown.pooled.md").read_text()) == ([], pooled)
    assert course.ingest("MyMarkdown.pooled.md").notices == []
    (payload,) = (payload for payload, _ in course.contents()["chunks"].values())
    assert payload["metadata"]["titles"] == "Chapter 1 - What are linear models?"
    assert payload["metadata"]["questions"]
    reviewed = course.folder / "MyMarkdown.pooled.md"
    reviewed.write_text(pooled.replace("its own problems", "its own problems and rewards"))
    (notice,) = course.ingest("MyMarkdown.pooled.md").notices
    assert notice.startswith("1 annotations are missing or out of date")
    assert course.ingest("MyMarkdown.pooled.md", annotate=True).notices == []


def test_annotations_for_review_need_a_model_that_was_chosen(course: Course) -> None:
    """Titles are made by code; a line says which key the others wait for."""
    for name in "ab":
        course.write(f"{name}.md", REVIEWED)
    course.config.write_text("[RAG]\nquestions = true\n")
    (notice,) = course.ingest(save_files=True, ingest=False).notices
    assert (notice.split(":")[0], notice.split(";")[1]) == (
        "only titles were made",
        " set model under [minor] in config.toml",
    )
    pooled = (course.folder / "a.pooled.md").read_text()
    assert "~titles_" in pooled
    assert "~questions_" not in pooled


def test_nothing_is_stored_without_ingest(course: Course) -> None:
    """The documents are prepared; no store comes into being, no model is asked."""
    course.write("a.md", section("Mitosis", 2))
    report = course.ingest(ingest=False)
    assert states(report) == {"a.md": "prepared"}
    assert course.embedder.seen == []
    assert not (course.folder / ".lmm").exists()


# -- document frequencies --------------------------------------------------------------------------

WORDS = ["spindle", "cell", "gene", "root", "leaf", "enzyme", "membrane", "protein"]


def chapter(number: int) -> str:
    """A chapter in which some words are rarer than others."""
    texts = (" ".join(WORDS[(number * i + i * i) % (1 + i % 8)] for i in range(n, n + 60)) for n in range(6))
    return "".join(f"# Part {number}.{n}\n\n{text}.\n\n" for n, text in enumerate(texts))


def lists_of(course: Course) -> list[list[tuple[str, float]]]:
    """What is found for each pair of words, with its score."""
    with lmm_education.Course.open(
        config=course.config, course=course.name, embedder=course.embedder, store=course.store
    ) as opened:
        questions = [f"{one} {other}" for one in WORDS for other in WORDS]
        return [[(hit.id, hit.score) for hit in opened.search(question, limit=30).hits] for question in questions]


def test_a_store_of_an_older_format_is_made_anew(course: Course) -> None:
    """With one line that says so; asking it names the command."""
    course.write("a.md", section("Mitosis", 3))
    course.ingest()
    pointer = next(course.folder.glob(".lmm/store/*/current"))
    values = json.loads(pointer.read_text()) | {"format": FORMAT - 1}
    values.pop("checksum")
    pointer.write_text(json.dumps(values | {"checksum": checksum_of(values)}))
    with pytest.raises(StoreOutdated, match="lmm ingest"):
        lists_of(course)
    report = course.ingest()
    assert (report.rebuilt, report.failed) == (True, [])
    assert [notice for notice in report.notices if "format" in notice]
    assert lists_of(course)[0]
    assert not course.ingest().rebuilt


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To plan the run and to prepare the document."""
    for number in range(5):
        (tmp_path / f"{number}.md").write_text(f"---\ndocid: n{number}\n---\n\n# Note {number}\n\nText.\n")
    (tmp_path / "config.toml").write_text('[embedding]\nmodel = "Builtin/wordllama"\n')
    decode, opened = files.decode_document, list[str]()

    def counted(data: bytes, name: str) -> str:
        opened.append(Path(name).name)
        return decode(data, name)

    monkeypatch.setattr(files, "decode_document", counted)
    with lmm_education.Course.open(tmp_path) as course:
        assert course.ingest().count("new") == 5
    assert sorted(set(opened) - {"config.toml"}) == sorted(opened[1:]) == [f"{number}.md" for number in range(5)]
