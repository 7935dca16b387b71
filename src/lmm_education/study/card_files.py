"""Write study cards: CSV, markdown, JSON, or a package for Anki."""

from __future__ import annotations

import contextlib
import hashlib
import html
import importlib.util
import io
import json
import mimetypes
import os
import re
import sqlite3
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lmm.csv_table import csv_text
from lmm.disk import files
from lmm.disk.folder import Folder
from lmm.errors import ConfigError, DocumentError
from lmm.markdown import Span, replace_spans
from lmm_education.material import distinct_titles
from lmm_education.study.cards import COLUMNS, Card, card_as_values, cards_as_markdown

if TYPE_CHECKING:
    from genanki import Deck
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Anki knows note types and decks by number. Changing these makes other cards of those that students have.
_NOTE_TYPE = 1_763_920_547
_FIELDS = ("Question", "Answer", "Source", "Id")
_FRONT = '<div class="question">{{Question}}</div>'
_BACK = '{{FrontSide}}<hr id="answer"><div class="answer">{{Answer}}</div><div class="source">{{Source}}</div>'
_STYLE = """
.card { font-family: sans-serif; font-size: 1.15em; line-height: 1.45; max-width: 42em; margin: 0 auto; }
.question { font-weight: 600; }
.source { color: #767676; font-size: .75em; margin-top: 1.5em; }
pre { overflow-x: auto; font-size: .85em; text-align: left; }
table { border-collapse: collapse; margin: 0 auto; } td, th { border: 1px solid #999; padding: .2em .5em; }
img { max-width: 100%; }
"""


def check_output(path: Path) -> None:
    """Fail before anything is made if cards cannot be written there.

    Raises:
        ConfigError: the kind of file is not known, its folder is missing, or the packages for it are.
        FileWriteError: it may not be written.
    """
    if path.suffix.lower() not in WRITERS:
        raise ConfigError(f"cards cannot be written as '{path.suffix}'", where=str(path), hint=f"use {_KINDS}")
    missing = [name for name in ("genanki", "markdown_it") if importlib.util.find_spec(name) is None]
    if path.suffix.lower() == ".apkg" and missing:
        hint = "pip install 'lmmarkdown[anki]', or write .csv"
        raise ConfigError("packages for Anki need a library that is not installed", where=str(path), hint=hint)
    if not path.resolve().parent.is_dir():
        raise ConfigError("there is no such folder", where=str(path), hint=f"mkdir -p {path.parent}")
    files.check_writable(path)


def save_cards(path: str | Path, cards: Sequence[Card], *, deck: str = "", now: float | None = None) -> None:
    """Replace a file by these cards; its suffix says how: .csv, .json, .md, .apkg.

    Args:
        deck: the name of the deck in Anki; below it each document has one of its own.
        now: seconds since 1970. Anki takes the newer version of a card that it knows.

    Raises:
        ConfigError, FileWriteError: they cannot be written there.
    """
    path = Path(path)
    check_output(path)
    files.replace(path, WRITERS[path.suffix.lower()](cards, deck, time.time() if now is None else now))


def _csv(cards: Sequence[Card], deck: str, now: float) -> bytes:
    rows = (card_as_values(card) | {"headings": " > ".join(card.headings)} for card in cards)
    return csv_text(COLUMNS, [[row[name] for name in COLUMNS] for row in rows]).encode("utf-8", "surrogatepass")


def _json(cards: Sequence[Card], deck: str, now: float) -> bytes:
    return (json.dumps([card_as_values(card) for card in cards], ensure_ascii=False, indent=2) + "\n").encode()


def _markdown(cards: Sequence[Card], deck: str, now: float) -> bytes:
    return cards_as_markdown(cards).encode("utf-8", "surrogatepass")


# -- Anki ------------------------------------------------------------------------------------------


