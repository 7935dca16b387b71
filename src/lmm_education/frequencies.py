"""Document frequencies: how many chunks of a course contain each word, and the weights of a question's words by that.

Engines count per shard, and deleted points still count until they are optimized away. So the record of each document
has the frequencies of its chunks, and a store adds them up.
"""

from __future__ import annotations

import base64
import math
import sys
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from lmm_education.material import SparseVector

_NUMBER = "I" if array("I").itemsize == 4 else "L"  # 32 bits, like word ids


class Frequencies:
    """In how many of `chunks` each word occurs; a word is its id in a sparse vector. Immutable.

    The weights of a question's words in a course, and the `share` of that weight in a passage with some of them:

    >>> course = Frequencies.of([SparseVector(words, (1.0,) * len(words)) for words in ((1, 5), (1,), (1, 7))])
    >>> course.chunks, course[1], course[5], course[6]
    (3, 3, 1, 0)
    >>> course.weigh(SparseVector((1, 5), (1.0, 1.0))).values
    (0.13353139262452257, 0.9808292530117263)
    >>> round(course.share({1, 5}, {5, 7}), 2)
    0.88
    """

    __slots__ = ("_counts", "_words", "chunks")

    def __init__(self, chunks: int = 0, words: array[int] | None = None, counts: array[int] | None = None) -> None:
        self.chunks = chunks
        self._words = array(_NUMBER) if words is None else words  # ascending
        self._counts = array(_NUMBER) if counts is None else counts

    @classmethod
    def of(cls, vectors: Iterable[SparseVector]) -> Frequencies:
        """Return the frequencies of chunks with these vectors; chunks without words are not counted."""
        chunks, counts = 0, Counter[int]()
        for vector in vectors:
            if vector.indices:
                chunks += 1
                counts.update(vector.indices)
        return cls._counted(chunks, counts)

    @classmethod
    def total(cls, parts: Iterable[Frequencies], *, less: Iterable[Frequencies] = ()) -> Frequencies:
        """Return the sum of several frequencies, `less` those of others.

        >>> one, two = (Frequencies.of([SparseVector(words, (1.0, 1.0))]) for words in ((1, 2), (2, 3)))
        >>> Frequencies.total([one, two]).chunks, Frequencies.total([one, two])[2]
        (2, 2)
        >>> Frequencies.total([one, two], less=[one]) == two
        True
        """
        chunks, counts = 0, dict[int, int]()
        for sign, each in (*((1, each) for each in parts), *((-1, each) for each in less)):
            chunks += sign * each.chunks
            for word, count in zip(each._words, each._counts, strict=True):
                counts[word] = counts.get(word, 0) + sign * count
        return cls._counted(chunks, {word: count for word, count in counts.items() if count})

    @classmethod
    def _counted(cls, chunks: int, counts: Mapping[int, int]) -> Frequencies:
        words = sorted(counts)
        return cls(chunks, array(_NUMBER, words), array(_NUMBER, [counts[word] for word in words]))

    def __getitem__(self, word: int) -> int:
        at = bisect_left(self._words, word)
        return self._counts[at] if at < len(self._words) and self._words[at] == word else 0

    def __len__(self) -> int:
        """Return the number of different words."""
        return len(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frequencies) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash((self.chunks, len(self._words)))

    @property
    def _parts(self) -> tuple[int, array[int], array[int]]:
        return self.chunks, self._words, self._counts

    # -- weights -----------------------------------------------------------------------------------

    def idf(self, word: int) -> float:
        """Return the inverse document frequency of a word, as in BM25 and Qdrant: the rarer, the higher; highest for a
        word that does not occur."""
        count = self[word]
        return math.log(1 + (self.chunks - count + 0.5) / (count + 0.5))

    def weigh(self, question: SparseVector) -> SparseVector:
        """Return a question's vector with its words weighted by rarity."""
        pairs = zip(question.indices, question.values, strict=True)
        return SparseVector(question.indices, tuple(value * self.idf(word) for word, value in pairs))

    def share(self, question: Collection[int], held: Collection[int]) -> float:
        """Return the share of the weight of a question's words that are among `held`: 0 to 1; 0 without words.

        The words of a question are the `indices` of `Encoder.sparse.query`, those of a passage the indices of the
        sparse vector that `Reader.get` returns with ``vectors=True``.
        """
        most = math.log(1 + max(self.chunks - 0.5, 0.0) / 1.5)  # a word that occurs nowhere weighs as if it did once
        return share_of({word: min(self.idf(word), most) for word in question}, held)

    # -- storage -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return them as bytes: 32-bit numbers, little-endian."""
        numbers = array(_NUMBER, [self.chunks]) + self._words + self._counts
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Frequencies:
        """Return the frequencies that `to_bytes` encoded.

        Raises:
            ValueError: the data are something else.
        """
        numbers = array(_NUMBER)
        numbers.frombytes(data)
        if sys.byteorder == "big":
            numbers.byteswap()
        if len(numbers) % 2 == 0:
            raise ValueError("these are not document frequencies")
        half = len(numbers) // 2 + 1
        return cls(numbers[0], numbers[1:half], numbers[half:])

    def to_text(self) -> str:
        """Return them as text for a payload, about six characters a word.

        >>> some = Frequencies.of([SparseVector((1, 5), (0.3, 0.2))])
        >>> Frequencies.from_text(some.to_text()) == some, Frequencies.from_text("") == Frequencies()
        (True, True)
        """
        return base64.b64encode(zlib.compress(self.to_bytes(), 6)).decode("ascii") if self.chunks else ""

    @classmethod
    def from_text(cls, text: str) -> Frequencies:
        """Return the frequencies that `to_text` encoded.

        Raises:
            ValueError: the text is something else.
        """
        try:
            return cls.from_bytes(zlib.decompress(base64.b64decode(text))) if text else cls()
        except zlib.error as error:
            raise ValueError("these are not document frequencies") from error


def share_of(weights: Mapping[int, float], words: Collection[int]) -> float:
    """Return the share of the total weight of words that are among `held`: 0 to 1; 0 without words.

    >>> share_of({1: 3.0, 5: 1.0}, {5, 7})
    0.25
    """
    whole = math.fsum(weights.values())
    return math.fsum(weight for word, weight in weights.items() if word in words) / whole if whole else 0.0
