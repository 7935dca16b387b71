"""A markdown-it plugin for formulas, for the page and for Anki cards."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# No formula is longer. Without a limit, each unclosed opener would be searched for to the end of the text.
_LONGEST_FORMULA = 2000
_FORMULA_LINES = 80
_FORMULA = f".{{1,{_LONGEST_FORMULA}}}?"
_INLINE_FORMULA = re.compile(
    rf"\$\$(?P<display>{_FORMULA})\$\$(?:[ \t]*\{{#[^}}\n]*\}})?"
    rf"|\\\[(?P<bracket>{_FORMULA})\\\]"
    rf"|\\\((?P<round>{_FORMULA})\\\)"
    r"|\$(?!\s)(?P<dollar>(?:\\[^`]|[^$\\`]){1,2000}?)(?<!\s)\$(?!\d)",
    re.DOTALL,
)
_ENVIRONMENTS = "align|aligned|alignat|flalign|gather|gathered|equation|eqnarray|multline|split|cases"
_BLOCK_FORMULA = re.compile(
    rf"\$\$(?P<display>{_FORMULA})\$\$(?:[ \t]*\{{#[^}}\n]*\}})?[ \t]*(?=\n|\Z)"
    rf"|\\\[(?P<bracket>{_FORMULA})\\\][ \t]*(?=\n|\Z)"
    rf"|(?P<tex>\\begin\{{(?P<name>(?:{_ENVIRONMENTS})\*?)\}}{_FORMULA}\\end\{{(?P=name)\}})[ \t]*(?=\n|\Z)",
    re.DOTALL,
)
_OPENS = ("$$", "\\[", "\\begin{")


# As in Pandoc, a dollar sign opens a formula only before a non-space character, and closes one only after such a
# character and not before a digit; a backtick, which begins code, is never part of one. dollarmath (mdit-py-plugins)
# agrees, but supports neither Pandoc's labels nor a limit: 2,000 unclosed openers take it seconds.
def formulas(parser: MarkdownIt) -> None:
    """Add the rules to a parser. Tokens are ``formula`` (inline) and ``display_formula``; `content` is the TeX.

    >>> parser = MarkdownIt("commonmark").use(formulas)
    >>> [token.type for token in parser.parseInline("It costs $5; $x$ is free.")[0].children]
    ['text', 'formula', 'text']
    """
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    parser.block.ruler.before(
        "fence", "display_formula", _block_formula, {"alt": ["paragraph", "reference", "blockquote"]}
    )


def _inline_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _INLINE_FORMULA.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        display = found["display"] or found["bracket"]
        token = state.push("display_formula" if display else "formula", "math", 0)
        token.content = display or found["round"] or found["dollar"]
    state.pos = found.end()
    return True


def _block_formula(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Parse a formula that begins at the start of a line and ends at the end of one; it may contain blank lines."""
    begin = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not state.src.startswith(_OPENS, begin):
        return False
    last = min(last, first + _FORMULA_LINES)
    found = _BLOCK_FORMULA.match(
        state.getLines(first, last, state.blkIndent, False).lstrip()
    )  # without markers of a block quote
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
