"""Search a course: sub-questions by the aux model, what the store has, reranking."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lmm import loop
from lmm.errors import Interrupted, LmmError, ModelError
from lmm.models.client import Client
from lmm.models.port import ChatModel
from lmm.prompts.templates import Prompts
from lmm_education.parts import CourseParts
from lmm_education.prompts.templates import course_prompts
from lmm_education.search.expand import can_write, contents_of, sub_questions
from lmm_education.search.found import SearchResult
from lmm_education.search.query import SearchOptions
from lmm_education.search.rerank import Tools, open_reranker, rerank
from lmm_education.search.searcher import LookedUp, Plan, Searcher, SearchView

T = TypeVar("T")
COVERED = 0.7
"""A question of which the course's words cover less is asked again in the course's words, where an answer is wanted."""
PATIENCE, REST, KEPT = 6.0, 60.0, 2_000
"""Seconds that writing them may take; seconds for which a model that failed is not asked for them again; questions for
which they are kept until the store changes."""


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
        result, _ = await self.asearch_with(question, options, lambda result: None)
        return result

    async def asearch_with(
        self, question: str, options: SearchOptions, use: Callable[[SearchResult], T]
    ) -> tuple[SearchResult, T]:
        """The same, and what `use` makes of it; all of that in one go to another thread, where no model is asked."""

        name, notices = self._reranker(options), list[str]()
        client = Client(self.course.models, tier="aux", model=self.chat, journal=False)
        score = open_reranker(name, self._tools(client)) if name != "none" else None
        with self.searcher.view() as view:

            def without_a_model() -> tuple[Plan, bool, tuple[SearchResult, T] | None]:
                plan = view.plan(question, options)
                covered = not plan.text or self._is_covered(view, plan, client)
                if not covered or (plan.text and score):
                    return plan, covered, None
                result = view.result(view.look_up(plan), reranker=name)
                return plan, covered, (result, use(result))

            plan, covered, found_at_once = await asyncio.to_thread(without_a_model)
            if found_at_once:
                return found_at_once
            if score is not None:
                plan = dataclasses.replace(plan, reranked=self.course.settings.search.rerank_limit)
            try:
                questions = () if covered else await self._sub_questions(view, plan, client, notices)
            except ModelError as error:
                questions = ()
                notices.append(_without("further searches", error, options))
            found = await asyncio.to_thread(view.look_up, plan, questions)
            if score is not None:
                try:
                    found = LookedUp(found.plan, await rerank(found.hits, plan.text, score))
                except ModelError as error:
                    notices.append(_without(f"the reranker {name}", error, options))
                    name = "none"

            def told() -> tuple[SearchResult, T]:
                result = view.result(found, questions=questions, reranker=name)
                result = dataclasses.replace(result, notices=(*result.notices, *notices), usage=client.usage)
                return result, use(result)

            return await asyncio.to_thread(told)

    def _asks_a_model(self, options: SearchOptions) -> bool:
        return bool(self._expand(options)) or options.reworded or self._reranker(options) != "none"

    def _expand(self, options: SearchOptions) -> int | None:
        return self.course.settings.search.expand if options.expand is None else options.expand

    def _reranker(self, options: SearchOptions) -> str:
        return (self.course.settings.search.reranker if options.reranker is None else options.reranker) or "none"

    def _is_covered(self, view: SearchView, plan: Plan, client: Client) -> bool:
        """Whether a question is looked up as it is: no further ones are asked for, nor would they help."""
        if (count := self._expand(plan.options)) is not None:
            return not count
        return not plan.options.reworded or not can_write(client) or view.coverage(plan) >= COVERED

    async def _sub_questions(self, view: SearchView, plan: Plan, client: Client, notices: list[str]) -> Sequence[str]:
        """What the aux model has looked up as well: as often as was said, else once where it may help.

        That it could not where nobody asked for it is among the notices of one search, not of all that follow.
        """
        if count := self._expand(plan.options):
            return await self._written(view, plan, client, count)
        known: dict[tuple[str, str], Sequence[str]] = view.catalogue.once("reworded", dict)
        resting: dict[str, float] = view.catalogue.once("not reworded", dict)
        key = client.name, plan.text
        if key not in known:
            if time.monotonic() < resting.get(client.name, 0.0):
                return ()
            limit = asyncio.timeout(PATIENCE)
            try:
                async with limit:
                    written = await self._written(view, plan, client, 1, retries=0)
            except (LmmError, TimeoutError) as error:  # what the question itself finds will do
                if isinstance(error, Interrupted) and not limit.expired():
                    raise asyncio.CancelledError from error
                client.interrupted = False  # a reranker may be asked all the same
                if client.name not in resting:
                    late = f"{client.name} took more than {PATIENCE:g} s"
                    why = late if limit.expired() or not isinstance(error, LmmError) else error.message
                    notices.append(f"searched without the course's words for the question: {why}")
                resting[client.name] = time.monotonic() + REST
                return ()
            if len(known) >= KEPT:
                known.clear()
            known[key] = written
        return known[key]

    async def _written(
        self, view: SearchView, plan: Plan, client: Client, count: int, *, retries: int = 1
    ) -> list[str]:
        contents = await asyncio.to_thread(
            view.catalogue.once, "contents", lambda: contents_of(view.catalogue.sections)
        )
        return await sub_questions(plan.text, count, client, self._prompts(), contents=contents, retries=retries)

    def _prompts(self) -> Prompts:
        return course_prompts(self.course.models.prompts_folder)

    def _tools(self, client: Client) -> Tools:
        return Tools(self.course.settings.search, client, self._prompts, self.course.env)


def _without(what: str, error: ModelError, options: SearchOptions) -> str:
    """What is told where an answer goes on without what helps to find; who only searches gets the error."""
    if not options.reworded:
        raise error
    return f"searched without {what}: {error.message}"


def open_search(course: CourseParts, *, chat: ChatModel | None = None) -> CourseSearch:
    """A search in a course that stays open; to be kept, so that the encoder is fitted once."""
    return CourseSearch(course, Searcher(course.catalogues, course.encoder, course.settings.search), chat)
