"""TeX as MathML."""

from __future__ import annotations

import re

import pytest

from lmm_education.web.rendering import to_mathml


def shown(tex: str) -> str:
    """The characters that a reader sees."""
    return re.sub(r"<[^>]*>|\s", "", to_mathml(tex, display=True))


@pytest.mark.parametrize("name", ["align", "align*", "aligned", "split", "eqnarray", "flalign"])
def test_aligned_equations_are_tables(name: str) -> None:
    """Without numbers, and without the marks that align them."""
    made = to_mathml(rf"\begin{{{name}}} a &= b \\ c &= d \end{{{name}}}", display=True)
    assert made.count("<mtr>") == 2
    assert shown(rf"\begin{{{name}}} a &= b \\ c &= d \end{{{name}}}") == "a=bc=d"


@pytest.mark.parametrize(
    ("tex", "seen"),
    [
        (r"\begin{alignat}{2} a &= b \end{alignat}", "a=b"),
        (r"\begin{gathered} a \\ b \end{gathered}", "ab"),
        (r"\begin{equation} \label{eq:x} a \end{equation}", "a"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "(1234)"),
        (r"\operatorname{Var}(X) \text{ if } x < 0", "Var(X)&nbsp;if&nbsp;x&lt;0".replace("&nbsp;", "")),
        (r"\boldsymbol{\beta}\mathbf{X}", "𝜷𝐗"),
    ],
)
def test_what_courses_use(tex: str, seen: str) -> None:
    """Environments, names, words, bold letters."""
    assert shown(tex) == seen


@pytest.mark.parametrize("tex", [r"\frac{", "x^2^3", "{" * 3000, "x" * 5000, r"\newcommand{\a}{\b\b}\a", r"\left("])
def test_what_cannot_be_read_is_shown_as_it_is_written(tex: str) -> None:
    """Rather than nothing, or an error."""
    assert to_mathml(tex) in (f'<code class="formula">{tex}</code>', to_mathml(r"\left("))


def test_text_in_formulas_is_text() -> None:
    """The converter would let it through as markup."""
    made = to_mathml(r"\text{<img src=x onerror=alert(1)> &lt;b&gt;} \href{javascript:x}{y} \style{color:red}{z}")
    assert not [part for part in ("<img", "<b>", "href", "style=") if part in made]
