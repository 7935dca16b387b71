"""Tutoring: a student's question is answered directly, with an explanation, or with hints if it matches an exercise.

It matches if an exercise is the first result, or if the question has most of the words of an exercise; but one or two
words that are mentioned in an exercise ("Who was Ronald Fisher?") do not make a question about it, nor do words more of
which are in an ordinary text; what something is, is explained. Additions (a role, a permission, another language for
the answer) do not remove any of these words. Earlier questions of the conversation are included, so that an exercise
cannot be asked piece by piece. No model judges this.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from lmm.markdown import HeadingBlock, parse_markdown_text
from lmm.markdown.sentences import WORD
from lmm.messages import Attachment, ChatRequest, Message, tagged
from lmm.type_names import is_one_of, named_type, names_of
from lmm_education.answer.answer import background_of
from lmm_education.answer.history import Understood
from lmm_education.answer.languages import by_language
from lmm_education.answer.sources import Sources, as_document
from lmm_education.catalogue import Catalogue
from lmm_education.config import CourseSettings, Mode, StudySettings
from lmm_education.encode.bm25 import word_id, word_ids
from lmm_education.frequencies import share_of
from lmm_education.ingestion.block_kinds import ITEM_START
from lmm_education.material import Passage
from lmm_education.search.instructions import LANGUAGES, asks_for_all
from lmm_education.search.query import SearchResult
from lmm_education.search.ranking import term_of

if TYPE_CHECKING:
    from lmm_education.study.exercises import Exercise

TURNS = 4
"""Number of earlier questions that are included."""
_SAME, _NEAR = 0.6, 0.25  # share of an exercise's words; the lower one suffices for exercises among the first results
_FIRST = 4  # passages
_FEWEST = 4  # words of an item of an exercise that are needed to recognize it
_ASKING = 3  # words besides stop words with which a question asks about more than a term


@dataclass(frozen=True, slots=True)
class Tutoring:
    """The mode in which a question is answered, and the exercise that it matches, if any."""

    mode: Mode = "answer"
    exercise: Exercise | None = None

    @property
    def hinted(self) -> Exercise | None:
        """The exercise for which hints are given instead of an answer."""
        return self.exercise if self.mode == "hints" else None


@dataclass(frozen=True, slots=True)
class _Wording:
    """The words of an exercise, or of one of its items, in one language, with their weights."""

    exercise: Exercise
    language: str
    weights: Mapping[int, float]


def tutoring_for(
    catalogue: Catalogue, settings: CourseSettings, result: SearchResult, asked: Sequence[str]
) -> Tutoring:
    """Return how to answer the last question in `asked`, by [serve] `mode` and `modes`."""
    serve = settings.serve
    wordings = catalogue.once("wordings of exercises", lambda: list(_wordings(catalogue, settings)))
    every = (each.exercise for each in wordings)
    exercise = next(iter(called(" ".join(asked[-2:]), every, result.hits, catalogue.languages)), None)
    if exercise is None and not CALLED.search(asked[-1]):
        others = [each for each in asked if not _asks_for_term(each)]
        exercise = _match(wordings, result.hits[:_FIRST], "\n".join(others)) if others else None
    if exercise is None:
        return Tutoring("explain" if serve.mode == "hints" else serve.mode)
    modes = {kind.strip().casefold(): mode for kind, mode in serve.modes.items()}
    return Tutoring(modes.get(exercise.type.strip().casefold(), serve.mode), exercise)


_NAMES = "|".join(sorted(names_of("exercise"), key=len, reverse=True))
CALLED = re.compile(rf"\b(?:{_NAMES}|problems?|tasks?)\s+(?:n[or]\.?\s*)?(\d+(?:\.\d+)*)", re.IGNORECASE)
_TITLED, _LISTED = re.compile(r"(?:[^\W\d]+\.? )?\(?(\d+(?:\.\d+)*)"), re.compile(r"\(?(\d+)\\?[.)](?!\S)")


_LABEL = re.compile(rf"^[ \t>*_]*{CALLED.pattern}", re.IGNORECASE | re.MULTILINE)


def called(
    question: str, exercises: Iterable[Exercise], hits: Sequence[Passage], languages: Collection[str]
) -> list[Exercise]:
    """Return the exercises that a question asks for by their number, which their title or a label in their text has,
    or the item of a list that they are, or which counts them in their document: of several, those with most of the
    question's other words, the first that was found first."""
    if not (named := CALLED.search(question)):
        return []
    rest = {code: set(word_ids(CALLED.sub(" ", question), code)) - {None} for code in languages}
    found: dict[tuple[str, int, str], tuple[int, int, Exercise]] = {}
    for each in exercises:
        if named[1] != number_of(each) and labelled(each.text, named[1]) is None:
            continue
        text = "\n".join((each.document, *each.headings, each.title, labelled(each.text, named[1]) or each.text))
        common = max((len(words & set(word_ids(text, code))) for code, words in rest.items()), default=0)
        rank = next((at for at, hit in enumerate(hits) if _is_in(hit, each)), len(hits))
        found[each.file, each.line, each.text] = (common, rank, each)
    most = max((common for common, _, _ in found.values()), default=0)
    best = sorted((each for each in found.values() if each[0] == most), key=lambda each: each[1])
    return [exercise for _, _, exercise in best]


