"""Completing a document's header: a title and a docid, only if they are missing."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Sequence

from lmm.disk import digest
from lmm.errors import LmmError, MetadataError
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, serialize
from lmm.markdown.parse_markdown import header_of
from lmm.markdown.tree import blocks_to_tree, tree_to_blocks


def complete_header(blocks: Sequence[Block], *, name: str, chapter: bool = False) -> list[Block]:
    """Add ``title`` and ``docid`` to the header if they are missing; `name` is the file's name without its suffix.

    The title is the first heading's, else `name`; a `chapter` of a book gets none. A document that begins with broken
    metadata is left as it is (a second header would hide the author's), and so is a header that cannot be extended.

    >>> from lmm.markdown.parse_markdown import parse_markdown_text
    >>> print(serialize(complete_header(parse_markdown_text("# Cells\\n"), name="bio")), end="")
    ---
    title: Cells
    docid: bio-9fe855
    ---
    <BLANKLINE>
    # Cells
    """
    if blocks and isinstance(blocks[0], ErrorBlock):
        return list(blocks)
    missing = missing_keys(blocks, chapter=chapter)
    if not missing:
        return list(blocks)
    title = next((b.title for b in blocks if isinstance(b, HeadingBlock) and b.title), name)
    values = {"title": title, "docid": make_docid(name, serialize(blocks))}
    tree = blocks_to_tree(blocks, title=name)
    if tree is None:
        return [HeaderBlock.make({key: values[key] for key in missing})]
    for key in missing:
        with contextlib.suppress(MetadataError):
            tree.set_metadata(key, values[key])
    return tree_to_blocks(tree)


def check_header(blocks: Sequence[Block], *, document: str = "") -> None:
    """Raise if the header cannot be read but seems to name a model: otherwise another model would be asked.

    Raises:
        LmmError: this is so; the error says where and why.
    """
    if blocks and isinstance(blocks[0], ErrorBlock) and "model" in blocks[0].source:
        error = blocks[0]
        place = f"{document or 'the document'}:{error.error_line}:{error.error_column}"
        raise LmmError(f"the header cannot be read: {error.reason}", where=place, hint=error.hint)


def missing_keys(blocks: Sequence[Block], *, chapter: bool = False) -> list[str]:
    """Return which of ``title`` and ``docid`` the header lacks.

    With ``title: ''`` the author says that there is none; an empty docid counts as missing.
    """
    header = header_of(blocks)
    lacks = {"title": (None,), "docid": (None, "")}
    wanted = lacks if not chapter else {"docid": lacks["docid"]}
    return [key for key, empty in wanted.items() if header is None or header.get(key) in empty]


def make_docid(name: str, text: str) -> str:
    """Return a readable id that two different documents are unlikely to share, even with the same file name."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "document"
    return f"{slug}-{digest(text, length=6)}"
