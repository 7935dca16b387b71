"""Compare a sentence of an answer with its sources: numbers, units, formulas and code, names, and what it denies.

Words are compared by their stems, as BM25 does. A sentence contradicts a source that says nearly the same with another
number, unit or sign, with a word more or less denied, or with the opposite word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Literal, NamedTuple

from lmm.markdown import Span, prose_of, replace_spans, spans
from lmm.markdown.numbers import (
    Number,
    NumberIndex,
    calculated,
    has_other_unit,
    is_computed,
    is_difference,
    is_factor,
    is_stated,
    numbers_of,
    readable,
    unit_of,
    value_of,
    with_units,
)
from lmm.markdown.quotations import Index, index_of, nearest
from lmm.markdown.sentences import CLOSERS, LETTERS, sentence_ends
from lmm_education.answer.languages import any_of, by_language
from lmm_education.encode.bm25 import LANGUAGES, word_id
from lmm_education.material import KEPT_PASSAGES, Passage

Problem = Literal["", "source", "numbers", "units", "calculation", "formula", "names", "negation", "elsewhere", "words"]
Key = int | str


class Discrepancy(NamedTuple):
    """What is wrong with a sentence: what is `missing` from its sources, or the `words` of a `source`."""

    problem: Problem = ""
    missing: tuple[str, ...] = ()
    source: Source | None = None
    words: str = ""


# -- reading ---------------------------------------------------------------------------------------

_NAME = re.compile(r"(?<=[a-zß-ÿ0-9,)] )[A-ZÀ-Þ][^\W\d_]+")
_NO_NAMES = ("Section", "Chapter", "Figure", "Table", "Source", "Sources", "Example", "Exercise", "Part", "Step",
             "Celsius", "Fahrenheit", "English")  # fmt: skip
_TOKEN = re.compile(r"\\[a-zA-Z]+|\d+(?:[.,]\d+)*|[^\W\d_]+|[^\s\w{}$`&~*]")
_QUOTED = re.compile(r"^ {0,3}>[ \t]?", re.MULTILINE)
_SPACING = re.compile(r"\\(?:left|right|mathrm|text|quad|qquad|tfrac|dfrac|[,;!:])(?![a-zA-Z])")
_WORD_OR_END = re.compile(r"[^\W\d_]+(?:['’]\w+)?|[,;:()!?|—–]")
_ASIDE = re.compile(r"\(([^()]{1,200})\)")
_RAISED_PART = re.compile(r"\^((?:[^\s^\\{}]|\\ ){1,40})\^")  # as Pandoc writes it
_VALUE = re.compile(
    r"\$*\s*(?:\\?[^\W\d]{0,12}(?:[\^_]\{?\w+\}?)?\s*=\s*)?[-−]?\d[\d.,_]*\s*"
    r"(?:\\?%|(?P<unit>[°µ]?[^\W\d_]{1,4})(?:\^?[23])?(?:/[^\W\d_]{1,3})?)?\s*\$*"
)
_TEX_UNIT = re.compile(r"\\(?:[,;: ]|quad\b|(?:mathrm|text(?:rm)?)\s*\{([^{}]{1,20})\})|~")


class Clause(NamedTuple):
    """The words of a clause, each with the sign −1 if a prefix denies it (*unstable*), whether it denies them in all,
    and the words after its negation. A `half` one, such as a condition, is not compared."""

    words: Mapping[Key, int]
    denies: bool = False
    focus: frozenset[Key] = frozenset()
    half: bool = False


class Statement(NamedTuple):
    """A sentence as it is compared. `operands` are the numbers that it calculates with, `formulas` the tokens of its
    formulas and its code, `wrong` and `results` the wrong and right results of calculations; `prose` is its text in a
    `language`."""

    text: str
    words: frozenset[Key]
    prose: str
    language: str
    numbers: tuple[Number, ...]
    operands: tuple[Number, ...] = ()
    names: tuple[str, ...] = ()
    formulas: tuple[tuple[str, ...], ...] = ()
    wrong: tuple[str, ...] = ()
    results: tuple[Number, ...] = ()

    @property
    def is_question(self) -> bool:
        """Whether it asks, and says nothing."""
        return self.text.rstrip(f" \n{CLOSERS}").endswith(("?", "？"))

    @property
    def computes(self) -> bool:
        """Whether it shows a calculation, or has a word for one: *total*, *more*, *each*."""
        return bool(self.operands) or _computes(self.prose)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Its clauses; most sentences are compared by their words alone, and never read so far."""
        return _clauses(self.prose, self.language)


@lru_cache(maxsize=200_000)
def _key(word: str, language: str) -> Key | None:
    """Return by what a word is compared; None for a stop word."""
    word = word.casefold()
    if word in _degrees():
        return word
    return word_id(word, language)


