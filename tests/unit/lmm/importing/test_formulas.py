"""Formulas to TeX. Whole documents of them are compared with Pandoc's in tests/edge/test_import.py."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from lmm.importing.archive import as_element
from lmm.importing.formulas import to_tex

OMML = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def tex(xml: str) -> str:
    """The TeX of a formula in XML; `m:` is OMML."""
    return to_tex(as_element(ElementTree.fromstring(f'<math xmlns:m="{OMML}">{xml}</math>')))


def run(text: str, properties: str = "") -> str:
    """A run of OMML."""
    return f"<m:r><m:rPr>{properties}</m:rPr><m:t>{text}</m:t></m:r>"


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
        (f"<m:f><m:num>{run('a')}</m:num><m:den>{run('β')}</m:den></m:f>", r"\frac{a}{\beta}"),
        (f"<m:d><m:e>{run('x')}</m:e></m:d>", "(x)"),
        (f'<m:d><m:dPr><m:begChr m:val="{{"/><m:endChr m:val=""/></m:dPr><m:e>{run("x")}</m:e></m:d>',
         r"\left\{x\right."),
        (f'<m:nary><m:naryPr><m:chr m:val="∏"/></m:naryPr><m:sub>{run("i")}</m:sub><m:sup/><m:e>{run("x")}</m:e>'
         "</m:nary>",
         r"\prod_i x"),
        (run("if ", "<m:nor/>") + run("x"), r"\text{if }x"),
        (run("max", '<m:sty m:val="p"/>') + run("x"), r"\max x"),
    ],
)  # fmt: skip
def test_constructs(xml: str, expected: str) -> None:
    """Each with the shortest TeX that means it."""
    assert tex(xml) == expected


def test_the_tex_that_a_formula_was_made_from_counts() -> None:
    """Without Wikipedia's wrapping."""
    annotation = r'<annotation encoding="application/x-tex">{\displaystyle x^{2}}</annotation>'
    assert tex(f"<semantics><mi>y</mi>{annotation}</semantics>") == "x^{2}"
