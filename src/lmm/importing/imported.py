"""The result of reading a file, and composing a markdown document from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmm.importing.markdown_text import link_target, plain
from lmm.markdown import WORDS, Span, replace_spans
from lmm.markdown.blocks import HeaderBlock, HeadingBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import blocks_to_tree
from lmm.messages import picture_type

# Address of an image from the file: this, and its index in `Imported.images`.
IMAGE = "lmm-image:"
_MARKED = re.compile(rf"{IMAGE}(\d+)")

# Titles that programs write if the author gave none.
_NO_TITLE = re.compile(
    r"\(?(?:microsoft word|anonymous|untitled|unbenannt|title|document\d*|slide 1|folie 1|powerpoint"
    r"|(?:pr[äa]|pre)sentation\d*\Z)(?!\w)"
    r"|.*\.(?:docx?|tex|dvi|indd|html?|pdf|md|odt|pptx?)\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ImportedImage:
    """An image: its bytes, or the `address` of an image elsewhere."""

    data: bytes
    address: str = field(default="", repr=False)

    @property
    def suffix(self) -> str:
        """The suffix of its file name, such as ``.png``; empty if its bytes are not a picture."""
        kind = picture_type(self.data)
        return kind.suffix if kind else ""


@dataclass(frozen=True, slots=True)
class Imported:
    """A document that was read: its markdown, its title and language if it names them, its images.

    `notes` say what was left out; `left_out` are the texts that were left out on purpose, by kind. `values` go into its
    header: authors, date, abstract.
    """

    body: str
    title: str = ""
    language: str = ""
    images: tuple[ImportedImage, ...] = ()
    notes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The parameters of a reader: `name` of the file, and the relative path `prefix` from the output to its folder.

    For a page from the web, `prefix` is its URL; if it is `online`, its pictures are collected. `kind` is
    the expected format, for messages. If Pandoc reads the file, `pandoc` is the program, `reader` its name of the
    format, and `timeout` in seconds.
    """

    name: str
    prefix: str = ""
    kind: str = ""
    reader: str = ""
    pandoc: str = ""
    timeout: float = 300.0
    online: bool = False


def with_true_pictures(document: Imported) -> Imported:
    """Replace images that are not pictures, according to their first bytes, by their descriptions."""
    left_out = {number for number, each in enumerate(document.images) if not each.suffix and not each.address}
    if not left_out:
        return document

    def described(span: Span) -> str | None:
        number = span.target.removeprefix(IMAGE)
        return span.text if span.kind == "image" and number.isdecimal() and int(number) in left_out else None

    body = replace_spans(document.body, described)
    note = f"left out: {len(left_out)} image(s) that are too large or not pictures"
    return replace(document, body=body, notes=(*document.notes, note))


def image_name(number: int, image: ImportedImage) -> str:
    """Return the file name of an image; `number` counts from 0."""
    return f"image-{number + 1}{image.suffix}"


def compose(document: Imported, *, source: str, name: str, folder: str) -> str:
    """Compose the markdown document: a header with title, authors, source and language, and the body with image links.

    `source` is the file's name, `name` is used if it has no title, `folder` is that of its images.

    >>> print(compose(Imported("# A\\n", language="de"), source="a.docx", name="a", folder="a_files"), end="")
    ---
    title: A
    source: a.docx
    lang: de
    ---
    <BLANKLINE>
    # A
    """
    blocks = parse_markdown_text(document.body)
    own = " ".join(plain(document.title).split())[:300]
    found = tree.title if (tree := blocks_to_tree(blocks, title=name)) else name
    title = own or (name if found == name else _unescaped(found))
    chapters = [block for block in blocks if isinstance(block, HeadingBlock) and block.title and block.level == 1]
    if len(chapters) > 1 and blocks[0] is chapters[0] and _unescaped(chapters[0].title) == own:
        blocks = blocks[1:]  # a title page: the header has the title
    values = {"title": title, **document.values, "source": source, "lang": language_tag(document.language)}
    header = HeaderBlock.make({key: value for key, value in values.items() if value}).source
    return f"{header}\n{link_images(serialize(blocks), document.images, folder)}"


def link_images(body: str, images: Sequence[ImportedImage], folder: str) -> str:
    """Replace the numbers of images by their paths in `folder`."""

    def address(match: re.Match[str]) -> str:
        number = int(match[1])
        if number >= len(images):
            return match[0]  # the text of a file that mentions our addresses
        image = images[number]
        return link_target(f"{folder}/{image_name(number, image)}" if image.suffix else image.address)

    return _MARKED.sub(address, body)


def language_tag(name: str) -> str:
    """Return a language as a BCP 47 tag, or the empty string.

    >>> language_tag("en_US.UTF-8"), language_tag("de"), language_tag("Deutsch (Schweiz)")
    ('', 'de', '')
    """
    name = name.strip().replace("_", "-")
    first, *others = name.split("-")
    is_tag = len(first) in (2, 3) and first.isalpha() and name.isascii()
    return name if is_tag and all(part.isalnum() and len(part) <= 8 for part in others) else ""


def given_title(title: str) -> str:
    """Return the title in a file's properties, or the empty string if the program wrote it and not the author.

    >>> given_title("Leaves"), given_title("Microsoft Word - leaves.doc"), given_title("PowerPoint Presentation")
    ('Leaves', '', '')
    """
    title = " ".join(plain(title).split())
    return "" if _NO_TITLE.match(title) else title


def first_title(body: str) -> str:
    """Return the text of the first heading of a document, or the empty string."""
    headings = (block for block in parse_markdown_text(body) if isinstance(block, HeadingBlock) and block.title)
    return next((_unescaped(heading.title) for heading in headings), "")


def _unescaped(text: str) -> str:
    """Return a heading's text without markup."""
    text = replace_spans(text, lambda span: WORDS if span.kind in ("link", "image") else None)
    return re.sub(r"\\(.)|[*`]", lambda match: match[1] or "", text)