def _keys(text: str, language: str) -> frozenset[Key]:
    return frozenset(key for word in LETTERS.findall(text) if (key := _key(word, language)) is not None)


@lru_cache(maxsize=1)
def _degrees() -> dict[str, set[str]]:
    found = dict[str, set[str]]()
    pairs = (pair for each in by_language().values() for pair in each.get("degrees", {}).items())
    for one, others in pairs:
        for other in others.split():
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
    return found


@lru_cache(maxsize=16)
def _opposites(language: str) -> dict[Key, set[Key]]:
    found = dict[Key, set[Key]]()
    own = by_language().get(language, {})
    for pair in filter(None, own.get("pairs", "").split("|")):
        one, other = pair.split()
        for ending in ("", *own.get("degrees_of_adjectives", ())):
            keys = [_key(_with_ending(word, ending), language) or word for word in (one, other)]
            found.setdefault(keys[0], set()).add(keys[1])
            found.setdefault(keys[1], set()).add(keys[0])
    for word, others in _degrees().items():
        found.setdefault(word, set()).update(others)
    return found


def _with_ending(word: str, ending: str) -> str:
    """Return a form of an adjective: *larger*, *drier*, *bigger*."""
    if not ending:
        return word
    word = word[:-1] if word.endswith("e") else f"{word[:-1]}i" if word.endswith("y") else word
    doubled = re.search(r"[^aeiou][aeiou][bdgnt]\Z", word)
    return f"{word}{word[-1] if doubled else ''}{ending}"


@lru_cache(maxsize=16)
def _grammar(language: str) -> re.Pattern[str]:
    own = by_language().get(language, {})
    roles = {
        "all": any_of("conditions"),
        "half": rf"(?:{any_of('half')})\w*",
        "no": any_of("determiners"),
        "not": own.get("negations", "(?!)"),
        "and": own.get("clauses", "(?!)"),
        "if": any_of("if"),
    }
    return re.compile(rf"(?:{'|'.join(f'(?P<{role}>{form})' for role, form in roles.items())})\Z", re.IGNORECASE)


@lru_cache(maxsize=50_000)
def _role(word: str, language: str) -> str:
    """Return what a word is for the grammar; the empty string for other words."""
    role = _grammar(language).match(word)
    return (role.lastgroup or "") if role else "" if word[0].isalpha() else "and"


_PREFIX = re.compile(
    r"(?:un|non|dis|im(?=[mp])|il(?=l)|ir(?=r)|in(?=\w+(?:[ai]ble|[ae]nt|[ai]te|ive?|il|al|ar|ct|id|ous)(?:ly|e[mnrs]?)?\Z))(\w{4,})"
)
_NO_NEGATION = re.compile(r"\W+(?:only|just|merely|even|nur|bloß|allein|seulement|solo|sólo|alleen)\b", re.IGNORECASE)
_NOT_QUITE = re.compile(
    r"\W+(?:\w+ as|quite|necessarily|always|all|every|as|so|that|more|less|fewer|longer|have to|need|mehr"
    r"|ganz|immer|alle)\b",
    re.IGNORECASE,
)
_TO = re.compile(r"[^,;:]{1,60}\b(?:to|for)\b")  # too fast to be seen
_MOST_CLAUSES = 32  # of a sentence; each is compared with each
_OR_NOT = re.compile(r"\b(?:(?:can|may|should|will|do|does|is|are|whether) and|or|oder|ou) (?:\w+ )?\Z")


@lru_cache(maxsize=50_000)
def _signed(word: str, language: str) -> tuple[Key, int] | None:
    """Return by what a word is compared, and its sign: *unstable* is compared by *stable*, with −1."""
    word = word.casefold()
    key = _key(word, language) or (word if word in _opposites(language) else None)
    denied = _PREFIX.match(word)
    base = _key(denied[1], language) if denied else None
    return None if key is None else (key, 1) if base is None else (base, -1)


