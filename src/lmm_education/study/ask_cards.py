"""Cards that a language model writes: a batch model, which gives sections the field ``~cards``.

It runs as all batch models do: bounded calls, journaled replies, made again only where the text changed, and
what people wrote or edited is kept.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmm.config_files import find_config
from lmm.document import Document
from lmm.errors import LmmError, ModelRejected
from lmm.markdown.tree import HeadingNode, count_words
from lmm.messages import Attachment, Usage
from lmm.models.port import ChatModel
from lmm.models.structured import Schema, object_of
from lmm.notebook.annotations import language_name
from lmm.notebook.batch import Batch
from lmm.notebook.fields import text_of
from lmm.powers import Config
from lmm.prompts.load import load_prompts
from lmm.prompts.templates import Prompts
from lmm_education.ingestion.identity import error_of
from lmm_education.prompts.templates import SLOTS
from lmm_education.settings import StudySettings
from lmm_education.study.cards import Card, study_cards
from lmm_education.study.material import study_document
from lmm_education.study.reading import Reading, read_documents, settings_at

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
        again: ask anew what an earlier run got a reply to.
        save: write the cards into the documents too, as ``~cards``, where they can be corrected.

    Raises:
        ConfigError: the configuration asks for something unknown.
    """
    paths = list(paths)
    settings = settings_at(paths[0] if paths else ".", config)
    report = CardReport(read_documents(paths, settings))
    for number, document in enumerate(report.reading.documents):
        file = Path(document.file)
        try:
            found = Document.open(file, config=_config_for(file, config))
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


def _config_for(file: Path, config: str | Path | Config | None) -> Config:
    return config if isinstance(config, Config) else find_config(Path(config) if config else None, file)


def _with_cards(document: Document, model: str | ChatModel, again: bool, report: CardReport, save: bool) -> str:
    """The text of a document with cards; what was made is in the journal, and in the file if it is saved."""
    prompts = load_prompts(document.settings.prompts_folder, package="lmm_education.prompts", slots=SLOTS)

    async def make(batch: Batch) -> None:
        await make_cards(batch, prompts)

    with document if save else contextlib.nullcontext():
        try:
            done = document.run(make, model=model, again=again)
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
