"""Which language a text seems to be written in: by the stop words that it has, of the languages that BM25 knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lmm.markdown import without
from lmm.markdown.sentences import LETTERS
from lmm_education.encode.bm25 import LANGUAGES, word_id

WORDS = 500
"""How many words of a text are looked at."""
_FEWEST, _LEAST, _TIMES = 60, 0.25, 3.0
"""At least so many words; the share of stop words, 0.35 to 0.5 in prose, and how much rarer the course's have to be:
those of another language have at most a third of it (0.02 to 0.11 on our documents), but a Dane's are a Norwegian's."""
_SYMBOLS = ("code", "code_block", "math", "html", "comment")


def foreign_language(text: str, course: str) -> str:
    """The code of the language that a text is in, if that is clearly not the one of its `course`; else empty.

    Code, formulas, tables of names and short texts are in no language.

    >>> foreign_language("Die Zelle ist der kleinste Teil von allem, was lebt, und sie kann sich teilen. " * 5, "en")
    'de'
    >>> foreign_language("The cell is the smallest part of all that lives, and it can divide. " * 5, "en")
    ''
    """
    letters = LETTERS.findall(without(text, *_SYMBOLS).casefold())
    words = [word for word in letters if len(word) > 1][:WORDS]
    if course not in LANGUAGES or len(words) < _FEWEST:
        return ""
    counts = Counter(words)
    own = _stop_words(counts, course)
    if own * _TIMES > 0.6 * len(words):  # no language has as many stop words as another would need
        return ""
    shares = {code: _stop_words(counts, code) for code in sorted(LANGUAGES)}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= max(_LEAST * len(words), _TIMES * own) else ""


def _stop_words(counts: Mapping[str, int], language: str) -> int:
    return sum(count for word, count in counts.items() if word_id(word, language) is None)


def foreign_notice(language: str, files: Sequence[str], course: str) -> str:
    """What the author is told about files that seem to be in another language than their course.

    >>> foreign_notice("de", ["a.md"], "en")
    "a.md seems to be in 'de', the course is in 'en': write 'lang: de' into its header, or set language in config.toml"
    """
    few = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    verb, whose = ("seems", "its header") if len(files) == 1 else ("seem", "their headers")
    return (
        f"{few} {verb} to be in '{language}', the course is in '{course}': write 'lang: {language}' into {whose}, "
        "or set language in config.toml"
    )
