"""``Builtin/bm25``: Qdrant's own BM25 in process, with stemming and stop words of the text's language.

The inverse document frequency, which makes a rare word decide, is not in these vectors: `Frequencies.weigh` adds it to
a question, from all that the course holds.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

from qdrant_edge import Bm25, Bm25Config, DisabledStemmer, SnowballLanguage, SnowballParams, StopwordsSet, TokenizerType

from lmm_education.material import SparseVector

BUILTIN = "Builtin/bm25"
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
_UNSPACED = frozenset(("zh", "ja", "ko", "th", "lo", "km", "my"))  # a dictionary finds the words
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


class Bm25Encoder:
    """``Builtin/bm25``.

    >>> encoder = Bm25Encoder()
    >>> encoder.query("the models", ["en"]) == encoder.query("model", ["en"])
    True
    """

    name = BUILTIN

    def documents(self, texts: Sequence[str], languages: Sequence[str]) -> list[SparseVector]:
        """Frequencies of words, saturated, and discounted in long texts."""
        found = (bm25(lang).embed_document(text) for text, lang in zip(texts, languages, strict=True))
        return [sparse_vector(vector.indices, vector.values) for vector in found]

    def query(self, text: str, languages: Collection[str]) -> SparseVector:
        """Every word once; the words as each language stems them."""
        ids = {index for language in languages for index in bm25(language).embed_query(text).indices}
        return SparseVector(tuple(sorted(ids)), (1.0,) * len(ids))


def sparse_vector(indices: Sequence[int], values: Sequence[float]) -> SparseVector:
    """The vector with ascending ids.

    >>> sparse_vector([9, 2], [1.0, 0.5])
    SparseVector(indices=(2, 9), values=(0.5, 1.0))
    """
    pairs = sorted((int(i), float(v)) for i, v in zip(indices, values, strict=True) if v)
    return SparseVector(tuple(i for i, _ in pairs), tuple(v for _, v in pairs))