@lru_cache(maxsize=20_000)
def _clauses(text: str, language: str) -> tuple[Clause, ...]:
    """Divide a sentence into clauses. What two negations in a clause say is left open, but where both are one."""
    found, signs, vague, concord = (
        list[Clause](),
        dict[Key, int](),
        False,
        by_language().get(language, {}).get("concord"),
    )
    words, focus, denies, half, wait = dict[Key, int](), set[Key](), False, False, 0
    text = "; ".join([_ASIDE.sub(" ", text), *_ASIDE.findall(text)])  # what is in brackets parts no clause
    for match in [*_WORD_OR_END.finditer(text), None]:
        kind = _role(match[0], language) if match else "and"
        if match is None or kind in ("and", "if"):
            if words:
                is_brief = denies and not focus and len(words) == 1  # the other one does not
                found.append(Clause(words, denies, frozenset(focus or [[*words][-1]]), half or is_brief))
                words, focus, denies, wait = {}, set(), False, 0
            half = kind == "if"
        elif kind in ("not", "no"):
            is_said = kind == "no" and text.startswith(",", match.end())  # No, it is not.
            if is_said or text.startswith("`", match.start() - 1) or _NO_NEGATION.match(text, match.end()):
                continue
            is_first = kind == "not" and LETTERS.search(text, 0, match.start()) is None  # Not this, but that
            half = half or is_first or (denies and not concord) or _NOT_QUITE.match(text, match.end()) is not None
            half = half or _OR_NOT.search(text, max(match.start() - 20, 0), match.start()) is not None
            denies, wait = True, 1 if kind == "not" else 2
        elif kind in ("half", "all") or (match[0] == "too" and _TO.search(text, match.end())):
            half, vague = True, vague or kind == "all" or (match[0] in ("Without", "Ohne") and not words)
        elif signed := _signed(match[0], language):
            key, sign = signed
            words[key] = sign
            signs[key] = sign if signs.get(key, sign) == sign else 0  # both are said: signed and unsigned
            focus |= {key} if wait > 0 else set()
            wait -= 1
        elif denies and match[0].casefold() in ("or", "oder", "ou"):
            wait = 1
    return tuple(
        each._replace(words={word: signs[word] for word in each.words}, half=vague or each.half)
        for each in found[:_MOST_CLAUSES]
    )


_MAY_HOLD = re.compile(r"[`$\\~<]|^(?:\t| {4})", re.MULTILINE)
"""What code and formulas begin with: most sentences hold none, and need no reading for them."""


_FORMAL = ("code", "math", "code_block")


def read_sentence(text: str, language: str, bare: str = "") -> Statement:
    """Read a sentence; `bare` is the same without code and formulas, which hold no names."""
    formulas = list[tuple[str, ...]]()

    def visible(span: Span) -> str | None:
        """Keep inline code, and formulas that only give a value."""
        if span.kind == "html":  # a tag is no word, and <sup> a power
            return None if span.text.startswith(("<sup", "</sup")) else " "
        if span.kind not in _FORMAL:
            return None
        lines = span.text.splitlines() if span.kind == "code_block" else []
        formulas.extend(map(_tokens, [*lines, span.text] if len(lines) != 1 else lines))
        return None if span.kind == "code" else _as_value(span)

    has_markup = _MAY_HOLD.search(text) is not None
    plain = readable(replace_spans(text, visible) if has_markup else text)
    counted = (found := calculated(plain)).rest
    if has_markup:
        found = calculated(readable(text))
        counted = replace_spans(counted, lambda span: _as_value(span) if span.kind in _FORMAL else None)
    operands = [each for each in found.operands if not is_factor(each)]
    words = _keys(plain, language)
    prose = readable(bare or plain)
    names = tuple(
        match[0]
        for match in _NAME.finditer(prose)
        if match[0] not in _NO_NAMES and not (prose[match.start() - 2].isdigit() and unit_of(match[0]))
    )
    used = tuple(number for each in operands for number in numbers_of(each))
    return Statement(
        text, words, plain, language, tuple(numbers_of(counted)), used, names, tuple(formulas), tuple(found.wrong),
        tuple(found.results),
    )  # fmt: skip


def _as_value(span: Span) -> str | None:
    """Return the number that a formula consists of, perhaps with a name before it and a unit; None for such code, which
    stays as it is, and a blank for others."""
    text = _TEX_UNIT.sub(r" \1", span.text).strip("$ ")
    found = _VALUE.fullmatch(text)
    if not found or (found["unit"] and not unit_of(found["unit"])):
        return " "
    return None if span.kind == "code" else text


def calculated_numbers(text: str) -> list[Number]:
    """Return the results of the calculations that an answer shows, and the values of its formulas."""
    known = calculated(readable(text)).results
    values = (value_of(span.text) for span in spans(text) if span.kind == "math") if "$" in text or "\\" in text else ()
    return known + [number for value in values if value is not None for number in numbers_of(f"{value:f}")]


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(each.casefold() for each in _TOKEN.findall(_as_formula(text)))


def _as_formula(text: str) -> str:
    return _SPACING.sub(" ", _RAISED_PART.sub(r"^\1", readable(text)).replace("−", "-").replace("\\ ", " "))


