"""Study cards: a question in front, the answer behind.

They come from metadata. Under ``cards:`` stand questions with their answers. ``questions:`` (or ``question:``), as
the annotations have it, is answered by ``answers:`` (``answer:``) beside it, else by the text that it is about.

A card is known by its document and its question: with another answer, or in another place, it is still the
same card, and keeps what a student's program recorded about it. ``id:`` in an entry of ``cards:`` keeps a card
through a change of its question too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmm_education.ingestion.outline import Heading, Item, Text
from lmm_education.study.material import StudyDocument, is_one_of, type_of


@dataclass(frozen=True, slots=True)
class Card:
    """A card: question and answer as markdown, and where they stand. `id` stays through changes of the answer."""

    id: str
    question: str
    answer: str
    document: str
    title: str
    file: str
    line: int
    headings: tuple[str, ...] = ()


Holder = Heading | Text
# Keys of an entry of `cards:`, as people write it.
_FRONT, _BACK = ("question", "q", "front"), ("answer", "a", "back")


def study_cards(
    documents: Iterable[StudyDocument], *, without: Collection[str] = ("exercise", "solution", "topic")
) -> list[Card]:
    """The cards of some documents, in order. Texts of the types in `without` are no answers to questions about
    a section.

    >>> from lmm_education.study.material import study_document
    >>> text = "---\\nquestions: [Why green?]\\n---\\n# Leaves\\n\\nChlorophyll.\\n"
    >>> [(card.question, card.answer) for card in study_cards([study_document(text, file="a.md")])]
    [('Why green?', 'Chlorophyll.')]
    """
    return [card for document in documents for card in _of(document, without)]


def _of(document: StudyDocument, without: Collection[str]) -> list[Card]:
    found = _once(
        [pair for i, holder in enumerate(_holders(document)) for pair in _pairs(holder, document, i, without)]
    )
    seen: Counter[str] = Counter()
    cards = []
    for holder, identity, question, answer in found:
        seen[identity] += 1
        line = holder.line if isinstance(holder, Heading) else holder.lines.first
        path = holder.path if isinstance(holder, Heading) else holder.heading.path
        id_ = card_id(document.id, identity, seen[identity])
        cards.append(Card(id_, question, answer, document.id, document.title, document.file, line, path))
    return cards


def card_id(document: str, identity: str, rank: int = 1) -> str:
    """The id of a card, from its document's and its question (or the id that its author gave it); white space and
    case do not count. `rank` counts from 1 where a question stands several times.

    >>> card_id("botany", "Why green?") == card_id("botany", "why  green?") != card_id("botany", "Why red?")
    True
    """
    text = "\0".join((document, " ".join(identity.split()).casefold(), str(rank)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


_Found = tuple[Holder, str, str, str]  # the last three: identity, question, answer


def _once(found: Sequence[_Found]) -> list[_Found]:
    """The same question is asked once where a section repeats one of its subsection, as summaries of questions do."""
    paths = [holder.path if isinstance(holder, Heading) else (*holder.heading.path, "") for holder, *_ in found]
    asked_below = {
        (pair[1].casefold(), path[:depth])
        for pair, path in zip(found, paths, strict=True)
        for depth in range(len(path))
    }
    return [pair for pair, path in zip(found, paths, strict=True) if (pair[1].casefold(), path) not in asked_below]


def _holders(document: StudyDocument) -> Iterator[Holder]:
    yield document.outline.root
    yield from document.outline.items


# -- what metadata says ----------------------------------------------------------------------------


def _pairs(holder: Holder, document: StudyDocument, after: int, without: Collection[str]) -> Iterator[_Found]:
    """Questions with their answers; `after` is the index of the item that follows the holder."""
    for identity, question, answer in _entries(holder.own.get("cards")):
        yield holder, identity, question, answer
    questions = _texts(holder.own.get("questions")) + _texts(holder.own.get("question"))
    answers = _texts(holder.own.get("answers")) + _texts(holder.own.get("answer"))
    if not questions:
        return
    text = "" if len(answers) == len(questions) else _text_of(holder, document, after, without)
    for i, question in enumerate(questions):
        answer = answers[i] if len(answers) == len(questions) else text
        if answer:
            yield holder, question, question, answer


def _entries(value: Any) -> Iterator[tuple[str, str, str]]:
    """Identity, question and answer of what stands under ``cards:``: a list of entries, or question: answer."""
    if isinstance(value, Mapping) and not any(key in value for key in _FRONT):
        value = [{"question": question, "answer": answer} for question, answer in value.items()]
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, Mapping):
            continue
        question, answer = (_first(entry, keys) for keys in (_FRONT, _BACK))
        if question and answer:
            yield str(entry.get("id") or question), question, answer


def _first(entry: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((str(entry[key]).strip() for key in keys if entry.get(key) is not None), "")


def _texts(value: Any) -> list[str]:
    return [str(item).strip() for item in (value if isinstance(value, list) else [value]) if item not in (None, "")]


def _text_of(holder: Holder, document: StudyDocument, after: int, without: Collection[str]) -> str:
    """The text that a question is about: the paragraph, or the text directly under the heading, else all under it."""
    if isinstance(holder, Text):
        return holder.text
    texts = [text for text in _under(holder, document.outline.items, after) if _is_answer(text, holder, without)]
    own = [text for text in texts if text.heading is holder]
    return "\n\n".join(text.text for text in own or texts)


def _is_answer(text: Text, holder: Heading, without: Collection[str]) -> bool:
    return not is_one_of(type_of(text), without) or is_one_of(type_of(holder), without)


def _under(holder: Heading, items: Sequence[Item], after: int) -> Iterator[Text]:
    """The texts under a heading, whose items begin at `after`: to the next heading of its level or above."""
    for i in range(after, len(items)):
        item = items[i]
        if isinstance(item, Text):
            yield item
        elif holder.level and item.level <= holder.level:
            return


# -- ways to write it ------------------------------------------------------------------------------

COLUMNS = ("id", "question", "answer", "document", "title", "headings", "file", "line")


def card_as_values(card: Card) -> dict[str, Any]:
    """As JSON holds it."""
    return {name: getattr(card, name) for name in COLUMNS} | {"headings": list(card.headings)}


def cards_as_markdown(cards: Iterable[Card]) -> str:
    """Questions as headings, answers under them.

    >>> print(cards_as_markdown([Card("1", "Why green?", "Chlorophyll.", "d", "Leaves", "a.md", 3)]), end="")
    # Leaves
    <BLANKLINE>
    ## Why green?
    <BLANKLINE>
    Chlorophyll.
    """
    parts: list[str] = []
    document = None
    for card in cards:
        parts += [f"# {card.title}"] if card.document != document else []
        parts += [f"## {' '.join(card.question.split())}", card.answer]
        document = card.document
    return "\n\n".join(parts) + ("\n" if parts else "")
