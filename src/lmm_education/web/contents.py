"""The chapters of a course in reading order, numbered as in the book, and suggested questions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, groupby
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, TypeVar

from markupsafe import Markup

from lmm.type_names import is_one_of, named_type
from lmm_education.catalogue import Catalogue, Entry
from lmm_education.config import StudySettings
from lmm_education.errors import RequestError, StoreMissing
from lmm_education.material import Lines, Passage, Section
from lmm_education.payloads import StoredDocument, hit_of, section_of
from lmm_education.search.search import CourseSearch, SearchView
from lmm_education.store.port import Match
from lmm_education.study.cards import card_as_values, card_id, inline, study_cards
from lmm_education.study.exercises import exercises_as_values, find_exercises, right_choices, with_choices
from lmm_education.study.plans import by_document, plan_as_values, study_plan, time_text
from lmm_education.study.study_documents import documents_in, section_at
from lmm_education.web.rendering import Picture, lines_of, marked_html, title_html, to_html

_BOOK = ("summary", "index", "_index", "titlepage", "title-page", "readme")
_GENERIC = (
    "summary zusammenfassung introduction einleitung exercise exercises übung übungen solution solutions lösung "
    "lösungen references literatur literaturverzeichnis literaturhinweise literaturangaben literaturliste contents "
    "inhalt overview überblick foreword preface vorwort conclusion conclusions note notes example examples beispiel "
    "beispiele"
)
_ASKS = re.compile(r"[^.!?]{8,80}\?")
_SHORTEST, _LONGEST = 4, 60  # characters of a title that a question can be made from
STARTERS, FOLLOW_UPS = 4, 3


@dataclass(frozen=True, slots=True)
class Chapter(Entry):
    """A document with the headings `below` it; `part` is the title of the part of the book that begins with it."""

    part: str = ""
    below: tuple[Entry, ...] = ()

    @property
    def depth(self) -> int:
        """0 for a chapter such as 4, 1 for a subchapter such as 4.3."""
        return self.number.count(".")

    @property
    def opens(self) -> str:
        """The id of its first section."""
        return next((entry.section for entry in (self, *self.below) if entry.section), "")


def chapters_of(
    contents: Iterable[Entry], records: Mapping[str, StoredDocument] = MappingProxyType({})
) -> tuple[Chapter, ...]:
    """Return the documents of a course with their headings, each title once; `records` are stored documents by file.

    >>> chapters = chapters_of([Entry("Types", 0, "a.md", 1, number="4"), Entry("Slices", 1, "a.md", 2, number="4.1")])
    >>> [(chapter.name, chapter.below[0].name) for chapter in chapters]
    [('4 Types', '4.1 Slices')]
    """
    chapters = [_chapter(*entries, record=records.get(file)) for file, entries in groupby(contents, lambda e: e.file)]
    return tuple({chapter.name: chapter for chapter in reversed(chapters)}.values())[::-1]


def _chapter(first: Entry, *below: Entry, record: StoredDocument | None) -> Chapter:
    """Make a chapter. A first heading that repeats the title, or is the only one of its level in a document of a book,
    counts as the title, whatever its text."""
    section, alone = first.section, sum(entry.level == 1 for entry in below) == 1
    is_title = alone and record and record.sort_key
    if below and not section and (is_title or below[0].title.casefold() == first.title.casefold()):
        section, below = below[0].section, tuple(replace(each, level=each.level - alone) for each in below[1:])
    number = first.number if first.name != first.title else ""
    part = record.part if record else ""
    return Chapter(first.title, 0, first.file, first.line, number=number, section=section, part=part, below=below)


def course_title(documents: Sequence[StoredDocument]) -> str:
    """Return the title of a course: of its only book or document, or of the page above all others; else empty."""
    books = {document.book for document in documents}
    if len(books) == 1 and "" not in books:
        return books.pop()
    if len(documents) == 1:
        return documents[0].title
    pages = [document for document in documents if PurePosixPath(document.file).stem.lower() in _BOOK]
    if not pages:
        return ""
    first = min(pages, key=lambda document: (document.file.count("/"), document.file))
    folder = PurePosixPath(first.file).parent
    return first.title if all(PurePosixPath(each.file).is_relative_to(folder) for each in documents) else ""


# -- questions -------------------------------------------------------------------------------------


def starters(asked: Sequence[str], chapters: Sequence[Chapter], texts: Mapping[str, str]) -> list[str]:
    """Return up to four suggested questions, spread over the course: those of its cards, then headings that are
    questions, then questions about chapters, made by turns from the templates in `texts`, if there are any.

    >>> chapters = [Chapter(title, 0, title, 1) for title in ("What is mitosis?", "Summary", "Walls", "Nuclei")]
    >>> texts = {"ask_about": "Why {title}?", "ask_example": "Show {title}.", "ask_summary": "Sum up {title}."}
    >>> starters([], chapters, texts), starters([], chapters, {})
    (['What is mitosis?', 'Why Walls?', 'Show Nuclei.'], ['What is mitosis?'])
    """
    is_numbered = any(chapter.number for chapter in chapters)
    titles = [chapter.title for chapter in chapters if chapter.number or not is_numbered]
    inner = [entry.title for chapter in chapters for entry in chapter.below if entry.level == 1]
    own = [text for text in (*titles, *inner) if _ASKS.fullmatch(text)]
    chosen = _spread([text for text in dict.fromkeys(asked) if _ASKS.fullmatch(text)], STARTERS)
    chosen += _spread([text for text in own if text not in chosen], STARTERS - len(chosen))
    whole = [each.title for each in chapters if each.title in titles and not each.depth and _has_subject(each)]
    plain = [title for title in (whole if len(whole) > 1 else inner) if _is_a_subject(title)]
    forms = [texts[name] for name in ("ask_about", "ask_example", "ask_summary") if name in texts]
    titles = _spread(plain, STARTERS - len(chosen)) if forms else []
    return chosen + [form.replace("{title}", title) for form, title in zip(cycle(forms), titles, strict=False)]


def follow_ups(
    asked: str, sections: Sequence[str], cards: Sequence[Mapping[str, Any]], chapters: Sequence[Chapter]
) -> list[str]:
    """Return up to three of the course's own questions that follow up an answer, which any model answers: those of the
    cards from the `sections` that it cites, and the next headings that are questions.

    >>> titles = ["Leaves", "Why do they fall?", "Roots"]
    >>> lines = [Entry(title, 1, "a.md", 1, section=str(i)) for i, title in enumerate(titles)]
    >>> cards = [{"question": "Which colour is a leaf?", "section": "0"}]
    >>> chapters = [Chapter("Botany", 0, "a.md", 1, below=tuple(lines))]
    >>> follow_ups("What is a leaf?", ["0"], cards, chapters)
    ['Which colour is a leaf?', 'Why do they fall?']
    """
    own = [card["question"] for card in cards if card["section"] in sections]
    lines = [line for each in chapters for line in (each, *each.below)]
    last = max((i for i, line in enumerate(lines) if line.section in sections), default=len(lines))
    found = [*own, *(line.title for line in lines[last + 1 : last + 6])]
    questions = dict.fromkeys(text for text in found if _ASKS.fullmatch(text) and text.casefold() != asked.casefold())
    return list(questions)[:FOLLOW_UPS]


def _has_subject(chapter: Chapter) -> bool:
    """Return whether a chapter has more than exercises, and a title of its own, not only the name of its file."""
    is_file = chapter.file.rpartition("/")[2].rpartition(".")[0] == chapter.title
    exercises = all(named_type(entry.title, ("exercise",)) for entry in chapter.below)
    return not (is_file or (chapter.below and exercises))


def _is_a_subject(title: str) -> bool:
    return _SHORTEST <= len(title) <= _LONGEST and title[-1] not in "?!.:" and title.lower() not in _GENERIC.split()


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """Return `count` of some texts, evenly spaced."""
    texts = list(dict.fromkeys(texts))
    count = min(count, len(texts))
    return [texts[(2 * i + 1) * len(texts) // (2 * count)] for i in range(count)]


# -- what the page shows of the store ----------------------------------------------------------------

T = TypeVar("T")
_HEADING, _HERE = Markup("<h3>{}</h3>\n"), Markup('<h3 class="here">{}</h3>\n')
_ORDINARY = "text"  # the type that exists without markup


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of contents, the types of material except solutions, and study material. Thread-safe. `pictures` makes
    addresses for the pictures of a file."""

    searcher: CourseSearch
    settings: StudySettings
    pictures: Callable[[str], Picture]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def once(self, name: str, make: Callable[[Catalogue], T]) -> T | None:
        """Return what `make` returns, computed once for each state of the store; None if there is no store yet.

        Raises:
            StoreError: the store cannot be read.
        """
        try:
            with self._lock, self.searcher.course.view() as catalogue:
                return catalogue.once(name, lambda: make(catalogue))
        except StoreMissing:
            return None

    def chapters(self) -> tuple[Chapter, ...]:
        """Return the documents in reading order."""
        return self.once("chapters", _chapters) or ()

    def title(self) -> str:
        """Return the title of the course."""
        return self.once("course title", lambda catalogue: course_title(catalogue.documents)) or ""

    def section_at(self, address: str) -> Passage | None:
        """Return the section that a page of the course's published book shows; None if it is not part of the course."""
        try:
            with self.searcher.course.view() as catalogue:
                return section_at(catalogue, address)
        except StoreMissing:
            return None

    def as_json(self) -> dict[str, Any]:
        """Return the table of contents for the page; titles are HTML."""
        return self.once("contents for the page", self._values) or {"types": [], "documents": []}

    def _values(self, catalogue: Catalogue) -> dict[str, Any]:
        types = sorted(name for name in catalogue.types if not is_one_of(name, (_ORDINARY, *self.settings.solutions)))
        return {"types": types, "documents": [_values(chapter) for chapter in _chapters(catalogue)]}

    def study_material(self) -> dict[str, Any]:
        """Return ``plan``, ``cards`` and ``exercises``, each as its command prints it, and also with HTML.

        Raises:
            StoreError: the store cannot be read.
        """
        return self.once("study material", self._made) or self._made()

    def exercise(self, id: str) -> Mapping[str, Any]:
        """Return an exercise, or a card, with ``question`` and, if there is one, ``solution``.

        Raises:
            RequestError: the store no longer contains it.
            StoreError: the store cannot be read.
        """
        made = self.study_material()
        cards = ({"id": each["id"], "question": each["question"], "solution": each["answer"]} for each in made["cards"])
        texts = (with_choices(each["text"], each["choices"]) for each in made["exercises"])
        exercises = (each | {"question": text} for each, text in zip(made["exercises"], texts, strict=True))
        found: Mapping[str, Any] | None = next((each for each in (*exercises, *cards) if each["id"] == id), None)
        if found is None:
            raise RequestError("there is no such exercise", status=404, param="exercise")
        return found

    def section(
        self, id: str, *, passage: str = "", quoted: str = "", whole: bool = False, label: str = ""
    ) -> dict[str, Any]:
        """Return a section as HTML, or its `whole` document, and the sections before and after it. The passage marked
        in it is the one that contains the quoted words as they are, else the one with that id; nothing is compared
        here. Solutions are shown on request, under the heading `label`.

        Raises:
            RequestError: the store no longer contains the section.
            StoreError: the store cannot be read.
        """
        with self.searcher.view() as view:
            catalogue, hit = view.catalogue, _passage(view, passage)
            stored = catalogue.reader.get("documents", [id])
            asked: Section | Passage | None = section_of(id, stored[0].payload) if stored else hit
            if asked is None:
                raise RequestError("there is no such section", status=404, param="section")
            title = (stored[0].payload.get("title", "") if stored else "") or (hit.title if hit else "")
            shown = catalogue.sections_of(asked.place.file) if whole and stored else [asked]
            ids = tuple({id: None, **{each.id: None for each in shown}})
            chunks = catalogue.reader.scroll("chunks", where=[Match("section", ids)], fields=("type", "text"))
            secret = [hit_of(chunk.id, chunk.payload) for chunk in chunks] + ([hit] if hit else [])
            neighbours = _neighbours(catalogue, ids)
        texts = [each.text for each in secret if is_one_of(each.type, self.settings.solutions)]
        html = Markup()
        for each in shown:
            is_open = each.id == asked.id
            lines = lines_of(quoted, each.text) or (lines_of(hit.text, each.text) if hit else None) if is_open else None
            folded = tuple(_lines_of_all(texts, each.text))
            text = _section_html(each.text, lines, folded, label, asked.place.file, self.pictures)
            heading = _HERE if is_open else _HEADING
            html += heading.format(Markup(title_html(name_of(each, title)))) + text if whole else text
        path = asked.place.path(title)
        return {
            "title": title_html(path[0] if whole and path else " › ".join(path)),
            "page": "" if whole else asked.place.page,
            "place": str(asked.place),
            "html": html,
            **neighbours,
        }

    def _made(self, catalogue: Catalogue | None = None) -> dict[str, Any]:
        sections = catalogue.sections if catalogue else ()
        documents = documents_in(catalogue) if catalogue and sections else []
        study = self.settings
        pace, kinds, solutions = study.words_per_minute, study.exercises, study.solutions
        plan = study_plan(documents, words_per_minute=pace, keep=study.keep, exercises=kinds, solutions=solutions)
        cards = study_cards(documents, without=(*study.exercises, *study.solutions, "topic"))
        exercises = find_exercises(documents, kinds=kinds, solutions=solutions)
        ids = {(section.place.file, section.place.headings): section.id for section, _ in sections}
        times = [time_text(minutes) for _, minutes in by_document(plan)]
        values = plan_as_values(plan) | {"time": time_text(plan.minutes), "times": times}
        return {
            "plan": values | {"steps": [with_html(step, ids, self.pictures) for step in values["steps"]]},
            "cards": [with_html(card_as_values(card), ids, self.pictures) for card in cards],
            "exercises": [
                with_html({"id": card_id(each["file"], each["text"])} | each, ids, self.pictures)
                for each in exercises_as_values(exercises, solutions=True)
            ],
        }


