"""Ranking as pure functions: weights of legs, relevance, what is added to it, and votes for sections.

*Weights.* A question in the words of a passage is found by its words, one in other words by its meaning. Which kind a
question is shows in its *coverage*: the largest share of the weight of its words that one of BM25's first three
passages contains. Its median is 0.84 for SQuAD's questions, 0.34 for the same reworded; for questions about the Rust
book 0.77 and 0.47. `weights` has the figures.

*Relevance* says how well a passage matches, on a scale that is the same for every question: BM25's sum relative to a
full match of the question, and the cosine. All legs score all candidates. How often the best passage for a question
scored higher than for a question whose document had been removed (1 is always, 0.5 chance; SQuAD documents): relevance
0.98, BM25 alone 0.95, cosine alone 0.89. ``lmm eval calibrate`` finds the threshold for a course.

*The score* is the relevance with the question's weights, and what is added for the section that is named or open, the
type that is asked for, and for what the text says.

*Votes.* Each passage votes for the section that it was cut from. The weight of a vote is its score relative to the
best one, raised to a high power: passages about as good as the best count fully, so that of two sections the one with
more hits comes first; the tail of a result hardly counts, so that a long section does not win by its length. If a
reranker determined the order, ranks count. A hit on a section's summary is a vote like any other.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lmm import markdown
from lmm.markdown.sentences import EMPHASIS, WORD, sentence_ends
from lmm_education.material import KEPT_PASSAGES, Location, Passage, named

# -- questions about terms -------------------------------------------------------------------------
# Which term a question such as "What is X?", or "X" alone, asks for, and how a text introduces it.


DEFINED, EMPHASIZED, HEADED = 0.3, 0.2, 0.1
"""Added to a relevance of about 0.5 if a passage defines the term, emphasizes it, or has it as its
heading.

