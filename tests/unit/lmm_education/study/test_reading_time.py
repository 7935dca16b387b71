"""Reading time: what counts as how many words."""

from __future__ import annotations

import pytest

from lmm_education.study.plans import CODE_LINE, EQUATION, PICTURE, minutes_to_read, words_to_read

COUNTED = {
    "": 0,
    "Leaves are green, mostly.": 4,
    "- Leaves\n- are green": 3,
    "> Leaves\n> are green": 3,
    "## Leaves": 1,
    "A **leaf** -- or *blade* -- is green.": 6,
    "| leaf | colour |\n|:--|--:|\n| oak | red |": 4,
    "See [the leaf](https://example.org/a/b?c=d) or https://example.org.": 4,
    "![A leaf](leaf.png){width=50%}": 2 + PICTURE,
    "It costs $5 or $6.": 5,
    "$$\nx = y\n$$": EQUATION,
    "$$\n\\begin{aligned} x &= 1 \\\\ y &= 2 \\end{aligned}\n$$ {#eq:x}": 2 * EQUATION,
    "```r\nx <- 1\n\nplot(x)\n```": 2 * CODE_LINE,
    "Use `lm(y ~ x)` here.": 5,
    "<!-- a comment -->": 0,
    "Text <b>bold</b>\n\n```\nx\n```\n\nmore.": 3 + CODE_LINE,
    "葉は緑色です": 4,
}


@pytest.mark.parametrize("text", COUNTED)
def test_words(text: str) -> None:
    """Prose by its words; code, formulas and pictures by what they take; marks and addresses are not read."""
    assert words_to_read(text) == COUNTED[text]


@pytest.mark.parametrize(("words", "minutes"), [(0, 0), (1, 1), (299, 1), (300, 2), (2000, 10)])
def test_minutes(words: int, minutes: int) -> None:
    """Rounded; what is there takes a minute."""
    assert minutes_to_read(words, 200) == minutes
