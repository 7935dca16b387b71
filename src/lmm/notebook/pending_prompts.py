"""What waits for an answer in a document: the pending prompts, and the texts that they are about. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lmm.errors import LmmError, MetadataError
from lmm.markdown import HeaderNode, HeadingNode, Node, TextNode, blocks_to_tree, metadata, tree_to_blocks
from lmm.markdown.blocks import Block, HeadingBlock, MetadataBlock, serialize
from lmm.markdown.metadata import Prompt
from lmm.markdown.tree import preorder, without_metadata
from lmm.markdown.units import balanced, div_ends, texts_of, unit_ends
from lmm.notebook.chat_log import ABOUT, LOG_KEYS, ChatExchange, read_log, unrepeated
from lmm.notebook.context import header_text, visible_text
from lmm.notebook.edit_reply import EditReply, EditRequest
from lmm.notebook.edits import EDIT, WaitingEdit, find_edits, old_view
from lmm.notebook.mentions import NO_MENTIONS, Mentions
from lmm.notebook.staleness import text_hash


@dataclass(frozen=True, slots=True)
class Subject:
    """The text that a metadata block annotates.

    `kind` is ``document``, ``section``, ``paragraph`` or ``nothing``; `path` is the document's title and the
    heading path; `text` is what "the text" refers to; `context` is the document around it, for orientation; `header`
    is what the author wrote there, if it is asked about; `level` is that of the heading over the text, if there is one;
    `hash` is that of the whole text, even if `text` consists of summaries.
    """

    kind: str
    path: tuple[str, ...]
    text: str
    context: str = ""
    header: str = ""
    level: int = 0
    hash: str = field(default="", compare=False)

    def __str__(self) -> str:
        named = {"document": "the document", "section": "the section", "paragraph": "a paragraph of"}
        return f"{named.get(self.kind, 'an empty place in')} '{' > '.join(self.path)}'"


@dataclass(frozen=True, slots=True, repr=False)
class PendingPrompt:
    """One pending prompt: its place (`line` counts from 1 in the document) and its subject.

    `block` is the position of its metadata block; `extent` the positions of the blocks of its text, without a heading
    (an edit replaces them), and `seen` those of these blocks that the model sees; `node` is the annotated node, in a
    tree of the document as the model may see it. `again` says that an exchange of the log is asked again; `shares`
    that other metadata in the block belong to the section below.
    `mentions` are the files and pages that are sent along, `unknown` what is said of names that nothing bears.
    """

    block: int
    prompt: Prompt
    line: int
    subject: Subject
    extent: tuple[int, int] = (0, 0)
    seen: tuple[Block, ...] = field(default=(), compare=False, repr=False)
    condensed: bool = False  # whether the subject's text was replaced by summaries
    node: Node | None = field(default=None, compare=False, repr=False)
    again: bool = False
    shares: bool = False
    mentions: Mentions = NO_MENTIONS
    unknown: tuple[str, ...] = ()
    blind: bool = False  # whether the model does not accept pictures
    refused: LmmError | None = field(default=None, compare=False, repr=False)  # why no reply could be placed
    doubt: str = ""  # a warning about its reply
    new: EditReply | None = field(default=None, compare=False, repr=False)  # the text in its reply
    revises: WaitingEdit | None = field(default=None, compare=False, repr=False)  # an edit, asked for a second round

    def __repr__(self) -> str:
        return f"PendingPrompt(line {self.line}: {self.word}, {self.text!r}, about {self.subject.kind})"

    @property
    def text(self) -> str:
        """The prompt in the author's words."""
        return self.prompt.text

    @property
    def word(self) -> str:
        """The keyword of the prompt: ``query``, ``message`` or ``edit``."""
        return self.prompt.word

    @property
    def is_edit(self) -> bool:
        """Whether the prompt asks for another version of the text."""
        return self.prompt.word == "edit" or self.revises is not None

    @property
    def request(self) -> EditRequest:
        """What an edit is asked of."""
        section = self.node.parent if self.subject.kind == "nothing" and self.node is not None else self.node
        heading = section.heading if isinstance(section, HeadingNode) else None
        header = self.node.root.metadata if self.node is not None else {}
        earlier, latest = (self.revises.prompt, serialize(self.revises.new)) if self.revises else ("", "")
        prompt = f"{earlier}\n{self.prompt.text}".lstrip("\n")
        return EditRequest(serialize(self.seen), prompt, latest, heading, header)


