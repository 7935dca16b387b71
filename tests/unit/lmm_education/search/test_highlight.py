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


def test_equations_code_and_tables_keep_their_lines() -> None:
    """And are not marked; prose around them is."""
    shown = marked(FORMULA, matching_words(FORMULA, "slope", ["en"]), (0, len(FORMULA)), "**{}**".format, str)
    assert shown.split("\n") == [
        "The **slope** of a model is",
        "$$",
        "slope = b",
        "$$",
        "with `slope` and $slope$, a **slope**.",
        "| slope | b |",
        "|---|---|",
    ]


def test_targets_of_links_are_not_marked() -> None:
    """They would lead nowhere; what is read of a link is."""
    text = "[A slope](slope.html), ![slope](pictures/slope.png) and <https://slope.example>."
    shown = marked(text, matching_words(text, "slope", ["en"]), (0, len(text)), "**{}**".format, str)
    assert shown == "[A **slope**](slope.html), ![**slope**](pictures/slope.png) and <https://slope.example>."


@pytest.mark.parametrize("text", ["$$\n" + "x + y\n" * 9 + "$$\n", "```r\n" + "x + y\n" * 9 + "```\n"])
def test_an_excerpt_does_not_cut_what_fits(text: str) -> None:
    """An equation from its middle on could not be read."""
    whole = "word " * 40 + "\n\n" + text + "\n" + "word " * 40
    begin, end = excerpt(whole, [(whole.rindex("y"), whole.rindex("y") + 1)], 70)
    assert text.strip() in whole[begin:end]


def test_lines_are_kept_where_the_whole_is_shown() -> None:
    """Code would be unreadable in one line."""
    assert marked("a\n  b", [], (0, 5), str, str, keep_lines=True) == "a\n  b"
