"""Cards in files; what Anki makes of them: tests/edge/test_cards_in_anki.py."""

from __future__ import annotations

import csv
import json
import tempfile
import zipfile
from pathlib import Path

import pytest

from lmm.errors import ConfigError
from lmm_education.study.cards import check_output, save_cards, study_cards
from lmm_education.study.study_documents import study_document

TEXT = '---\ntitle: T\ncards:\n  - question: "Why, so?"\n    answer: "One\\n\\ntwo"\n---\n# A\n'
CARDS = study_cards([study_document(TEXT, file="a.md")])


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    """A row with all that a card is."""
    save_cards(tmp_path / "c.csv", CARDS)
    save_cards(tmp_path / "c.JSON", CARDS)
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    (value,) = json.loads((tmp_path / "c.JSON").read_text(encoding="utf-8"))
    assert row == {key: str(item) if key != "headings" else "" for key, item in value.items()}
    assert row["answer"] == "One\n\ntwo"


def test_markdown(tmp_path: Path) -> None:
    """As printed."""
    save_cards(tmp_path / "c.md", CARDS)
    assert (tmp_path / "c.md").read_text() == "# T\n\n## Why, so?\n\nOne\n\ntwo\n"


def test_a_package_is_the_same_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in it is chosen by chance, and no file is left elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    contents = []
    for name in ("one.apkg", "two.apkg"):
        save_cards(tmp_path / name, CARDS, deck="Botany", now=1_700_000_000)
        with zipfile.ZipFile(tmp_path / name) as package:
            contents.append([package.read(entry) for entry in package.namelist()])
    assert contents[0] == contents[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.apkg", "two.apkg"]


@pytest.mark.parametrize("name", ["c.txt", "c", "missing/c.csv"])
def test_what_cannot_be_written_is_told_first(tmp_path: Path, name: str) -> None:
    """Before a model is asked."""
    with pytest.raises(ConfigError):
        check_output(tmp_path / name)
