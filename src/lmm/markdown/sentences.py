"""Where sentences end, and what is a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD = re.compile(r"[^\W_]+")
"""A word: adjacent letters and digits."""
LETTERS = re.compile(r"[^\W\d_]+")
EMPHASIS = re.compile(r"[*`]|(?<!\w)_|_(?!\w)")
"""The marks that words have around them."""
CLOSERS = "*_)\"'”’»]"
"""Marks that belong to the sentence they follow."""
_END = re.compile(
    rf"(?<=[.!?…。！？])(?P<closers>[{re.escape(CLOSERS)}]*)(?:\s+(?=[*_(\"'“$\[]*[A-ZÀ-Þ0-9$\\])|(?<=[。！？]))"
    r"|\n[ \t]*\n\s*"
)
# Ends with a full stop and goes on: abbreviations, initials of a name or a country.
_GOES_ON = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs?|Figs?|Eq|Tab|Sec|ch|pp?|vol|ca|approx|M(?:rs?|s)|Dr|Prof|St|Jr|Sr|Gen|Col|Lt|Rev|Hon"
    r"|z\. ?B|d\. ?h|u\. ?a|vgl|bzw|Abb|Nr|Mrd|Mio|Tsd|sog)|\b(?:[A-ZÀ-Þ][\w’'-]+ |(?:[A-Z]\. ?)+)[A-ZÀ-Þ])\.\Z"
)
_HALF = re.compile(r"\bz\. (?=B\.)")  # of "z. B."
_LONGEST_NAME = 40


def sentence_ends(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Iterate over the ends of all sentences of a text but the last, each with the start of the next sentence.

    >>> text = "Leaves (e.g. Those of oaks) fall. *Mr. Earl B. Warren* saw it."
    >>> [(text[:end], text[begin:]) for end, begin in sentence_ends(text)]
    [('Leaves (e.g. Those of oaks) fall.', '*Mr. Earl B. Warren* saw it.')]
    """
    for match in _END.finditer(text, start):
        at = match.start()
        goes_on = _GOES_ON.search(text, max(start, at - _LONGEST_NAME), at) or _HALF.match(text, max(at - 2, 0))
        if match["closers"] is None or not goes_on:
            yield at + len(match["closers"] or ""), match.end()
            start = match.end()


def sentences_of(paragraph: str) -> Iterator[str]:
    """Iterate over the sentences of a paragraph or list item, each on one line.

    >>> list(sentences_of("- Leaves (e.g. Those of oaks)\\n  are green. They fall."))
    ['Leaves (e.g. Those of oaks) are green.', 'They fall.']
    >>> list(sentences_of("In Brown v. Board, 347 U.S. 483, Mr. Earl B. Warren wrote it. It has vitamin C."))
    ['In Brown v. Board, 347 U.S. 483, Mr. Earl B. Warren wrote it.', 'It has vitamin C.']
    >>> list(sentences_of("Bäume, z. B. Eichen, sind 3 Mrd. Euro wert, d. h. viel. Sie fallen."))
    ['Bäume, z. B. Eichen, sind 3 Mrd. Euro wert, d. h. viel.', 'Sie fallen.']
    """
    first, *words = paragraph.split() or [""]
    is_mark = words and (first in ("-", "*", "+") or (first[:-1].isdecimal() and first[-1] in ".)"))
    text, start = " ".join(words if is_mark else [first, *words]), 0
    for end, begin in sentence_ends(text, start):
        yield text[start:end]
        start = begin
    yield text[start:]
