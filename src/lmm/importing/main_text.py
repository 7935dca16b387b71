"""The main part of a web page that does not say what it is: as trafilatura sees it, where that is installed.

Trafilatura finds the text of an article better than a page names it, but loses code, formulas and the order of lists:
so it is asked only which text that is, and the part of our own tree that holds it is taken whole.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from lmm.importing.elements import MarkupElement, element, find, tags

_WORD = re.compile(r"\w+")
_RUN = 4  # words that stand together only where the text is the same
_SHARE = 0.8  # of the main text that a part has to hold
_LOST = 0.2  # of what lies around a part may be main text; more, and it belongs together
_LITTLE = 20  # words, which are not worth leaving out
_TAKEN_WHOLE = tags("p ul ol dl table li pre blockquote figure")
_LITERAL = ("pre", "math")


def main_text(html: str) -> tuple[str, str]:
    """The main text of a page, and why there is none although trafilatura is installed; both may be empty."""
    if importlib.util.find_spec("trafilatura") is None:
        return "", ""
    try:
        trafilatura = importlib.import_module("trafilatura")  # no dependency of ours
    except ImportError as error:
        return "", f"trafilatura is not used: {str(error).splitlines()[0]}"
    try:
        return trafilatura.extract(html, include_comments=False) or "", ""
    except Exception as error:  # whatever it and its libraries make of a page
        return "", f"trafilatura is not used: it failed on this page ({type(error).__name__})"


def part_with(body: MarkupElement, text: str) -> MarkupElement:
    """The smallest part of a page that holds a text, and its title's heading; all of it if that cannot be told.

    What lies around the part has no code and no formulas, little of the text, and is not just a few words.

    >>> from lmm.importing.elements import text_of
    >>> page = element("body", element("div", "More news! " * 20), element("div", "Why are all leaves green?"))
    >>> [text_of(inner) for inner in part_with(page, "Why are all leaves green?").elements]
    ['Why are all leaves green?']
    """
    known = set(_runs(_words(text)))
    words, spans = _laid_out(body)
    marks = list(accumulate((run in known for run in _runs(words)), initial=0))
    if not known or marks[-1] * 2 < len(known):
        return body

    def held(node: MarkupElement) -> int:
        start, end = (min(place, len(marks) - 1) for place in spans[id(node)])
        return marks[end] - marks[start]

    def around(inner: MarkupElement, outer: MarkupElement) -> int:
        (first, last), (start, end) = spans[id(outer)], spans[id(inner)]
        return start - first + last - end

    part = outer = body
    while inner := next((child for child in outer.elements if held(child) >= _SHARE * marks[-1]), None):
        lost = held(part) - held(inner)
        if inner.tag in _TAKEN_WHOLE or lost > _LOST * around(inner, part) or _literal(part) != _literal(inner):
            break
        outer = inner
        part = inner if around(inner, part) >= _LITTLE else part
    title = next(find(body, "h1"), None)
    above = [] if title is None or any(heading is title for heading in find(part, "h1")) else [title]
    return body if part is body else element("body", *above, part)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_RUN)), strict=False)


def _laid_out(body: MarkupElement) -> tuple[list[str], dict[int, tuple[int, int]]]:
    """The words of a tree in order, and where those of each of its elements begin and end."""
    words: list[str] = []
    spans: dict[int, tuple[int, int]] = {}

    def lay_out(node: MarkupElement) -> None:
        start = len(words)
        for child in node.children:
            if isinstance(child, str):
                words.extend(_words(child))
            else:
                lay_out(child)
        spans[id(node)] = (start, len(words))

    lay_out(body)
    return words, spans


def _literal(node: MarkupElement) -> int:
    return sum(1 for _ in find(node, *_LITERAL))