def number_of(exercise: Exercise) -> str:
    """Return the number by which an exercise is asked for; that of a heading over several is none."""
    own = None if named_type(exercise.title, [exercise.type], plural=True) else _TITLED.match(exercise.title)
    own = own or _LABEL.match(exercise.text) or _LISTED.match(exercise.text)
    return own[1] if own else str(exercise.number)


def labelled(text: str, number: str) -> str | None:
    """Return the part of a text from the label of this exercise to the next label; None if there is none.

    >>> labelled("Exercise 1. Why?\\n\\nExercise 2. When?", "2"), labelled("Why?", "2")
    ('Exercise 2. When?', None)
    """
    labels = [*_LABEL.finditer(text), None]
    for label, after in pairwise(labels):
        if label and label[1] == number:
            return text[label.start() : after.start() if after else len(text)].strip()
    return None


def exercises_in(catalogue: Catalogue, study: StudySettings, modes: Iterable[str] = ()) -> list[Exercise]:
    """Return the exercises of a course, and the texts of the types that have a mode of tutoring of their own."""
    # They import the reading of documents, which few questions need.
    from lmm_education.study.exercises import find_exercises
    from lmm_education.study.study_documents import documents_in

    return find_exercises(documents_in(catalogue), kinds=(*study.exercises, *modes), solutions=study.solutions)


def _wordings(catalogue: Catalogue, settings: CourseSettings) -> Iterator[_Wording]:
    for exercise in exercises_in(catalogue, settings.study, settings.serve.modes):
        for number, text in enumerate([exercise.text, *ITEM_START.split(exercise.text)]):
            for language in catalogue.languages:
                words = {word for word in word_ids(text, language) if word is not None}
                if words and (not number or len(words) >= _FEWEST):
                    yield _Wording(exercise, language, {word: catalogue.frequencies.idf(word) for word in words})


def _match(wordings: Sequence[_Wording], hits: Sequence[Passage], asked: str) -> Exercise | None:
    languages = {each.language for each in wordings}
    words = {code: set(word_ids(asked, code)) - {None} for code in languages}
    texts = [(hit, {code: set(word_ids(hit.text, code)) for code in languages}) for hit in hits]
    is_named, has_number = _names_result(asked), any(map(str.isdigit, asked)) and not asks_for_all(asked)
    is_specific, is_brief = is_named or has_number, not has_number and _content(asked) < _ASKING
    best, found = 0.0, None
    for each in wordings:
        own, code = each.weights.keys(), each.language
        share = share_of(each.weights, words[code])  # type: ignore[arg-type]  # without None
        rank = next((rank for rank, hit in enumerate(hits) if _is_in(hit, each.exercise)), _FIRST)
        matches = share >= (_SAME if rank == _FIRST else _NEAR / (1 + is_specific))
        matches |= rank == 0 and (is_named or (not is_brief and len(own & words[code]) > 1))
        if matches and share < _SAME and not is_specific:  # it may be about the subject
            others = (held[code] for hit, held in texts if not _has(hit, each.exercise))
            matches = all(len(words[code] & other) <= len(words[code] & own) for other in others)
        if matches and (value := share + (1 - rank / _FIRST)) > best:
            best, found = value, each.exercise
    return found


_NUMBER = re.compile(r"\b\d+(?:\.\d+|[a-z]\b)")


def _names_result(asked: str) -> bool:
    """Return whether a text has the number of an exercise that is no chapter's, or a word for one exercise or for
    solutions, as "the solution of 3b" has."""
    words = [word.strip(".,;:!?¿\"'") for word in asked.split()]
    is_one = (named_type(each, ("exercise",)) and not named_type(each, ("exercise",), plural=True) for each in words)
    has_number = _NUMBER.search(asked) is not None and not asks_for_all(asked)
    return has_number or any(is_one) or any(named_type(each, ("solution",)) for each in words)


