"""Question files on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.errors import ConfigError, FileReadError
from lmm_education.evaluation.questions import read_questions


def test_several_files_of_several_kinds_are_one_list(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "One?", "document": "a"}\n{"question": 1}\n', encoding="utf-8")
    (tmp_path / "b.CSV").write_text("question,document\nTwo?,b\n", encoding="utf-8")
    good, bad = read_questions([tmp_path / "a.jsonl", tmp_path / "b.CSV"])
    assert [question.text for question in good] == ["One?", "Two?"]
    assert [problem.where for problem in bad] == [f"{tmp_path / 'a.jsonl'}:2"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a question file"):
        read_questions([tmp_path / "notes.md"])
    with pytest.raises(FileReadError, match="no such file"):
        read_questions([tmp_path / "q.csv"])