def _chapters(catalogue: Catalogue) -> tuple[Chapter, ...]:
    return chapters_of(catalogue.contents, {document.file: document for document in catalogue.documents})


def _values(chapter: Chapter) -> dict[str, Any]:
    """Return a chapter for the page; titles are HTML."""
    entries = [
        {"number": each.number, "title": title_html(each.title), "depth": each.level - 1, "section": each.section}
        for each in chapter.below
    ]
    title = title_html(chapter.title)
    return {"part": chapter.part, "number": chapter.number, "title": title, "depth": chapter.depth,
            "section": chapter.section, "sections": entries}  # fmt: skip


@lru_cache(maxsize=2_000)  # a document of 300 kB takes as long as ten answers, and nobody is limited in reading
def _section_html(
    text: str,
    lines: Lines | None,
    hidden: tuple[Lines, ...],
    label: str,
    file: str,
    pictures: Callable[[str], Picture],
) -> Markup:
    return marked_html(text, lines, hidden, label, picture=pictures(file))


def _neighbours(catalogue: Catalogue, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the sections before and after some others in reading order, if any: their id, and their name as HTML."""
    ordered = [(each.id, name_of(each, title)) for each, title in catalogue.sections]
    at = [i for i, (id, _) in enumerate(ordered) if id in ids]
    around = {"before": at[0] - 1, "after": at[-1] + 1} if at else {}
    found = {side: ordered[i] for side, i in around.items() if 0 <= i < len(ordered)}
    return {side: {"section": id, "title": title_html(name)} for side, (id, name) in found.items()}


def name_of(section: Section | Passage, title: str) -> str:
    """Return the heading of a section with its number."""
    return ("", *section.place.path(title))[-1]


def _lines_of_all(passages: Sequence[str], text: str) -> list[Lines]:
    """Return the lines of passages in a text; for a passage that is not found whole, those of its paragraphs."""
    found: list[Lines] = []
    for passage in dict.fromkeys(passages):
        whole = lines_of(passage, text)
        parts = [whole] if whole else [lines_of(part, text) for part in passage.split("\n\n")]
        found += [lines for lines in parts if lines]
    return sorted(set(found))


def _passage(view: SearchView, passage: str) -> Passage | None:
    found = view.catalogue.reader.get("chunks", [passage]) if passage else []
    return hit_of(passage, found[0].payload) if found else None


# -- study material ----------------------------------------------------------------------------------


_INLINE, _BLOCKS = ("title",), ("summary", "question", "answer", "text", "solution")
Ids = dict[tuple[str, tuple[str, ...]], str]


def with_html(values: dict[str, Any], ids: Ids, pictures: Callable[[str], Picture] | None = None) -> dict[str, Any]:
    """Add to some values what the page shows: their texts as HTML, and the id of the section.

    >>> with_html({"question": "*Why?*", "file": "a.md", "headings": ["A"]}, {("a.md", ("A",)): "1"})["html"]
    {'question': '<p><em>Why?</em></p>\\n'}
    >>> exercise = {"text": "Which?", "choices": ["*a*", "b"], "solution": "b", "file": "a.md", "headings": []}
    >>> shown = with_html(exercise, {})
    >>> shown["html"]["choices"], shown["single"]
    (['<em>a</em>', 'b'], True)
    """
    picture = pictures(values["file"]) if pictures else None
    html: dict[str, Any] = {name: title_html(values[name]) for name in _INLINE if values.get(name)}
    html |= {name: str(to_html(values[name], picture=picture)) for name in _BLOCKS if values.get(name)}
    about: dict[str, Any] = {"section": ids.get((values["file"], tuple(values["headings"])), "")}
    if choices := values.get("choices"):
        about["single"] = len(right_choices(choices, values["solution"])) == 1
        html["choices"] = [inline(str(to_html(choice, picture=picture))) for choice in choices]
    return values | about | {"html": html}


def without_solution(values: dict[str, Any]) -> dict[str, Any]:
    """Return an exercise without its solution.

    >>> without_solution({"text": "Why?", "solution": "So.", "html": {"solution": "<p>So.</p>"}})
    {'text': 'Why?', 'html': {}}
    """
    html = {name: text for name, text in values["html"].items() if name != "solution"}
    return {name: value for name, value in values.items() if name != "solution"} | {"html": html}
