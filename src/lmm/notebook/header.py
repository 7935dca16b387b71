"""Completing a document's header: a title and a docid, only if they are missing."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Collection, Sequence

from lmm.disk import digest
from lmm.errors import LmmError, MetadataError
from lmm.markdown.blocks import Block, ErrorBlock, ForeignHeader, serialize
from lmm.markdown.lookalikes import CONFLICT, RESOLVE, conflicts, find_lookalikes
from lmm.markdown.parse_markdown import header_of
from lmm.markdown.tree import HeaderNode


def complete_header(tree: HeaderNode, blocks: Sequence[Block], *, name: str, chapter: bool = False) -> None:
    """Add ``title`` and ``docid`` to a document's header if they are missing; `name` is its file's, without the suffix.

    The title is the only topmost heading's, else `name`; a `chapter` of a book gets none. A document that begins with
    broken metadata, or with a header in another notation, is left as it is, and so is a header that cannot be extended.

    >>> from lmm.markdown import load_text, serialize
    >>> tree = load_text("# Cells\\n")
    >>> complete_header(tree, list(tree), name="bio")
    >>> print(serialize(tree), end="")
    ---
    title: Cells
    docid: bio-9fe855
    ---
    <BLANKLINE>
    # Cells
    """
    values = {"title": tree.title, "docid": make_docid(name, serialize(blocks))}
    for key in missing_keys(blocks, chapter=chapter):
        with contextlib.suppress(MetadataError):
            tree.set_metadata(key, values[key])


def check_readable(blocks: Sequence[Block], controls: Collection[str], document: str = "") -> None:
    """Raise if metadata that seem to set one of `controls` cannot be read: what their author wants is not known.

    Raises:
        LmmError: this is so, or there is an unresolved conflict of git; the error says where, and what to do.
    """
    check_conflicts(serialize(blocks), document)
    for one in find_lookalikes(blocks):
        if unread_keys := sorted(one.controls.intersection(controls)):
            what = f"this sets '{unread_keys[0]}', but cannot be read: {one.reason}"
            raise LmmError(what, where=f"{document or 'the document'}:{one.line}:{one.column}", hint=one.hint)


def check_conflicts(text: str, document: str = "") -> None:
    """Raise if there is an unresolved conflict of git.

    Raises:
        LmmError: this is so.
    """
    for line in conflicts(text)[:1]:
        raise LmmError(CONFLICT, where=f"{document or 'the document'}:{line}:1", hint=RESOLVE)


def missing_keys(blocks: Sequence[Block], *, chapter: bool = False) -> list[str]:
    """Return which of ``title`` and ``docid`` the header lacks.

    A header that cannot be read, or in another notation, lacks nothing: a second one would hide it.
    With ``title: ''`` the author says that there is none; an empty docid counts as missing.
    """
    header = header_of(blocks)
    if blocks and (
        isinstance(blocks[0], ForeignHeader | ErrorBlock) or any(one.header for one in find_lookalikes(blocks))
    ):
        return []
    lacks = {"title": (None,), "docid": (None, "")}
    required = lacks if not chapter else {"docid": lacks["docid"]}
    return [key for key, empty in required.items() if header is None or header.get(key) in empty]


def make_docid(name: str, text: str) -> str:
    """Return a readable id that two different documents are unlikely to share, even with the same file name."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "document"
    return f"{slug}-{digest(text, length=6)}"
