"""Verify an answer against its sources: search for each quotation, and compare each sentence that cites.

Failures are reported, never removed. A sentence fails if its sources lack a number or a name in it, say the opposite in
nearly the same words, or share hardly any words with it. It is compared with the passages that it cites and with others
of their documents that the model was shown. Whether it follows from them, a comparison of words cannot determine: a
sentence that passes may still be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from textwrap import shorten
from typing import Any, Literal, NamedTuple

from lmm.markdown import prose_of
from lmm.markdown.parse_markdown import unclosed_construct
from lmm.markdown.quotations import CLOSING_MARKS, Quotation, blank_code, quotations_of, verify_quotations
from lmm.markdown.sentences import LETTERS, sentence_ends
from lmm.messages import TextDelta
from lmm_education.answer.citations import citations
from lmm_education.answer.negations import NEGATIONS
from lmm_education.encode.bm25 import LANGUAGES, word_id
from lmm_education.material import KEPT_PASSAGES, Passage
from lmm_education.search.query import SearchNotice

Problem = Literal["", "source", "numbers", "names", "negation", "words"]


class Claim(NamedTuple):
    """A sentence that cites `sources`, and its position in the answer. If it fails, `problem` says how, and `missing`
    what was not found. With the problem ``source``, it is a citation of a source that was not offered."""

    text: str
    start: int
    end: int
    sources: tuple[int, ...]
    problem: Problem = ""
    missing: tuple[str, ...] = ()


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
    >>> found = verify("It has 13 veins [1]; “the first leaf” is “green at all times”.", [leaf])
    >>> [(each.text, each.found) for each in found.quotations], [each.missing for each in found.claims]
    ([('the first leaf', 'exact'), ('green at all times', 'no')], [('13',)])
    """
    quotations = tuple(each for each in _quotations(text, offered, asked) if each.source != 0)
    return Verification(quotations, tuple(_claims(text, quotations, offered)))


def _quotations(text: str, offered: Iterable[Passage], asked: str) -> list[Quotation]:
    """Return the quotations in a text, searched for in its sources; the question has the number 0."""
    if next(quotations_of(text), None) is None:
        return []
    sources = {passage.number: f"{passage.path}\n\n{passage.with_above}" for passage in offered}
    return verify_quotations(text, sources | {0: asked})


def without_quotations(text: str) -> str:
    """Return an earlier answer without its quotations, which would have to be found in the sources again.

    >>> without_quotations("They say “leaves are always blue”, in a word.")
    'They say , in a word.'
    """
    for each in sorted(quotations_of(text), key=lambda each: -each.start):
        text = text[: each.start] + text[each.end :]
    return text


Failure = Quotation | Claim


def mark_of(failure: Failure) -> SearchNotice:
    """Return the mark that readers see after a failure.

    >>> mark_of(Quotation("a very green leaf", 0, 9, "near", 2, "a green leaf"))
    'source 2 has: “a green leaf”'
    """
    words = shorten(
        failure.words if isinstance(failure, Quotation) else ", ".join(failure.missing), _WORDS, placeholder=" …"
    )
    if isinstance(failure, Claim):
        code, template = _CLAIM_TEXTS[failure.problem]
        return SearchNotice(code, template, words=words)
    if failure.found == "near":
        return SearchNotice("quote_differs", "source {number} has: “{words}”", number=str(failure.source), words=words)
    return SearchNotice("quote_missing", "not found in the sources")


_WORDS = 200  # characters of a source in a mark
_CLAIM_TEXTS = {
    "source": ("no_source", "no such source"),
    "numbers": ("claim_missing", "not in its source: {words}"),
    "names": ("claim_missing", "not in its source: {words}"),
    "negation": ("claim_opposite", "its source says: “{words}”"),
    "words": ("claim_foreign", "its source does not say this"),
}


def failure_text(failure: Failure) -> str:
    """Return a line with what was searched for, and what was found.

    >>> failure_text(Quotation("a  very green leaf", 0, 9))
    '“a very green leaf”: not found in the sources'
    """
    return f"“{shorten(failure.text, _WORDS, placeholder=' …')}”: {mark_of(failure)}"


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


# -- streaming -------------------------------------------------------------------------------------


_LONGEST = 8_000  # characters of a paragraph whose quotations are searched for before it ends


