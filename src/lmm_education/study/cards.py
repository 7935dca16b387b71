"""Study cards: a question in front, the answer behind.

They come from metadata. Under ``cards:`` stand questions with their answers. ``questions:`` (or ``question:``), as
the annotations have it, is answered by ``answers:`` (``answer:``) beside it, else by the text that it is about. Or a
language model writes them.

A card is known by its document and its question: with another answer, or in another place, it is still the
same card, and keeps what a student's program recorded about it. ``id:`` in an entry of ``cards:`` keeps a card
through a change of its question too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmm.config_tables import Config
from lmm.document import Document
from lmm.errors import LmmError, ModelRejected
from lmm.markdown.tree import HeadingNode, count_words
from lmm.messages import Attachment, Usage
from lmm.models.port import ChatModel
from lmm.models.structured import Schema, object_of
from lmm.notebook.annotations import language_name
from lmm.notebook.batch import Batch
from lmm.notebook.generated_fields import text_of
from lmm.prompts.templates import Prompts
from lmm_education.config import StudySettings
from lmm_education.ingestion.outline import Heading, Item, TextItem
from lmm_education.ingestion.plan import error_of
from lmm_education.parts import config_for
from lmm_education.payloads import is_one_of
from lmm_education.prompts.templates import course_prompts
from lmm_education.study.study_documents import (
    Reading,
    StudyDocument,
    read_documents,
    settings_at,
    study_document,
    texts_of,
    type_of,
)


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


Holder = Heading | TextItem
# Keys of an entry of `cards:`, as people write it.
_FRONT, _BACK = ("question", "q", "front"), ("answer", "a", "back")


def study_cards(
    documents: Iterable[StudyDocument], *, without: Collection[str] = ("exercise", "solution", "topic")
) -> list[Card]:
    """The cards of some documents, in order. Texts of the types in `without` are no answers to questions about
    a section.

    >>> from lmm_education.study.study_documents import study_document
    >>> text = "---\\nquestions: [Why green?]\\n---\\n# Leaves\\n\\nChlorophyll.\\n"
    >>> [(card.question, card.answer) for card in study_cards([study_document(text, file="a.md")])]
    [('Why green?', 'Chlorophyll.')]
    """
    return [card for document in documents for card in _of(document, without)]


def _of(document: StudyDocument, without: Collection[str]) -> list[Card]:
    holders = [document.outline.root, *document.outline.items]
    found = _once([pair for i, holder in enumerate(holders) for pair in _pairs(holder, document, i, without)])
    seen: Counter[str] = Counter()
    cards = []
    for holder, identity, question, answer in found:
        seen[identity] += 1
        line = holder.line if isinstance(holder, Heading) else holder.lines.first
        path = holder.path if isinstance(holder, Heading) else holder.heading.path
        cards.append(
            Card(
                id=card_id(document.id, identity, seen[identity]),
                question=question,
                answer=answer,
                document=document.id,
                title=document.title,
                file=document.file,
                line=line,
                headings=path,
            )
        )
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


# -- what metadata says ----------------------------------------------------------------------------


def _pairs(holder: Holder, document: StudyDocument, after: int, without: Collection[str]) -> Iterator[_Found]:
    """Questions with their answers; `after` is the index of the item that follows the holder."""
    for identity, question, answer in _entries(holder.own.get("cards")):
        yield holder, identity, question, answer
    questions = texts_of(holder.own.get("questions")) + texts_of(holder.own.get("question"))
    answers = texts_of(holder.own.get("answers")) + texts_of(holder.own.get("answer"))
    if not questions:
        return
    if len(answers) != len(questions):
        answers = [_text_of(holder, document, after, without)] * len(questions)
    for question, answer in zip(questions, answers, strict=True):
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


def _text_of(holder: Holder, document: StudyDocument, after: int, without: Collection[str]) -> str:
    """The text that a question is about: the paragraph, or the text directly under the heading, else all under it."""
    if isinstance(holder, TextItem):
        return holder.text
    special = is_one_of(type_of(holder), without)
    under = _under(holder, document.outline.items, after)
    texts = [text for text in under if special or not is_one_of(type_of(text), without)]
    own = [text for text in texts if text.heading is holder]
    return "\n\n".join(text.text for text in own or texts)


def _under(holder: Heading, items: Sequence[Item], after: int) -> Iterator[TextItem]:
    """The texts under a heading, whose items begin at `after`: to the next heading of its level or above."""
    for i in range(after, len(items)):
        item = items[i]
        if isinstance(item, TextItem):
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


# -- cards that a language model writes ------------------------------------------------------------

# A batch model, which gives sections the field ``~cards_``. It runs as all batch models do: bounded calls, journaled
# replies, made again only where the text changed, and what people wrote or edited is kept.


FIELD = "cards"
_LEAST = 40  # words of text below which a section is not worth a call
_WORDS_A_CARD, _MOST = 80, 6


@dataclass(slots=True)
class CardReport:
    """Documents with the cards that were written; what failed, with its place; what it cost; hints for the author.

    `cards` are all cards of the documents; `changed` are files that got some.
    """

    reading: Reading
    cards: list[Card] = field(default_factory=list)
    failures: list[LmmError] = field(default_factory=list)
    changed: list[Path] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    hints: list[str] = field(default_factory=list)


def write_cards(
    paths: Iterable[str | Path],
    *,
    model: str | ChatModel,
    config: str | Path | Config | None = None,
    again: bool = False,
    save: bool = False,
) -> CardReport:
    """The documents at some paths, their sections with cards that a model wrote where there were none.

    Args:
        model: a name, such as ``OpenAI/gpt-4.1-mini``, or a model.
        again: ask again, even if an earlier run has the reply.
        save: write the cards into the documents too, as ``~cards_``, where they can be corrected.

    Raises:
        ConfigError: the configuration asks for something unknown.
    """
    paths = list(paths)
    settings = settings_at(paths[0] if paths else ".", config)
    report = CardReport(read_documents(paths, settings))
    for number, document in enumerate(report.reading.documents):
        file = Path(document.file)
        try:
            found = Document.open(file, config=config_for(file, config))
            text = _with_cards(found, model, again, report, save)
        except LmmError as error:
            report.failures.append(error_of(error, document.file))
            continue
        report.reading.documents[number] = study_document(text, file=document.file, id=document.id)
    report.hints = list(dict.fromkeys(report.hints))
    report.cards = cards_of(report.reading, settings.study).cards
    return report


def cards_of(reading: Reading, study: StudySettings) -> CardReport:
    """The cards that documents have."""
    without = (*study.exercises, *study.solutions, "topic")
    return CardReport(reading, cards=study_cards(reading.documents, without=without))


def _with_cards(document: Document, model: str | ChatModel, again: bool, report: CardReport, save: bool) -> str:
    """The text of a document with cards; what was made is in the journal, and in the file if it is saved."""
    make = functools.partial(make_cards, prompts=course_prompts(document.settings.prompts_folder))
    with document if save else contextlib.nullcontext():
        try:
            done = document.batch(make, model=model, again=again)
        finally:
            if save:
                document.save()
    report.usage += done.usage
    report.hints += done.hints
    report.changed += [document.path] if save and done.changed and document.path else []
    for failure in done.failures:
        report.failures.append(LmmError(failure.error.message, where=str(failure.place), hint=failure.error.hint))
    return document.text


async def make_cards(batch: Batch, prompts: Prompts) -> None:
    """Give every section with text of its own, and no cards of its author's, some study cards."""
    language = language_name(batch.language)

    async def make(node: HeadingNode, text: str) -> list[dict[str, str]]:
        source = " > ".join((*node.heading_path, node.title))
        count = min(_MOST, 1 + count_words(text) // _WORDS_A_CARD)
        prompt = prompts.fill("cards", count=str(count), language=language)
        said = await batch.value(prompt, Attachment(text, "text", source), schema=_cards())
        cards = [{key: value.strip() for key, value in card.items()} for card in said["cards"]]
        if complete := [card for card in cards if all(card.values())]:
            return complete
        raise ModelRejected(f"{batch.client.name} wrote no cards", hint="choose another model, and run with --again")

    await batch.annotate(FIELD, make, source=_source, made_by=f"{prompts.texts['cards']}\0{language}")


def _source(node: HeadingNode, below: Any) -> str | None:
    text = text_of(node)
    return text if count_words(text) >= _LEAST else None


@functools.cache
def _cards() -> Schema:
    card = object_of(question={"type": "string"}, answer={"type": "string"})
    return object_of(cards={"type": "array", "items": card.sent})
