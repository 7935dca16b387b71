"""Answers without a language model: what is quoted, and when nothing is."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import TYPE_CHECKING

from lmm.models.builtin import NAME as EXTRACTIVE
from lmm.type_names import is_one_of
from lmm_education.answer import extractive
from lmm_education.answer.answer import Answer
from lmm_education.answer.chapters import by_number
from lmm_education.answer.sources import Sources
from lmm_education.answer.tutoring import explaining, hints_text
from lmm_education.answer.verification import Claim, Verification
from lmm_education.config import CourseSettings, StudySettings
from lmm_education.encode.bm25 import word_ids
from lmm_education.errors import SearchError
from lmm_education.material import Passage
from lmm_education.search.query import SearchNotice, SearchResult
from lmm_education.search.search import MEANING, NO_WORD, SearchView

if TYPE_CHECKING:
    from lmm_education.study.exercises import Exercise

NOTHING_FOUND = "Nothing in the course answers this."
UNSURE = SearchNotice("unsure", "these sentences have few of the question's words, and may not answer it")
_NEAREST = 3  # sections that are offered if nothing answers
_FIRST = 8  # passages in which exercises are looked for
_ANSWERED = 0.6
"""The least match of a quotation, as a share of the best exercise's: it is 0.83 and more where a text answers, and at
most 0.45 where only an exercise has the question's words."""
_ALIKE = 0.3
"""The least similarity in meaning of a quotation whose sections have only one of several words of the question. Of
144 questions of SQuAD's asked of the Rust book with MiniLM, 27 were answered and 19 are with this; of 559 that their
course answers, two more are refused with MiniLM and three with small vectors, one of which had the right answer."""
_UNSURE = 0.45
"""A quotation that matches less is said to be unsure. Of questions about SQuAD's articles that is so for 22 to 25 % if
what answers is left out, and for 4 % if it is there; of reworded ones for 73 to 88 %, whose quotation holds the answer
for 19 % with small vectors and for half with MiniLM (`benchmarks.refusals`)."""
_NAME = re.compile(r"(?<=[^.!?:\s] )(?<!\blike )(?<!\bas in )(?<!\bthan in )(?<!\bthan )[A-ZÀ-Þ][^\W\d_]{2,}")
"""A name within a sentence, unless something is compared with it. A question all of whose names occur nowhere in the
course is not answered by a quotation below `FAMILIAR`: of 140 of SQuAD's, 20 instead of 34 are answered from the Rust
book (small vectors); of 828 that their course answers, 8 are refused, all of them reworded."""


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
    unsure: tuple[SearchNotice, ...] = ()
    if entry:
        text, numbers = extractive.quote_whole(entry.heading, entry.text, 1), [sources.offer(entry).number]
    else:
        text, numbers, match, only = _quotation(view, result, sources, settings.study)
        unsure = (UNSURE,) * (match < _UNSURE and not (result.this or result.types))
    sources.renumber(numbers)
    if not text:
        return nothing_found(result, sources, settings, only)
    parts = [part for part in text.split("\n\n") if part.startswith(">")]
    claims = [Claim(part, at := text.index(part), at + len(part), (n,)) for n, part in enumerate(parts, 1)]
    answer = _answer(f"{text}\n\n{extractive.NOTICE}", result, sources)
    notices = answer.notices + unsure
    return dataclasses.replace(answer, notices=notices, verification=Verification(claims=tuple(claims)))


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
) -> tuple[str, list[int], float, Passage | None]:
    """Return the quoted sentences, the numbers of their sources, and how well they match; nothing if no passage matches
    well enough, or only an exercise does, and this exercise."""
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
    fits = partial(view.fits, result.text, languages=result.languages)
    near = max(fits([f"{' '.join(each.above)}\n{each.text}" for each in passages[: extractive.FOUND]]), default=0.0)
    text, quoted = "", list[int]()
    if near >= extractive.LEAST or result.this or sources.chapter:
        familiar = near >= extractive.FAMILIAR
        text, quoted = extractive.quote(
            result.text,
            passages,
            partial(fits, apart=familiar),
            familiar=familiar,
            without=asking_types,
            whole=bool(exercises),
        )
    alike = fits([item for item, _ in asked])
    best = max(alike, default=0.0)
    match = max(fits([text] if text else []), default=0.0)
    if best >= extractive.FAMILIAR and match < _ANSWERED * best:
        return "", [], 0.0, asked[alike.index(best)][1]
    sections = "\n".join(f"{each.path}\n{each.text}" for each in sources if each.number in quoted)
    chance = text and not (result.this or result.types) and view.compares_meaning(result.languages)
    for language in result.languages:  # only one of several words, as "match" of one about football
        words = set(word_ids(result.text, language)) - {None}
        chance = chance and len(words) > 1 >= len(words & set(word_ids(sections, language)))
    counts = view.catalogue.frequencies
    codes = [code for code in result.languages if code != "de"]  # in German, every noun has a capital
    names = {word for name in _NAME.findall(result.text) for code in codes for word in word_ids(name, code)}
    is_foreign = names - {None} and not any(counts[word] for word in names if word is not None)
    if is_foreign and match < extractive.FAMILIAR and not (result.this or result.types):
        return "", [], 0.0, None
    if chance and view.fits(result.text, [text], ())[0] < MEANING * _ALIKE:
        return "", [], 0.0, None
    return text, quoted, match, None


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
