"""Study cards: a question on the front, the answer on the back.

They come from metadata: ``cards:`` contains questions with their answers. ``questions:`` (or ``question:``), as written
by the annotations, is answered by ``answers:`` (``answer:``) next to it, or else by the text that it is about. Or a
language model writes them.

A card is identified by its document and its question: with another answer, or in another place, it is still the same
card, and keeps a student's review history. ``id:`` in an entry of ``cards:`` keeps a card the same even if its question
changes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import io
import json
import mimetypes
import os
import re
import sqlite3
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lmm.config_files import settings_for
from lmm.config_tables import TIERS, Config
from lmm.csv_table import csv_text
from lmm.disk import files
from lmm.disk.folder import Folder
from lmm.document import Document
from lmm.errors import ConfigError, DocumentError, LmmError, ModelRejected
from lmm.extras import check_installed
from lmm.markdown import Span, replace_spans
from lmm.markdown.tree import HeadingNode, count_words, without_metadata
from lmm.messages import Attachment, Usage
from lmm.models.builtin import NAME as EXTRACTIVE
from lmm.models.port import ModelLike, given_model
from lmm.models.structured import Schema, object_of
from lmm.notebook.annotations import language_name
from lmm.notebook.generated_fields import Batch, is_on
from lmm.notebook.text_types import Stretch, stretches
from lmm.prompts.templates import Prompts
from lmm.type_names import is_one_of
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.config import CourseSettings, StudySettings
from lmm_education.ingestion.outline import Heading, TextItem, stored_outline
from lmm_education.ingestion.plan import error_of
from lmm_education.ingestion.readers import unrevealing, values_for_students
from lmm_education.material import distinct_titles
from lmm_education.parts import config_for
from lmm_education.prompts.templates import course_prompts
from lmm_education.study.study_documents import (
    Reading,
    StudyDocument,
    read_documents,
    settings_at,
    study_document,
    texts_of,
)

if TYPE_CHECKING:
    from genanki import Deck
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class Card:
    """A card: question and answer as markdown, and their place. `id` stays the same when the answer changes."""

    id: str
    question: str
    answer: str
    document: str
    title: str
    file: str
    line: int
    headings: tuple[str, ...] = ()


Holder = Heading | TextItem
# Accepted keys of an entry in `cards:`.
_FRONT, _BACK = ("question", "q", "front"), ("answer", "a", "back")


def study_cards(
    documents: Iterable[StudyDocument], *, without: Collection[str] = ("exercise", "solution", "topic")
) -> list[Card]:
    """Return the cards of some documents, in order. Texts of the types in `without` are not used as answers to
    questions about a section.

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
        id = card_id(document.id, identity, seen[identity])
        cards.append(Card(id, question, answer, document.id, document.title, document.file, line, path))
    return cards


