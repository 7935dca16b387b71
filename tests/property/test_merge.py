"""What holds for every merge: the author's text stays, our replies are placed or handed back, nothing breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import talking
from hypothesis import assume, event, given, strategies as st
from strategies import PIECES, documents, texts, written_documents

from lmm.errors import MetadataError
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, ErrorBlock, HeaderBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.merge import merge
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeadingNode, TextNode, blocks_to_tree, preorder, tree_to_blocks
from lmm.messages import Reply
from lmm.notebook.answers import plan, with_replies
from lmm.notebook.chat_log import read_log
from lmm.notebook.edits import damaged_edits
from lmm.notebook.header import complete_header

# -- what we do ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """A document as we changed it, and the (prompt, reply) pairs that we placed in it."""

    text: str
    replies: tuple[tuple[str, str], ...] = ()


@st.composite
def answered(draw: st.DrawFn, base: str) -> Ours:
    """Some of the pending prompts answered, as `lmm messages` does it."""
    blocks: Sequence[Block] = parse_markdown_text(base)
    replies: list[tuple[str, str]] = []
    for thread in plan(blocks):
        asks = list(takewhile(lambda ask: not ask.is_edit, thread.asks))
        for ask in asks[: draw(st.integers(0, len(asks)))]:
            reply = f"R{len(replies)} {draw(texts() | st.just('Because.'))}"
            blocks, refused = with_replies(blocks, [(ask, Reply(reply, "m"))])
            if refused:
                break
            replies.append((ask.prompt.text, reply))
    return Ours(serialize(blocks), tuple(replies))


NEW_TEXT = "A text of the model's own."


def rewritten(base: str) -> st.SearchStrategy[Ours]:
    """Every edit that is asked for, answered and waiting."""
    blocks = parse_markdown_text(base)
    asks = [ask for thread in plan(blocks) for ask in thread.asks if ask.is_edit]
    placed, failed = with_replies(blocks, [(ask, Reply(NEW_TEXT, "m")) for ask in asks])
    refused = [id(ask) for ask, _ in failed]
    replies = tuple((ask.prompt.text, NEW_TEXT) for ask in asks if id(ask) not in refused)
    return st.just(Ours(serialize(placed), replies))


@st.composite
def completed(draw: st.DrawFn, base: str) -> Ours:
    """The header completed, as `lmm scan` does it, then perhaps some prompts answered."""
    text = serialize(complete_header(parse_markdown_text(base), name="notes"))
    return draw(answered(text)) if draw(st.booleans()) else Ours(text)


def cleared(base: str) -> st.SearchStrategy[Ours]:
    """The chats cleared."""
    return st.just(Ours(talking.cleared(base)))


@st.composite
def annotated(draw: st.DrawFn, base: str) -> Ours:
    """Metadata added to some nodes, in blocks that are there or in new ones."""
    tree = blocks_to_tree(parse_markdown_text(base))
    nodes = list(preorder(tree))
    for node in draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []:
        try:
            node.set_metadata("~summary_", draw(st.sampled_from(["made", "two\nlines", "again"])))
        except MetadataError:
            continue
    return Ours(serialize(tree_to_blocks(tree)))


@st.composite
def extended(draw: st.DrawFn, base: str) -> Ours:
    """Paragraphs added under some headings."""
    tree = blocks_to_tree(parse_markdown_text(base))
    sections = [node for node in preorder(tree) if isinstance(node, HeadingNode)]
    newline = "\r\n" if "\r\n" in base else "\n"
    for section in draw(st.lists(st.sampled_from(sections), max_size=2)) if sections else []:
        if all(isinstance(text.block, TextBlock) and text.block.trailing.count("\n") > 1 for text in section.texts):
            section.add_child(TextNode(TextBlock.make("Our own paragraph.", newline=newline)))
    return Ours(serialize(tree_to_blocks(tree)))


_OPERATIONS: list[Callable[[str], st.SearchStrategy[Ours]]] = [
    answered,
    completed,
    cleared,
    annotated,
    extended,
    rewritten,
]


def our_changes(base: str) -> st.SearchStrategy[Ours]:
    """`base` after one operation of ours."""
    return st.one_of(*[operation(base) for operation in _OPERATIONS])


# -- what the author does --------------------------------------------------------------------------

Draw = Callable[[st.SearchStrategy[Any]], Any]

_LINES = [
    "",
    "new line",
    "---",
    "# New",
    "?: new question",
    "key: 1",
    "```",
    "$$",
    "<!--",
    "-->",
    "a: b: c",
    "~note: x",
]


def _insert(items: list[str], draw: Draw, new: str) -> list[str]:
    at = draw(st.integers(0, len(items)))
    return [*items[:at], new, *items[at:]]


def _insert_piece(items: list[str], draw: Draw) -> list[str]:
    return _insert(items, draw, draw(PIECES))


def _delete(items: list[str], draw: Draw) -> list[str]:
    at = draw(st.integers(0, len(items)))
    return [*items[:at], *items[at + 1 :]]


def _move(items: list[str], draw: Draw) -> list[str]:
    one, two, to = (draw(st.integers(0, len(items))) for _ in range(3))
    moved = items[min(one, two) : max(one, two)]
    rest = items[: min(one, two)] + items[max(one, two) :]
    return rest[:to] + moved + rest[to:]


@st.composite
def edited(draw: st.DrawFn, base: str) -> str:
    """`base` after anything that an author may do to it: to its blocks, its lines, its characters."""
    text = base
    for kind in draw(st.lists(st.sampled_from(["blocks", "lines", "keys", "ends", "cut", "newlines"]), max_size=3)):
        if kind == "blocks":
            blocks = [block.source for block in parse_markdown_text(text)]
            blocks = draw(st.sampled_from([_move, _delete, _insert_piece]))(blocks, draw)
            text = "".join(blocks)
        elif kind == "lines":
            lines = text.splitlines(keepends=True)
            new = draw(st.sampled_from(_LINES) | st.text(max_size=5)) + "\n"
            at = draw(st.integers(0, len(lines)))
            text = "".join([*lines[:at], new, *lines[at + draw(st.integers(0, 1)) :]])
        elif kind == "keys":
            text = draw(with_a_key(text))
        elif kind == "ends":
            text = draw(st.sampled_from([text.rstrip("\n"), text + "\n", text + "\n\nThe end.\n", "First.\n\n" + text]))
        elif kind == "cut":
            text = text[: draw(st.integers(0, len(text)))]
        else:
            text = draw(st.sampled_from([text.replace("\r\n", "\n"), text.replace("\r\n", "\n").replace("\n", "\r\n")]))
    return text


@st.composite
def with_a_key(draw: st.DrawFn, text: str) -> str:
    """A key added to, or taken out of, a metadata block of `text`."""
    blocks: list[Block] = list(parse_markdown_text(text))
    found = [i for i, block in enumerate(blocks) if isinstance(block, MetadataBlock)]
    if found:
        at = draw(st.sampled_from(found))
        block = blocks[at]
        assert isinstance(block, MetadataBlock)
        line = draw(st.sampled_from(["mine: 1\n", "# mine\n", "?: mine\n", "+: mine\n", "title: Mine\n", "type: x\n"]))
        lines = block.body.splitlines(keepends=True)
        at_line = draw(st.integers(0, len(lines)))
        blocks[at] = block.with_body("".join([*lines[:at_line], line, *lines[at_line + draw(st.integers(0, 1)) :]]))
    return serialize(blocks)


# -- what must hold --------------------------------------------------------------------------------


def _authors_lines(text: str, answers: Counter[str]) -> list[str]:
    """The lines of `text`, without answered prompts and the program's keys, line ends and blank lines left out."""
    kept = []
    for block in parse_markdown_text(text):
        source = block.source
        if isinstance(block, MetadataBlock):
            source = _authors_part(block, answers)
        kept += _lines(source)
    return [line for line in kept if line]


