"""Quoting: what explains, with what it points to, and nothing that needs what is not shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lmm_education.answer.extractive import quote, sentences_in
from lmm_education.material import Lines, Location, Passage


def passage_of(text: str, heading: str, number: int, line: int = 0) -> Passage:
    return Passage("1", Location("d", "a.md", Lines(line, line), (heading,)), text, number=number)


def quoted(text: str, *wanted: str, question: str = "How so?") -> str:
    """What is quoted of a passage, where sentences with one of these words fit."""

    def fits(texts: Sequence[str], apart: bool) -> list[float]:
        return [float(sum(word in each for word in wanted)) for each in texts]

    return quote(question, [passage_of(text, "Leaves", 1)], fits)[0]


def test_exercises_are_not_quoted() -> None:
    """They ask, and do not answer."""
    text = (
        "It falls.\n\n## Exercises\n\n1. Why is a leaf green?\n\n### More\n\nA leaf?\n\n## Colour\n\nA leaf is green."
    )
    passage = passage_of(text, "Leaves", 1)
    said, *_ = quote(
        "Why?", [passage], lambda texts, apart: [float("leaf" in each) for each in texts], without=("exercise",)
    )
    assert said == "**Leaves**\n\n> A leaf is green. [1]"


def test_the_short_lines_of_a_slide_are_quoted_together() -> None:
    """They end without a mark, and refer to nothing below them."""
    slide = "Nucleus\n\nHolds DNA\n\nMitochondrion\n\nMakes energy"
    lines = "> Nucleus\n>\n> Holds DNA\n>\n> Mitochondrion\n>\n> Makes energy [1]"
    assert quoted(slide, "Mitochondrion") == f"**Leaves**\n\n{lines}"
    assert list(sentences_in(slide)) == [slide]


def test_code_that_a_colon_points_to_comes_along() -> None:
    """Without the options of a chunk; what follows only fills the page."""
    text = "Snow is white.\n\nPlot the leaf like this:\n\n```{r leaf, echo=FALSE}\nplot(leaf)\n```\n\nSnow melts.\n"
    assert quoted(text, "leaf") == "**Leaves**\n\n> Plot the leaf like this: [1]\n>\n> ```r\n> plot(leaf)\n> ```"


def test_a_list_that_a_colon_points_to_comes_along() -> None:
    """Whole, even if an item is what fits."""
    text = "Leaves have two parts:\n\n- The blade is flat.\n- The stalk holds it.\n"
    assert quoted(text, "stalk").splitlines()[2:] == [
        "> Leaves have two parts: [1]", ">", "> - The blade is flat.", "> - The stalk holds it.",
    ]  # fmt: skip


@pytest.mark.parametrize("text", [
    "As Listing 20-4 shows, leaves are green. Leaves fall in autumn.",
    "For example, this leaf is green:\n\nLeaves fall in autumn.",
    "This is why leaves are green. Leaves fall in autumn.",
    "Plot the leaf:\n\n```rust\n{{#rustdoc_include ../listing/main.rs}}\n```\n\nLeaves fall in autumn.",
])  # fmt: skip
def test_what_needs_something_that_is_not_shown_is_not_quoted(text: str) -> None:
    """A listing, an example, a sentence before."""
    assert quoted(text, "eaf", "eaves", "green").endswith("> Leaves fall in autumn. [1]")


def test_a_sentence_comes_with_the_one_that_it_needs() -> None:
    """In their order."""
    assert quoted("Leaves are flat. They are green. Snow is white.", "green").endswith(
        "> Leaves are flat. They are green. [1]"
    )


def test_a_source_is_quoted_in_its_order() -> None:
    """Whichever of its passages fits best; a source that fits better is still first."""
    later, other = passage_of("A leaf falls.", "Leaves", 1, line=9), passage_of("No leaf is red.", "Colour", 2)
    said, *_ = quote(
        "Why?", [later, other, passage_of("A leaf grows.", "Leaves", 1, line=3)], lambda x, apart: [1.0] * len(x)
    )
    assert said == "**Leaves**\n\n> A leaf grows.\n>\n> A leaf falls. [1]\n\n**Colour**\n\n> No leaf is red. [2]"


def test_a_sentence_of_a_part_comes_with_the_one_that_it_needs() -> None:
    """Though it fits less."""
    text = "# Parts\n\nAll.\n\n## Leaf\n\nIt grows. This is because a leaf is green.\n\n## Root\n\nRoots are long."
    assert "> It grows. This is because a leaf is green. [1]" in quoted(text, "green")


def test_a_sentence_that_stands_twice_is_quoted_once() -> None:
    """Under the better of the two sources."""
    passages = [passage_of("Leaves are green.", name, number) for number, name in ((2, "Colour"), (1, "Summary"))]
    assert quote("Why?", passages, lambda texts, apart: [1.0] * len(texts))[:2] == (
        "**Colour**\n\n> Leaves are green. [1]",
        [2],
    )


def test_what_says_what_a_thing_is_comes_first() -> None:
    """Where that is asked."""
    text = "A leaf can have a leaf scar. A _leaf_ is a flat organ of a plant. On a leaf, a leaf scar is rare. " * 1
    filler = "Snow is white and cold, and it lies on the hills until the spring comes back. "
    found = quoted(text + filler, "leaf", question="What is a leaf?")
    assert "A _leaf_ is a flat organ of a plant." in found


@pytest.mark.parametrize(("question", "definition"), [
    ("What is a double free error?", "Both try to free it. This is known as a _double free_ error."),
    ("What does the unwrap method do?", "The `unwrap` method is a shortcut like `match` in Listing 9-4."),
    ("What does the ? operator do?", "The `?` placed after a value is defined to work like those in Listing 9-6."),
])  # fmt: skip
def test_a_definition_comes_first(question: str, definition: str) -> None:
    """Whatever has more of the question's words; it needs no listing, and one sentence before it."""
    text = f"But Figure 4-2 shows both. {definition} A double free of the unwrap method and operator is an error."
    assert f"> {definition}" in quoted(text, "double free", "method", "operator", "error", question=question)


