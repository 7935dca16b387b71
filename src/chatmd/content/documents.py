"""Documents as text for a model: as they are, without tags, or as markdown; and images, as their bytes say."""

from __future__ import annotations

import asyncio
import codecs
import re
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chatmd.errors import ChatmdError
from chatmd.sidecar import SUFFIXES
from lmm.disk.files import decode_document
from lmm.errors import FileReadError, LmmError
from lmm.fetch import Fetched, FetchRules, name_of
from lmm.importing.formats import FORMATS, FileKind, file_kind, suffix_of
from lmm.importing.import_document import check_installed, read_source
from lmm.importing.imported import Imported, link_images
from lmm.importing.read_html import MAX_OPEN, check_nesting, codec_of, decode_html
from lmm.messages import Image, picture_type
from lmm.terminal import megabytes


def language_of(name: str, media_type: str = "") -> str:
    """Return the language of the code block for a text that is not markdown; empty if it is not known.

    >>> language_of("a.py"), language_of("data", "application/json")
    ('py', 'json')
    """
    words = ("json", "xml", "yaml", "javascript", "css", "csv")
    suffix = suffix_of(name)[1:] or next((word for word in words if word in media_type), "")
    return suffix if suffix.isalnum() else ""


# -- Documents without their HTML tags ------------------------------------------------------------------------
#
# A web page is reduced to its visible text: blocks begin on lines of their own, white space is collapsed, scripts and
# styles are removed. In any other text, such as markdown, only the tags of HTML are removed: `vector<int>` and
# `<https://…>` are not tags.


_BLOCKS = (
    "address article aside blockquote br caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol optgroup option p pre search section "
    "summary table tbody td tfoot th thead title tr ul"
)
_INLINE = (
    "a abbr acronym area audio b base basefont bdi bdo big body button canvas cite code col colgroup data datalist del "
    "dfn em embed font frame frameset head html i img input ins kbd label link map mark meta meter nobr noscript "
    "output param picture portal progress q rb rp rt rtc ruby s samp select slot small source span strike strong sub "
    "sup textarea time track tt u var video wbr"
)
_SILENT = "script style template noframes iframe svg object"  # whose content is not text of the page
_TAGS = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    r"|<({0}){2}(?:(?<=/)>|>.*?(?:</\1(?=[\s/>])[^>]*+(?:>|\Z)|\Z))"
    r"|</?(?:{1}){2}>".format(
        "|".join(_SILENT.split()),
        "|".join(f"{_BLOCKS} {_INLINE} {_SILENT}".split()),
        r"""(?=[\s/>])(?:[^<>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+""",  # of a tag, after its name
    ),
    re.IGNORECASE | re.DOTALL,
)
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_BREAK, _MARKS = "\ufdd0", "\ufdd1\ufdd2\ufdd3"  # no text contains these
_KEEP, _SHOW = str.maketrans(" \t\n", _MARKS), str.maketrans(_MARKS, " \t\n")


def strip_page(page: str) -> str:
    """Return the text of a web page.

    Raises:
        ChatmdError: its elements are nested too deeply.

    >>> strip_page("<title>T</title><style>p{}</style><p>a  &lt; <b>b</b></p><pre>x\\n  y</pre>")
    'T\\na < b\\nx\\n  y\\n'
    """
    from selectolax.lexbor import LexborHTMLParser

    try:
        check_nesting(page, MAX_OPEN)
    except FileReadError as error:
        raise ChatmdError(error.message, hint=error.hint) from error
    root = LexborHTMLParser(page).root
    if root is None:
        return ""
    for node in root.css(f"{_SILENT} annotation annotation-xml".replace(" ", ", ")):
        node.decompose()
    for node in root.css(_BLOCKS.replace(" ", ", ")):
        node.insert_before(_BREAK)
        node.insert_after(_BREAK)
    for node in root.css("pre"):
        node.replace_with(node.text().strip("\n").translate(_KEEP))
    lines = (_BLANKS.sub(" ", line).strip(" ") for line in root.text().split(_BREAK))
    return "".join(f"{text}\n" for line in lines if (text := line.translate(_SHOW)).strip())


