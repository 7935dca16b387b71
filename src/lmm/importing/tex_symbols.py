"""The names that TeX has for characters, functions and accents."""

from __future__ import annotations

from lmm.importing.elements import tags

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
