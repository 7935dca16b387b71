"""Judge retrieval by the rank at which the right text was found, independently of how documents were cut.

*Passage.* The target is the passage that answers the question, however many chunks contain parts of it. Results are
read from the top, and the passage counts as found at the rank at which half of its words have been shown, or `ENOUGH`
words of a long one. So

- a chunk that contains the passage finds it, and so does the larger part of a passage that was cut in two;
- parts add up: five small chunks from one passage find it when enough of them are there, not with the first;
- showing the same words twice (overlapping chunks) has no effect;
- a long text has no advantage from its length: it is read in pages of `PAGE` characters, and each page takes a rank.
  The whole document in one chunk finds every passage in it, but at the rank of the right page.

Words are compared in runs of `RUN`, ignoring case, punctuation and markup. If a question has no passage but accepted
answers, a page that contains one of them finds it, within the document and section that are named.

*Section* and *document*. The ranking is that of distinct sections and documents. The right section is the one that is
named (or one below it), otherwise the one that contains the passage.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from lmm.markdown.sentences import WORD
from lmm_education.evaluation.questions import Question
from lmm_education.material import Passage, is_called
from lmm_education.search.ranking import is_section

Level = Literal["passage", "section", "document"]
LEVELS: tuple[Level, ...] = ("passage", "section", "document")
PAGE = 2000
"""Characters that are read at one rank: the size of a large chunk."""
RUN = 5
"""Consecutive words that must match to count: fewer would match everywhere."""
ENOUGH = 150
"""Words of a passage, about half a page, that suffice, however long it is."""

Words = tuple[str, ...]
SectionKey = tuple[str, tuple[str, ...]]
"""A document's id, and the headings of a section in it."""
_MARKUP = re.compile(r"\]\([^()\n]*\)|\]\[[^\[\]\n]*\]|</?[A-Za-z][^<>\n]{0,200}>")


