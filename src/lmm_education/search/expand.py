"""Sub-questions: the aux model writes what else to look up for a question that is about several things."""

from __future__ import annotations

import functools

from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import Schema, object_of
from lmm.prompts.templates import Prompts
from lmm_education.errors import SearchError


async def sub_questions(question: str, count: int, model: ChatModel, prompts: Prompts) -> list[str]:
    """At most `count` questions that cover the question between them, each once, without the one that was asked.

    Raises:
        SearchError: the model has no language to write in.
        ModelError: the model did not answer, or not with questions.
    """
    if not can_write(model):
        raise SearchError(
            f"{model.name} cannot write sub-questions",
            hint="set a model under [aux] in config.toml, or expand = 0 under [search]",
        )
    prompt = prompts.fill("expand", count=str(count), question=question)
    said = await Client.of(model).value(Ask.of(prompt), _questions(count))
    found = dict.fromkeys(text for one in said["questions"] if (text := " ".join(one.split())))
    return [one for one in found if one.casefold() != question.strip().casefold()][:count]


@functools.lru_cache(maxsize=16)
def _questions(count: int) -> Schema:
    texts = {"type": "array", "items": {"type": "string"}, "maxItems": count}
    return object_of(questions=texts)


def can_write(model: ChatModel) -> bool:
    """Whether a model does what it is told in words; the built-in one only picks sentences."""
    return not model.name.startswith("Builtin/")
