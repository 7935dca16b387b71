"""What is sent to embedding servers, and how their replies are read."""

from __future__ import annotations

import pytest
from fakes import embeddings_protocol
from hypothesis import given, strategies as st

from lmm.config import EmbeddingSettings
from lmm.models.port import Side
from lmm.providers import parse_name
from lmm_education.encode.remote import DIALECTS
from lmm_education.encode.text_encoder import to_vector


@given(
    dialect=st.sampled_from(sorted(DIALECTS)),
    texts=st.lists(st.text(min_size=1), min_size=1, max_size=5),
    kind=st.sampled_from(["query", "document"]),
    dimensions=st.none() | st.integers(1, 20),
)
def test_a_server_understands_each(dialect: str, texts: list[str], kind: Side, dimensions: int | None) -> None:
    """The texts arrive as they are, and the vectors come back in their order and in the length asked for."""
    row = DIALECTS[dialect]
    settings = EmbeddingSettings(parse_name("OpenAICompatible/some-model"), dimensions=dimensions)
    path = ("/v1" if row.path == "/embeddings" else "") + row.path.format(model="some-model")
    body = row.body(settings, texts, kind)
    assert embeddings_protocol.speaks(path)
    assert embeddings_protocol.texts_of(path, body) == texts
    vectors = row.vectors(embeddings_protocol.reply_to(path, body))
    size = dimensions or embeddings_protocol.DIMENSIONS
    assert vectors == [to_vector(embeddings_protocol.vector_of(text, size)) for text in texts]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "reply", [None, [], {}, "text", {"data": None}, {"data": [1]}, {"data": [{"embedding": "a"}]}, {"embeddings": [{}]}]
)
def test_a_reply_of_another_form_is_told(dialect: str, reply: object) -> None:
    """Only with the errors that the adapter expects."""
    with pytest.raises((LookupError, TypeError, ValueError)):
        DIALECTS[dialect].vectors(reply)
