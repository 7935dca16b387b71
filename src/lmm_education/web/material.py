"""Study material for the page and the API: plan, cards and exercises, made of what the store holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lmm_education.errors import RequestError
from lmm_education.settings import StudySettings
from lmm_education.study.cards import card_as_values, study_cards
from lmm_education.study.exercises import exercises_as_values, find_exercises
from lmm_education.study.plan import plan_as_values, study_plan, time_text
from lmm_education.study.stored import stored_documents
from lmm_education.web.contents import Contents, SectionTitles
from lmm_education.web.rendering import Picture, title_html, to_html

_SOLUTIONS = ("1", "true", "yes")


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

    def _made(self, sections: Sequence[SectionTitles]) -> dict[str, Any]:
        documents = stored_documents(self.contents.searcher.store) if sections else []
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
                with_html(each, ids, self.pictures) for each in exercises_as_values(exercises, solutions=True)
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
    html |= {name: to_html(values[name], picture=picture) for name in _BLOCKS if values.get(name)}
    section = ids.get((values["file"], tuple(values["headings"])), "")
    return values | {"section": section, "html": html}


def material_of(request: Request) -> Material:
    """The material of the course that a request is for."""
    material = request.app.state.material
    assert isinstance(material, Material)
    return material


async def overview(request: Request) -> Response:
    """``GET /material``: how much there is of each kind."""
    made = await asyncio.to_thread(material_of(request).as_json)
    plan, cards, exercises = made["plan"], made["cards"], made["exercises"]
    return JSONResponse({"plan": len(plan["steps"]), "cards": len(cards), "exercises": len(exercises)})


async def kind(request: Request) -> Response:
    """``GET /material/plan``, ``/material/cards``, ``/material/exercises``; solutions with ``?solutions=true``."""
    name = request.path_params["kind"]
    made = await asyncio.to_thread(material_of(request).as_json)
    if name not in made:
        raise RequestError("there is plan, cards and exercises", status=404)
    if name == "exercises" and request.query_params.get("solutions", "").lower() not in _SOLUTIONS:
        return JSONResponse([without_solution(each) for each in made[name]])
    return JSONResponse(made[name])


def without_solution(values: dict[str, Any]) -> dict[str, Any]:
    """An exercise without what gives it away.

    >>> without_solution({"text": "Why?", "solution": "So.", "html": {"solution": "<p>So.</p>"}})
    {'text': 'Why?', 'html': {}}
    """
    html = {name: text for name, text in values["html"].items() if name != "solution"}
    return {name: value for name, value in values.items() if name != "solution"} | {"html": html}
