"""Models that help a search: they rerank its results, reading question and passage together, and write sub-questions.

To add a kind of reranker, write a function and add a row to `RERANKERS`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm import errors
from lmm.messages import Attachment, ChatRequest, Message
from lmm.models.client import Client
from lmm.models.port import Ask
from lmm.models.server import ModelServer
from lmm.models.structured import object_of
from lmm.prompts.templates import Prompts
from lmm_education.catalogue import Entry, has_numbers
from lmm_education.config import SearchSettings
from lmm_education.encode.local import check_library, load_fastembed
from lmm_education.encode.remote import ask_server, retry
from lmm_education.errors import SearchError
from lmm_education.material import Passage

Score = Callable[[str, Sequence[str]], Awaitable[list[float]]]
"""A function that returns how well each passage matches a question: a score for each, higher is better."""
_WHERE = "[search] reranker"


@dataclass(frozen=True, slots=True)
class Tools:
    """What rerankers may use: the settings, a model, its prompts, and keys from `env`."""

    settings: SearchSettings
    client: Client
    prompts: Callable[[], Prompts]
    env: Mapping[str, str]


def open_reranker(name: str, tools: Tools) -> Score:
    """Open the reranker of that name: ``FastEmbed/…``, ``model`` or ``http``.

    Raises:
        ConfigError: the name is unknown, or its settings are incomplete.
        ModelError: a package that it needs is not installed, or the model is not allowed.
    """
    kind, _, model = name.partition("/")
    if kind.lower() not in RERANKERS:
        raise errors.ConfigError(
            f"unknown reranker '{name}'",
            where=_WHERE,
            hint="use none, model, http, or FastEmbed/ and a cross-encoder, such as "
            "FastEmbed/Xenova/ms-marco-MiniLM-L-6-v2",
        )
    return RERANKERS[kind.lower()](model, tools)


async def rerank(hits: Sequence[Passage], question: str, score: Score) -> list[Passage]:
    """Return the hits sorted by a reranker's scores, which replace theirs; ties keep their order."""
    if not hits:
        return []
    scores = await score(question, [passage_text(hit) for hit in hits])
    order = sorted(range(len(hits)), key=lambda i: -scores[i])
    return [dataclasses.replace(hits[i], score=scores[i]) for i in order]


def passage_text(hit: Passage) -> str:
    """Return a passage with its document's title and its headings, as it was embedded."""
    head = "\n".join(dict.fromkeys(part for part in (hit.title, *hit.place.headings) if part))
    return f"{head}\n\n{hit.with_above}" if head else hit.with_above


# -- a cross-encoder -------------------------------------------------------------------------------


def _open_fastembed(model: str, tools: Tools) -> Score:
    check_library("fastembed", f"FastEmbed/{model}", _WHERE)

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        encoder = await asyncio.to_thread(load_fastembed, "cross-encoder", model, _WHERE)
        return await asyncio.to_thread(lambda: [float(s) for s in encoder.rerank(question, list(passages))])

    return score


# -- the language model ----------------------------------------------------------------------------


def _open_model(model: str, tools: Tools) -> Score:
    client = tools.client
    if not can_write(client.name):
        raise SearchError(
            f"{client.name} cannot rank passages",
            hint="set a model under [aux] in config.toml, or another reranker under [search]",
        )

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        documents = tuple(Attachment(text, "passage", number=i) for i, text in enumerate(passages, 1))
        prompt = tools.prompts().fill("rerank", question=question)
        request = ChatRequest((Message("user", prompt, documents),))
        numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": len(passages)}
        reply = await client.value(Ask(request), object_of(best_first=numbers))
        return ranked_scores(reply["best_first"], len(passages))

    return score


def ranked_scores(numbers: Sequence[int], count: int) -> list[float]:
    """Return scores of `count` passages from their ranking by number: the n-th gets ``1 / n``, missing ones 0.

    >>> ranked_scores([3, 1], 3)
    [0.5, 0.0, 1.0]
    """
    order = [number for number in dict.fromkeys(numbers) if 1 <= number <= count]
    return [1 / (order.index(i) + 1) if i in order else 0.0 for i in range(1, count + 1)]


# -- a server --------------------------------------------------------------------------------------


