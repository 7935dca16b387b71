"""Material sent with a prompt besides its text: pictures in that text, what its code printed, files, web pages,
passages of the course.

In a prompt, ``@notes.md`` names a file of the document's folder, ``@"a name with spaces.pdf"`` too; ``@https://…`` a
page; ``@course: a phrase`` passages of the ingested course about it. This module finds mentions, which is pure, and
loads them; it reads only from the document's folder, the public web, and the course.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath

from lmm.config import Settings
from lmm.disk import digest
from lmm.disk.folder import Folder
from lmm.disk.names import is_secret_file
from lmm.errors import DocumentError, LmmError
from lmm.markdown.spans import included_pictures, spans
from lmm.messages import Attachment, Image
from lmm.notebook.outputs import printed

MOST_PICTURES = 8
_MOST_PRINTED = 20_000  # characters of what the chunks in a text printed
_PASSAGES = 4  # of the course, for one phrase
_PICTURE_KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# Suffixes of names that are meant as files even if there is no such file; other "@name"s may be people or citations.
_FILE_KINDS = (
    *(".md", ".rmd", ".qmd", ".markdown", ".txt", ".pdf", ".docx", ".odt", ".rtf", ".html", ".ipynb", ".epub", ".tex"),
    *(".pptx", ".xlsx", ".csv", ".json", ".yaml", ".yml", ".toml", ".py", ".r", *_PICTURE_KINDS),
)
# What follows a name without being part of it, and what may stand before the "@".
_STOPS = r"\s@\"“”„‟«»‘‚'’`()\[\]{}<>*|#§→\u200b，。、；：！？（）「」『』【】《》…—"
_MENTION = re.compile(
    r"(?<![A-Za-z0-9\u00c0-\u024f@./\\])[@＠](?:(?i:course):[ \t]*(?P<phrase>[^\n]*\S)|(?P<url>https?://[^\s<>\"“”]+)"
    rf"|[\"“„«](?P<quoted>[^\"“”«»\n]+)[\"”“»]|['‘`<(\[{{](?P<inside>[^'‘’`<>()\[\]{{}}\n]+)['’`>)\]}}]"
    rf"|(?P<file>(?:\.{{0,2}}/)?[^{_STOPS}]+))"
)
_PARTS = ("phrase", "url", "quoted", "inside", "file")
_TRAILING = ".,;:!?_~=)]'&+–-"
_IN_CHINESE = re.compile(r"(.+?\.[A-Za-z0-9]{1,8})[\u3000-\u9fff\uac00-\ud7af].*")  # no blank follows a name there
_LINE = re.compile(r":\d+(?:[-:]\d+)?\Z")  # in a file


@dataclass(frozen=True, slots=True)
class Mention:
    """One ``@…`` in a prompt: `kind` is ``file``, ``page`` or ``course``."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Mentions:
    """The material sent along with a prompt; `notes` are messages about it for the author."""

    texts: tuple[Attachment, ...] = ()
    pictures: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """A key that identifies the material in the journal."""
        seen = (digest(picture.data) for picture in self.pictures)
        return (*(text.text for text in self.texts), *seen)


NO_MENTIONS = Mentions()


def find_mentions(prompt: str) -> tuple[Mention, ...]:
    """Find the mentions in a prompt, in order, each once. `load_mentions` checks whether ``@name`` is a file.

    >>> find_mentions("compare @notes.md and @https://example.org/a. (mail a@b.org)")
    (Mention(kind='file', name='notes.md'), Mention(kind='page', name='https://example.org/a'))
    >>> [each.name for each in find_mentions("“@a.md”, **@b.md**, @c.md's, @d.md#x, @e.md:3 与@f.md一致")]
    ['a.md', 'b.md', 'c.md', 'd.md', 'e.md', 'f.md']
    >>> find_mentions("see @course: the slice type")
    (Mention(kind='course', name='the slice type'),)
    """
    found = dict[Mention, None]()
    for phrase, url, quoted, inside, file in (match.group(*_PARTS) for match in _MENTION.finditer(prompt)):
        quoted, url = (quoted or inside, url) if "://" not in (inside or "") else ("", inside)
        kind = "course" if phrase else "page" if url else "file"
        if (
            name := phrase
            or quoted
            or (url.rstrip(_TRAILING) if url else _LINE.sub("", _IN_CHINESE.sub(r"\1", file).rstrip(_TRAILING)))
        ):
            found[Mention(kind, name)] = None
    return tuple(found)