def test_marks_for_printing_are_left_out() -> None:
    r"""``\index{}``, comments, tags, addresses of links."""
    text = "A [leaf](leaf.html)\\index{leaf} is <span>green</span><!-- why? -->.\n\n[leaf]: leaf.html\n"
    assert quoted(text, "leaf") == "**Leaves**\n\n> A leaf is green. [1]"


def test_a_list_in_a_quotation_comes_along() -> None:
    """Each item on a line."""
    text = "> Leaves have two parts:\n>\n> 1. The blade is flat.\n> 2. The stalk holds it.\n>     - It is short.\n"
    assert quoted(text, "parts").splitlines()[2:] == [
        "> Leaves have two parts: [1]",
        ">",
        "> 1. The blade is flat.",
        "> 2. The stalk holds it.",
        ">     - It is short.",
    ]


def test_a_heading_that_is_bold_in_part() -> None:
    """It is bold as a whole; marks within would end that."""
    found, *_ = quote(
        "Why green?", [passage_of("Leaves are green.", "(**Green**) *leaves*", 1)], lambda texts, apart: [1.0]
    )
    assert found.splitlines()[0] == "**(Green) *leaves***"


def test_a_heading_in_a_list_does_not_outshine_what_is_said() -> None:
    """Items that are no sentences fit best where they are hardly more than the word that was asked for."""
    text = "- SIG Apps\n- SIG Auth\n\nEverybody who works on a part of the project meets in the SIG for that part."

    def fits(texts: Sequence[str], apart: bool) -> list[float]:
        return [3.0 / len(each.split()) for each in texts]

    assert "Everybody who works" in quote("What is a SIG?", [passage_of(text, "SIGs", 1)], fits)[0]


def test_where_nothing_fits_nothing_is_quoted() -> None:
    """Nor where there is no prose."""
    assert quoted("Snow is white.", "leaf") == quoted("```\nleaf\n```\n", "leaf") == ""


def test_the_second_passage_speaks_as_loud_as_the_first() -> None:
    """Where a learner's words are not the book's, either may be right."""
    passages = [passage_of("Snow is white.", "Snow", 1), passage_of("Leaves are green.", "Leaves", 2)]

    def fits(texts: Sequence[str], apart: bool) -> list[float]:
        return [1.0 if "Snow" in text else 0.6 for text in texts]

    found, _, covered = quote("Which colour?", passages, fits, lambda passages: 0.7)
    assert not covered
    assert not quote("Which colour?", passages, fits, lambda passages: 0.2).text
    assert "> Snow is white. [1]" in found
    assert "> Leaves are green. [2]" in found
    assert "> Leaves are green. [2]" not in quote("Which colour?", passages, fits)[0]


@pytest.mark.parametrize("value", ["…", "`r mean(leaf)`", "`{python} leaf.mean()`", "{{mean_leaf}}"])
def test_a_sentence_without_its_value_is_not_quoted(value: str) -> None:
    """Nor one that depends on it; an ellipsis of the author's is no missing value."""
    text = f"The mean leaf has {value} cells. This is a leaf of few.\n\nA leaf of 1, 2, … cells is green."
    assert quoted(text, "leaf") == "**Leaves**\n\n> A leaf of 1, 2, … cells is green. [1]"


