"""Sub-questions: the aux model writes what else to look up for a question that is about several things."""

from __future__ import annotations

import re

from lmm.messages import ChatRequest, Message
from lmm.models.port import ChatModel, ask
from lmm.prompts.templates import Prompts
from lmm_education.errors import SearchError

_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d+[.):])?\s*")


async def sub_questions(question: str, count: int, model: ChatModel, prompts: Prompts) -> list[str]:
    """At most `count` questions that cover the question between them.

    Raises:
        SearchError: the model has no language to write in.
        ModelError: the model did not answer.
    """
    if not can_write(model):
        raise SearchError(
            f"{model.name} cannot write sub-questions",
            hint="set a model under [aux] in config.toml, or expand = 0 under [search]",
        )
    prompt = prompts.fill("expand", count=str(count), question=question)
    reply = await ask(model, ChatRequest((Message("user", prompt),), task="questions"))
    return read_questions(reply.text, question)[:count]


def read_questions(reply: str, question: str) -> list[str]:
    """The questions in a reply, one per line, each once, without the one that was asked.

    >>> read_questions("1. What is a leaf?\\n\\n- Why is it green?\\nWhat is a leaf?", "Why is a leaf green?")
    ['What is a leaf?', 'Why is it green?']
    """
    lines = (_BULLET.sub("", line, count=1).strip() for line in reply.splitlines())
    found = dict.fromkeys(line for line in lines if line and not line.startswith("```"))
    return [line for line in found if line.casefold() != question.strip().casefold()]


def can_write(model: ChatModel) -> bool:
    """Whether a model does what it is told in words; the built-in one only picks sentences."""
    return not model.name.startswith("Builtin/")
