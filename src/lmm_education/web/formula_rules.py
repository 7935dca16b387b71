r"""Formulas in markdown, as rules for markdown-it: ``$…$``, ``$$…$$``, ``\(…\)``, ``\[…\]`` and TeX environments.

As in Pandoc, a dollar sign opens a formula only before a character that is no space, and closes one only after
such a character and not before a digit; a grave accent, which begins code, is in none.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# No formula is longer; without a bound, openers that nothing closes would each be looked for to the end of the text.
LONGEST = 2000
_LINES = 80
_ANY = f".{{1,{LONGEST}}}?"
_INLINE = re.compile(
    rf"\$\$(?P<display>{_ANY})\$\$(?:[ \t]*\{{#[^}}\n]*\}})?"
    rf"|\\\[(?P<bracket>{_ANY})\\\]"
    rf"|\\\((?P<round>{_ANY})\\\)"
    r"|\$(?P<dollar>[^\s$`](?:(?:\\.|[^$\\`]){0,2000}?[^\s\\$`])?)\$(?!\d)",
    re.DOTALL,
)
_ENVIRONMENTS = "align|aligned|alignat|flalign|gather|gathered|equation|eqnarray|multline|split|cases"
_BLOCK = re.compile(
    rf"\$\$(?P<display>{_ANY})\$\$(?:[ \t]*\{{#[^}}\n]*\}})?[ \t]*(?=\n|\Z)"
    rf"|\\\[(?P<bracket>{_ANY})\\\][ \t]*(?=\n|\Z)"
    rf"|(?P<tex>\\begin\{{(?P<name>(?:{_ENVIRONMENTS})\*?)\}}{_ANY}\\end\{{(?P=name)\}})[ \t]*(?=\n|\Z)",
    re.DOTALL,
)
OPENS = ("$$", "\\[", "\\begin{")
"""How a formula that takes lines of its own begins."""


def formulas(parser: MarkdownIt) -> None:
    """Add the rules to a parser. Tokens are ``formula`` (in a line) and ``display_formula``; `content` is the TeX.

    >>> parser = MarkdownIt("commonmark").use(formulas)
    >>> [token.type for token in parser.parseInline("It costs $5; $x$ is free.")[0].children]
    ['text', 'formula', 'text']
    """
    parser.inline.ruler.before("escape", "formula", _inline)
    parser.block.ruler.before("fence", "display_formula", _block, {"alt": ["paragraph", "reference", "blockquote"]})


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _INLINE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        display = found["display"] or found["bracket"]
        token = state.push("display_formula" if display else "formula", "math", 0)
        token.content = display or found["round"] or found["dollar"]
    state.pos = found.end()
    return True


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A formula that begins at the start of a line and ends at the end of one; it may have blank lines."""
    begin = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not state.src.startswith(OPENS, begin):
        return False
    last = min(last, first + _LINES)
    found = _BLOCK.match(state.getLines(first, last, state.blkIndent, False).lstrip())  # without the marks of a quote
    if found is None:
        return False
    if silent:
        return True
    line = first + found[0].count("\n") + 1
    token = state.push("display_formula", "math", 0)
    token.block, token.map = True, [first, line]
    token.content = found["display"] or found["bracket"] or found["tex"]
    state.line = line
    return True
