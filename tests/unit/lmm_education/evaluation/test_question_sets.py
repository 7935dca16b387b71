"""Our question sets: every passage is where its row says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lmm_education.evaluation.questions import Question, read_questions

REPOSITORY = Path(__file__).parents[4]
QUESTIONS = REPOSITORY / "benchmarks" / "questions"
RUST_BOOK = REPOSITORY.parent / "shared" / "corpus" / "rust-book"
SETS = [
    (QUESTIONS / "german" / "questions.jsonl", QUESTIONS / "german", 60),
    (QUESTIONS / "rust-book.jsonl", RUST_BOOK, 120),
    (QUESTIONS / "definitions.jsonl", RUST_BOOK, 60),
]


@pytest.mark.parametrize(("file", "folder", "least"), SETS, ids=["german", "rust-book", "definitions"])
def test_every_passage_stands_in_the_section_of_its_document(file: Path, folder: Path, least: int) -> None:
    questions, problems = read_questions([file])
    assert not problems
    assert len(questions) >= least
    assert len({question.text for question in questions}) == len(questions)
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not here")
    wrong = [question.where for question in questions if not _stands(question, folder)]
    assert not wrong


def test_every_named_heading_stands_in_its_document_once() -> None:
    folders = {"rust-book": RUST_BOOK, "german": QUESTIONS / "german"}
    rows = [json.loads(line) for line in (QUESTIONS / "headings.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 80
    for row in (row for row in rows if folders.get(row["book"], Path("none")).is_dir()):
        text = (folders[row["book"]] / row["document"]).read_text(encoding="utf-8")
        assert len(re.findall(rf"^#+ +{re.escape(row['section'][-1])}$", text, re.MULTILINE)) == 1, row["question"]


def _stands(question: Question, folder: Path) -> bool:
    text = (folder / question.document).read_text(encoding="utf-8")
    (passage,) = question.passages
    before, found, _ = text.partition(passage)
    heading = question.section[-1] if question.section else ""
    return bool(found) and (not heading or bool(re.search(rf"^#+ +{re.escape(heading)}$", before, re.MULTILINE)))