Of 62 such questions about the Rust book (``benchmarks/questions/definitions.jsonl``), the right passage comes first
for 26 without it and for 54 with it, the right section for 48 and 57 (small vectors; MiniLM: 37, 57; 49, 58); of the
terms alone for 24 and 54, 48 and 58 (small vectors). Of the other sets, nDCG@10 changes for our questions about the
Rust book, four of which ask for a difference: 69.5 → 70.0, MiniLM 76.0 → 76.3.
"""
_WHAT_IS = re.compile(
    r"\s*(?:what(?:[’']s| is| are| does)|define|was (?:ist|sind|bedeutet)|wie ist)\s+(?:meant by )?"
    r"(?:(?:an?|the|ein|eine|der|die|das)\s+)?"
    r"(?P<term>(?:[\w&*`$'() -]|(?<=[\s`])[?!+=<>|%:.#@/]{1,3}(?=[\s`])){1,40}?)"
    r"(?:\s+(?:mean|do|stand for|definiert)|(?P<of>\s+(?:and|in|for|of|und|used)\b.*))?\s*[?.!]*\s*\Z",
    re.IGNORECASE,
)
_DIFFERENCE = re.compile(
    r".{0,40}?\b(?:differences? between|distinguishes|unterschied zwischen|unterscheidet)\s+(?P<one>[^?!.]{2,40}?)\s+"
    r"(?:and|from|und|von)\s+(?P<other>[^?!.]{2,40}?)\s*[?.!]*\s*\Z",
    re.IGNORECASE,
)
_ARTICLES = (*("a", "an", "the", "der", "die", "das", "den", "dem", "des"), *("ein", "eine", "einem", "einen", "einer"))
_MEANING = re.compile(
    r"(?:the |die )?(?:meaning|definition|bedeutung) (?:of|von) |\s(?:meaning|definition|bedeutung)\Z", re.I
)
_LEAD = re.compile(r"[:|=–—]|[*_]{2}|\s-\s")  # ends what a paragraph, an item or a row begins with
_ENDS = frozenset("?!.:")
_ARTICLE = r"(?:An?\s|The\s|\w+[’']s\s|Eine?\s|Der\s|Die\s|Das\s)"
_BEGINS = (
    r"(?:^|(?<=[.!?:]\s)|(?<=^>\s)|(?<=^[*-]\s))"
    rf"(?:(?:In|Like|Unlike) [^,.]{{1,40}}, )?{_ARTICLE}?"
)
_ASIDE = r"(?:, [^,.]{1,40},|\s\([^()]{1,40}\)|\s(?:placed|used|written)\s[^,.]{1,40}?)?"
_SAYS = r"(?:is|are|means?|defines?|refers?|describes?|lets?|allows?|consists?|ist|sind|heißt|bezeichnet)\b"
_CALLED = (
    r"\b(?:known as|referred to as|(?:is|are|be|often|also|sometimes) called|heißt|heißen|nennt man)\s"
    r"(?:an?\s|the\s|eine?\s|der\s|die\s|das\s)?"
)
_KIND = re.compile(r"(?<=.)\\s(operator|method|function|macro|keyword|command)\Z", re.I)  # texts may leave it out


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A term that a question asks for, `alone` or as part of more, as in "What is the mean of two numbers?"."""

    alone: bool
    _name: re.Pattern[str]
    _defining: re.Pattern[str]
    _emphasized: re.Pattern[str]
    _leading: re.Pattern[str]

    def defined(self, text: str) -> bool:
        """Return whether a sentence of a text begins with a definition of the term, or says what is called so.

        >>> term_of("What is a p-value?").defined("It is small. The **$p$-value** is a probability.")
        True
        >>> term_of("What is a double free error?").defined("This is known as a _double free_ error.")
        True
        >>> term_of("What does the ? operator do?").defined("The `?` placed after a value is like a `match`.")
        True
        """
        return bool(self._defining.search(_without_marks(text)))

    def emphasized(self, text: str) -> bool:
        """Return whether the term is emphasized somewhere, as it is where it is introduced.

        >>> term = term_of("What are p-values?")
        >>> term.emphasized("called a _p-value_."), term.emphasized("the **$p$-value**"), term.emphasized("a p-value")
        (True, True, False)
        """
        return bool(self._emphasized.search(text.replace("$", "")))

    def occurs(self, prose: str) -> bool:
        """Return whether a text has the term."""
        return bool(self._name.search(_without_marks(prose)))

    def is_explained(self, prose: str, headings: Sequence[str]) -> bool:
        """Return whether a passage introduces the term, or begins a sentence with it.

        >>> term = term_of("What is chlorophyll?")
        >>> [term.is_explained(text, ["Leaves"]) for text in ("Chlorophyll is green.", "Leaves have chlorophyll.")]
        [True, False]
        """
        return bool(self._leading.search(_without_marks(prose))) or self.introduced(prose, headings) > 0

    def names(self, title: str) -> bool:
        """Return whether a title is the term, with or without an abbreviation or an explanation in brackets.

        >>> term = term_of("What is the WHO?")
        >>> [term.names(title) for title in ("WHO", "World Health Organization (WHO)", "WHO reports")]
        [True, True, False]
        """
        parts = (title, *title.replace(")", "(").split("("))
        return any(self._name.fullmatch(_without_marks(part).strip(" _.\t\n")) for part in parts)

    def leads(self, text: str) -> bool:
        """Return whether a paragraph, an item or a row of a table begins with the term as its name.

        >>> [term_of("stoma").leads(text) for text in ("- **Stoma**: a pore", "| Stoma | a pore |", "Stoma cells: x")]
        [True, True, False]
        """
        lead, *rest = _LEAD.split(text.lstrip(" |>-*+_`"), 1)
        return bool(rest) and self.names(lead)

    def introduced(self, prose: str, headings: Sequence[str]) -> float:
        """Return the bonus for a passage that introduces the term; 0 if the question asks for more than the term."""
        if not self.alone:
            return 0.0
        headed = bool(headings and self.names(headings[-1]))
        return DEFINED * self.defined(prose) + EMPHASIZED * self.emphasized(prose) + HEADED * headed


@functools.lru_cache(maxsize=100)
def term_of(question: str) -> Term | None:
    """Return the term that a question asks for; None if it does not ask what something is.

    >>> term_of("What is a trait?").alone, term_of("What is the mean of x?").alone, term_of("Why is the sky blue?")
    (True, False, None)
    >>> term_of("What does read_csv do?").introduced("Some text.", ["Files", "`read_csv()`"]) == HEADED
    True
    """
    if match := _DIFFERENCE.match(question):
        terms, alone = [match["one"], match["other"]], True
    elif match := _WHAT_IS.match(question):
        terms, alone = [match["term"]], not match["of"]
    else:
        bare = _MEANING.sub("", question.rstrip("?!. "))
        is_bare = bare != question.rstrip("?!. ") or (len(question.split()) <= 3 and _ENDS.isdisjoint(question))
        terms, alone = [bare] if is_bare else [], True
    names = [name for term in terms if (name := _name_of(term))]
    if not names:
        return None
    name = f"(?:{'|'.join(names)})"
    return Term(
        alone=alone,
        _name=re.compile(name, re.I),
        _defining=re.compile(rf"{_BEGINS}{name}{_ASIDE}\s+{_SAYS}|{_CALLED}{name}(?!\w)", re.I | re.M),
        _emphasized=re.compile(rf"(?<![\w`])[_*]{{1,3}}{name}[_*]", re.I),
        _leading=re.compile(rf"(?:\A|(?<=[.!?:]\s)|(?<=\n\n)){_ARTICLE}?{name}(?!\w)", re.I),
    )


