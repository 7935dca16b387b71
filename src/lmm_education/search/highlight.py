"""Show why a passage was found: the words it shares with the question, compared as BM25 compares them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence

from lmm_education.encode.bm25 import bm25

Span = tuple[int, int]
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")


def matching_words(text: str, question: str, languages: Collection[str]) -> list[Span]:
    """Where words of the question stand in a text, in whatever form; stop words do not count.

    >>> matching_words("A model of models.", "Which models?", ["en"])
    [(2, 7), (11, 17)]
    """
    wanted = {language: set(bm25(language).embed_query(question).indices) for language in languages}
    known: dict[str, bool] = {}

    def counts(word: str) -> bool:
        if word not in known:
            known[word] = any(ids & set(bm25(language).embed_query(word).indices) for language, ids in wanted.items())
        return known[word]

    return [match.span() for match in _WORD.finditer(text) if counts(match[0].casefold())]


def excerpt(text: str, spans: Sequence[Span], width: int) -> Span:
    """The part of a text of at most about `width` characters with most of the spans; it begins and ends at words.

    >>> text = "one two three four five six seven eight"
    >>> begin, end = excerpt(text, [(19, 23), (24, 27)], 12)
    >>> text[begin:end]
    'five six'
    """
    if len(text) <= width:
        return 0, len(text)
    starts, ends = [begin for begin, _ in spans], [end for _, end in spans]
    lead = width // 4  # what stands before the first word that matches
    candidates = [0, *(max(0, begin - lead) for begin in starts)]
    begin = max(candidates, key=lambda at: (bisect_right(ends, at + width) - bisect_left(starts, at), -at))
    begin = min(begin, len(text) - width)
    return _at_words(text, begin, begin + width)


def _at_words(text: str, begin: int, end: int) -> Span:
    """The part without the words that its ends cut."""
    if begin and not text[begin - 1].isspace():
        space = _SPACE.search(text, begin, end)
        begin = space.end() if space else begin
    if end < len(text) and not text[end].isspace():
        cut = max(text.rfind(" ", begin, end), text.rfind("\n", begin, end))
        end = cut if cut > begin else end
    return begin, end


def marked(
    text: str, spans: Sequence[Span], part: Span, mark: Callable[[str], str], safe: Callable[[str], str], *,
    keep_lines: bool = False,
) -> str:  # fmt: skip
    """A part of a text with `mark` around the spans in it and ``…`` where something was left out, on one line.

    `safe` is applied to everything that comes from the text; `keep_lines` leaves it in its lines.

    >>> marked("A\\nmodel of models.", [(2, 7)], (0, 10), "[{}]".format, str)
    'A [model] of …'
    """
    begin, end = part
    pieces, at = [], begin

    def plain(piece: str) -> str:
        return safe(piece if keep_lines else _SPACE.sub(" ", piece))

    for first, last in spans:
        if begin <= first and last <= end:
            pieces += [plain(text[at:first]), mark(safe(text[first:last]))]
            at = last
    pieces.append(plain(text[at:end]))
    shown = "".join(pieces).strip()
    return f"{'… ' if begin else ''}{shown}{' …' if end < len(text) else ''}"
