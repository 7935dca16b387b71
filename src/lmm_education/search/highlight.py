"""Highlight why a passage was found: the words that it shares with the question, compared as BM25 does."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence

from lmm import markdown
from lmm_education.encode.bm25 import bm25, separated, word_ids, word_spans

Part = tuple[int, int]
_ROWS = re.compile(r"^[ ]*\|[^\n]*(?:\n[ ]*\|[^\n]*)*", re.MULTILINE)


def _verbatim(text: str) -> list[Part]:
    """Return the parts of a text in which nothing may be marked: code, formulas, rows of tables and link targets."""
    spans = markdown.spans(text, in_list=True)
    found = [(each.start, each.end) for each in spans if each.kind in ("code", "code_block", "math", "raw")]
    # The text of a link or picture precedes its target; an address in angle brackets is all target.
    targets = [
        (max(each.start, text.rfind("](", each.start, each.end)), each.end)
        for each in spans
        if each.kind in ("link", "image")
    ]
    return [*found, *targets, *(match.span() for match in _ROWS.finditer(text))]


def matching_words(text: str, question: str, languages: Collection[str]) -> list[Part]:
    """Return the positions of the question's words in a text, in any inflected form, without stop words.

    >>> matching_words("A model of models.", "Which models?", ["en"])
    [(2, 7), (11, 17)]
    """
    wanted = {code: set(bm25(code).embed_query(separated(question, code)).indices) for code in languages}
    known: dict[str, bool] = {}

    def counts(word: str) -> bool:
        if word not in known:
            known[word] = any(set(word_ids(word, code)) & ids for code, ids in wanted.items())
        return known[word]

    found: list[Part] = []
    for start, end in word_spans(text):
        if counts(text[start:end]):
            if found and found[-1][1] > start:  # pairs of letters overlap
                start = found.pop()[0]
            found.append((start, end))
    return found


def excerpt(text: str, spans: Sequence[Part], width: int) -> Part:
    """Return the part of a text of about `width` characters with most of the spans, from the beginning of a line to the
    end of one; lines of more than `width` characters are cut at words.

    >>> text = "one two three four five six seven eight nine ten eleven"
    >>> begin, end = excerpt(text, [(19, 23), (24, 27)], 12)
    >>> text[begin:end]
    'five six'
    """
    if len(text) <= width:
        return 0, len(text)
    starts, ends = [begin for begin, _ in spans], [end for _, end in spans]
    lead = width // 4  # context before the first matching word
    candidates = [0, *(max(0, begin - lead) for begin in starts)]
    begin = max(candidates, key=lambda at: (bisect_right(ends, at + width) - bisect_left(starts, at), -at))
    begin = min(begin, len(text) - width)
    end = begin + width
    line, stop = text.rfind("\n", 0, begin) + 1, (text.find("\n", end) + 1 or len(text) + 1) - 1
    if begin - line < width:
        begin = line
    elif not text[begin - 1].isspace():
        begin = text.find(" ", begin, end) + 1 or begin
    if stop - end >= width and not text[end].isspace():
        cut = text.rfind(" ", begin, end)
        return begin, cut if cut > begin else end
    return begin, stop if stop - end < width else end


def marked(text: str, spans: Sequence[Part], part: Part, mark: Callable[[str], str], safe: Callable[[str], str]) -> str:
    """Return a part of a text with `mark` applied to the spans in it, and ``…`` where text was left out. In code,
    formulas and tables nothing is marked, because that would change them. `safe` is applied to everything that comes
    from the text.

    >>> marked("A model of models.", [(2, 7)], (0, 10), "[{}]".format, str)
    'A [model] of …'
    """
    at, end = part
    pieces, hidden = ["… " if at else ""], _verbatim(text)
    for begin, until in spans:
        if at <= begin and until <= end and not any(begin < last and first < until for first, last in hidden):
            pieces += [safe(text[at:begin]), mark(safe(text[begin:until]))]
            at = until
    shown = "".join([*pieces, safe(text[at:end])]).strip()
    return shown if end >= len(text.rstrip()) else f"{shown} …"
