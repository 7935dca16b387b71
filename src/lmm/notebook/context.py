"""What a model is sent of a document: what it may see, and the context of a text. Pure.

A document that fits is sent whole, the place of the text marked; of a longer one its outline with the summaries that it
has, what is around the text, and what the question names.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from lmm.errors import MetadataError, TooLong
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ErrorBlock, ForeignHeader, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.comments import without_percent_comments
from lmm.markdown.inline import Span
from lmm.markdown.parse_markdown import header_of
from lmm.markdown.spans import replace_spans, without
from lmm.markdown.tree import HeadingNode, Node, blocks_to_tree, preorder, tree_to_blocks
from lmm.notebook.edits import old_view
from lmm.notebook.generated_fields import is_on
from lmm.notebook.outputs import read_cell, shows_code

PLACE, GAP = "[THE TEXT]", "[…]"
_AROUND = 12_000  # of what is sent of a longer one, what the question names not counted
_UNSEEN = (MetadataBlock, ErrorBlock, ForeignHeader)
_NAME = re.compile(r"(?<![\w.])@(?!course:)(\w[\w:-]*+)(?![./][\w/])|[\"“„«‘'](.+?)[\"”“»’']")
_LABELS = ("fig", "tbl", "sec", "eq", "lst", "thm", "lem", "cor", "prp", "cnj", "def", "exm", "exr")
OUTLINE = (
    "[The text is too long to be sent whole. These are its headings, with the summaries of sections that have one.]"
)


# -- what may be seen ------------------------------------------------------------------------------


def visible_text(node: Node, body: Sequence[Block]) -> str:
    """Return the text of a node, of the blocks `body`, as it is sent with a question.

    Comments are left out; of more than a paragraph, so is code that the page does not show, and, marked as a gap, what
    is skipped.
    """
    if not isinstance(node, HeadingNode):
        written, uncommented = (
            serialize(block for block in each if not isinstance(block, _UNSEEN)).strip("\ufeff\r\n")
            for each in (body, without_percent_comments(body))
        )
        return visible if (visible := without(uncommented, "comment")).strip() else written
    hidden = set[int]().union(*_skipped(node))
    both, echo = zip(body, without_percent_comments(body), strict=True), _shows_code(tree_to_blocks(node.root))
    gap, pieces = f"{GAP}\n\n", list[str]()
    for block, seen in both:
        piece = gap if id(block) in hidden else _visible(seen, echo)
        pieces += [piece] if pieces[-1:] != [gap] or piece != gap else []
    return "".join(pieces).strip("\ufeff\r\n")


def _shows_code(blocks: Sequence[Block]) -> bool:
    """Return whether the page of a document shows the code of cells that do not say so themselves."""
    if not any("echo" in block.source for block in blocks):
        return True
    header = header_of(blocks)
    chunks = (block.source for block in blocks if "opts_chunk" in block.source and isinstance(block, TextBlock))
    return shows_code(header.values() if header is not None else {}, "".join(chunks))


def _skipped(tree: Node | None) -> Iterator[set[int]]:
    """Iterate over the ids of the blocks of each node below `tree` with ``skip``."""
    for node in preorder(tree):
        if node is not tree and node.metadata_block is not None and is_on(node.own("skip")):
            yield {id(block) for below in preorder(node) for block in below.own_blocks()}


def _visible(block: Block, echo: bool) -> str:
    """Return a block as written, without comments, and without code that the page does not show (`echo`)."""
    if isinstance(block, _UNSEEN):
        return ""
    if "<!--" not in block.source and "```{" not in block.source:
        return block.source if block.source.strip() else ""
    text = replace_spans(block.source, partial(_sent_span, echo=echo))
    return text if text.strip() else ""


def _sent_span(span: Span, *, echo: bool) -> str | None:
    """Return what is sent for a span; None for what is written."""
    if span.kind == "comment":
        return ""
    if span.kind != "code_block" or not span.runs:
        return None
    cell = read_cell(span)
    if cell is not None and cell.options.get("include") is False:
        return ""
    if cell is None or cell.options.get("echo", echo) is not False:
        return None
    options = [line for line in span.text.splitlines() if line.lstrip().startswith("#|")]
    return "\n".join([f"```{span.attributes}", *options, "```"])


def header_text(node: Node) -> str:
    """Return what the author has written into the header of a document, without prompts and what models wrote; empty if
    these cannot be taken out, because other keys refer to them."""
    block = node.root.metadata_block
    if block is None:
        return ""
    body = block.body
    try:
        while prompts := block.with_body(body).prompts:
            body = metadata.remove_prompt(body, prompts[0])
        for key in (key for key in block.values() if key.startswith("~")):
            body = metadata.remove_key(body, key)
    except MetadataError:
        return ""
    return body.strip("\r\n")


# -- the context -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentView:
    """The blocks of a document, how each is sent as context, and which are `hidden` together, by their ids.

    Hidden are a skipped section, and the new texts of pending edits, unless the question is in them. `summaries` are
    those of sections, by the ids of their headings.
    """

    blocks: Sequence[Block]
    pieces: Sequence[str]
    hidden: Sequence[Collection[int]]
    summaries: Mapping[int, str]
    headings: Mapping[int, str]
    _seen: dict[tuple[int, ...], _Seen] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> DocumentView:
        """Return the view of a document."""
        view = old_view(blocks)
        new = {id(block) for block in blocks} - {id(block) for block in view}
        tree = blocks_to_tree(view)
        sections = (node for node in preorder(tree) if isinstance(node, HeadingNode) and node.heading is not None)
        summaries = {id(node.heading): str(text) for node in sections if (text := node.own("summary"))}
        echo = _shows_code(blocks)
        pieces = [_visible(block, echo) for block in without_percent_comments(blocks)]
        return cls(blocks, pieces, [new, *_skipped(tree)], summaries, headings_of(blocks))

    def context(self, at: int, start: int, end: int, prompt: str, limit: int) -> str:
        """Return the context of the text of the blocks from `start` to `end`, its place marked, for the block `at`.

        That is the whole document if it has at most `limit` bytes, else headings, with summaries if there are any,
        the blocks around the text, and what the `prompt` names.
        """
        seen, blocks, pieces = self._seen_from(at), self.blocks, dict[int, str]()
        own = range(start, end)
        total = seen.total - sum(seen.sizes[i] for i in own)
        if not total:
            return ""
        if total + len(PLACE) <= limit:
            return seen.joined(range(len(blocks)), own, pieces)
        most = min(limit, _AROUND)
        chosen = seen.outline(most // 3, own)
        named = {i for i in named_blocks(blocks, prompt, self.headings) if i not in chosen and i not in own}
        added, size = 0, sum(seen.sizes[i] for i in chosen)
        for i in sorted(chosen, key=lambda i: abs(i - start)) if self.summaries else ():
            if (summary := self.summaries.get(id(blocks[i]))) and (added := added + _size(summary)) <= most // 3:
                pieces[i] = f"{seen.pieces[i].rstrip()}\n\n{summary}\n\n"
                size += _size(pieces[i]) - seen.sizes[i]
        outwards = (i for distance in range(len(blocks)) for i in (start - 1 - distance, end + distance))
        for i in (i for i in outwards if 0 <= i < len(blocks) and i not in chosen):
            size += seen.sizes[i]
            if size > most:
                break
            chosen.add(i)
        size = 0
        for i in sorted(named - chosen):
            size += seen.sizes[i]
            chosen |= {i} if size <= max(limit - most, most) else set()
        return seen.joined(sorted(chosen), own, pieces)

    def _seen_from(self, at: int) -> _Seen:
        """Return what a question in the block `at` sees of each block; once for all that see the same."""
        own = id(self.blocks[at])
        key = tuple(i for i, some in enumerate(self.hidden) if own not in some)
        if key not in self._seen:
            hidden = set[int]().union(*(self.hidden[i] for i in key))
            both = [*zip(self.blocks, self.pieces, strict=True)]
            pieces = [piece if id(block) not in hidden else "" for block, piece in both]
            sizes = [*map(_size, pieces)]
            levels = ((i, block.level) for i, block in enumerate(self.blocks) if isinstance(block, HeadingBlock))
            headings = [(level, i, sizes[i]) for i, level in levels if sizes[i]]
            new = self.hidden[0]  # of pending edits: no gap is where they are
            in_text = (bool(piece) and id(block) not in new for block, piece in both)
            written = [*accumulate(map(max, in_text, map(bool, pieces)), initial=0)]
            self._seen[key] = _Seen(pieces, sizes, sum(sizes), written, headings, {})
        return self._seen[key]


class _Seen(NamedTuple):
    """How each block is sent, its size, that of all, how many before each are sent, and the headings: level, position
    and size."""

    pieces: list[str]
    sizes: list[int]
    total: int
    written: list[int]
    headings: list[tuple[int, int, int]]
    outlines: dict[int, set[int]]

    def outline(self, most: int, apart: range) -> set[int]:
        """Return the positions of the headings, but for some, down to the level at which they still fit."""
        inside = any(i in apart for _, i, _ in self.headings)
        if most in self.outlines and not inside:
            return {*self.outlines[most]}
        found = set[int]()
        for deepest in range(1, 7):
            level = {i: size for level, i, size in self.headings if level <= deepest and i not in apart}
            if sum(level.values()) > most:
                break
            found = {*level}
        if not inside:
            self.outlines[most] = {*found}
        return found

    def joined(self, positions: Iterable[int], own: range, changed: Mapping[int, str]) -> str:
        """Join the pieces at `positions`, in order, with the place of the blocks `own`; headings below one another;
        gaps beside a text are marked."""
        found = [(i, i + 1, changed.get(i) or self.pieces[i]) for i in positions if self.sizes[i] and i not in own]
        insort(found, (own.start, own.stop, f"{PLACE}\n\n"))
        levels = {i for _, i, _ in self.headings}
        text, above, last = "", False, 0  # whether a heading is above
        for start, end, piece in found:
            is_place = (start, end) == (own.start, own.stop)
            heading = not is_place and start in levels
            gap = self.written[start] > self.written[last]
            if gap and not (heading and above):
                text = f"{text.rstrip()}\n\n{GAP}\n\n" if text else f"{GAP}\n\n"
            elif gap and heading:
                text = f"{text.rstrip()}\n"
            elif text and not text.endswith("\n\n") and is_place:
                text = f"{text.rstrip()}\n\n"
            text += piece
            above, last = heading, end
        return (f"{text.rstrip()}\n\n{GAP}" if self.written[-1] > self.written[last] else text).strip("\ufeff\r\n")


def _size(piece: str) -> int:
    return len(piece) if piece.isascii() else len(piece.encode(errors="replace"))


# -- what a question names -------------------------------------------------------------------------


def _names(prompt: str) -> Iterator[tuple[str, str]]:
    """Iterate over the labels and the quoted words of a prompt."""
    for match in _NAME.finditer(prompt):
        yield (match[1] or "").rstrip(":-"), match[2] or ""


def headings_of(blocks: Sequence[Block]) -> dict[int, str]:
    """Return the titles of a document's headings, by their positions."""
    return {i: block.title for i, block in enumerate(blocks) if isinstance(block, HeadingBlock)}


