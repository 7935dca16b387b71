r"""Formulas in TeX as MathML, which every browser of today shows without a script.

latex2mathml writes what it reads into its output as it is: ``\text{<img onerror=…>}`` becomes that element.
So its tree is written out here, with elements and attributes from two lists and every text escaped.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from xml.etree.ElementTree import Element

from latex2mathml.converter import Converter

_LONGEST = 4000  # characters; longer formulas are no formulas
_ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "math mrow mi mn mo ms mtext mspace mstyle merror mpadded mphantom mfrac msqrt mroot msub msup msubsup munder "
        "mover munderover mmultiscripts mprescripts none mtable mtr mtd mlabeledtr menclose",
    )
)
_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "display displaystyle scriptlevel mathvariant mathcolor mathbackground mathsize stretchy fence form separator "
        "lspace rspace minsize maxsize symmetric largeop movablelimits accent accentunder linethickness width height "
        "depth voffset columnalign rowspacing columnspacing columnlines rowlines notation",
    )
)
# They define macros, whose expansion has no bound, or act on what is outside of the formula.
_REFUSED = re.compile(r"\\(?:newcommand|renewcommand|providecommand|DeclareMathOperator|e?def|gdef|let)\b")
# Environments that it does not know, as those that it does; of ``align`` it would number every one (1). Then labels.
_UNKNOWN = re.compile(
    r"\\(begin|end)\{(\w+)\*?\}(?:(?<=at\})\{\d+\}|(?<=at\*\})\{\d+\})?"
    r"|\\label\{[^{}]*\}|\(\\#[\w:.-]+\)|\\nonumber\b|\\notag\b"
)
_KNOWN_AS = (
    dict.fromkeys(("align", "aligned", "alignat", "alignedat", "eqnarray", "flalign"), "align*")
    | dict.fromkeys(("gather", "gathered", "multline"), "matrix")
    | {"equation": "", "displaymath": ""}
)


@lru_cache(maxsize=4096)
def to_mathml(tex: str, *, display: bool = False) -> str:
    """A formula as MathML; one that cannot be read is shown as it is written.

    >>> to_mathml("x^2")
    '<math display="inline"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>'
    >>> to_mathml(r"\\text{<b>}"), to_mathml(r"\\frac{")
    ('<math display="inline"><mrow><mtext>&lt;b&gt;</mtext></mrow></math>', '<code class="formula">\\\\frac{</code>')
    """
    source = _UNKNOWN.sub(_known_environment, tex.strip()).strip()
    if len(source) > _LONGEST or _REFUSED.search(source):
        return _as_written(tex)
    try:
        tree = Converter(display="block" if display else "inline").convert_to_element(source)
    except Exception:  # whatever it raises, from its own errors to IndexError and RecursionError
        return _as_written(tex)
    return _written(tree)


def _known_environment(match: re.Match[str]) -> str:
    name = _KNOWN_AS.get(match[2]) if match[1] else ""
    return match[0] if name is None else f"\\{match[1]}{{{name}}}" if name else ""


def _as_written(tex: str) -> str:
    return f'<code class="formula">{html.escape(tex.strip())}</code>'


def _written(element: Element) -> str:
    """An element with what is in it; of one that is not on the list, the content alone."""
    letters = _in_alphabet(element.text, element.get("mathvariant", ""))
    inner = _text(letters) + "".join(_written(child) + _text(child.tail) for child in element)
    if element.tag not in _ELEMENTS:
        return inner
    kept = (f' {name}="{html.escape(value)}"' for name, value in element.items() if name in _ATTRIBUTES)
    return f"<{element.tag}{''.join(kept)}>{inner}</{element.tag}>"


def _in_alphabet(text: str | None, variant: str) -> str:
    """Letters as the characters that say how they look, which is all that Chromium and Safari know of bold ones; an
    entity is a character by then.

    >>> _in_alphabet("x", "bold"), _in_alphabet("&#x003B2;", "bold-italic"), _in_alphabet("1+", "bold")
    ('𝐱', '𝜷', '𝟏+')
    """
    found, style = html.unescape(text or ""), variant.upper().replace("-", " ")
    return "".join(_styled(letter, style) for letter in found) if "BOLD" in style else found


def _styled(letter: str, style: str) -> str:
    name = re.sub("^(LATIN|GREEK) | LETTER", "", unicodedata.name(letter, ""))
    try:
        return unicodedata.lookup(f"MATHEMATICAL {style} {name}")
    except KeyError:
        return letter


def _text(text: str | None) -> str:
    """A text of the tree, in which entities stand for characters."""
    return html.escape(html.unescape(text or ""), quote=False)
