"""`Course`: documents that can be asked. Every command of the course, and every script, is a few lines over it.

Each method imports the modules that do the work, so that opening a course is fast.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from lmm import loop
from lmm.arguments import check_arguments, check_call
from lmm.errors import IN_PYTHON, LmmError
from lmm.models.port import ChatModel, Embedder, ModelLike, RunnableTool, given_model
from lmm_education.answer.answer import Answer, AnswerEvent, AnswerListener
from lmm_education.answer.history import Exchange
from lmm_education.errors import SearchError, StoreError, StoreMissing
from lmm_education.ingestion.reports import IngestReport, Listener, ignore
from lmm_education.material import PreparedDocument
from lmm_education.options import AskOptions, ExportOptions, IngestOptions, SearchOptions
from lmm_education.parts import CourseParts
from lmm_education.payloads import StoredDocument
from lmm_education.search.query import SearchResult
from lmm_education.store.port import Fields, StoreStatus

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from lmm.models.budget import SharedBudget
    from lmm_education.answer.answering import Answering
    from lmm_education.evaluation.answers import AnswerEvaluation
    from lmm_education.evaluation.experiments import Calibration, Progress
    from lmm_education.evaluation.questions import Question
    from lmm_education.evaluation.results import Evaluation
    from lmm_education.leaks import LeakReport
    from lmm_education.store.open import Transfer
    from lmm_education.study.cards import CardReport
    from lmm_education.study.exercises import Exercise
    from lmm_education.study.notes import ExportReport, Notes
    from lmm_education.study.plans import StudyPlan
    from lmm_education.study.study_documents import Entry, Reading, StudyDocument

Asked = TypeVar("Asked", bound=SearchOptions)
Questions = str | Path | Iterable["str | Path"] | Sequence["Question"]


IN_PYTHON.update({"lmm ingest": "course.ingest(PATH)", "lmm store repair": "course.repair()"})
IN_PYTHON.update({"lmm ask": "course.ask()", "--chunks": "companion=False", "--id": "course.fetch(ID)"})
IN_PYTHON.update({"--prune": "prune=True"} | {f"--{name}": f"{name}=…" for name in ("documents", "keep", "model")})


@check_arguments
class Course(CourseParts):
    """A course whose documents can be searched and asked. Created with `open`; a context manager.

    Paths are relative to the current folder. Every method may raise an `LmmError`, which says where, what, and what to
    do next; errors specific to a method are listed with it.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "leaves.md").write_text("# Leaves\\n\\nChlorophyll makes leaves green.\\n")
    >>> with Course.open(folder) as course:
    ...     course.ingest().count("new"), str(course.search("green leaves").hits[0].place)
    (1, 'leaves.md:3')
    """

    # -- prepare and store -------------------------------------------------------------------------

    def ingest(
        self, *paths: str | Path, listener: Listener = ignore, **options: Annotated[Any, IngestOptions]
    ) -> IngestReport:
        """Prepare documents and store them; only what changed is embedded.

        Args:
            paths: files, folders and patterns; by default the course's folder.
            listener: called with progress events, in this thread.
            options: `IngestOptions`, such as ``dry_run=True``; with ``ingest=False``, nothing is embedded or stored.

        Returns:
            A report on every document; its `failed` lists the errors.

        Raises:
            StoreError: the store cannot be read or written, or was made with other settings.
        """
        from lmm_education.ingestion.ingest import ingest_into

        return ingest_into(self, paths or [self.root], IngestOptions(**options), listener=listener)

    aingest = loop.threaded(ingest)

    def prepare(self, *paths: str | Path) -> list[PreparedDocument]:
        """Cut documents into sections and chunks, as `ingest` would store them; nothing is embedded or written.

        Raises:
            LmmError: a document cannot be read or prepared; the error says which, and why.
        """
        from lmm_education.ingestion.ingest import prepare_documents

        return prepare_documents(self, paths or [self.root])

    def points(
        self, documents: Iterable[PreparedDocument], *, what: Literal["chunks", "sections"] = "chunks"
    ) -> Iterator[dict[str, Any]]:
        """Iterate over chunks of documents as Qdrant points of JSON values: ``id``, ``vector`` (by name), ``payload``;
        or over their sections, without vectors, for a second collection that chunks refer to by their ``section``.

        Qdrant's REST interface accepts them as they are, its client as ``PointStruct(**point)``.

        Raises:
            ModelError: the embedding model does not answer.
        """
        from lmm_education.exports import points

        return points(documents, self.encoder, what=what)

    def watch(
        self,
        *paths: str | Path,
        quiet: float = 1.0,
        stop: threading.Event | None = None,
        listener: Listener = ignore,
        on_result: Callable[[IngestReport | LmmError], None] = lambda result: None,
        on_poll: Callable[[str], None] = lambda reason: None,
        **options: Annotated[Any, IngestOptions],
    ) -> None:
        """Ingest now, and whenever files were saved and none changed for `quiet` seconds, until Ctrl-C or `stop`.

        `options` are those of `ingest`. `on_result` is called with each report, or with the error that ended a run;
        `on_poll` with the reason why files must be polled. All callbacks are called in another thread.
        """
        from lmm_education.ingestion.watch import watch_course

        watched, how = paths or [self.root], IngestOptions(**options)
        watch_course(
            self, watched, how, quiet=quiet, stop=stop, listener=listener, on_result=on_result, on_poll=on_poll
        )

    # -- search and ask ----------------------------------------------------------------------------

    def search(self, question: str = "", **options: Annotated[Any, SearchOptions]) -> SearchResult:
        """Find the passages that best match a question; without a question, those that meet the conditions.

        ``*exercise*`` in the question prefers passages of that type, ``@week-3`` searches only that document.

        Args:
            options: `SearchOptions`, such as ``types="exercise"`` or ``where={"level": "easy"}``.

        Raises:
            SearchError: the question cannot be asked of this store, or names something that is not in it.
            StoreError: there is no store, or it was made with other settings.
            ModelError: a required model does not answer.
        """
        from lmm_education.search.search import CourseSearch

        return CourseSearch(self).search(question, self._at_place(SearchOptions(**options)))

    asearch = loop.threaded(search)

    def fetch(self, *ids: str, fields: Fields = ()) -> SearchResult:
        """Return the passages and sections with these ids, in this order.

        Raises:
            SearchError: an id is unknown.
            StoreError: there is no store.
        """
        from lmm_education.search.search import CourseSearch

        return CourseSearch(self).fetch(ids, fields=fields)

    afetch = loop.threaded(fetch)

    def _chats(self, model: ModelLike | None, temperature: float | None = None) -> tuple[ChatModel, ChatModel]:
        """Return the model that answers (the given one or the configured one), and the one for auxiliary questions: the
        one configured for them, or one of the same provider."""
        from lmm.config_files import settings_for
        from lmm.models.chat import shared_chat

        models = self.models
        named, given = given_model(self.major if model is None else model)
        if named:
            models = settings_for(config=self.config, overrides={"major": named}, env=self.env)
        elif given is not None:
            return given, shared_chat(models.aux) if models.is_chosen("aux") else given
        if temperature is not None:
            models = models.replace(major={"temperature": temperature})
        return shared_chat(models.major), shared_chat(models.aux)

    def _answering(self, options: AskOptions, course: CourseParts | None = None) -> Answering:
        from lmm.models.budget import BudgetedModel, SharedBudget
        from lmm_education.answer.answering import Answering
        from lmm_education.search.search import CourseSearch

        major, aux = self._chats(options.model, options.temperature)
        if options.budget:
            spent = SharedBudget.of(options.budget)
            major, aux = BudgetedModel(major, spent), BudgetedModel(aux, spent)
        return Answering(CourseSearch(course or self, aux), self._at_place(options), major, aux)

    async def _events(self, question: str, options: AskOptions) -> AsyncGenerator[AnswerEvent]:
        from lmm.models.budget import SharedBudget

        earlier = [
            Exchange(each.question, each.text) if isinstance(each, Answer) else Exchange(*each)
            for each in options.history
        ]
        budget = SharedBudget.of(options.budget) if options.budget else None
        options = options.replace(budget=budget)
        answering = await asyncio.to_thread(self._answering, options)
        async for event in answering.stream(question, earlier):
            if isinstance(event, Answer) and budget and budget.excess:
                event = dataclasses.replace(event, notices=(*event.notices, budget.excess))
            yield event

    def _at_place(self, options: Asked) -> Asked:
        """Return options with the section at the reader's place.

        Raises:
            SearchError: it is not part of the course.
        """
        if not options.here:
            return options
        from lmm_education.study.study_documents import section_at

        with self.view() as catalogue:
            section = section_at(catalogue, options.here)
        if section is None:
            hint = "such as leaves.md#colour"
            raise SearchError(f"'{options.here}' is not a page or a section of the course", hint=hint)
        return options.replace(section=section)

    @loop.background
    async def aask(
        self,
        question: str,
        *,
        listener: AnswerListener = lambda event: None,
        **options: Annotated[Any, AskOptions],
    ) -> Answer:
        """Answer a question from the course's own material, with its sources.

        Args:
            listener: called with each event, including pieces of the answer, in another thread.
            options: `AskOptions`, such as ``types="exercise"``, ``history=[answer]`` or ``model="Ollama/llama3.2"``.

        Raises:
            StoreError: nothing was ingested, or the store cannot be read.
            SearchError: `here` is not part of the course.
            ModelError: a model did not answer.
            LimitReached: the budget is used up, or the price of the model is unknown.
        """
        async for event in self._events(question, AskOptions(**options)):
            listener(event)
            if isinstance(event, Answer):
                return event
        raise RuntimeError("the stream ended without an answer")

    ask = loop.blocking(aask)

    def stream(self, question: str, **options: Annotated[Any, AskOptions]) -> AsyncGenerator[AnswerEvent]:
        """Iterate over the events of an answer, with ``async for``; the last one is the `Answer`. See `aask`."""
        return loop.bridge(self._events(question, AskOptions(**options)))

    # -- study material ----------------------------------------------------------------------------

    def documents(self) -> list[StoredDocument]:
        """Return the stored documents, in reading order; empty if there is no store yet."""
        try:
            with self.view() as catalogue:
                return list(catalogue.documents)
        except StoreMissing:
            return []

    def read(self, *paths: str | Path) -> Reading:
        """Read documents for the methods below; those that cannot be read are listed in the result."""
        from lmm_education.study.study_documents import read_documents

        return read_documents(paths or [self.root], self.settings)

    def _material(self, paths: Sequence[str | Path | Reading]) -> list[StudyDocument]:
        """Return documents that were read, or those at some paths; without either, the stored ones."""
        from lmm_education.study.study_documents import Reading, documents_at, stored_documents

        if not paths:
            return stored_documents(self)
        read = [document for path in paths if isinstance(path, Reading) for document in path.documents]
        files = [path for path in paths if not isinstance(path, Reading)]
        return read + documents_at(files, self.settings)

    def toc(self, *paths: str | Path | Reading, depth: int = 6) -> list[Entry]:
        """Return the table of contents of documents: at these paths, or already `read`; by default, the stored ones.

        Raises:
            DocumentError: a document cannot be read.
            StoreError: no paths were given, and there is no readable store.
        """
        from lmm_education.study.study_documents import table_of_contents

        return table_of_contents(self._material(paths), depth=depth)

    def plan(self, *paths: str | Path | Reading, depth: int = 2, words_per_minute: int | None = None) -> StudyPlan:
        """Return the sections of documents in the order in which to read them, and how long that takes."""
        from lmm_education.study.plans import study_plan

        study = self.settings.study
        pace = words_per_minute or study.words_per_minute
        return study_plan(
            self._material(paths),
            depth=depth,
            words_per_minute=pace,
            keep=study.keep,
            exercises=study.exercises,
            solutions=study.solutions,
        )

    def cards(
        self,
        *paths: str | Path,
        model: ModelLike | None = None,
        write: bool = False,
        again: bool = False,
        budget: str | float | None = None,
        solutions: bool = False,
    ) -> CardReport:
        """Return the study cards of documents; its `cards` can be saved with `lmm_education.study.save_cards`.

        Documents that cannot be read are listed in the report.

        Args:
            model: writes cards for sections that have none; without paths, for the documents in the course's folder.
            write: also write these cards into the documents, where they can be corrected.
            again: ask again, even if an earlier run has the reply.
            budget: limit for the model, as in `aask`; sections after it was reached are among the failures.
            solutions: return also cards with texts that are withheld from students.
        """
        from lmm.models.budget import BudgetedModel, SharedBudget
        from lmm_education.study.cards import cards_of, write_cards
        from lmm_education.study.study_documents import Reading

        if model is None:
            reading = self.read(*paths) if paths else Reading(self._material(()))
            return cards_of(reading, self.settings, solutions=solutions)
        if budget:
            model = BudgetedModel(self._chats(model)[0], SharedBudget.of(budget))
        how: dict[str, Any] = {"config": self.config, "again": again, "save": write, "solutions": solutions}
        return write_cards(paths or [self.root], model=model, **how)

    def exercises(self, *paths: str | Path | Reading, types: Collection[str] = ()) -> list[Exercise]:
        """Return the exercises of documents with their solutions; with `types`, the texts of those types."""
        from lmm_education.study.exercises import find_exercises

        study = self.settings.study
        return find_exercises(self._material(paths), kinds=types or study.exercises, solutions=study.solutions)

    def notes(self, path: str | Path, **options: Annotated[Any, ExportOptions]) -> Notes:
        """Return the clean notes of a document: without metadata, conversations and special material.

        `options` are those of `ExportOptions`, such as ``keep="definition"``.

        Raises:
            ExportError: it cannot be exported as it is, or all of it is special material.
        """
        from lmm_education.study.notes import read_notes

        return read_notes(path, ExportOptions(**options, config=self.config))

    def export(self, path: str | Path, output: str | Path, **options: Annotated[Any, ExportOptions]) -> ExportReport:
        """Write the clean notes of a document, or of a folder including linked files; see `notes`.

        Raises:
            ExportError: a file cannot be exported as it is, or would overwrite a source.
        """
        from lmm_education.study.notes import export_notes

        return export_notes(path, output, ExportOptions(**options, config=self.config))

    # -- evaluate ----------------------------------------------------------------------------------

    def evaluate(
        self,
        questions: Questions,
        *,
        documents: Sequence[str | Path] = (),
        progress: Progress = lambda what, done, total: None,
    ) -> Evaluation:
        """Measure how well a search finds the answers to questions.

        Args:
            questions: question files, or questions.
            documents: measure with these in a temporary store, instead of the course's store (also below).
            progress: called with the current activity, the number of items done, and the total (also below).

        Raises:
            LmmError: a row of a question file cannot be used, or no question has an answer.
            StoreError: there is no store, or it cannot be read.
        """
        from lmm_education.evaluation.experiments import course_of, evaluate

        with course_of(self, documents, progress=progress) as chosen:
            return evaluate(chosen, _questions(questions), progress=progress)

    aevaluate = loop.threaded(evaluate)

    def compare(
        self,
        questions: Questions,
        *axes: str,
        documents: Sequence[str | Path] = (),
        progress: Progress = lambda what, done, total: None,
    ) -> list[Evaluation]:
        """Evaluate other settings, such as ``encoding=content,hybrid``, in temporary stores."""
        from lmm_education.evaluation.experiments import evaluate_variants, make_variants

        variants = make_variants(axes, self.settings)
        return evaluate_variants(self, _questions(questions), variants, documents=documents, progress=progress)

    def evaluate_answers(
        self,
        questions: Questions,
        *axes: str,
        documents: Sequence[str | Path] = (),
        budget: str = "",
        progress: Progress = lambda what, done, total: None,
    ) -> list[AnswerEvaluation]:
        """Ask every question, and measure whether the answers are right, grounded and cite the right sources.

        Args:
            axes: settings to compare, such as ``model=OpenAI/gpt-5-mini,Ollama/llama3.2``; else the course's own.
            budget: limit for the models for each setting, as in `aask`.

        Raises:
            LmmError: a row of a question file cannot be used, or no question was answered.
        """
        from lmm_education.evaluation.answers import evaluate_answers
        from lmm_education.evaluation.experiments import Variant, course_of, make_variants, scratch_courses

        asked = _questions(questions)

        def measure(course: CourseParts, variant: Variant) -> AnswerEvaluation:
            options = AskOptions(model=variant.model or None, budget=budget)
            answering = self._answering(options, course)
            return loop.run(evaluate_answers(answering, asked, label=variant.label, progress=progress))

        if not axes:
            with course_of(self, documents, progress=progress) as chosen:
                return [measure(chosen, Variant("", self.settings))]
        with scratch_courses(self, documents, progress=progress) as make:
            return [measure(make(v), v) for v in make_variants(axes, self.settings, answers=True)]

    def find_leaks(
        self,
        *,
        model: ModelLike | None = None,
        budget: str | float | SharedBudget = "",
        progress: Progress = lambda what, done, total: None,
    ) -> LeakReport:
        """Ask for every solution that is withheld from students, as they would, and report the answers that reveal it.

        Args:
            model: answers instead of the configured one; `budget` is its limit, as in `aask`.

        Raises:
            StoreError: nothing was ingested, or the store cannot be read.
            ModelError: a model did not answer.
        """
        from lmm_education.leaks import find_leaks

        options = AskOptions(model=model, budget=budget)
        answering = self._answering(options, self.for_students())
        return loop.run(find_leaks(self, answering, self.exercises(), progress=progress))

    def calibrate(
        self,
        questions: Questions,
        *,
        documents: Sequence[str | Path] = (),
        progress: Progress = lambda what, done, total: None,
    ) -> Calibration:
        """Find the relevance below which results are irrelevant: ``[search] threshold``."""
        from lmm_education.evaluation.experiments import calibrate_threshold, course_of

        with course_of(self, documents, progress=progress) as chosen:
            return calibrate_threshold(chosen, _questions(questions), progress=progress)

    def app(self, *, hosts: Sequence[str] | None = None) -> Starlette:
        """Return the web chat and the HTTP API as an ASGI application; the course must stay open while it runs.

        `hosts` are the host names that requests may use, by default this machine's own; ``("*",)`` allows any.
        """
        from lmm_education.web.app import LOOPBACK, create_app

        return create_app(self, hosts=LOOPBACK if hosts is None else hosts)

    def tools(self) -> list[RunnableTool]:
        """Return tools for agents, which search, list mentions, open a section, and show the contents."""
        from lmm_education.answer.lookup import Lookup, course_tools
        from lmm_education.search.search import CourseSearch

        return course_tools(Lookup(CourseSearch(self)), among_others=False)

    # -- the store ---------------------------------------------------------------------------------

    def status(self) -> StoreStatus:
        """Return what is in the store; its `manifest` is None if nothing has been ingested."""
        return self.store.status()

    def check(self) -> str:
        """Compare the stored data with what was written; return a description of what was compared.

        Raises:
            StoreMissing: nothing was ingested.
            StoreDamaged: there is a difference.
        """
        checked = self.store.check()
        if not checked:
            raise StoreMissing(self.store.location)
        return checked

    def repair(self, *paths: str | Path, prune: bool = False, listener: Listener = ignore) -> IngestReport:
        """Rebuild a damaged store from its documents, or from those at some paths, without opening it.

        Raises:
            StoreError: no paths were given, and the store has no list of documents.
        """
        from lmm_education.ingestion.ingest import ingest_into

        if not paths and not self.store.records():
            hint = "name them: lmm store repair PATH…"
            raise StoreError("it is not known which documents were stored", where=self.store.location, hint=hint)
        return ingest_into(self, paths, IngestOptions(again=True, repair=True, prune=prune), listener=listener)

    def push(self, to: str | Path, *, on_points: Callable[[int], None] = lambda count: None) -> Transfer:
        """Copy the store to another folder, or to a Qdrant server's address; existing points there are kept.

        `on_points` is called repeatedly with the number of points copied.

        Raises:
            StoreMissing: nothing was ingested.
            ConfigError: the target is the store itself.
        """
        from lmm_education.store.open import transfer

        return transfer(self.store, str(to), self.settings.storage, env=self.env, to=True, on_points=on_points)

    def pull(self, source: str | Path, *, on_points: Callable[[int], None] = lambda count: None) -> Transfer:
        """Copy a store from another folder or a server; see `push`."""
        from lmm_education.store.open import transfer

        return transfer(self.store, str(source), self.settings.storage, env=self.env, to=False, on_points=on_points)

    def remove(self, *documents: str) -> list[StoredDocument]:
        """Remove documents from the store, by docid, file, folder or file name; return those that were removed.

        Raises:
            StoreError: no document has the name, or several have.
        """
        from lmm_education.ingestion.stored import remove_documents

        return remove_documents(self.store, documents)


def _questions(given: Questions) -> list[Question]:
    """Return questions as they are, or read them from files."""
    from lmm_education.evaluation.questions import Question, read_usable

    several = [given] if isinstance(given, str | Path) else list(given)
    asked = [each for each in several if isinstance(each, Question)]
    return asked or read_usable(Path(each) for each in several if not isinstance(each, Question))


# -- functions for the current course --------------------------------------------------------------


@check_call
def ingest(
    paths: str | Path | Iterable[str | Path],
    *,
    config: str | Path | None = None,
    embedder: Embedder | None = None,
    **options: Any,
) -> IngestReport:
    """Call `Course.ingest` for the course of the current folder, or of the configuration beside the first path."""
    named = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    with Course.open(config=config, beside=named, embedder=embedder) as course:
        return course.ingest(*named, **options)


@check_call
def querydb(question: str, *, config: str | Path | None = None, **options: Any) -> SearchResult:
    """Call `Course.search` for the course of the current folder."""
    with Course.open(config=config) as course:
        return course.search(question, **options)


@check_call
def query(question: str, *, config: str | Path | None = None, **options: Any) -> Answer:
    """Call `Course.ask` for the course of the current folder."""
    with Course.open(config=config) as course:
        return course.ask(question, **options)