def named_blocks(blocks: Sequence[Block], prompt: str, headings: Mapping[int, str]) -> set[int]:
    """Return the positions of the blocks that a prompt names: by ``@label``, ``@Heading``, or the words of one of the
    `headings`."""
    found = set[int]()
    names = {(label or words).casefold() for label, words in _names(prompt)}
    for i, title in headings.items():
        written = len(title) > 3 and title in prompt and re.search(rf"(?<![\w-]){re.escape(title)}(?![\w-])", prompt)
        block = blocks[i]
        by_name = names and (title.casefold() in names or (isinstance(block, HeadingBlock) and block.anchor in names))
        found |= {i, *_section(blocks, i)} if written or by_name else set()
    for name in (re.escape(label) for label, _ in _names(prompt) if label):
        options = rf"label\s*[:=]\s*[\"']?{name}(?![\w-])|`\{{\w+ +{name}[ ,}}]"
        defines = re.compile(rf"\{{[^{{}}\n]*#{name}(?![\w-])|{options}")
        for i, block in enumerate(blocks):
            if defines.search(block.source):
                found |= {i, *(_section(blocks, i) if i in headings else ())}
    return found


def _section(blocks: Sequence[Block], at: int) -> Iterator[int]:
    for i in range(at + 1, len(blocks)):
        if isinstance(blocks[i], HeadingBlock):
            return
        yield i


