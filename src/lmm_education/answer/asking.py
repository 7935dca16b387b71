"""``lmm_education.query``: an answer from a course, for programs.

>>> import lmm_education
>>> answer = lmm_education.query("What is a residual?", config="config.toml")  # doctest: +SKIP
>>> print(answer.text, answer.cited[0].place)  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from lmm import loop
from lmm.models.port import ChatModel
from lmm_education.answer.answers import Answer, AnswerListener, AskOptions, History
from lmm_education.answer.history import Exchange
from lmm_education.answer.run import Answering, open_answering
from lmm_education.open_course import Course, open_course
from lmm_education.search.query import SearchOptions, Value


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
    course: str | Course | None = None,
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
        course: the course's name, or a course that is open (for many questions: see `open_course`).
        listener: is told what happens, pieces of the answer included.

    Raises:
        StoreError: nothing was ingested, or the store cannot be read.
        ModelError: a model did not answer.
        ConfigError: the configuration asks for something unknown.
    """
    options = AskOptions(_search(types, documents, where), budget, mode, agent)
    earlier = [Exchange(asked, answered) for asked, answered in history]
    with ExitStack() as closing:
        if not isinstance(course, Course):
            named = model if isinstance(model, str) else None
            course = closing.enter_context(open_course(config=config, course=course, model=named))
        answering = open_answering(course, options, major=None if isinstance(model, str) else model)
        return loop.run(_answered(answering, question, earlier, listener))


class QueryArguments(TypedDict, total=False):
    """The arguments of `query`."""

    types: Sequence[str]
    documents: Sequence[str]
    where: Mapping[str, Sequence[Value]] | None
    history: Sequence[tuple[str, str]]
    mode: History | None
    agent: bool
    budget: int | None
    model: str | ChatModel | None
    config: str | Path | None
    course: str | Course | None
    listener: AnswerListener


async def aquery(question: str, **arguments: Unpack[QueryArguments]) -> Answer:
    """`query` for callers with an event loop of their own; `listener` is called in another thread."""
    return await asyncio.to_thread(partial(query, question, **arguments))


def _search(
    types: Sequence[str], documents: Sequence[str], where: Mapping[str, Sequence[Value]] | None
) -> SearchOptions:
    return SearchOptions(types=tuple(types), documents=tuple(documents), where=where or {})


async def _answered(
    answering: Answering, question: str, history: Sequence[Exchange], listener: AnswerListener
) -> Answer:
    async for event in answering.stream(question, history):
        listener(event)
        if isinstance(event, Answer):
            return event
    raise RuntimeError("the stream ended without an answer")
