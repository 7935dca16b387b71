"""``lmm_education.query``: an answer from a course, for programs.

>>> import lmm_education
>>> answer = lmm_education.query("What is a residual?", config="config.toml")  # doctest: +SKIP
>>> print(answer.text, answer.cited[0].place)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lmm import loop
from lmm.models.port import ChatModel
from lmm_education.answer.answers import Answer, AnswerListener, AskOptions, History
from lmm_education.answer.history import Exchange
from lmm_education.answer.run import Answering
from lmm_education.open_course import open_course
from lmm_education.search.query import SearchOptions, Value
from lmm_education.store.port import Store


def query(
    question: str,
    *,
    types: Sequence[str] = (),
    documents: Sequence[str] = (),
    where: Mapping[str, Sequence[Value]] | None = None,
    history: Sequence[tuple[str, str]] = (),
    mode: History | None = None,
    agent: bool = False,
    budget: int | None = None,
    model: str | ChatModel | None = None,
    config: str | Path | None = None,
    course: str | None = None,
    store: Store | None = None,
    listener: AnswerListener = lambda event: None,
) -> Answer:
    """The answer to a question from the course's own material, with its sources.

    Args:
        types: only material of these types, such as ``exercise``.
        documents: only these documents, by docid or file.
        where: only passages whose metadata have one of these values.
        history: earlier questions and their answers, oldest first.
        mode: what the history is for, instead of the configured one.
        agent: give the model tools to look for itself.
        budget: tokens of context, instead of the configured number.
        model: a name, such as ``Ollama/llama3.2``, or a model; else the configured one.
        listener: is told what happens, pieces of the answer included.

    Raises:
        StoreError: nothing was ingested, or the store cannot be read.
        ModelError: a model did not answer.
        ConfigError: the configuration asks for something unknown.
    """
    options = AskOptions(_search(types, documents, where), budget, mode, agent)
    return loop.run(_answered(question, options, history, model, config, course, store, listener))


async def aquery(
    question: str,
    *,
    types: Sequence[str] = (),
    documents: Sequence[str] = (),
    where: Mapping[str, Sequence[Value]] | None = None,
    history: Sequence[tuple[str, str]] = (),
    mode: History | None = None,
    agent: bool = False,
    budget: int | None = None,
    model: str | ChatModel | None = None,
    config: str | Path | None = None,
    course: str | None = None,
    store: Store | None = None,
    listener: AnswerListener = lambda event: None,
) -> Answer:
    """`query` for callers with an event loop of their own."""
    options = AskOptions(_search(types, documents, where), budget, mode, agent)
    return await loop.run_async(_answered(question, options, history, model, config, course, store, listener))


def _search(
    types: Sequence[str], documents: Sequence[str], where: Mapping[str, Sequence[Value]] | None
) -> SearchOptions:
    return SearchOptions(types=tuple(types), documents=tuple(documents), where=where or {})


async def _answered(
    question: str,
    options: AskOptions,
    history: Sequence[tuple[str, str]],
    model: str | ChatModel | None,
    config: str | Path | None,
    course: str | None,
    store: Store | None,
    listener: AnswerListener,
) -> Answer:
    earlier = [Exchange(asked, answered) for asked, answered in history]
    with open_course(
        config=config, course=course, store=store, model=model if isinstance(model, str) else None
    ) as opened:
        answering = Answering(opened, options, None if isinstance(model, str) else model)
        async for event in answering.stream(question, earlier):
            listener(event)
            if isinstance(event, Answer):
                return event
    raise RuntimeError("the stream ended without an answer")