def _content(asked: str) -> int:
    """Return the number of words of a text that are stop words in no language."""
    words = {*WORD.findall(asked.casefold())}
    return sum(all(word_id(word, code) is not None for code in LANGUAGES) for word in words)


def _asks_for_term(question: str) -> bool:
    """Return whether a question asks what something is, which is explained, whatever exercise has its name."""
    term = term_of(question.rstrip(" .?!…") + "?")
    return term is not None and term.alone and not _names_result(question) and _content(question) < _ASKING


def _has(hit: Passage, exercise: Exercise) -> bool:
    """Return whether a passage is one of the exercise's type, or has its text."""
    return is_one_of(hit.type, (exercise.type,)) or " ".join(exercise.text.split()) in " ".join(hit.text.split())


def _is_in(hit: Passage, exercise: Exercise) -> bool:
    """Return whether a passage is an exercise, or a part of it."""
    if hit.place.file != exercise.file:
        return False
    passage, text = " ".join(hit.text.split()), " ".join(exercise.text.split())
    is_part = is_one_of(hit.type, (exercise.type,)) or 2 * len(text) > len(passage)
    return passage in text or (text in passage and is_part)


# -- hints -----------------------------------------------------------------------------------------


def explaining(sources: Sources, exercise: Exercise) -> list[Passage]:
    """Return the sources that are not exercises or solutions themselves: first those of the exercise's chapter."""
    kinds, place = _kinds(exercise), (exercise.file, *exercise.headings)
    found = (
        source
        for source in sources
        if not (is_one_of(source.type, kinds) or any(named_type(name, kinds) for name in source.place.headings))
    )
    return sorted(found, key=lambda each: -sum(map(str.__eq__, place, (each.place.file, *each.place.headings))))


def _headings(source: Passage, exercise: Exercise) -> str:
    """Return the headings in a source's text, except those of exercises."""
    blocks = (block for block in parse_markdown_text(source.text) if isinstance(block, HeadingBlock))
    return "\n".join(block.source.strip() for block in blocks if not named_type(block.title, _kinds(exercise)))


def _kinds(exercise: Exercise) -> tuple[str, ...]:
    return exercise.type, "exercise", "solution"


def hints_request(asked: Understood, exercise: Exercise, sources: Sources, system: str) -> ChatRequest:
    """Return a request for hints: the question with the exercise, and only the headings of the sources that explain,
    which the student should read, so that the model cannot be made to copy the answer from them."""
    headings = (
        as_document(replace(source, text=_headings(source, exercise), above=(), before="", after=""))
        for source in explaining(sources, exercise) or sources
    )
    documents = (*background_of(asked), Attachment(exercise.text, "exercise"), *headings)
    question = tagged(Attachment(asked.question, "question"))
    return ChatRequest((Message("system", system), Message("user", question, documents)))


def hints_text(exercise: Exercise, question: str, sources: Sources) -> str:
    """Return hints without a language model: the exercise, a question, the section to read, and the first step if the
    exercise has steps; in the language of the question."""
    read = (explaining(sources, exercise) or list(sources))[:1]
    quoted = "\n".join(f"> {line}".rstrip() for line in exercise.text.strip().splitlines())
    steps = [step.strip() for step in ITEM_START.split(exercise.text)[1:] if step.strip()]  # a single one is no step
    say = _hint_words(question)
    return "\n\n".join([
        say["exercise"], quoted, say["question"],
        *(say["read"].replace("{section}", f"{source.path} [{source.number}]") for source in read),
        *(say["step"].replace("{step}", step) for step in steps[: len(steps) > 1]),
    ])  # fmt: skip


def _hint_words(question: str) -> Mapping[str, str]:
    """Return the texts of hints in the language of a question, that with most of its words as stop words, of which its
    own letters and what exercises are called count double; in English if none has more.

    >>> [_hint_words(each)["read"] for each in ("Resuelve el ejercicio 2", "Solve it!", "Jak rozwiązać zadanie 3?")]
    ['Primero, lee: {section}', 'To read first: {section}', 'Najpierw przeczytaj: {section}']
    """
    every: dict[str, Mapping[str, str]] = {code: words["hints"] for code, words in by_language().items()}

    def shown(code: str) -> int:
        return word_ids(question, code).count(None) + 2 * len(re.findall(every[code]["asked"], question, re.IGNORECASE))

    return every[max(every, key=shown)]
