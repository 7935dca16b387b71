"""Search a course: parse the question, encode it, query all legs at once, score, vote for sections, fetch.

If a model is to help, it writes sub-questions and reranks the results.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lmm import loop
from lmm.errors import Interrupted, LmmError, ModelError, NoValidReply
from lmm.models.client import Client
from lmm.models.port import ChatModel
from lmm.prompts.templates import Prompts
from lmm.providers import is_static
from lmm_education.catalogue import Catalogue
from lmm_education.config import SearchSettings
from lmm_education.encode.bm25 import LEAST_GRAMS, WITH_GRAMS, word_ids, words_of
from lmm_education.encode.encoder import ENGLISH_ONLY, Encoder
from lmm_education.encodings import DENSE, MULTI, SPARSE
from lmm_education.errors import SearchError
from lmm_education.frequencies import share_of
from lmm_education.material import KEPT_PASSAGES, Passage, SparseVector
from lmm_education.options import SearchOptions, several
from lmm_education.parts import CourseParts
from lmm_education.payloads import PLACE, Payload, hit_of, place_of
from lmm_education.prompts.templates import course_prompts
from lmm_education.search import ranking
from lmm_education.search.instructions import LANGUAGES, compared, topic_words, with_headings, with_here
from lmm_education.search.query import (
    SearchNotice,
    SearchResult,
    conditions,
    field_path,
    named_documents,
    named_types,
    read_question,
)
from lmm_education.search.rerank import Tools, can_write, open_reranker, rerank, shown_contents, sub_questions
from lmm_education.store.port import Among, Fields, Leg, Match, Vector, Where, values_at

T = TypeVar("T")
NO_WORD = SearchNotice("no_word", "no passage contains a word of the question; these are only the nearest in meaning")
VOTERS = 20
"""Number of passages that are read, ranked by their texts and vote for sections, unless more are returned."""
MEANING = 0.4
"""Weight of meaning relative to words when a text is compared with a question (chosen on SQuAD's answers)."""
COVERING = 3
"""Number of passages with most of a question's words from which its coverage is computed."""
COVERED = 0.7
"""A question with a lower coverage is also searched in the course's words, if an answer is wanted."""
PATIENCE, REST, KEPT = 6.0, 60.0, 2_000
"""Seconds that rewording may take; seconds for which a model that failed is not asked again; number of reworded
questions that are cached until the store changes."""
_ENOUGH, _ENOUGH_STATIC, _ENOUGH_READING = 0.35, 0.395, 0.41
"""The evidence for an answer that suffices: by words only, with a model that adds up word vectors, and with one that
reads. About 3 % of the questions that their course answers have less (SQuAD, `python -m benchmarks.refusals`)."""
_CLOSEST = 3  # sentences that are compared in meaning, too
_LATIN = re.compile(r"\b(?P<stem>[^\W\d_]{3,})(?:um|us|is|a)\b")  # Residuum, Radius, Basis, Firma: plural in -en
_APART = 1.2  # weight of a word that no text contains; one that all contain weighs 0.2 and can still break a tie
# "How long": the adjective asks for a measure; no passage has to contain it.
_HOW_LONG = re.compile(
    r"\b(?:how (?:long|far|old|big|large|high|tall|deep|wide|fast|hot|heavy)"
    r"|wie (?:lange?|weit|alt|groß|hoch|tief|breit|schnell|schwer|heiß))\b",
    re.IGNORECASE,
)


class Candidates(NamedTuple):
    """Passages that may match a text, with their scores; their `relevance` is the best one's, on a scale that is the
    same for all questions; the weight of words; the `coverage` of the question (see `ranking`); whether some passage
    has a word of it."""

    hits: Sequence[Passage]
    relevance: float | None = None
    weight: float = 1.0
    coverage: float = 1.0
    has_word: bool = True


@dataclass(frozen=True, slots=True)
class CourseSearch:
    """Searches one course. `chat` writes sub-questions and reranks passages; by default the course's aux model.

    Thread-safe; documents that are ingested in the meantime are found.
    """

    course: CourseParts
    chat: ChatModel | None = None

    @contextmanager
    def view(self) -> Iterator[SearchView]:
        """Open a view of one state of the store, for the whole duration of a question.

        Raises:
            StoreMissing: nothing has been ingested.
            StoreMismatch: the store was made with other settings.
            StoreError: the store cannot be read.
        """
        course = self.course
        with course.view() as catalogue:
            fit = partial(course.encoder.fit, catalogue.manifest, location=course.store.location)
            yield SearchView(catalogue, catalogue.once("encoder", fit), course.settings.search, course.root)

    def search(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """Run `asearch` without an event loop; if no model is needed, none is started."""
        filled = options.filled(self.course.settings.search)
        if filled.expand or filled.reworded or filled.reranker != "none":
            return loop.run(self.asearch(question, filled))
        with self.view() as view:
            return view.search(question, filled)

    def fetch(self, ids: Sequence[str], *, fields: Fields = ()) -> SearchResult:
        """See `SearchView.fetch`."""
        with self.view() as view:
            return view.fetch(ids, fields=fields)

    async def asearch(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """Search the course for passages that answer a question.

        Raises:
            SearchError: the question cannot be asked of this store, or names something that is not in it.
            StoreError: the store cannot be read, or was made with other settings.
            ModelError: a required model does not answer.
        """
        result, _ = await self.asearch_with(question, options, lambda result, view: None)
        return result

    async def asearch_with(
        self,
        question: str,
        options: SearchOptions,
        use: Callable[[SearchResult, SearchView], T],
        this: bool | None = None,
    ) -> tuple[SearchResult, T]:
        """Return the result, and what `use` makes of it; if no model is needed, both run in one other thread.

        `this`: the question refers to the section that is open; None: to be determined.
        """

        options, notices = options.filled(self.course.settings.search), list[str]()
        name, aux = options.reranker or "none", self.chat.name if self.chat else str(self.course.models.aux.model)
        reranks, settings = name != "none", self.course.settings.search
        pool = settings.rerank_limit if reranks else 0
        with self.view() as view:

            def at_once() -> tuple[SearchResult, Candidates, bool, tuple[SearchResult, T] | None]:
                query = view.read(question, options, this)
                found = view.look_up(query, pool=pool)
                is_foreign = options.reworded and found.coverage < COVERED and can_write(aux)
                expands = bool(query.text) and (is_foreign if options.expand is None else options.expand > 0)
                if expands or (query.text and reranks):
                    return query, found, expands, None
                result = view.result(query, found, reranker=name)
                return query, found, False, (result, use(result, view))

            query, found, expands, complete = await asyncio.to_thread(at_once)
            if complete:
                return complete
            client = Client(self.course.models, tier="aux", model=self.chat, journal=False)
            tools = Tools(settings, client, self._prompts, self.course.env)
            score = open_reranker(name, tools) if reranks else None
            try:
                questions = await self._sub_questions(view, query, client, notices) if expands else ()
            except ModelError as error:
                questions = ()
                notices.append(_without("further searches", error, options.reworded))
            if questions:
                found = await asyncio.to_thread(view.look_up, query, questions, pool=pool)
            if score is not None:
                try:
                    found = found._replace(hits=await rerank(found.hits, query.text, score))
                except ModelError as error:
                    unusable = isinstance(error, NoValidReply)  # the list stays as it was
                    notices.append(_without(f"the reranker {name}", error, unusable or options.reworded))
                    name = "none"

            def result_of() -> tuple[SearchResult, T]:
                result = view.result(query, found, questions=questions, reranker=name)
                result = replace(result, notices=(*result.notices, *notices), usage=client.usage)
                return result, use(result, view)

            return await asyncio.to_thread(result_of)

    async def _sub_questions(
        self, view: SearchView, query: SearchResult, client: Client, notices: list[str]
    ) -> Sequence[str]:
        """Return further questions by the aux model: as many as requested, or one if it may help.

        If that fails without having been requested, the notice appears with one search only, not with all that follow.
        """
        if count := query.options.expand:
            return await self._written(view, query.text, client, count)
        known: dict[tuple[str, str], Sequence[str]] = view.catalogue.once("reworded", dict)
        resting: dict[str, float] = view.catalogue.once("not reworded", dict)
        key = client.name, query.text
        if key not in known:
            if time.monotonic() < resting.get(client.name, 0.0):
                return ()
            limit = asyncio.timeout(PATIENCE)
            try:
                async with limit:
                    written = await self._written(view, query.text, client, 1, retries=0)
            except (LmmError, TimeoutError) as error:  # the results for the question itself are enough
                if isinstance(error, Interrupted) and not limit.expired():
                    raise asyncio.CancelledError from error
                client.interrupted = False  # a reranker may still use it
                if client.name not in resting:
                    late = f"{client.name} took more than {PATIENCE:g} s"
                    why = late if limit.expired() or not isinstance(error, LmmError) else error.message
                    why = "" if isinstance(error, NoValidReply) else f": {why}"
                    failed = "searched with your words only (the model could not rephrase the question{why})"
                    notices.append(SearchNotice("simpler", failed, why=why))
                resting[client.name] = time.monotonic() + REST
                return ()
            if len(known) >= KEPT:
                known.clear()
            known[key] = written
        return known[key]

    async def _written(self, view: SearchView, text: str, client: Client, count: int, *, retries: int = 1) -> list[str]:
        contents = await asyncio.to_thread(lambda: shown_contents(view.catalogue.contents))
        from lmm.notebook.annotations import language_name  # it imports the notebook, which few searches need

        language = " or ".join(map(language_name, view.catalogue.languages))
        return await sub_questions(
            text, count, client, self._prompts(), language=language, contents=contents, retries=retries
        )

    def _prompts(self) -> Prompts:
        return course_prompts(self.course.models.prompts.folder)


def _without(what: str, error: ModelError, may_be_left_out: bool) -> str:
    """Return the notice for an answer without an optional step; for a mere search, raise the error."""
    if not may_be_left_out:
        raise error
    # Why it failed is for teachers, not for students.
    return SearchNotice("simpler", "searched without {what}: {why}", what=what, why=error.message)


def notices_of_files(catalogue: Catalogue, root: Path, found: Iterable[Passage]) -> tuple[str, ...]:
    """Return notices about passages whose file is gone, or newer than what is stored."""
    states = catalogue.outdated(root, {hit.place.file for hit in found})
    return tuple(
        SearchNotice(f"file_{code}", text, files=", ".join(file for file, state in states.items() if state == code))
        for code, text in _OUTDATED.items()
        if code in states.values()
    )


_OUTDATED = {
    "gone": "the file is gone: {files} (lmm ingest --prune removes what is stored of it)",
    "newer": "changed since it was ingested: {files} (lmm ingest brings the store up to date)",
}


@dataclass(frozen=True)
class SearchView:
    """A state of a store that can be searched."""

    catalogue: Catalogue
    encoder: Encoder
    settings: SearchSettings
    root: Path

    def search(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """Search the store for a question, without sub-questions and reranking.

        Raises:
            SearchError: the question cannot be asked of this store, or names something that is not in it.
            StoreError: the store cannot be read, or was made with other settings.
            ModelError: the question cannot be embedded.
        """
        query = self.read(question, options)
        return self.result(query, self.look_up(query))

    # -- steps -------------------------------------------------------------------------------------

    def read(self, question: str, options: SearchOptions, this: bool | None = None) -> SearchResult:
        """Parse the question, and resolve names in it and in the options.

        Raises:
            SearchError: they name something that is not in the store.
        """
        catalogue, options = self.catalogue, options.filled(self.settings)
        query = read_question(question, catalogue.types, catalogue.names)
        documents = named_documents(options.documents, catalogue.names) if options.documents else ()
        types = named_types(options.types, catalogue.types) if options.types else ()
        where = {key: several(value) for key, value in options.where.items()}
        below = [self._below(path) for path in where.pop("headings", ())]
        text, shown, languages = query.text.strip(), query.asked.strip(), catalogue.languages
        if (query.types or query.documents) and not any(map(str.isalnum, text)):
            text = ""  # only punctuation is left of a question that consists of marks
        if options.section:
            languages = LANGUAGES
            said = with_here(text, options.section.heading) if this is None else text
            this, shown = this or said != text, shown if said == text else said
            text = said
        text = with_headings(text, catalogue.numbered)
        text = _LATIN.sub(self._in_plural, text) if "de" in languages else text
        documents = tuple(dict.fromkeys((*query.documents, *documents)))
        return replace(
            query,
            text=text,
            asked=shown,
            options=options,
            # What the page calls by its heading is the section that is open: others may have the same.
            named=with_headings(query.text, catalogue.numbered),
            this=bool(this),
            questions=compared(text, languages),
            documents=documents,
            where=[*conditions(types, documents, where), *below],
            languages=catalogue.languages,
        )

    def _in_plural(self, word: re.Match[str]) -> str:
        """Return a German word from Latin as the course has it: in the plural, if there is no other form of it."""
        plural, frequencies = f"{word['stem']}en", self.catalogue.frequencies
        has = [any(frequencies[id] for id in word_ids(each, "de") if id) for each in (word[0], plural)]
        return plural if has == [False, True] else word[0]

    def look_up(self, query: SearchResult, questions: Sequence[str] = (), *, pool: int = 0) -> Candidates:
        """Return the best passages for the text of a parsed question and for further `questions`, which count half
        together.

        At most `pool` passages are returned, but as many as are shown, or compared with each other before that; for
        companions, from enough different sections. If the question consists of marks only, the passages that they name
        are listed.

        Raises:
            SearchError: the question contains neither a letter nor a digit.
        """
        if not query.text:
            return Candidates(self._listed(query))
        if not any(map(str.isalnum, query.text)):
            raise SearchError(f"there is nothing to search for in '{query.text}'", hint="add words to search for")
        if not self.encoder.vectors:
            raise SearchError(
                f"a store with encoding_model '{self.encoder.encoding.name}' cannot be searched with a question",
                hint="get passages by --id, or list them with --type, --doc, --where and no question",
            )
        companion, limit = query.options.companion, query.options.limit or 0
        pool = max(limit, VOTERS, pool)
        depth = max(self.settings.prefetch, limit * (3 if companion else 1))
        while True:
            texts = (query.text, *query.questions, *questions)
            first, *more = (self._candidates(query, text, depth) for text in texts)
            ranked = self._ranked(query, first, more, None if companion else pool)
            sections = {hit.section for hit in ranked}
            if not companion or len(ranked) < depth or len(sections) >= limit:
                fixed = self._fixed_weights(self.encoder.vectors)
                full = self._full_match(query.text, query.languages)
                relevances = (ranking.relevance(hit.legs, full, fixed) for hit in ranked)
                return first._replace(hits=ranked, relevance=max(relevances, default=0.0))
            depth *= 4  # too many passages from too few sections

    def result(
        self, query: SearchResult, found: Candidates, *, questions: Sequence[str] = (), reranker: str = "none"
    ) -> SearchResult:
        """Return the result for passages in their final order, and for the further questions that found them."""
        hits, companion, limit = found.hits, query.options.companion, query.options.limit
        # The scale of a reranker's scores is its own; only their order counts.
        votes = ranking.by_relevance([hit.score for hit in hits]) if reranker == "none" else ranking.by_rank(len(hits))
        sections = self._sections(query, hits, votes) if companion or query.options.sections else ()
        if companion and sections and not any(section.text for section in sections):
            raise SearchError(
                "the store contains no sections to return",
                hint='ingest with [RAG] documents = "heading", or search with --chunks',
            )
        shown = sections[:limit] if companion else hits[:limit]
        # Found by meaning only: the nearest passages to a question that may have nothing to do with the course.
        no_word = (NO_WORD,) * bool(query.text and hits and not found.has_word)
        return replace(
            query,
            hits=tuple(shown),
            sections=sections,
            this=query.this and any(map(query.is_here, hits)),
            questions=(*query.questions, *questions),
            reranker=reranker,
            relevance=found.relevance,
            notices=(*query.notices, *no_word, *notices_of_files(self.catalogue, self.root, shown)),
        )

    def fetch(self, ids: Sequence[str], *, fields: Fields = ()) -> SearchResult:
        """Return passages and sections by their ids, in this order.

        Raises:
            SearchError: an id is unknown.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for collection in ("chunks", "documents"):
            unread = [id for id in ids if id not in found]
            found |= {point.id: point.payload for point in self.catalogue.reader.get(collection, unread)}
        missing = [id for id in ids if id not in found]
        if missing:
            raise SearchError(
                f"there is no passage with the id {missing[0]}",
                hint="ids change with the text: search again",
            )
        hits = tuple(self._passage(id, found[id], _chosen(found[id], fields)) for id in ids)
        return SearchResult("", "", hits, notices=notices_of_files(self.catalogue, self.root, hits))

    def sections(self, ids: Sequence[str]) -> list[Passage]:
        """Return sections by their ids, in this order."""
        return [self._passage(point.id, point.payload) for point in self.catalogue.reader.get("documents", ids)]

    def _passage(self, id: str, payload: Payload, fields: Mapping[str, Any] | None = None) -> Passage:
        """Return a passage or a section in the language of its document, which is stored with passages only."""
        found = hit_of(id, payload, fields=fields)
        return replace(found, language=self.catalogue.language_of(found.place.document))

    def fits(
        self, question: str, texts: Sequence[str], languages: Collection[str], *, apart: bool = False
    ) -> list[float]:
        """Return how well each text matches a question, from 0 to about 1: by the share of the question's words that it
        contains, weighted by rarity, and by similarity of meaning.

        With `apart`, words that many of the texts contain count less: they do not distinguish them.
        """
        idf, shares = self.catalogue.frequencies.idf, [0.0] * len(texts)
        for language in languages:
            text_words = [set(self._words(text, [language])) for text in texts]
            asked = {word: idf(word) for word in self._words(question, [language])}
            if apart:
                commons = ((word, sum(word in each for each in text_words) / len(texts)) for word in asked)
                asked = {word: asked[word] * (_APART - common) for word, common in commons}
            shares = [max(share, share_of(asked, each)) for share, each in zip(shares, text_words, strict=True)]
        return self._with_meaning(question, texts, shares)

    def evidence(
        self, question: str, passages: Sequence[tuple[str, Sequence[str]]], languages: Collection[str]
    ) -> float:
        """Return how well the best of some sentences answers a question, relative to what suffices: by the share of the
        question's words in it, of which those that only its neighbours or its heading have count half, and by
        similarity of meaning. The sentences are given by passage, with its heading.
        """
        share, shares = self.catalogue.frequencies.share, dict[str, float]()
        bare = _HOW_LONG.sub("", question)
        topic = " ".join(topic_words(bare, languages)) or bare
        for language in languages:
            asked = {*self._words(topic, [language])}
            for heading, sentences in passages:
                above, *own = (set(self._words(each, [language])) for each in (heading, *sentences))
                for at, sentence in enumerate(sentences):
                    around = above.union(*own[max(0, at - 1) : at + 2])
                    by_chance = len(asked) > 2 and len(asked & around) < 2  # "match" of one about football
                    value = (share(asked, own[at]) + (0.0 if by_chance else share(asked, around))) / 2
                    shares[sentence] = max(value, shares.get(sentence, 0.0))
        best = sorted(shares, key=lambda each: -shares[each])[:_CLOSEST]
        values = [shares[each] for each in best]
        if (embedder := self.encoder.embedder) is None or not self.compares_meaning(languages):
            return max(values, default=0.0) / _ENOUGH
        enough = _ENOUGH_STATIC if is_static(embedder.name) else _ENOUGH_READING
        return max(self._with_meaning(question, best, values), default=0.0) / enough

    def _with_meaning(self, question: str, texts: Sequence[str], shares: Sequence[float]) -> list[float]:
        """Return the mean of the `shares` of words in texts and of their similarity in meaning to a question."""
        embedder = self.encoder.embedder
        if embedder is None or not texts:
            return [*shares]
        (query_vector,), text_vectors = embedder.embed([question], kind="query"), embedder.embed(texts, kind="document")
        near = [
            sum(map(mul, query_vector, each)) / (math.hypot(*query_vector) * math.hypot(*each)) for each in text_vectors
        ]
        return [(1 - MEANING) * share + MEANING * cosine for share, cosine in zip(shares, near, strict=True)]

    def compares_meaning(self, languages: Collection[str]) -> bool:
        """Return whether there is an embedding model that supports texts in these languages."""
        embedder = self.encoder.embedder
        return embedder is not None and ("en" in languages or not embedder.name.startswith(ENGLISH_ONLY))

    # -- helpers -----------------------------------------------------------------------------------

    def _candidates(self, query: SearchResult, text: str, depth: int) -> Candidates:
        """Return the passages that one of the legs finds, scored by all of them; one round trip to the store."""
        vectors = self.encoder.encode_query(text, languages=query.languages)
        words = vectors.get(SPARSE)
        if isinstance(words, SparseVector) and self.encoder.weighs_words:
            vectors[SPARSE] = self.catalogue.frequencies.weigh(words)
        fixed = self._fixed_weights(vectors)
        legs = [Leg(name, vector, depth) for name, vector in vectors.items() if fixed[name] > 0]
        if not legs:
            return Candidates(())
        # The best passages for all of it might include none of a requested type, or of the section that is open.
        more: list[Where] = [[Match("type", query.types)]] if query.types else []
        more += [[Among(here)]] if (here := self._ids_here(query)) else []
        finding = [leg for leg in legs if not (leg.vector == MULTI and DENSE in vectors)]  # sentences only rescore
        prefetch = [replace(leg, where=where) for leg in finding for where in ([], *more)]
        # Nearly every passage has a dense vector: its leg returns the payloads.
        scoring = [
            replace(leg, limit=depth * len(prefetch), prefetch=prefetch, bare=leg.vector != finding[-1].vector)
            for leg in legs
        ]
        holding = [replace(leg, limit=COVERING, stored=True, bare=True) for leg in legs if leg.vector == SPARSE]
        found = self.catalogue.reader.search([*scoring, *holding], where=query.where)
        scores = {leg.vector: {s.id: s.score for s in each} for leg, each in zip(legs, found, strict=False)}
        if self.encoder.sparse and self.encoder.sparse.name == WITH_GRAMS and SPARSE in scores:
            scores[SPARSE] = {id: score for id, score in scores[SPARSE].items() if score >= LEAST_GRAMS}
        if MULTI in scores and DENSE in scores:  # a passage without sentence vectors counts as one sentence
            scores[MULTI] = scores[DENSE] | scores[MULTI]
        payloads = {each.id: each.payload for each in chain(*found) if each.payload}
        ids = dict.fromkeys(chain(*scores.values()))
        payloads |= {
            each.id: each.payload for each in self.catalogue.reader.get("chunks", [*ids.keys() - payloads.keys()])
        }
        coverage = self._coverage(query, text, [each.vector for each in found[-1]]) if holding else 1.0
        leg_weights, full = fixed, self._full_match(text, query.languages)
        if self._weighs_by_question:
            model, dense = getattr(self.encoder.embedder, "name", ""), [name for name in fixed if name != SPARSE]
            foreign = not self.compares_meaning(query.languages)
            leg_weights = ranking.weights(coverage, dense, static=is_static(model), foreign=foreign)
        hits, known = list[Passage](), self.catalogue.once("passages", dict[str, Passage])
        if len(known) > KEPT_PASSAGES:
            known.clear()
        for id in ids:
            said, payload = {name: each[id] for name, each in scores.items() if id in each}, payloads[id]
            score, fields = ranking.relevance(said, full, leg_weights), _chosen(payload, query.options.fields)
            hit = known.get(id) or known.setdefault(id, hit_of(id, payload))
            hits.append(hit.scored(score, legs=said, payload=fields))
        has_word = bool(scores.get(SPARSE)) or not holding
        return Candidates(hits, None, leg_weights.get(SPARSE, 1.0), coverage, has_word)

    def _ranked(
        self, query: SearchResult, first: Candidates, more: Sequence[Candidates], pool: int | None
    ) -> list[Passage]:
        """Return the best `pool` candidates of all questions, the best first; the further questions count as much as
        the first together."""
        scores = {hit.id: hit.score for hit in first.hits}
        for each in more:
            for hit in each.hits:
                scores[hit.id] = scores.get(hit.id, 0.0) + hit.score / len(more)
        hits = {hit.id: hit for each in (*reversed(more), first) for hit in each.hits}
        boost, share, topic = self.settings.boost, 2 if more else 1, topic_words(query.named, query.languages)
        named = {id: ranking.words_named(query.named, topic, hit) for id, hit in hits.items()}
        longest = max(named.values(), default=0)
        for id, hit in hits.items():
            is_here = query.is_here(hit)
            is_named = bool(longest and named[id] == longest) or (query.this and is_here)
            scores[id] = (
                scores[id] / share
                + ranking.NAMED * is_named
                + ranking.HERE * is_here
                + boost * (hit.type in query.types)
            )
        first_ids = sorted(scores, key=lambda id: (-scores[id], id))[:pool]
        ranked = [hits[id].scored(scores[id]) for id in first_ids]
        if self._weighs_by_question:
            ranked[:VOTERS] = self._ranked_by_text(query.text, ranked[:VOTERS], first.weight)
        return ranked

    def _ranked_by_text(self, text: str, hits: Sequence[Passage], weight: float) -> list[Passage]:
        """Return the hits sorted again, with bonuses for their texts added to their scores; words have this weight."""
        idf, codes, term = self.catalogue.frequencies.idf, {hit.language for hit in hits}, ranking.term_of(text)
        asked = {code: {word: idf(word) for word in self._words(text, [code])} for code in codes}
        found, seen = [], set[str]()
        for hit in hits:
            repeats, words = ranking.is_repeated(hit.text, seen), partial(word_ids, language=hit.language)
            bonus = ranking.text_bonus(hit, asked[hit.language], words, weight, None if repeats else term)
            found.append(hit.scored(hit.score + bonus - (ranking.SAID if repeats else 0.0)))
        return sorted(found, key=lambda hit: -hit.score)

    def _below(self, path: object) -> Among:
        """Return the condition that a passage is below a heading, or a path of them (``A > B``)."""
        names = str(path).split(">")
        points = self.catalogue.reader.scroll("chunks", fields=(*PLACE, "title"))
        found = (p.id for p in points if ranking.is_section(names, place_of(p.payload), p.payload.get("title", "")))
        if ids := frozenset(found):
            return Among(ids)
        raise SearchError(f"no passage is below the heading '{path}'", hint="name headings as results show them: A > B")

    def _ids_here(self, query: SearchResult) -> frozenset[str]:
        """Return the ids of the passages in the section that the reader has open."""
        if query.options.section is None:
            return frozenset()
        document = query.options.section.place.document

        def of_document() -> list[Passage]:
            points = self.catalogue.reader.scroll("chunks", where=[Match("document", (document,))], fields=PLACE)
            return [hit_of(point.id, point.payload) for point in points]

        hits: list[Passage] = self.catalogue.once(f"passages of {document}", of_document)
        return frozenset(hit.id for hit in hits if query.is_here(hit))

    @property
    def _weighs_by_question(self) -> bool:
        """Whether the weights of the legs depend on the question, because none are configured."""
        is_set = self.settings.sparse_weight is not None or self.settings.dense_weight is not None
        return self.encoder.encoding.by_question and self.encoder.weighs_words and not is_set

    def _coverage(self, query: SearchResult, text: str, vectors: Iterable[Vector | None]) -> float:
        """Return the largest share of the weight of a question's words in one of the passages with these `vectors`."""
        passages = [vector.indices for vector in vectors if isinstance(vector, SparseVector)]
        if embedder := self.encoder.embedder:  # with static vectors, the questions in own words lose a point
            text = text if is_static(embedder.name) else _HOW_LONG.sub("", text)
        asked = [self._words(text, [language]) for language in query.languages]
        frequencies = self.catalogue.frequencies
        return max((frequencies.share(words, set(passage)) for words in asked for passage in passages), default=0.0)

    def _words(self, text: str, languages: Collection[str]) -> tuple[int, ...]:
        """Return the ids of a question's words, without those of grams."""
        return words_of(self.encoder.sparse.query(text, languages).indices) if self.encoder.sparse else ()

    def _full_match(self, text: str, languages: Collection[str]) -> float:
        """Return about the score by words of a passage that says all of a text."""
        if self.encoder.weighs_words or not self.encoder.sparse:
            return ranking.PER_WORD * max(1, len(self._words(text, languages)))
        return math.hypot(*self.encoder.sparse.query(text, languages).values) ** 2

    def _fixed_weights(self, vectors: Collection[str]) -> dict[str, float]:
        """Return the configured weights of the legs; passage and sentence vectors share one weight."""
        settings, encoding = self.settings, self.encoder.encoding
        both = DENSE in vectors and MULTI in vectors
        found: dict[str, float] = {}
        for name in vectors:
            configured = settings.sparse_weight if name == SPARSE else settings.dense_weight
            own = encoding.weights.get(DENSE if both and name == MULTI else name, 1.0)  # type: ignore[call-overload]
            weight = own if configured is None else configured
            found[name] = weight / 2 if both and name != SPARSE else weight
        return found

    def _listed(self, query: SearchResult) -> list[Passage]:
        """Return passages in document order, if there is no text to search for."""
        where = [*query.where, *conditions(query.types, (), {})]
        if not where:
            raise SearchError("there is no question", hint="ask one, or list passages by type, document or metadata")
        points = list(self.catalogue.reader.scroll("chunks", where=where, fields=("file", "order")))
        points.sort(key=lambda point: (point.payload.get("file", ""), point.payload.get("order", 0)))
        wanted = self.catalogue.reader.get("chunks", [point.id for point in points[: query.options.limit]])
        fields = query.options.fields
        return [hit_of(each.id, each.payload, fields=_chosen(each.payload, fields)) for each in wanted]

    def _sections(self, query: SearchResult, hits: Sequence[Passage], votes: Sequence[float]) -> tuple[Passage, ...]:
        voted = ranking.vote([hit.section for hit in hits], votes)[: query.options.limit]
        stored = {
            point.id: point.payload for point in self.catalogue.reader.get("documents", [v.section for v in voted])
        }
        found = []
        for section, score, ranks in voted:
            hits_in = tuple(hits[rank - 1] for rank in ranks)
            payload = stored.get(section)
            if payload is None:  # [RAG] documents = "none"
                first = hits_in[0]
                whole = Passage(section, first.place, what="section", section=section, title=first.title,
                                language=first.language)  # fmt: skip
            else:
                whole = self._passage(section, payload, _chosen(payload, query.options.fields))
                document, order = whole.place.document, payload.get("order", 0)
                before, after = (self.catalogue.beside(document, order, step) for step in (-1, 1))
                whole = whole.scored(score, before=before, after=after)
            found.append(whole.scored(score, hits=hits_in))
        return tuple(found)


def _chosen(payload: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the requested fields under the requested names; missing ones are left out."""
    if isinstance(fields, bool):
        return dict(payload) if fields else {}
    found = {name: _value(payload, field_path(name)) for name in fields}
    return {name: value for name, value in found.items() if value is not None}


def _value(payload: Mapping[str, Any], path: str) -> Any:
    """Return the stored value at a path, including lists."""
    head, _, last = path.rpartition(".")
    for parent in values_at(payload, head) if head else [payload]:
        if isinstance(parent, Mapping) and last in parent:
            return parent[last]
    return None
