"""Answers without a language model: what is quoted, and when nothing is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from lmm.markdown.sentences import WORD
from lmm.models.builtin import NAME as EXTRACTIVE
from lmm.type_names import is_one_of
from lmm_education.answer import extractive
from lmm_education.answer.answer import Answer
from lmm_education.answer.chapters import by_number
from lmm_education.answer.sources import Sources
from lmm_education.answer.tutoring import explaining, hints_text
from lmm_education.answer.verification import Claim, Verification
from lmm_education.config import CourseSettings, StudySettings
from lmm_education.errors import SearchError
from lmm_education.material import Passage
from lmm_education.search.instructions import LANGUAGES, asks_for_all, chapter_words
from lmm_education.search.query import SearchNotice, SearchResult
from lmm_education.search.search import NO_WORD, SearchView

if TYPE_CHECKING:
    from lmm_education.study.exercises import Exercise

NOTHING_FOUND = "Nothing in the course answers this."
CLOSEST = "The course may not answer this. What comes closest:"
"""Before a quotation that has little of the question: an answer that begins so counts as unanswered (`declines`)."""
_NEAREST = 3  # sections that are offered if nothing answers
_FIRST = 8  # passages in which exercises are looked for
_ANSWERED, _ASKED = 0.6, 0.5
"""The least match of a quotation, as a share of the best exercise's, if that is at least `_ASKED`: it is 0.83 and more
where a text answers, and at most 0.45 where only an exercise has the question's words."""


def quoted_answer(
    view: SearchView, result: SearchResult, sources: Sources, settings: CourseSettings, *, is_relevant: bool
) -> Answer:
    """Return an answer of quotations, which need no check; the closest sources if nothing is quoted.

    Raises:
        SearchError: there is no question besides the document or the type.
    """
    missing, entry = by_number(result, view, settings.study)
    if missing or not (entry or is_relevant):
        return nothing_found(result, sources, settings, text=missing)
    if entry:
        whole = extractive.quote_whole(entry.heading, entry.text, 1)
        quoted, only = extractive.QuotedText(whole, [sources.offer(entry).number]), None
    else:
        quoted, only = _quotation(view, result, sources, settings.study)
    sources.renumber(quoted.numbers)
    if not quoted.text:
        return nothing_found(result, sources, settings, only)
    text = quoted.text if quoted.covered else f"{CLOSEST}\n\n{quoted.text}"
    parts = [part for part in text.split("\n\n") if part.startswith(">")]
    claims = [Claim(part, at := text.index(part), at + len(part), (n,)) for n, part in enumerate(parts, 1)]
    answer = _answer(f"{text}\n\n{extractive.NOTICE}", result, sources)
    return dataclasses.replace(answer, verification=Verification(claims=tuple(claims)))


def hints_answer(exercise: Exercise, result: SearchResult, sources: Sources) -> Answer:
    """Return hints for an exercise, which is not solved."""
    sources.renumber([each.number for each in explaining(sources, exercise)[:1]])
    return _answer(hints_text(exercise, result.question, sources), result, sources)


def _answer(text: str, result: SearchResult, sources: Sources) -> Answer:
    return Answer(
        result.question, text, result.text, tuple(sources), sources.cited_in(text), types=result.types,
        model=EXTRACTIVE, notices=result.notices, usage=result.usage,
    )  # fmt: skip


def _quotation(
    view: SearchView, result: SearchResult, sources: Sources, study: StudySettings
) -> tuple[extractive.QuotedText, Passage | None]:
    """Return what is quoted; nothing if no passage matches well enough, or only an exercise does, and this exercise."""
    if not result.text.strip():
        raise SearchError("there is no question besides the document or type", hint="write one")
    hits = [hit for hit in result.hits if not result.this or result.is_here(hit)]
    asking_types = () if result.types else (*study.exercises, *study.solutions, "topic")  # they ask, and do not answer
    passages = [
        dataclasses.replace(hit, number=number)
        for hit in hits
        if not is_one_of(hit.type, (*asking_types, "summary"))
        and (number := sources.number_of(hit.section) or sources.number_of(hit.id)) is not None
    ]
    exercises = [each for each in passages if result.types and is_one_of(each.type, study.exercises)]
    passages = exercises or passages
    asked = [
        (item, hit)
        for hit in hits[:_FIRST]
        for item in extractive.items_below(
            hit.text, hit.type if is_one_of(hit.type, asking_types) else hit.heading, asking_types
        )
    ]
    is_open = bool(result.this or result.types or sources.chapter)
    if asks_for_all(result.question):  # a chapter with a single section
        topic, asked_words = chapter_words(result.text, {*result.languages, *LANGUAGES}), _words(result.text)
        chapter = [
            each
            for each in passages
            if any(_words(heading) <= asked_words for heading in each.place.headings)
            or (topic and topic <= _words(each.path))
        ]
        passages, is_open = chapter or passages, is_open or bool(chapter)
    evidence = None if is_open else partial(view.evidence, result.text, languages=result.languages)

    def fits(texts: Sequence[str], apart: bool = False) -> list[float]:
        return view.fits(result.text, texts, result.languages, apart=apart)

    found = extractive.quote(result.text, passages, fits, evidence, without=asking_types, whole=bool(exercises))
    if asked:
        alike = fits([item for item, _ in asked])
        match = max(fits([found.text] if found.text else []), default=0.0)
        if max(alike) >= _ASKED and match < _ANSWERED * max(alike):
            return extractive.QuotedText(), asked[alike.index(max(alike))][1]
    return found, None


def _words(text: str) -> set[str]:
    return {*WORD.findall(text.casefold())}


def nothing_found(
    result: SearchResult, sources: Sources, settings: CourseSettings, exercise: Passage | None = None, *, text: str = ""
) -> Answer:
    """Return the answer if nothing relevant was found, with the closest sources; first the `exercise` that has the
    question's words. Its `text` is by default the configured one."""
    text = text or settings.answer.nothing_found or NOTHING_FOUND
    notices = tuple(notice for notice in result.notices if notice != NO_WORD)  # it is about results
    nearest, first = dict[str, Passage](), (exercise.id, exercise.section) if exercise else ()
    for source in sorted(sources, key=lambda source: source.id not in first):
        nearest.setdefault(source.path, source)
    if exercise:
        why = "only an exercise or its solution has the words of the question"
        notices += (SearchNotice("only_exercise", why),)
    offered = tuple(nearest.values())[:_NEAREST]
    return Answer(
        result.question, text, result.text, offered, types=result.types, found=False, notices=notices,
        usage=result.usage,
    )  # fmt: skip
