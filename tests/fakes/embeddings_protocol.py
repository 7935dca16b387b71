"""The embedding protocols that the scripted server speaks: OpenAI's (and Mistral's and Voyage's), Cohere's, Google's.

A text's vector is made of the digest of the text, so that equal texts have equal vectors, on every protocol.
"""

from __future__ import annotations

import base64
import hashlib
from array import array
from collections.abc import Mapping
from typing import Any

DIMENSIONS = 8
OPENAI_PATH = "/v1/embeddings"
COHERE_PATH = "/v2/embed"
_GOOGLE = (":batchEmbedContents", "/v1beta/models/")


def speaks(path: str) -> bool:
    """Whether this is the path of an embedding protocol."""
    return path in (OPENAI_PATH, COHERE_PATH) or (path.endswith(_GOOGLE[0]) and path.startswith(_GOOGLE[1]))


def texts_of(path: str, body: Mapping[str, Any]) -> list[str]:
    """The texts of a request, as they arrived."""
    if path == OPENAI_PATH:
        return list(body["input"])
    if path == COHERE_PATH:
        return list(body["texts"])
    return [request["content"]["parts"][0]["text"] for request in body["requests"]]


def reply_to(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to a request; base64 if that was asked for, the last text first, as a server may."""
    size = body.get("dimensions", body.get("output_dimension"))
    if path.startswith(_GOOGLE[1]):
        size = body["requests"][0].get("outputDimensionality")
    vectors = [vector_of(text, size or DIMENSIONS) for text in texts_of(path, body)]
    if path == COHERE_PATH:
        return {"id": "1", "embeddings": {"float": vectors}, "texts": body["texts"]}
    if path.startswith(_GOOGLE[1]):
        return {"embeddings": [{"values": vector} for vector in vectors]}
    encoded: list[Any] = vectors
    if body.get("encoding_format") == "base64":
        encoded = [base64.b64encode(array("f", vector).tobytes()).decode() for vector in vectors]
    rows = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(encoded)]
    rows = rows if "input_type" in body else rows[::-1]  # Voyage's client relies on the order
    return {"object": "list", "data": rows, "model": body["model"], "usage": {"total_tokens": 1}}


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text, exact as four-byte floats.

    >>> vector_of("a") == vector_of("a") != vector_of("b")
    True
    """
    digest = hashlib.shake_128(text.encode()).digest(dimensions)
    return [(byte - 127) / 128 for byte in digest]