@dataclass(frozen=True, slots=True)
class PromptThread:
    """The pending prompts of one metadata block, to be answered in order, and the log before them."""

    prompts: tuple[PendingPrompt, ...]
    log: tuple[ChatExchange, ...]


_OF_PROMPTS = (*LOG_KEYS, EDIT)  # keys that belong to a prompt, not to what the block annotates

AskedAnew = tuple[int, ChatExchange]
"""An exchange to be asked again: the position of its block, and the exchange."""


def plan(blocks: Sequence[Block], *, title: str = "", anew: Collection[AskedAnew] = ()) -> list[PromptThread]:
    """Return the pending prompts, grouped by metadata block, in document order; then the exchanges to be asked `anew`.

    `title` is used for a document without a title.
    """
    again = {at for at, _ in anew}
    edits = {edit.block: edit for edit in find_edits(blocks)}
    threads, repeated = list[PromptThread](), list[PromptThread]()
    for at, node, block, body, extent in _annotated(
        blocks, lambda at, block: at in again or any(prompt.text for prompt in block.prompts), title
    ):
        log, subject, shares = read_log(block.values()), subject_of(node, body), False
        heading, after = blocks[at - 1] if at else None, blocks[at + 1] if at + 1 < len(blocks) else None
        empty = isinstance(heading, HeadingBlock) and isinstance(after, HeadingBlock) and after.level <= heading.level
        if empty and isinstance(node, HeadingNode):  # nothing is below the heading but one that is not deeper
            place, body, extent = TextNode(), (), (at + 1, at + 1)
            place.parent = next(n for n in preorder(node.root) if isinstance(n, HeadingNode) and n.heading is heading)
            node = place
            shares = any(key not in _OF_PROMPTS for key in block.values()) and _can_be_split(block)
            subject = subject_of(node, body)
        found = [
            PendingPrompt(
                at,
                prompt,
                block.body_line + prompt.line - 1,
                subject,
                extent,
                node=node,
                shares=shares,
                revises=edits.get(at) if prompt.word == "message" else None,
            )
            for prompt in block.prompts
            if prompt.text
        ]
        if any(ask.is_edit for ask in found):
            old = tuple(block for block in body if not isinstance(block, MetadataBlock))
            text = replace(subject, text=serialize(old).strip())
            found = [replace(ask, subject=text, seen=old) if ask.is_edit else ask for ask in found]
        threads += [PromptThread(tuple(found), log)] if found else []
        for exchange in (exchange for place, exchange in anew if place == at):
            prompt = Prompt(exchange.word, exchange.word, exchange.prompt, start=-1, end=-1, line=0)
            pending = PendingPrompt(at, prompt, block.line, subject, extent, node=node, again=True, shares=shares)
            repeated.append(PromptThread((pending,), log[: log.index(exchange)]))  # without what followed it
    return [*threads, *repeated]


class _AnnotatedNode(NamedTuple):
    """A node with metadata: the position of its metadata block, and the annotated text, as blocks and as positions."""

    at: int
    node: Node
    block: MetadataBlock
    body: Sequence[Block]
    extent: tuple[int, int]


