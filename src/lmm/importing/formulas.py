"""Formulas of web pages and books, which are MathML, to TeX.

What the table of constructs does not have gives the text of its parts: a formula may lose its shape, but no symbol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lmm.importing.elements import MarkupElement, tags, text_of

# -- symbols ---------------------------------------------------------------------------------------

_GREEK = (
    "α alpha β beta γ gamma δ delta ϵ epsilon ε varepsilon ζ zeta η eta θ theta ϑ vartheta ι iota κ kappa λ lambda "
    "μ mu ν nu ξ xi π pi ϖ varpi ρ rho ϱ varrho σ sigma ς varsigma τ tau υ upsilon ϕ phi φ varphi χ chi ψ psi ω omega "
    "Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Υ Upsilon Φ Phi Ψ Psi Ω Omega"
)
_SIGNS = (
    "∑ sum ∏ prod ∐ coprod ∫ int ∮ oint ∬ iint ∭ iiint ⋃ bigcup ⋂ bigcap ⋁ bigvee ⋀ bigwedge ⨁ bigoplus ⨂ bigotimes "
    "± pm ∓ mp × times ÷ div ⋅ cdot ∗ ast ⋆ star ∘ circ ∙ bullet ⊕ oplus ⊗ otimes ⊙ odot ∧ wedge ∨ vee ∩ cap ∪ cup "
    "≤ leq ≥ geq ≪ ll ≫ gg ≠ neq ≡ equiv ∼ sim ≃ simeq ≈ approx ≅ cong ∝ propto ∣ mid ∥ parallel ⟂ perp ⊥ bot ⊤ top "
    "⊂ subset ⊃ supset ⊆ subseteq ⊇ supseteq ∈ in ∋ ni ∉ notin ∅ varnothing ∖ setminus ¬ neg ∀ forall ∃ exists "
    "→ rightarrow ← leftarrow ↔ leftrightarrow ⇒ Rightarrow ⇐ Leftarrow ⇔ Leftrightarrow ↦ mapsto ⟶ longrightarrow "
    "⟹ Longrightarrow ⟺ iff ↑ uparrow ↓ downarrow ∞ infty ∂ partial ∇ nabla ℏ hbar ℓ ell ℜ Re ℑ Im ℵ aleph ∠ angle "
    "… ldots ⋯ cdots ⋮ vdots ⋱ ddots ⟨ langle ⟩ rangle ⌈ lceil ⌉ rceil ⌊ lfloor ⌋ rfloor † dagger ‡ ddagger "
    "△ triangle ◊ diamond □ square ⊢ vdash ⊨ models ≺ prec ≻ succ"
)

# From U+1D6FC on, in this order.
_SLANTED = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho varsigma sigma tau "
    "upsilon varphi chi psi omega"
)


def _pairs(names: str) -> dict[str, str]:
    words = names.split()
    return {char: f"\\{name}" for char, name in zip(words[::2], words[1::2], strict=True)}


def _letters() -> dict[str, str]:
    """The mathematical alphabets of Unicode: 𝑥 is the letter that TeX sets for x anyway; 𝐱, ℝ and 𝓛 have commands."""
    styles = {0x1D400: "mathbf", 0x1D434: "", 0x1D49C: "mathcal", 0x1D4D0: "mathcal", 0x1D504: "mathfrak",
              0x1D538: "mathbb", 0x1D5A0: "mathsf"}  # fmt: skip
    found = {}
    for first, command in styles.items():
        for offset in range(52):
            letter = chr(ord("A") + offset) if offset < 26 else chr(ord("a") + offset - 26)
            found[chr(first + offset)] = f"\\{command}{{{letter}}}" if command else letter
    found |= {char: f"\\mathcal{{{letter}}}" for char, letter in zip("ℬℰℱℋℐℒℳℛ", "BEFHILMR", strict=True)}
    return found | {char: f"\\mathbb{{{letter}}}" for char, letter in zip("ℂℍℕℙℚℝℤ", "CHNPQRZ", strict=True)}


SYMBOLS: dict[str, str] = {
    **_letters(),
    **_pairs(_GREEK),
    **_pairs(_SIGNS),
    **{chr(0x1D6FC + offset): f"\\{name}" for offset, name in enumerate(_SLANTED.split())},
    **{char: f"\\{char}" for char in "{}%#&$_"},
    "\\": r"\backslash",
    "^": r"\hat{}",
    "−": "-",
    "′": "'",
    "″": "''",
    "‖": r"\|",
    "ℎ": "h",
    "\xa0": "~",
    "\u2061": "",  # function application, times and comma that are not shown
    "\u2062": "",
    "\u2063": "",
    "\u2009": r"\,",
    "\u2003": r"\quad",
}
OPERATORS = {"lim": r"\lim", "*": "*", "′": "'", "|": "|", "‾": r"\overline{}"}
FUNCTIONS = tags(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth exp log ln lg lim max min sup inf limsup "
    "liminf det dim ker gcd deg arg hom Pr"
)
# A mark, and whether it stands below.
ACCENTS = {
    ("\u0302", False): r"\hat", ("^", False): r"\hat", (r"\hat{}", False): r"\hat",
    ("\u0303", False): r"\tilde", ("~", False): r"\tilde", (r"\sim", False): r"\tilde", ("˜", False): r"\tilde",
    ("\u0304", False): r"\bar", ("\u0305", False): r"\overline", ("¯", False): r"\bar", ("‾", False): r"\overline",
    ("\u0307", False): r"\dot", ("˙", False): r"\dot", ("\u0308", False): r"\ddot", ("¨", False): r"\ddot",
    ("\u20d7", False): r"\vec", (r"\rightarrow", False): r"\vec", ("→", False): r"\vec",
    ("\u0301", False): r"\acute", ("\u0300", False): r"\grave", ("\u0306", False): r"\breve",
    ("\u030c", False): r"\check", ("⏞", False): r"\overbrace", ("⏟", True): r"\underbrace",
    ("\u0332", True): r"\underline", ("_", True): r"\underline", (r"\_", True): r"\underline",
    (r"\overline{}", False): r"\overline",
}  # fmt: skip


# -- conversion ------------------------------------------------------------------------------------


def to_tex(node: MarkupElement) -> str:
    """The TeX of a ``math`` element whose tags have no prefix.

    >>> from lmm.importing.elements import element as e
    >>> to_tex(e("math", e("mfrac", e("mi", "α"), e("msup", e("mi", "x"), e("mn", "2")))))
    '\\\\frac{\\\\alpha}{x^2}'
    """
    annotation = _annotation(node)
    return annotation if annotation is not None else " ".join(_tex(node).split())


def _annotation(node: MarkupElement) -> str | None:
    """The TeX that a MathML formula was made from, if it says so."""
    for child in node.elements:
        if child.tag == "annotation" and "tex" in child.get("encoding").lower():
            return _without_style(text_of(child).strip())
        if child.tag in ("semantics", "mrow", "mstyle") and (found := _annotation(child)) is not None:
            return found
    return None


def _without_style(tex: str) -> str:
    r"""Wikipedia puts every formula into {\displaystyle …}."""
    match = re.fullmatch(r"\{\\(?:displaystyle|textstyle) (.*)\}", tex, re.DOTALL)
    return match[1].strip() if match else tex


def _tex(node: MarkupElement) -> str:
    return _WRITERS.get(node.tag, _row)(node)


def _row(node: MarkupElement) -> str:
    return _side_by_side(map(_tex, node.elements))


def _side_by_side(pieces: Iterable[str]) -> str:
    """Pieces joined so that no letter is taken for a part of the command before it."""
    written = ""
    for piece in pieces:
        gap = " " if re.search(r"\\[A-Za-z]+\Z", written) and piece[:1].isalpha() else ""
        written += gap + piece
    return written


def _group(tex: str) -> str:
    """An argument: braces unless it is one character or command."""
    return tex if re.fullmatch(r"[A-Za-z0-9]|\\[A-Za-z]+", tex) else f"{{{tex}}}"


def _child(number: int, node: MarkupElement) -> str:
    """A child by its place."""
    parts = list(node.elements)
    return _tex(parts[number]) if number < len(parts) else ""


# -- leaves --------------------------------------------------------------------------------------------


def _symbols(text: str) -> str:
    return _side_by_side(SYMBOLS.get(char, char) for char in text)


def _identifier(node: MarkupElement) -> str:
    text = text_of(node).strip()
    if text in FUNCTIONS:
        return f"\\{text}"
    if len(text) > 1 and text.isalpha() and text.isascii():
        return f"\\mathrm{{{text}}}"
    return _variant(_symbols(text), node.get("mathvariant"))


def _variant(tex: str, variant: str) -> str:
    command = {"bold": "mathbf", "double-struck": "mathbb", "script": "mathcal", "fraktur": "mathfrak"}.get(variant)
    return f"\\{command}{{{tex}}}" if command and tex else tex


def _operator(node: MarkupElement) -> str:
    text = text_of(node).strip()
    if text in OPERATORS:
        return OPERATORS[text]
    return f"\\{text} " if text in FUNCTIONS else _symbols(text)


def _words(node: MarkupElement) -> str:
    text = re.sub(r"([\\{}$&#^_%~])", r"\\\1", text_of(node).replace("\\", ""))
    return f"\\text{{{text}}}" if text.strip() else (r"\ " if text else "")


# -- constructs ----------------------------------------------------------------------------------------


def _fraction(top: str, bottom: str, *, bar: bool = True) -> str:
    return f"\\frac{{{top}}}{{{bottom}}}" if bar else f"{{{top} \\atop {bottom}}}"


def _root(body: str, degree: str = "") -> str:
    return f"\\sqrt[{degree}]{{{body}}}" if degree else f"\\sqrt{{{body}}}"


def _scripts(base: str, below: str = "", above: str = "") -> str:
    """A base with sub- and superscript; primes are written as such."""
    if re.search(r"[\^_]", re.sub(r"\{.*\}", "", base)) and not base.startswith("{"):
        base = f"{{{base}}}"
    written = (
        base if re.fullmatch(r"\S|\\[A-Za-z]+|\{.*\}|\\[A-Za-z]+\{[^{}]*\}|[^\s\\{}]*[)\]|]", base) else f"{{{base}}}"
    )
    written = written or "{}"
    if below:
        written += f"_{_group(below)}"
    if above and not above.strip("'"):
        return written + above
    return written + (f"^{_group(above)}" if above else "")


def _over(base: str, mark: str, *, below: bool = False) -> str:
    """A mark over or under a base: an accent, a brace, a limit."""
    accent = ACCENTS.get((mark, below))
    if accent:
        return f"{accent}{{{base}}}"
    if re.fullmatch(r"\\(?:sum|prod|int|lim|max|min|sup|inf|bigcup|bigcap|limsup|liminf|coprod|oint)\s*", base):
        return _scripts(base.strip(), below=mark if below else "", above="" if below else mark)
    return f"\\{'underset' if below else 'overset'}{{{mark}}}{{{base}}}"


def _fenced(body: str, opening: str, closing: str) -> str:
    choice = re.fullmatch(r"\{([^{}]*) \\atop ([^{}]*)\}", body)
    if choice is not None and opening == "(" and closing == ")":
        return f"\\binom{{{choice[1]}}}{{{choice[2]}}}"
    left, right = (_DELIMITERS.get(mark, SYMBOLS.get(mark, mark)) or "." for mark in (opening, closing))
    if left in "([|" and right in ")]|" and not re.search(r"\\(?:frac|sum|int|prod|begin)", body):
        return f"{left}{body}{right}"
    return _side_by_side([f"\\left{left}", body, f"\\right{right}"])


_DELIMITERS = {"{": r"\{", "}": r"\}", "⟨": r"\langle", "⟩": r"\rangle", "‖": r"\|", "": "."}


def _fence_attributes(node: MarkupElement) -> str:
    return _fenced(
        ",".join(map(_tex, node.elements)), node.attributes.get("open", "("), node.attributes.get("close", ")")
    )


def _mathml_table(node: MarkupElement) -> str:
    rows = r" \\ ".join(" & ".join(map(_row, row.elements)) for row in node.elements if row.tag == "mtr")
    return rf"\begin{{matrix}} {rows} \end{{matrix}}"


_WRITERS: dict[str, Callable[[MarkupElement], str]] = {
    "mi": _identifier,
    "mn": lambda node: _symbols(text_of(node).strip()),
    "mo": _operator,
    **dict.fromkeys(("mtext", "ms"), _words),
    "mspace": lambda node: r"\," if node.get("width").startswith(("0.16", "0.17", "thin")) else r"\ ",
    "mfrac": lambda node: _fraction(_child(0, node), _child(1, node), bar=node.get("linethickness")[:1] != "0"),
    "msqrt": lambda node: _root(_row(node)),
    "mroot": lambda node: _root(_child(0, node), _child(1, node)),
    "msub": lambda node: _scripts(_child(0, node), below=_child(1, node)),
    "msup": lambda node: _scripts(_child(0, node), above=_child(1, node)),
    "munder": lambda node: _over(_child(0, node), _child(1, node), below=True),
    "mover": lambda node: _over(_child(0, node), _child(1, node)),
    **dict.fromkeys(
        ("msubsup", "munderover"), lambda node: _scripts(_child(0, node), _child(1, node), _child(2, node))
    ),
    "mfenced": _fence_attributes,
    "mtable": _mathml_table,
    **dict.fromkeys(("mphantom", "annotation", "annotation-xml"), lambda node: ""),
}
