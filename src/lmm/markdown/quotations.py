"""Find the quotations in a text, and check them against their sources.

A quotation is what stands between quotation marks, in at least three words, or in a block quote; code, formulas and
callouts are none. It is compared letter by letter but for white space, emphasis, kinds of quotation marks and dashes,
the case of its first letter and the punctuation at its end. What an ellipsis parts has to stand in one text, in order.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, NamedTuple

from lmm.markdown.inline import BLANK_LINES, unquoted
from lmm.markdown.numbers import is_stated, numbers_of, readable
from lmm.markdown.spans import prose_of, spans

FEWEST_WORDS = 3
CLOSING_MARKS = '"“”«»‹›‘’」』'
"""A quotation in a paragraph ends with one of them."""
_NEAR = 0.7
"""The share of words that a near quotation has in common with its source."""
_FREQUENT, _LONG = 40, 300  # a word that stands in more places says little; so many words of a quotation are compared
_BODY = r"(?:[^{}\n]|\n(?![ \t]*(?:\n|\Z)))*+"
_PAIRS = (  # the mark before it, those that do not stand in it, the marks after it
    ("„", "„“”\"", "“”\""), ("“", "“”„", "”"), ("«", "«»", "»"), ("»", "«»", "«"), ("‹", "‹›", "›"), ("›", "‹›", "‹"),
    ("‚", "‚‘", "‘"), ("「", "「」", "」"), ("『", "『』", "』"),
)  # fmt: skip
_QUOTED = re.compile(
    "|".join(f"{begin}{_BODY.format(inside)}[{end}]" for begin, inside, end in _PAIRS)
    + r"|(?<!\w)‘(?:[^‘’\n]|’(?=\w)|\n(?![ \t]*(?:\n|\Z)))*+’"
    + rf'|(?<![\w"])"(?=\S){_BODY.format(chr(34))}(?<=\S)"(?![\w"])'
)
_BLOCK = re.compile(r"^ {0,3}>[^\n]*(?:\n {0,3}>[^\n]*)*", re.MULTILINE)
_NUMBERS = re.compile(r"(?<![ \t])[ \t]*+\[\d{1,4}(?:[,;–\- ]*\d{1,4})*\](?!\()")
_ELISION = re.compile(r"\[(?:…|\.\.\.|\. \. \.)\]|\((?:…|\.\.\.)\)|…|\.{3,}")
# Labels of links, underscores of emphasis, and what stands before the words of a line.
_MARKS = re.compile(r"\]\[[^\]\[\n]*\]|(?<!\w)_|_(?!\w)|^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t]+)?", re.MULTILINE)
# 10^6^, 10⁶ and 10^6 are the same, and are not 106; H~2~O is H₂O and H2O.
_SUPERSCRIPT = re.compile(r"\^([^\s^]{1,50})\^|([⁰¹²³⁴-⁹⁺⁻]+)")
_SUBSCRIPT = re.compile(r"(?<!~)~([^\s~]{1,50})~(?!~)")
_WORD = re.compile(r"[\u3040-\u9fff]{1,2}|[^\W_\u3040-\u9fff]+")
_SAME = str.maketrans(
    {**dict.fromkeys('“”„«»‹›‚‘’´"', "'"), **dict.fromkeys("-‐‑‒–—―−", " "), **dict.fromkeys("[]*`\\\u00ad", "")}
)
_END = ".,;:!?' "
Found = Literal["exact", "near", "no"]


class Quotation(NamedTuple):
    """A quotation at these places of a text, its marks included, and where it was found: `source` is the number of the
    text, `words` what that says instead, where it is only near."""

    text: str
    start: int
    end: int
    found: Found = "no"
    source: int | None = None
    words: str = ""


def verify_quotations(text: str, sources: Mapping[int, str]) -> list[Quotation]:
    """Return the quotations of a text, in order, each looked up in the numbered sources.

    >>> said = "It says “a leaf is very green”, and “it falls [...] in autumn”, not “that is an oak”."
    >>> for each in verify_quotations(said, {1: "Well.", 2: "A leaf *is* green. It falls, if at all, in autumn."}):
    ...     print(each.found, each.source, each.text, f"({each.words})")
    near 2 a leaf is very green (A leaf is green)
    exact 2 it falls [...] in autumn ()
    no None that is an oak ()
    """
    found = list[Quotation]()
    for quotation in quotations_of(text):
        paragraphs = [
            [piece for part in _ELISION.split(paragraph) if (piece := _plain(part).strip(_END))]
            for paragraph in BLANK_LINES.split(prose_of(quotation.text))
        ]
        if not any(paragraphs):  # a comment alone
            continue
        for number, source in sources.items():
            if all(_in_order(pieces, _normal(source)) for pieces in paragraphs):
                found.append(quotation._replace(found="exact", source=number))
                break
        else:
            every = [piece for pieces in paragraphs for piece in pieces]
            nearest = [(_nearness(every, source), number) for number, source in sources.items()]
            (share, words), number = max(nearest, key=lambda each: each[0][0], default=((0.0, ""), 0))
            near = quotation._replace(found="near", source=number, words=words)
            found.append(near if share >= _NEAR else quotation)
    return found


def quotations_of(text: str) -> Iterator[Quotation]:
    """Iterate over the quotations of a text, without looking them up.

    >>> [each.text for each in quotations_of('He said "x is one" and „drei kurze Wörter“.\\n\\n> A leaf falls. [1]\\n')]
    ['x is one', 'drei kurze Wörter', 'A leaf falls.']
    """
    if not any(mark in text for mark in (*CLOSING_MARKS, ">")):
        return
    bare = blank_code(text)
    found = []
    for block in _BLOCK.finditer(bare):
        quoted = unquoted("\n" + text[block.start() : block.end()]).strip()
        if not quoted.startswith(("[!", "{")):
            before, _, last = quoted.rpartition("\n")
            is_attribution = before and last.lstrip().startswith(("—", "–", "--"))
            found.append(Quotation(before if is_attribution else quoted, *block.span()))
    bare = _BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), bare)
    found += [Quotation(text[match.start() + 1 : match.end() - 1], *match.span()) for match in _QUOTED.finditer(bare)]
    for each in sorted(found, key=lambda each: each.start):
        words = _NUMBERS.sub("", each.text).strip()
        if len(_WORD.findall(words)) >= FEWEST_WORDS:
            yield each._replace(text=words)


_CODE = ("code", "code_block", "math", "raw", "html", "comment", "shortcode", "attributes")


def blank_code(text: str) -> str:
    """Replace code, formulas, tags and link addresses in a text by blanks; quotes keep their marks.

    >>> blank_code("So `x`, see [it](a.md).")
    'So    , see [it       .'
    """
    parts, at = list[str](), 0
    for span in spans(text, in_list=True):
        start = span.start
        if span.kind in ("link", "image") and span.text:
            start = text.find(span.text, start + 1) + len(span.text)
        elif span.kind not in _CODE:
            continue
        if start >= at:
            quoted = ">" in text[text.rfind("\n", 0, start) + 1 : start]
            lines = text[start : span.end].split("\n")
            leads = (line[: len(line) - len(line.lstrip(" >"))] if quoted else "" for line in lines)
            blank = "\n".join(lead.ljust(len(line)) for lead, line in zip(leads, lines, strict=True))
            parts += [text[at:start], blank]
            at = max(at, span.end)
    return "".join([*parts, text[at:]])


def line_of(value: str | float, text: str) -> int | None:
    """Return the number, from 0, of the first line of a text that has a value: its words, or a number or date, as
    written or rounded or converted; None if no line has it.

    >>> text = "The *hornbeam* is old:\\nit grew to 25 m\\nin all."
    >>> line_of("Hornbeam", text), line_of(25, text), line_of("2500 cm", text), line_of("25 m in all", text)
    (0, 1, 1, 1)
    >>> line_of("beam", text), line_of(26, text)
    (None, None)
    """
    numbers, rest = numbers_of(readable(said := str(value).removesuffix("T00:00:00"))), said
    for number in reversed(numbers):
        rest = rest[: number.start] + rest[number.end :]
    if numbers and not _WORD.search(rest):  # nothing but numbers, or a date
        found = ([*numbers_of(readable(line))] for line in text.splitlines())
        return next((at for at, others in enumerate(found) if all(is_stated(each, others) for each in numbers)), None)
    quoted, every, starts = _words(said), " ", list[int]()
    for line in text.splitlines():
        starts.append(len(every) - 1)
        every += f"{words} " if (words := _words(line)) else ""
    at = every.find(f" {quoted} ") if quoted else -1
    return bisect_right(starts, at) - 1 if at >= 0 else None


def _words(text: str) -> str:
    joined = re.sub(r"(?<=\d)[.,](?=\d)", "p", _plain(prose_of(text)))  # 5 is not in 12.5
    return " ".join(match[0].casefold() for match in _WORD.finditer(joined))


# -- looking them up -------------------------------------------------------------------------------


def _in_order(pieces: Sequence[str], source: str) -> bool:
    """Return whether the source contains the pieces in order; the case of a first letter does not count."""
    at = 0
    for piece in pieces:
        ends = [source.find(first + piece[1:], at) for first in {piece[0], piece[0].swapcase()}]
        if max(ends) < 0:
            return False
        at = min(end for end in ends if end >= 0) + len(piece)
    return True


@lru_cache(maxsize=256)
def _normal(text: str) -> str:
    """Normalise a text for comparison."""
    return _plain(prose_of(text))


def _plain(prose: str) -> str:
    """Return prose without what the comparison ignores."""
    text = _SUBSCRIPT.sub(r"\1", _SUPERSCRIPT.sub(r"^\1\2", _MARKS.sub("", _NUMBERS.sub("", prose))))
    return " ".join(unicodedata.normalize("NFKC", text).translate(_SAME).split())


class Index(NamedTuple):
    """The words of a text, their spans in it, and the positions of each word."""

    words: list[str]
    spans: list[tuple[int, int]]
    places: dict[str, list[int]]


def index_of(matches: Iterable[re.Match[str]]) -> Index:
    """Return an index of words that were matched in a text."""
    index = Index([], [], {})
    for at, match in enumerate(matches):
        index.words.append(word := match[0].casefold())
        index.spans.append(match.span())
        index.places.setdefault(word, []).append(at)
    return index


@lru_cache(maxsize=256)
def _index(text: str) -> Index:
    return index_of(_WORD.finditer(text))


def _nearness(pieces: Sequence[str], source: str) -> tuple[float, str]:
    """Return the share of words in common with the nearest part of the source, and that part."""
    text = _normal(source)
    index, near = _index(text), list[tuple[float, str]]()
    for piece in pieces:
        quoted = [word.casefold() for word in _WORD.findall(piece)][:_LONG]
        matched, first, last = nearest(quoted, index)
        words = text[index.spans[first][0] : index.spans[last - 1][1]] if matched else ""
        near.append((matched / max(len(quoted), last - first, 1) * len(quoted), words))
    size = sum(min(len(_WORD.findall(piece)), _LONG) for piece in pieces)
    return sum(each for each, _ in near) / max(size, 1), " … ".join(filter(None, (words for _, words in near)))


def nearest(quoted: Sequence[str], index: Index) -> tuple[int, int, int]:
    """Return how many words the nearest part has in common, and the range of words it covers."""
    places = {word: at for word in set(quoted) if len(at := index.places.get(word, [])) <= _FREQUENT}
    votes = Counter(at - i for i, word in enumerate(quoted) for at in places.get(word, ()))
    around = len(quoted) // 4 + 2
    start = max(votes, key=lambda at: (sum(votes.get(at + by, 0) for by in range(-2, 3)), votes[at], -at), default=0)
    begin = max(start - around, 0)
    part = index.words[begin : start + len(quoted) + around]
    blocks = [block for block in SequenceMatcher(None, quoted, part).get_matching_blocks() if block.size]
    if not blocks or not votes:
        return 0, 0, 0
    first, last = blocks[0], blocks[-1]
    end = begin + last.b + len(quoted) - last.a  # the replacement of the words that differ belongs to it
    return sum(block.size for block in blocks), max(begin + first.b - first.a, 0), min(end, len(index.words))