def _annotated(
    blocks: Sequence[Block], is_wanted: Callable[[int, MetadataBlock], bool], title: str = ""
) -> list[_AnnotatedNode]:
    """Return the nodes with a metadata block for which `is_wanted` is true, in the order of the document.

    Nodes are those of the document without its pending edits; metadata inside a new text annotates the new text.
    A unit is never split: a section ends where a div ends that began before it, or begins that ends after it.
    """
    found, positions, old = (
        dict[int, _AnnotatedNode](),
        {id(block): i for i, block in enumerate(blocks)},
        old_view(blocks),
    )
    for seen in [old] if len(old) == len(blocks) else [old, blocks]:
        at, indices = [positions[id(block)] for block in seen], {id(block): i for i, block in enumerate(seen)}
        texts = texts_of(seen)
        divs = div_ends(texts)
        units, closers = unit_ends(texts, divs), set(divs.values())
        for node in preorder(blocks_to_tree(seen, title=title)):
            block = node.metadata_block
            if block is None or positions[id(block)] in found or not is_wanted(positions[id(block)], block):
                continue
            above = [block, *([node.heading] if isinstance(node, HeadingNode) and node.heading is not None else [])]
            start = indices[id(above[-1])] + 1
            if isinstance(node, HeaderNode):
                end = len(seen)
            elif isinstance(node, TextNode):
                end = start if node.block is None or start in closers else units[start]
            else:
                end = balanced(divs, start, start + len(tree_to_blocks(node)) - len(above))
            first = at[start - 1] + 1
            last = at[end] if end < len(at) else len(blocks)
            if end - start < 2 and isinstance(node, TextNode):
                last = first + end - start
            annotated = _AnnotatedNode(positions[id(block)], node, block, seen[start:end], (first, last))
            found[annotated.at] = annotated
    return [found[at] for at in sorted(found)]


def stale_replies(blocks: Sequence[Block]) -> list[AskedAnew]:
    """Return the exchanges whose text has changed since they were answered."""
    if not any(ABOUT in block.source for block in blocks):
        return []  # saves time: a long document is read on each change
    found = list[AskedAnew]()
    for at, node, block, body, _ in _annotated(blocks, lambda at, block: ABOUT in block.body):
        now = subject_of(node, body).hash
        log = unrepeated(read_log(block.values()))
        found += [(at, old) for old in log if old.about and old.about != now]
    return found


def covers(block: Block, line: int) -> bool:
    return block.line <= line < block.line + max(1, block.content.count("\n") + 1)


def subject_of(node: Node, body: Sequence[Block]) -> Subject:
    """Return the subject of a metadata block on `node`; `body` are the blocks of its text, without a heading."""
    kind, header, level = "section", "", 0
    whole: Sequence[Block] = body
    if isinstance(node, HeaderNode):
        kind, whole, header = "document", tree_to_blocks(node), header_text(node)
    elif isinstance(node, HeadingNode):
        level = node.level
        whole = [*([node.heading] if node.heading is not None else []), *body]
    else:
        kind = "paragraph" if without_metadata(body) else "nothing"
        level = node.parent.level if node.parent is not None else 0
    full = without_metadata(whole)
    return Subject(
        kind,
        _path(node),
        visible_text(node, whole),
        header=header,
        level=level,
        hash=text_hash(full) if full.strip() else "",
    )


def _path(node: Node) -> tuple[str, ...]:
    root = node.root
    title = root.title if isinstance(root, HeaderNode) else ""
    own = (node.title,) if isinstance(node, HeadingNode) and node.level else ()
    path = (*node.heading_path, *own)
    return (title, *path) if title and path[:1] != (title,) else path


# -- a place without text --------------------------------------------------------------------------


def _can_be_split(block: MetadataBlock) -> bool:
    """Return whether keys can be taken out of a block; where they stand in braces, its prompt alone is refused."""
    with suppress(MetadataError):
        split_shared([block], [0])
        return True
    return False


def split_shared(blocks: Sequence[Block], at: Collection[int]) -> list[Block]:
    """Split the metadata blocks at these positions: what is about the empty place above, and what is the section's."""
    result = list[Block]()
    for i, block in enumerate(blocks):
        if i not in at or not isinstance(block, MetadataBlock):
            result.append(block)
            continue
        own, other = block.body, block.body
        for key in block.values():
            if key in _OF_PROMPTS:
                other = metadata.remove_key(other, key)
            else:
                own = metadata.remove_key(own, key)
        while prompts := block.with_body(other).prompts:
            other = metadata.remove_prompt(other, prompts[0])
        above = block.with_body(own)
        spaced = above.source if above.source.endswith(("\n\n", "\r\n\r\n")) else above.source + block.newline
        result += [above.with_source(spaced), block.with_body(other)]
    return result
