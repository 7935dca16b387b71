"""How long a text takes to read.

Time is counted in words, at a pace in words per minute that the reader is told. What is no prose counts as
the words that take as long: a line of code is read slower than a line of text, a formula slower than its
markup is long, a picture takes a moment. URLs, attributes and comments are not read.
"""

from __future__ import annotations

import math
import re

from lmm.markdown.tree import count_words
from lmm_education.ingestion.kinds import is_comment, kind_of

CODE_LINE = 8  # words that a line of code stands for
FORMULA = 4  # a formula in a line
EQUATION = 16  # a displayed formula, and each further row of it
PICTURE = 30

# What is repeated here is bounded, or stops where it would begin again: a stranger's text must not take for ever.
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_EQUATION = re.compile(r"\$\$(.+?)\$\$|\\\[((?:(?!\\\[).)+?)\\\]", re.DOTALL)
_FORMULA = re.compile(r"(?<![\\$])\$(?![\s$])(?:\\.|[^$\\])*?(?<!\s)\$(?!\d)|\\\(((?:(?!\\\().)+?)\\\)", re.DOTALL)
_PICTURE = re.compile(r"!\[([^\[\]]*)\](?:\([^)\n]{0,999}\)|\[[^\]\n]{0,999}\])?")
_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\](?:\([^)\n]{0,999}\)|\[[^\]\n]{0,999}\])")
_MARKUP = re.compile(
    r"<!--(?:.*?-->|.*)|</?[A-Za-z][^<>\n]*>|<https?:[^<>\s]+>|https?://\S+|\{[#.][^}\n]*\}", re.DOTALL
)
_RULES = re.compile(r"^[ \t]*[-*_|:=+>#][-*_|:=+># \t]*$|^[ \t]*(?:>|#{1,6}|[-*+]|\d+[.)])[ \t]", re.MULTILINE)
_ROW = re.compile(r"\\\\(?![A-Za-z])")


def words_to_read(text: str) -> int:
    """The words of a text, with those that stand for code, formulas and pictures.

    >>> words_to_read("Leaves are [green](https://example.org/a-long-address)."), words_to_read("$x$ and $$x = y$$")
    (3, 21)
    >>> words_to_read("```r\\nx <- 1\\n\\nplot(x)\\n```")
    16
    """
    return sum(_words(block) for block in _blocks(text))


def minutes_to_read(words: int, words_per_minute: int) -> int:
    """Whole minutes, at least one if there is anything to read.

    >>> minutes_to_read(0, 200), minutes_to_read(10, 200), minutes_to_read(500, 200)
    (0, 1, 3)
    """
    return math.floor(words / words_per_minute + 0.5) or min(words, 1)


def _blocks(text: str) -> list[str]:
    """A text is a block of the document, or several that were joined; what is fenced stays whole."""
    pieces = re.split(r"(^[ \t]*(?:```+|~~~+).*?^[ \t]*(?:```+|~~~+)[ \t]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return [piece for piece in pieces if piece.strip()]


def _words(text: str) -> int:
    if is_comment(text):
        return 0
    if kind_of(text.strip("\n")) == "code":
        return CODE_LINE * sum(_is_code(line) for line in text.splitlines())
    counted = 0

    def instead(words: int) -> str:
        nonlocal counted
        counted += words
        return " "

    rest = _INLINE_CODE.sub(lambda match: instead(max(1, count_words(match[2]))), text)
    rest = _EQUATION.sub(lambda match: instead(EQUATION * (1 + len(_ROW.findall(match[0])))), rest)
    rest = _FORMULA.sub(lambda match: instead(FORMULA), rest)
    rest = _PICTURE.sub(lambda match: instead(PICTURE) + match[1], rest)
    rest = _RULES.sub(" ", _MARKUP.sub(" ", _LINK.sub(r"\1", rest)).replace("|", " "))
    return counted + count_words(re.sub(r"(?<!\w)[-*_:.,;!?()\[\]{}\"'—–]+(?!\w)", " ", rest))


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("```", "~~~"))
