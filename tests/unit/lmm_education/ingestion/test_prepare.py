"""The three steps on documents that can be read: golden files, and what is decided once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_files import GOLDEN, Case, read_cases

from lmm.errors import ConfigError
from lmm_education.config import AnnotationModel, Preparation
from lmm_education.ingestion.outline import Heading, read_outline
from lmm_education.ingestion.prepare import prepare_document
from lmm_education.ingestion.prepared import prepared_text, step_files
from lmm_education.material import Chunk, Section

BOTANY = GOLDEN / "prepare" / "botany.md"
CORPUS = Path(__file__).resolve().parents[5] / "shared" / "corpus"


def shown(item: Chunk | Section, kind: str) -> str:
    """A chunk or section as the golden file writes it."""
    overlap = f"({item.overlap}) " if isinstance(item, Chunk) and item.overlap else ""
    notes = f" [{' | '.join(item.annotations)}]" if isinstance(item, Chunk) and item.annotations else ""
    place = f"{' > '.join(item.place.headings) or '-'} {item.place.lines}"
    return f"{kind} {place}{notes}: {overlap}{item.text}".replace("\n", "⏎")


@pytest.mark.parametrize("case", read_cases("prepare/cases"), ids=str)
def test_chunks_of_a_document(case: Case) -> None:
    """Each case of the golden file; sections are compared where the case shows them."""
    document = prepare_document(case.source, docid="d", file="a.md", settings=Preparation())
    lines = [shown(chunk, chunk.type) for chunk in document.chunks]
    if any(line.startswith("section ") for line in case.expected):
        lines += [shown(section, "section") for section in document.sections]
    assert lines == list(case.expected)


def test_the_files_of_each_step() -> None:
    """What --save-files writes for a document with everything in it."""
    settings = Preparation(annotation_model=AnnotationModel(own_properties=("topic",)))
    text = BOTANY.read_text(encoding="utf-8")
    document = prepare_document(text, docid="botany-1", file="notes/botany.md", settings=settings)
    files = step_files(document, prepared_text(text, "botany.md", docid=document.id, file=document.file))
    assert list(files) == ["botany.pooled.md", "botany.documents.md", "botany.chunks.md"]
    for name, saved in files.items():
        assert saved == (BOTANY.parent / name).read_text(encoding="utf-8")


def test_metadata_is_everything_but_conversations_and_ids() -> None:
    """Nearest first, without the marks of who wrote it, as JSON can hold it."""
    text = (
        "---\ntitle: T\ndocid: x\nauthor: A\nmodel: none\n~~id: 3\n---\n---\n~titles_: T - H\n~txthash_: a b c\n"
        "author: B\n~summary_: S.\n---\n# H\n\n---\ndate: 2025-05-21\nn: .inf\ntextid: x.1\n"
        "?: why\nfrozen = True\n---\nText.\n"
    )
    document = prepare_document(text, docid="x", file="a.md", settings=Preparation())
    chunk = document.chunks[-1]
    assert chunk.metadata == {"title": "T", "author": "B", "titles": "T - H", "date": "2025-05-21", "n": "inf"}
    assert document.sections[0].metadata == {"titles": "T - H", "author": "B", "summary": "S."}
    assert document.metadata == {"title": "T", "author": "A"}
    json.dumps(chunk.metadata, allow_nan=False)


def test_switches_do_not_part_a_text_from_its_neighbours() -> None:
    """`frozen` is no property of a text."""
    text = "One.\n\n---\nfrozen = True\n---\nTwo.\n"
    document = prepare_document(text, docid="x", file="a.md", settings=Preparation())
    assert [chunk.text for chunk in document.chunks] == ["One.\n\nTwo."]


def test_a_document_without_text_has_no_chunks() -> None:
    """Nor has one that is skipped as a whole; its headings are sections all the same."""
    assert prepare_document("", docid="d", file="a.md", settings=Preparation()).chunks == ()
    skipped = prepare_document("---\nskip: true\n---\n# A\n\nText.\n", docid="d", file="a.md", settings=Preparation())
    assert (skipped.chunks, skipped.sections) == ((), ())
    headings = prepare_document("# A\n\n## B\n", docid="d", file="a.md", settings=Preparation())
    assert [section.place.names for section in headings.sections] == [("A", "B")]


def test_title_and_language() -> None:
    """The header's, else the first heading's; else the name of the file and the configured language."""
    plain = prepare_document("Text.\n", docid="d", file="notes/a.md", settings=Preparation(language="it"))
    assert (plain.title, plain.language) == ("a", "it")
    german = prepare_document(
        "---\ntitle: Blätter\nlang: de\n---\nText.\n", docid="d", file="a.md", settings=Preparation()
    )
    assert (german.title, german.language, german.chunks[0].title) == ("Blätter", "de", "Blätter")


def test_tokens_need_something_that_counts_them() -> None:
    """Characters are never counted in their place."""
    settings = Preparation(unit="tokens", min_size=2, max_size=4, pool=False)
    with pytest.raises(ConfigError, match="tokens"):
        prepare_document("Text.\n", docid="d", file="a.md", settings=settings)
    document = prepare_document(
        "one two three\n\nfour five six\n\nseven eight nine ten eleven twelve\n",
        docid="d",
        file="a.md",
        settings=settings,
        count=lambda text: len(text.split()),
    )
    assert all(len(chunk.text.split()) <= 4 for chunk in document.chunks)
    assert " ".join(chunk.text for chunk in document.chunks).split()[-1] == "twelve"


def test_an_unknown_setting_in_the_header_names_the_place() -> None:
    """A document's own settings are checked like the course's."""
    with pytest.raises(ConfigError, match=r"notes/a.md:1: unknown key 'max'"):
        prepare_document("---\nRAG: {max: 3}\n---\n", docid="d", file="notes/a.md", settings=Preparation())


def test_editing_a_text_leaves_its_sections_id() -> None:
    """Chunks are named by what they say, sections by their headings."""
    before, after = (
        prepare_document(f"# A\n\n{text}\n\n# A\n\nTwin.\n", docid="d", file="a.md", settings=Preparation())
        for text in ("One.", "Two.")
    )
    assert [section.id for section in before.sections] == [section.id for section in after.sections]
    assert before.chunks[0].id != after.chunks[0].id
    assert before.chunks[1].id == after.chunks[1].id


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_real_documents() -> None:
    """A textbook without what it includes: no chunk is too large, and nearly all words of the text are in one."""
    for path in sorted((CORPUS / "rust-book").glob("ch0*.md")):
        text = path.read_text(encoding="utf-8")
        document = prepare_document(text, docid=path.name, file=path.name, settings=Preparation())
        assert all(len(chunk.text) <= 2000 for chunk in document.chunks)
        assert sum(len(section.text) for section in document.sections) > 0.7 * len(text)


LIST = "1. First\n\n2. Second\n\n   more of it\n\n\n3. Third"


def test_metadata_of_a_list_holds_for_all_of_it() -> None:
    """Also with blank lines between its items; what comes after the list has none of it."""
    text = f"# A\n\n---\ntype: exercise\n---\n{LIST}\n\n- Other\n"
    document = prepare_document(text, docid="d", file="a.md", settings=Preparation(pool=False))
    assert [(c.type, c.text, tuple(c.place.lines)) for c in document.chunks] == [
        ("exercise", LIST, (6, 13)),
        ("text", "- Other", (15, 15)),
    ]


def test_what_is_not_skipped_under_what_is() -> None:
    """The nearest ``skip`` counts; headings on the way stay. Before a div it is about all of the div."""
    text = (
        "---\nskip: true\n---\n# A\n\nNo.\n\n---\nskip: false\n---\n## B\n\nYes.\n\n---\nskip: true\n---\n"
        "::: note\nNo.\n\n---\nskip: false\n---\nAnd yes.\n:::\n\nYes too.\n\n# C\n\nNo.\n"
    )
    outline = read_outline(text)
    assert [item.title if isinstance(item, Heading) else item.text for item in outline.items] == [
        "A", "B", "Yes.", "And yes.", "Yes too."
    ]  # fmt: skip


def test_a_list_that_is_skipped_is_skipped_as_a_whole() -> None:
    """`skip` is metadata like any other."""
    text = f"# A\n\n---\nskip: true\n---\n{LIST}\n\nText.\n"
    document = prepare_document(text, docid="d", file="a.md", settings=Preparation())
    assert [chunk.text for chunk in document.chunks] == ["Text."]


def test_of_several_types_the_first_is_the_kind() -> None:
    """A text may be an exercise that was in an exam, too."""
    text = "# A\n\n---\ntype: [exercise, exam]\n---\nWhy?\n"
    document = prepare_document(text, docid="d", file="a.md", settings=Preparation())
    assert [chunk.type for chunk in document.chunks] == ["exercise"]


def test_a_misspelt_size_in_the_header_is_recognised() -> None:
    """Under RAG: stand the keys of [text_splitter], too."""
    with pytest.raises(ConfigError, match=r"did you mean 'max_size'"):
        prepare_document("---\nRAG: {max_sise: 3}\n---\n", docid="d", file="a.md", settings=Preparation())


def test_headings_are_as_readers_see_them() -> None:
    """Above a passage and its section, whose id comes from what the author wrote."""
    text = "# Again, `r n` times {#again}\n\nLeaves are green.\n"
    document = prepare_document(text, docid="d", file="a.Rmd", settings=Preparation())
    assert [section.place.headings for section in document.sections] == [("Again, … times",)]
    assert [chunk.place.headings for chunk in document.chunks] == [("Again, … times",)]
    edited = prepare_document(text.replace("green", "red"), docid="d", file="a.Rmd", settings=Preparation())
    assert [section.id for section in edited.sections] == [section.id for section in document.sections]


def test_a_footnote_is_read_where_the_text_refers_to_it() -> None:
    """It may stand at the end of the document, or beside its reference; code is code."""
    text = (
        "# A\n\n# B\n\nLeaves are green[^why].\n\n```\nx[^why]\n```\n\n# C\n\nStems[^stem] carry.\n\n"
        "[^stem]: Water.\n\n"
        "```\n[^why]: no note\n```\n\n# D\n\n[^why]: They hold\n    chlorophyll<!-- hidden -->.\n"
    )
    document = prepare_document(text, docid="d", file="a.md", settings=Preparation())
    shown = [section.text for section in document.sections]
    assert "green (They hold chlorophyll.)." in shown[1]
    assert "x[^why]" in shown[1]
    assert "Stems (Water.) carry.\n\n```" in shown[2]
    assert shown[3] == ""
    assert "green (They hold chlorophyll.)." in document.chunks[0].text
    assert not any("[^why]" in chunk.text for chunk in document.chunks if "```" not in chunk.text)


def test_a_link_is_resolved_whose_address_is_defined_elsewhere_in_the_document() -> None:
    """It keeps an address on the web; one of another page leads nowhere here. Definitions are not text."""
    text = (
        "# A\n\nRecall from [“String *Slices*”][slices], [`Vec`], [the *guide*][] and ![a leaf][fig].\n\n"
        "```\nx[slices] [guide]\n```\n\n[unknown][none], a[0] and [inline](b.html).\n\n# [Slices]\n\nOn [1].\n\n"
        "[slices]: ch04-03-slices.html#slices\n[`Vec`]: https://doc.rust-lang.org/Vec\n"
        "[the *guide*]: <guide.html> 'The guide'\n\n[fig]: leaf.png\n[1]: https://a.org\n\n[Note]: bring two pens\n"
    )
    document = prepare_document(text, docid="d", file="a.md", settings=Preparation())
    shown = "\n\n".join(section.text for section in document.sections)
    assert shown == (
        "Recall from “String *Slices*”, [`Vec`](https://doc.rust-lang.org/Vec), the *guide* and ![a leaf](leaf.png)."
        "\n\n```\nx[slices] [guide]\n```\n\n[unknown][none], a[0] and [inline](b.html).\n\n"
        "On [1](https://a.org).\n\n[Note]: bring two pens"
    )
    assert "\n\n".join(chunk.text for chunk in document.chunks) == shown
    assert [section.place.headings for section in document.sections] == [("A",), ("Slices",)]
    table = "+----------+---+\n| [the     | x |\n| leaf][1] |   |\n+----------+---+\n"
    (cell,) = prepare_document(f"{table}\n[1]: b.html\n", docid="d", file="a.md", settings=Preparation()).chunks
    assert cell.text == table.strip()
    assert document.outline[-1]["text"] == "On [1](https://a.org).\n\n[Note]: bring two pens"


@pytest.mark.parametrize("name", ["div", "quiz-card"])
def test_an_html_element_stays_together(name: str) -> None:
    """Also one whose name has a hyphen."""
    long = "A sentence about cells that goes on and on. " * 12
    text = f"# A\n\n<{name}>\n\n{long}\n\n{long}\n\n{long}\n\n</{name}>\n\n{long}\n"
    document = prepare_document(text, docid="a", file="a.md", settings=Preparation())
    assert [chunk.place.lines for chunk in document.chunks] == [(3, 11), (13, 13)]
