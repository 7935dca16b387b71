"""Who wrote it: what is accepted from a model says so where the author wants it, and whether it was edited since."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lmm import Document
from lmm.testing import ScriptedModel

TEXT = "---\ntitle: T\n---\n# A\n\nOne two three.\n\n{}---\n=: longer\n---\n{}Four five.\n\n## B\n\nSix.\n"
NEW = "Seven eight nine.\n\nTen, eleven."


def accepted(text: str, config: Path) -> Document:
    """A document whose edit was answered with `NEW` and accepted."""
    document = Document.from_text(text, config=config)
    document.answer(model=ScriptedModel([NEW])).check()
    assert document.accept(force=True) == 1
    return document


def shares(text: str) -> list[tuple[str, int]]:
    """What `lmm scan --authors` lists."""
    return [(str(author), author.words) for author in Document.from_text(text).authors]


@pytest.mark.parametrize(
    ("text", "yours"),
    [(TEXT.format("", ""), 6), (TEXT.format("", "## C\n\n"), 7), (TEXT.format("Two.\n\n", ""), 7)],
    ids=["a paragraph", "a section", "below others"],
)
def test_what_was_accepted_is_the_models_until_it_is_edited(text: str, yours: int, tmp_path: Path) -> None:
    """Words of the paragraphs that were accepted; those that were edited since are told apart, and others are yours."""
    config = tmp_path / "config.toml"
    config.write_text("[notebook]\nauthorship = true\n")
    document = accepted(text, config)
    assert re.search(r"\n~~by: Scripted/\w+ \d{4}-\d\d-\d\d [0-9a-f ]+\n---\n", document.text)
    model = "accepted from Scripted/replies"
    assert shares(document.text) == [("yours", yours), (model, 5)]
    assert shares(document.text.replace("eight", "8")) == [
        ("yours", yours), (model, 2), (f"{model}, edited since", 3)
    ]  # fmt: skip
    assert shares(document.text.replace("Ten, eleven.", "")) == [("yours", yours), (model, 3)]


def test_changes_accepted_one_by_one_are_signed_as_all_at_once(tmp_path: Path) -> None:
    """Only what was accepted is the model's; the rest is still yours, or waits."""
    config = tmp_path / "config.toml"
    config.write_text("[notebook]\nauthorship = true\n")
    document = Document.from_text("---\n=: other\n---\n# A\n\nOne.\n\nTwo.\n\nThree.\n", config=config)
    document.answer(model=ScriptedModel(["Four five.\n\nTwo.\n\nSix seven eight."])).check()
    document.accept(hunk=1, force=True)
    model = "accepted from Scripted/replies"
    assert shares(document.text) == [("yours", 2), (model, 2)]
    other = Document.from_text(document.text, config=config)
    other.reject(hunk=1)
    assert shares(other.text) == [("yours", 2), (model, 2)]
    document.accept(hunk=1, force=True)
    assert not document.edits
    assert shares(document.text) == [("yours", 1), (model, 5)]
    assert document.text.count("~~by") == 1


def test_nothing_is_noted_unless_it_is_wanted(tmp_path: Path) -> None:
    """The block goes with its question, as ever."""
    config = tmp_path / "config.toml"
    config.write_text("")
    document = accepted(TEXT.format("", ""), config)
    assert "~~by" not in document.text
    assert shares(document.text) == [("yours", 11)]
