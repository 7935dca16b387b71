"""Packages of cards in Anki itself, through its own Python library: imported, learned from, imported again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lmm_education.study import save_cards, study_cards, study_document

MISSING = [name for name in ("anki", "genanki", "markdown_it") if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING) and os.environ.get("CI") != "true", reason=f"{', '.join(MISSING)} not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Anki's own
]

TEXT = """---
title: Leaves
docid: leaves
---

---
questions: [Why green?]
cards:
  - question: What is $x < 2$?
    answer: ANSWER
  - id: stomata
    question: What do stomata do?
    answer: They breathe.
---
# Colour

Chlorophyll, as in

![a leaf](fig/leaf.png)
"""


class Student:
    """A collection as Anki keeps it."""

    def __init__(self, folder: Path) -> None:
        from anki.collection import Collection

        self.collection: Any = Collection(str(folder / "collection.anki2"))
        self.media = folder / "collection.media"

    def import_package(self, path: Path) -> tuple[int, int, int]:
        """Import as Anki's dialog does by default; how many notes were new, updated, the same."""
        from anki.collection import ImportAnkiPackageOptions, ImportAnkiPackageRequest

        request = ImportAnkiPackageRequest(package_path=str(path), options=ImportAnkiPackageOptions())
        log = self.collection.import_anki_package(request).log
        assert not log.conflicting
        assert not log.missing_notetype
        return len(log.new), len(log.updated), len(log.duplicate)

    def note(self, question: str) -> Any:
        """The note whose question contains a text."""
        notes = [self.collection.get_note(id_) for id_ in self.collection.find_notes("")]
        return next(note for note in notes if question in note["Question"])

    def learn(self, deck: str) -> Any:
        """Answer the first card of a deck: easy."""
        self.collection.decks.select(self.collection.decks.id_for_name(deck))
        card = self.collection.sched.getCard()
        card.start_timer()
        self.collection.sched.answerCard(card, 4)
        return self.collection.get_card(card.id)


@pytest.fixture
def student(tmp_path: Path) -> Iterator[Student]:
    """With an empty collection."""
    student = Student(tmp_path)
    yield student
    student.collection.close()


def package(folder: Path, text: str, *, now: float, file: str = "notes/a.md") -> Path:
    """A package of a document's cards."""
    picture = folder / "notes" / "fig" / "leaf.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(b"\x89PNG picture")
    path = folder / "cards.apkg"
    save_cards(path, study_cards([study_document(text, file=str(folder / file))]), deck="Botany", now=now)
    return path


def test_anki_imports_cards_with_formulas_and_pictures(student: Student, tmp_path: Path) -> None:
    """A deck for the document, a picture under a name of its own, formulas for MathJax."""
    assert student.import_package(package(tmp_path, TEXT, now=1_763_000_000)) == (3, 0, 0)
    assert {deck.name for deck in student.collection.decks.all_names_and_ids()} == {
        "Default", "Botany", "Botany::Leaves"
    }  # fmt: skip
    shown = student.note("Why green?").cards()[0].render_output().answer_text
    (picture,) = student.media.iterdir()
    assert picture.read_bytes() == b"\x89PNG picture"
    assert f'<img src="{picture.name}"' in shown
    assert "Leaves › Colour" in shown
    assert r"\(x &lt; 2\)" in student.note("What is")["Question"]


def test_a_changed_package_updates_cards_and_keeps_what_was_learned(student: Student, tmp_path: Path) -> None:
    """The answer changes, the document moves, a question with an id is corrected: the reviews are still there."""
    student.import_package(package(tmp_path, TEXT, now=1_763_000_000))
    learned = {student.learn("Botany::Leaves").nid: True for _ in range(3)}
    before = {card: student.collection.get_card(card).ivl for card in student.collection.find_cards("")}
    assert len(learned) == 3
    assert all(before.values())
    changed = TEXT.replace("ANSWER", "Less than two.").replace("What do stomata do?", "What do stomata let in?")
    moved = package(tmp_path, changed, now=1_763_000_100, file="other/b.md")
    assert student.import_package(moved) == (0, 3, 0)
    assert "Less than two." in student.note("What is")["Answer"]
    assert student.note("What do stomata let in?")
    assert {card: student.collection.get_card(card).ivl for card in student.collection.find_cards("")} == before
    assert len(student.collection.db.list("select id from revlog")) == 3


def test_the_same_package_changes_nothing(student: Student, tmp_path: Path) -> None:
    """Nor does an older one undo a newer."""
    newer = package(tmp_path, TEXT.replace("ANSWER", "New."), now=1_763_000_100)
    student.import_package(newer)
    assert student.import_package(newer) == (0, 0, 3)
    assert student.import_package(package(tmp_path, TEXT.replace("ANSWER", "Old."), now=1_763_000_000)) == (0, 0, 3)
    assert "New." in student.note("What is")["Answer"]


def test_new_questions_are_added(student: Student, tmp_path: Path) -> None:
    """Those that are gone stay with the student."""
    student.import_package(package(tmp_path, TEXT, now=1_763_000_000))
    other = TEXT.replace("[Why green?]", "[Why not red?]")
    assert student.import_package(package(tmp_path, other, now=1_763_000_100)) == (1, 2, 0)
    assert student.collection.note_count() == 4
