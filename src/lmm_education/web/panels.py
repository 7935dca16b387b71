"""What the page shows of the store: contents, sections with a passage, study material."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmm_education.config import StudySettings
from lmm_education.errors import RequestError, SearchError, StoreMissing
from lmm_education.material import Lines, Passage, Section
from lmm_education.payloads import StoredDocument, hit_of, is_one_of, section_of
from lmm_education.search.query import SearchOptions
from lmm_education.search.search import CourseSearch, SearchView
from lmm_education.store.port import Match
from lmm_education.study.cards import card_as_values, card_id, study_cards
from lmm_education.study.exercises import exercises_as_values, find_exercises
from lmm_education.study.plans import plan_as_values, study_plan, time_text
from lmm_education.study.study_documents import StudyDocument, documents_in
from lmm_education.web.contents import Chapter, SectionTitles, chapters_of, source_title
from lmm_education.web.rendering import Picture, lines_of, marked_html, title_html, to_html

_ORDINARY = ("text", "summary")  # what there is without anybody having marked it


@dataclass(slots=True)
class Contents:
    """The table of contents and the types of material but `hidden` ones, read again when the store has changed.

    Threads may share it.
    """

    searcher: CourseSearch
    language: str = "en"
    hidden: tuple[str, ...] = ()
    _of: object = None
    _sections: tuple[SectionTitles, ...] = ()
    _values: dict[str, Any] = field(default_factory=dict)
    _chapters: Mapping[str, Chapter] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def chapters(self) -> Mapping[str, Chapter]:
        """The documents in the order of reading, by their ids.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            return self._chapters if self._read() else {}

    def as_json(self) -> dict[str, Any]:
        """For the page: titles are HTML.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            return self._values if self._read() else {"types": [], "documents": []}

    def sections(self) -> tuple[SectionTitles, ...]:
        """All sections, in the order of the files.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            return self._sections if self._read() else ()

    def _read(self) -> bool:
        """Read what is not known yet; whether there is a store."""
        try:
            with self.searcher.course.view() as catalogue:
                if self._of is not catalogue.sections:
                    records = {document.id: document for document in catalogue.documents}
                    found = tuple(
                        section_titles(section, title, records.get(section.place.document))
                        for section, title in catalogue.sections
                    )
                    types = sorted(name for name in catalogue.types if not is_one_of(name, (*_ORDINARY, *self.hidden)))
                    self._chapters = {chapter.document: chapter for chapter in chapters_of(found)}
                    shown = [_values(chapter) for chapter in self._chapters.values()]
                    self._values = {"types": types, "documents": shown}
                    self._of, self._sections = catalogue.sections, found
        except StoreMissing:
            return False
        return True


def section_titles(section: Section, title: str, record: StoredDocument | None = None) -> SectionTitles:
    """The same from the catalogue; `title` is the document's, and `record` its record."""
    place = section.place
    return SectionTitles(
        id=section.id,
        document=place.document,
        file=place.file,
        title=title or place.file,
        order=section.order,
        headings=place.headings,
        numbers=place.numbers,
        part=record.part if record else "",
        book=record.book if record else "",
        in_book=bool(record and record.sort_key),
    )


def _values(chapter: Chapter) -> dict[str, Any]:
    """A chapter for the page: titles are HTML."""
    entries = [
        {"number": each.number, "title": title_html(each.title), "depth": each.depth, "section": each.section}
        for each in chapter.entries
    ]
    title = title_html(chapter.title)
    return {"part": chapter.part, "number": chapter.number, "title": title, "depth": chapter.depth,
            "section": chapter.section, "sections": entries}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hidden:
    """Types of material that are shown when one asks for them, and what one then asks for."""

    types: tuple[str, ...] = ()
    label: str = ""


def section_values(
    searcher: CourseSearch,
    id: str,
    *,
    passage: str = "",
    searched: str = "",
    hidden: Hidden = Hidden(),
    pictures: Callable[[str], Picture] | None = None,
    chapters: Mapping[str, Chapter] | None = None,
) -> dict[str, Any]:
    """A section as HTML. The passage with that id is marked, else the one in it that fits what was searched best.

    Raises:
        RequestError: the store holds it no longer.
        StoreError: the store cannot be read.
    """
    with searcher.view() as view:
        reader = view.catalogue.reader
        stored = reader.get("documents", [id])
        section = section_of(id, stored[0].payload) if stored else None
        hit = _passage(view, id, passage, searched)
        if section is None and hit is None:
            raise RequestError("there is no such section", status=404, param="section")
        title = stored[0].payload.get("title", "") if stored else ""
        chunks = reader.scroll("chunks", where=[Match("section", (id,))], fields=("kind", "text"))
        secret = [hit_of(chunk.id, chunk.payload) for chunk in chunks] + ([hit] if hit else [])
    texts = [each.text for each in secret if is_one_of(each.kind, hidden.types)]
    return _shown(section, hit, title, texts, hidden.label, pictures, chapters or {})


