"""Clean notes: a document as students read it, without what was written for machines.

Left out are metadata blocks with the chats in them, edits that wait (only when told which text counts), and
special material (see `material`). Of the header, the keys that mean something to Pandoc, R Markdown or Quarto
stay. Everything else stays byte for byte; exporting what was exported changes nothing. How far a type reaches is told
by `ingestion.stretches`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lmm.errors import EditError, LmmError, MetadataError
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, HeadingBlock, TextBlock, ended, serialize
from lmm.markdown.metadata import without_blank_start
from lmm.markdown.parse_markdown import header_of, parse_markdown_text
from lmm.markdown.tree import HeadingNode, Node, TextNode, blocks_to_tree, fold, preorder
from lmm.markdown.units import fences_of_divs
from lmm.notebook.chat_log import clear_chat
from lmm.notebook.edits import damaged_edits, find_edits, orphaned_marks, resolve
from lmm_education.errors import ExportError
from lmm_education.ingestion.outline import SOLUTION, Stretch, stretches
from lmm_education.payloads import is_one_of
from lmm_education.study.study_documents import TEXT, is_special

Edits = Literal["refuse", "old", "new"]

# Keys of a header that only our programs read. Others stay, also those that we read too (title, lang, keywords,
# summary): Pandoc, Quarto or a theme may show them.
_OURS = frozenset(
    {
        *("docid", "textid", "headingid", "UUID", "group_UUID"),
        *("model", "RAG", "skip", "frozen", "type"),
        *("titles", "questions", "cards", "prerequisites", "requires"),
    }
)
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not in the notes: the type of one or more texts that have it from one place, and the first line."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class Notes:
    """A clean document. `nothing_left` tells that all of the document was special material."""

    text: str
    left_out: tuple[LeftOut, ...] = ()
    nothing_left: bool = False


def clean_notes(
    text: str,
    *,
    keep: Collection[str] = (),
    edits: Edits = "refuse",
    keep_lines: bool = False,
    where: str = "document",
    lasting: Collection[str] = SOLUTION,
) -> Notes:
    """The notes in a document's text.

    Args:
        keep: types of material that stay in the notes.
        edits: what to do with pending edits: refuse to export, or take the ``old`` or the ``new`` text.
        keep_lines: put blank lines in place of what is left out, so that every line that stays keeps its
            number and error messages of other programs point to the right place.
        where: names the document in errors.
        lasting: types that reach over more than one text (see `stretches`).

    Raises:
        ExportError: an edit waits, or has lost its marks; metadata cannot be read, or not be taken out.

    >>> clean_notes("# Leaves\\n\\n---\\ntype: exercise\\n---\\nWhy green?\\n\\nLeaves are green.\\n").text
    '# Leaves\\n\\nLeaves are green.\\n'
    """
    blocks = _resolved(_checked(parse_markdown_text(text), where), edits, where)
    header = header_of(blocks)
    tree = blocks_to_tree(blocks)
    if tree is None:
        return Notes("")
    kept, left_out = _chosen(tree, keep, lasting)
    cleaned = _clean_header(header, where) if header is not None else None
    stay = [cleaned if block is header else block for block in blocks if id(block) in kept or block is header]
    result = [block for block in stay if block is not None]
    text = _joined(result, blocks, header, cleaned, keep_lines)
    nothing = bool(left_out) and not any(isinstance(block, TextBlock | HeadingBlock) for block in result)
    return Notes(text, tuple(left_out), nothing)


# -- what cannot be exported -----------------------------------------------------------------------


def _checked(blocks: list[Block], where: str) -> list[Block]:
    for block in blocks:
        if isinstance(block, ErrorBlock):
            place = f"{where}:{block.error_line or block.line}:{block.error_column}"
            raise ExportError(f"this metadata cannot be read: {block.reason}", where=place, hint=block.hint)
    for line in damaged_edits(blocks):
        raise ExportError(
            "the marks of this edit are missing",
            where=f"{where}:{line}",
            hint="restore them, or correct it and delete '~edit_'",
        )
    for line in orphaned_marks(blocks):
        raise ExportError("there is no edit for this mark", where=f"{where}:{line}", hint="delete the line")
    return blocks


def _resolved(blocks: list[Block], edits: Edits, where: str) -> list[Block]:
    """The document with its edits resolved, each block on the line on which it stood."""
    waiting = find_edits(blocks)
    if not waiting:
        return blocks
    if edits == "refuse":
        others = [str(edit.line) for edit in waiting[1:]]
        more = f", and others at {', '.join(others)}" if others else ""
        raise ExportError(
            f"an edit is pending here{more}",
            where=f"{where}:{waiting[0].line}",
            hint="lmm accept or lmm reject it, or export with --edits old or --edits new",
        )
    try:
        resolved, _ = resolve(blocks, "accept" if edits == "new" else "reject")
    except EditError as error:
        hint = "correct the new text, lmm accept --force or lmm reject it, or export with --edits old"
        raise ExportError(error.message, where=where, hint=hint) from error
    except LmmError as error:
        raise ExportError(error.message, where=where, hint=error.hint) from error
    # What was put next to each other may make other blocks now; else the lines they were read on still hold.
    parsed = parse_markdown_text(serialize(resolved))
    same = [(b.kind, b.source) for b in parsed] == [(b.kind, b.source) for b in resolved]
    return resolved if same else _checked(parsed, where)


# -- what stays ------------------------------------------------------------------------------------


def _chosen(tree: HeadingNode, keep: Collection[str], lasting: Collection[str]) -> tuple[set[int], list[LeftOut]]:
    """Ids of the headings and texts that stay, and what does not."""
    found = stretches(tree, lasting)
    fences = fences_of_divs(tree)
    for first, last in fences:
        found.pop(id(last), None)
        if id(first) in found:
            found[id(last)] = found[id(first)]
    kinds = {id(node): TEXT for node in preorder(tree)} | {key: _kind(each, lasting) for key, each in found.items()}
    stays: dict[int, bool] = {}

    def visit(node: Node, below: list[bool]) -> bool:
        """Whether something of a node stays. A special heading goes, unless something under it is kept."""
        ordinary = _block(node) is not None and not is_special(kinds[id(node)], keep)
        stays[id(node)] = any(below) or ordinary
        return stays[id(node)]

    fold(tree, visit)
    nodes = list(preorder(tree))
    place = {id(node): at for at, node in enumerate(nodes)}
    for first, last in fences:  # a heading in a div goes with it, whatever comes after the div
        inside = nodes[place[id(first)] : place[id(last)]] if is_special(kinds[id(first)], keep) else []
        stays |= {id(node): False for node in inside if is_special(kinds[id(node)], keep)}
    kept = {id(b) for node in nodes if stays[id(node)] for b in (_block(node),) if b is not None}
    texts = [node for node in nodes if isinstance(node, TextNode) and node.block is not None]
    gone: dict[Stretch, LeftOut] = {}
    for node in texts:
        if node.block is not None and not stays[id(node)]:
            gone.setdefault(found[id(node)], LeftOut(kinds[id(node)], node.block.line))
    return kept, list(gone.values())


def _kind(stretch: Stretch, lasting: Collection[str]) -> str:
    """The type that counts: of several, one that students do not get."""
    return next((kind for kind in stretch.types if is_one_of(kind, lasting)), stretch.types[0])


def _block(node: Node) -> Block | None:
    return node.heading if isinstance(node, HeadingNode) else node.block if isinstance(node, TextNode) else None


# -- the header ------------------------------------------------------------------------------------


def _clean_header(header: HeaderBlock, where: str) -> HeaderBlock | None:
    """The header without our keys; None if nothing is left in it.

    Raises:
        ExportError: it is written in a form that keys cannot be taken out of.
    """
    try:
        cleaned = clear_chat(header, pending=True)
        for key, value in cleaned.values().items():
            if _is_ours(key, value):
                cleaned = cleaned.without_key(key)
    except MetadataError as error:
        hint = error.hint or "write one 'key: value' on a line"
        raise ExportError(
            f"lmm's keys cannot be removed from this header: {error.message}", where=f"{where}:{header.line}", hint=hint
        ) from error
    # A blank line after the opening --- would make a rule of it.
    cleaned = cleaned.with_body(without_blank_start(cleaned.body))
    read = parse_markdown_text(cleaned.source)
    is_header = len(read) == 1 and isinstance(read[0], HeaderBlock)
    assert isinstance(cleaned, HeaderBlock)
    return cleaned if is_header and cleaned.values() else None


def _is_ours(key: str, value: object) -> bool:
    name = key.removesuffix("=")
    if key == "knit":  # one that exports: in the clean document there is nothing left to clean
        return re.search(r"\blmm\b", str(value)) is not None
    return key.startswith("~") or name != key or name in _OURS


# -- putting it together ---------------------------------------------------------------------------


def _joined(
    kept: Sequence[Block], blocks: Sequence[Block], header: Block | None, cleaned: Block | None, keep_lines: bool
) -> str:
    """The sources of the blocks that stay; blank lines only where two would otherwise become one."""
    if not kept:
        return ""
    following = {id(a): b for a, b in pairwise(blocks)}
    if cleaned is not None and header is not None:
        following[id(cleaned)] = following.get(id(header), header)
    parts = list(_separated(kept, following))
    if blocks[0].source.startswith(_BOM) and not parts[0].startswith(_BOM):
        parts[0] = _BOM + parts[0]
    return "".join(_padded(kept, parts) if keep_lines else parts)


def _separated(kept: Sequence[Block], following: dict[int, Block]) -> Iterator[str]:
    for block, after in pairwise((*kept, None)):
        assert block is not None
        if after is not None and following.get(id(block)) is not after:
            block = ended(block, after.newline)
        yield block.source


def _padded(kept: Sequence[Block], parts: Sequence[str]) -> Iterator[str]:
    """The parts, with blank lines before those that would stand too early."""
    line = 1
    for block, part in zip(kept, parts, strict=True):
        before = len(block.source) - len(block.source.lstrip("\ufeff \t\r\n"))
        begins = block.line - block.source.count("\n", 0, before)
        missing = max(0, begins - line)
        mark = _BOM if missing and part.startswith(_BOM) else ""
        yield mark + block.newline * missing + part.removeprefix(mark)
        line += missing + part.count("\n")
