r"""Formulas in TeX as MathML, which every browser of today shows without a script.

latex2mathml writes what it reads into its output as it is: ``\text{<img onerror=…>}`` becomes that element.
So its tree is written out here, with elements and attributes from two lists and every text escaped.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from xml.etree.ElementTree import Element

from latex2mathml.converter import Converter

_LONGEST = 4000  # characters; longer formulas are no formulas
_ELEMENTS = frozenset(
    [
        "math",
        "mrow",
        "mi",
        "mn",
        "mo",
        "ms",
        "mtext",
        "mspace",
        "mstyle",
        "merror",
        "mpadded",
        "mphantom",
        "mfrac",
        "msqrt",
        "mroot",
        "msub",
        "msup",
        "msubsup",
        "munder",
        "mover",
        "munderover",
        "mmultiscripts",
        "mprescripts",
        "none",
        "mtable",
        "mtr",
        "mtd",
        "mlabeledtr",
        "menclose",
    ]
)
_ATTRIBUTES = frozenset(
    [
        "display",
        "displaystyle",
        "scriptlevel",
        "mathvariant",
        "mathcolor",
        "mathbackground",
        "mathsize",
        "stretchy",
        "fence",
        "form",
        "separator",
        "lspace",
        "rspace",
        "minsize",
        "maxsize",
        "symmetric",
        "largeop",
        "movablelimits",
        "accent",
        "accentunder",
        "linethickness",
        "width",
        "height",
        "depth",
        "voffset",
        "columnalign",
        "rowspacing",
        "columnspacing",
        "columnlines",
        "rowlines",
        "notation",
    ]
)
# They define macros, whose expansion has no bound, or act on what is outside of the formula.
_REFUSED = re.compile(
    r"\\(?:(?:re|provide)?newcommand|renewcommand|providecommand|e?def|gdef|let|DeclareMathOperator)\b"
)
_WITHOUT_MEANING = re.compile(r"\\label\{[^{}]*\}|\(\\#[\w:.-]+\)|\\nonumber\b|\\notag\b")
_NUMBERED = re.compile(r"(\\(?:begin|end))\{(align|equation|gather|multline|eqnarray)\}")  # every one would be (1)


@lru_cache(maxsize=4096)
def to_mathml(tex: str, *, display: bool = False) -> str:
    """A formula as MathML; one that cannot be read is shown as it is written.

    >>> to_mathml("x^2")
    '<math display="inline"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>'
    >>> to_mathml(r"\\text{<b>}"), to_mathml(r"\\frac{")
    ('<math display="inline"><mrow><mtext>&lt;b&gt;</mtext></mrow></math>', '<code class="formula">\\\\frac{</code>')
    """
    source = _NUMBERED.sub(r"\1{\2*}", _WITHOUT_MEANING.sub("", tex).strip())
    if len(source) > _LONGEST or _REFUSED.search(source):
        return _as_written(tex)
    try:
        tree = Converter(display="block" if display else "inline").convert_to_element(source)
    except Exception:  # whatever it raises, from its own errors to IndexError and RecursionError
        return _as_written(tex)
    return _written(tree)


def _as_written(tex: str) -> str:
    return f'<code class="formula">{html.escape(tex.strip())}</code>'


def _written(element: Element) -> str:
    """An element with what is in it; of one that is not on the list, the content alone."""
    inner = _text(element.text) + "".join(_written(child) + _text(child.tail) for child in element)
    if element.tag not in _ELEMENTS:
        return inner
    kept = (f' {name}="{html.escape(value)}"' for name, value in element.items() if name in _ATTRIBUTES)
    return f"<{element.tag}{''.join(kept)}>{inner}</{element.tag}>"


def _text(text: str | None) -> str:
    """A text of the tree, in which entities stand for characters."""
    return html.escape(html.unescape(text or ""), quote=False)