def _open_http(model: str, tools: Tools) -> Score:
    settings = tools.settings
    if not settings.reranker_url:
        raise errors.ConfigError(
            "reranker = \"http\" needs 'reranker_url'",
            where="[search]",
            hint='such as reranker_url = "https://api.jina.ai/v1/rerank" with reranker_key_env = "JINA_API_KEY"',
        )
    key = tools.env.get(settings.reranker_key_env, "") if settings.reranker_key_env else ""
    if settings.reranker_key_env and not key:
        raise errors.ModelKeyMissing(
            "the reranker needs an API key", where="[search]", hint=f"export {settings.reranker_key_env}=…"
        )
    server = ModelServer(
        f"the reranker at {settings.reranker_url}",
        settings.reranker_url,
        "[search]",
        key,
        {"Authorization": f"Bearer {key}"} if key else {},
        hints=_HINTS,
        setting="reranker_url",
    )
    name = model or settings.reranker_model

    async def score(question: str, passages: Sequence[str]) -> list[float]:
        """Use the protocol of Jina and Cohere, which vLLM, llama.cpp, Infinity and Voyage also support."""
        body = {"query": question, "documents": list(passages)} | ({"model": name} if name else {})
        async with server.client() as client:
            read = functools.partial(read_scores, count=len(passages))
            return await retry(server, lambda: ask_server(server, client, body, read, "scores"))

    return score


_HINTS = {
    200: "does the server support the protocol of Jina or Cohere?",
    **dict.fromkeys((401, 403), "check the key in the variable that reranker_key_env names"),
    404: "check reranker_url and reranker_model under [search]",
}


def read_scores(reply: Any, count: int) -> list[float]:
    """Return a score per passage; passages that the server left out are ranked last.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: the reply contains no scores, or not only numbers.

    >>> read_scores({"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}, 2)
    [0.2, 0.9]
    """
    rows = reply if isinstance(reply, list) else reply["results"] if "results" in reply else reply["data"]
    found = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
    if not found or not found.keys() <= set(range(count)) or not all(map(math.isfinite, found.values())):
        raise ValueError(f"the scores are {list(found.items())[:10]}")
    lowest = min(found.values())
    return [found.get(i, lowest - 1.0) for i in range(count)]


RERANKERS: Mapping[str, Callable[[str, Tools], Score]] = {
    "fastembed": _open_fastembed,
    "model": _open_model,
    "http": _open_http,
}


# -- sub-questions -----------------------------------------------------------------------------------

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
    if not can_write(client.name):
        raise SearchError(
            f"{client.name} cannot write sub-questions",
            hint="set a model under [aux] in config.toml, or expand = 0 under [search]",
        )
    prompt = prompts.fill("expand", count=str(count), question=question, contents=contents, language=language)
    texts = {"type": "array", "items": {"type": "string"}, "maxItems": count}
    reply = await client.value(Ask.of(prompt), object_of(texts=texts), retries=retries)
    found = dict.fromkeys(text for one in reply["texts"] if (text := " ".join(one.split())))
    return [one for one in found if one.casefold() != question.strip().casefold()][:count]


def can_write(model: str) -> bool:
    """Return whether the model of this name follows instructions; the built-in one only selects sentences."""
    return not model.startswith("Builtin/")


def shown_contents(contents: Sequence[Entry], room: int = CONTENTS) -> str:
    """Return a table of contents as text: as many whole levels as there is room for, and the beginning of the next.
    Headings have their numbers; documents without one are counted, as "chapter 2" means the second.

    >>> entries = [Entry("Biology", 0, "b.md", 1), Entry("Cells", 1, "b.md", 1), Entry("Division", 2, "b.md", 3)]
    >>> print(shown_contents([*entries, Entry("Physics", 0, "p.md", 1)], 30))
    1. Biology
      Cells
    2. Physics
    """
    documents = [entry for entry in contents if not entry.level]
    counted = {} if has_numbers(documents) else {entry: f"{number}. " for number, entry in enumerate(documents, 1)}
    lines = [(entry.level, f"{'  ' * entry.level}{counted.get(entry, '')}{entry.name}") for entry in contents]
    queue = deque(sorted(range(len(lines)), key=lambda i: lines[i][0]))
    shown = set[int]()
    while queue and (room := room - len(lines[queue[0]][1]) - 1) >= 0:
        shown.add(queue.popleft())
    return "\n".join(lines[i][1] for i in sorted(shown))
