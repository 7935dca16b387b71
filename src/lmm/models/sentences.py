"""Prose sentences of a markdown text, each under its heading, and the telling words in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_STOP_WORDS = """
a about an and any are as at be because been but by can could did do does for from had has have how i if in into is it
its me more my no not of on one or our please say she he should so some tell than that the their them then there these
they this those to up us was we were what when where which who why will with would you your
text section paragraph explain describe clear mean means
aber als am an auch auf aus bei bin bis das dass dem den der des die doch du ein eine einem einen einer eines er es für
hat haben ich ihr im in ist ja kann mit nach nicht noch nur oder sich sie sind so um und uns vom von vor war was wie wir
wird zu zum zur
"""
_STOP = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_CLOSERS = "*_)\"'”"  # marks that belong to the sentence they follow
_ABBREVIATIONS = ("e.g", "i.e", "cf", "vs", "Fig", "Figs", "Eq", "Tab", "Sec", "z.B", "d.h", "vgl", "bzw", "Abb")
_NOT_ABBREVIATED = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in _ABBREVIATIONS)
_SENTENCE_END = re.compile(rf"(?<=[.!?]){_NOT_ABBREVIATED}(?P<closers>[{_CLOSERS}]*)\s+(?=[*_(\"'“$\[]*[A-ZÀ-Þ0-9$\\])")
_ITEM_MARK = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_MATH_OR_CODE = re.compile(r"\$[^$\n]+\$|`[^`\n]+`")
_CODE_OR_COMMENT = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^[ \t]*(?P=fence)|\Z)[^\n]*|<!--.*?(?:-->|\Z)", re.MULTILINE | re.DOTALL
)
_PIECE = re.compile(
    r"^[ \t]*(?P<equation>\$\$.*?\$\$)[^\n]*"
    r"|^ {0,3}#{1,6}[ \t]+(?P<title>[^\n]*?)[ \t]*#*[ \t]*(?:\{[^}\n]*\})?[ \t]*$"
    r"|^[ \t]*(?P<other>\||\+[-=]|:?-{3,}|\\begin|\\end|!\[)[^\n]*"
    r"|^[ \t]*(?P<item>(?:[-*+]|\d+[.)])[ \t]+[^\n]*)"
    r"|^[ \t]*(?P<prose>[^\s][^\n]*)"
    r"|^(?P<blank>[ \t]*)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, the heading it stands under, its stems, and the equation it leads to.

    `source` is the number of the document, if documents have one.
    """

    text: str
    heading: str
    stems: tuple[str, ...]
    equation: str = ""
    source: int = 0


def split_sentences(markdown: str) -> list[Sentence]:
    """The prose sentences of a markdown text; code, tables and comments left out.

    A displayed equation stays with the sentence that leads to it.

    >>> [s.text for s in split_sentences("# Leaves\\n\\nA leaf is green. Roots are brown.\\n")]
    ['A leaf is green.', 'Roots are brown.']
    """
    found: list[Sentence] = []
    for heading, paragraph in _paragraphs(markdown.replace("\r\n", "\n")):
        if paragraph.startswith("$$"):
            if found and found[-1].heading == heading and found[-1].text.rstrip(_CLOSERS)[-1:] not in tuple(".!?"):
                found[-1] = replace(found[-1], equation=paragraph)
            continue
        for text in _cut(paragraph):
            stems = tuple(stems_of(text))
            if stems:
                found.append(Sentence(text, heading, stems))
    return found


def _cut(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph or list item, on one line each."""
    text = " ".join(paragraph.split())
    mark = _ITEM_MARK.match(text)
    start = mark.end() if mark else 0
    for end in _SENTENCE_END.finditer(text, start):
        yield text[start : end.end("closers")]
        start = end.end()
    yield text[start:]


def _paragraphs(markdown: str) -> Iterator[tuple[str, str]]:
    """Pieces of prose and displayed equations, each with the heading above it."""
    heading, lines = "", list[str]()
    for piece in _PIECE.finditer(_CODE_OR_COMMENT.sub("", markdown) + "\n\n"):
        kind = str(piece.lastgroup)
        if kind != "prose" and lines:
            yield heading, "\n".join(lines)
            lines = []
        if kind == "equation":
            yield heading, piece[kind]
        elif kind == "title":
            heading = piece[kind]
        elif kind in ("prose", "item"):
            lines.append(piece[kind])


def stems_of(text: str) -> list[str]:
    """The telling words of a text, lower case, common English and German endings taken off.

    >>> stems_of("The fitted models were fitting")
    ['fitt', 'model', 'fitt']
    """
    return [stem_of(word) for word in words_of(text)]


def words_of(text: str) -> list[str]:
    """The telling words of a text, in lower case."""
    words = (word.lower() for word in _WORD.findall(_MATH_OR_CODE.sub(" ", text)))
    return [word for word in words if word not in _STOP and (len(word) > 1 or word.isdigit())]


def stem_of(word: str) -> str:
    """A word without a common ending."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "en", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