def pictures(text: str) -> tuple[str, ...]:
    """Return the local files of the pictures in a text, each once: markdown's and knitr's.

    >>> pictures("![A leaf](img/leaf.png) and ![one](https://example.org/a.png)")
    ('img/leaf.png',)
    """
    names = list[str]()
    for span in spans(text, in_list=True) if "![" in text or "graphics" in text else ():
        names += [span.target] if span.kind == "image" else included_pictures(span.text) if span.runs else []
    local = (name for name in names if "://" not in name and _suffix(name) in _PICTURE_KINDS)
    return tuple(dict.fromkeys(local))


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


async def no_mentions(prompt: str, text: str, settings: Settings) -> Mentions:
    """Load nothing: the default of planners."""
    return NO_MENTIONS


async def load_mentions(
    document: Path | None, prompt: str, text: str, settings: Settings, *, fetch: bool = True
) -> Mentions:
    """Load the material for a prompt about `text`; `document` is the file that contains it.

    Without `fetch`, pages and passages of the course are only named.

    Raises:
        LmmError: something that the prompt mentions cannot be loaded. Pictures that cannot are reported in `notes`.
    """
    if "@" not in prompt and "![" not in text and "```{" not in text:
        return NO_MENTIONS
    texts: list[Attachment] = []
    images: list[Image] = []
    notes: list[str] = []
    folder = Folder(document.parent if document is not None else Path())
    for kind, name in ((mention.kind, mention.name) for mention in find_mentions(prompt)):
        found: Sequence[Attachment | Image] = []
        if kind != "file" and not fetch:
            found = [Attachment("(loaded when the question is asked)", kind, name)]
        elif kind == "course":
            found = await asyncio.to_thread(_passages, name, document)  # it may block on the loop that this runs on
        elif kind == "page":
            found = [await _text(name, Path(), settings)]
        elif _suffix(name) in _FILE_KINDS or folder.stat(name) is not None:
            found = [await _file(name, folder, settings)]
        elif "/" in name or mimetypes.guess_type(name)[0] is not None:
            notes.append(f"@{name} is not sent: there is no such file in {folder.root}")
        texts += [part for part in found if isinstance(part, Attachment)]
        images += [part for part in found if isinstance(part, Image)]
    outputs = list(_outputs(document, text, notes))
    texts += outputs
    text = "\n\n".join([text, *(output.text for output in outputs)])
    for name in pictures(text) if document is not None else ():
        if len(images) == MOST_PICTURES:
            notes.append(f"the first {MOST_PICTURES} pictures are sent")
            break
        try:
            images += [part for part in [await _file(name, folder, settings)] if isinstance(part, Image)]
        except LmmError as error:
            notes.append(f"the picture {name} is not sent: {error.message}")
    return Mentions(tuple(texts), tuple(images), tuple(notes))


def _outputs(document: Path | None, text: str, notes: list[str]) -> Iterator[Attachment]:
    """Iterate over what the chunks in a text printed when the document was knitted."""
    room = _MOST_PRINTED
    for label, output, file in printed(document, text) if document and "```{" in text else ():
        room -= len(output)
        if room < 0:
            notes.append(f"what the code printed from {label} on is not sent: it is too long")
            return
        yield Attachment(output, "output", f"{label}, from {file}")


async def _file(name: str, folder: Folder, settings: Settings) -> Attachment | Image:
    if folder.stat(name) is None:
        raise DocumentError("there is no such file", where=f"@{name}", hint=f"paths are relative to {folder.root}")
    path = folder.path(name)
    if is_secret_file(path):
        raise DocumentError("its name suggests keys or passwords, so it is not sent", where=f"@{name}")
    return await _text(str(path.relative_to(folder.real)), folder.real, settings, named=name)


async def _text(source: str, folder: Path, settings: Settings, *, named: str = "") -> Attachment | Image:
    """Read a file or page for a model. ChatMD, which reads documents of all kinds, is imported only when needed."""
    read = import_module("chatmd.content.expand").read_mentioned
    found: str | Image = await read(source, folder, settings)
    return found if isinstance(found, Image) else Attachment(found, "document", named or source)


def _passages(phrase: str, document: Path | None) -> list[Attachment]:
    course = import_module("lmm_education").Course.open(document.parent if document is not None else None)
    with course:
        hits = course.search(phrase, limit=_PASSAGES).hits
    if not hits:
        raise LmmError("the course has nothing about this", where=f"@course: {phrase}", hint="try other words")
    return [Attachment(hit.text, "passage", str(hit.place)) for hit in hits]