def _lines_of_all(passages: Sequence[str], text: str) -> list[Lines]:
    """The lines of passages in a text; of one that is not in it as it is, those of its paragraphs."""
    found: list[Lines] = []
    for passage in dict.fromkeys(passages):
        whole = lines_of(passage, text)
        parts = [whole] if whole else [lines_of(part, text) for part in passage.split("\n\n")]
        found += [lines for lines in parts if lines]
    return sorted(set(found))


def _passage(view: SearchView, section: str, passage: str, searched: str) -> Passage | None:
    if passage:
        found = view.catalogue.reader.get("chunks", [passage])
        return hit_of(passage, found[0].payload) if found else None
    if not searched:
        return None
    try:
        result = view.search(searched, SearchOptions(limit=1, where={"section": (section,)}, sections=False))
    except SearchError:  # nothing is left of the question but its marks
        return None
    return result.hits[0] if result.hits else None


def _shown(
    section: Section | None,
    hit: Passage | None,
    title: str,
    secret: Sequence[str],
    label: str,
    pictures: Callable[[str], Picture] | None,
    chapters: Mapping[str, Chapter],
) -> dict[str, Any]:
    """The section, or where sections are not stored, the passage alone."""
    text = section.text if section else hit.text if hit else ""
    place = section.place if section else hit.place if hit else None
    assert place is not None
    title = title or (hit.title if hit else "")
    return {
        "title": title_html(source_title(place, title, chapters)),
        "place": str(place),
        "html": marked_html(
            text,
            lines_of(hit.text, text) if hit else None,
            _lines_of_all(secret, text),
            label,
            picture=pictures(place.file) if pictures else None,
        ),
    }


# -- study material ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Material:
    """Made when first asked for, and again when the store has changed. Threads may share it. `pictures` gives those of
    a file."""

    contents: Contents
    settings: StudySettings
    pictures: Callable[[str], Picture] | None = None
    _of: Sequence[SectionTitles] | None = None
    _values: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def as_json(self) -> dict[str, Any]:
        """``plan``, ``cards`` and ``exercises``, each as its command prints it, with texts as HTML besides.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._lock:
            sections = self.contents.sections()
            if self._of is not sections:
                self._values, self._of = self._made(sections), sections
            return self._values

    def exercise(self, id: str) -> Mapping[str, Any]:
        """What is asked, as ``question``, and ``solution``, if there is one: an exercise, or a card with its answer.

        Raises:
            RequestError: the store holds it no longer.
            StoreError: the store cannot be read.
        """
        made = self.as_json()
        cards = ({"id": each["id"], "question": each["question"], "solution": each["answer"]} for each in made["cards"])
        exercises = (each | {"question": each["text"]} for each in made["exercises"])
        found: Mapping[str, Any] | None = next((each for each in (*exercises, *cards) if each["id"] == id), None)
        if found is None:
            raise RequestError("there is no such exercise", status=404, param="exercise")
        return found

    def _made(self, sections: Sequence[SectionTitles]) -> dict[str, Any]:
        documents = list[StudyDocument]()
        if sections:
            with self.contents.searcher.course.view() as catalogue:
                documents = documents_in(catalogue)
        study = self.settings
        plan = study_plan(documents, words_per_minute=study.words_per_minute, keep=study.keep)
        cards = study_cards(documents, without=(*study.exercises, *study.solutions, "topic"))
        exercises = find_exercises(documents, kinds=study.exercises, solutions=study.solutions)
        ids = {(section.file, section.headings): section.id for section in sections}
        values = plan_as_values(plan) | {"time": time_text(plan.minutes)}
        return {
            "plan": values | {"steps": [with_html(step, ids, self.pictures) for step in values["steps"]]},
            "cards": [with_html(card_as_values(card), ids, self.pictures) for card in cards],
            "exercises": [
                with_html({"id": card_id(each["file"], each["text"])} | each, ids, self.pictures)
                for each in exercises_as_values(exercises, solutions=True)
            ],
        }


_INLINE, _BLOCKS = ("title",), ("summary", "question", "answer", "text", "solution")
Ids = dict[tuple[str, tuple[str, ...]], str]


def with_html(values: dict[str, Any], ids: Ids, pictures: Callable[[str], Picture] | None = None) -> dict[str, Any]:
    """Values with what the page shows of them: HTML of texts, and the id of the section.

    >>> with_html({"question": "*Why?*", "file": "a.md", "headings": ["A"]}, {("a.md", ("A",)): "1"})["html"]
    {'question': '<p><em>Why?</em></p>\\n'}
    """
    picture = pictures(values["file"]) if pictures else None
    html = {name: title_html(values[name]) for name in _INLINE if values.get(name)}
    html |= {name: str(to_html(values[name], picture=picture)) for name in _BLOCKS if values.get(name)}
    section = ids.get((values["file"], tuple(values["headings"])), "")
    return values | {"section": section, "html": html}


def without_solution(values: dict[str, Any]) -> dict[str, Any]:
    """An exercise without what gives it away.

    >>> without_solution({"text": "Why?", "solution": "So.", "html": {"solution": "<p>So.</p>"}})
    {'text': 'Why?', 'html': {}}
    """
    html = {name: text for name, text in values["html"].items() if name != "solution"}
    return {name: value for name, value in values.items() if name != "solution"} | {"html": html}
