"""Search a course: sub-questions by the aux model, what the store has, reranking."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from lmm import loop
from lmm.errors import LmmError
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.prompts.load import load_prompts
from lmm.prompts.templates import Prompts
from lmm_education.parts import CourseParts
from lmm_education.prompts.templates import SLOTS
from lmm_education.search.expand import can_write, contents_of, sub_questions
from lmm_education.search.found import SearchResult
from lmm_education.search.query import SearchOptions
from lmm_education.search.rerank import Tools, open_reranker, rerank
from lmm_education.search.searcher import LookedUp, Plan, Searcher, SearchView

COVERED = 0.7
"""A question of which the course's words cover less is asked again in the course's words, where an answer is wanted."""
PATIENCE, KEPT = 6.0, 2_000
"""Seconds that writing them may take; questions for which they are kept until the store changes."""


@dataclass(frozen=True, slots=True)
class CourseSearch:
    """Searches one course. `chat` writes sub-questions and ranks passages; by default the course's aux model."""

    course: CourseParts
    searcher: Searcher
    chat: ChatModel | None = None

    def search(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """`asearch` for callers without an event loop; where no model is asked, no loop is needed."""
        if self._asks_a_model(options):
            return loop.run(self.asearch(question, options))
        return self.searcher.search(question, options)

    async def asearch(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """What is found for a question.

        Raises:
            SearchError: the question cannot be asked of this store, or names what is not in it.
            StoreError: the store cannot be read, or was made with other settings.
            ModelError: a model is needed and does not answer.
        """
        if not self._asks_a_model(options):
            return await asyncio.to_thread(self.searcher.search, question, options)
        name = self._reranker(options)
        score = open_reranker(name, self._tools) if name != "none" else None
        with self.searcher.view() as view:
            plan = await asyncio.to_thread(view.plan, question, options)
            if score is not None and plan.text:
                plan = dataclasses.replace(plan, reranked=self.course.settings.search.rerank_limit)
            questions = await self._sub_questions(view, plan)
            found = await asyncio.to_thread(view.look_up, plan, questions)
            if score is not None and plan.text:
                found = LookedUp(await rerank(found.hits, plan.text, score))
            return await asyncio.to_thread(lambda: view.result(plan, found, questions=questions, reranker=name))

    def _asks_a_model(self, options: SearchOptions) -> bool:
        return bool(self._expand(options)) or options.reworded or self._reranker(options) != "none"

    def _expand(self, options: SearchOptions) -> int | None:
        return self.course.settings.search.expand if options.expand is None else options.expand

    def _reranker(self, options: SearchOptions) -> str:
        return (self.course.settings.search.reranker if options.reranker is None else options.reranker) or "none"

    async def _sub_questions(self, view: SearchView, plan: Plan) -> Sequence[str]:
        """What the aux model has looked up as well: as often as was said, else once where it may help."""
        count = self._expand(plan.options)
        if plan.text and count:
            return await self._written(view, plan, count)
        if not plan.text or count is not None or not plan.options.reworded or not can_write(self._chat()):
            return ()
        if await asyncio.to_thread(view.coverage, plan) >= COVERED:
            return ()
        known: dict[tuple[str, str], Sequence[str]] = view.catalogue.once("reworded", dict)
        key = self._chat().name, plan.text
        if key not in known:
            try:
                async with asyncio.timeout(PATIENCE):
                    written = await self._written(view, plan, 1, retries=0)
            except (LmmError, TimeoutError):  # what the question itself finds will do
                return ()
            if len(known) >= KEPT:
                known.clear()
            known[key] = written
        return known[key]

    async def _written(self, view: SearchView, plan: Plan, count: int, *, retries: int = 1) -> list[str]:
        contents = await asyncio.to_thread(
            view.catalogue.once, "contents", lambda: contents_of(view.catalogue.sections)
        )
        return await sub_questions(plan.text, count, self._chat(), self._prompts(), contents=contents, retries=retries)

    def _chat(self) -> ChatModel:
        return self.chat or shared_chat(self.course.models.aux)

    def _prompts(self) -> Prompts:
        return load_prompts(self.course.models.prompts_folder, package="lmm_education.prompts", slots=SLOTS)

    @property
    def _tools(self) -> Tools:
        course = self.course
        return Tools(course.settings.search, self._chat, self._prompts, course.env)


def open_search(course: CourseParts, *, chat: ChatModel | None = None) -> CourseSearch:
    """A search in a course that stays open; to be kept, so that the encoder is fitted once."""
    return CourseSearch(course, Searcher(course.catalogues, course.encoder, course.settings.search), chat)