@dataclass(slots=True)
class QuotationStream:
    """Verifies the quotations of an answer while it arrives, in `offered`, which may grow.

    >>> stream = QuotationStream((), "")
    >>> [each.text for each in [*stream.feed("It is “green at"), *stream.feed(" all times”, or"), *stream.finish()]]
    ['It is “green at', ' all times”', 'green at all times', ', or']
    """

    offered: Iterable[Passage]
    asked: str
    _open: str = ""  # from the beginning of the current block
    _before: int = 0  # characters before it
    _reported: int = 0  # end of the last quotation that was reported

    def feed(self, piece: str) -> Iterator[TextDelta | Quotation]:
        """Iterate over the piece, with each quotation that was not found verbatim inserted after its end."""
        given = len(self._open)
        self._open += piece
        edge = self._open[max(given - 2, 0) :]
        if len(self._open) < _LONGEST and any(mark in edge for mark in (*CLOSING_MARKS, "\n")):
            for quotation in self._ended():
                end = max(quotation.end - self._before, given)
                if end > given:
                    yield TextDelta(self._open[given:end])
                given = end
                yield quotation
        if given < len(self._open):
            yield TextDelta(self._open[given:])
        end = self._open.rfind("\n\n") + 2 if "\n" in edge else 0
        if end > 1 and unclosed_construct(self._open[:end]) is None:
            self._open, self._before = self._open[end:], self._before + end

    def finish(self) -> Iterator[Quotation]:
        """Iterate over the quotations that end with the answer."""
        yield from self._ended(whole=True)

    def _ended(self, *, whole: bool = False) -> Iterator[Quotation]:
        """Iterate over the failed quotations that were not reported yet, once their end is certain."""
        for each in _quotations(self._open, self.offered, self.asked):
            rest, is_block = self._open[each.end :], self._open[each.start :].lstrip().startswith(">")
            over = whole or bool(rest.strip() and not rest.lstrip().startswith(">") if is_block else rest)
            if over and each.found != "exact" and self._before + each.end > self._reported:
                self._reported = self._before + each.end
                yield each._replace(start=self._before + each.start, end=self._reported)


# -- cited sentences -------------------------------------------------------------------------------


_NEXT = re.compile(r"\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)])[ \t]?)")
_LIST_NUMBER = re.compile(r"^[ \t>]*\d{1,9}[.)][ \t]", re.MULTILINE)


def _claims(text: str, quotations: Sequence[Quotation], offered: Sequence[Passage]) -> Iterator[Claim]:
    """Iterate over the sentences that cite, compared with the sources that they cite."""
    by_number = {passage.number: passage for passage in offered}
    every = citations(text, by_number)
    for start, end, _, known in every:
        if not known:
            yield Claim(text[start:end], start, end, (), "source")
    cited = [(start, end, numbers) for start, end, numbers, known in every if known]
    if not cited:
        return
    quoted = [(each.start, each.end) for each in quotations]
    items = [match.span() for match in _LIST_NUMBER.finditer(text)]
    letters = list(blank_code(text))
    for start, end in [*((start, end) for start, end, _ in cited), *quoted, *items]:
        letters[start:end] = ["\n" if letter == "\n" else " " for letter in letters[start:end]]
    bare = "".join(letters)
    blocks = {start for start, _ in quoted if text[start:].lstrip(" ").startswith(">")}
    for start, end in _sentences(bare, blocks):
        numbers = dict.fromkeys(n for at, _, numbers in cited if start <= at < end for n in numbers)
        if numbers:
            compared = _compared(bare[start:end], [by_number[number] for number in numbers], offered, bare)
            said = text[start:end].strip()
            start = text.index(said, start)
            yield Claim(said, start, start + len(said), tuple(numbers), *compared)


def _sentences(text: str, begins: Set[int] = frozenset()) -> Iterator[tuple[int, int]]:
    """Iterate over the start and end of sentences, items and rows; `begins` are additional starts."""
    places = {0, *begins, len(text)}
    for start, end in pairwise([0, *(match.end() for match in _NEXT.finditer(text)), len(text)]):
        places.update((start, *(start + begin for _, begin in sentence_ends(text[start:end]))))
    yield from pairwise(sorted(places))


_FEWEST, _SHARE = 6, 0.25
"""A sentence with at least so many content words fails if its sources contain less than this share of them."""
_ALIKE, _SAME = 0.7, 0.8
"""The share of common content words above which a sentence repeats another, and above which it agrees or disagrees."""
_HALF_NEGATED = re.compile(
    r"\b(?:lack|fail|miss|unlike|rather|instead|except|unable|imposs|hardly|only|but|statt|außer|sondern|nur|kaum)\w*",
    re.IGNORECASE,
)
"""Words with which a sentence may express a negation without *not*."""
Compared = tuple[Problem, tuple[str, ...]]


