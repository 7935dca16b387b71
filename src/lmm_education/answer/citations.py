"""Citations in an answer: the forms in which models name the numbers of their sources. The answer stays as it is.

Besides ``[1]``, ``[1, 3]`` and ``[1-3]`` these are ``[Source 1]``, ``(source 1)``, ``[S1]``, ``[^1]``, 【1】, 【1†…】,
［1］, ``\\[1\\]``, links such as ``[1](leaves.md)``, and after a word ¹ and ``<sup>1</sup>``. A bracket is no
citation in code and formulas, after ``=`` and the like, and if one of several numbers was not offered: ``[0, 1]`` is an
interval.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from lmm.markdown import spans


class Citation(NamedTuple):
    """A citation and its position in a text; it is not `known` if its only number was not offered."""

    start: int
    end: int
    numbers: tuple[int, ...]
    known: bool = True


_LABEL = (
    r"(?:sources?|src|doc(?:ument)?s?|passages?|citations?|ref(?:erence)?s?|quellen?|fuentes?|fonti|fonte|bron(?:nen)?)"
    r"[ .:#]*"
)
_AND = r"and|und|et|ed?|y|en"
_NUMBERS = rf"\d{{1,4}}(?:\s*(?:[,;&–-]|{_AND})\s*(?:{_LABEL}|S)?\d{{1,4}})*"
_LABELLED = rf"(?:see |siehe )?{_LABEL}(?P<%s>{_NUMBERS})(?:[:,†][^\[\]()\n]{{0,80}})?"
_PLACE = r"(?:: [^\W\d_]{3}|, (?:pp?|S|lines?|section)\b|†)[^\[\]\n]{0,80}"
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_FORM = re.compile(
    rf"\\?\[{{1,2}} ?(?:(?P<note>\^)?(?P<bare>{_NUMBERS})(?:{_PLACE})?|S(?P<s>{_NUMBERS})|{_LABELLED % 'named'})"
    rf" ?\\?\]{{1,2}}(?P<link>\([^()\s]{{0,300}}\))?"
    rf"|[【［](?:{_LABEL})?(?P<wide>{_NUMBERS})(?:[†:][^】］\n]{{0,80}})?[】］]|\({_LABELLED % 'round'}\)"
    rf"|<sup>\[?(?P<sup>{_NUMBERS})\]?</sup>|(?P<raised>[⁰¹²³⁴-⁹]+(?:[,˒ ][⁰¹²³⁴-⁹]+)*)",
    re.IGNORECASE,
)
_TEX = re.compile(r"\\\((?:(?!\n\s*\n).){0,2000}?\\\)|\\\[(?!\d+\\\])(?:(?!\n\s*\n).){0,2000}?\\\]", re.DOTALL)
_OPEN_FENCE = re.compile(r"^ {0,3}(?:```|~~~).*\Z", re.DOTALL | re.MULTILINE)
_NO_CITATIONS = ("code", "code_block", "math", "raw", "html", "definition", "comment", "image")
# What stands before a bracket whose numbers are values.
_VALUES = re.compile(
    r"(?:[=≤≥∈∉+#]|\w\(|\b(?:interval|range|vector|list|array|tuple|between|indices"
    r"|Intervall|Bereich|Vektor|Liste|zwischen))[ \t]*\Z",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\w(?:\[[^\[\]\s]{0,9}\])?\Z")
_OPERATOR = re.compile(r"[+{^]|[ \t]*[=≠]")  # behind a bracket that is part of an expression
_ENDS = re.compile(r"""["'”’»*_)]*(?:[.,;:!?…]|[ \t]*(?:\||\n|\Z)|[ \t]+[–—-][ \t])""")
_BEHIND_AN_END = re.compile(r"""[.,;:!?…]["'”’»*_)]*[ \t]*\Z""")
_WORD = re.compile(r"""(?:[^\W\d_]{3}|[.,;:!?…"'”’»)\]*])\Z""")
_MOST = 99  # a larger number that was not offered is a value
_CONTEXT = 20  # characters before a bracket that are looked at


def citations(text: str, offered: Collection[int]) -> list[Citation]:
    """Return the citations in a text, in order: of sources that were offered, and single numbers that were not.

    >>> [each.numbers for each in citations("Green [1, 3]. Red【1†a】, in [0, 1], `x[1]`, (source 3).", {1, 3})]
    [(1, 3), (1,), (3,)]
    >>> citations("They fall [9].", {1})
    [Citation(start=10, end=13, numbers=(9,), known=False)]
    """
    return list(_citations(text, frozenset(offered)))


