"""Sentences of a markdown text, and the telling words in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import documents

from lmm.models.builtin import split_sentences, stems_of


@pytest.mark.parametrize(
    ("markdown", "sentences"),
    [
        ("A leaf is green. Roots are brown.", [("A leaf is green.", ""), ("Roots are brown.", "")]),
        ("# Leaves {#l}\n\nA leaf is green.\n\n## Autumn ##\n\nRed leaves fall.",
         [("A leaf is green.", "Leaves"), ("Red leaves fall.", "Autumn")]),
        ("A leaf,\nover two lines,\nis green.", [("A leaf, over two lines, is green.", "")]),
        ("- A leaf is green.\n- Roots are brown.", [("A leaf is green.", ""), ("Roots are brown.", "")]),
        ("1. A leaf is green.\n2) Roots are brown.", [("A leaf is green.", ""), ("Roots are brown.", "")]),
        ("Plants, e.g. Oak trees, grow (cf. Smith 1999). They age.", 
         [("Plants, e.g. Oak trees, grow (cf. Smith 1999).", ""), ("They age.", "")]),
        ("**Leaves grow.** *Roots spread.*", [("**Leaves grow.**", ""), ("*Roots spread.*", "")]),
        ("Ein Blatt wächst. Österreich hat Wälder.", [("Ein Blatt wächst.", ""), ("Österreich hat Wälder.", "")]),
        ("A leaf is 3.5 cm long. Roots grow.", [("A leaf is 3.5 cm long.", ""), ("Roots grow.", "")]),
        ("```r\nThis is code here.\n```\nLeaves are green.", [("Leaves are green.", "")]),
        ("<!-- a hidden remark -->\n\nLeaves are green.", [("Leaves are green.", "")]),
        ("| leaf | green |\n|---|---|\n\nLeaves are green.", [("Leaves are green.", "")]),
        ("![a green leaf](leaf.png)\n\nLeaves are green.", [("Leaves are green.", "")]),
        ("Leaves are green.\r\nRoots are brown.\r\n", [("Leaves are green.", ""), ("Roots are brown.", "")]),
        ("**Oh, *leaves* grow!** (Roots \"spread.\") [Oaks](o.md) fall.",
         [("**Oh, *leaves* grow!**", ""), ("(Roots \"spread.\")", ""), ("[Oaks](o.md) fall.", "")]),
        ("So it is. No. Leaves grow.", [("Leaves grow.", "")]),
        ("", []),
    ],
)  # fmt: skip
def test_split_sentences(markdown: str, sentences: list[tuple[str, str]]) -> None:
    """Prose only, each sentence as it is written, under its heading; without telling words it is none."""
    assert [(s.text, s.heading) for s in split_sentences(markdown)] == sentences


@pytest.mark.parametrize(
    ("markdown", "equation"),
    [
        ("The fitted line is\n\n$$\ny = a + bx\n$$\n", "$$\ny = a + bx\n$$"),
        ("**The fitted line is known.**\n\n$$\ny = a\n$$\n", ""),
        ("The fitted line is known.\n\n$$\ny = a\n$$\n", ""),
        ("The fitted line is\n\n# Next\n\n$$\ny = a\n$$\n", ""),
    ],
)
def test_equations_stay_with_their_sentence(markdown: str, equation: str) -> None:
    """A displayed equation belongs to the unfinished sentence before it, under the same heading."""
    assert split_sentences(markdown)[0].equation == equation


@pytest.mark.parametrize(
    ("text", "stems"),
    [
        ("The model fits", ["model", "fit"]),
        ("fitting, fitted", ["fitt", "fitt"]),
        ("Is it so?", []),
        ("x-axis 3 R", ["x-axi", "3"]),
        ("Die Blätter der Pflanzen", ["blätter", "pflanz"]),
        ("studies study", ["stud", "stud"]),
        ("gas", ["gas"]),
    ],
)
def test_stems_of(text: str, stems: list[str]) -> None:
    """Lower case, without stop words and common endings; short words keep theirs."""
    assert stems_of(text) == stems


@given(documents())
def test_any_text_can_be_split(text: str) -> None:
    """No document makes it fail, and every sentence has telling words."""
    for sentence in split_sentences(text):
        assert sentence.text.strip() == sentence.text
        assert sentence.stems
        assert sentence.heading in text