def test_a_sentence_may_begin_with_a_name_in_code() -> None:
    """Which is in lower case, as what depends on the sentence before is."""
    assert quoted("`leaf()` counts cells.\n\nSnow is white.", "cells") == "**Leaves**\n\n> `leaf()` counts cells. [1]"


TABLE = "| Week | Room |\n|------|------|\n| 1 | A12 |\n| 2 | B7 |"


def test_the_row_that_fits_is_quoted_with_its_columns() -> None:
    """Of a table that no sentence introduces; the words of its columns count; several rows are one table."""
    text = f"Rooms have doors.\n\n## Lectures\n\n{TABLE}\n\n: Where they are\n\n## Rules\n\nNo food.\n"
    said = quoted(text, "Room 2 B7", "Week Room 2 B7").splitlines()
    assert said[2:] == [
        "> **Lectures**: [1]",
        ">",
        "> | Week | Room |",
        "> |------|------|",
        "> | 2 | B7 |",
        "> | … | … |",
    ]
    both = quoted(text, "Week Room", "Room 2 B7").splitlines()
    assert both == [*said[:-2], "> | 1 | A12 |", "> | 2 | B7 |"]


def test_a_table_that_a_sentence_introduces_is_quoted_whole() -> None:
    text = f"Snow is white.\n\nThe lectures take place as follows.\n\n{TABLE}\n"
    lines = [f"> {line}" for line in TABLE.splitlines()]
    assert quoted(text, "B7").splitlines()[2:] == ["> The lectures take place as follows. [1]", ">", *lines]


@pytest.mark.parametrize(
    "formula", ["$$ b = 1. C = 2. $$", "\\[ b = 1. C = 2. \\]", "\\[\nb = 1.\n\nC = 2.\n\\]", "$$\nb\n\nc\n$$"]
)
@pytest.mark.parametrize(
    "text", ["A leaf has {} per stalk.", "A leaf has:\n\n{}\n", "`$$` is no formula. A leaf has:\n\n{}\n"]
)
def test_a_formula_is_quoted_whole(formula: str, text: str) -> None:
    said = quoted(text.format(formula), "leaf")
    shown = [part for part in said.replace(">", "").split() if part in formula.split()]
    assert shown in (formula.split(), [])
    assert bool(shown) or "\n" in formula
    assert "A leaf has" in said


def test_a_dollar_in_code_begins_no_formula() -> None:
    text = "```sh\necho $$\n```\n\nA leaf has:\n\n$$\nb = 1. C\n$$\n\nSnow is white.\n"
    assert quoted(text, "leaf").splitlines()[2:] == ["> A leaf has: [1]", ">", "> $$", "> b = 1. C", "> $$"]


def test_of_a_long_table_the_row_that_answers_is_quoted() -> None:
    """After the sentence that introduces the table, with its columns; a short table is quoted whole."""
    rows = [f"| {week} | A{week} |" for week in range(1, 9)]
    table = "| Week | Room |\n|------|------|\n"
    said = quoted(f"We meet as follows:\n\n{table}{chr(10).join(rows)}\n", "A7").splitlines()
    assert said[2:] == [
        "> We meet as follows: [1]",
        ">",
        "> | Week | Room |",
        "> |------|------|",
        "> | 7 | A7 |",
        "> | … | … |",
    ]
    assert "A2" in quoted(f"We meet as follows:\n\n{table}{chr(10).join(rows[:3])}\n", "A1")


_RULE = "+------+------+"
GRID = "\n".join((_RULE, "| Week | Room |", "+======+======+", "| 1    | A12  |", _RULE, "| 2    | B7   |", _RULE))
SIMPLE = "  Week   Room\n  ----   ----\n  1      A12\n  2      B7"


@pytest.mark.parametrize("table", [GRID, SIMPLE, "Week | Room |\n1 | A12 |\n2 | B7 |"])
def test_a_table_of_another_shape_is_found_by_its_row_and_quoted_whole(table: str) -> None:
    said = quoted(f"Rooms have doors.\n\n## Lectures\n\n{table}\n", "B7").splitlines()
    assert said[2:] == ["> **Lectures**: [1]", ">", *(f"> {line}" for line in table.splitlines())]


def test_what_only_mentions_a_defined_term_is_not_quoted() -> None:
    text = "## Residuals\n\nThe residual is a distance.\n\n## Exam\n\nA residual plot will be part of it.\n"
    said = quoted(text, "residual", question="What is a residual?")
    assert said == "**Leaves**\n\n> The residual is a distance. [1]"