def _compared(sentence: str, cited: Sequence[Passage], offered: Sequence[Passage], answer: str) -> Compared:
    """Return what is missing from the sources of a sentence."""
    documents, language = {passage.place.document for passage in cited}, cited[0].language
    near = [*cited, *(each for each in offered if each.place.document in documents and each not in cited)]
    sources = [_read(f"{each.path}.\n\n{each.with_above}") for each in near]
    said = _sentence(sentence)
    alike = [each for source in sources for each in source.alike(said)]
    if missing := _missing_numbers(list(_numbers(sentence)), sources, alike):
        return "numbers", missing
    if not _is_in_language(answer, language):
        return "", ()
    if language != "de" and (missing := _missing_names(said, sources, alike)):
        return "names", missing
    if missing := _opposite(sentence, alike, language):
        return "negation", missing
    foreign = sorted(word for word in said.words if not any(word in source.stems for source in sources))
    few = len(said.words) >= _FEWEST and len(said.words) - len(foreign) < _SHARE * len(said.words)
    return ("words", tuple(foreign)) if few else ("", ())


def _missing_numbers(said: Sequence[_Number], sources: Sequence[_Source], alike: Sequence[_Alike]) -> tuple[str, ...]:
    """Return the numbers that no source has, or that replace another one in a repeated sentence. A small number may
    count the items of a list in a source: it is missing only if a source gives another number for the same thing."""
    missing = []
    replaced = said and any(_values(_numbers(each.text)) - _values(said) for each in alike)
    around = [_values(_numbers(each.around)) for each in alike] if replaced else []
    for number in said:
        counts = {value for source in sources for value in source.counts.get(number.counted, ())}
        if number.values <= _COUNTS:
            is_missing = bool(counts) and not counts & number.values
        else:
            is_missing = not any(number.values & source.numbers for source in sources)
        if is_missing or (replaced and not any(number.values & values for values in around)):
            missing.append(number.text)
    return tuple(dict.fromkeys(missing))


def _missing_names(said: _Sentence, sources: Sequence[_Source], alike: Sequence[_Alike]) -> tuple[str, ...]:
    """Return the names that no source has, or that replace another one in a repeated sentence."""
    names = dict.fromkeys(_names(said.text))
    replaced = names and any(_stems(_names(each.text)) - said.words for each in alike)
    near = _stems(word for each in alike for word in LETTERS.findall(each.around)) if replaced else frozenset()
    there = frozenset[str]().union(*(source.stems for source in sources))
    return tuple(name for name in names if (replaced and _stem(name) not in near) or _stem(name) not in there)


def _opposite(said: str, alike: Sequence[_Alike], language: str) -> tuple[str, ...]:
    """Return the sentence of the sources that says the opposite in nearly the same words, if none says the same."""
    if language not in NEGATIONS:
        return ()
    negation = re.compile(rf"\b(?:{NEGATIONS[language]})\b", re.IGNORECASE)
    same = [each.text for each in alike if each.common >= _SAME]
    if not same or any(map(_HALF_NEGATED.search, (said, *same))):
        return ()
    denies = negation.search(said) is None
    return () if any((negation.search(text) is None) == denies for text in same) else (" ".join(same[0].split()),)


@lru_cache(maxsize=KEPT_PASSAGES)
def _is_stop_word(word: str, language: str) -> bool:
    return word_id(word, language) is None


@lru_cache(maxsize=64)
def _is_in_language(text: str, language: str) -> bool:
    """Return whether a text is certainly in this language: a fifth of its words are stop words."""
    words = LETTERS.findall(text.casefold())[:200]
    return language in LANGUAGES and sum(_is_stop_word(word, language) for word in words) > len(words) / 5


# -- words and sentences ---------------------------------------------------------------------------


_NAME = re.compile(r"(?<=[a-zß-ÿ0-9,)] )[A-ZÀ-Þ][^\W\d_]+")
_NO_NAMES = ("Section", "Chapter", "Figure", "Table", "Source", "Sources", "Example", "Exercise", "Part", "Step")
_STEM = 6  # compared letters of a word


class _Sentence(NamedTuple):
    """A sentence and the words by which it is recognized."""

    text: str
    words: frozenset[str]


def _sentence(text: str) -> _Sentence:
    return _Sentence(text, _stems(word for word in LETTERS.findall(text) if len(word) > 3))


class _Alike(NamedTuple):
    """A sentence of a source, the share of common words, and the sentence with its neighbours."""

    common: float
    text: str
    around: str


