"""What a question means beside its words: a chapter by its number, the section that is open, two things compared.

The patterns and words of each language are data: ``words/LANGUAGE.toml``.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Collection
from importlib import resources
from typing import NamedTuple

from lmm.markdown.sentences import WORD
from lmm_education.encode.bm25 import word_id, word_ids

LANGUAGES = ("en", "de", "es", "fr", "it", "nl", "pt")
"""Languages with a table of patterns."""


class _Table(NamedTuple):
    """The patterns of a language, and the ids of its words of instruction and of those that mean nothing alone."""

    here: tuple[re.Pattern[str], re.Pattern[str]]
    compare: re.Pattern[str]
    numbered: re.Pattern[str]
    instructions: frozenset[int | None]
    idle: frozenset[int | None]
    whole: frozenset[int | None]


def compared(question: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return what a question compares.

    >>> compared("Vergleiche Median und Modus in einer Tabelle.", ["de"]), compared("What is a trait?", ["en"])
    (('Median', 'Modus'), ())
    """
    tables = [_table(code) for code in LANGUAGES if code in languages]
    found = (table.compare.fullmatch(question.strip()) for table in tables)
    return next(((match["one"], match["other"]) for match in found if match), ())


def with_headings(question: str, heading: Callable[[str], str]) -> str:
    """Return a question, in any language, with numbers of chapters replaced by their headings; `heading` returns the
    heading of a number, empty if there is none.

    >>> with_headings("Summarize chapter 4.2.", {"4.2": "Slices"}.get)
    'Summarize Slices.'
    """
    for code in LANGUAGES:
        question = _table(code).numbered.sub(lambda match: heading(match["number"]) or match[0], question)
    return question


def with_here(question: str, heading: str, *, first: bool = True) -> str:
    """Return a question with the heading of the section that its reader has open, if it refers to it: by "this", in any
    language, or because it consists of instructions only. If it is not the `first` question, "that" refers to the
    conversation.

    >>> with_here("Explain this in two sentences.", "Slices"), with_here("Give me an example!", "Slices")
    ('Explain “Slices” in two sentences.', 'Give me an example: “Slices”')
    >>> with_here("What does this code do?", "Slices"), with_here("What does that mean?", "Slices", first=False)
    ('What does this code in “Slices” do?', 'What does that mean?')
    """
    named = f"“{heading}”"
    for code in LANGUAGES:
        table = _table(code)
        for pattern in table.here[: 1 + first]:
            if match := pattern.search(question):
                part = f"{match['part']} in " if match.groupdict().get("part") else ""
                return f"{question[: match.start()]}{part}{named}{question[match.end() :]}"
        if first and not table.instructions.isdisjoint(word_ids(question, code)) and not topic_words(question, [code]):
            return f"{question.strip().rstrip('.?!… ')}: {named}"
    return question


def topic_words(question: str, languages: Collection[str]) -> frozenset[str]:
    """Return the words that say what a question is about: neither stop words of one of the languages nor instructions.

    >>> topic_words("Summarize the chapter on Stems for me, please.", ["en"])
    frozenset({'stems'})
    """
    words = frozenset(WORD.findall(question.casefold()))
    for code in languages:
        without = _table(code).instructions | _table(code).idle | {None} if code in LANGUAGES else {None}
        words = frozenset(word for word in words if word_id(word, code) not in without)
    return words


def chapter_words(question: str, languages: Collection[str]) -> frozenset[str]:
    """Return the topic of a question that wants a summary, even if its word is one of instruction.

    >>> chapter_words("Summarize the chapter on testing.", ["en"])
    frozenset({'testing'})
    """
    whole = frozenset[int | None]().union(*(_table(code).whole for code in languages if code in LANGUAGES)) | {None}
    words = frozenset(WORD.findall(question.casefold()))
    left = (word for word in words if all(word_id(word, code) not in whole for code in languages))
    return topic_words(question, languages) or frozenset(left)


def asks_for_all(question: str) -> bool:
    """Return whether a question, in any language, wants a summary, or names a chapter as one.

    >>> asks_for_all("Summarize the chapter on stems."), asks_for_all("What is a stem?")
    (True, False)
    """
    return any(not _table(code).whole.isdisjoint(word_ids(question, code)) for code in LANGUAGES)


@functools.cache
def _table(language: str) -> _Table:
    forms = tomllib.loads(resources.files(__package__).joinpath("words", f"{language}.toml").read_text("utf-8"))
    here, at_first, compare, numbered = (
        "|".join(form.replace("{place}", forms["place"]) for form in forms[name])
        for name in ("here", "here_at_first", "compare", "numbered")
    )
    return _Table(
        (re.compile(rf"(?<!\w)(?:{here})(?!\w)", re.I), re.compile(rf"(?<!\w)(?:{at_first})(?!\w)", re.I)),
        re.compile(compare, re.I),
        re.compile(rf"\b(?:{numbered}) (?P<number>\d+(?:\.\d+)*)\b", re.I),
        *(frozenset(word_ids(forms[name], language)) for name in ("instructions", "idle", "whole")),
    )
