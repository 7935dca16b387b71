"""Export prepared documents for other programs: Qdrant points, LangChain documents, LlamaIndex nodes.

All are made from the chunks that `ingest` would store, with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from lmm.errors import ConfigError
from lmm.extras import check_installed
from lmm_education.encode.encoder import Encoder
from lmm_education.material import PreparedDocument, SparseVector, batches
from lmm_education.payloads import STUDENTS, chunk_payload, section_payload
from lmm_education.store.port import Vector

if TYPE_CHECKING:
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core.schema import TextNode

What = Literal["chunks", "sections"]
# Fields that tell programs where a text comes from, and are of no use to a language model.
_BOOKKEEPING = [
    *("document", "audience", "section", "order", "hash", "first_line", "last_line"),
    *("depth", "parent", "what", "language", "original"),
]


def points(
    documents: Iterable[PreparedDocument], encoder: Encoder, *, what: What = "chunks"
) -> Iterator[dict[str, Any]]:
    """Iterate over chunks of documents as Qdrant points of JSON values: ``id``, ``vector`` (by name), ``payload``; or
    over their sections, which have no vectors, for a second collection that chunks refer to by their ``section``.

    Raises:
        ModelError: the embedding model does not answer.
    """
    for document in documents:
        if what == "sections":
            for section in document.sections:
                yield {"id": section.id, "vector": {}, "payload": section_payload(section, title=document.title)}
            continue
        for chunks in batches(document.chunks, 256):
            for chunk, vectors in zip(chunks, encoder.encode(chunks, language=document.language), strict=True):
                vector = {name: _json_vector(value) for name, value in vectors.items()}
                hash = encoder.hash_of(chunk, language=document.language)
                payload = chunk_payload(chunk, language=document.language, hash=hash)
                yield {"id": chunk.id, "vector": vector, "payload": payload}


def _json_vector(vector: Vector) -> Any:
    if isinstance(vector, SparseVector):
        return {"indices": list(vector.indices), "values": list(vector.values)}
    return [list(row) if isinstance(row, Sequence) else row for row in vector]


# -- frameworks ------------------------------------------------------------------------------------


def to_langchain_documents(documents: Iterable[PreparedDocument], *, what: What = "chunks") -> list[LangChainDocument]:
    """Return the chunks, or the sections, of documents as LangChain documents.

    ``metadata`` is the payload: ``file``, ``first_line``, ``headings``, ``section``, ``type``, …, and the author's own
    properties, unless one of these fields has the same name.

    Raises:
        ConfigError: the extra is not installed.
    """
    check_installed("langchain", "LangChain's documents need", "langchain_core", kind=ConfigError)
    from langchain_core.documents import Document as LangChainDocument

    return [LangChainDocument(page_content=text, metadata=about, id=id) for id, text, about in _texts(documents, what)]


def to_llama_index_nodes(documents: Iterable[PreparedDocument], *, what: What = "chunks") -> list[TextNode]:
    """Return the chunks, or the sections, of documents as LlamaIndex nodes.

    Each refers to its document, its neighbours, and a chunk to its section. Fields of no use to a model are excluded
    from the text that is embedded or shown to it.

    Raises:
        ConfigError: the extra is not installed.
    """
    check_installed("llama-index", "LlamaIndex's nodes need", "llama_index.core", kind=ConfigError)
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

    nodes: list[TextNode] = []
    for document in documents:
        own = [
            TextNode(
                id_=id,
                text=text,
                metadata=about,
                excluded_embed_metadata_keys=_BOOKKEEPING,
                excluded_llm_metadata_keys=_BOOKKEEPING,
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document.id)},
            )
            for id, text, about in _texts([document], what)
        ]
        for before, after in pairwise(own):
            before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=after.node_id)
            after.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=before.node_id)
        if what == "chunks" and document.sections:
            for node in own:
                node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id=node.metadata["section"])
        nodes += own
    return nodes


def _texts(documents: Iterable[PreparedDocument], what: What) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Iterate over id, text and flat metadata of every chunk or section."""
    for document in documents:
        if what == "chunks":
            payloads = [(c.id, chunk_payload(c, language=document.language, hash="")) for c in document.chunks]
        else:
            payloads = [(s.id, section_payload(s, title=document.title)) for s in document.sections]
        for id, payload in payloads:
            kept = {key: value for key, value in payload.items() if key not in ("text", "hash", "metadata", STUDENTS)}
            yield id, payload["text"], {**payload["metadata"], **kept}