@dataclass(eq=False)
class Source:
    """A passage as it is compared. It is read as far as it is needed: most passages that an answer does not cite have
    too few of its words."""

    text: str
    language: str

    @cached_property
    def words(self) -> frozenset[Key]:
        """What its words are compared by."""
        return _keys(readable(self.text), self.language)

    @cached_property
    def sentences(self) -> Sequence[Statement]:
        """Its sentences."""
        prose = prose_of(self.text)
        return [read_sentence(prose[start:end], self.language) for start, end in sentence_ranges(prose)]

    @cached_property
    def numbers(self) -> NumberIndex:
        """The numbers in the text, and in its sentences, which join lines."""
        joined = (number for sentence in self.sentences for number in sentence.numbers)
        return NumberIndex([*numbers_of(readable(self.text)), *joined])

    @cached_property
    def formula(self) -> str:
        """Its text as formulas and code are compared with it."""
        return _as_formula(self.text)

    @cached_property
    def tokens(self) -> Index:
        """The tokens of `formula`."""
        return index_of(_TOKEN.finditer(self.formula))

    @cached_property
    def joined_tokens(self) -> str:
        """The same, with blanks around each."""
        return f" {' '.join(self.tokens.words)} "

    def common(self, claim: Statement) -> list[tuple[float, Statement]]:
        """Return the share of a sentence's words that each sentence has, the largest first."""
        size = max(len(claim.words), 1)
        shares = ((len(claim.words & each.words) / size, each) for each in self.sentences)
        return sorted(shares, key=lambda pair: -pair[0])

    def covers(self, weights: Mapping[Key, float]) -> float:
        """Return the largest share of the words and numbers of a sentence, by their weights, in two adjacent
        sentences that do not ask."""
        best, before = 0.0, frozenset[Key]()
        for each in self.sentences:
            current = frozenset[Key]() if each.is_question else each.words | _values(each.numbers)
            best = max(best, sum(weights[word] for word in weights.keys() & (before | current)))
            before = current
        return best / max(sum(weights.values()), 1)


def _weights(claim: Statement, sources: Sequence[Source]) -> dict[Key, float]:
    """Return the weights of the words and numbers of a sentence: what several sources have counts less."""
    keys = claim.words | _values(claim.numbers)
    return {word: 1 / max(sum(word in each.words for each in sources), 1) for word in keys}


def _values(numbers: Iterable[Number]) -> frozenset[Key]:
    """Return what numbers are compared by; a month and a number that may count something are words."""
    counted = (each for each in numbers if not (each.is_month or each.is_count))
    return frozenset(f"#{value.normalize()}" for number in counted for value in number.values)


_MARKER = re.compile(r"[ \t>]*(?:[-*+]|(?P<number>\d{1,9})[.)])[ \t]")


def join_wrapped(text: str) -> str:
    """Return a text of the same length in which a line that begins with a number goes on from the line before, unless
    that is part of a list: only a list that begins with 1 may interrupt a paragraph (CommonMark, 5.3).

    >>> join_wrapped("The summer of\\n1998. It was wet.\\n\\n1. A\\n2. B")
    'The summer of 1998. It was wet.\\n\\n1. A\\n2. B'
    """
    parts, is_list, is_open = list[str](), False, False
    for line in text.split("\n"):
        marker = _MARKER.match(line)
        goes_on = marker is not None and marker["number"] not in (None, "1") and is_open and not is_list
        begin = line.lstrip(" \t>")
        parts.append(" " * (len(line) - len(begin) + 1) + begin if goes_on else "\n" + line)
        is_open = bool(begin) and not line.startswith("#")
        is_list = is_open and (is_list or (marker is not None and not goes_on))
    return "".join(parts)[1:]


_NEXT = re.compile(r"\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)])[ \t]?)")


def sentence_ranges(text: str, begins: Set[int] = frozenset()) -> Iterator[tuple[int, int]]:
    """Iterate over the start and end of sentences, items and rows; `begins` are additional starts."""
    places = {0, *begins, len(text)}
    for start, end in pairwise([0, *(match.end() for match in _NEXT.finditer(text)), len(text)]):
        places.update((start, *(start + begin for _, begin in sentence_ends(text[start:end]))))
    yield from pairwise(sorted(places))


def read_source(passage: Passage) -> Source:
    """Return a passage, to be read as far as it is needed."""
    return _source(passage.path, passage.with_above, passage.language)


