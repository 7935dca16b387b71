"""Which prefixes a model's name stands for."""

from __future__ import annotations

import pytest

from lmm_education.encode.text_encoder import Prefixes, prefixes_of

_SEARCHING = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("jeffh/intfloat-multilingual-e5-large:f16", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", _SEARCHING, ""),
        ("bge-large", _SEARCHING, ""),
        ("BAAI/bge-base-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("bge-m3:567m", "", ""),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-embed-text-v2-moe", "search_query: ", "search_document: "),
        ("nomic-ai/modernbert-embed-base", "search_query: ", "search_document: "),
        ("mxbai-embed-large", _SEARCHING, ""),
        ("mixedbread-ai/deepset-mxbai-embed-de-large-v1", "query: ", "passage: "),
        ("snowflake-arctic-embed:110m", _SEARCHING, ""),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", _SEARCHING, ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("jinaai/jina-embeddings-v5-text-nano-retrieval", "Query: ", "Document: "),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("text-embedding-3-large", "", ""),
        ("gemini-embedding-001", "", ""),
        ("thenlper/gte-small", "", ""),
        ("jinaai/jina-embeddings-v2-base-de", "", ""),
        ("wordllama", "", ""),
    ],
)
def test_by_name(model: str, query: str, document: str) -> None:
    """Names as hubs and servers spell them, in any case."""
    assert prefixes_of(model) == prefixes_of(model.upper()) == Prefixes(query, document)


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("intfloat/multilingual-e5-large-instruct", "\nQuery: "),
        ("intfloat/e5-mistral-7b-instruct", "\nQuery: "),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", "\nQuery: "),
        ("Qwen/Qwen3-Embedding-0.6B", "\nQuery:"),
    ],
)
def test_instructions(model: str, end: str) -> None:
    """Models that read a task get one before questions, and nothing before documents."""
    found = prefixes_of(model)
    assert found.query.startswith("Instruct: ")
    assert found.query.endswith(end)
    assert found.document == ""