def _without_marks(text: str) -> str:
    return EMPHASIS.sub("", text.replace("$", ""))


def _name_of(term: str) -> str:
    """Return a pattern for the singular and plural of a term; empty if it contains no word."""
    words = _without_marks(term).strip(" '").split()
    words = words[1:] if len(words) > 1 and words[0].lower() in _ARTICLES else words
    name, kinds, _ = (*_KIND.split(r"\s".join(map(re.escape, words)).removesuffix("s")), "", "")[:3]
    return rf"{name}(?:e?s|\(\))?" + rf"(?:\s{kinds}s?)?" * bool(kinds) if words else ""


# -- ranking ---------------------------------------------------------------------------------------


PER_WORD = 8.0
"""BM25's score for a word of average rarity that occurs several times, so that a full match is about 1."""
POWER = 8
"""The exponent of votes: a passage that is 8 % less relevant than the best has half a vote."""
# -- weights ---------------------------------------------------------------------------------------


class Shares(NamedTuple):
    """The weight of the dense legs for an uncovered question and for a covered one, whose coverage is at least
    `enough`; BM25 has the rest."""

    uncovered: float
    covered: float
    enough: float


# Chosen by cross-validation on SQuAD's questions, the same reworded, and both kinds about the Rust book.
STATIC, READING, SENTENCES = Shares(0.8, 0.25, 0.7), Shares(0.9, 0.35, 0.7), Shares(0.95, 0.55, 0.85)
FOREIGN = Shares(0.2, 0.2, 0.7)
"""Of a model that does not know the texts' language. On 84 German questions, any share from 0.1 to 0.3 is within 1.4
(nDCG@10): wordllama 73.0 → 78.3, MiniLM 63.5 → 78.8."""
_NOT_COVERED = 0.4


def weights(coverage: float, dense: Collection[str], *, static: bool, foreign: bool = False) -> dict[str, float]:
    """Return the weight of each leg for a question, 1 in total; the `dense` legs have equal shares.

    Args:
        coverage: of the question, from 0 to 1.
        dense: the names of the dense vectors that were searched.
        static: whether the embedding model only adds up word vectors. One that reads sentences knows more, and one
            that has embedded each sentence of a passage (``multi``) still more.
        foreign: whether the embedding model does not know the language of the texts.

    nDCG@10 (SQuAD as asked, reworded; Rust book by us, in a learner's own words), with fixed weights .75 and .25, then
    as here: wordllama 89.3, 26.5, 70.2, 23.0 → 89.6, 39.8, 69.5, 23.8; all-MiniLM-L6-v2, here with its sentences, 89.4,
    28.5, 74.6, 26.6 → 91.8, 66.4, 76.0, 37.0 (`python -m benchmarks.own_words`; benchmarks/retrieval.md). An unknown
    model is assumed to read sentences.

    >>> weights(0.9, ["dense"], static=True), weights(0.3, ["dense", "multi"], static=False)
    ({'sparse': 0.75, 'dense': 0.25}, {'sparse': 0.05, 'dense': 0.475, 'multi': 0.475})
    >>> weights(0.3, [], static=True)
    {'sparse': 1.0}
    """
    if not dense:
        return {"sparse": 1.0}
    known = STATIC if static else SENTENCES if "multi" in dense else READING
    uncovered, covered, enough = FOREIGN if foreign else known
    way = min(1.0, max(0.0, (coverage - _NOT_COVERED) / (enough - _NOT_COVERED)))
    share = uncovered + way * (covered - uncovered)
    return {"sparse": round(1 - share, 6)} | {name: round(share / len(dense), 6) for name in dense}


