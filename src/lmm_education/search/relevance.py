"""How well a passage fits a question on a scale that means the same for every question.

The score that passages are ranked by does not: it compares the candidates of one question with each other, and
the best of them stands out whether or not it is to the point. What the legs gave does, once the words of the
question are counted: BM25 sums up its words, so a long question scores high with little in common.
How often the best passage for a question scored higher than for a question whose document had been taken away
(1 is always, 0.5 chance; SQuAD documents): this 0.98, BM25 alone 0.95, cosine alone 0.89, the fused score 0.83.
``lmm eval --calibrate`` finds the threshold for a course.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lmm_education.material import Hit

# BM25 gives a word of average rarity about 8 where it occurs several times, so that a full match is about 1.
PER_WORD = 8.0


def relevance(hit: Hit, words: int, weights: Mapping[str, float]) -> float:
    """The weighted mean of what the legs say: BM25 for each word of the question, and the cosine.

    `words` is how many different words of the question count (the length of its sparse vector), `weights` are
    those of all legs that were asked; a leg that did not find the passage says 0.

    >>> from lmm_education.material import Lines, Place
    >>> hit = Hit("1", 1.0, "chunk", Place("d", "d.md", Lines(1, 1)), "", legs={"sparse": 24.0, "dense": 0.6})
    >>> relevance(hit, 4, {"sparse": 0.75, "dense": 0.25})
    0.7125
    """
    total = sum(weights.values())
    if total <= 0:
        return 0.0
    said = {name: score / (PER_WORD * max(words, 1)) if name == "sparse" else score for name, score in hit.legs.items()}
    return round(sum(weight * said.get(name, 0.0) for name, weight in weights.items()) / total, 6)


def best_relevance(hits: Iterable[Hit], words: int, weights: Mapping[str, float]) -> float:
    """The greatest relevance of any passage; 0 where nothing was found."""
    return max((relevance(hit, words, weights) for hit in hits), default=0.0)