def _anki(cards: Sequence[Card], deck: str, now: float) -> bytes:
    import genanki

    pictures, fields = _Pictures(), [{"name": name} for name in _FIELDS]
    template = {"name": "Card", "qfmt": _FRONT, "afmt": _BACK}
    model = genanki.Model(_NOTE_TYPE, "LM Markdown", fields=fields, templates=[template], css=_STYLE)
    decks: dict[str, Deck] = {}
    for number, card in enumerate(cards):
        if card.document not in decks:
            decks[card.document] = genanki.Deck(_number(card.document), _deck_name(deck, card.title))
        decks[card.document].add_note(
            genanki.Note(model, _fields(card, pictures), guid=card.id, tags=[_tag(card.title)], due=number)
        )
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        with warnings.catch_warnings():  # it takes escaped formulas for tags
            warnings.simplefilter("ignore")
            genanki.Package(list(decks.values())).write_to_db(database.cursor(), now, count(int(now * 1000)))
        database.commit()
        return _package(database.serialize(), pictures.kept)


def _package(collection: bytes, media: Mapping[str, bytes]) -> bytes:
    """The archive that Anki imports; genanki's own way to it leaves a file in the folder for temporary ones."""
    output, names = io.BytesIO(), sorted(media)
    with zipfile.ZipFile(output, "w") as archive:
        archive.writestr("collection.anki2", collection)
        archive.writestr("media", json.dumps(dict(enumerate(names))))
        for number, name in enumerate(names):
            archive.writestr(str(number), media[name])
    return output.getvalue()


def _number(name: str) -> int:
    """A number that Anki knows a deck by, from the document's id."""
    return 1 << 40 | int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:5], "big")


def _deck_name(deck: str, title: str) -> str:
    return "::".join(name.replace("::", ": ").strip() for name in (deck, title) if name.strip()) or "Cards"


def _tag(title: str) -> str:
    return re.sub(r"\s+", "-", title.strip()) or "cards"


def _fields(card: Card, pictures: _Pictures) -> list[str]:
    source = " › ".join(distinct_titles((card.title, *card.headings)))
    shown = [to_html(text, picture=pictures.beside(card.file)) for text in (card.question, card.answer)]
    fields = [*shown, to_html(source).removeprefix("<p>").removesuffix("</p>"), card.id]
    return [re.sub(r"[\x00-\x08\x0b-\x1f]", "", field) for field in fields]  # \x1f separates fields


class _Pictures:
    """The pictures that cards show, copied under names that no other course uses: Anki has one folder for all.

    A package is given away, and a document may come from a stranger: only pictures, and sound, come along that lie
    below the current folder or the document's.
    """

    def __init__(self) -> None:
        self._names: dict[Path, str] = {}
        self.kept: dict[str, bytes] = {}

    def beside(self, file: str) -> Callable[[str], str]:
        """Names for the pictures of a document; those that are not files are left as they are."""

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
    """A file that lies below one of the folders."""
    for folder in folders:
        with contextlib.suppress(DocumentError):
            return Folder(folder).read(os.path.abspath(path))  # noqa: PTH100  # not to where a link leads
    return None


WRITERS: dict[str, Callable[[Sequence[Card], str, float], bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
    ".apkg": _anki,
}
_KINDS = ", ".join(WRITERS)


# -- markdown as Anki shows it ---------------------------------------------------------------------


_IMAGE = re.compile(r'(<img src=")([^"]+)(")')


def to_html(markdown: str, *, picture: Callable[[str], str] = lambda path: path) -> str:
    """A text as HTML. HTML in it is shown, not interpreted; `picture` gives the name under which a picture is kept.

    >>> to_html("The slope $\\\\beta < 1$ is *small*.")
    '<p>The slope \\\\(\\\\beta &lt; 1\\\\) is <em>small</em>.</p>'
    """

    def without_options(span: Span) -> str | None:
        return markdown[span.start : span.end].replace(span.attributes, span.language, 1) if span.runs else None

    rendered = str(_parser().render(replace_spans(markdown, without_options))).strip()
    return _IMAGE.sub(lambda match: match[1] + html.escape(picture(html.unescape(match[2]))) + match[3], rendered)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    from lmm_education.study.formulas import formulas

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).use(formulas)
    for name in ("formula", "display_formula"):
        parser.add_render_rule(name, lambda this, tokens, at, *_: _formula(tokens[at]))
    return parser


def _formula(token: Token) -> str:
    """A formula in the marks that MathJax knows."""
    text = html.escape(token.content, quote=False)
    shown = rf"\({text}\)" if token.type == "formula" else rf"\[{text}\]"
    return f"<p>{shown}</p>\n" if token.block else shown