class _Source(NamedTuple):
    """A source: its sentences, its words and numbers, and the numbers before each counted thing."""

    sentences: tuple[_Sentence, ...]
    stems: frozenset[str]
    numbers: frozenset[str]
    counts: dict[str, set[str]]

    def alike(self, said: _Sentence) -> Iterator[_Alike]:
        """Iterate over the sentences with nearly the same words."""
        for at, (text, words) in enumerate(self.sentences):
            common = len(said.words & words) / max(len(said.words), len(words), 1)
            if len(said.words) >= 3 and common >= _ALIKE:
                around = self.sentences[max(at - 1, 0) : at + 2]
                yield _Alike(common, text, "\n".join(each.text for each in around))


@lru_cache(maxsize=KEPT_PASSAGES // 4)
def _read(text: str) -> _Source:
    prose, numbers, counts = prose_of(text), list(_numbers(text)), dict[str, set[str]]()
    for number in numbers:
        if number.counted:
            counts.setdefault(number.counted, set()).update(number.values)
    sentences = tuple(_sentence(prose[start:end]) for start, end in _sentences(prose))
    return _Source(sentences, _stems(LETTERS.findall(text)), _values(numbers), counts)


def _names(text: str) -> Iterator[str]:
    return (name for name in _NAME.findall(text) if name not in _NO_NAMES)


def _stem(word: str) -> str:
    return word.casefold()[:_STEM]


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset([word.casefold()[:_STEM] for word in words])


# -- numbers ---------------------------------------------------------------------------------------


_SMALL = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn",
)
_TENS = ("twenty thirty forty fifty sixty seventy eighty ninety hundred",
         "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert")  # fmt: skip
_IN_WORDS = {
    **{word: str(value) for words in _TENS for value, word in zip(range(20, 110, 10), words.split(), strict=True)},
    **{word: str(value) for words in _SMALL for value, word in enumerate(words.split(), 1)},
}
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "tausend": 3, "millionen": 6, "milliarden": 9}
_REFERENCE = r"(?:section|chapter|figure|table|step|source|part|example|exercise|abschnitt|kapitel|abbildung|schritt)s?"
_NUMBER = re.compile(
    rf"(?P<reference>\b{_REFERENCE}\s+[\d.]+)|(?<![\w.,])(?P<number>\d{{1,3}}(?:[ \u00a0\u202f'’]\d{{3}})+(?!\d)"
    rf"|\d+(?:[.,]\d+)*|\b(?:{'|'.join(_IN_WORDS)})\b)(?:(?P<ordinal>st|nd|rd|th)\b)?"
    rf"(?:[ \u00a0-](?P<scale>{'|'.join(_SCALES)})\b)?(?:[ \u00a0-](?P<counted>[^\W\d_]+))?",
    re.IGNORECASE,
)
_COUNTS = frozenset(map(str, range(10)))


class _Number(NamedTuple):
    """A number as written, its possible values, and the stem of the word after it."""

    text: str
    values: frozenset[str]
    counted: str


def _numbers(text: str) -> Iterator[_Number]:
    """Iterate over the numbers in a text that are not references.

    >>> [(each.text, sorted(each.values)) for each in _numbers("1,000 oaks, 12.50 m, three million (see chapter 4)")]
    [('1,000', ['1', '1000']), ('12.50', ['12.5']), ('three million', ['3', '3000000'])]
    """
    for match in _NUMBER.finditer(text):
        if match["number"] is None or match["ordinal"]:
            continue
        values = frozenset(_readings(match["number"].casefold()))
        if scale := _SCALES.get((match["scale"] or "").casefold()):
            values |= {_plain(str(Decimal(value).scaleb(scale))) for value in values}
        written = text[match.start("number") : match.end("scale") if match["scale"] else match.end("number")]
        yield _Number(written, values, _stem(match["counted"] or ""))


def _values(numbers: Iterable[_Number]) -> frozenset[str]:
    return frozenset[str]().union(*(number.values for number in numbers))


def _readings(number: str) -> Iterator[str]:
    """Iterate over the possible values of a number: commas and points may separate thousands or decimals."""
    number = _IN_WORDS.get(number, re.sub(r"[ \u00a0\u202f'’]", "", number))
    *whole, last = re.split(r"[.,]", number)
    if not whole:
        yield _plain(number)
        return
    if len(last) == 3 and all(len(part) == 3 for part in whole[1:]) and len(whole[0]) <= 3:
        yield _plain("".join([*whole, last]))
    if len(whole) == 1 or all(len(part) == 3 for part in whole[1:]):
        yield _plain(f"{''.join(whole)}.{last}")
    else:  # a version, a date
        yield number


def _plain(number: str) -> str:
    """Return a number without insignificant zeros."""
    return f"{Decimal(number).normalize():f}"
