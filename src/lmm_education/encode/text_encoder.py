"""Code shared by the adapters to embedding models: prefixes, shorter vectors."""

from __future__ import annotations

import ast
import math
import re
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lmm.models.port import Side


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes that a model expects before queries and documents; empty for none. Without them, its vectors are a
    little worse. `query_prefix` and `document_prefix` under ``[embedding]`` take precedence."""

    query: str = ""
    document: str = ""

    def of(self, kind: Side) -> str:
        """Return the prefix of one side.

        >>> Prefixes("query: ", "passage: ").of("query")
        'query: '
        """
        return self.query if kind == "query" else self.document


_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_SEARCHING = "Represent this sentence for searching relevant passages: "

# Part of a model's name and its prefixes; the model card that says so. The first row that matches counts.
# Names differ between hubs and servers (`intfloat/e5-base-v2`, `text-embedding-nomic-embed-text-v1.5`,
# `nomic-embed-text:latest`), so a row looks for what is common to them.
_ROWS: tuple[tuple[str, Prefixes], ...] = (
    (r"\be5-.*instruct", Prefixes(f"{_WEB_SEARCH} ")),  # intfloat/multilingual-e5-large-instruct
    (r"\be5-(small|base|large)", Prefixes("query: ", "passage: ")),  # intfloat/multilingual-e5-small
    (r"\bbge-m3", Prefixes()),  # BAAI/bge-m3
    (r"\bbge-(small|base|large)-zh", Prefixes("为这个句子生成表示以用于检索相关文章：")),  # BAAI/bge-base-zh-v1.5
    (r"\bbge-(small|base|large)", Prefixes(_SEARCHING)),  # BAAI/bge-small-en-v1.5
    # nomic-ai/nomic-embed-text-v1.5
    (r"nomic-embed-text|modernbert-embed", Prefixes("search_query: ", "search_document: ")),
    (r"deepset-mxbai-embed-de", Prefixes("query: ", "passage: ")),  # mixedbread-ai/deepset-mxbai-embed-de-large-v1
    (r"mxbai-embed-large", Prefixes(_SEARCHING)),  # mixedbread-ai/mxbai-embed-large-v1
    (r"arctic-embed(2|-[ml]-v2)", Prefixes("query: ")),  # Snowflake/snowflake-arctic-embed-l-v2.0
    (r"arctic-embed", Prefixes(_SEARCHING)),  # Snowflake/snowflake-arctic-embed-m
    # google/embeddinggemma-300m, and ai.google.dev/gemini-api/docs/embeddings
    (r"embeddinggemma|gemini-embedding-2", Prefixes("task: search result | query: ", "title: none | text: ")),
    (r"qwen3-embedding", Prefixes(_WEB_SEARCH)),  # Qwen/Qwen3-Embedding-0.6B
    (r"gte-qwen2-.*instruct", Prefixes(f"{_WEB_SEARCH} ")),  # Alibaba-NLP/gte-Qwen2-1.5B-instruct
    (r"jina-embeddings-v4", Prefixes("Query: ", "Passage: ")),  # jinaai/jina-embeddings-v4-vllm-retrieval
    # jinaai/jina-embeddings-v5-text-nano-retrieval
    (r"jina-embeddings-v5.*retrieval", Prefixes("Query: ", "Document: ")),
)


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of the model with this name, empty if it is not in our table.

    >>> prefixes_of("intfloat/multilingual-e5-small")
    Prefixes(query='query: ', document='passage: ')
    >>> prefixes_of("text-embedding-3-small")
    Prefixes(query='', document='')
    """
    return next((p for pattern, p in _ROWS if re.search(pattern, model, re.IGNORECASE)), Prefixes())


# Of typecode 'f': four bytes per number, in memory, in the cache and, where a server can, on the wire.
Vector: TypeAlias = "array[float]"
OnVectors = Callable[[Sequence[int], Sequence["Vector"]], None]
"""What an encoder calls with positions and their vectors as they are made, by one thread at a time; what it raises ends
the encoding."""

Send = Callable[[Sequence[str], Side], Awaitable[list["Vector"]]]
"""Sends one request to a server, for the vectors of texts of one side."""


def identity_of(*parts: object) -> str:
    """Return the identity of a model on one line: its name and the other parts that are not empty.

    >>> identity_of("Ollama/nomic-embed-text", "", None)
    'Ollama/nomic-embed-text'
    """
    return " ".join(str(part) for part in parts if part)


def options_of(identity: str) -> dict[str, Any]:
    """Return the settings of a model that its identity contains.

    >>> options_of("Ollama/nomic-embed-text dimensions=64 document_prefix='d: '")
    {'dimensions': 64, 'document_prefix': 'd: '}
    """
    found: dict[str, Any] = {}
    if named := re.search(r" dimensions=(\d+)\b", identity):
        found["dimensions"] = int(named[1])
    if named := re.search(r" document_prefix=(['\"].*)\Z", identity, re.DOTALL):
        found["document_prefix"] = ast.literal_eval(named[1])
    return found


def to_vector(numbers: Iterable[float]) -> Vector:
    """Convert numbers to four-byte floats."""
    return array("f", numbers)


def shortened(vector: Vector, dimensions: int | None) -> Vector:
    """Return the first `dimensions` numbers, normalized to length one; the vector itself if it has no more than that.

    >>> shortened(to_vector([3, 4, 12]), 2).tolist() == to_vector([0.6, 0.8]).tolist()
    True
    """
    if dimensions is None or len(vector) <= dimensions:
        return vector
    first = vector[:dimensions]
    length = math.sqrt(math.fsum(x * x for x in first)) or 1.0
    return to_vector(x / length for x in first)


def is_usable(vector: Vector) -> bool:
    """Whether all its numbers are finite and not all are zero.

    >>> [is_usable(to_vector(v)) for v in ([0, 1], [0, 0], [1, float("nan")], [float("inf"), 1])]
    [True, False, False, False]
    """
    return any(vector) and math.isfinite(sum(vector))