def card_id(document: str, identity: str, rank: int = 1) -> str:
    """Return the id of a card, from the document's id and its question (or the id given by the author), ignoring white
    space and case. `rank` counts equal questions from 1.

    >>> card_id("botany", "Why green?") == card_id("botany", "why  green?") != card_id("botany", "Why red?")
    True
    """
    text = "\0".join((document, " ".join(identity.split()).casefold(), str(rank)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


_Found = tuple[Holder, str, str, str]  # the last three: identity, question, answer


def _once(found: Sequence[_Found]) -> list[_Found]:
    """Remove questions of a section that repeat one of its subsection, as summaries of questions do."""
    paths = [holder.path if isinstance(holder, Heading) else (*holder.heading.path, "") for holder, *_ in found]
    asked_below = {
        (pair[1].casefold(), path[:depth])
        for pair, path in zip(found, paths, strict=True)
        for depth in range(len(path))
    }
    return [pair for pair, path in zip(found, paths, strict=True) if (pair[1].casefold(), path) not in asked_below]


# -- cards in metadata -----------------------------------------------------------------------------


def _pairs(holder: Holder, document: StudyDocument, after: int, without: Collection[str]) -> Iterator[_Found]:
    """Iterate over questions with their answers; `after` is the index of the item that follows the holder."""
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
    """Iterate over identity, question and answer in ``cards:``: a list of entries, or question: answer."""
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
    """Return the text that a question is about: the paragraph, the text directly under the heading, or all of it."""
    if isinstance(holder, TextItem):
        return holder.text
    special, level = is_one_of(holder.type, without), holder.level
    below = takewhile(
        lambda item: isinstance(item, TextItem) or not level or item.level > level, document.outline.items[after:]
    )
    under = [item for item in below if isinstance(item, TextItem)]
    texts = [text for text in under if special or not is_one_of(text.type, without)]
    own = [text for text in texts if text.heading is holder]
    return "\n\n".join(text.text for text in own or texts)


# -- output formats --------------------------------------------------------------------------------

COLUMNS = ("id", "question", "answer", "document", "title", "headings", "file", "line")


def card_as_values(card: Card) -> dict[str, Any]:
    """Return a card as plain values."""
    return {name: getattr(card, name) for name in COLUMNS} | {"headings": list(card.headings)}


def cards_as_markdown(cards: Iterable[Card]) -> str:
    """Return questions as headings, with the answers below.

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

# A batch model, which adds the field ``~cards_`` to sections. Like all batch models, it limits concurrent calls,
# keeps replies in the journal, asks again only where the text changed, and keeps what people wrote or edited.


FIELD = "cards"
_LEAST = 40  # words of text below which a section is not worth a call
_WORDS_A_CARD, _MOST = 80, 6


@dataclass(slots=True, repr=False)
class CardReport:
    """Documents with the cards that were written; errors, with their place; usage; hints for the author.

    `cards` are all cards of the documents; `changed` are files to which cards were added.
    """

    reading: Reading
    cards: list[Card] = field(default_factory=list)
    failures: list[LmmError] = field(default_factory=list)
    changed: list[Path] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    hints: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"CardReport({len(self.cards)} cards, {len(self.failures)} failed)"

    def _repr_markdown_(self) -> str:
        """Return the cards, as a notebook shows them."""
        return cards_as_markdown(self.cards) or repr(self)


def write_cards(
    paths: Iterable[str | Path],
    *,
    model: ModelLike,
    config: str | Path | Config | None = None,
    again: bool = False,
    save: bool = False,
    solutions: bool = False,
) -> CardReport:
    """Read the documents at some paths, and let a model write cards for sections without any.

    Args:
        model: a name, such as ``OpenAI/gpt-4.1-mini``, a model, or a function.
        again: ask again, even if an earlier run has the reply.
        save: also write the cards into the documents, as ``~cards_``, where they can be corrected.
        solutions: return also cards with texts that are withheld from students.

    Raises:
        ConfigError: the configuration contains an invalid value, or the model is the built-in one, which only quotes.
    """
    paths = list(paths)
    place = paths[0] if paths else "."
    settings = settings_at(place, config)
    named, given = given_model(model)
    models = None if given else settings_for(config=config_for(place, config), overrides={"major": named})
    if EXTRACTIVE in (given and given.name, models and str(models.major.model)):
        hint = "name a language model with --model, or write 'cards:' or 'questions:' in the metadata"
        tier = f" ({named} in the settings)" if named.lower() in TIERS else ""
        raise ConfigError(f"{EXTRACTIVE}{tier} cannot write cards", hint=hint)
    report, kinds = CardReport(read_documents(paths, settings)), settings.withholding
    for number, document in enumerate(report.reading.documents):
        file = Path(document.file)
        try:
            found = Document.open(file, config=config_for(file, config))
            text = _with_cards(found, model, again, report, save, settings)
        except LmmError as error:
            report.failures.append(error_of(error, document.file))
            continue
        report.reading.documents[number] = study_document(text, file=document.file, id=document.id, kinds=kinds)
    report.hints = list(dict.fromkeys(report.hints))
    report.cards = cards_of(report.reading, settings, solutions=solutions).cards
    return report


def cards_of(reading: Reading, settings: CourseSettings, *, solutions: bool = False) -> CardReport:
    """Return the existing cards of documents: those that students may see, or with `solutions`, all."""
    shown = reading.documents if solutions else list[StudyDocument]()
    for document in reading.documents if not solutions else ():
        public, _ = unrevealing(document.outline, settings.withholding)
        values = values_for_students((public.root, *public.items), settings.withholding)
        if values and "text" not in values[0] and not values[0]["level"]:  # otherwise all of it is withheld
            shown.append(replace(document, outline=stored_outline(values)))
    return CardReport(reading, cards=study_cards(shown, without=_untaught(settings.study)))


def _untaught(study: StudySettings) -> tuple[str, ...]:
    """Return the types of texts about which no cards are written."""
    return (*study.exercises, *study.solutions, "topic")


def _with_cards(
    document: Document, model: ModelLike, again: bool, report: CardReport, save: bool, settings: CourseSettings
) -> str:
    """Return the text of a document with cards; new ones are in the journal, and in the file if they are saved."""
    prompts = course_prompts(document.settings.prompts.folder)
    make = functools.partial(make_cards, prompts=prompts, without=_untaught(settings.study), kinds=settings.withholding)
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


async def make_cards(
    batch: Batch, prompts: Prompts, without: Collection[str] = (), kinds: Withholding = DEFAULT
) -> None:
    """Write study cards for every section that has text of its own and no cards by its author; texts of the types in
    `without` are not shown to the model."""
    language = language_name(batch.language)
    typed: dict[int, Stretch] = {}

    async def make(node: HeadingNode, text: str) -> list[dict[str, str]] | None:
        source = " > ".join((*node.heading_path, node.title))
        count = min(_MOST, 1 + count_words(text) // _WORDS_A_CARD)
        prompt = prompts.fill("cards", count=str(count), language=language)
        said = await batch.value(prompt, Attachment(text, "text", source), schema=cards_schema())
        cards = [{key: value.strip() for key, value in card.items()} for card in said["cards"]]
        if (complete := [card for card in cards if all(card.values())]) or not cards:
            return complete or None  # a text with nothing to learn in it
        raise ModelRejected(f"{batch.client.name} wrote no cards", hint="choose another model, and run with --again")

    def source(node: HeadingNode, below: Any) -> str | None:
        """Return the text that a section teaches, if it is long enough."""
        if not typed:
            *_, root = node, *node.ancestors()
            typed.update(stretches(root, kinds.names))
        types = {id(each): typed[id(each)].types for each in node.texts if id(each) in typed}
        left_out = {key for key, found in types.items() if any(is_one_of(kind, without) for kind in found)}
        texts = [each for each in node.texts if not (is_on(each.own("skip")) or id(each) in left_out)]
        text = without_metadata([block for each in texts for block in each.own_blocks()])
        return text if count_words(text) >= _LEAST else None

    await batch.annotate(FIELD, make, source=source, made_by=f"{prompts.texts['cards']}\0{language}")


@functools.cache
def cards_schema() -> Schema:
    """Return the form in which a model writes cards."""
    card = object_of(question={"type": "string"}, answer={"type": "string"})
    return object_of(cards={"type": "array", "items": card.sent})


# -- card files ------------------------------------------------------------------------------------


# Anki identifies note types and decks by number. Changing these would duplicate the cards that students have.
_NOTE_TYPE = 1_763_920_547
_FIELDS = ("Question", "Answer", "Source", "Id")
_FRONT_SIDE = '<div class="question">{{Question}}</div>'
_BACK_SIDE = '{{FrontSide}}<hr id="answer"><div class="answer">{{Answer}}</div><div class="source">{{Source}}</div>'
_STYLE = """
.card { font-family: sans-serif; font-size: 1.15em; line-height: 1.45; max-width: 42em; margin: 0 auto; }
.question { font-weight: 600; }
.source { color: #767676; font-size: .75em; margin-top: 1.5em; }
pre { overflow-x: auto; font-size: .85em; text-align: left; }
table { border-collapse: collapse; margin: 0 auto; } td, th { border: 1px solid #999; padding: .2em .5em; }
img { max-width: 100%; }
"""


ANKI = ".apkg"


def check_output(path: Path) -> None:
    """Check that cards can be written to a file, before anything is made.

    Raises:
        ConfigError: the file format is not supported, its folder is missing, or a required package is not installed.
        FileWriteError: the file may not be written.
    """
    if path.suffix.lower() not in (*WRITERS, ANKI):
        hint = f"use {', '.join((*WRITERS, ANKI))}"
        raise ConfigError(f"cards cannot be written as '{path.suffix}'", where=str(path), hint=hint)
    if path.suffix.lower() == ANKI:
        needed, csv = ("genanki", "markdown_it"), ", or write .csv"
        check_installed("anki", "cards for Anki need", *needed, kind=ConfigError, where=str(path), hint=csv)
    if not path.resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    files.check_writable(path)


def save_cards(path: str | Path, cards: Sequence[Card], *, deck: str = "", now: float | None = None) -> None:
    """Write cards to a file in the format of its suffix: .csv, .json, .md, .apkg.

    Args:
        deck: the name of the deck in Anki; each document has a subdeck.
        now: seconds since 1970. Anki keeps the newer version of a known card.

    Raises:
        ConfigError, FileWriteError: the file cannot be written.
    """
    path = Path(path)
    check_output(path)
    if (suffix := path.suffix.lower()) == ANKI:
        files.replace(path, _anki(cards, deck, time.time() if now is None else now))
    else:
        files.replace(path, WRITERS[suffix](cards).encode("utf-8", "surrogatepass"))


def _csv(cards: Sequence[Card]) -> str:
    rows = (card_as_values(card) | {"headings": " > ".join(card.headings)} for card in cards)
    return csv_text(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def _json(cards: Sequence[Card]) -> str:
    return json.dumps([card_as_values(card) for card in cards], ensure_ascii=False, indent=2) + "\n"


WRITERS: dict[str, Callable[[Sequence[Card]], str]] = {".csv": _csv, ".json": _json, ".md": cards_as_markdown}


# -- Anki ------------------------------------------------------------------------------------------


def _anki(cards: Sequence[Card], deck: str, now: float) -> bytes:
    import genanki

    pictures, fields = PictureFiles(), [{"name": name} for name in _FIELDS]
    template = {"name": "Card", "qfmt": _FRONT_SIDE, "afmt": _BACK_SIDE}
    model = genanki.Model(_NOTE_TYPE, "LM Markdown", fields=fields, templates=[template], css=_STYLE)
    decks: dict[str, Deck] = {}
    for number, card in enumerate(cards):
        if card.document not in decks:
            names = (name.replace("::", ": ").strip() for name in (deck, card.title) if name.strip())
            digest = hashlib.sha256(card.document.encode("utf-8", "surrogatepass")).digest()
            anki_id = 1 << 40 | int.from_bytes(digest[:5], "big")  # by which Anki identifies a deck
            decks[card.document] = genanki.Deck(anki_id, "::".join(names) or "Cards")
        tag = re.sub(r"\s+", "-", card.title.strip()) or "cards"
        note = genanki.Note(model, _fields(card, pictures), guid=card.id, tags=[tag], due=number)
        decks[card.document].add_note(note)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        with warnings.catch_warnings():  # genanki mistakes escaped formulas for tags
            warnings.simplefilter("ignore")
            genanki.Package(list(decks.values())).write_to_db(database.cursor(), now, count(int(now * 1000)))
        database.commit()
        return _package(database.serialize(), pictures.kept)


def _package(collection: bytes, media: Mapping[str, bytes]) -> bytes:
    """Return the archive that Anki imports; genanki's own method leaves a file in the temporary folder."""
    output, names = io.BytesIO(), sorted(media)
    with zipfile.ZipFile(output, "w") as archive:
        archive.writestr("collection.anki2", collection)
        archive.writestr("media", json.dumps(dict(enumerate(names))))
        for number, name in enumerate(names):
            archive.writestr(str(number), media[name])
    return output.getvalue()


def _fields(card: Card, pictures: PictureFiles) -> list[str]:
    source = " › ".join(distinct_titles((card.title, *card.headings)))
    shown = [to_html(text, picture=pictures.beside(card.file)) for text in (card.question, card.answer)]
    fields = [*shown, inline(to_html(source)), card.id]
    return [re.sub(r"[\x00-\x08\x0b-\x1f]", "", field) for field in fields]  # \x1f separates fields


class PictureFiles:
    """The pictures on cards, copied under names that are unique to the course, since Anki has one folder for all.

    A package is shared, and a document may not be trustworthy: only pictures and sounds inside the current folder or
    the document's folder are included.
    """

    def __init__(self) -> None:
        self._names: dict[Path, str] = {}
        self.kept: dict[str, bytes] = {}

    def beside(self, file: str) -> Callable[[str], str]:
        """Return a function that names the pictures of a document; addresses that are not files are unchanged."""

        def name(source: str) -> str:
            path = Path(os.path.normpath(Path(file).parent / unquote(source)))
            kind = mimetypes.guess_type(path.name)[0] or ""
            if "://" in source or not kind.startswith(("image/", "audio/", "video/")):
                return source
            if path not in self._names:
                data = _read_below((Path(), Path(file).parent), path)
                if data is None:
                    return source
                self._names[path] = f"lmm-{hashlib.sha256(data).hexdigest()[:10]}{path.suffix}"
                self.kept[self._names[path]] = data
            return self._names[path]

        return name


def _read_below(folders: Iterable[Path], path: Path) -> bytes | None:
    """Return the content of a file that is inside one of the folders."""
    for folder in folders:
        with contextlib.suppress(DocumentError):
            return Folder(folder).read(os.path.abspath(path))  # noqa: PTH100  # does not resolve links
    return None


# -- markdown for Anki -----------------------------------------------------------------------------


_IMAGE = re.compile(r'(<img src=")([^"]+)(")')


def to_html(markdown: str, *, picture: Callable[[str], str] = lambda path: path) -> str:
    """Render a text as HTML. HTML in it is shown, not interpreted; `picture` returns the stored name of a picture.

    >>> to_html("The slope $\\\\beta < 1$ is *small*.")
    '<p>The slope \\\\(\\\\beta &lt; 1\\\\) is <em>small</em>.</p>'
    """

    def without_options(span: Span) -> str | None:
        return markdown[span.start : span.end].replace(span.attributes, span.language, 1) if span.runs else None

    rendered = str(_parser().render(replace_spans(markdown, without_options))).strip()
    return _IMAGE.sub(lambda match: match[1] + html.escape(picture(html.unescape(match[2]))) + match[3], rendered)


def inline(rendered: str) -> str:
    """Return HTML without its paragraph, if it is a single one."""
    one = re.fullmatch(r"<p>((?:(?!</p>).)*)</p>\n?", rendered, re.DOTALL)
    return one[1] if one else rendered


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    from lmm_education.study.formulas import formulas

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).use(formulas)
    for name in ("formula", "display_formula"):
        parser.add_render_rule(name, lambda this, tokens, at, *_: _formula(tokens[at]))
    return parser


def _formula(token: Token) -> str:
    """Return a formula in MathJax delimiters."""
    text = html.escape(token.content, quote=False)
    shown = rf"\({text}\)" if token.type == "formula" else rf"\[{text}\]"
    return f"<p>{shown}</p>\n" if token.block else shown
