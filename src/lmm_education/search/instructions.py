"""Remove instructions from a question before it is searched: "Summarize the chapter on ownership" → *ownership*.

The patterns of each language are data: ``words/LANGUAGE.toml``.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

LANGUAGES = ("en", "de")
"""Languages with a table of patterns."""
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-ZÄÖÜ])")
_MOST_FORMS = 20  # instructions removed from a sentence, since each is searched for in all of it
_EDGES = " \t\n,;:–—-"
_QUOTES = frozenset("\"'“„‚‘«»”’")


class Topic(NamedTuple):
    """What a question is about: `text` is looked up, and so is each of the `parts` that it compares; `headings` are
    headings that it may name."""

    text: str
    headings: tuple[str, ...]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Table:
    """The patterns of a language."""

    here: tuple[re.Pattern[str], re.Pattern[str]]
    idle: re.Pattern[str]
    begin: re.Pattern[str]
    end: re.Pattern[str]
    whole: tuple[re.Pattern[str], ...]
    compare: tuple[re.Pattern[str], ...]
    within: tuple[re.Pattern[str], ...]
    numbered: re.Pattern[str]


def topic_of(question: str, languages: Collection[str]) -> Topic:
    """Return what a question is about, without its instructions; if it has nothing else, the whole question.

    >>> topic_of("Please summarize the chapter on ownership in three sentences.", ["en"]).text
    'ownership'
    >>> topic_of("What is a trait?", ["en"]).text, topic_of("Summarize!", ["en"]).text
    ('What is a trait?', 'Summarize!')
    >>> topic_of("Vergleiche Median und Modus in einer Tabelle.", ["de"]).parts
    ('Median', 'Modus')
    >>> topic_of('What does the section "Slices" say about memory?', ["en"])
    Topic(text='Slices memory', headings=('Slices',), parts=())
    """
    for table in _tables(languages):
        bare = _bare(question)
        if match := _first_match(table.compare, bare):
            parts = _bare(match["one"]), _without(table.end, _bare(match["other"]))
            return Topic(bare[match.start("one") : match.start("other")] + parts[1], parts, parts)
        if match := _first_match(table.within, bare):
            heading = _without_instructions(match["heading"], table)
            return Topic(f"{heading} {match['topic']}", (heading,))
        sentences = _SENTENCE.split(question)
        topics = [_without_instructions(sentence, table) for sentence in sentences]
        kept = " ".join(filter(None, topics))
        if kept and topics != sentences:
            return Topic(kept, (kept,))
    return Topic(question, (question,))


def with_headings(question: str, languages: Collection[str], heading: Callable[[str], str]) -> str:
    """Return a question with numbers of chapters replaced by their headings; `heading` returns the heading of a number,
    empty if there is none.

    >>> with_headings("Summarize chapter 4.2.", ["en"], {"4.2": "Slices"}.get)
    'Summarize Slices.'
    """
    for table in _tables(languages):
        question = table.numbered.sub(lambda match: heading(match["number"]) or match[0], question)
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
    for table in _tables(LANGUAGES):
        for pattern in table.here[: 1 + first]:
            if match := pattern.search(question):
                part = f"{match['part']} in " if match.groupdict().get("part") else ""
                return f"{question[: match.start()]}{part}{named}{question[match.end() :]}"
        left = "".join(_without_instructions(sentence, table) for sentence in _SENTENCE.split(question))
        if first and not left and not table.idle.fullmatch(_bare(question)):
            return f"{_bare(question)}: {named}"
    return question


def _tables(languages: Collection[str]) -> Iterator[_Table]:
    return (_table(language) for language in LANGUAGES if language in languages)


def _without_instructions(sentence: str, table: _Table) -> str:
    """Return a sentence without its instructions; unchanged if there are none."""
    rest = _bare(sentence)
    before = rest
    for _ in range(_MOST_FORMS):
        if match := _first_match(table.whole, rest):
            shorter = match["topic"]
        elif match := table.begin.match(rest):
            shorter = rest[match.end() :]
        else:
            break
        rest = _bare(shorter)
    return sentence if rest == before else _without(table.end, rest)


def _without(end: re.Pattern[str], text: str) -> str:
    for _ in range(_MOST_FORMS):
        if not (match := end.search(text)):
            break
        text = _bare(text[: match.start()])
    return text


def _first_match(patterns: Collection[re.Pattern[str]], text: str) -> re.Match[str] | None:
    return next(filter(None, (pattern.fullmatch(text) for pattern in patterns)), None)


def _bare(text: str) -> str:
    """Return a text without surrounding punctuation and quotes."""
    text = text.strip(_EDGES).replace("’", "'").rstrip(".?!…").strip(_EDGES)
    is_quoted = len(text) > 2 and _QUOTES.issuperset((text[0], text[-1]))
    return text[1:-1].strip() if is_quoted else text


@functools.cache
def _forms(language: str) -> dict[str, Any]:
    file = resources.files(__package__).joinpath("words", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@functools.cache
def _table(language: str) -> _Table:
    forms = _forms(language)
    begin, end, idle, here, at_first = (
        "|".join(_filled(forms, name)) for name in ("begin", "end", "idle", "here", "here_at_first")
    )
    whole, compare, within = (
        tuple(_compiled(form) for form in _filled(forms, name)) for name in ("whole", "compare", "within")
    )
    numbered = _compiled(rf"\b(?:{'|'.join(forms['numbered'])}) (?P<number>\d+(?:\.\d+)*)\b")
    return _Table(
        (_compiled(rf"(?<!\w)(?:{here})(?!\w)"), _compiled(rf"(?<!\w)(?:{at_first})(?!\w)")),
        _compiled(idle), _compiled(rf"(?:{begin})(?!\w)"), _compiled(rf"(?<!\w)(?:{end})\Z"),
        whole, compare, within, numbered,
    )  # fmt: skip


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _filled(forms: Mapping[str, list[str]], name: str) -> Iterator[str]:
    """Iterate over the patterns with that name, with references to lists replaced by them."""
    for form in forms[name]:
        yield re.sub(r"\{([a-z]+)\}", lambda match: rf"(?:{'|'.join(_filled(forms, match[1]))})\b", form)
