"""Reading Jupyter notebooks: cells as they are, and saved outputs. No code is run."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from lmm.errors import FileReadError
from lmm.importing.imported import IMAGE, Context, Imported, ImportedImage
from lmm.importing.markdown_text import defused, front_matter, plain
from lmm.importing.pandoc import convert_html
from lmm.importing.read_html import image_of, read_page
from lmm.markdown import Span, replace_spans
from lmm.markdown.blocks import fenced
from lmm.terminal import ESCAPES

MAX_OUTPUT_LINES = 200
_MAX_LINE = 2_000
_IMAGES = tuple(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "svg+xml"))
# The first line of a cell in another language than that of the notebook.
_MAGIC = re.compile(r"%%(bash|sh|javascript|js|html|latex|markdown|perl|ruby|R|sql|cython)\b")
Json = Mapping[str, Any]


def read(data: bytes, context: Context) -> Imported:
    """Convert a notebook to markdown: text cells as they are, code cells in fences, outputs below them.

    Raises:
        FileReadError: it is not a notebook, or in a format older than 2015.
    """
    notebook = _parse(data)
    metadata = _mapping(notebook.get("metadata"))
    language = _mapping(metadata.get("language_info")).get("name") or _mapping(metadata.get("kernelspec")).get(
        "language"
    )
    reader = _Reader(str(language or "python"))
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    header: dict[str, str] = {}
    if cells and cells[0].get("cell_type") in ("raw", "markdown"):
        header, rest = front_matter(_text(cells[0].get("source")))
        cells[0] = {**cells[0], "source": rest}
    blocks = [block for cell in cells for block in reader.cell(cell) if block.strip()]
    title = plain(str(metadata.get("title") or header.get("title") or ""))
    body = reader.written("\n\n".join(blocks), context).strip("\n")
    if not body:
        raise FileReadError("this notebook is empty", hint="if its code makes the text, run it and save it")
    return Imported(f"{body}\n", title, plain(header.get("lang", "")), tuple(reader.images), tuple(reader.notes()))


def _parse(data: bytes) -> dict[str, Any]:
    again = "open it in Jupyter and save it again"
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileReadError("this is not a notebook: it is not JSON", hint=again) from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells", notebook.get("worksheets")), list):
        raise FileReadError("this is not a notebook: it has no cells", hint=again)
    if "cells" not in notebook:
        hint = f"{again}, or: jupyter nbconvert --to notebook FILE"
        raise FileReadError("this notebook is in a format from before 2015", hint=hint)
    return notebook


class _Reader:
    """Reads cells one after the other, and collects their images."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.images: list[ImportedImage] = []
        self.pages: list[str] = []
        self.mark = f"lmm{secrets.token_hex(8)}-"
        self.shortened = self.skipped = 0

    def notes(self) -> Iterator[str]:
        """Iterate over notes about what was left out."""
        if self.shortened:
            yield f"shortened: outputs of more than {MAX_OUTPUT_LINES} lines ({self.shortened})"
        if self.skipped:
            yield f"left out: outputs that only Jupyter can show ({self.skipped})"

    def cell(self, cell: Json) -> Iterator[str]:
        """Iterate over the blocks of a cell."""
        source = _text(cell.get("source"))
        kind = cell.get("cell_type")
        if kind == "markdown":
            yield self._markdown(source, _mapping(cell.get("attachments")))
        elif kind == "code":
            if source.strip():
                switched = _MAGIC.match(source)
                yield fenced(plain(source).strip("\n"), switched[1] if switched else self.language)
            for output in cell.get("outputs") or ():
                if not isinstance(output, dict):
                    continue
                if output.get("output_type") == "stream":
                    yield self._plain(_text(output.get("text")))
                elif output.get("output_type") == "error":
                    yield self._plain(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
                else:
                    yield from self._display(_mapping(output.get("data")))
        elif source.strip():
            yield fenced(plain(source).strip("\n"))

    def _markdown(self, source: str, attachments: Json) -> str:
        """Return markdown as it is, made safe for our documents, and collect its images."""

        def take(span: Span) -> str | None:
            if span.kind != "image" or not span.target.startswith(("attachment:", "data:image/")):
                return None
            name = span.target.removeprefix("attachment:")
            image = image_of(name) if name == span.target else _bundled(_mapping(attachments.get(name)))
            return source[span.start : span.end].replace(span.target, self._keep(image), 1) if image else None

        return defused(replace_spans(source, take)).strip("\n")

    def _keep(self, image: ImportedImage) -> str:
        self.images.append(image)
        return f"{IMAGE}{len(self.images) - 1}"

    def _display(self, data: Json) -> Iterator[str]:
        """Iterate over the blocks of an output, in the best of its saved forms."""
        image = _bundled(data)
        if image is not None:
            yield f"![]({self._keep(image)})"
        elif "text/markdown" in data:
            yield self._markdown(_text(data["text/markdown"]), {})
        elif "<table" in (html := _text(data.get("text/html"))) or (html and "text/plain" not in data):
            page = read_page(html, self.images, dollars=True)
            yield self._html(page.body if page else "")
        elif "text/latex" in data:
            tex = re.sub(r"\A\$\$?(?:\\displaystyle )?|\$\$?\Z", "", _text(data["text/latex"]).strip())
            escaped = tex.replace("</", "< /")
            yield self._html(f"<p><script type='math/tex; mode=display'>{escaped}</script></p>")
        elif "text/plain" in data:
            yield self._plain(_text(data["text/plain"]))
        elif data:
            self.skipped += 1

    def _html(self, html: str) -> str:
        """Return a mark for an HTML output; Pandoc converts all of them at once."""
        if not html:
            self.skipped += 1
            return ""
        self.pages.append(html)
        return f"{self.mark}{len(self.pages) - 1}-"

    def written(self, text: str, context: Context) -> str:
        """Replace the marks in a text by the outputs that Pandoc has converted."""
        if not self.pages:
            return text
        pages = (f"<p>{self.mark}</p><div>{page}</div>" for page in self.pages)
        parts = convert_html("".join(pages), context).body.split(self.mark)[1:]
        return re.sub(rf"{self.mark}(\d+)-", lambda match: parts[int(match[1])].strip("\n"), text)

    def _plain(self, text: str) -> str:
        lines = plain(ESCAPES.sub("", text)).rstrip().split("\n")
        if len(lines) > MAX_OUTPUT_LINES:
            self.shortened += 1
            left_out = len(lines) - MAX_OUTPUT_LINES
            lines = [*lines[:MAX_OUTPUT_LINES], f"… ({left_out:,} more lines)"]
        code = "\n".join(line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " …" for line in lines)
        return fenced(code, "text") if code.strip() else ""


def _bundled(data: Json) -> ImportedImage | None:
    """Return the image in a bundle of forms, which are keyed by their media types."""
    for kind in _IMAGES:
        if kind in data:
            text = _text(data[kind])
            if kind == "image/svg+xml" and "<" in text:
                return ImportedImage(text.encode())
            try:
                return ImportedImage(base64.b64decode(text))
            except ValueError:
                return None
    return None


def _text(value: object) -> str:
    """Return text that a notebook stores as one string or as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else ""


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}
