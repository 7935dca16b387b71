"""Query expansion with the aux model: sub-questions, and questions reworded in the terms of the course."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from lmm.models.client import Client
from lmm.models.port import Ask, ChatModel
from lmm.models.structured import Schema, object_of
from lmm.prompts.templates import Prompts
from lmm_education.catalogue import Entry
from lmm_education.errors import SearchError

CONTENTS = 6_000
"""Characters of a course's headings that the model is shown, those of the highest levels first."""


async def sub_questions(
    question: str, count: int, client: Client, prompts: Prompts, *, language: str, contents: str = "", retries: int = 1
) -> list[str]:
    """Return at most `count` distinct texts to look up that together cover the question, without the question itself.
    `language` is that of the course, and `contents` its headings.

    Raises:
        SearchError: the model is not a language model.
        ModelError: the model did not answer, or not with texts.
    """
    if not can_write(client):
        raise SearchError(
            f"{client.name} cannot write sub-questions",
            hint="set a model under [aux] in config.toml, or expand = 0 under [search]",
        )
    prompt = prompts.fill("expand", count=str(count), question=question, contents=contents, language=language)
    said = await client.value(Ask.of(prompt), _texts(count), retries=retries)
    found = dict.fromkeys(text for one in said["texts"] if (text := " ".join(one.split())))
    return [one for one in found if one.casefold() != question.strip().casefold()][:count]


@functools.lru_cache(maxsize=16)
def _texts(count: int) -> Schema:
    texts = {"type": "array", "items": {"type": "string"}, "maxItems": count}
    return object_of(texts=texts)


def can_write(model: ChatModel | Client) -> bool:
    """Return whether a model follows instructions; the built-in one only selects sentences."""
    return not model.name.startswith("Builtin/")


def shown_contents(contents: Sequence[Entry], room: int = CONTENTS) -> str:
    """Return a table of contents as text: as many whole levels as there is room for, and the beginning of the next.

    >>> entries = [Entry("Biology", 0, "d.md", 1), Entry("Cells", 1, "d.md", 1), Entry("Division", 2, "d.md", 3)]
    >>> print(shown_contents(entries, 20))
    Biology
      Cells
    """
    lines = [(entry.level, f"{'  ' * entry.level}{entry.title}") for entry in contents]
    waiting = deque(sorted(range(len(lines)), key=lambda i: lines[i][0]))
    shown = set[int]()
    while waiting and (room := room - len(lines[waiting[0]][1]) - 1) >= 0:
        shown.add(waiting.popleft())
    return "\n".join(lines[i][1] for i in sorted(shown))