@lru_cache(maxsize=32)  # an answer is read for its citations when it is verified, rendered and sent
def _citations(text: str, offered: frozenset[int]) -> Sequence[Citation]:
    skipped = _skipped(text)
    begins = [start for start, _ in skipped]
    found, following, ends = list[Citation](), len(text), False
    for match in reversed(list(_FORM.finditer(text))):
        at = bisect_right(begins, match.start()) - 1
        if at >= 0 and skipped[at][1] > match.start():
            continue
        adjoins = (
            not text[match.end() : following].strip(" \t,;") if following > match.end() else following == match.end()
        )
        ends = (adjoins and ends and following < len(text)) or _ENDS.match(text, match.end()) is not None
        following = match.start()
        if citation := _citation(text, match, offered, ends=ends):
            found.append(citation)
    return found[::-1]


def _citation(text: str, match: re.Match[str], offered: Collection[int], *, ends: bool) -> Citation | None:
    """Return a form as a citation, if it is one; it `ends` a clause or stands within one."""
    kind = match.lastgroup if match.lastgroup != "link" else "bare" if match["bare"] else "named"
    numbers = tuple(_expanded(match[kind or "bare"].translate(_SUPERSCRIPTS)))
    before = text[max(match.start() - _CONTEXT, 0) : match.start()]
    is_joined, is_offered = _JOINED.search(before) is not None, all(number in offered for number in numbers)
    if kind in ("sup", "raised"):
        counts = is_offered and _WORD.search(before) is not None and (ends or not is_joined)
        return Citation(*match.span(), numbers) if counts else None
    if kind == "bare" and not before.rpartition("\n")[2].strip() and text.startswith((": ", ":\t"), match.end()):
        return None  # it says where a link leads
    if match["note"] and re.search(rf"^[ ]{{0,3}}\[\^{match['bare']}\]:", text, re.MULTILINE):
        return None
    if kind == "bare" and (
        _VALUES.search(before) or (is_joined and not ends) or _OPERATOR.match(text, match.end()) is not None
    ):
        return None
    if is_offered:
        return Citation(*match.span(), numbers)
    closes = kind != "bare" or (not is_joined and (ends or _BEHIND_AN_END.search(before)))
    is_wrong = len(numbers) == 1 and 0 < numbers[0] <= _MOST and closes and not match["link"]
    return Citation(*match.span(), numbers, known=False) if is_wrong else None


def _skipped(text: str) -> Sequence[tuple[int, int]]:
    """Return the code, the formulas and the links in a text, in which no number cites."""
    found, end = list[tuple[int, int]](), 0
    for span in spans(text):
        end = span.end if span.kind == "code_block" else end
        if span.kind in _NO_CITATIONS and not span.text.startswith(("<sup", "</sup")):
            found.append((span.start, span.end))
        elif span.kind == "link":  # its text may be the number of a source
            found.append((span.start + 1, span.end))
    found += [match.span() for match in _TEX.finditer(text)]
    found += [fence.span()] if (fence := _OPEN_FENCE.search(text, end)) else []
    return sorted(found)


def without_citations(text: str) -> str:
    """Return a text without its citations, of whatever sources, and the blanks before them.

    >>> without_citations("Leaves are green[1, 7]. In R, this is x[9].")
    'Leaves are green. In R, this is x[9].'
    """
    for start, end, *_ in reversed(citations(text, range(1, _MOST + 1))):
        if _WORD.search(text, max(start - _CONTEXT, 0), start) or not text[start - 1 : start].isalnum():
            text = text[:start].rstrip(" \t") + text[end:]
    return text


def in_brackets(text: str, offered: Collection[int]) -> str:
    """Return a text in which all citations of sources that were offered have the form ``[1]``.

    >>> in_brackets("Green【1†leaf】, round¹.", {1})
    'Green[1], round[1].'
    """
    for start, end, numbers, known in reversed(citations(text, offered)):
        if known and not re.fullmatch(r"\[\d(?:[\d ,;–-]*\d)?\]", text[start:end]):
            text = f"{text[:start]}[{', '.join(map(str, numbers))}]{text[end:]}"
    return text


def _expanded(numbers: str) -> list[int]:
    """Return the numbers meant by ``1, 3-5``; a range that is reversed or too large stands for its two ends.

    >>> _expanded("1, 3-5"), _expanded("1-2000"), _expanded("1 and source 3")
    ([1, 3, 4, 5], [1, 2000], [1, 3])
    """
    found: list[int] = []
    for part in re.split(rf"[,;&˒]|\b(?:{_AND})\b| (?=\d+\Z)", numbers):
        ends = [int(n) for n in re.findall(r"\d+", part)]
        close = len(ends) == 2 and 0 <= ends[1] - ends[0] <= 20
        found += range(ends[0], ends[1] + 1) if close else ends
    return list(dict.fromkeys(found))
