"""Questions for what something is, or a term alone: which is asked for, and how a text says what it is."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lmm.markdown.sentences import EMPHASIS

DEFINED, EMPHASIZED, HEADED = 0.3, 0.2, 0.1
"""What it is worth, beside a fused score or a relevance of about 0.5, that a passage says what the term is, emphasizes
it, has it for a heading.

Of 62 such questions about the Rust book (``benchmarks/questions/definitions.jsonl``), the right passage comes first
for 26 without it and for 54 with it, the right section for 48 and 57 (small vectors; MiniLM: 37, 57; 49, 58); of the
terms alone for 24 and 54, 48 and 58 (small vectors). Of the other sets, nDCG@10 changes for our questions about the
Rust book, four of which ask for a difference: 69.5 → 70.0, MiniLM 76.0 → 76.3.
"""
_WHAT_IS = re.compile(
    r"\s*(?:what(?:[’']s| is| are| does)|define|was (?:ist|sind|bedeutet)|wie ist)\s+(?:meant by )?"
    r"(?:(?:an?|the|ein|eine|der|die|das)\s+)?(?P<term>[\w&*`$'() -]{1,40}?)"
    r"(?:\s+(?:mean|do|stand for|definiert)|(?P<of>\s+(?:and|in|for|of|und|used)\b.*))?\s*[?.!]*\s*\Z",
    re.IGNORECASE,
)
_DIFFERENCE = re.compile(
    r".{0,40}?\b(?:differences? between|distinguishes|unterschied zwischen|unterscheidet)\s+(?P<one>[^?!.]{2,40}?)\s+"
    r"(?:and|from|und|von)\s+(?P<other>[^?!.]{2,40}?)\s*[?.!]*\s*\Z",
    re.IGNORECASE,
)
_ARTICLES = (*("a", "an", "the", "der", "die", "das", "den", "dem", "des"), *("ein", "eine", "einem", "einen", "einer"))
_ENDS = frozenset("?!.:")
_BEGINS = (
    r"(?:^|(?<=[.!?:]\s)|(?<=^>\s)|(?<=^[*-]\s))"
    r"(?:(?:In|Like|Unlike) [^,.]{1,40}, )?(?:An?\s|The\s|\w+[’']s\s|Eine?\s|Der\s|Die\s|Das\s)?"
)
_ASIDE = r"(?:, [^,.]{1,40},|\s\([^()]{1,40}\))?"
_SAYS = r"(?:is|are|means?|defines?|refers?|describes?|lets?|allows?|consists?|ist|sind|heißt|bezeichnet)\b"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A term that a question asks for, `alone` or with more, as in "What is the mean of two numbers?"."""

    alone: bool
    _name: re.Pattern[str]
    _defining: re.Pattern[str]
    _emphasized: re.Pattern[str]

    def defined(self, text: str) -> bool:
        """Whether a sentence of a text begins by saying what it is.

        >>> term_of("What is a p-value?").defined("It is small. The **$p$-value** is a probability.")
        True
        >>> term_of("What is a Roman numeral?").defined("A Roman numeral is a letter.")
        True
        """
        return bool(self._defining.search(_without_marks(text)))

    def emphasized(self, text: str) -> bool:
        """Whether it is emphasized somewhere, as a term is where it is introduced.

        >>> term = term_of("What are p-values?")
        >>> term.emphasized("called a _p-value_."), term.emphasized("the **$p$-value**"), term.emphasized("a p-value")
        (True, True, False)
        """
        return bool(self._emphasized.search(text.replace("$", "")))

    def introduced(self, prose: str, headings: Sequence[str]) -> float:
        """What it is worth how a passage below headings introduces it; nothing if something else is asked."""
        if not self.alone:
            return 0.0
        headed = bool(headings and self._name.fullmatch(_without_marks(headings[-1]).strip()))
        return DEFINED * self.defined(prose) + EMPHASIZED * self.emphasized(prose) + HEADED * headed


@functools.lru_cache(maxsize=100)
def term_of(question: str) -> Term | None:
    """The term that a question asks for; none if it does not ask what something is.

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
        is_bare = len(question.split()) <= 3 and _ENDS.isdisjoint(question)
        terms, alone = [question] if is_bare else [], True
    names = [name for term in terms if (name := _name_of(term))]
    if not names:
        return None
    name = f"(?:{'|'.join(names)})"
    return Term(
        alone=alone,
        _name=re.compile(name, re.I),
        _defining=re.compile(rf"{_BEGINS}{name}{_ASIDE}\s+{_SAYS}", re.I | re.M),
        _emphasized=re.compile(rf"(?<![\w`])[_*]{{1,3}}{name}[_*]", re.I),
    )


def _without_marks(text: str) -> str:
    return EMPHASIS.sub("", text.replace("$", ""))


def _name_of(term: str) -> str:
    """A pattern of a term in the singular and the plural; empty where there is no word in it."""
    words = _without_marks(term).strip(" '").split()
    words = words[1:] if len(words) > 1 and words[0].lower() in _ARTICLES else words
    return r"\s".join(map(re.escape, words)).removesuffix("s") + r"(?:e?s|\(\))?" if words else ""
