"""Which words are marked, and which part of a passage is shown."""

from __future__ import annotations

import pytest

from lmm_education.search.highlight import excerpt, marked, matching_words


@pytest.mark.parametrize(
    ("text", "question", "languages", "words"),
    [
        ("Models model; MODELLING modelled.", "which models", ["en"], ["Models", "model", "MODELLING", "modelled"]),
        ("Die Häuser und das Haus.", "die Häuser", ["de"], ["Häuser", "Haus"]),
        ("Die Häuser and models", "Haus, model", ["de", "en"], ["Häuser", "models"]),
        ("the of and", "the of and", ["en"], []),
        ("a leaf", "root", ["en"], []),
        ("Straße", "STRASSE", ["de"], ["Straße"]),
    ],
)
def test_words_match_in_any_form(text: str, question: str, languages: list[str], words: list[str]) -> None:
    """As the stemmer of one of the languages has it; stop words never."""
    assert [text[begin:end] for begin, end in matching_words(text, question, languages)] == words


def test_the_part_with_most_matches_is_shown() -> None:
    """With a little of what stands before it, ended at words."""
    text = f"leaf {'filler ' * 100}the leaf of a leaf is a leaf {'filler ' * 100}"
    spans = matching_words(text, "leaf", ["en"])
    begin, end = excerpt(text, spans, 80)
    assert text[begin:end].count("leaf") == 3
    assert text[begin - 1].isspace()
    assert text[end].isspace()


def test_a_word_longer_than_the_excerpt_is_cut() -> None:
    """Rather than nothing shown."""
    assert excerpt("x" * 100, [], 10) == (0, 10)


def test_what_comes_from_the_text_cannot_control_the_terminal() -> None:
    """Inside and outside of marks."""
    text = "a\x1b[31m leaf\x1b[0m"
    shown = marked(text, matching_words(text, "leaf", ["en"]), (0, len(text)), "<{}>".format, repr)
    assert "\x1b" not in shown
    assert "<'leaf'>" in shown


FORMULA = (
    "The slope of a model\nis\n\n$$\nslope = b\n$$\n\nwith `slope` and $slope$, a slope.\n\n| slope | b |\n|---|---|\n"
)


def test_equations_code_and_tables_are_not_marked() -> None:
    """Prose around them is."""
    shown = marked(FORMULA, matching_words(FORMULA, "slope", ["en"]), (0, len(FORMULA)), "**{}**".format, str)
    prose = FORMULA.replace("The slope", "The **slope**").replace("a slope.", "a **slope**.")
    assert shown == prose.strip()


def test_targets_of_links_are_not_marked() -> None:
    """They would lead nowhere; what is read of a link is."""
    text = "[A slope](slope.html), ![slope](pictures/slope.png) and <https://slope.example>."
    shown = marked(text, matching_words(text, "slope", ["en"]), (0, len(text)), "**{}**".format, str)
    assert shown == "[A **slope**](slope.html), ![**slope**](pictures/slope.png) and <https://slope.example>."


def test_an_excerpt_cuts_no_short_lines() -> None:
    """Half an equation could not be read; a long line is cut at words."""
    whole = "word " * 40 + "\n\n$$\n" + "x + y\n" * 9 + "$$\n\n" + "word " * 40
    begin, end = excerpt(whole, [(whole.rindex("y"), whole.rindex("y") + 1)], 70)
    lines = whole[begin:end].splitlines()
    assert set(lines[:-1]) == {"x + y", "$$", ""}
    assert set(lines[-1].split()) == {"word"}