@lru_cache(maxsize=KEPT_PASSAGES // 4)  # a class asks about the same passages
def _source(path: str, text: str, language: str) -> Source:
    return Source(join_wrapped(with_units(_QUOTED.sub("", f"{path}.\n\n{text}"))), language)


def is_in_language(text: str, language: str, sources: Iterable[Source]) -> bool:
    """Return whether a text is certainly in this language: a fifth of its words are stop words, or the sources have
    half of the others."""
    words = LETTERS.findall(text.casefold())[:200]
    content = [key for word in words if (key := word_id(word, language)) is not None]
    if language not in LANGUAGES or len(words) - len(content) > len(words) / 5:
        return language in LANGUAGES
    known = frozenset[Key]().union(*(source.words for source in sources))
    return 2 * sum(key in known for key in content) >= len(content) > 0


# -- comparison ------------------------------------------------------------------------------------

_ALIKE, _NEAR, _FAR = 0.7, 0.5, 0.25
"""The share of common words above which a sentence repeats another, is about the same, or may be."""
_FEWEST, _SHARE = 6, 0.25
"""A sentence with at least so many words fails if its sources contain less than this share of them."""
_MOST_NUMBERS = 40
"""A sentence with more numbers is a sequence: they are looked up, and not calculated from each other."""
_LEAST, _ELSEWHERE, _MORE, _WHOLE = 5, 0.6, 0.3, 0.95
"""The share of the words of a sentence of so many that another source has to have, and by how much more than the cited
ones; nearly all of a shorter one."""


def compare(
    claim: Statement,
    cited: Sequence[Source],
    others: Sequence[Source],
    *,
    is_own: bool,
    speaks: bool,
    known: Sequence[Number] = (),
    quotes: bool = False,
) -> Discrepancy:
    """Compare a sentence with its sources. `is_own`: it cites them itself; `speaks`: it is in their language; `known`:
    the numbers that the answer calculates; `quotes`: it holds the words of a source, which say what they say."""
    every = [*cited, *others]
    checked = _numbers(claim, cited, others if is_own else every, known, is_own=is_own) or _formulas(claim, every)
    if checked or not speaks:
        return checked or Discrepancy()
    if is_own and claim.language != "de" and (names := _names(claim, cited)):
        return _elsewhere(claim, cited, others, lacks=True) or Discrepancy("names", names)
    if not quotes and (opposite := _opposite(claim, cited if is_own else every)):
        return opposite
    if is_own and (elsewhere := _elsewhere(claim, cited, others)):
        return elsewhere
    foreign = [word for word in claim.words if not any(word in each.words for each in cited)]
    few = is_own and len(claim.words) >= _FEWEST and len(claim.words) - len(foreign) < _SHARE * len(claim.words)
    return Discrepancy("words") if few else Discrepancy()


def _line(text: str) -> str:
    return " ".join(text.split())


def _elsewhere(
    claim: Statement, cited: Sequence[Source], others: Sequence[Source], *, lacks: bool = False
) -> Discrepancy | None:
    """Return another source that has much more of the words and numbers of a sentence than those that it cites, and
    these none of its formulas. `lacks`: they lack a number or a name."""
    formulas = [f" {' '.join(tokens)} " for tokens in claim.formulas if len(tokens) > _LEAST]
    if (len(claim.words) < 3 and not lacks) or any(
        each in source.joined_tokens for each in formulas for source in cited
    ):
        return None
    weights, numbers = _weights(claim, [*cited, *others]), _values(claim.numbers)
    share, more = (_ELSEWHERE, _MORE) if lacks or len(claim.words) >= _LEAST else (_WHOLE, 0.5)
    least = max(share, max(each.covers(weights) for each in cited) + more)
    at_least = least * max(sum(weights.values()), 1)
    near = (each for each in others if sum(map(weights.__getitem__, numbers | claim.words & each.words)) >= at_least)
    share, found = max(((each.covers(weights), each) for each in near), key=itemgetter(0), default=(0.0, None))
    return Discrepancy("elsewhere", (), found) if found and share >= least else None


def _numbers(
    claim: Statement, cited: Sequence[Source], others: Sequence[Source], known: Sequence[Number], *, is_own: bool
) -> Discrepancy | None:
    """Return what is wrong with the numbers of a sentence: one is in no source, has another unit, or replaces another.
    A small number may count the items of a list: it is wrong only if nearly the same is said of another number."""
    every = [*cited, *others]
    searched = cited if is_own else every
    near = [(share, each, source) for source in searched for share, each in source.common(claim)[:3]]
    near.sort(key=lambda each: -each[0])
    alike = [each for share, each, _ in near[:3] if share >= _FAR]
    missing, calculates = list[Number](), len(claim.numbers) <= _MOST_NUMBERS
    for number in claim.numbers:
        if number.is_month:
            continue
        if number.is_count:
            denies = any(each.denies for each in claim.clauses)  # not two: one
            missing += [number] if not denies and _counts_differ(number, near) else []
            continue
        if number.unit:
            source_numbers = [each for source in searched for each in source.numbers.numbers if each.unit]
            if is_stated(number, source_numbers):
                continue
            if other := has_other_unit(number, source_numbers):
                source = next(each for each in searched if other in each.numbers.numbers)
                return Discrepancy("units", (number.text,), source, other.text)
        said = any(source.numbers.has(number) for source in searched) or is_stated(number, known)
        if said:
            continue
        if not calculates or not _is_calculated(number, claim, alike, searched, known):
            missing.append(number)
    given = [*known, *claim.numbers]
    is_known = bool(claim.results) and all(any(each.numbers.has(one) for each in every) for one in claim.results)
    for number in () if is_known else claim.operands:
        forms = [number, *(number._replace(values=frozenset(v + by for v in number.values)) for by in (-1, 1))]  # n - 1
        if not any(each.numbers.has(form) for form in forms for each in every) and not is_stated(number, given):
            missing.append(number)
    if claim.wrong:
        return Discrepancy("calculation", claim.wrong)
    if not missing:
        return _replaced(claim, near, known) or _other_row(claim, searched) or _other_role(claim, near)
    if is_own and (found := _elsewhere(claim, cited, others, lacks=True)):
        return found
    texts = tuple(dict.fromkeys(number.text for number in missing))
    best = next((each for each in near[:1] if each[0] >= _NEAR and each[1].numbers), None)
    return Discrepancy("numbers", texts, *((best[2], _line(best[1].text)) if best else ()))


Near = Sequence[tuple[float, Statement, Source]]
_TWO = tuple(numbers_of("two"))


@lru_cache(maxsize=10_000)
def _computes(text: str, words: str = "computes|rates") -> bool:
    return re.search(rf"\b(?:{'|'.join(map(any_of, words.split('|')))})\b", text, re.IGNORECASE) is not None


def _may_compute(number: Number, claim: Statement, sentence: Statement) -> bool:
    """Return whether a number of a claim may be computed from the numbers of a sentence of a source: it is a share, the
    claim shows a calculation or has a word for one, or the sentence gives a rate."""
    is_share = number.unit is not None and number.unit.measures == "share"
    return is_share or claim.computes or _computes(sentence.prose, "rates")


def _is_calculated(
    number: Number, claim: Statement, alike: Sequence[Statement], sources: Sequence[Source], known: Sequence[Number]
) -> bool:
    """Return whether a number of a claim follows from others of it, or from those of a source if it may."""
    rest = [each for each in claim.numbers if each != number]
    used = [each for each in alike if _may_compute(number, claim, each)]
    operands = [operand for each in used for operand in (*each.numbers, *each.results, *_TWO)]
    own = rest if claim.computes else ()
    return is_computed(number, [*operands, *known, *rest]) or any(
        is_difference(number, own, source.numbers.numbers) for source in sources
    )


def _other_row(claim: Statement, sources: Sequence[Source]) -> Discrepancy | None:
    """Return the row of a table that a sentence names, if one of its numbers stands only in another row."""
    for source in () if claim.computes else sources:
        rows = [each for each in source.sentences if each.text.startswith("|") and len(claim.numbers) <= _MOST_NUMBERS]
        names = [_keys(each.text.split("|")[1], claim.language) for each in rows]
        named = [each for each, name in zip(rows, names, strict=True) if name and name <= claim.words and each.numbers]
        prose = [each for each in source.sentences if not each.text.startswith("|")]
        own = [number for each in (*named, *prose) for number in each.numbers]
        every = [number for each in rows for number in each.numbers]
        wrong = [
            each.text
            for each in claim.numbers
            if not each.is_count and is_stated(each, every) and not is_stated(each, own)
        ]
        if named and wrong:
            return Discrepancy("numbers", tuple(wrong), source, _line(named[0].text))
    return None


_LONGEST_ROLE = 100  # characters of a clause before its number
_EQUALS = frozenset(("is", "was", "are", "were", "ist", "war", "sind", "beträgt", "="))


def _roles(sentence: Statement) -> Iterator[tuple[str, str, Number]]:
    """Iterate over the first word of a clause, the one before *is* or *=*, and the number after: *mean*, *mean* and
    *10 mm*."""
    last = 0
    for number in () if sentence.operands else sentence.numbers:
        begin, last = last, last if number.is_count else number.end
        clause = sentence.prose[begin : number.start] if number.start - begin < _LONGEST_ROLE else ""
        *words, equals = clause.casefold().split() or [""]
        content = [word for word in words if _key(word, sentence.language) is not None]
        if equals in _EQUALS and words and content:
            yield words[-1] if equals == "=" else content[0], words[-1], number


def _other_role(claim: Statement, near: Near) -> Discrepancy | None:
    """Return the sentence that gives another number for the same: *the mean is 10 mm*, not *14 mm*."""
    given = [(word, number, each, source) for share, each, source in near if share >= _NEAR
             for _, word, number in _roles(each)]  # fmt: skip
    for word, _, number in () if claim.computes else _roles(claim):
        same = [each for each in given if each[0] == word and each[1].unit == number.unit]
        if same and not is_stated(number, [each[1] for each in same]):
            return Discrepancy("numbers", (number.text,), same[0][3], _line(same[0][2].text))
    return None


def _counts_differ(number: Number, near: Near) -> bool:
    """Return whether the sentences that say nearly the same give another number for the same thing."""
    counted = {word[:5] for word in number.counted[:1]}
    if not counted:
        return False
    values = {value for share, sentence, _ in near if share >= _NEAR for each in sentence.numbers
              if counted & {word[:5] for word in each.counted} for value in each.values}  # fmt: skip
    return bool(values) and not values & number.values


def _replaced(claim: Statement, near: Near, known: Sequence[Number]) -> Discrepancy | None:
    """Return the sentence that has other numbers or names in nearly the same words."""
    for _, sentence, source in near:
        alike = len(claim.words & sentence.words) / max(len(claim.words), len(sentence.words), 1)
        if len(claim.words) < 3 or alike < _ALIKE:
            continue
        at = source.sentences.index(sentence)
        around = [number for each in source.sentences[max(at - 1, 0) : at + 2] for number in each.numbers]
        absent = [
            each
            for each in claim.numbers
            if not is_stated(each, [*around, *known])
            and not is_computed(
                each,
                [
                    *(around if _may_compute(each, claim, sentence) else ()),
                    *(other for other in claim.numbers if other != each),
                ],
            )
        ]
        if absent and any(not is_stated(each, claim.numbers) for each in sentence.numbers):
            return Discrepancy("numbers", tuple(each.text for each in absent), source, _line(sentence.text))
    return None


def _formulas(claim: Statement, sources: Sequence[Source]) -> Discrepancy | None:
    """Return what a source has instead of a formula or of code that differs in a number, a sign or a letter."""
    for tokens in claim.formulas:
        if len(tokens) < 4 or not any(each[0].isdigit() or each in _SIGNS for each in tokens):
            continue
        if all(each[0].isdigit() or each in "-+*/^()" or unit_of(each) for each in tokens):  # nothing but a number
            continue
        joined = f" {' '.join(tokens)} "
        if any(joined in source.joined_tokens for source in sources):
            continue
        for source in sources:
            if found := _differs(tokens, source.tokens):
                first, last = (source.tokens.spans[found[0]][0], source.tokens.spans[found[1] - 1][1])
                words = source.formula[first:last]
                closing = "}" * (words.count("{") - words.count("}"))
                return Discrepancy("formula", (), source, f"{words}{closing}")
    return None


_SIGNS = frozenset("+-*/<>=≤≥·×^")


def _differs(tokens: Sequence[str], index: Index) -> tuple[int, int] | None:
    """Return the range of words that differ from these tokens only in numbers, signs or a letter."""
    size = len(tokens)
    matched, first, last = nearest(tokens, index)
    if matched < _ALIKE * size:
        return None
    for start in range(max(first - 2, 0), first + 3):  # as long as this, and other in one or two places
        part = index.words[start : start + size]
        pairs = [(one, other) for one, other in zip(tokens, part, strict=False) if one != other]
        if len(part) == size and 0 < len(pairs) <= 2 and all(_is_slip(*pair, size) for pair in pairs):
            return start, start + size
    part = index.words[first:last]
    ops = [op for op in SequenceMatcher(None, tokens, part, autojunk=False).get_opcodes() if op[0] != "equal"]
    if len(ops) == 1:  # something more or less in it
        _, a, b, c, d = ops[0]
        changed = [*tokens[a:b], *part[c:d]]
        if (
            0 < a <= b < size + (size > 9)
            and len(changed) <= 3
            and all(each[0].isdigit() or each in _SIGNS for each in changed)
        ):
            return first, last
    return None


def _is_slip(one: str, other: str, size: int) -> bool:
    if one[0].isdigit() and other[0].isdigit():
        return True
    if {one, other} == {"true", "false"}:
        return True
    letters = len(one) == len(other) == 1 and one.isalpha() and other.isalpha() and size >= 8
    return letters or (one in _SIGNS and other in _SIGNS)


def _names(claim: Statement, cited: Sequence[Source]) -> tuple[str, ...]:
    """Return the names that no source has, or that replace another one in a repeated sentence."""
    missing = [name for name in claim.names if not any(_has_name(name, source.formula) for source in cited)]
    for source in cited if claim.names else ():
        for share, sentence in source.common(claim):
            if share >= _ALIKE and len(claim.words & sentence.words) >= _ALIKE * len(sentence.words):
                at = source.sentences.index(sentence)
                around = "\n".join(each.text for each in source.sentences[max(at - 1, 0) : at + 2])
                if any(not _has_name(name, claim.text) for name in sentence.names):
                    missing += [name for name in claim.names if not _has_name(name, around)]
    return tuple(dict.fromkeys(missing))


def _has_name(name: str, text: str) -> bool:
    begin = name[:-2] if len(name) > 6 else name.removesuffix("s")
    return re.search(rf"\b{re.escape(begin)}", text, re.IGNORECASE) is not None


# -- opposites -------------------------------------------------------------------------------------

_COVERED, _HELD, _REPEATED = 0.6, 0.75, 0.8
"""The share of the words of a sentence, of a clause of the source, and of a repeated sentence that are common."""


class Contrast(NamedTuple):
    """How two sentences compare: the words that both say, those that one says and the other denies, and all common
    ones; of how many words the clauses consist that have them."""

    same: frozenset[Key]
    denied: frozenset[Key]
    common: frozenset[Key]
    size: int


def _opposite(claim: Statement, sources: Sequence[Source]) -> Discrepancy | None:
    """Return the sentence of a source that denies what this one says, or says the opposite, if no other says it."""
    if claim.is_question:
        return None
    clauses = claim.clauses
    runs = [clauses[at : at + size] for size in (1, 2) if size < len(clauses) for at in range(len(clauses) + 1 - size)]
    units = [clauses, *(run for run in runs if not any(each.half for each in run) and len(_words_of(run)) >= 2)]
    contrasts = [
        (unit, _contrast(unit, sentence, claim.language), sentence, source)
        for source in sources
        for sentence in source.sentences
        if len(claim.words & sentence.words) >= 2 and not sentence.is_question
        for unit in units
    ]
    if any(
        len(found.same) > 0.8 * len(_words_of(clauses)) and not found.denied and not _is_denied(unit, found, sentence)
        for unit, found, sentence, _ in contrasts
    ):
        return None  # a sentence of a source is repeated
    for unit, found, sentence, source in contrasts:
        if _is_denied(unit, found, sentence) and not any(
            found.denied <= other.same and found.common <= other.common and other.size < 2 * found.size
            for _, other, _, _ in contrasts
        ):
            return Discrepancy("negation", (), source, _line(sentence.text))
    return None


def _is_denied(unit: Sequence[Clause], found: Contrast, sentence: Statement) -> bool:
    """Return whether a sentence is about the same as the clauses, and what they have in common is denied in one."""
    denied, common = len(found.denied), len(found.common)
    ours, clauses = len(_words_of(unit)), [each.words.keys() for each in sentence.clauses]
    whole, covered = len(_words_of(sentence.clauses)), common / ours
    if common >= 3 and common > 0.9 * max(ours, whole):
        negations = sum(each.denies for each in unit) - sum(each.denies for each in sentence.clauses)
        return denied > 0 or negations % 2 == 1
    if not denied or common < 2:
        return False
    if common >= 3 and (common >= _HELD * max(ours, whole) or common >= max(0.9 * whole, 0.55 * ours)):
        return True
    fewest = 3 if covered < 1 else 2
    is_held = any(len(each) >= fewest and len(each & found.common) >= _HELD * len(each) for each in clauses)
    if common < (fewest if is_held else 3) or covered < (0.55 if is_held else _COVERED):
        return False
    return denied > len(found.same) or (covered >= _REPEATED and (denied > 1 or covered == 1))


def _words_of(clauses: Iterable[Clause]) -> set[Key]:
    return {word for each in clauses for word in each.words}


def _contrast(unit: Sequence[Clause], other: Statement, language: str) -> Contrast:
    """Compare the signs under which the common words stand: of each clause with the one that has most of its words,
    then of the rest of it with the next."""
    ours, theirs = _words_of(unit), _words_of(other.clauses)
    alone = _words_of(each for each in (*unit, *other.clauses) if len(each.words) == 1 and not each.denies)
    same, denied = set[Key](), set[Key]()
    for one in unit:
        compared = [(two, {*_reversed(one, two, ours, theirs, language)}) for two in other.clauses]
        compared.sort(key=lambda pair: -len(one.words.keys() & pair[0].words.keys() | pair[1]))
        rest = set(one.words)
        for two, turned in compared:
            common = one.words.keys() & two.words.keys() | turned
            if not rest & common:
                continue
            turns = len(turned) + sum(one.words[word] * two.words.get(word, 0) < 0 for word in common)
            differs, denying, saying = turns % 2 == 1, *((one, two) if one.denies else (two, one))
            if one.half or two.half:
                differs = False
            elif one.denies != two.denies:
                differs = not differs
                if differs and (not denying.focus & common or alone & saying.words.keys() - denying.words.keys()):
                    continue  # it denies something else, or *the mean does* is said beside it
            (denied if differs else same).update(rest & common)
            rest -= common
    common = same | denied | ours & theirs
    size = len(_words_of(each for each in other.clauses if each.words.keys() & common))
    return Contrast(frozenset(same), frozenset(denied - same), frozenset(common), size)


def _reversed(one: Clause, two: Clause, ours: Set[Key], theirs: Set[Key], language: str) -> Iterator[Key]:
    """Iterate over the words of one clause whose opposite the other one has, unless it changes sides: *nitrogen is less
    soluble than oxygen* says what *oxygen is more soluble than nitrogen* does."""
    pairs = _opposites(language)
    for word in one.words.keys() & pairs.keys() - theirs:
        for opposite in pairs[word] & two.words.keys() - ours:
            (before, after), (there, then) = _sides(one, word), _sides(two, opposite)
            if not (before & then and after & there):
                yield word


def _sides(clause: Clause, word: Key) -> tuple[set[Key], set[Key]]:
    words = list(clause.words)
    at = words.index(word)
    return set(words[:at]), set(words[at + 1 :])
