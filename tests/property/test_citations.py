"""Citations in answers: which brackets cite, and that no text is changed by looking for them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from lmm_education.answer.citations import citations, in_brackets, without_citations

OFFERED = {1, 2, 3}
NO_CITATIONS = [
    "The data are scaled to [0, 1].", "It was [45, 51] percent.", "The element is x[9].", "In the year [1999] it fell.",
    "The slope is in the interval [1, 2].", "x = [1, 2, 3].", "`x[1]` and ``[2]``.", "$a[1]$ and $$b[2]$$.",
    r"\( a[1] \) and \[ b[2] \].", "```r\nx[1]\n```", "x[1] + y is a sum.", "Chapter [12] follows.",
    "[7, 9].", "[1, 7].", "An area of 5 m².", "R² is 0.9.", "x<sup>2</sup>.", "10² and 2³.", "See [the page](https://a.org/[1]).",
    "A note [^1].\n\n[^1]: It is a note.", "Read [it][1].\n\n[1]: https://a.org\n", "- [ ] to do", "[0].", "[-1].",
    "```\nThe end [1].", "matrix A[1,2] is", "In Rust, #[1] is none.",
    "The regex [1-3]+ matches.", "a[1][2] = 3", "Call f([1, 2]).", "sum([1, 2, 3]) is 6.", '<img alt="[1]">',
    "The matrix [1 2; 3 4].", "2-[1-methylethyl]phenol", "[3H]-thymidine", "the tuple (1, 2)", "[1:3] is a slice",
    r"\begin{align} a[1] \end{align}",
]  # fmt: skip
CITATIONS = [
    "[1]", " [1]", "【1】", "【1†source】", "[^1]", "[Source 1]", " (source 1)", " [S1]", "¹", "<sup>1</sup>", "［1］",
    r"\[1\]", "[1](leaves.md)", " [1](https://a.org)", "[[1]](leaves.md)", " [source 1: Leaves]", " (Quelle 1)",
    "<sup>[1]</sup>", "【1†L3】", " [1, p. 3]", " [1: Leaves]", " [ 1 ]", " [doc 1]", " [ref. 1]", " [Quellen 1]",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_CITATIONS)
def test_what_cites_nothing(text: str) -> None:
    """Intervals, indices, years, code, formulas, powers, footnotes and links."""
    assert citations(text, OFFERED) == []
    assert in_brackets(text, OFFERED) == text


@pytest.mark.parametrize("form", CITATIONS)
def test_forms_of_citing(form: str) -> None:
    """At the end of a sentence, in a list, in a cell, before a comma; read as ``[1]``."""
    for text in (
        f"Leaves are green{form}.",
        f"- green{form}\n- red",
        f"| green{form} | red |",
        f"As green{form}, or red.",
    ):
        (found,) = citations(text, OFFERED)
        assert found.numbers == (1,)
        assert in_brackets(text, OFFERED).count("[1]") == 1
        assert text[found.start - 1].isalnum() or without_citations(text) == text.replace(form, "")
        assert text[found.start : found.end] == form.strip()


def test_several_numbers() -> None:
    """In one bracket, in several, in words; a range; each is a number of its own."""
    for text in (
        "Green [1, 2].",
        "Green [1][2].",
        "Green [1-2].",
        "Green [1] [2] as ever.",
        "Green (sources 1 and 2).",
        "Vert (sources 1 et 2).",
        "Green[1][2].",
        "Green<sup>1,2</sup>.",
    ):
        assert {number for each in citations(text, OFFERED) for number in each.numbers} == {1, 2}, text


def test_a_number_that_was_not_offered() -> None:
    """Counts as a citation at the end of a clause, if it is alone and could be one."""
    for text, wrong in (
        ("Leaves fall [9].", [9]), ("They fall [9] [8].", [9, 8]), ("They fall. [9] So they do.", [9]),
        ("Fall [9], or rise.", [9]), ("- Leaves fall [9]\n", [9]), ("They fall【9】 down.", [9]),
        ("[Source 9] says so.", [9]),
        ("Take [9] leaves.", []), ("It was x[9].", []), ("In [1999].", []), ("[7, 9].", []), ("[9](a.md).", []),
    ):  # fmt: skip
        found = citations(text, OFFERED)
        assert [each.numbers[0] for each in found] == wrong, text
        assert not any(each.known for each in found)
        assert in_brackets(text, OFFERED) == text


PIECES = st.sampled_from(
    [*CITATIONS, *NO_CITATIONS, "[9].", "word", " ", ", ", ". ", "\n\n", "`", "$", "[", "](", "（1）"]
)


@given(st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join))
def test_what_is_between_citations_stays(text: str) -> None:
    """Citations are in order and do not overlap; every other character is in the text that is shown."""
    at = 0
    for each in citations(text, OFFERED):
        assert at <= each.start < each.end
        assert re.search(r"\d|[¹²³⁰⁴-⁹]", text[each.start : each.end])
        at = each.end
    known = [each for each in citations(text, OFFERED) if each.known]
    rest, shown, at = list[str](), in_brackets(text, OFFERED), 0
    for each in known:
        rest.append(text[at : each.start])
        at = each.end
    for part in [*rest, text[at:]]:
        assert part in shown