def _lines(text: str) -> list[str]:
    return [line.strip("\ufeff \t\r") for line in text.split("\n")]


def _authors_part(block: MetadataBlock, answers: Counter[str]) -> str:
    """The body of a metadata block without the program's keys and without prompts that were answered."""
    if block.body.startswith("{"):
        return ""  # all keys on one line
    for prompt in block.prompts:
        if answers[prompt.text]:
            same = next(p for p in block.prompts if p.text == prompt.text)
            block = block.with_body(metadata.remove_prompt(block.body, same))
    for key in block.values():
        if key.startswith("~"):
            block = block.with_body(metadata.remove_key(block.body, key))
    return block.body


def _is_subsequence(lines: Sequence[str], of: Sequence[str]) -> bool:
    rest = iter(of)
    return all(any(line == other for other in rest) for line in lines)


def _log(text: str) -> Counter[tuple[str, str]]:
    blocks = [block for block in parse_markdown_text(text) if isinstance(block, MetadataBlock)]
    return Counter((e.prompt, e.reply) for block in blocks for e in read_log(block.values()))


def _errors(text: str) -> Counter[str]:
    errors = [block.content for block in parse_markdown_text(text) if isinstance(block, ErrorBlock)]
    return Counter(content.replace("\r\n", "\n").rstrip("\r") for content in errors)


