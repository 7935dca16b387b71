"""What is shown of a search result: a whole chapter or document, in the order of the book, or the best sections."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from lmm.markdown.page_marks import Pages
from lmm.models.tokens import count_tokens
from lmm.type_names import named_type
from lmm_education.answer.sources import WHOLE, Sources, choose_sources, cost_of, shortened
from lmm_education.answer.tutoring import CALLED, called, exercises_in, labelled, number_of
from lmm_education.catalogue import Catalogue, Entry
from lmm_education.config import StudySettings
from lmm_education.encode.bm25 import word_ids
from lmm_education.material import Passage
from lmm_education.payloads import StoredDocument
from lmm_education.search.instructions import LANGUAGES, asks_for_all, chapter_words
from lmm_education.search.query import SearchResult
from lmm_education.search.search import SearchView

_SLIDE = re.compile(r"\b(?:slide|folie)\s+(?P<number>\d+)\b", re.IGNORECASE)
_LEAST_TOKENS = 20  # of a section, with its place
_MOST_KNOWN = 12  # numbers that are named
_ALIKE = 0.5  # least share of common words among those of a heading and of a question's topic


def choose_material(result: SearchResult, view: SearchView, budget: int, study: StudySettings) -> Sources:
    """Choose what the model is shown of a search result, within a budget of tokens: the chapter that the question wants
    summarized; all of the course or of a document if it is small; else the best sections and passages."""
    narrowed = result.types or result.options.types or result.options.where
    if not narrowed:
        without = (*study.exercises, *study.solutions)
        if chapter := chapter_sources(result, view, budget, count_tokens, without=without):
            return chapter
    whole = [] if narrowed or result.options.section else _whole_documents(result, view, budget)
    return choose_sources(result.sections, budget, count_tokens, whole)


def _whole_documents(result: SearchResult, view: SearchView, budget: int) -> list[Passage]:
    """Return the sections of the course, or of those documents that the question names, if all of them fit into a
    budget of tokens; else of the document that holds most of what was found, if it leaves room for what others hold;
    else nothing."""
    votes = defaultdict[str, float](float)
    for section in result.sections:
        votes[section.place.document] += section.score
    stored = [each for each in view.catalogue.documents if not result.documents or each.id in result.documents]
    best = [each for each in stored if 2 * votes[each.id] > sum(votes.values())]
    for documents in (stored, best):
        others = len(documents) < len(stored) and len(votes) > 1
        room = int(budget * WHOLE) if others else budget
        if not votes or sum(each.sections for each in documents) * _LEAST_TOKENS > room:
            continue

        def read(documents: Sequence[StoredDocument] = documents, room: int = room) -> list[Passage]:
            names = {each.id for each in documents}
            ids = [section.id for section, _ in view.catalogue.sections if section.place.document in names]
            found = [section for section in view.sections(ids) if section.text]
            return found if sum(cost_of(section, count_tokens) for section in found) <= room else []

        # Cached, since every question would read all of them: a third of the processor time of an answer.
        if whole := view.catalogue.once(f"whole {room} {[each.id for each in documents]}", read):
            return whole
    return []


def chapter_sources(
    result: SearchResult, view: SearchView, budget: int, count: Callable[[str], int], *, without: Collection[str]
) -> Sources | None:
    """Return the sections of the chapter that a question wants summarized, in their order, without those called as one
    of some types; None if it names none, or one with a single section. If not all fit into a budget of tokens, the
    introduction and the summary stay whole, and long others are cut to equal shares of what is left.
    """
    catalogue = view.catalogue
    chapter = _asked_for(result, catalogue) if asks_for_all(result.question) else None
    if chapter is None:
        return None
    inner = f"{chapter.number}." if chapter.number and not chapter.level else "\0"
    files = {each.file for each in catalogue.contents if not each.level and each.number.startswith(inner)}
    places = [(section.id, section.place) for section, _ in catalogue.sections]
    below = (chapter.file, chapter.headings)
    ids = [id for id, at in places if at.file in files or (at.file, at.headings[: chapter.level]) == below]
    sections = [each for each in view.sections(ids) if each.text and not _is_called(each, without)]
    if len(sections) < 2:
        return None
    costs = {each.id: cost_of(each, count) for each in sections}
    whole = {each.id for at, each in enumerate(sections) if not at or _is_called(each, ("summary",))}
    if sum(costs[id] for id in whole) > budget * WHOLE:
        whole = set()
    remaining = budget - sum(costs[id] for id in whole)
    share, sources = (
        _share([costs[each.id] for each in sections if each.id not in whole], remaining),
        Sources(chapter.title),
    )
    for section in sections:
        numbered = replace(section, number=len(sources) + 1)
        cut = numbered if section.id in whole or costs[section.id] <= share else shortened(numbered, share, count)
        if cut is not numbered:
            sources.is_part = True
        if cut is not None:
            sources.add(cut)
    return sources if len(sources) else None


def by_number(result: SearchResult, view: SearchView, study: StudySettings) -> tuple[str, Passage | None]:
    """Return what a question asks for by its number, an exercise, a slide or what a paragraph is labelled as, such as
    Definition 2.2: its section, with no more than its text. If the course has others of its kind, but not this one,
    return a sentence that says so and which there are.
    """
    documents = result.documents
    sections = [each for each, _ in view.catalogue.sections if not documents or each.place.document in documents]
    if named := _SLIDE.search(result.text):
        slides = [(each.id, Pages.read(each.place.page)) for each in sections if each.place.page.startswith("slide ")]
        found = [id for id, at in slides if at.first <= float(named["number"]) <= at.last]
        if not found:
            return f"There is no slide {named['number']} in the course." if slides else "", None
        section = view.sections(found[:1])[0]
        part = re.search(rf"^#+ +{named[0]}\b.*?(?=^#|\Z)", section.text, re.IGNORECASE | re.MULTILINE | re.DOTALL)
        return "", replace(section, text=part[0] if part else section.text)
    if not (named := CALLED.search(result.text)):
        return _labelled(result, view)
    files = {each.place.file for each in sections}
    every = [each for each in exercises_in(view.catalogue, study) if each.file in files]
    matching = called(result.text, every, result.hits, view.catalogue.languages)
    if not matching:
        return _missing(named[0], named[1], map(number_of, every)), None
    if len(matching) > 1:
        matching.sort(key=every.index)
        places = ", ".join(
            f"“{' › '.join(each.headings) or each.document}” ({each.file}:{each.line})"
            for each in matching[:_MOST_KNOWN]
        )
        return f"There are {len(matching)} called {named[0]}: in {places}. Add a word of the one that you mean.", None
    exercise = matching[0]
    enclosing = [each for each in sections if each.place.file == exercise.file]
    enclosing = [each for each in enclosing if each.place.lines.first <= exercise.line <= each.place.lines.last]
    own = labelled(exercise.text, named[1])
    text = own or (f"# {exercise.title}\n\n{exercise.text}" if exercise.title else exercise.text)
    return "", replace(view.sections([enclosing[-1].id])[0], text=text) if enclosing else None


_NUMBERED = re.compile(r"\b(?P<kind>[^\W\d_]{4,20})\s+(?P<number>\d+(?:[.-]\d+)*)")


def _labelled(result: SearchResult, view: SearchView) -> tuple[str, Passage | None]:
    """Return the paragraph with the label that a question names, and its section; see `by_number`."""
    if not (named := _NUMBERED.search(result.text)):
        return "", None
    number, known = named["number"], list[str]()
    label = re.compile(
        rf"^[ \t>]*(?P<mark>[*_]{{1,3}}|#+ )?{re.escape(named['kind'])}\s+(?P<number>\d+(?:[.-]\d+)*)(?(mark)|[.:])",
        re.IGNORECASE | re.MULTILINE,
    )
    for hit in view.catalogue.mentions(named["kind"]):
        if result.documents and hit.place.document not in result.documents:
            continue
        for match in label.finditer(hit.text):
            if match["number"] != number:
                known.append(match["number"])
                continue
            first, _, rest = hit.text[match.start() :].partition("\n\n")
            text = f"{first}\n\n{rest.partition(chr(10) * 2)[0]}" if first.rstrip().endswith(":") else first
            return "", replace(view.sections([hit.section])[0], text=text)
    return _missing(named[0], number, known), None


def _missing(name: str, number: str, known: Iterable[str]) -> str:
    """Return a sentence on something that the course does not have, and what it has of its kind; empty if none."""
    others = list(dict.fromkeys(known))
    some = ", ".join(others[:_MOST_KNOWN]) + ", …" * (len(others) > _MOST_KNOWN)
    kind = name.removesuffix(number).strip()
    return f"There is no {kind} {number} in the course; it has {some}." if others else ""


def _is_called(section: Passage, types: Collection[str]) -> bool:
    """Return whether a section stands below a heading called as one of the types, such as Exercises."""
    return any(named_type(heading, types) for heading in section.place.headings)


def _share(costs: Sequence[int], budget: int) -> int:
    """Return the most that each text may cost, if short ones leave their rest to the others.

    >>> _share([10, 500, 20, 700], 630), _share([1, 2], 10)
    (300, 10)
    """
    remaining = budget
    for unserved, cost in zip(range(len(costs), 0, -1), sorted(costs), strict=True):
        if cost * unserved > remaining:
            return remaining // unserved
        remaining -= cost
    return budget


def _asked_for(result: SearchResult, catalogue: Catalogue) -> Entry | None:
    """Return the heading, or the document, whose title, or what is in front of a colon in it, is the question's topic;
    else the highest one that has its words, if no other has at that level; else the one with few other words."""
    files = {each.file for each in catalogue.documents if not result.documents or each.id in result.documents}
    best, found, others = 0.0, None, list[Entry]()
    for language in catalogue.languages:
        topic = _stems(chapter_words(result.text, {language, *LANGUAGES}), language)
        for entry in catalogue.contents if topic else ():
            if entry.file not in files:
                continue
            for name in dict.fromkeys((entry.title, entry.title.partition(":")[0])):
                title = _stems(name.split(), language)
                alike = len(topic & title) / len(topic | title) if topic <= title or title <= topic else 0.0
                if alike >= _ALIKE and (value := alike - entry.level / 100) > best:
                    best, found = value, entry
                others += [entry] if topic <= title else []
    levels = [(each.level, each.number.count(".")) for each in others]
    is_same = best >= 0.99  # a document, or a heading of the first level
    return others[levels.index(min(levels))] if levels and not is_same and levels.count(min(levels)) == 1 else found


def _stems(words: Iterable[str], language: str) -> set[int | None]:
    return set(word_ids(" ".join(words), language)) - {None}
