"""What embedding models want to read before a question, and before the texts that are searched.

Without it they still answer, a little worse, and nothing tells. Settings win over this table
(`query_prefix` and `document_prefix` under ``[embedding]``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lmm.models.port import Side


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What is put before a text, on either side; empty where nothing is."""

    query: str = ""
    document: str = ""

    def of(self, kind: Side) -> str:
        """The prefix of one side.

        >>> Prefixes("query: ", "passage: ").of("query")
        'query: '
        """
        return self.query if kind == "query" else self.document


_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_SEARCHING = "Represent this sentence for searching relevant passages: "

# Part of a model's name and what it wants; the model card that says so. The first row that fits counts.
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
    """What the model of this name wants, as far as its card says and we know.

    >>> prefixes_of("intfloat/multilingual-e5-small")
    Prefixes(query='query: ', document='passage: ')
    >>> prefixes_of("text-embedding-3-small")
    Prefixes(query='', document='')
    """
    return next((p for pattern, p in _ROWS if re.search(pattern, model, re.IGNORECASE)), Prefixes())