@dataclass(frozen=True, slots=True)
class Expected:
    """The target of a question: its passages as words, and the sections that contain them."""

    question: Question
    passages: tuple[Words, ...] = ()
    answers: tuple[Words, ...] = ()
    sections: frozenset[SectionKey] = frozenset()

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which the question can be judged, whatever is in the store."""
        return levels_of(self.question)


def levels_of(question: Question) -> tuple[Level, ...]:
    """Return the levels at which a question can be judged, the most exact first.

    >>> levels_of(Question("?", document="a.md", section=("A",)))
    ('section', 'document')
    """
    others = {"passage": question.answers, "section": question.section, "document": question.document}
    return tuple(level for level in LEVELS if question.passages or others[level])


# -- words -----------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def words(text: str) -> Words:
    """Return the words of a text as readers see it: without case, punctuation, emphasis, tags, and link addresses.

    >>> words("The [*String* type](ch08-02.html) has a `push_str` method.")
    ('the', 'string', 'type', 'has', 'a', 'push', 'str', 'method')
    """
    plain = _MARKUP.sub(" ", unicodedata.normalize("NFKC", text))
    return tuple(WORD.findall(plain.casefold()))


def _runs(text: Words, length: int) -> list[Words]:
    """Return all runs of `length` words, in order."""
    return [text[i : i + length] for i in range(len(text) - length + 1)] if length else []


@lru_cache(maxsize=1024)
def _run_set(text: Words, length: int) -> frozenset[Words]:
    return frozenset(_runs(text, length))


def shown(passage: Words, text: Words) -> frozenset[int]:
    """Return the indices of a passage's words that occur in a text, in runs of `RUN` (or all of a shorter passage).

    >>> passage = words("Leaves are green because of chlorophyll, which absorbs red light.")
    >>> sorted(shown(passage, words("As said, leaves are green because of chlorophyll.")))
    [0, 1, 2, 3, 4, 5]
    >>> sorted(shown(passage, words("Chlorophyll absorbs red light; leaves are green.")))
    []
    """
    length = min(RUN, len(passage))
    there = _run_set(text, length)
    starts = [i for i, run in enumerate(_runs(passage, length)) if run in there]
    return frozenset(number for start in starts for number in range(start, start + length))


def enough(passage: Words) -> int:
    """Return how many words of a passage must be shown."""
    return max(1, min((len(passage) + 1) // 2, ENOUGH))


def contains(text: Words, phrase: Words) -> bool:
    """Return whether a text contains the phrase as whole words.

    >>> contains(words("It has 256 dimensions."), words("25"))
    False
    """
    return bool(phrase) and f" {' '.join(phrase)} " in f" {' '.join(text)} "


def pages(text: str) -> list[str]:
    """Return a text in pages of at most `PAGE` characters; a short one is one page.

    >>> [len(page) for page in pages("x " * 2500)]
    [2000, 2000, 1000]
    """
    return [text[i : i + PAGE] for i in range(0, max(len(text), 1), PAGE)]


# -- targets ---------------------------------------------------------------------------------------


def find_targets(
    questions: Iterable[Question], texts: Sequence[Passage]
) -> tuple[list[Expected], list[tuple[Question, str]]]:
    """Return the target of each question that has an answer, and those missing from the store, with the reason.

    `texts` are all chunks of the store. A question whose document, section or passage is not in the store keeps its
    target, which cannot be found: text that was lost in preparation must not improve the figures.
    """
    asked = [question for question in questions if not question.unanswerable]
    holders = _holders({words(passage) for question in asked for passage in question.passages}, texts)
    by_document: dict[str, list[Passage]] = {}
    for text in texts:
        by_document.setdefault(text.place.document, []).append(text)
    targets: list[Expected] = []
    missing: list[tuple[Question, str]] = []
    for question in asked:
        documents = {name: found for name, found in by_document.items() if is_named(question, found[0])}
        target = _target(question, documents, holders)
        targets.append(target)
        if problem := _missing(target, [text for found in documents.values() for text in found]):
            missing.append((question, problem))
    return targets, missing


def is_named(question: Question, text: Passage) -> bool:
    """Return whether a text is from the document that a question names; True if it names none."""
    return not question.document or is_called(question.document, text.place.document, text.place.file, text.title)


def _target(question: Question, documents: Collection[str], holders: Mapping[Words, Sequence[SectionKey]]) -> Expected:
    passages = tuple(filter(None, map(words, question.passages)))
    answers = () if passages else tuple(filter(None, map(words, question.answers)))
    there = [key for passage in passages for key in holders[passage] if key[0] in documents]
    return Expected(question, passages, answers, frozenset(there))


def _missing(target: Expected, texts: Sequence[Passage]) -> str:
    """Return what part of the target is not in the store; `texts` are those of the documents that it names."""
    question = target.question
    inside = [t for t in texts if not question.section or is_section(question.section, t.place, t.title, words)]
    if not texts:
        return f"there is no document '{question.document}' in the store"
    if not inside:
        return f"there is no section '{' > '.join(question.section)}' in the store"
    if target.passages and not target.sections:
        return "the passage is not in the store"
    if target.answers and not any(contains(words(text.text), a) for text in inside for a in target.answers):
        return "none of the answers is in the store"
    return ""


def _holders(passages: Collection[Words], texts: Sequence[Passage]) -> dict[Words, list[SectionKey]]:
    """Return the sections that contain each passage: in each document with enough of it, those with most of it."""
    starts: dict[Words, list[tuple[Words, int]]] = {}
    for passage in passages:
        for start, run in enumerate(_runs(passage, min(RUN, len(passage)))):
            starts.setdefault(run, []).append((passage, start))
    lengths = {len(run) for run in starts}
    found: dict[Words, dict[SectionKey, set[int]]] = {passage: {} for passage in passages}
    for text in texts:
        key = _section_key(text)
        for run in (run for length in lengths for run in _runs(words(text.text), length)):
            for passage, start in starts.get(run, ()):
                found[passage].setdefault(key, set()).update(range(start, start + len(run)))
    return {passage: _most(passage, parts) for passage, parts in found.items()}


def _most(passage: Words, parts: Mapping[SectionKey, set[int]]) -> list[SectionKey]:
    """Return the sections with most of a passage, for each document that contains enough of it."""
    chosen: list[SectionKey] = []
    for document in {document for document, _ in parts}:
        own = {key: part for key, part in parts.items() if key[0] == document}
        if len(set().union(*own.values())) >= enough(passage):
            most = max(map(len, own.values()))
            chosen += [key for key, part in own.items() if len(part) == most]
    return chosen


# -- ranks -----------------------------------------------------------------------------------------


def find_ranks(target: Expected, found: Sequence[Passage], sections: Sequence[Passage] = ()) -> dict[Level, int | None]:
    """Return the ranks, from 1, at which the right passage, section and document were found; None if they were not.

    `found` are passages, best first; `sections` is a separate ranking of sections, by default the order in which the
    passages' sections occur.
    """
    ranks: dict[Level, int | None] = {
        "passage": _passage_rank(target, found),
        "section": _rank(sections or found, _section_key, partial(_in_right_section, target)),
        "document": _rank(found, lambda text: text.place.document, partial(_in_right_document, target)),
    }
    return {level: ranks[level] for level in target.levels}


def _passage_rank(target: Expected, found: Sequence[Passage]) -> int | None:
    question = target.question
    parts: list[set[int]] = [set() for _ in target.passages]
    rank = 0
    for text in found:
        right_place = is_named(question, text)
        right_section = not question.section or is_section(question.section, text.place, text.title, words)
        for page in pages(text.text):
            rank += 1
            if not right_place:
                continue
            read = words(page)
            for passage, part in zip(target.passages, parts, strict=True):
                part |= shown(passage, read)
                if len(part) >= enough(passage):
                    return rank
            if right_section and any(contains(read, answer) for answer in target.answers):
                return rank
    return None


def _rank(
    found: Sequence[Passage], key: Callable[[Passage], object], is_right: Callable[[Passage], bool]
) -> int | None:
    """Return the rank of the first right text among distinct keys."""
    seen = set[object]()
    for text in found:
        seen.add(key(text))
        if is_right(text):
            return len(seen)
    return None


def _section_key(text: Passage) -> SectionKey:
    return text.place.document, text.place.headings


def _in_right_section(target: Expected, text: Passage) -> bool:
    if target.question.section:
        return is_named(target.question, text) and is_section(target.question.section, text.place, text.title, words)
    if _section_key(text) in target.sections:
        return True
    read = words(text.text)
    return is_named(target.question, text) and any(len(shown(one, read)) >= enough(one) for one in target.passages)


def _in_right_document(target: Expected, text: Passage) -> bool:
    if target.question.document:
        return is_named(target.question, text)
    return text.place.document in {document for document, _ in target.sections}
