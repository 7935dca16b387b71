"""Search a course: sub-questions by the aux model, what the store has, reranking."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass

from lmm import loop
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.prompts.load import load_prompts
from lmm.prompts.templates import Prompts
from lmm_education.parts import CourseParts
from lmm_education.prompts.templates import SLOTS
from lmm_education.search.expand import sub_questions
from lmm_education.search.found import SearchResult
from lmm_education.search.query import SearchOptions
from lmm_education.search.rerank import Tools, open_reranker, rerank
from lmm_education.search.searcher import LookedUp, Searcher


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
            questions = await self._sub_questions(plan.text, options)
            found = await asyncio.to_thread(view.look_up, plan, questions)
            if score is not None and plan.text:
                found = LookedUp(await rerank(found.hits, plan.text, score))
            return await asyncio.to_thread(lambda: view.result(plan, found, questions=questions, reranker=name))

    def _asks_a_model(self, options: SearchOptions) -> bool:
        return bool(self._expand(options)) or self._reranker(options) != "none"

    def _expand(self, options: SearchOptions) -> int:
        return self.course.settings.search.expand if options.expand is None else options.expand

    def _reranker(self, options: SearchOptions) -> str:
        return (self.course.settings.search.reranker if options.reranker is None else options.reranker) or "none"

    async def _sub_questions(self, question: str, options: SearchOptions) -> list[str]:
        count = self._expand(options)
        if not count or not question:
            return []
        return await sub_questions(question, count, self._chat(), self._prompts())

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
