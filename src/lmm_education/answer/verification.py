"""Verify an answer against its sources: search for each quotation, and compare each sentence that cites.

Failures are reported, never removed. A sentence is compared with the passages that it cites; one that cites none, with
those of its paragraph, of the line above its list, or of its section, and then only what contradicts them fails. What
another passage has is reported with its number. Whether a sentence follows from its sources, a comparison of words
cannot determine: a sentence that passes may still be wrong.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import shorten
from typing import Any, NamedTuple

from lmm.markdown.numbers import numbers_of, readable
from lmm.markdown.quotations import Quotation, blank_code, quotations_of, verify_quotations
from lmm.markdown.sentences import sentence_ends
from lmm_education.answer.citations import citations
from lmm_education.answer.comparison import (
    Discrepancy,
    Problem,
    calculated_numbers,
    compare,
    is_in_language,
    join_wrapped,
    read_sentence,
    read_source,
    sentence_ranges,
)
from lmm_education.material import Passage
from lmm_education.search.query import SearchNotice


class Claim(NamedTuple):
    """A sentence, its position in the answer, and the sources with which it was compared. If it fails, `problem` says
    how, `missing` what they lack, and `words` what the source `number` has. With the problem ``source``, it is a
    citation of a source that was not offered."""

    text: str
    start: int
    end: int
    sources: tuple[int, ...]
    problem: Problem = ""
    missing: tuple[str, ...] = ()
    number: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing an answer with its sources."""

    quotations: tuple[Quotation, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def failures(self) -> list[Failure]:
        """The quotations that were not found verbatim and the claims that fail, in the order of the text."""
        quotations = (each for each in self.quotations if each.found != "exact")
        claims = (each for each in self.claims if each.problem)
        return sorted((*quotations, *claims), key=lambda each: each.start)

    def as_json(self) -> dict[str, Any]:
        """Return all quotations and claims as plain values."""
        return {
            "quotations": [each._asdict() for each in self.quotations],
            "claims": [c._asdict() for c in self.claims],
        }


def verify(text: str, offered: Sequence[Passage], asked: str = "") -> Verification:
    """Compare an answer with the passages that the model was shown; quotations from the question are ignored.

    >>> from lmm_education.material import Lines, Location
    >>> leaf = Passage("1", Location("d", "a.md", Lines(1, 1)), "The first leaf has 12 veins.", number=1, language="en")
    >>> found = verify("It has 13 veins [1]; it says “the first leaf” is “green at all times”.", [leaf])
    >>> [(each.text, each.found) for each in found.quotations], [each.missing for each in found.claims]
    ([('the first leaf', 'exact'), ('green at all times', 'no')], [('13',)])
    """
    text = join_wrapped(text)
    quotations = tuple(each for each in checked_quotations(text, offered, asked) if each.source != 0)
    return Verification(quotations, tuple(_claims(text, quotations, offered, asked)))


def checked_quotations(text: str, offered: Iterable[Passage], asked: str) -> list[Quotation]:
    """Return the quotations in an answer, or in a block of it, as found in its sources; the question has number 0."""
    text = join_wrapped(text)
    if next(quotations_of(text), None) is None:
        return []
    sources = {passage.number: _searched(passage) for passage in offered}
    found = verify_quotations(text, sources | {0: asked})
    return [each for each in found if each.found == "exact" or not _quotes_nobody(text, each)]


_SAYS = re.compile(
    r"\b(?:sa(?:ys|y|id)|writes?|wrote|written|states?|stated|puts|notes?|noted|reads|quot\w+|according|claims?|explains?"
    r"|describes?|text|sources?|chapter|section|course|author|sagt|schreibt|schrieb|steht|heißt|laut|zitat\w*|dit|écrit"
    r"|selon|dice|escribe|según|scrive|secondo|zegt|schrijft|volgens)\b|:\s*$",
    re.IGNORECASE,
)
_FEW, _OWN_WORDS = 3, 8  # so many words, and no source for them, are the writer's own; more than eight never


def _quotes_nobody(text: str, quotation: Quotation) -> bool:
    """Return whether quotation marks only set a few words apart: nobody says them, and nothing is cited for them."""
    if text[quotation.start] == ">" or len(quotation.text.split()) > _OWN_WORDS:
        return False
    before = text[max(quotation.start - 80, 0) : quotation.start]
    *_, begin = (0, *(begin for _, begin in sentence_ends(before)))
    if _CALLS.search(before, begin):
        return True
    is_cited = _CITED.match(text, quotation.end) and (quotation.found == "near" or len(quotation.text.split()) > _FEW)
    return _SAYS.search(before, begin) is None and not is_cited


_CALLS = re.compile(
    r"\b(?:so-called|call(?:ed|s)?(?: it| this| that)?|ask(?:s|ed|ing)?(?: \w+)?|read\b.{0,40} as|think of .{0,40} as"
    r"|such as|imagine|in (?:other words|a word)|summed up as|sogenannte\w*|nenn\w*(?: man)?(?: gern)?|frag\w*)"
    r"[,:]?\s*(?:an? |the |eine? )?\Z",
    re.IGNORECASE,
)
_CITED = re.compile(r"[.,;]?\s*(?:\[|【|\(source)")


def without_quotations(text: str) -> str:
    """Return an earlier answer without its quotations, which would have to be found in the sources again.

    >>> without_quotations("They say “leaves are always blue”, in a word.")
    'They say , in a word.'
    """
    for each in sorted(quotations_of(text), key=lambda each: -each.start):
        text = text[: each.start] + text[each.end :]
    return text


Failure = Quotation | Claim


@lru_cache(maxsize=1024)  # a failure is shown in several places
def mark_of(failure: Failure) -> SearchNotice:
    """Return the mark that readers see after a failure.

    >>> mark_of(Quotation("a very green leaf", 0, 9, "near", 2, "a green leaf"))
    'source 2 has: “a green leaf”'
    """
    if isinstance(failure, Claim):
        number, differs = failure.number, bool(failure.words)
    else:
        number, differs = failure.source, failure.found == "near"
    if differs:
        words = _shortened(failure.words)
        return SearchNotice("quote_differs", "source {number} has: “{words}”", number=str(number), words=words)
    if isinstance(failure, Claim):
        code, template = _CLAIM_TEXTS[failure.problem]
        missing = _shortened(", ".join(failure.missing))
        return SearchNotice(code, template, words=missing, number=str(number))
    return SearchNotice("quote_missing", "not found in the sources")


_WORDS = 200  # characters of a source in a mark
_CLAIM_TEXTS = {
    "source": ("no_source", "no such source"),
    "numbers": ("claim_missing", "not in its source: {words}"),
    "names": ("claim_missing", "not in its source: {words}"),
    "calculation": ("claim_unequal", "the calculation does not equal {words}"),
    "elsewhere": ("claim_elsewhere", "source {number} has this"),
    "words": ("claim_foreign", "its source does not say this"),
}


def failure_text(failure: Failure) -> str:
    """Return a line with what was searched for, and what was found.

    >>> failure_text(Quotation("a  very green leaf", 0, 9))
    '“a very green leaf”: not found in the sources'
    """
    return f"“{_shortened(failure.text)}”: {mark_of(failure)}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else shorten(line, _WORDS, placeholder=" …")  # it takes 0.1 ms


def marked(text: str, failures: Sequence[Failure], show: Callable[[Failure], str]) -> str:
    """Return a text with `show` inserted after each failure; after a block quote, as a paragraph of its own.

    >>> marked("> An oak.\\n\\nWell.", [Quotation("An oak.", 0, 9)], mark_of)
    '> An oak.\\n>\\n> not found in the sources\\n\\nWell.'
    """
    parts, at = list[str](), 0
    for place, failure in sorted(((_end_in(text, each), each) for each in failures), key=lambda pair: pair[0]):
        is_block = isinstance(failure, Quotation) and text[failure.start : failure.end].lstrip().startswith(">")
        parts += [text[at:place], "\n>\n> " if is_block else " ", show(failure)]
        at = place
    return "".join([*parts, text[at:]])


def _end_in(text: str, failure: Failure) -> int:
    """Return the position of a failure's mark: for a sentence, after its last citation."""
    if isinstance(failure, Quotation):
        return failure.end
    cited = citations(failure.text, failure.sources)
    return failure.start + (cited[-1].end if cited else len(failure.text))


# -- sentences -------------------------------------------------------------------------------------


_LIST_NUMBER = re.compile(r"^[ \t>]*\d{1,9}[.)][ \t]", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t].*$", re.MULTILINE)
_PARTS = re.compile(r"\n[ \t]*(?:\n\s*|(?=(?:[-*+|]|\d{1,9}[.)])[ \t]?))")
_ITEM = re.compile(r"\s*(?:[-*+|]|\d{1,9}[.)])[ \t]?")
_RULE = re.compile(r"[\s|:=-]*")
_BEGIN = re.compile(r"[ \n](?:[\d$]|\w\b)")  # of a sentence after a citation, as none is found by its capital letter


def _claims(text: str, quotations: Sequence[Quotation], offered: Sequence[Passage], asked: str) -> Iterator[Claim]:
    """Iterate over the sentences, compared with their sources."""
    by_number = {passage.number: passage for passage in offered}
    every = citations(text, by_number)
    for start, end, _, known in every:
        if not known:
            yield Claim(text[start:end], start, end, (), "source")
    cited = {start: numbers for start, _, numbers, known in every if known}
    if not cited:
        return
    quoted = [(each.start, each.end) for each in quotations]
    wrong = [(each.start, each.end) for each in quotations if each.found != "exact"]
    marks = [match.span() for match in _LIST_NUMBER.finditer(text)]
    hidden = [*((each.start, each.end) for each in every), *wrong, *marks]
    plain, bare = _blanked(text, hidden), _blanked(blank_code(text), hidden)
    language = by_number[next(iter(cited.values()))[0]].language
    sources = {number: read_source(passage) for number, passage in by_number.items()}
    numbered = {id(source): number for number, source in sources.items()}
    speaks = is_in_language(bare, language, sources.values())
    blocks = {start for start, _ in quoted if text[start:].lstrip(" ").startswith(">")}
    headings = {match.start() for match in _HEADING.finditer(text)}
    places = _Citations(text, cited, sorted(headings))
    computed = [*calculated_numbers(text), *numbers_of(readable(asked))]
    numbered_items = {start for start, _ in marks}
    begins = {
        end
        for start, end, _, _ in every
        if text[max(start - 3, 0) : start].rstrip().endswith(".") and _BEGIN.match(text, end)
    }
    for start, end in sentence_ranges(bare, blocks | numbered_items | begins):
        claim_text = text[start:end].strip()
        is_number = start in numbered_items and not bare[start:end].strip()
        if start in headings or is_number or _RULE.fullmatch(text[start:end]):
            continue
        numbers, is_own = places.of(start, end)
        near = [sources[number] for number in numbers]
        others = [source for number, source in sources.items() if number not in numbers]
        within = [each for each in quotations if start <= each.start < end]
        misattributed = [*_misattributed(text, within, numbers, by_number)] if is_own else []
        yield from misattributed
        sentence = read_sentence(plain[start:end], language, bare[start:end])
        sentence = sentence._replace(names=tuple(name for name in sentence.names if name not in asked))
        found = compare(sentence, near, others, is_own=is_own, speaks=speaks, known=computed, quotes=bool(within))
        if misattributed and found.problem == "elsewhere":
            found = Discrepancy()
        start = text.index(claim_text, start)
        number = numbered.get(id(found.source))
        yield Claim(
            claim_text, start, start + len(claim_text), numbers, found.problem, found.missing, number, found.words
        )


def _misattributed(
    text: str, quotations: Iterable[Quotation], numbers: Sequence[int], by_number: Mapping[int, Passage]
) -> Iterator[Claim]:
    """Iterate over quotations that stand in another source than those that their sentence cites."""
    for each in quotations:
        if each.found != "exact" or each.source in numbers:
            continue
        quoted_text = text[each.start : each.end]
        found = verify_quotations(quoted_text, {number: _searched(by_number[number]) for number in numbers})
        if any(one.found != "exact" for one in found):
            yield Claim(quoted_text, each.start, each.end, tuple(numbers), "elsewhere", (), each.source)


def _searched(passage: Passage) -> str:
    """Return the text of a passage in which quotations are searched for."""
    return join_wrapped(f"{passage.path}\n\n{passage.with_above}")


def _blanked(text: str, hidden: Iterable[tuple[int, int]]) -> str:
    letters = list(text)
    for start, end in hidden:
        letters[start:end] = ["\n" if letter == "\n" else " " for letter in letters[start:end]]
    return "".join(letters)


@dataclass(slots=True)
class _Citations:
    """The citations in a text by their positions, and where its parts and its sections begin."""

    text: str
    cited: Mapping[int, tuple[int, ...]]  # in order
    headings: Sequence[int]
    places: Sequence[int] = ()
    parts: Sequence[int] = ()
    leads: Sequence[int] = ()  # of each part: itself, or the line above its list

    def __post_init__(self) -> None:
        self.places = list(self.cited)
        self.parts = [0, *(match.end() for match in _PARTS.finditer(self.text)), len(self.text) + 1]
        leads = list[int]()
        for at, begin in enumerate(self.parts[:-1]):
            leads.append(leads[-1] if at and _ITEM.match(self.text, begin) else at)
        self.leads = leads

    def of(self, start: int, end: int) -> tuple[tuple[int, ...], bool]:
        """Return the sources of a sentence, and whether it cites them itself: else those of its paragraph, item or row;
        of the line above its list; of its section; of the whole text."""
        if numbers := self._within(start, end):
            return numbers, True
        parts, at = self.parts, bisect_right(self.parts, start) - 1
        ranges = [(parts[each], parts[each + 1]) for each in (at, self.leads[at])]
        section = bisect_right(self.headings, start)
        edges = [0, *self.headings, len(self.text)]
        ranges += [(edges[section], edges[section + 1]), (0, len(self.text))]
        return next(numbers for each in ranges if (numbers := self._within(*each))), False

    def _within(self, start: int, end: int) -> tuple[int, ...]:
        within = self.places[bisect_left(self.places, start) : bisect_left(self.places, end)]
        return tuple(dict.fromkeys(number for at in within for number in self.cited[at]))
