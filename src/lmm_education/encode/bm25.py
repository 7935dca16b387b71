"""``Builtin/bm25``: Qdrant's own BM25 in process, with stemming and stop words of the text's language.

The inverse document frequency, which makes a rare word decide, is not in these vectors: `Frequencies.weigh` adds it to
a question, from all that the course holds.
"""

from __future__ import annotations

import functools
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer, SnowballLanguage, SnowballParams, StopwordsSet, TokenizerType

from lmm_education.material import KEPT_PASSAGES, SparseVector

WORDS_FORMAT = 2
"""Number of the way in which texts are cut into words (see `separated`); another one encodes the documents again."""
BUILTIN, WITH_GRAMS = "Builtin/bm25", "Builtin/bm25+grams"
LEAST_GRAMS = 1.5
"""A score below it comes from an ending such as -ung; texts that share a rare part of a word score 3 and more."""
# BM25 divides a text's length by this many words. It is the default of the engine and of the server, so that
# vectors are the same wherever they are made. The mean of our chunks is 148; on the SQuAD documents that was
# 0.3 nDCG worse for chunks of 2,000 characters and 0.1 better for 1,000; 200 and 400 lay between.
AVERAGE_LENGTH = 256.0
# Languages for which the engine has stop words and a stemmer, or at least stop words.
LANGUAGES = frozenset((
    "ar", "az", "bn", "ca", "da", "de", "el", "en", "es", "eu", "fi", "fr", "he", "hu", "id", "it", "kk", "ne", "nl",
    "no", "pt", "ro", "ru", "sl", "sv", "tg", "tr", "zh",
))  # fmt: skip
_STEMMERS = {"hy": SnowballLanguage.Armenian, "ta": SnowballLanguage.Tamil}  # without stop words
_UNSPACED = frozenset(("th", "lo", "km", "my"))  # a dictionary finds the words
# Chinese, Japanese and Korean letters: a word is every pair of neighbours, whatever the language of the text is.
_LETTERS = (
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
_PAIRED = re.compile(f"[{_LETTERS}]+")
_RUNS = re.compile(f"[{_LETTERS}]+|[^\\W{_LETTERS}]+")
_ACRONYM = re.compile(r"\b[A-Z]{2,}\b")
_GRAM = 1 << 31  # the engine's ids of words are smaller
# The engine's own k and b; grams of the words in a text; what a gram weighs beside a word. nDCG@10 on 84 German
# questions by that share: 0: 75.2, .05: 83.0, .1: 84.4, .2: 84.9, .3: 85.2, .6: 85.7; grams alone 86.0, of three
# letters 85.2, of five 83.4.
_K, _B, _PER_WORD, _SHARE = 1.2, 0.75, 2.0, 0.25
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
WORD = re.compile(r"\w+")
_ALIASES = {"nb": "no", "nn": "no", "in": "id", "iw": "he"}
_NAMES = {
    "arabic": "ar", "azerbaijani": "az", "basque": "eu", "bengali": "bn", "catalan": "ca", "chinese": "zh",
    "danish": "da", "dutch": "nl", "english": "en", "finnish": "fi", "french": "fr", "german": "de", "deutsch": "de",
    "greek": "el", "hebrew": "he", "hungarian": "hu", "indonesian": "id", "italian": "it", "kazakh": "kk",
    "nepali": "ne", "norwegian": "no", "portuguese": "pt", "romanian": "ro", "russian": "ru", "slovene": "sl",
    "spanish": "es", "swedish": "sv", "tajik": "tg", "turkish": "tr", "français": "fr", "español": "es",
}  # fmt: skip


def language_code(language: str) -> str:
    """The language of a tag or an English name, as two or three small letters; regions do not count.

    >>> language_code("de-AT"), language_code("German"), language_code("pt_BR"), language_code("nb")
    ('de', 'de', 'pt', 'no')
    """
    name = language.strip().lower().replace("_", "-").split("-")[0]
    return _ALIASES.get(name, _NAMES.get(name, name))


def is_stemmed(language: str) -> bool:
    """Whether BM25 knows the language; other languages are compared word by word, as they are written.

    >>> is_stemmed("fr"), is_stemmed("pl")
    (True, False)
    """
    return language_code(language) in LANGUAGES or language_code(language) in _STEMMERS


@functools.lru_cache(maxsize=64)
def bm25(language: str) -> Bm25:
    """The engine's BM25 for a language; one it does not know gets neither stop words nor a stemmer."""
    code = language_code(language)
    tokenizer = TokenizerType.Multilingual if code in _UNSPACED else TokenizerType.Word
    if code in LANGUAGES:
        return Bm25(Bm25Config(language=code, tokenizer=tokenizer, avg_len=AVERAGE_LENGTH))
    stemmer = SnowballParams(_STEMMERS[code]) if code in _STEMMERS else DisabledStemmer()
    return Bm25(Bm25Config(stopwords=StopwordsSet(), stemmer=stemmer, tokenizer=tokenizer, avg_len=AVERAGE_LENGTH))


@functools.lru_cache(maxsize=200_000)
def word_id(word: str, language: str) -> int | None:
    """The id of a word as the language compares it; None for a stop word.

    >>> word_id("losing", "en") == word_id("lose", "en"), word_id("the", "en")
    (True, None)
    """
    ids = bm25(language).embed_query(word).indices
    return ids[0] if ids else None


@functools.lru_cache(maxsize=KEPT_PASSAGES)
def word_ids(text: str, language: str) -> tuple[int | None, ...]:
    """Return the ids of the words of a text, in order; those of the latest texts are cached."""
    text = separated(text, language).casefold()
    return tuple(word_id(text[start:end], language) for start, end in word_spans(text))


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over the positions of the words of a text; those of Chinese, Japanese and Korean are pairs that overlap.

    >>> list(word_spans("Die 光合作用")), list(word_spans("猫"))
    ([(0, 3), (4, 6), (5, 7), (6, 8)], [(0, 1)])
    """
    for run in _RUNS.finditer(text):
        start, end = run.span()
        if end - start > 2 and _PAIRED.match(text, start):
            yield from ((at, at + 2) for at in range(start, end - 1))
        else:
            yield start, end


def separated(text: str, language: str, *, singles: bool = False) -> str:
    """Return a text as the engine shall read it: composed letters; Chinese, Japanese and Korean as pairs of letters,
    with `singles` also alone; acronyms such as WHO and IT apart from the stop words.

    >>> separated("光合作用 in Cafe\u0301s", "en"), separated("the WHO", "en")
    ('光合 合作 作用  in Cafés', 'the 0WHO')
    """
    if not text.isascii():

        def pairs(match: re.Match[str]) -> str:
            words = [match[0][start:end] for start, end in word_spans(match[0])]
            return f" {' '.join([*words, *(match[0] if singles and len(match[0]) > 1 else ())])} "

        text = _PAIRED.sub(pairs, unicodedata.normalize("NFC", text)).strip()
    if text.isupper() and len(text.split()) > 2:  # all of it is in capital letters
        return text
    return _ACRONYM.sub(lambda match: match[0] if word_id(match[0].lower(), language) else f"0{match[0]}", text)


class Bm25Encoder:
    """``Builtin/bm25``; with `grams`, the four letters that follow each other in a word count beside the words, so that
    compounds and spellings meet.

    >>> encoder = Bm25Encoder()
    >>> encoder.query("the models", ["en"]) == encoder.query("model", ["en"])
    True
    >>> grams = Bm25Encoder(grams=True)
    >>> asked, (text,) = grams.query("Größe", ["de"]), grams.documents(["Die Groessen"], ["de"])
    >>> len(set(asked.indices) & set(text.indices)), words_of(asked.indices) == words_of(text.indices)
    (5, False)
    """

    def __init__(self, *, grams: bool = False) -> None:
        self.name = WITH_GRAMS if grams else BUILTIN
        self._grams = grams

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """Frequencies of words, and of grams, saturated, and discounted in long texts."""
        return [self._document(text, language) for text, language in zip(texts, languages, strict=True)]

    def _document(self, text: str, language: str) -> SparseVector:
        vector = bm25(language).embed_document(separated(text, language, singles=True))
        counts = Counter(_grams_of(text, language) if self._grams else ())
        much = 1 - _B + _B * counts.total() / (AVERAGE_LENGTH * _PER_WORD)
        saturated = [count * (_K + 1) / (count + _K * much) for count in counts.values()]
        return sparse_vector([*vector.indices, *counts], [*vector.values, *saturated])

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """Encode a question: every word once, stemmed in each language, its grams with a share of the weight."""
        words = {index for code in languages for index in bm25(code).embed_query(separated(text, code)).indices}
        grams = {gram for language in languages for gram in _grams_of(text, language)} if self._grams else set[int]()
        return sparse_vector([*words, *grams], [1.0] * len(words) + [_SHARE] * len(grams))


def words_of(ids: Iterable[int]) -> tuple[int, ...]:
    """Return the ids of a vector that are words, not grams."""
    return tuple(id for id in ids if id < _GRAM)


def _grams_of(text: str, language: str) -> list[int]:
    """The grams of the words that count, umlauts written out, without accents."""
    found: list[int] = []
    for word in WORD.findall(text.casefold()):
        if word_id(word, language) is not None:
            found += _grams_in(word)
    return found


@functools.lru_cache(maxsize=200_000)
def _grams_in(word: str) -> tuple[int, ...]:
    plain = unicodedata.normalize("NFKD", word.translate(_UMLAUTS))
    letters = f"_{''.join(each for each in plain if not unicodedata.combining(each))}_"
    return tuple(_GRAM | zlib.crc32(letters[i : i + 4].encode()) >> 1 for i in range(max(1, len(letters) - 3)))


def sparse_vector(indices: Sequence[int], values: Sequence[float]) -> SparseVector:
    """The vector with ascending ids.

    >>> sparse_vector([9, 2], [1.0, 0.5])
    SparseVector(indices=(2, 9), values=(0.5, 1.0))
    """
    pairs = sorted((int(i), float(v)) for i, v in zip(indices, values, strict=True) if v)
    return SparseVector(tuple(i for i, _ in pairs), tuple(v for _, v in pairs))
