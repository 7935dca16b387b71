"""Which questions wait in a document, what the model may see for each, and where the replies go.

Pure: a document goes in as blocks and comes out as blocks. `lmm.scan.run` asks the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.prompt_lines import Prompt
from lmm.markdown.tree import HeaderNode, HeadingNode, Node, TextNode, blocks_to_tree
from lmm.markdown.walk import annotated_text, preorder, without_metadata
from lmm.models.port import ChatRequest, Document, Message
from lmm.scan.chat_log import Exchange, current_chat, place_reply, read_log

CHAT_WORDS = ("query", "message")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a metadata block annotates.

    `kind` is ``document``, ``section``, ``paragraph`` or ``nothing``; `path` the document's title and the
    headings down to it; `text` what "the text" means; `context` what surrounds it, for orientation.
    """

    kind: str
    path: tuple[str, ...]
    text: str
    context: str = ""

    def __str__(self) -> str:
        place = " > ".join(self.path)
        if self.kind == "document":
            return f"the document '{place}'"
        named = {"section": "the section", "paragraph": "a paragraph of"}.get(self.kind, "an empty place in")
        return f"{named} '{place}'"


@dataclass(frozen=True, slots=True)
class Ask:
    """One pending prompt: where it stands (`line` counts from 1 in the document) and what it is about."""

    block: int
    prompt: Prompt
    line: int
    subject: Subject

    @property
    def starts_chat(self) -> bool:
        return self.prompt.word == "query"


@dataclass(frozen=True, slots=True)
class Thread:
    """The pending prompts of one metadata block, to be answered in order, and the log before them."""

    asks: tuple[Ask, ...]
    log: tuple[Exchange, ...]


def plan(blocks: Sequence[Block], *, title: str = "", context_limit: int = 6000) -> list[Thread]:
    """The questions that wait in a document, grouped by metadata block, in document order.

    `title` names a document that has no title; `context_limit` is in characters.
    """
    tree = blocks_to_tree(blocks, title=title)
    indices = {id(block): i for i, block in enumerate(blocks)}
    threads = []
    for node in preorder(tree):
        block = node.metadata_block
        if block is None:
            continue
        prompts = [p for p in block.prompts if p.word in CHAT_WORDS and p.text]
        if prompts:
            subject = subject_of(node, context_limit=context_limit)
            asks = tuple(Ask(indices[id(block)], p, block.body_line + p.line - 1, subject) for p in prompts)
            threads.append(Thread(asks, read_log(block.values())))
    return threads


def threads_at(threads: Sequence[Thread], blocks: Sequence[Block], line: int) -> list[Thread]:
    """The thread whose metadata block covers `line` (1-based); empty if there is none."""
    return [t for t in threads if _covers(blocks[t.asks[0].block], line)]


def _covers(block: Block, line: int) -> bool:
    return block.line <= line < block.line + max(1, block.content.count("\n") + 1)


def subject_of(node: Node, *, context_limit: int) -> Subject:
    """What a metadata block on `node` is about."""
    path = _path(node)
    if isinstance(node, HeaderNode):
        return Subject("document", path, annotated_text(node))
    if isinstance(node, HeadingNode):
        return Subject("section", path, annotated_text(node))
    text = annotated_text(node)
    return Subject("paragraph" if text else "nothing", path, text, _context(node, context_limit))


def _path(node: Node) -> tuple[str, ...]:
    root = node.root
    title = root.title if isinstance(root, HeaderNode) else ""
    own = (node.title,) if isinstance(node, HeadingNode) and node.level else ()
    path = (*node.heading_path, *own)
    return (title, *path) if title and path[:1] != (title,) else path


def _context(node: Node, limit: int) -> str:
    """The summary of the section around a paragraph, else the text around it, whole blocks up to `limit`."""
    section = node.parent
    if section is None:
        return ""
    summary = section.own("summary")
    if summary:
        return str(summary)
    texts = section.texts
    at = next(i for i, text in enumerate(texts) if text is node)
    kept, size = {at}, 0
    for index in sorted(range(len(texts)), key=lambda i: abs(i - at)):
        size += len(_visible(texts[index])) if index != at else 0
        if size > limit:
            break
        kept.add(index)
    around = [text for i, text in enumerate(texts) if i in kept]
    if len(around) < 2:
        return ""
    return "\n\n".join(visible for text in around if (visible := _visible(text)))


def _visible(node: TextNode) -> str:
    return without_metadata(node.own_blocks())


def request_for(ask: Ask, chat: Sequence[Exchange], system: str) -> ChatRequest:
    """What the model gets: system message, the text, the earlier exchanges of this chat, the prompt."""
    subject = ask.subject
    source = " > ".join(subject.path).replace('"', "'")
    documents = [Document(subject.text, "text", source)]
    if subject.context:
        documents.append(Document(subject.context, "context", source))
    turns = [*((e.prompt, e.reply) for e in chat), (ask.prompt.text, None)]
    messages = [Message("system", system)]
    for number, (prompt, reply) in enumerate(turns):
        messages.append(Message("user", prompt, tuple(documents) if number == 0 else ()))
        if reply is not None:
            messages.append(Message("assistant", reply))
    return ChatRequest(tuple(messages))


def chat_before(ask: Ask, log: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """The exchanges that `ask` continues, given everything logged before it."""
    return () if ask.starts_chat else current_chat(log)


def with_reply(blocks: Sequence[Block], ask: Ask, reply: str, model: str) -> list[Block]:
    """The document with one reply placed; its other blocks are the same objects.

    Raises:
        MetadataError: the block has a form that cannot be added to.
    """
    result = list(blocks)
    block = result[ask.block]
    assert isinstance(block, MetadataBlock)
    result[ask.block] = place_reply(block, ask.prompt, reply, model)
    return result