def strip_tags(text: str) -> str:
    """Remove the tags of HTML from a text; everything else stays as it is.

    >>> strip_tags("a <b>c</b> < d, vector<int>, <https://e.org>, &lt;<!-- f -->")
    'a c < d, vector<int>, <https://e.org>, &lt;'
    >>> strip_tags("if a <b then <i>c</i>")
    'if a <b then c'
    """
    return _TAGS.sub("", text)


_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_EMBEDDED = "embedded"  # the folder in the links to images inside of documents


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document as received: its bytes, its name, and a server's headers; `url` if it is from the web."""

    data: bytes
    name: str
    media_type: str = ""
    charset: str = ""
    url: str = ""

    @classmethod
    def of(cls, came: Fetched, name: str = "") -> Self:
        """Make a document from a fetched response; `name` replaces that in the URL."""
        return cls(came.data, name or name_of(came.url), came.media_type, came.charset, came.url)

    @property
    def kind(self) -> FileKind:
        """The kind of file, by its bytes, name and media type."""
        return file_kind(self.data, name=self.name, media_type=self.media_type)


def titled(document: Imported) -> str:
    """Return the text of a document below its title, unless it begins with the title anyway.

    >>> titled(Imported("Text.\\n", "Leaves")), titled(Imported("# Leaves\\n", "Leaves - a site"))
    ('# Leaves\\n\\nText.\\n', '# Leaves\\n')
    """
    first = document.body.partition("\n")[0].lstrip("# ").strip()
    begins = not document.title or (first and first in document.title)
    return document.body if begins else f"# {document.title}\n\n{document.body}"


def plain_text(raw: SourceDocument) -> str:
    """Return the text of a document, unchanged except for a byte order mark.

    Raises:
        ChatmdError: it is not text, or not in the encoding that it claims.
    """
    kind = raw.kind
    if not kind.is_text:
        hint = "add 'markdown' to convert it" if kind.suffix else "a message can only contain texts"
        raise ChatmdError(f"this is {kind.name}, not text", hint=hint)
    if kind.is_page and not raw.charset:
        text = decode_html(raw.data)
    else:
        marked = next((name for mark, name in _BOMS.items() if raw.data.startswith(mark)), "")
        text = _decoded(raw, marked or raw.charset).removeprefix("\ufeff")
    if "\0" in text:
        raise ChatmdError("this is a binary file, not text", hint="a message can only contain texts")
    return text


def strip_markup(raw: SourceDocument) -> str:
    """Return the text of a document without HTML tags; of a web page, only the visible text.

    Raises:
        ChatmdError: it is not text, or not in the encoding that it claims.
    """
    return (strip_page if raw.kind.is_page else strip_tags)(plain_text(raw))


async def as_markdown(raw: SourceDocument, *, timeout: float, rules: FetchRules) -> Imported:
    """Convert a document to markdown: web pages, PDF, Office files, …. Other texts stay as they are.

    `timeout` is in seconds; the `rules` limit the result, too.

    Raises:
        ChatmdError: it cannot be converted, or is not text, or its converter is not installed.
    """
    kind = raw.kind
    if not kind.suffix:
        return Imported(plain_text(raw))
    document = await asyncio.to_thread(_imported, raw, kind, timeout)
    text = link_images(document.body, document.images, _EMBEDDED)
    if len(text.encode("utf-8", "replace")) > rules.limit:
        raise rules.too_large
    return Imported(text, " ".join(document.title.split()), notes=document.notes)


def _imported(raw: SourceDocument, kind: FileKind, timeout: float) -> Imported:
    format = FORMATS[kind.suffix]
    # The server's encoding of a page overrides the page's own, so the data gets the byte order mark of UTF-8.
    data = codecs.BOM_UTF8 + plain_text(raw).encode("utf-8") if kind.is_page else raw.data
    try:
        check_installed(format)
        with tempfile.TemporaryDirectory(prefix="lmm-content-") as folder:
            file = Path(folder) / f"document{kind.suffix}"
            file.write_bytes(data)
            return read_source(file, format, prefix=raw.url, timeout=timeout)
    except LmmError as error:
        raise ChatmdError(error.message, hint=error.hint) from error
    except OSError as error:
        raise ChatmdError(f"it could not be converted: {error.strerror or error}") from error


