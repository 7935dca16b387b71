"""The benchmarks measure what they say: their documents are sound, and their checks hold."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import (
    annotate_concurrently,
    answer_concurrently,
    chatmd_parse,
    cli_start,
    edit_key,
    many_edits,
    measure,
    parse_serialize,
    rebase,
    retrieval,
    round_trip,
    run,
    verification,
)
from benchmarks.documents import large_document
from chatmd.language import lint
from chatmd.language.syntax import parse
from lmm.markdown import ErrorBlock, HeadingBlock, MetadataBlock, parse_markdown_text
from lmm.notebook.chat_log import read_log


@pytest.fixture(scope="module")
def document() -> str:
    return large_document(200_000, 120)


@pytest.mark.parametrize("text", [large_document(200_000, 120), answer_concurrently.document(), cli_start.SMALL_FILE])
def test_generated_documents_hold_no_error_block(text: str) -> None:
    assert not [block for block in parse_markdown_text(text) if isinstance(block, ErrorBlock)]


def test_the_large_document_is_what_it_claims_to_be(document: str) -> None:
    blocks = parse_markdown_text(document)
    metadata = [block for block in blocks if isinstance(block, MetadataBlock)]
    assert len(metadata) == 120
    assert sum(isinstance(block, HeadingBlock) for block in blocks) == 119
    assert 200_000 <= len(document) < 202_000
    assert document == large_document(200_000, 120)
    keys = {key for block in metadata for key in block.values()}
    assert {"~txthash_", "titles", "questions", "~questions_", "~keywords_", "~chat_", "type", "docid"} <= keys
    assert {type(block.values().get("~txthash_")) for block in metadata} == {str, dict, type(None)}
    assert sum(len(read_log(block.values())) for block in metadata) > 20


def test_the_large_document_passes_the_round_trip(document: str) -> None:
    for check in (round_trip.round_trips, round_trip.tree_is_inverse):
        assert round_trip.count([document], check) == round_trip.Count(1, 0, 1)


def test_an_exception_is_counted() -> None:
    assert round_trip.count(["a", ""], lambda text: text[0] == "a") == round_trip.Count(1, 1, 2)


def test_edit_and_peer_set_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: str) -> None:
    monkeypatch.setattr(edit_key, "TITLE_END", " 60")
    path = tmp_path / "course.md"
    path.write_bytes(document.encode())
    edit_key.edit(path, 1)
    edit_key.edit(path, 2)
    edit_key.check(document, path.read_text(encoding="utf-8"))
    edit_key.rewrite_all(path)
    assert not [b for b in parse_markdown_text(path.read_text(encoding="utf-8")) if isinstance(b, ErrorBlock)]


def test_edits_are_answered_and_resolved() -> None:
    with answer_concurrently.temporary_state():
        many_edits.check(many_edits.document(20), 20)


def test_sixteen_questions_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_concurrently, "PAUSE", 0.0)
    text = answer_concurrently.document()
    with answer_concurrently.temporary_state():
        assert answer_concurrently.answer(text, 8).count("~reply:") == answer_concurrently.QUESTIONS


def test_forty_annotations_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_concurrently, "PAUSE", 0.0)
    with answer_concurrently.temporary_state():
        text = annotate_concurrently.annotate(annotate_concurrently.document(), 8)
    assert text.count("~questions_:") + text.count("~keywords_:") == 40


@pytest.mark.parametrize("module", cli_start.FORBIDDEN)
def test_importing_us_imports_nothing_heavy(module: str) -> None:
    assert cli_start.imported(module, cli_start.FORBIDDEN[module]) == []


def test_retrieval_is_measured_where_its_documents_are() -> None:
    german = next(course for course in retrieval.COURSES if "German" in course.name)
    row, short = retrieval.measured(german._replace(target=0.5), retrieval.BUILTIN)
    assert float(row.ours) > 70
    assert row.met
    assert float(short.ours) <= float(row.ours)


def test_the_transcript_is_sound_and_its_xml_says_the_same() -> None:
    text = chatmd_parse.transcript(200_000)
    assert chatmd_parse.transcript(200_000) == text
    assert not lint.check(parse(text))
    tags = [element.tag for element in parse(text).elements]
    assert [element.tag for element in ElementTree.fromstring(chatmd_parse.as_xml(text))] == tags
    assert {"config", "tool", "system", "user", "reasoning", "tool_call", "tool_response", "assistant"} == set(tags)


def test_a_missing_folder_is_a_row_with_a_note() -> None:
    nowhere = retrieval.COURSES[0]._replace(documents=Path("nowhere"))
    for row in (parse_serialize.measured("x", [], target=60), *retrieval.measured(nowhere, retrieval.BUILTIN)):
        assert (row.ours, row.met) == ("", None)
        assert "skipped" in row.peer


def test_the_report_is_a_table() -> None:
    row = measure.Row("a | b", "peer", "1 ms", "2 ×", "≤ 2 ms", False)
    apart = "\n## Measured apart\n\nA million.\n"
    text = run.report([row], 1.0, "load average 0.1", f"# Benchmarks\n\nEarlier.\n{apart}")
    assert "| a \\| b | peer | 1 ms | 2 × | ≤ 2 ms | **no** |\n" in text
    assert text.endswith(apart)
    assert "Earlier" not in text


def test_saves_into_changed_files_are_measured() -> None:
    """What was answered is in the author's text."""
    text = rebase.document(random.Random(1), 3_000)
    row = rebase.measured("x", text, text.replace("Section 0", "Section A"))
    assert (row.what, row.met) == ("x", True)


def test_true_sentences_pass_and_altered_ones_are_caught() -> None:
    """On our own documentation; `python -m benchmarks.verification` says how many on larger corpora."""
    failed = verification.measured(verification.passages(Path(__file__).resolve().parents[2] / "docs"), 400)
    share = {kind: sum(found) / len(found) for (_, kind), found in failed.items()}
    true = [each for (truth, _), found in failed.items() if truth == "true" for each in found]
    assert sum(true) <= 0.01 * len(true)
    assert share["invented quotation"] == share["altered quotation"] == 1.0
    assert min(share["another name"], share["another number"], share["negation added"]) > 0.4