@given(written_documents() | documents(), st.data())
def test_one_side_alone(base: str, data: st.DataObject) -> None:
    """Where one side did nothing, the other side's text is the result, byte for byte; likewise where both agree."""
    ours = data.draw(our_changes(base)).text
    theirs = data.draw(edited(base))
    assert merge(base, ours, base).text == ours
    assert merge(base, base, theirs).text == theirs
    assert merge(base, ours, ours).text == ours
    assert merge(base, theirs, theirs).text == theirs
    assert (
        merge(base, ours, base).unplaced == merge(base, base, theirs).unplaced == merge(base, ours, ours).unplaced == ()
    )


@given(written_documents() | documents(), st.data())
def test_nothing_of_the_author_is_lost(base: str, data: st.DataObject) -> None:
    """Every line of the author's is in the result, in order, and no block breaks.

    Blocks written as ``{a: 1}`` are left out: what is added to them stands on the author's own line.
    """
    assume("\n{" not in base)
    ours = data.draw(our_changes(base))
    theirs = data.draw(edited(base))
    merged = merge(base, ours.text, theirs)
    event("unplaced" if merged.unplaced else "placed")
    answers = Counter(prompt for prompt, _ in ours.replies)
    assert _is_subsequence(_authors_lines(theirs, answers), _lines(merged.text))
    assert merged.text.startswith("\ufeff") == theirs.startswith("\ufeff")
    assert not _errors(merged.text) - _errors(theirs)


@given(written_documents() | documents(), st.data())
def test_no_reply_is_lost(base: str, data: st.DataObject) -> None:
    """Every reply is in the log of some block of the result, or of a block that was handed back."""
    ours = data.draw(answered(base) | completed(base))
    theirs = data.draw(edited(base))
    merged = merge(base, ours.text, theirs)
    found = _log(merged.text)
    for piece in merged.unplaced:
        found += _log("\n" + piece)
    assert not Counter(ours.replies) - found


@given(written_documents(), st.data())
def test_writing_elsewhere_displaces_nothing(base: str, data: st.DataObject) -> None:
    """If the author only put paragraphs between blocks (not under a question), everything of ours is placed."""
    ours = data.draw(our_changes(base))
    mark = "\ufeff" if base.startswith("\ufeff") else ""
    blocks = parse_markdown_text(base.removeprefix(mark))
    assume(not _errors(base))
    sources = [block.source for block in blocks]
    first = [] if blocks and isinstance(blocks[0], HeaderBlock) else [0]  # before a header, it would be one no longer
    places = [*first, *(i + 1 for i, block in enumerate(blocks) if not isinstance(block, MetadataBlock))]
    assume(places)
    for at in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3).map(sorted))[::-1]:
        sources.insert(at, "\n\nWritten meanwhile.\n\n")
    merged = merge(base, ours.text, mark + "".join(sources))
    assert merged.unplaced == ()
    assert not Counter(pair for pair in ours.replies if pair[1] != NEW_TEXT) - _log(merged.text)
    assert damaged_edits(parse_markdown_text(merged.text)) == []


@given(written_documents(), st.data())
def test_an_edit_waits_or_is_handed_back(base: str, data: st.DataObject) -> None:
    """The new text is in the document or handed back, once."""
    ours = data.draw(rewritten(base))
    theirs = data.draw(edited(base))
    merged = merge(base, ours.text, theirs)
    found = merged.text.count(NEW_TEXT) + sum(piece.count(NEW_TEXT) for piece in merged.unplaced)
    assert found == len(ours.replies)
