"""Highlight why a passage was found: the words that it shares with the question, compared as BM25 does."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from lmm import markdown
from lmm_education.encode.bm25 import bm25, separated, word_ids, word_spans

Part = tuple[int, int]
_SPACE = re.compile(r"\s+")
_ROWS = re.compile(r"^[ ]*\|[^\n]*(?:\n[ ]*\|[^\n]*)*", re.MULTILINE)


class Verbatim(NamedTuple):
    """Parts of a text that must stay as they are: `blocks` (code, equations, tables) also keep their lines; `all`
    includes code, formulas and link targets within sentences."""

    blocks: Sequence[Part]
    all: Sequence[Part]


@lru_cache(maxsize=64)
def verbatim(text: str) -> Verbatim:
    """Return the parts of a text in which nothing may be marked, and those that keep their lines."""
    spans = markdown.spans(text, in_list=True)
    found = [each for each in spans if each.kind in ("code", "code_block", "math", "raw")]
    blocks = [(each.start, each.end) for each in found if each.kind == "code_block" or "\n" in each.text]
    rows = _without([match.span() for match in _ROWS.finditer(text)], blocks)
    # The text of a link or picture precedes its target; an address in angle brackets is all target.
    targets = [
        (max(each.start, text.rfind("](", each.start, each.end)), each.end)
        for each in spans
        if each.kind in ("link", "image")
    ]
    return Verbatim(sorted([*blocks, *rows]), sorted([*((each.start, each.end) for each in found), *targets, *rows]))


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
    """Return the part of a text of at most about `width` characters with most of the spans, cut at words.

    Code, equations and tables up to this width are kept whole, longer ones are cut at lines, which may exceed the
    width.

    >>> text = "one two three four five six seven eight"
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
    return _at_lines(text, _at_words(text, begin, begin + width), width)


def _at_words(text: str, begin: int, end: int) -> Part:
    """Return the part without the words that are cut at its ends."""
    if begin and not text[begin - 1].isspace():
        space = _SPACE.search(text, begin, end)
        begin = space.end() if space else begin
    if end < len(text) and not text[end].isspace():
        cut = max(text.rfind(" ", begin, end), text.rfind("\n", begin, end))
        end = cut if cut > begin else end
    return begin, end


def _at_lines(text: str, part: Part, width: int) -> Part:
    """Return the part, extended to whole blocks or whole lines of them."""
    begin, end = part
    for first, last in verbatim(text).blocks:
        whole = last - first <= width
        if first < begin < last:
            begin = first if whole else max(text.rfind("\n", 0, begin) + 1, begin - width)
        if first < end < last:
            line = text.find("\n", end, last)
            end = last if whole else min(line if line >= 0 else last, end + width)
    return begin, end


def marked(
    text: str, spans: Sequence[Part], part: Part, mark: Callable[[str], str], safe: Callable[[str], str], *,
    keep_lines: bool = False,
) -> str:  # fmt: skip
    """Return a part of a text with `mark` applied to the spans in it, and ``…`` where text was left out.

    Prose is joined into one line, unless `keep_lines`. Code, equations and tables always keep their lines, and nothing
    in them is marked, because that would change them. `safe` is applied to everything that comes from the text.

    >>> marked("A\\nmodel of models.", [(2, 7)], (0, 10), "[{}]".format, str)
    'A [model] of …'
    >>> print(marked("A model\\nis\\n\\n$$\\nmodel = 1\\n$$", [(2, 7), (15, 20)], (0, 27), "[{}]".format, str))
    A [model] is
    $$
    model = 1
    $$
    """
    begin, end = part
    spans = _without(spans, verbatim(text).all)

    def prose(first: int, last: int) -> Iterator[str]:
        for at, until in spans:
            if first <= at and until <= last:
                yield plain(text[first:at])
                yield mark(safe(text[at:until]))
                first = until
        yield plain(text[first:last])

    def plain(piece: str) -> str:
        return safe(piece if keep_lines else _SPACE.sub(" ", piece))

    if keep_lines:
        shown = "".join(prose(begin, end)).strip()
    else:
        pieces = ("".join(prose(*at)).strip() if flows else safe(text[slice(*at)]) for at, flows in _pieces(text, part))
        shown = "\n".join(filter(None, (piece.rstrip() for piece in pieces)))
    # Next to a block that keeps its lines, an ellipsis has a line of its own.
    before, after = ("\n" if any(first <= at <= last for first, last in verbatim(text).blocks) else " " for at in part)
    return f"{f'…{before}' if begin else ''}{shown}{f'{after}…' if end < len(text) else ''}"


def _pieces(text: str, part: Part) -> Iterator[tuple[Part, bool]]:
    """Iterate over the pieces of a part: prose (True) and blocks that keep their lines (False), alternating."""
    at, end = part
    for begin, stop in verbatim(text).blocks:
        first, last = max(begin, at), min(stop, end)
        if first < last:
            yield (at, first), True
            yield (first, last), False
            at = last
    yield (at, end), True


def _without(spans: Sequence[Part], hidden: Sequence[Part]) -> list[Part]:
    """Return the spans that do not overlap any of `hidden`."""
    return [(at, until) for at, until in spans if not any(at < last and first < until for first, last in hidden)]