def unknown_names(blocks: Sequence[Block], prompt: str) -> list[str]:
    """Return what is to be said of the labels in a prompt that name nothing in the document.

    >>> from lmm.markdown import parse_markdown_text
    >>> unknown_names(parse_markdown_text("# Design\\n"), "Does @fig-effect fit @Desing, @Design and @desings.md?")
    ['@fig-effect is not in this document.', '@Desing is no heading of this document: do you mean @Design?']
    """
    messages, labels = list[str](), dict.fromkeys(label for label, _ in _names(prompt) if label)
    headings = headings_of(blocks) if labels else {}
    titles = [title for title in headings.values() if title]
    for label in labels:
        if named_blocks(blocks, f"@{label}", headings):
            continue
        if label.partition("-")[0] in _LABELS and "-" in label:
            messages.append(f"@{label} is not in this document.")
        elif close := get_close_matches(label, titles, 1, 0.8):
            messages.append(f"@{label} is no heading of this document: do you mean @{close[0]}?")
    return messages


# -- a text that is too long -----------------------------------------------------------------------


def outline_of(node: HeadingNode, most: int, model: str, window: int) -> str:
    """Return the headings of a text that is too long for a model, with the summaries that are there.

    Raises:
        TooLong: there are none, or even they have more than `most` characters.
    """
    hint = "ask at a section, write summaries first (lmm annotate --summaries), or ask the course (lmm ask)"
    hidden = set[int]().union(*_skipped(node))
    sections = [s for s in preorder(node) if isinstance(s, HeadingNode) and id(s.heading) not in hidden]
    if not any(section.own("summary") for section in sections):
        what = f"the text is longer than the {window:,} tokens that {model} reads at once, and has no summaries"
        raise TooLong(what, hint=hint, window=window)
    base, echo = len(node.heading_path), _shows_code(tree_to_blocks(node.root))
    for depth in range(7, 0, -1):
        parts = [OUTLINE]
        for section in (s for s in sections if len(s.heading_path) - base < depth):
            parts += [f"{'#' * section.level} {section.title}"] if section.level else []
            blocks = [block for text in section.texts for block in text.own_blocks()]
            own = "".join(_visible(block, echo) for block in without_percent_comments(blocks))
            parts += filter(None, [str(section.own("summary") or own).strip("\r\n")])
        if len(text := "\n\n".join(parts)) <= most:
            return text
    what = f"even its summaries are longer than the {window:,} tokens that {model} reads at once"
    raise TooLong(what, hint=hint, window=window)
