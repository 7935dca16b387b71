"""The encoding models: which texts of a chunk feed which vectors. A row here is a row in the manual.

An encoding has up to three vectors: ``dense`` and ``multi`` (several dense vectors, the best one counts)
come from the embedding model, ``sparse`` from BM25 or a learned sparse model. The encoding also says how
the legs of a query are weighed; a leg without a vector in the encoding does not exist.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lmm.errors import ConfigError
from lmm_education.material import Chunk

Source = Literal["content", "annotations", "merged", "full"]
VectorName = Literal["dense", "sparse", "multi"]
DENSE, SPARSE, MULTI = "dense", "sparse", "multi"


@dataclass(frozen=True, slots=True)
class Encoding:
    """A row of the table: the source of each vector, and the weight of each leg of a query; with `by_question`, each
    question has weights of its own (`lmm_education.search.ranking.weights`)."""

    name: str
    help: str
    dense: Source | None = None
    sparse: Source | None = None
    multi: tuple[Source, ...] = ()
    weights: Mapping[VectorName, float] = field(default_factory=dict)
    by_question: bool = False

    @property
    def vectors(self) -> tuple[VectorName, ...]:
        """The vectors a point has, in the order in which its legs are queried."""
        named: list[tuple[VectorName, object]] = [("sparse", self.sparse), ("dense", self.dense), ("multi", self.multi)]
        return tuple(name for name, source in named if source)

    @property
    def embeds(self) -> bool:
        """Whether it needs an embedding model."""
        return bool(self.dense or self.multi)

    def weight(self, vector: VectorName) -> float:
        """The weight of a leg; a leg that is not mentioned weighs 1."""
        return self.weights.get(vector, 1.0)


ENCODINGS: dict[str, Encoding] = {
    e.name: e
    for e in (
        Encoding(
            "hybrid",
            "sparse and dense encoding of heading path, annotations and content together (the default)",
            dense="full",
            sparse="full",
            weights={"sparse": 0.75, "dense": 0.25},  # of relevance; chosen by measurement: docs/retrieval.md
            by_question=True,
        ),
        Encoding("none", "no encoding: chunks are found by their id"),
        Encoding("content", "dense encoding of the content", dense="content"),
        Encoding("merged", "dense encoding of annotations and content together", dense="merged"),
        Encoding(
            "multivector",
            "dense encoding of the content and of the annotations, as several vectors",
            multi=("content", "annotations"),
        ),
        Encoding("sparse", "sparse encoding of the annotations; the content is not encoded", sparse="annotations"),
        Encoding(
            "sparse_content",
            "sparse encoding of the annotations, dense encoding of the content",
            dense="content",
            sparse="annotations",
        ),
        Encoding(
            "sparse_merged",
            "sparse encoding of the annotations, dense encoding of annotations and content together",
            dense="merged",
            sparse="annotations",
        ),
        Encoding(
            "sparse_multivector",
            "sparse encoding of the annotations, content and annotations as several dense vectors",
            multi=("content", "annotations"),
            sparse="annotations",
        ),
    )
}


def find_encoding(name: str, *, where: str = "") -> Encoding:
    """The encoding model of that name.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    if name in ENCODINGS:
        return ENCODINGS[name]
    close = difflib.get_close_matches(name, ENCODINGS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(ENCODINGS)
    raise ConfigError(f"unknown encoding model '{name}'", where=where, hint=hint)


def uses_idf(sparse_model: str) -> bool:
    """Whether the words of a question are weighed by how rare they are; learned models that weigh them do without.

    >>> uses_idf("Builtin/bm25"), uses_idf("FastEmbed/prithivida/Splade_PP_en_v1")
    (True, False)
    """
    return any(part in sparse_model.lower() for part in ("bm25", "bm42", "minicoil"))


def source_text(chunk: Chunk, source: Source) -> str:
    """The text of a chunk that feeds a vector.

    >>> from lmm_education.material import Lines, Place
    >>> place = Place("d", "notes.md", Lines(3, 3), ("Leaves", "Colour"))
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
        # A summary is found in every mode, also where only annotations are encoded.
        return "\n".join((*chunk.annotations, *((chunk.text,) if chunk.kind == "summary" else ())))
    above = (chunk.title, *chunk.place.headings) if source == "full" else ()
    head = "\n".join(_distinct((*above, *chunk.annotations)))
    return "\n\n".join(part for part in (head, content) if part)


def _distinct(parts: Iterable[str]) -> list[str]:
    """Each part once, empty ones left out."""
    return list(dict.fromkeys(part for part in parts if part))
