"""The encoding models: which texts of a chunk feed which vectors. A row here is a row in the manual.

An encoding has up to three vectors: ``dense`` and ``multi`` (several dense vectors, the best one counts)
come from the embedding model, ``sparse`` from BM25 or a learned sparse model. The encoding also says how
the legs of a query are weighed; a leg without a vector in the encoding does not exist.
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
    """A row of the table: the source of each vector, and the weight of each leg of a query; with `by_question`, each
    question has weights of its own (`lmm_education.search.ranking.weights`)."""

    name: str
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

    def vectors_with(self, embedding: str) -> tuple[VectorName, ...]:
        """The vectors that a point has with that embedding model: one that adds up words has read no sentence."""
        passes = self.multi == ("sentences",) and is_static(embedding)
        return tuple(name for name in self.vectors if not (name == MULTI and passes))

    @property
    def embeds(self) -> bool:
        """Whether it needs an embedding model."""
        return bool(self.dense or self.multi)

    def weight(self, vector: VectorName) -> float:
        """The weight of a leg; a leg that is not mentioned weighs 1."""
        return self.weights.get(vector, 1.0)


_WEIGHTS: Mapping[VectorName, float] = {"sparse": 0.75, "dense": 0.25}  # of relevance: benchmarks/retrieval.md
SENTENCE = 80
"""Characters from which a sentence has a vector of its own; shorter ones share one with those that follow."""
ENCODINGS: dict[str, Encoding] = {
    e.name: e
    for e in (
        # The default: heading path, annotations and content together, and the sentences where the embedding model reads
        # them; without the sentences, it takes half the time and the room, and finds less.
        Encoding("hybrid", "full", "full", ("sentences",), _WEIGHTS, by_question=True),
        Encoding("hybrid_passages", "full", "full", weights=_WEIGHTS, by_question=True),
        Encoding("none"),  # chunks are found by their id
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
    """The encoding model of that name.

    Raises:
        ConfigError: there is none; the error names those that exist.
    """
    if name in ENCODINGS:
        return ENCODINGS[name]
    raise ConfigError(f"unknown encoding model '{name}'", where=where, hint=nearest(name, ENCODINGS))


def uses_idf(sparse_model: str) -> bool:
    """Whether the words of a question are weighed by how rare they are; learned models that weigh them do without.

    >>> uses_idf("Builtin/bm25"), uses_idf("FastEmbed/prithivida/Splade_PP_en_v1")
    (True, False)
    """
    return any(part in sparse_model.lower() for part in ("bm25", "bm42", "minicoil"))


def sentence_texts(chunk: Chunk) -> list[str]:
    """The sentences of a chunk, the short ones joined; none where they are one text only, which `content` is.

    nDCG@10 by a passage's vector alone, and by that and its best sentence, half and half (all-MiniLM-L6-v2; SQuAD as
    asked, in other words, Rust book by us, in a learner's words): 68.8, 62.2, 56.9, 30.0 and 83.3, 68.9, 69.7, 38.1.

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
    """The text of a chunk that feeds a vector.

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
        # A summary is found in every mode, also where only annotations are encoded.
        return "\n".join((*chunk.annotations, *((chunk.text,) if chunk.kind == "summary" else ())))
    above = (chunk.title, *chunk.place.headings) if source == "full" else ()
    head = "\n".join(dict.fromkeys(filter(None, (*above, *chunk.annotations))))
    return "\n\n".join(part for part in (head, content) if part)


def source_texts(chunk: Chunk, source: Source) -> list[str]:
    """The texts of a chunk that feed a vector each."""
    return sentence_texts(chunk) if source == "sentences" else [source_text(chunk, source)]