# -- texts -----------------------------------------------------------------------------------------

NEAR, WINDOW = 0.2, 25
"""Added to a relevance of about 0.5 if all of a question's words occur within `WINDOW` words. Without it, nDCG@10 is
1.3 lower (0.4 to 2.1) for SQuAD's questions. Taking as much away from passages that have a word only in code changed
nothing there, nor for the questions about the Rust book (0.0; sections −0.2 to +0.6, none of it beyond chance)."""
SAID = 0.5
"""Subtracted from a passage that repeats a better one."""


prose_of = functools.lru_cache(maxsize=KEPT_PASSAGES)(markdown.prose_of)


def together(text: Sequence[int | None], asked: Mapping[int, float]) -> float:
    """Return the share of the weight of a question's words that occur within `WINDOW` words of a text: 0 to 1.

    >>> together([7, None, 8, *[None] * 30, 9], {7: 1.0, 8: 1.0, 9: 2.0})
    0.5
    """
    places = [(at, word) for at, word in enumerate(text) if word in asked]
    counts: dict[int, int] = {}
    best = held = 0.0
    first = 0
    for at, word in places:
        assert word is not None
        held += 0.0 if counts.get(word) else asked[word]
        counts[word] = counts.get(word, 0) + 1
        while at - places[first][0] > WINDOW:
            gone = places[first][1]
            assert gone is not None
            counts[gone] -= 1
            held -= 0.0 if counts[gone] else asked[gone]
            first += 1
        best = max(best, held)
    whole = math.fsum(asked.values())
    return best / whole if whole else 0.0


def text_bonus(
    passage: Passage,
    asked: Mapping[int, float],
    words: Callable[[str], Sequence[int | None]],
    weight: float,
    term: Term | None = None,
) -> float:
    """Return what is added to the relevance of a passage after reading its text.

    Args:
        asked: the question's words and their weights.
        words: returns the words of a text in order.
        weight: the weight of the sparse leg for the question.
        term: the term, if the question asks what something is.

    A rule for announcements ("In this chapter, we'll") helped one set and hurt another; headings of summaries, and
    short texts, change less than 0.1.

    >>> from lmm_education.material import Lines, Location
    >>> leaves = Passage("1", Location("d", "d.md", Lines(1, 1)), "green leaves")
    >>> text_bonus(leaves, {5: 1.0, 6: 1.0}, lambda text: [len(word) for word in text.split()], 0.5)
    0.1
    """
    introduced = _introduced(term, prose_of(passage.text), passage.place.headings) if term else 0.0
    return weight * NEAR * together(words(prose_of(passage.with_above)), asked) + introduced


_introduced = functools.lru_cache(maxsize=KEPT_PASSAGES)(Term.introduced)


@functools.lru_cache(maxsize=KEPT_PASSAGES)
def _sentences(prose: str) -> frozenset[str]:
    starts = [0, *(begin for _, begin in sentence_ends(prose)), len(prose)]
    return frozenset(" ".join(prose[a:b].split()).casefold() for a, b in pairwise(starts)) - {""}


def is_repeated(text: str, seen: set[str]) -> bool:
    """Return whether `seen` contains nearly all sentences of a text; add its sentences to `seen`.

    >>> seen = set[str]()
    >>> is_repeated("Leaves are green.", seen), is_repeated("Leaves  are green.", seen)
    (False, True)
    """
    sentences = _sentences(prose_of(text))
    known = bool(sentences) and len(sentences & seen) >= 0.8 * len(sentences)
    seen |= sentences
    return known


# -- relevance -------------------------------------------------------------------------------------


