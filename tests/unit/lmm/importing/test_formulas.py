"""Formulas to TeX. Whole documents of them are compared with Pandoc's in tests/edge/test_import.py."""

from __future__ import annotations

import pytest

from lmm.importing.elements import find
from lmm.importing.formulas import to_tex
from lmm.importing.html_tree import parse_html


def tex(xml: str) -> str:
    """The TeX of a formula."""
    return to_tex(next(find(parse_html(f"<body><math>{xml}</math>"), "math")))


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ("<mi>x</mi><mo>≤</mo><mn>2</mn>", r"x\leq2"),
        ("<mi>sin</mi><mi>x</mi>", r"\sin x"),
        ("<mi>Var</mi>", r"\mathrm{Var}"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "x_i^2"),
        ("<msup><mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow><mn>10</mn></msup>", "{x+1}^{10}"),
        ("<msup><msup><mi>x</mi><mn>2</mn></msup><mn>3</mn></msup>", "{x^2}^3"),
        ("<msup><mi>f</mi><mo>′</mo></msup>", "f'"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>i</mi>", r"\sum_i^ni"),
        ("<munder><mi>lim</mi><mi>x</mi></munder>", r"\lim_x"),
        ("<mover><mi>x</mi><mo>^</mo></mover>", r"\hat{x}"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", r"\sqrt[3]{x}"),
        ("<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr></mtable>",
         r"\begin{matrix} a & b \end{matrix}"),
        ("<mtext>if 5% {x}</mtext>", r"\text{if 5\% \{x\}}"),
        ("<mi mathvariant='bold'>x</mi><mi>ℝ</mi><mi>𝑦</mi>", r"\mathbf{x}\mathbb{R}y"),
        ("<unknown><mi>x</mi></unknown><mo>%</mo>", r"x\%"),
    ],
)  # fmt: skip
def test_constructs(xml: str, expected: str) -> None:
    """Each with the shortest TeX that means it."""
    assert tex(xml) == expected


def test_the_tex_that_a_formula_was_made_from_counts() -> None:
    """Without Wikipedia's wrapping."""
    annotation = r'<annotation encoding="application/x-tex">{\displaystyle x^{2}}</annotation>'
    assert tex(f"<semantics><mi>y</mi>{annotation}</semantics>") == "x^{2}"
