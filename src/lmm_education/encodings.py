"""Encodings: which texts of a chunk are embedded as which vectors. Each row is also a row in the manual.

An encoding has up to three vectors: ``dense`` and ``multi`` (several dense vectors, of which the best match counts)
are made by the embedding model, ``sparse`` by BM25 or a learned sparse model. It also has the weights of a query's
legs; there is no leg for a vector that an encoding lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lmm.errors import ConfigError, nearest
from lmm.models.builtin import split_sentences
from lmm.providers import is_static
from lmm_education.material import Chunk

Source = Literal["content", "annotations", "merged", "full", "sentences"]
VectorName = Literal["dense", "sparse", "multi"]
DENSE: VectorName = "dense"
SPARSE: VectorName = "sparse"
MULTI: VectorName = "multi"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The source of each vector, and the weight of each leg of a query, by default 1. With `by_question`, the weights
    depend on the question (`lmm_education.search.ranking.weights`)."""

    name: str
    dense: Source | None = None
    sparse: Source | None = None
    multi: tuple[Source, ...] = ()
    weights: Mapping[VectorName, float] = field(default_factory=dict)
    by_question: bool = False

    def vectors_with(self, embedding: str) -> tuple[VectorName, ...]:
        """Return a point's vectors for an embedding model, in the order in which its legs are queried; none for
        sentences if the model only adds up word vectors."""
        multi = () if self.multi == ("sentences",) and is_static(embedding) else self.multi
        named: list[tuple[VectorName, object]] = [(SPARSE, self.sparse), (DENSE, self.dense), (MULTI, multi)]
        return tuple(name for name, source in named if source)


_WEIGHTS: Mapping[VectorName, float] = {"sparse": 0.75, "dense": 0.25}  # measured in benchmarks/retrieval.md
SENTENCE = 80
"""Minimum characters of a sentence with a vector of its own; shorter ones are joined to the following ones."""
ENCODINGS: dict[str, Encoding] = {
    e.name: e
    for e in (
        # The default: heading path, annotations and content together, and each sentence, if the embedding model reads
        # sentences. Without the sentences, it takes half the time and space, and finds less.
        Encoding("hybrid", "full", "full", ("sentences",), _WEIGHTS, by_question=True),
        Encoding("hybrid_passages", "full", "full", weights=_WEIGHTS, by_question=True),
        Encoding("none"),  # chunks are found only by their id
        Encoding("content", dense="content"),
        Encoding("merged", dense="merged"),  # annotations and content together
        Encoding("multivector", multi=("content", "annotations")),
        Encoding("sparse", sparse="annotations"),  # the content is not encoded
        Encoding("sparse_content", dense="content", sparse="annotations"),
        Encoding("sparse_merged", dense="merged", sparse="annotations"),
        Encoding("sparse_multivector", multi=("content", "annotations"), sparse="annotations"),
    )
}


def find_encoding(name: str, *, where: str = "") -> Encoding:
    """Return the encoding of that name.

    Raises:
        ConfigError: the name is unknown; the hint suggests others.
    """
    if name in ENCODINGS:
        return ENCODINGS[name]
    raise ConfigError(f"unknown encoding model '{name}'", where=where, hint=nearest(name, ENCODINGS))


def sentence_texts(chunk: Chunk) -> list[str]:
    """Return the sentences of a chunk, short ones joined; empty if there is only one, which equals the content.

    nDCG@10 with a passage's vector alone, and with the mean of it and the best sentence (all-MiniLM-L6-v2; SQuAD as
    asked, reworded; Rust book by us, in a learner's words): 68.8, 62.2, 56.9, 30.0 and 83.3, 68.9, 69.7, 38.1.

    >>> from lmm_education.material import Lines, Location
    >>> text = " ".join(f"This is sentence number {n} of a chunk." for n in range(9))
    >>> [len(each) for each in sentence_texts(Chunk("1", Location("d", "d.md", Lines(1, 1)), "s", 0, text))]
    [113, 113, 113]
    """
    texts: list[str] = []
    open_text = ""
    for sentence in split_sentences(chunk.text):
        open_text = f"{open_text} {sentence.text}".strip()
        if len(open_text) >= SENTENCE:
            texts.append(open_text)
            open_text = ""
    if len(open_text) >= SENTENCE // 2 or not texts:
        texts.append(open_text)
    elif open_text:
        texts[-1] += f" {open_text}"
    return texts if len(texts) > 1 else []


def source_text(chunk: Chunk, source: Source) -> str:
    """Return the text of a chunk that a vector is made from.

    >>> from lmm_education.material import Lines, Location
    >>> place = Location("d", "notes.md", Lines(3, 3), ("Leaves", "Colour"))
    >>> chunk = Chunk("1", place, "s", 0, "They are green.", title="Botany", annotations=("Why green?",))
    >>> source_text(chunk, "full")
    'Botany\\nLeaves\\nColour\\nWhy green?\\n\\nThey are green.'
    >>> source_text(chunk, "annotations")
    'Why green?'
    """
    content = "\n\n".join(part for part in (chunk.overlap, chunk.text) if part)
    if source == "content":
        return content
    if source == "annotations":
        # A summary must be found in every encoding, even if only annotations are encoded.
        return "\n".join((*chunk.annotations, *((chunk.text,) if chunk.type == "summary" else ())))
    above = (chunk.title, *chunk.names, *chunk.place.headings, *chunk.above) if source == "full" else ()
    head = "\n".join(dict.fromkeys(filter(None, (*above, *chunk.annotations))))
    return "\n\n".join(part for part in (head, content) if part)


def source_texts(chunk: Chunk, source: Source) -> list[str]:
    """Return the texts of a chunk that one vector each is made from."""
    return sentence_texts(chunk) if source == "sentences" else [source_text(chunk, source)]
