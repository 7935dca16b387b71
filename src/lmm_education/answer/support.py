"""The sentence of a source that supports what an answer says of it, as readers see it beside the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from lmm.disk.files import read_document
from lmm.errors import DocumentError
from lmm.markdown.page_marks import PAGE_MARK, Pages
from lmm.markdown.sentences import sentence_ends
from lmm_education.answer.extractive import slides_joined
from lmm_education.answer.verification import Claim
from lmm_education.encode.bm25 import word_ids
from lmm_education.material import KEPT_PASSAGES, Passage

_PARTS = re.compile(r"\n\s*\n|\n(?=[ \t>]*(?:[-*+|#]|\d{1,9}[.)])[ \t])")
_MARK = re.compile(r"[ \t>]*(?:[-*+>]|#{1,6}|\d{1,9}\\?[.)])[ \t]+")
_NOTE = re.compile(r"\^?\[\^?[^\[\]\n]*\](?![(\[])(?=\s|[.,;:]|$)|(?<=\S)\^\[[^\[\]\n]*\]")
_NO_SENTENCE = ("```", "~~~", ":::", "---", "|", "#", "<", "![")
_FEWEST = 2  # words in common with the answer


def supporting_sentence(source: Passage, claims: Iterable[Claim]) -> str:
    """Return the sentence of a source that has most words in common with what an answer says of it, as it is written
    there; empty if none has.

    >>> from lmm_education.material import Lines, Location
    >>> text = "Leaves fall in autumn. They are green because of *chlorophyll*."
    >>> leaf = Passage("1", Location("d", "a.md", Lines(1, 1)), text, number=1, language="en")
    >>> supporting_sentence(leaf, [Claim("Chlorophyll makes them green [1].", 0, 33, (1,))])
    'They are green because of *chlorophyll*.'
    """
    said = [set(word_ids(claim.text, source.language)) - {None} for claim in claims if source.number in claim.sources]
    best, found = 0.0, ""
    for sentence, words in _read(source.text, source.language) if said else ():
        common = max((len(words & each) for each in said), default=0)
        if common >= _FEWEST and (share := common**2 / len(words)) > best:
            best, found = share, sentence
    return found


def narrowed(source: Passage, claims: Iterable[Claim], root: Path) -> Passage:
    """Return a source with the page, slide or minute of the sentence that supports the answer, instead of those of all
    its text, if the marks in its document tell it."""
    pages = Pages.read(source.place.page) if source.place.page else None
    if pages is None or pages.first == pages.last or not (sentence := supporting_sentence(source, claims)):
        return source
    try:
        lines = read_document(root / source.place.file).split("\n")[: source.place.lines.last]
    except DocumentError:
        return source
    texts, name = dict[str, str](), ""
    for number, line in enumerate(lines, 1):
        if mark := PAGE_MARK.match(line):
            name = mark["name"]
        elif number >= source.place.lines.first:
            texts[name] = texts.get(name, "") + _letters(line)
    wanted = _letters(sentence)
    found = [name for name, text in texts.items() if name and wanted in text]
    return replace(source, place=replace(source.place, page=found[0])) if len(found) == 1 else source


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@lru_cache(maxsize=KEPT_PASSAGES)
def _read(markdown: str, language: str) -> list[tuple[str, frozenset[int | None]]]:
    """Return the sentences of a text with their words; cached, since a class asks for the same sources."""
    read = ((sentence, frozenset(word_ids(sentence, language)) - {None}) for sentence in sentences_in(markdown))
    return [(sentence, words) for sentence, words in read if words]


def sentences_in(markdown: str) -> Iterator[str]:
    """Iterate over the sentences of a text as they are written, without code, tables and headings; the lines of a slide
    are one sentence.

    >>> list(sentences_in("# Leaves\\n\\n1. They fall. All do.\\n2. They rot.\\n"))
    ['They fall.', 'All do.', 'They rot.']
    """
    for text in slides_joined(part.strip() for part in _PARTS.split(markdown)):
        if text.startswith(_NO_SENTENCE):
            continue
        text, start = _MARK.sub("", text, count=1) if _MARK.match(text) else text, 0
        ends = () if "\n\n" in text else sentence_ends(text)
        for end, begin in (*ends, (len(text), len(text))):
            if sentence := text[start:end].strip():
                yield sentence
            start = begin


def shown_sentence(sentence: str) -> str:
    """Return a sentence without its notes and line breaks, as markdown of one line.

    >>> shown_sentence("It is *green*^[see https://example.org]\\nin summer.")
    'It is *green* in summer.'
    """
    return " ".join(_NOTE.sub("", sentence).split())
