"""Ask a store: read the question, encode it, query every leg at once, fuse, vote, fetch what is shown.

Everything that needs no language model is here; `lmm_education.search.course_search` adds sub-questions and reranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import mul
from types import MappingProxyType
from typing import Any, NamedTuple

from lmm.models.port import Embedder
from lmm.providers import is_static
from lmm_education.catalogue import Catalogue, Catalogues
from lmm_education.config import SearchSettings
from lmm_education.encode.bm25 import LEAST_GRAMS, WITH_GRAMS, word_ids, words_of
from lmm_education.encode.encoder import Encoder
from lmm_education.encodings import DENSE, MULTI, SPARSE
from lmm_education.errors import SearchError
from lmm_education.frequencies import share_of
from lmm_education.material import Hit, SparseVector
from lmm_education.payloads import hit_of
from lmm_education.search.definitions import term_of
from lmm_education.search.found import FoundSection, SearchResult
from lmm_education.search.query import (
    ReadQuestion,
    SearchOptions,
    conditions,
    field_path,
    has_marks,
    named_documents,
    named_types,
    read_question,
)
from lmm_education.search.ranking import (
    Fused,
    Ranking,
    by_rank,
    by_relevance,
    fuse,
    introduced,
    read,
    relevance,
    standing,
    vote,
    weights,
)
from lmm_education.store.layout import values_at
from lmm_education.store.manifest import Manifest
from lmm_education.store.port import Among, Fields, Leg, Match, Scored, Store, Vector, Where

NO_WORD = "no passage has a word of the question; these are only the nearest in meaning"
VOTERS = 20
"""How many passages are read, and vote for sections, if not more are returned."""
MEANING = 0.4
"""What meaning weighs beside words where a text is compared with a question (SQuAD's answers, see docs/ask.md)."""
COVERING = 3
"""How many passages that have most of a question's words may cover it."""
_APART = 1.2  # what a word weighs that no text holds; one that all hold weighs 0.2 and so can still break a tie
_AMONG = 1000  # candidates at most that a store says of how near they are
_TIES = 16  # more are asked for than wanted: of what scores the same, stores would take one or the other


@dataclass(frozen=True, slots=True)
class Plan:
    """A question as it will be looked up. `boosted` are the types that its marks ask for; `where` always holds;
    `reranked` passages are fetched at least, to be ranked anew."""

    question: str
    text: str
    options: SearchOptions
    limit: int
    depth: int
    companion: bool
    boosted: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    where: Where = ()
    languages: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    reranked: int = 0

    @property
    def pool(self) -> int:
        """How many passages are fetched: those that are shown, vote or are ranked anew."""
        return max(self.limit, VOTERS if self.options.sections else 0, self.reranked)


class LookedUp(NamedTuple):
    """Passages, best first, and what each leg weighed for the question; with the plan as it was carried out."""

    plan: Plan
    hits: Sequence[Hit]
    weights: Mapping[str, float] = MappingProxyType({})


class Searcher:
    """A store that can be asked in words. Threads may share it; it notices what is ingested meanwhile."""

    def __init__(
        self,
        store: Store | Catalogues,
        encoder: Encoder,
        settings: SearchSettings = SearchSettings(),
    ) -> None:
        self.catalogues = store if isinstance(store, Catalogues) else Catalogues(store)
        self.settings, self._encoder = settings, encoder
        self._fitted: tuple[Manifest | None, Encoder] = None, encoder

    @property
    def store(self) -> Store:
        """What is asked."""
        return self.catalogues.store

    @contextmanager
    def view(self) -> Iterator[SearchView]:
        """One state of the store, for a question from its beginning to its end.

        Raises:
            StoreMissing: nothing was ingested.
            StoreMismatch: the store was made with other settings.
            StoreError: it cannot be read.
        """
        with self.catalogues.view() as catalogue:
            yield SearchView(catalogue, self._fitting, self.settings)

    def _fitting(self, manifest: Manifest) -> Encoder:
        """The encoder for questions to a store that was made in this way."""
        fitted_to, encoder = self._fitted
        if fitted_to != manifest:
            encoder = self._encoder.fit(manifest, location=self.store.location)
            self._fitted = manifest, encoder
        return encoder

    def search(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """See `SearchView.search`."""
        with self.view() as view:
            return view.search(question, options)

    def fetch(self, ids: Sequence[str], *, fields: Fields = ()) -> SearchResult:
        """See `SearchView.fetch`."""
        with self.view() as view:
            return view.fetch(ids, fields=fields)


class SearchView:
    """One state of a store that can be asked in words. `fitting` gives the encoder for a store that was made so."""

    def __init__(self, catalogue: Catalogue, fitting: Callable[[Manifest], Encoder], settings: SearchSettings) -> None:
        self.catalogue, self.settings = catalogue, settings
        self._store, self._fitting, self._encoder = catalogue.reader, fitting, fitting(catalogue.manifest)
        self._places: dict[str, Mapping[str, Any]] = {}  # section and document of passages that legs found
        self._read: dict[str, Mapping[str, Any]] = {}  # payloads of sections that will be asked for

    @property
    def embedder(self) -> Embedder | None:
        """What makes vectors of questions; None where only words are compared."""
        return self._encoder.embedder

    def search(self, question: str, options: SearchOptions = SearchOptions()) -> SearchResult:
        """What is found for a question, without sub-questions and reranking.

        Raises:
            SearchError: the question cannot be asked of this store, or names what is not in it.
            StoreError: the store cannot be read, or was made with other settings.
            ModelError: the question cannot be embedded.
        """
        plan = self.plan(question, options)
        return self.result(self.look_up(plan))

    # -- the steps ---------------------------------------------------------------------------------

    def plan(self, question: str, options: SearchOptions) -> Plan:
        """Read the question and the options against what the store holds, as far as that is known without asking.

        Raises:
            SearchError: they name what is not in it.
        """
        known = self._store.known_stamp
        try:
            return self._planned(question, options)
        except SearchError:
            if self._store.stamp == known:
                raise
            return self._planned(question, options)

    def _planned(self, question: str, options: SearchOptions) -> Plan:
        self._read_names(question, options)
        names, settings = self.catalogue, self.settings
        marked = has_marks(question)
        asked = read_question(question, names.types if marked else (), names.names if marked else ())
        documents = (
            *asked.documents,
            *(named_documents(options.documents, names.names) if options.documents else ()),
        )
        types = named_types(options.types, names.types) if options.types else ()
        limit = settings.limit if options.limit is None else options.limit
        if limit < 1:
            raise SearchError(f"the limit is {limit}", hint="ask for one passage at least")
        companion = settings.companion if options.companion is None else options.companion
        return Plan(
            question,
            _question_in(asked),
            options=options,
            limit=limit,
            depth=max(settings.prefetch, limit * (3 if companion else 1)),
            companion=companion,
            boosted=asked.types,
            documents=tuple(dict.fromkeys(documents)),
            where=conditions(types, documents, options.where),
            languages=names.languages,
            notices=asked.notices,
        )

    def look_up(self, plan: Plan, questions: Sequence[str] = ()) -> LookedUp:
        """The best passages for the plan's text, and for further `questions` beside it, which count half.

        At most ``plan.pool`` of them, for companions enough of different sections. Where nothing is left of the
        question but its marks, what they name is listed.

        Raises:
            SearchError: there is neither a letter nor a digit in the question.
        """
        if not plan.text:
            return LookedUp(plan, self._listed(plan))
        if not any(map(str.isalnum, plan.text)):
            raise SearchError(f"there is nothing to look up in '{plan.text}'", hint="ask in words")
        self._check_can_be_asked()
        while True:
            found, more = self._found(plan, [plan.text, *questions])
            plan = found.plan
            if not plan.companion or not more or len({hit.section for hit in found.hits}) >= plan.limit:
                return found
            plan = replace(plan, depth=plan.depth * 4)  # too many passages of too few sections

    def coverage(self, plan: Plan) -> float:
        """How much of a question is said in the course's words, from 0 to 1; 1 where no word can be weighed."""
        words = self._encoder.sparse.query(plan.text, plan.languages) if self._encoder.sparse else None
        by_question = self._encoder.weighs_words and self._encoder.encoding.by_question
        if words is None or not words.indices or not by_question:
            return 1.0
        weighed = self.catalogue.frequencies.weigh(words)
        (best,) = self._store.search([Leg(SPARSE, weighed, COVERING, held=COVERING)], where=plan.where, fields=False)
        return self._coverage(plan, plan.text, [found.vector for found in best if found.vector is not None])

    def result(self, found: LookedUp, *, questions: Sequence[str] = (), reranker: str = "none") -> SearchResult:
        """The result from passages in their final order, and what else was asked to find them."""
        plan, hits = found.plan, found.hits
        words = len(self._words(plan.text, plan.languages))
        fixed = self._fixed_weights(self._encoder.vectors)
        in_order = plan.text and not (plan.boosted or questions or reranker != "none")
        term = term_of(plan.text)
        fits = [relevance(hit, words, found.weights) + introduced(term, hit) for hit in hits] if in_order else []
        votes = by_relevance(fits) if in_order else by_rank(len(hits))
        sections = self._sections(plan, hits, votes) if plan.companion or plan.options.sections else ()
        shown = self._companions(plan, sections) if plan.companion else hits[: plan.limit]
        return SearchResult(
            plan.question,
            plan.text,
            hits=tuple(shown),
            sections=tuple(sections),
            types=plan.boosted,
            documents=plan.documents,
            languages=plan.languages,
            questions=tuple(questions),
            companion=plan.companion,
            reranker=reranker,
            relevance=max((relevance(hit, words, fixed) for hit in hits), default=0.0) if plan.text else None,
            notices=(*plan.notices, *([NO_WORD] if self._has_no_word(plan, hits) else [])),
        )

    def fetch(self, ids: Sequence[str], *, fields: Fields = ()) -> SearchResult:
        """Passages and sections by their ids, in this order.

        Raises:
            SearchError: there is no such passage.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for collection in ("chunks", "documents"):
            left = [id for id in ids if id not in found]
            found |= {point.id: point.payload for point in self._store.get(collection, left)}
        missing = [id for id in ids if id not in found]
        if missing:
            raise SearchError(
                f"there is no passage with the id {missing[0]}",
                hint="ids change when the text does; search again with --json",
            )
        hits = (hit_of(id, found[id], fields=_chosen(found[id], fields)) for id in ids)
        return SearchResult("", "", tuple(hits))

    def fits(
        self, question: str, texts: Sequence[str], languages: Collection[str], *, apart: bool = False
    ) -> list[float]:
        """How well each text fits a question, from 0 to about 1: the share of the question's words that it holds, which
        count by how rare they are, and how near it is in meaning.

        With `apart`, words count less that many of the texts hold: what they are all about does not tell them apart.
        """
        idf, shares = self.catalogue.frequencies.idf, [0.0] * len(texts)
        for language in languages:
            held = [set(self._words(text, [language])) for text in texts]
            weights = {word: idf(word) for word in self._words(question, [language])}
            if apart:
                commons = ((word, sum(word in each for each in held) / len(texts)) for word in weights)
                weights = {word: weights[word] * (_APART - common) for word, common in commons}
            shares = [max(share, share_of(weights, each)) for share, each in zip(shares, held, strict=True)]
        embedder = self._encoder.embedder
        if embedder is None or not texts:
            return shares
        (wanted,), given = embedder.embed([question], kind="query"), embedder.embed(texts, kind="document")
        near = [sum(map(mul, wanted, each)) / (math.hypot(*wanted) * math.hypot(*each)) for each in given]
        return [(1 - MEANING) * held + MEANING * cosine for held, cosine in zip(shares, near, strict=True)]

    # -- parts -------------------------------------------------------------------------------------

    def _check_can_be_asked(self) -> None:
        if not self._encoder.vectors:
            raise SearchError(
                f"a store with encoding_model '{self._encoder.encoding.name}' cannot be asked in words",
                hint="fetch passages by --id, or list them with --type, --doc, --where and no question",
            )

    def _found(self, plan: Plan, texts: Sequence[str]) -> tuple[LookedUp, bool]:
        """The passages to go on with, and whether there may be more candidates."""
        plan, fused, leg_weights = self._fused(plan, texts)
        chosen = fused if plan.companion else fused[: plan.pool]
        hits = list[Hit]()
        self._store.together(
            lambda: hits.extend(self._fetched(chosen, plan.options.fields)), *self._reads_of_sections(plan, chosen)
        )
        if self._weighs_by_question:
            hits = [*self._ranked_by_text(texts[0], hits[:VOTERS], leg_weights), *hits[VOTERS:]]
        return LookedUp(plan, hits, leg_weights), len(fused) >= plan.depth

    def _reads_of_sections(self, plan: Plan, found: Sequence[Fused]) -> list[Callable[[], object]]:
        """What reads the sections that passages vote for, and the headings around them, where the store is far."""
        if not (self._store.far and (plan.companion or plan.options.sections)):
            return []
        places = [self._places[each.id] for each in found if each.id in self._places]
        sections = list(dict.fromkeys(place["section"] for place in places if "section" in place))[:VOTERS]
        documents = {place["document"] for place in places if place.get("section") in sections}
        return [lambda: self._sections_of(sections), lambda: self.catalogue.outlines(documents)]

    def _sections_of(self, ids: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """The payloads of those of these sections that are stored."""
        if missing := [id for id in ids if id not in self._read]:
            self._read |= {id: {} for id in missing}
            self._read |= {point.id: point.payload for point in self._store.get("documents", missing)}
        return {id: self._read[id] for id in ids if self._read[id]}

    def _ranked_by_text(self, question: str, hits: Sequence[Hit], leg_weights: Mapping[str, float]) -> list[Hit]:
        """Hits in the order that their texts give them, where the legs leave it open."""
        idf, codes = self.catalogue.frequencies.idf, {hit.language for hit in hits}
        asked = {code: {word: idf(word) for word in self._words(question, [code])} for code in codes}
        passages = [
            read(hit.text, hit.place.headings, asked[hit.language], partial(word_ids, language=hit.language))
            for hit in hits
        ]
        gained = standing(passages, words=leg_weights.get(SPARSE, 1.0), term=term_of(question))
        found = [replace(hit, score=hit.score + more) for hit, more in zip(hits, gained, strict=True)]
        return sorted(found, key=lambda hit: -hit.score)

    def _fused(self, plan: Plan, texts: Sequence[str]) -> tuple[Plan, list[Fused], Mapping[str, float]]:
        """The candidates of all questions, and what the legs weighed for the first; by the plan, which is another where
        the store has changed since it was made."""
        while True:
            known = self._store.known_stamp
            asked = [partial(self._fused_now, plan, text, known) for text in texts]
            (first, leg_weights), *more = self._store.together(*asked)
            if self._store.stamp == known:
                break
            plan = self._planned_again(plan)
        if not more:
            return plan, first, leg_weights
        each = [first, *(fused for fused, _ in more)]
        rankings: dict[str, Ranking] = {str(i): [(f.id, f.score) for f in fused] for i, fused in enumerate(each)}
        halves = {name: 1.0 if name == "0" else 1.0 / len(more) for name in rankings}
        legs = {f.id: f.legs for fused in reversed(each) for f in fused}
        return plan, [f._replace(legs=legs[f.id]) for f in fuse(rankings, halves)], leg_weights

    def _planned_again(self, plan: Plan) -> Plan:
        """The plan for the store as it is now; what it needs to know is asked for side by side."""
        self._encoder = self._fitting(self._store.manifest() or self.catalogue.manifest)
        now = self._planned(plan.question, plan.options)
        return replace(now, depth=plan.depth, reranked=plan.reranked)

    def _read_names(self, question: str, options: SearchOptions) -> None:
        """Ask side by side for what will be needed and is not known yet, where the store is far."""
        names, reads = self.catalogue, list[Callable[[], object]]()
        if self._store.far:
            reads += [lambda: names.languages]
            reads += [lambda: names.frequencies] if self._encoder.weighs_words else []
            reads += [lambda: names.names] if options.sections or options.documents or has_marks(question) else []
            reads += [lambda: names.types] if options.types or has_marks(question) else []
        self._store.together(*reads)

    def _fused_now(self, plan: Plan, text: str, known: str) -> tuple[list[Fused], Mapping[str, float]]:
        """The candidates of one question, out of all legs, and what each leg weighed; nothing where the store turns out
        to be another than was `known`."""
        vectors = self._encoder.encode_query(text, languages=plan.languages)
        words = vectors.get(SPARSE)
        if isinstance(words, SparseVector) and self._encoder.weighs_words:
            vectors[SPARSE] = self.catalogue.frequencies.weigh(words)
        by_question, settings = self._weighs_by_question, self.settings
        fixed = self._fixed_weights(vectors)
        legs = [
            Leg(name, vector, plan.depth, held=COVERING if by_question and name == SPARSE else 0)
            for name, vector in vectors.items()
            if fixed[name] > 0
        ]
        rankings, boosted, held = self._candidates(plan, legs)
        if self._store.known_stamp != known:
            return [], {}
        leg_weights = self._weights(plan, text, rankings, held) if by_question else fixed
        fused = fuse(rankings, leg_weights, method=settings.fusion, boost=settings.boost, boosted=boosted)
        return fused, leg_weights

    def _candidates(
        self, plan: Plan, legs: Sequence[Leg]
    ) -> tuple[dict[str, Ranking], frozenset[str], Sequence[Vector]]:
        """What each leg says of all that any of them found, which of it has a type that is asked for, and the words of
        what has most of them."""
        scores: dict[str, dict[str, float]] = {leg.vector: {} for leg in legs}
        sparse = self._encoder.sparse
        least = LEAST_GRAMS if sparse and sparse.name == WITH_GRAMS else -math.inf

        def take(asked: Sequence[Leg], lists: Sequence[Sequence[Scored]]) -> frozenset[str]:
            for leg, each in zip(asked, lists, strict=True):
                scores[leg.vector] |= {s.id: s.score for s in each if s.score >= least}
            return frozenset(s.id for each in lists for s in each if s.score >= least)

        # Sentences are compared for the candidates only.
        finding = [leg for leg in legs if not (leg.vector == MULTI and DENSE in scores)]
        if not finding:
            return {}, frozenset(), ()
        # What BM25 did not find has hardly a word of the question: 0 will do, and asking costs as much as finding.
        near = [leg for leg in legs if leg.vector != SPARSE]
        scoring = [self._among(leg, [each for each in finding if each.vector != leg.vector]) for leg in near]
        scoring = [leg for leg in scoring if leg.among and self._store.far]
        fields = ("section", "document") if self._store.far else False
        # Of a type that is asked for: instead of a very long list of candidates, in which it may still be missing.
        boost = [[*plan.where, Match("kind", plan.boosted)]] if plan.boosted else []
        found, *typed = self._store.together(
            *(
                partial(self._store.search, [*map(_with_ties, finding), *scoring], where=where, fields=fields)
                for where in (plan.where, *boost)
            )
        )
        scored = [(leg, lists.pop()) for lists in (found, *typed) for leg in reversed(scoring)]
        found, *typed = ([_as_good(each, plan.depth) for each in lists] for lists in (found, *typed))
        self._places |= {s.id: s.payload for each in (found, *typed) for leg in each for s in leg}
        boosted = frozenset[str]().union(*(take(finding, lists) for lists in typed))
        ids = take(finding, found) | boosted
        for leg, points in scored:
            scores[leg.vector] |= {s.id: s.score for s in points if s.id in ids}
        # Passages of which nothing was said then have no sentences of their own.
        left = [leg for leg in near if not (scoring and leg.vector == MULTI)]
        if missing := frozenset(id for leg in left for id in ids - scores[leg.vector].keys()):
            every = [replace(leg, limit=len(missing)) for leg in left]
            take(left, self._store.search(every, where=[Among(missing)], fields=False))
        if MULTI in scores and DENSE in scores:  # a passage that has no sentences of its own is one itself
            scores[MULTI] = scores[DENSE] | scores[MULTI]
        rankings: dict[str, Ranking] = {
            name: sorted((dict.fromkeys(ids, 0.0) | said).items(), key=lambda pair: (-pair[1], pair[0]))
            for name, said in scores.items()
        }
        return rankings, boosted, [s.vector for each in found for s in each if s.vector is not None]

    @staticmethod
    def _among(leg: Leg, others: Sequence[Leg]) -> Leg:
        """A leg that says of what others find how near it is."""
        among = tuple(replace(_with_ties(each), held=0) for each in others)
        return replace(leg, limit=_AMONG, among=among)

    @property
    def _weighs_by_question(self) -> bool:
        """Whether the legs' weights are those that belong to the question: nobody has set any."""
        is_set = self.settings.sparse_weight is not None or self.settings.dense_weight is not None
        return self._encoder.encoding.by_question and self._encoder.weighs_words and not is_set

    def _weights(
        self, plan: Plan, text: str, rankings: Mapping[str, Ranking], held: Iterable[Vector]
    ) -> dict[str, float]:
        """The weights of the legs by how much of the question the passages with most of its words hold."""
        embedder, dense = self._encoder.embedder, [name for name in rankings if name != SPARSE]
        if embedder is None or not dense:
            return {}
        return weights(self._coverage(plan, text, held), dense, static=is_static(embedder.name))

    def _coverage(self, plan: Plan, text: str, held: Iterable[Vector]) -> float:
        """The largest share of the weight of a question's words that one of the passages `held` has."""
        passages = [vector.indices for vector in held if isinstance(vector, SparseVector)]
        asked = [self._words(text, [language]) for language in plan.languages]
        frequencies = self.catalogue.frequencies
        return max((frequencies.share(words, set(passage)) for words in asked for passage in passages), default=0.0)

    def _words(self, text: str, languages: Collection[str]) -> tuple[int, ...]:
        """The words of a question that count."""
        return words_of(self._encoder.sparse.query(text, languages).indices) if self._encoder.sparse else ()

    def _fixed_weights(self, vectors: Collection[str]) -> dict[str, float]:
        """What the legs weigh where a question has no weights of its own; passage and sentences share one weight."""
        settings, encoding = self.settings, self._encoder.encoding
        both = DENSE in vectors and MULTI in vectors
        found: dict[str, float] = {}
        for name in vectors:
            configured = settings.sparse_weight if name == SPARSE else settings.dense_weight
            own = encoding.weight(DENSE if both and name == MULTI else name)  # type: ignore[arg-type]
            weight = own if configured is None else configured
            found[name] = weight / 2 if both and name != SPARSE else weight
        return found

    def _has_no_word(self, plan: Plan, hits: Sequence[Hit]) -> bool:
        """Whether passages were found, but none by a word: the nearest in meaning of what has nothing to do with it."""
        asked = plan.text and self._fixed_weights(self._encoder.vectors).get(SPARSE, 0) > 0
        return bool(asked and hits) and not any("sparse" in hit.legs for hit in hits)

    def _listed(self, plan: Plan) -> list[Hit]:
        """Passages in the order of their documents, where there is nothing to look up."""
        where = [*plan.where, *conditions(plan.boosted, (), {})]
        if not where:
            raise SearchError("there is no question", hint="ask one, or list passages with --type, --doc or --where")
        points = list(self._store.scroll("chunks", where=where, fields=("file", "order")))
        points.sort(key=lambda point: (point.payload.get("file", ""), point.payload.get("order", 0)))
        return self._fetched([Fused(point.id, 0.0, {}) for point in points[: plan.limit]], plan.options.fields)

    def _fetched(self, fused: Sequence[Fused], fields: Fields) -> list[Hit]:
        payloads = {point.id: point.payload for point in self._store.get("chunks", [f.id for f in fused])}
        return [
            hit_of(f.id, payload, score=f.score, legs=f.legs, fields=_chosen(payload, fields))
            for f in fused
            if (payload := payloads.get(f.id)) is not None
        ]

    def _sections(self, plan: Plan, hits: Sequence[Hit], votes: Sequence[float]) -> tuple[FoundSection, ...]:
        voted = vote([hit.section for hit in hits], votes)[: plan.limit]
        stored = self._sections_of([v.section for v in voted])
        self.catalogue.outlines({payload["document"] for payload in stored.values()})  # all at once
        found = []
        for section, score, ranks in voted:
            of_section = tuple(hits[rank - 1] for rank in ranks)
            payload = stored.get(section)
            if payload is None:  # [RAG] documents = "none"
                found.append(FoundSection(section, score, of_section[0].place, of_section[0].title, hits=of_section))
                continue
            whole, order = hit_of(section, payload), payload.get("order", 0)
            document = whole.place.document
            before, after = self.catalogue.beside(document, order, -1), self.catalogue.beside(document, order, 1)
            found.append(
                FoundSection(
                    section,
                    score,
                    place=whole.place,
                    title=whole.title,
                    text=whole.text,
                    level=payload.get("level", 0),
                    before=before,
                    after=after,
                    hits=of_section,
                )
            )
        return tuple(found)

    def _companions(self, plan: Plan, sections: Sequence[FoundSection]) -> list[Hit]:
        """Sections as hits, with the fields asked for of their own."""
        if sections and not any(section.text for section in sections):
            raise SearchError(
                "the store holds no sections to return whole",
                hint='ingest with [RAG] documents = "heading", or search with --chunks',
            )
        if not plan.options.fields:
            payloads: dict[str, Mapping[str, Any]] = {}
        else:
            payloads = {p.id: p.payload for p in self._store.get("documents", [section.id for section in sections])}
        return [
            Hit(
                section.id, section.score, "section", section.place, section.text,
                section=section.id, title=section.title,
                payload=_chosen(payloads.get(section.id, {}), plan.options.fields),
                language=section.hits[0].language if section.hits else "",
            )
            for section in sections[: plan.limit]
        ]  # fmt: skip


def _question_in(asked: ReadQuestion) -> str:
    """What is to be looked up; what is left of a question of marks alone, such as its question mark, is nothing."""
    text = asked.text.strip()
    return "" if (asked.types or asked.documents) and not any(map(str.isalnum, text)) else text


def _chosen(payload: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The fields asked for, by the names they were asked for; one that is not there is left out."""
    if isinstance(fields, bool):
        return dict(payload) if fields else {}
    found = {name: _value(payload, field_path(name)) for name in fields}
    return {name: value for name, value in found.items() if value is not None}


def _value(payload: Mapping[str, Any], path: str) -> Any:
    """The value at a path as it is stored: a list stays one."""
    head, _, last = path.rpartition(".")
    for parent in values_at(payload, head) if head else [payload]:
        if isinstance(parent, Mapping) and last in parent:
            return parent[last]
    return None


def _with_ties(leg: Leg) -> Leg:
    return replace(leg, limit=leg.limit + _TIES)


def _as_good(found: Sequence[Scored], limit: int) -> list[Scored]:
    """The first of what was found, and what scores as the last of them."""
    least = found[limit - 1].score if len(found) > limit else 0.0
    return [each for each in found if len(found) <= limit or each.score >= least - 1e-6 * abs(least)]
