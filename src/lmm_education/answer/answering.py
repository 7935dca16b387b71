"""Answer a question from the course: interpret it, search, ask the model, verify the answer."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from lmm.messages import ChatRequest, Message, Reply, Retrying, TextDelta, Usage, prompt_tag
from lmm.models.builtin import NAME as EXTRACTIVE
from lmm.models.chat import shared_chat
from lmm.models.client import Client
from lmm.models.port import ChatModel
from lmm.models.replies import check_called
from lmm.models.tokens import count_tokens, window_of
from lmm.prompts.templates import Prompts
from lmm.type_names import is_one_of
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
from lmm_education.answer.chapters import by_number, chapter_sources
from lmm_education.answer.citations import cited_numbers
from lmm_education.answer.history import Exchange, Understood, latest, understanding, with_latest
from lmm_education.answer.lookup import Lookup, course_tools
from lmm_education.answer.sources import WHOLE, Sources, choose_sources, cost_of
from lmm_education.answer.tutoring import TURNS, Tutoring, explaining, hints_request, hints_text, tutoring_for
from lmm_education.answer.verification import Claim, Verification, without_quotations
from lmm_education.encode.bm25 import word_ids
from lmm_education.errors import SearchError
from lmm_education.material import Passage
from lmm_education.options import AskOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument
from lmm_education.prompts.templates import course_prompts
from lmm_education.search.instructions import with_here
from lmm_education.search.query import SearchNotice, SearchResult
from lmm_education.search.search import MEANING, NO_WORD, CourseSearch, SearchView

NOTHING_FOUND = "Nothing in the course answers this."
_JUDGED = {
    None: SearchNotice("not_judged", "no language model is set to judge this; compare it with the course"),
    True: SearchNotice("quiz_right", "that is right"),
    False: SearchNotice("quiz_wrong", "that is not right"),
}
UNSURE = SearchNotice("unsure", "these sentences have few of the question's words, and may not answer it")
_SHARE = 0.6  # of the model's context window, for material; the rest is for instructions, conversation and reply
_NO_MARKS = str.maketrans("*@", "  ")  # an exercise's own marks do not ask for material
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
_HURRY = Message("user", "You have no calls left. Answer now, with what you have found.")
_LEAST_TOKENS = 20  # of a section, with its place
_CANDIDATES = 20  # least number of passages that the context is chosen from


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers questions about the course of a search. Threads and tasks may share it.

    `major` answers; `aux` interprets the question in its conversation; by default, they are the course's.
    """

    searching: CourseSearch
    options: AskOptions = field(default_factory=AskOptions)
    major: ChatModel | None = None
    aux: ChatModel | None = None

    @property
    def course(self) -> CourseParts:
        """The course that is asked."""
        return self.searching.course

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
        resolved = self.resolve_this(question, history)
        asked, usage = await self._understand(resolved, history)
        result, sources = await self._look_up(asked.search, this=resolved != question)
        tutoring = await self._tutoring(result, [*(each.question for each in history[-TURNS:]), question, asked.search])
        asked = with_latest(asked, history[-TURNS if tutoring.exercise else -1 :])
        if tutoring.hinted and not explaining(sources, tutoring.hinted):
            _, sources = await self._look_up(" ".join(tutoring.hinted.headings[-1:]) or asked.search)
        is_quoted = not (self.can_write or tutoring.hinted)
        missing, entry = await asyncio.to_thread(self._by_number, result) if is_quoted else ("", None)
        relevant = self.is_agent or tutoring.hinted or sources.chapter or self._is_relevant(result) or self._general
        if missing or not (relevant or entry):
            nothing = self._nothing(result, sources)
            nothing = dataclasses.replace(nothing, text=missing) if missing else nothing
            yield dataclasses.replace(nothing, question=question, usage=result.usage + usage)
            return
        asked = dataclasses.replace(asked, question=result.asked) if asked.question == asked.search else asked

        system, hinted = self._system(tutoring), tutoring.hinted
        if self.is_agent or self.can_write:
            request = (
                hints_request(asked, hinted, sources, system)
                if hinted
                else answer_request(asked, sources, () if tutoring.exercise else result.types, system)
            )
            written = self._written(result, sources, request, agent=self.is_agent and not hinted)
            known = (f"{each.question}\n\n{without_quotations(each.answer)}" for each in self.known(history))
            dialogue = "\n\n".join([question, *known])
            dialogue += f"\n\n{tutoring.exercise.text}" if tutoring.exercise else ""
            events = verified(written, sources, dialogue)
        else:
            events = self._quoted(result, sources, tutoring, entry)
        async with aclosing(events) as checked:
            async for event in checked:
                if isinstance(event, Answer):
                    usage += event.usage
                    general = self._general and not tutoring.hinted
                    event = dataclasses.replace(event, question=question, usage=usage, general=general)
                    claims, root = event.verification.claims, self.course.root
                    cited = tuple(extractive.narrowed(source, claims, root) for source in event.cited)
                    event = dataclasses.replace(event, cited=cited)
                yield event

    async def feedback(self, attempted: Attempted) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of feedback on a student's attempt at an exercise: what is right and what is missing.
        Where no model has to judge, or none can, the solution is shown, if there is one.

        Raises:
            LmmError: the store cannot be searched, or the model does not answer.
        """
        exercise = attempted.exercise.translate(_NO_MARKS)
        result, sources = await self._look_up(exercise)
        if attempted.is_right is not None or not self.can_write:
            offered, notices = tuple(sources), (_JUDGED[attempted.is_right],)
            yield Answer(exercise, attempted.solution, result.text, offered, model=EXTRACTIVE, notices=notices)
            return
        language = "the language of the student's answer"
        system = system_text(self.course.settings.answer.system, self._prompts, "feedback", language=language)
        events = self._written(result, sources, feedback_request(attempted, sources, system))
        dialogue = "\n\n".join((attempted.exercise, attempted.answer, attempted.solution))
        async with aclosing(verified(events, sources, dialogue)) as checked:
            async for event in checked:
                yield event

    def resolve_this(self, question: str, history: Sequence[Exchange]) -> str:
        """Return the question with "this" replaced by the section that its reader has open."""
        section = self.options.section
        return with_here(question, section.heading, first=not history) if section else question

    async def _understand(self, question: str, history: Sequence[Exchange]) -> tuple[Understood, Usage]:
        if not history or not self._reads_back:
            return Understood(question, question), Usage()
        client = Client.of(self._aux)
        asked = await client.run(understanding(self._history, question, history, self._prompts))
        return asked, client.usage

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
        configured = self.course.settings.answer.agent and self.can_write
        return configured if self.options.agent is None else self.options.agent

    @property
    def _general(self) -> bool:
        """Whether the language model's own knowledge may be used for what the course does not answer."""
        return self.course.settings.answer.general and self.can_write

    @property
    def _reads_back(self) -> bool:
        """Whether a model reads the conversation; the built-in one cannot rewrite anything."""
        return self._history != "none" and not self._aux.name.startswith("Builtin/")

    @property
    def _history(self) -> str:
        return self.options.mode or self.course.settings.answer.history

    def _is_relevant(self, result: SearchResult) -> bool:
        threshold = self.course.settings.search.threshold
        if not result.hits or result.this:
            return bool(result.hits)
        return threshold is None or result.relevance is None or result.relevance >= threshold

    async def _written(
        self, result: SearchResult, sources: Sources, request: ChatRequest, *, agent: bool = False
    ) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of a written answer; an `agent` gets tools to search further, within its turns."""
        yield Found(result.text, tuple(sources))
        within = self.options.replace(companion=False, sections=False, documents=result.documents, types=())
        lookup = Lookup(self.searching, sources, within)
        turns, usage = self.course.settings.answer.turns if agent else 1, result.usage
        if agent:
            tools = tuple(tool.definition for tool in course_tools(lookup, among_others=False))
            request = dataclasses.replace(request, tools=tools)
        for turns_left in reversed(range(turns)):
            if (
                agent and not turns_left
            ):  # tools stay declared, since some servers refuse a history of calls without them
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
            cited=sources.cited(cited_numbers(text, sources.numbers)), types=result.types,
            model=done.model, usage=usage, cut=done.cut, stopped=bool(done.calls),
            notices=tuple(notices),
        )  # fmt: skip

    def _by_number(self, result: SearchResult) -> tuple[str, Passage | None]:
        """Return what the built-in model quotes whole, or why it cannot: see `by_number`."""
        with self.searching.view() as view:
            return by_number(result, view, self.course.settings.study)

    async def _quoted(
        self, result: SearchResult, sources: Sources, tutoring: Tutoring, entry: Passage | None
    ) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of an answer without a language model: quotations, which need no check, of a whole
        `entry` if there is one; or hints."""
        unsure: tuple[SearchNotice, ...] = ()
        if tutoring.hinted:
            sources.renumber([each.number for each in explaining(sources, tutoring.hinted)[:1]])
            text = hints_text(tutoring.hinted, result.question, sources)
        elif entry:
            text, exercise = extractive.quote_whole(entry.heading, entry.text, 1), None
            sources.renumber([sources.offer(entry).number])
        else:
            text, quoted, match, exercise = await asyncio.to_thread(self._quotation, result, sources)
            unsure = (UNSURE,) * (match < _UNSURE and not (result.this or result.types))
            sources.renumber(quoted)
        yield Found(result.text, tuple(sources))
        if not text:
            yield self._nothing(result, sources, exercise)
            return
        cited = sources.cited(cited_numbers(text, sources.numbers))
        parts = [] if tutoring.hinted else [part for part in text.split("\n\n") if part.startswith(">")]
        claims = (Claim(part, at := text.index(part), at + len(part), (n,)) for n, part in enumerate(parts, 1))
        verification = Verification(claims=tuple(claims))
        text = text if tutoring.hinted else f"{text}\n\n{extractive.NOTICE}"
        yield TextDelta(text)
        yield AnswerBlock(text)
        yield Answer(result.question, text, result.text, tuple(sources), cited, types=result.types, model=EXTRACTIVE,
                     notices=result.notices + unsure, usage=result.usage, verification=verification)  # fmt: skip

    def _quotation(self, result: SearchResult, sources: Sources) -> tuple[str, list[int], float, Passage | None]:
        """Return the quoted sentences, the numbers of their sources, and how well they match; nothing if no passage
        matches well enough, or only an exercise does, and this exercise."""
        if not result.text.strip():
            raise SearchError("there is no question besides the document or type", hint="write one")
        section = self.options.section if result.this else None
        hits = [hit for hit in result.hits if section is None or hit.is_below(section)]
        study = self.course.settings.study
        asking_types = (
            () if result.types else (*study.exercises, *study.solutions, "topic")
        )  # they ask, and do not answer
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
        with self.searching.view() as view:
            fits = partial(view.fits, result.text, languages=result.languages)
            near = max(
                fits([f"{' '.join(each.above)}\n{each.text}" for each in passages[: extractive.FOUND]]), default=0.0
            )
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

    def _nothing(self, result: SearchResult, sources: Sources, exercise: Passage | None = None) -> Answer:
        """Return the answer if nothing relevant was found, with the closest sources; first the `exercise` that has the
        question's words."""
        text = self.course.settings.answer.nothing_found or NOTHING_FOUND
        notices = tuple(notice for notice in result.notices if notice != NO_WORD)  # it is about results
        nearest, first = dict[str, Passage](), (exercise.id, exercise.section) if exercise else ()
        for source in sorted(sources, key=lambda source: source.id not in first):
            nearest.setdefault(source.path, source)
        if exercise:
            why = "only an exercise or its solution has the words of the question"
            notices += (SearchNotice("only_exercise", why),)
        offered = tuple(nearest.values())[:_NEAREST]
        return Answer(result.question, text, result.text, offered, types=result.types, found=False, notices=notices)

    async def _look_up(self, query: str, *, this: bool = False) -> tuple[SearchResult, Sources]:
        """Return the search result, and the sources for the model; for `this`, see `SearchOptions`."""
        tokens = self.options.context_tokens or min(self.course.settings.answer.context_tokens, await self._room())
        # More passages than for a reader: the model reads as many as fit into the budget.
        limit = max(self.options.limit or self.course.settings.search.limit, _CANDIDATES)
        options = self.options.replace(limit=limit, sections=True, companion=False, reworded=True)

        def choose(result: SearchResult, view: SearchView) -> Sources:
            is_narrow = result.types or options.types or options.where or options.section
            if not (result.types or options.types or options.where):
                study = self.course.settings.study
                without = (*study.exercises, *study.solutions)
                if chapter := chapter_sources(result, view, tokens, count_tokens, without=without):
                    return chapter
            whole = [] if is_narrow else whole_documents(result, view, tokens)
            return choose_sources(result.sections, tokens, count_tokens, whole)

        return await self.searching.asearch_with(query, options, choose, this)

    async def _room(self) -> int:
        """Return the tokens of the model's context window that are available for material."""
        model = self.course.models.major
        if self._model.name != str(model.model):  # a model object that was passed in
            return self.course.settings.answer.context_tokens
        return int((await window_of(model)).tokens * _SHARE)

    @property
    def _aux(self) -> ChatModel:
        return self.aux or shared_chat(self.course.models.aux)

    @property
    def _model(self) -> ChatModel:
        return self.major or self.course.major or shared_chat(self.course.models.major)

    @property
    def _prompts(self) -> Prompts:
        return course_prompts(self.course.models.prompts.folder)

    async def _tutoring(self, result: SearchResult, asked: Sequence[str]) -> Tutoring:
        if not (self.course.is_for_students and self.course.settings.serve.tutors):
            return Tutoring()
        with self.course.view() as catalogue:
            return await asyncio.to_thread(tutoring_for, catalogue, self.course.settings, result, asked)

    def _system(self, tutoring: Tutoring) -> str:
        own = self.course.settings.answer.system
        if tutoring.hinted:
            return system_text(own, self._prompts, "hints")
        prompt, explain = "answer_agent" if self.is_agent else "answer", tutoring.mode == "explain"
        return system_text(own, self._prompts, prompt, general=self._general, explain=explain)


def whole_documents(result: SearchResult, view: SearchView, budget: int) -> list[Passage]:
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
            found = [section for section in view.whole(documents) if section.text]
            return found if sum(cost_of(section, count_tokens) for section in found) <= room else []

        # Cached, since every question would read all of them: a third of the processor time of an answer.
        if whole := view.catalogue.once(f"whole {room} {[each.id for each in documents]}", read):
            return whole
    return []