def _decoded(raw: SourceDocument, charset: str) -> str:
    if charset in ("", "utf-8", "utf8", "us-ascii", "ascii"):
        try:
            return decode_document(raw.data, raw.name)
        except FileReadError as error:
            at = error.where.removeprefix(f"{raw.name}:")
            raise ChatmdError(f"{error.message} (line {at.replace(':', ', column ')})", hint=error.hint) from error
    try:
        text = raw.data.decode(codec_of(charset))
        text.encode("utf-8")  # some codecs decode to halves of characters
        return text
    except (LookupError, UnicodeDecodeError, ValueError) as error:
        raise ChatmdError(f"it claims to be in {charset[:40]}, but is not") from error


# -- Images: their format and size are read from their bytes, not from the file name ---------------------------


_LARGEST = 8000  # pixels of a side: Anthropic's limit, the lowest
_FRAMES = frozenset(range(0xFFC0, 0xFFD0)) - {0xFFC4, 0xFFC8, 0xFFCC}  # the segments of JPEG that contain the size


def image_from(data: bytes, *, limit: int) -> Image:
    """Make an image from bytes that any provider takes; one that it refuses would end the conversation for good.

    >>> image_from(b"GIF89a\\x03\\0\\x02\\0\\0\\0\\0;", limit=100).media_type
    'image/gif'

    Raises:
        ChatmdError: it is damaged or empty, not in a format that models support, has more than `limit` bytes, or more
            than 8,000 pixels on a side.
    """
    if len(data) > limit:
        hint = "make it smaller, or allow more: fetch_limit under [chatmd] in config.toml"
        raise ChatmdError(f"this image has {megabytes(len(data))}; the limit is {megabytes(limit)}", hint=hint)
    kind = picture_type(data)
    if not (kind and kind.media_type in SUFFIXES):
        if not data:
            what = "an empty file"
        elif kind:
            what = f"an image in the format {kind.suffix[1:].upper()}"
        else:
            what = f"{file_kind(data, name='').name}, not an image"
        raise ChatmdError(f"this is {what}", hint="models support PNG, JPEG, GIF and WebP: convert it")
    try:
        width, height = image_size(data, kind.media_type)
    except (struct.error, IndexError, ValueError):
        raise ChatmdError("this image is damaged: its end or its size is missing", hint="save it again") from None
    if max(width, height) > _LARGEST:
        problem = f"this image has {width:,} × {height:,} pixels; models take up to {_LARGEST:,} on a side"
        raise ChatmdError(problem, hint="make it smaller")
    return Image(data, media_type=kind.media_type)


def image_size(data: bytes, media_type: str) -> tuple[int, int]:
    """Return the width and height of a PNG, JPEG, GIF or WebP image, in pixels.

    Raises:
        ValueError, IndexError, struct.error: it is not whole.
    """
    at, size = 2, (0, 0)
    if media_type == "image/png":
        at, size = 8, struct.unpack_from(">II", data, 16)
        while data[at + 4 : at + 8] != b"IEND":
            at += struct.unpack_from(">I", data, at)[0] + 12
    elif media_type == "image/gif":
        at, size = 13, struct.unpack_from("<HH", data, 6)  # some have no mark at their end, and are taken all the same
    elif media_type == "image/webp":
        at = struct.unpack_from("<I", data, 4)[0] + 7
        size = _webp_size(data)
    else:
        while (marker := struct.unpack_from(">H", data, at)[0]) != 0xFFDA:  # the image itself begins there
            if marker in _FRAMES:
                height, width = struct.unpack_from(">HH", data, at + 5)
                size = width, height
            at += 1 if marker == 0xFFFF else struct.unpack_from(">H", data, at + 2)[0] + 2
            if marker < 0xFF01:
                raise ValueError("this is not JPEG")
        at = data.rindex(b"\xff\xd9", at)
    if at >= len(data) or not all(size):
        raise ValueError("it is not whole")
    return size[0], size[1]


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1


def describe_image(image: Image) -> str:
    """Describe an image for people.

    >>> describe_image(Image(b"GIF89a", media_type="image/gif"))
    'GIF, 6 bytes'
    """
    if image.url:
        return f"image at {image.url}"
    return f"{image.media_type.removeprefix('image/').upper()}, {megabytes(len(image.data))}"
