"""Answer a question from the course: interpret it, search, ask the model, verify the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from lmm.messages import ChatRequest, Message, Reply, Retrying, TextDelta, Usage, prompt_tag
from lmm.models.builtin import NAME as EXTRACTIVE
from lmm.models.chat import shared_chat
from lmm.models.client import Client
from lmm.models.port import ChatModel
from lmm.models.replies import check_called
from lmm.models.tokens import window_of
from lmm.prompts.templates import Prompts
from lmm_education.answer import extractive
from lmm_education.answer.answer import (
    Answer,
    AnswerBlock,
    AnswerEvent,
    Attempted,
    Called,
    Found,
    Prompted,
    answer_request,
    feedback_request,
    system_text,
)
from lmm_education.answer.blocks import verified
from lmm_education.answer.chapters import choose_material
from lmm_education.answer.history import Exchange, Understood, latest, understanding, with_latest
from lmm_education.answer.quoting import hints_answer, nothing_found, quoted_answer
from lmm_education.answer.sources import Sources
from lmm_education.answer.tutoring import TURNS, Tutoring, explaining, hints_request, tutoring_for
from lmm_education.answer.verification import without_quotations
from lmm_education.errors import SearchError
from lmm_education.material import Passage
from lmm_education.options import AskOptions
from lmm_education.prompts.templates import course_prompts
from lmm_education.search.instructions import with_here
from lmm_education.search.query import SearchNotice, SearchResult
from lmm_education.search.search import CourseSearch, SearchView

_JUDGED = {
    None: SearchNotice("not_judged", "no language model is set to judge this; compare it with the course"),
    True: SearchNotice("quiz_right", "that is right"),
    False: SearchNotice("quiz_wrong", "that is not right"),
}
_SHARE = 0.6  # of the model's context window, for material; the rest is for instructions, conversation and reply
_NO_MARKS = str.maketrans("*@", "  ")  # an exercise's own marks do not ask for material
_HURRY = Message("user", "You have no calls left. Answer now, with what you have found.")
_CANDIDATES = 20  # least number of passages that the context is chosen from


class Material(NamedTuple):
    """What an answer is made of: the sources, how the question is to be answered, whether something relevant was found,
    and the answer itself if no language model writes it."""

    sources: Sources
    tutoring: Tutoring
    is_relevant: bool
    quoted: Answer | None = None


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers questions about the course of a search. Threads and tasks may share it.

    `major` answers; `aux` interprets the question in its conversation; by default, they are the course's.
    """

    searching: CourseSearch
    options: AskOptions = field(default_factory=AskOptions)
    major: ChatModel | None = None
    aux: ChatModel | None = None

    def at(self, section: Passage | None) -> Answering:
        """Return a copy for a reader who has the `section` open."""
        return dataclasses.replace(self, options=self.options.replace(section=section))

    async def stream(self, question: str, history: Sequence[Exchange] = ()) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of an answer; the last one is the `Answer`.

        Raises:
            SearchError: there is no question.
            LmmError: the store cannot be searched, or a model does not answer.
        """
        if not question.strip():
            raise SearchError("there is no question", hint="write one")
        course, settings = self.searching.course, self.searching.course.settings
        resolved, usage = self.resolve_this(question, history), Usage()
        asked = Understood(resolved, resolved)
        if history and self._reads_back:
            client = Client.of(self._aux)
            asked = await client.run(understanding(self._history, resolved, history, self._prompts))
            usage = client.usage
        questions = [*(each.question for each in history[-TURNS:]), question, asked.search]
        result, found = await self._look_up(asked.search, questions, this=resolved != question)
        sources, tutoring, quoted = found.sources, found.tutoring, found.quoted
        hinted = tutoring.hinted
        if hinted and not explaining(sources, hinted):
            _, found = await self._look_up(" ".join(hinted.headings[-1:]) or asked.search)
            sources = found.sources
        if hinted and not self.can_write:
            quoted = hints_answer(hinted, result, sources)
        is_relevant = bool(hinted) or found.is_relevant
        if quoted:
            events = _quoted(quoted, sources, is_relevant=is_relevant)
        elif not is_relevant:
            nothing = nothing_found(result, sources, settings)
            yield dataclasses.replace(nothing, question=question, usage=result.usage + usage)
            return
        else:
            request = self._request(asked, history, result, sources, tutoring)
            known = (f"{each.question}\n\n{without_quotations(each.answer)}" for each in self.known(history))
            exercise = [tutoring.exercise.text] if tutoring.exercise else []
            written = self._written(result, sources, request, agent=self.is_agent and not hinted)
            events = verified(written, sources, "\n\n".join([question, *known, *exercise]))
        async with aclosing(events) as checked:
            async for event in checked:
                if isinstance(event, Answer):
                    claims = event.verification.claims
                    cited = tuple(extractive.narrowed(source, claims, course.root) for source in event.cited)
                    usage, general = usage + event.usage, settings.answer.general and self.can_write and not hinted
                    event = dataclasses.replace(event, question=question, usage=usage, general=general, cited=cited)
                yield event

    def _request(
        self, asked: Understood, history: Sequence[Exchange], result: SearchResult, sources: Sources, tutoring: Tutoring
    ) -> ChatRequest:
        """Return the request for an answer, or for hints."""
        settings, hinted = self.searching.course.settings.answer, tutoring.hinted
        if history:
            asked = with_latest(asked, history[-TURNS if tutoring.exercise else -1 :])
        asked = dataclasses.replace(asked, question=result.asked) if asked.question == asked.search else asked
        prompt = "hints" if hinted else "answer_agent" if self.is_agent else "answer"
        general, explain = settings.general and not hinted, tutoring.mode == "explain"
        system = system_text(settings.system, self._prompts, prompt, general=general, explain=explain)
        if hinted:
            return hints_request(asked, hinted, sources, system)
        return answer_request(asked, sources, () if tutoring.exercise else result.types, system)

    async def feedback(self, attempted: Attempted) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of feedback on a student's attempt at an exercise: what is right and what is missing.
        Where no model has to judge, or none can, the solution is shown, if there is one.

        Raises:
            LmmError: the store cannot be searched, or the model does not answer.
        """
        exercise = attempted.exercise.translate(_NO_MARKS)
        result, found = await self._look_up(exercise)
        sources = found.sources
        if attempted.is_right is not None or not self.can_write:
            offered, notices = tuple(sources), (_JUDGED[attempted.is_right],)
            yield Answer(exercise, attempted.solution, result.text, offered, model=EXTRACTIVE, notices=notices)
            return
        language = "the language of the student's answer"
        system = system_text(self.searching.course.settings.answer.system, self._prompts, "feedback", language=language)
        events = self._written(result, sources, feedback_request(attempted, sources, system))
        dialogue = "\n\n".join((attempted.exercise, attempted.answer, attempted.solution))
        async with aclosing(verified(events, sources, dialogue)) as checked:
            async for event in checked:
                yield event

    def resolve_this(self, question: str, history: Sequence[Exchange]) -> str:
        """Return the question with "this" replaced by the section that its reader has open."""
        section = self.options.section
        return with_here(question, section.heading, first=not history) if section else question

    def known(self, history: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return the part of a conversation that the models see."""
        return latest(history) if self._reads_back else history[-1:]

    @property
    def can_write(self) -> bool:
        """Whether a language model answers; the built-in one only quotes."""
        return self._model.name != EXTRACTIVE

    @property
    def is_agent(self) -> bool:
        """Whether the model gets tools to search by itself."""
        configured, chosen = self.searching.course.settings.answer.agent, self.options.agent
        return self.can_write and (configured if chosen is None else chosen)

    @property
    def _reads_back(self) -> bool:
        """Whether a model reads the conversation; the built-in one cannot rewrite anything."""
        return self._history != "none" and not self._aux.name.startswith("Builtin/")

    @property
    def _history(self) -> str:
        return self.options.mode or self.searching.course.settings.answer.history

    async def _written(
        self, result: SearchResult, sources: Sources, request: ChatRequest, *, agent: bool = False
    ) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of a written answer; an `agent` gets tools to search further, within its turns."""
        yield Found(result.text, tuple(sources))
        turns, usage = self.searching.course.settings.answer.turns if agent else 1, result.usage
        if agent:
            from lmm_education.answer.lookup import Lookup, course_tools

            within = self.options.replace(companion=False, sections=False, documents=result.documents, types=())
            lookup = Lookup(self.searching, sources, within)
            tools = tuple(tool.definition for tool in course_tools(lookup, among_others=False))
            request = dataclasses.replace(request, tools=tools)
        for turns_left in reversed(range(turns)):
            if agent and not turns_left:  # tools stay declared: some servers refuse a history of calls without them
                request = dataclasses.replace(request, messages=(*request.messages, _HURRY))
            pieces, done = list[str](), Reply("", "")
            yield Prompted(request.messages)
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        pieces.append(event.text)
                    elif isinstance(event, Retrying):
                        pieces.clear()
                    elif isinstance(event, Reply):
                        check_called(done := event)
                    if isinstance(event, TextDelta | Retrying):
                        yield event
            usage += done.usage
            if not done.calls or not turns_left:
                break
            results = []
            for call in done.calls:
                yield Called(call)
                results.append(await lookup.run(call))
            exchange = (done.as_message(), Message("tool", "", results=tuple(results)))
            request = dataclasses.replace(request, messages=(*request.messages, *exchange))
        text, notices = "".join(pieces), list(result.notices)
        if sources.is_part:
            notice = "the model was shown only the beginnings of the sections of “{part}”"
            notices.append(SearchNotice("beginnings", notice, part=sources.chapter))
        if tag := prompt_tag(text):
            repeats = "the answer contains {tag}, which comes from the prompt"
            notices.append(SearchNotice("repeated", repeats, tag=tag))
        yield Answer(
            result.question, text, searched=result.text, offered=tuple(sources),
            cited=sources.cited_in(text), types=result.types,
            model=done.model, usage=usage, cut=done.cut, stopped=bool(done.calls),
            notices=tuple(notices),
        )  # fmt: skip

    async def _look_up(
        self, query: str, questions: Sequence[str] = (), *, this: bool = False
    ) -> tuple[SearchResult, Material]:
        """Return the search result, and the material for an answer to the last of the student's `questions`; without
        them, only the sources. For `this`, see `CourseSearch.asearch_with`. All is read in one view of the store."""
        course, configured = self.searching.course, self.searching.course.models.major
        settings = course.settings
        tokens = self.options.context_tokens or settings.answer.context_tokens
        if not self.options.context_tokens and self.can_write and self._model.name == str(configured.model):
            tokens = min(tokens, int((await window_of(configured)).tokens * _SHARE))
        # More passages than for a reader: the model reads as many as fit into the budget.
        limit = max(self.options.limit or settings.search.limit, _CANDIDATES)
        options = self.options.replace(limit=limit, sections=True, companion=False, reworded=True)

        def material(result: SearchResult, view: SearchView) -> Material:
            sources, tutoring = choose_material(result, view, tokens, settings.study), Tutoring()
            if questions and course.is_for_students and settings.serve.tutors:
                tutoring = tutoring_for(view.catalogue, settings, result, questions)
            threshold, general = settings.search.threshold, settings.answer.general and self.can_write
            is_near = result.this or threshold is None or result.relevance is None or result.relevance >= threshold
            is_relevant = bool(self.is_agent or sources.chapter or general or (result.hits and is_near))
            if not questions or self.can_write or tutoring.hinted:
                return Material(sources, tutoring, is_relevant)
            quoted = quoted_answer(view, result, sources, settings, is_relevant=is_relevant)
            return Material(sources, tutoring, is_relevant, quoted)

        return await self.searching.asearch_with(query, options, material, this)

    @property
    def _aux(self) -> ChatModel:
        return self.aux or shared_chat(self.searching.course.models.aux)

    @property
    def _model(self) -> ChatModel:
        return self.major or self.searching.course.major or shared_chat(self.searching.course.models.major)

    @property
    def _prompts(self) -> Prompts:
        return course_prompts(self.searching.course.models.prompts.folder)


async def _quoted(answer: Answer, sources: Sources, *, is_relevant: bool) -> AsyncGenerator[AnswerEvent]:
    """Iterate over the events of an answer without a language model."""
    if answer.found or is_relevant:
        yield Found(answer.searched, tuple(sources))
    if answer.found:
        yield TextDelta(answer.text)
        yield AnswerBlock(answer.text)
    yield answer
