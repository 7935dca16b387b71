"""Prepared files: the result of a preparation step as markdown.

`NAME.pooled.md` is an ordinary document, to be reviewed, edited and ingested in place of its source, which its header
names: the texts with their annotations, without what is no content. The files of the other two steps are for
inspection: every section and every chunk, each below a metadata block with its type, headings, annotations and lines.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, count, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from lmm.disk import files
from lmm.markdown.blocks import HeaderBlock, MetadataBlock
from lmm.markdown.page_marks import pages_of
from lmm.markdown.parse_markdown import header_values
from lmm.type_names import is_one_of, types_in
from lmm_education.audience import DEFAULT, Withholding
from lmm_education.errors import IngestError
from lmm_education.ingestion.outline import Heading, Item, TextItem, read_outline, without_conversation
from lmm_education.ingestion.source_files import MARK, POOLED, is_own_output, own_stem
from lmm_education.material import Chunk, PreparedDocument, Section
from lmm_education.payloads import hash_of_text, plain

LINES = "~~lines"
ORIGINAL = "original"
"""The key of a prepared document with the file from which its document was imported."""
_HASH = re.compile(r"^  hash: \w+\r?\n", re.MULTILINE)


# -- the prepared document -------------------------------------------------------------------------


def prepared_text(text: str, source: str, *, docid: str, file: str, kinds: Withholding = DEFAULT) -> str:
    """Return the prepared document of a document with this text; `source` is the path to that from its own folder, and
    `file` its path in the course.

    >>> text = "# Leaves\\n\\n<!-- later -->\\n\\nThey are green.\\n"
    >>> print(prepared_text(text, "botany.md", docid="b", file="botany.md").partition("---\\n\\n")[2])
    # Leaves
    <BLANKLINE>
    They are green.
    <BLANKLINE>
    """
    outline = read_outline(plain(text), title=own_stem(file), kinds=kinds)
    headings = [item.title for item in outline.items if isinstance(item, Heading)]
    is_given = outline.title not in (*headings, own_stem(file))  # by a header in another notation
    titled = {"title": outline.title} if is_given and "title" not in outline.root.own else {}
    values = {"docid": docid} | titled | without_conversation(outline.root.values) | {"docid": docid}
    mark = {"step": "pooled", "text": hash_of_text(text)}
    pages = [pages_of(*item.lines, outline.pages) for item in outline.items]
    marks = ["" if now == before or not now else f"{now.mark}\n\n" for before, now in pairwise((None, *pages))]
    items = zip(pairwise((None, *outline.items)), marks, strict=True)
    item_texts = [_written(*pair, kinds.lasting, mark) for pair, mark in items]
    if any(marks) and (name := str(values.get("source") or "")):
        values[ORIGINAL] = name if ":" in name else posixpath.join(posixpath.dirname(source), name)
    return _file(values | {"source": source, MARK: mark}, item_texts)


def _written(before: Item | None, item: Item | None, lasting: Collection[str], page: str) -> str:
    """Return an item with its metadata and the mark of its page. A type that lasts is written once, and another text
    after it ends it."""
    assert item is not None
    values = without_conversation(item.values)
    if isinstance(item, TextItem) and isinstance(before, TextItem) and before.heading is item.heading:
        lasts = any(is_one_of(kind, lasting) for kind in types_in(before.own))
        if lasts and item.owner == before.owner:
            values.pop("type", None)
        elif lasts and not types_in(item.own):
            values["type"] = "text"
    written = f"{MetadataBlock.make(values).source if values else ''}{item.text}\n\n"
    return written + page if isinstance(item, Heading) else page + written


def read_mark(text: str) -> tuple[str, str]:
    """Return the path of the document that a prepared one was made from, relative to its folder, and the hash of the
    text that it had.

    Raises:
        IngestError: the file shows another step, or its header does not name the document.
    """
    values = header_values(text)
    mark, source = values.get(MARK), values.get("source")
    step = mark.get("step") if isinstance(mark, Mapping) else None
    if step in ("documents", "chunks"):
        raise IngestError(
            f"this file shows the {step} of a document, for reading only",
            where="1",
            hint="edit the document, or its file of pooled texts (--save-files writes it), and ingest that",
        )
    if step != "pooled" or "docid" not in values or not isinstance(source, str):
        raise IngestError(
            "the header of this prepared file does not name its document",
            where="1",
            hint=f"restore 'docid', 'source' and '{MARK}', or write the file again with --save-files",
        )
    return source, str(mark.get("text", ""))  # type: ignore[union-attr]


# -- lists to look at ------------------------------------------------------------------------------


def step_files(document: PreparedDocument, pooled: str) -> dict[str, str]:
    """Return the prepared files of a document, by name: the prepared document, if any, and the lists of what is stored.

    >>> from lmm_education.config import Preparation
    >>> from lmm_education.ingestion.prepare import prepare_document
    >>> text, settings = "# Leaves\\n\\nThey are green.\\n", Preparation()
    >>> files = step_files(prepare_document(text, docid="b", file="botany.md", settings=settings), text)
    >>> list(files)
    ['botany.pooled.md', 'botany.documents.md', 'botany.chunks.md']
    >>> print(files["botany.chunks.md"].partition("---\\n\\n")[2])
    ---
    headings:
      - Leaves
    ~~lines: 3
    ---
    They are green.
    <BLANKLINE>
    """
    stem = own_stem(document.file)
    lists: dict[str, Sequence[Section | Chunk]] = {"documents": document.sections, "chunks": document.chunks}
    header = {"docid": document.id, "source": PurePosixPath(document.file).name}
    return ({f"{stem}{POOLED}": pooled} if pooled else {}) | {
        f"{stem}.{name}.md": _file(header | {MARK: {"step": name}}, map(_listed, items))
        for name, items in lists.items()
        if items or name == "chunks"
    }


def _listed(item: Section | Chunk) -> str:
    """Return a section with its metadata, or a chunk with its type and annotations, as a list shows it."""
    first, last = item.place.lines
    own = {"type": item.type, "annotations": [*item.annotations]} if isinstance(item, Chunk) else item.metadata
    every = {"headings": [*item.place.headings], **own}
    shown = {name: value for name, value in every.items() if value and value != "text"}
    # A range has a dash that YAML need not quote.
    block = MetadataBlock.make(shown | {LINES: first if first == last else f"{first}–{last}"})
    return f"{block.source}{item.text}\n\n"


# -- files -----------------------------------------------------------------------------------------


def _file(header: Mapping[str, Any], items: Iterable[str]) -> str:
    return sealed(f"{HeaderBlock.make(header).source}\n{''.join(items)}".rstrip("\n") + "\n")


def sealed(text: str) -> str:
    """Return a prepared file with a hash in its header, by which an edited one is recognised."""
    bare = _HASH.sub("", text, count=1)
    return bare.replace(f"\n{MARK}:\n", f"\n{MARK}:\n  hash: {_hash(bare)}\n", 1)


def is_edited(text: str) -> bool:
    """Return whether a prepared file was edited since it was written, ignoring line endings."""
    written = _HASH.search(text)
    return written is None or written[0].split()[1] != _hash(_HASH.sub("", text, count=1))


def _hash(text: str) -> str:
    # A letter in front, because YAML would read some digests as numbers, and quote them.
    return "h" + hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()[:15]


def write_step_files(
    texts: Mapping[str, str], folder: Path, *, docid: str, source: str
) -> tuple[tuple[Path, ...], list[str]]:
    """Write the files of a document into `folder`, which is created if necessary; return their paths, and notices.

    An edited one is kept, with ``.bak`` appended to its name.

    Raises:
        IngestError: a file of that name belongs to another document; nothing is written in this case.
        FileReadError, FileWriteError: a file cannot be read or written.
    """
    paths = {folder / name: text for name, text in texts.items()}
    before = {path: files.read_document(path) for path in paths if path.exists()}
    for path, old in before.items():
        header = header_values(old) if is_own_output(old) else {}
        if not header or (header.get("docid") != docid and header.get("source") != source):
            raise IngestError(
                "this file was not written by lmm ingest, so it is not replaced",
                where=str(path),
                hint="rename it, or choose another folder with --output",
            )
    folder.mkdir(parents=True, exist_ok=True)
    notices = []
    for path, text in paths.items():
        if (old := before.get(path, text)) != text and is_edited(old):
            names = (path.with_name(f"{path.name}.bak{number}") for number in chain([""], count(2)))
            backup = next(name for name in names if not name.exists())
            files.replace(backup, old)
            notices.append(f"{path} was edited by hand; that version is kept as {backup.name}")
        if before.get(path) != text:
            files.replace(path, text)
    return tuple(paths), notices