def relevance(legs: Mapping[str, float], full: float, weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the legs' judgements: BM25 relative to a full match, and the cosine.

    A leg that did not find the passage counts as 0.

    >>> relevance({"sparse": 24.0, "dense": 0.6}, 4 * PER_WORD, {"sparse": 0.75, "dense": 0.25})
    0.7125
    """
    total = sum(weights.values())
    if total <= 0 or full <= 0:
        return 0.0
    found = ((weight, legs.get(name, 0.0) / (full if name == "sparse" else 1.0)) for name, weight in weights.items())
    return round(sum(weight * score for weight, score in found) / total, 6)


NAMED, HERE = 1.0, 0.2
"""Added if a question names the section of a passage, so that this section comes first; and if the reader has that
section open, whatever they ask. Of 60 questions about the Rust book in a learner's own words, 23 find their section
first; 60 if the reader has it open, 22 if he has another section open."""


@functools.lru_cache(maxsize=KEPT_PASSAGES)
def _names_of(heading: str, number: str) -> frozenset[str]:
    """Return a heading with and without its number, as words with blanks around them."""
    return frozenset(map(_spaced, (heading, named(number, heading)))) - {"  "}


@functools.lru_cache(maxsize=KEPT_PASSAGES)
def _spaced(text: str) -> str:
    return f" {' '.join(WORD.findall(text.casefold()))} "


def words_named(question: str, topic: AbstractSet[str], hit: Passage) -> int:
    """Return the number of words of the heading of a passage's section that a question names, with or without its
    number: they follow each other in it, and are most of its `topic` words.

    >>> from lmm_education.material import Lines, Location
    >>> hit = Passage("1", Location("d", "d.md", Lines(1, 1), ("Cells", "`Rc<T>`, the Pointer"), ("4", "4", "4.2")))
    >>> words_named("Rc<t>, the pointer!", {"rc", "pointer"}, hit), words_named("4.2 Rc T The Pointer", set(), hit)
    (4, 6)
    >>> words_named("What is the pointer?", {"pointer"}, hit)
    0
    """
    asked, headings = _spaced(question), hit.place.headings
    number = "".join(hit.place.numbers[len(headings) : len(headings) + 1])
    names = _names_of(hit.heading, number).union(*(_names_of(e.headings[-1], e.number) for e in hit.place.inner))
    found = [name.split() for name in names if name in asked]
    return max((len(name) for name in found if 2 * len(topic & set(name)) > len(topic) or not topic), default=0)


def is_section(
    path: Sequence[str],
    place: Location,
    title: str,
    words: Callable[[str], Sequence[str]] = lambda text: _spaced(text).split(),
) -> bool:
    """Return whether a text is in the section that a heading or a path of headings names, or has it inside.

    >>> from lmm_education.material import Inner, Lines
    >>> place = Location("d", "d.md", Lines(1, 2), ("Cells", "Division"), inner=(Inner(2, "", ("A", "B")),))
    >>> [is_section(path, place, "Biology") for path in (("Biology", "cells"), ("Biology", "Division"), ("A", "B"))]
    [True, False, True]
    """
    heading_words = [tuple(words(heading)) for heading in path]
    for names in ((title, *place.headings), *(each.headings for each in place.inner)):
        headings = [tuple(words(name)) for name in names]
        if any(
            headings[at : at + len(heading_words)] == heading_words
            for at in range(len(headings) - len(heading_words) + 1)
        ):
            return True
    return False


# -- votes -----------------------------------------------------------------------------------------


class Voted(NamedTuple):
    """A section's id, the weight of its votes, and the ranks of the voting passages, from 1."""

    section: str
    score: float
    ranks: tuple[int, ...]


def vote(sections: Sequence[str], weights: Sequence[float]) -> list[Voted]:
    """Return sections sorted by votes, given the section of each passage, best first, and the weight of its vote.

    Passages without a section abstain.

    >>> [v.section for v in vote(["once", "often", "often", "", "once"], by_relevance([0.6, 0.57, 0.57, 0.5, 0.2]))]
    ['often', 'once']
    >>> [v.section for v in vote(["once", "often", "often"], by_relevance([0.6, 0.3, 0.3]))]
    ['once', 'often']
    """
    votes: dict[str, float] = {}
    ranks: dict[str, list[int]] = {}
    for rank, (section, weight) in enumerate(zip(sections, weights, strict=True), 1):
        if section:
            votes[section] = votes.get(section, 0.0) + weight
            ranks.setdefault(section, []).append(rank)
    voted = [Voted(section, votes[section], tuple(own)) for section, own in ranks.items()]
    return sorted(voted, key=lambda each: (-each.score, each.ranks))


def by_relevance(relevances: Sequence[float]) -> list[float]:
    """Return the weights of passages' votes by their relevance; by their ranks if none is relevant."""
    best = max(relevances, default=0.0)
    if best <= 0:
        return by_rank(len(relevances))
    return [(max(0.0, each) / best) ** POWER for each in relevances]


def by_rank(count: int) -> list[float]:
    """Return the weights of votes by rank.

    >>> by_rank(3)
    [1.0, 0.5, 0.3333333333333333]
    """
    return [1 / rank for rank in range(1, count + 1)]
