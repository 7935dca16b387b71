"""Edits that wait for the author: the old text and the new one, side by side in the document.

A ``=:`` prompt asks for another version of the text that its block annotates. The answer stands in the
document until it is accepted or rejected::

    ---
    ~edit_:
      edit: shorten this
      ~~id: 3f2a91
      ~~model: OpenAI/gpt-4.1-mini
    ---
    ###### old text

    The text as it was.

    <!-- lmm:new 3f2a91 -->
    ###### new text

    The text as the model would have it.

    <!-- lmm:end 3f2a91 -->

The heading of an edited section stays above both. The two comments carry the edit's id, so that neither
level-6 headings, nor another edit, nor what follows can be mistaken for a part of it; knitr, Pandoc and
readers do not see them. Where there was no text, only the new text stands there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from lmm.errors import LmmError
from lmm.markdown import metadata
from lmm.markdown.blocks import Block, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.join import insert_blocks
from lmm.markdown.parse_markdown import parse_markdown_text, unclosed_construct
from lmm.markdown.prompt_lines import Prompt
from lmm.scan.chat_log import unless_emptied, waiting_prompt, without_prompt

EDIT = "~edit_"
OLD_HEADING = HeadingBlock.make(6, "old text").source
NEW_HEADING = HeadingBlock.make(6, "new text").source
_MARK = re.compile(r"<!-- lmm:(?:new|end) \w+ -->\Z")
_WRAPPED = re.compile(r"\A\s*```+(?:markdown|md)[ \t]*\n(?P<text>.*)\n```+\s*\Z", re.DOTALL)
_CHUNK = re.compile(r"^[ \t>]*```+\s*\{([A-Za-z0-9_]+(?:[ ,][^}\n]*)?)\}[ \t]*\r?$", re.MULTILINE)
_LABEL = re.compile(r"^\w+[ ,]+(?:label\s*=\s*)?[\"']?([^=,\"'\s]+)[\"']?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Edit:
    """A waiting edit, by positions in the document's block list.

    `block` is its metadata block; `start` to `end` (exclusive) everything between the annotated heading
    and the end marker, marker included; `old` and `new` the blocks of the two texts in there.
    """

    block: int
    id: str
    line: int
    prompt: str
    model: str
    start: int
    end: int
    old: tuple[Block, ...]
    new: tuple[Block, ...]
    tail: str | None


def marker(kind: Literal["new", "end"], edit_id: str) -> str:
    """The comment that marks where the new text begins or ends."""
    return f"<!-- lmm:{kind} {edit_id} -->"


# -- reading -------------------------------------------------------------------------------------


def find_edits(blocks: Sequence[Block]) -> list[Edit]:
    """The waiting edits of a document, in order; one whose marks are damaged is left out.

    `damaged_edits` names those.
    """
    return [edit for i, block in enumerate(blocks) if (edit := _edit_at(blocks, i, block)) is not None]


def damaged_edits(blocks: Sequence[Block]) -> list[int]:
    """Lines of metadata blocks that record an edit whose old and new text cannot be told apart any more."""
    return [b.line for i, b in enumerate(blocks) if _record(b) and _edit_at(blocks, i, b) is None]


def orphaned_marks(blocks: Sequence[Block]) -> list[int]:
    """Lines of ``lmm:new`` and ``lmm:end`` comments that belong to no waiting edit."""
    inside = {i for edit in find_edits(blocks) for i in range(edit.start, edit.end)}
    return [b.line for i, b in enumerate(blocks) if i not in inside and _MARK.match(b.content)]


def _record(block: Block) -> dict[str, Any] | None:
    """The ``~edit_`` entry of a block, or None."""
    if not isinstance(block, MetadataBlock) or EDIT not in block.source:
        return None
    record = block.values().get(EDIT)
    return record if isinstance(record, dict) and record.get("~~id") else None


def _edit_at(blocks: Sequence[Block], index: int, block: Block) -> Edit | None:
    record = _record(block)
    if record is None:
        return None
    edit_id = str(record["~~id"])
    start = index + 1
    if start < len(blocks) and _is_heading(blocks[start]) and not _is_mark(blocks[start], "old text"):
        start += 1
    new_mark = _find(blocks, start, marker("new", edit_id))
    end_mark = _find(blocks, new_mark, marker("end", edit_id)) if new_mark is not None else None
    if new_mark is None or end_mark is None or not _is_mark(blocks[new_mark + 1], "new text"):
        return None
    has_old = new_mark > start
    if has_old and not _is_mark(blocks[start], "old text"):
        return None
    old = tuple(blocks[start + 1 : new_mark]) if has_old else ()
    new = tuple(blocks[new_mark + 2 : end_mark])
    tail = record.get("~~tail")
    return Edit(
        index,
        edit_id,
        block.line,
        str(record.get("edit", "")),
        str(record.get("~~model", "")),
        start,
        end_mark + 1,
        old,
        new,
        tail if isinstance(tail, str) else None,
    )


def _is_heading(block: Block) -> bool:
    return isinstance(block, HeadingBlock)


def _is_mark(block: Block, title: str) -> bool:
    return isinstance(block, HeadingBlock) and (block.level, block.title) == (6, title)


def _find(blocks: Sequence[Block], start: int, text: str) -> int | None:
    return next((i for i in range(start, len(blocks)) if blocks[i].content == text), None)


def old_view(blocks: Sequence[Block]) -> list[Block]:
    """The document as if no edit were waiting: the same block objects, new texts and marks left out."""
    hidden: set[int] = set()
    for edit in find_edits(blocks):
        first_new = edit.start + (len(edit.old) + 1 if edit.old else 0)
        hidden |= {edit.start} if edit.old else set()
        hidden |= set(range(first_new, edit.end))
    return [block for i, block in enumerate(blocks) if i not in hidden]


# -- asking --------------------------------------------------------------------------------------


def refusal(block: MetadataBlock, old: Sequence[Block]) -> str | None:
    """Why an edit of the text `old` cannot be asked for in this block now, or None."""
    if _record(block) is not None:
        return "an edit of this text is waiting: lmm accept or lmm reject it first"
    for text in old:
        opened = unclosed_construct(text.content) if isinstance(text, TextBlock) else None
        if opened is not None:
            return f"'{opened[1]}' in the text is never closed: close it first"
    return None


def place_edit(
    blocks: Sequence[Block], index: int, extent: tuple[int, int], prompt: Prompt, reply: str, model: str
) -> list[Block]:
    """The document with an answered edit beside the text that it is about.

    `index` is the metadata block that asked; `extent` the blocks (start, end) of the text to be replaced,
    empty where there is none.

    Raises:
        MetadataError: the block has a form that cannot be added to.
        LmmError: an edit is waiting there already, or the old text could not be restored exactly.
    """
    block = blocks[index]
    assert isinstance(block, MetadataBlock)
    start, end = extent
    if reason := refusal(block, blocks[start:end]):
        raise LmmError(reason)
    old, newline = list(blocks[start:end]), block.newline
    text = closed(unwrapped(reply)).replace("\n", newline)
    edit_id = _new_id(prompt.text, serialize(old), reply, serialize(blocks))
    new: list[Block] = [_text(source, newline) for source in (marker("new", edit_id) + "\n", NEW_HEADING)]
    new += [TextBlock(text.rstrip("\r\n") + newline * 2, 0), _text(marker("end", edit_id) + "\n\n", newline)]
    tail = None
    if old:
        # The heading must stand apart from the text; what has to be added for that is taken off again.
        spaced = insert_blocks(old, len(old), new)
        if spaced[len(old) - 1].source != old[-1].source:
            tail = old[-1].trailing
        new = [_text(OLD_HEADING, newline), *spaced]
    elif start and insert_blocks(blocks[:start], start, new)[start - 1].source != blocks[start - 1].source:
        tail = blocks[start - 1].trailing
    record = {"edit": prompt.text, "~~id": edit_id, "~~model": model}
    if tail is not None:
        record["~~tail"] = tail
    changed = _recorded(block, prompt, record)
    result = [*blocks[:start], *new, *blocks[end:]]
    result[index] = changed
    result = insert_blocks(result[:start], start, result[start:]) if start else result
    _check_restorable(blocks, index, without_prompt(block, prompt), result, edit_id)
    return result


def _check_restorable(
    blocks: Sequence[Block], index: int, unasked: MetadataBlock, result: Sequence[Block], edit_id: str
) -> None:
    """The guard behind every edit: rejecting it must give back the document without the prompt, byte for byte."""
    following = blocks[index + 1] if index + 1 < len(blocks) else None
    original = serialize([*blocks[:index], *unless_emptied(unasked, following), *blocks[index + 1 :]])
    placed = parse_markdown_text(serialize(result))
    edit = next((e for e in find_edits(placed) if e.id == edit_id), None)
    if edit is None or serialize(_rejected(placed, edit)) != original:
        raise LmmError("an edit of this text could not be undone exactly", hint="ask for an edit of a paragraph in it")


def _text(source: str, newline: str) -> TextBlock:
    """A piece of the document to be; what kind of block it is shows when the document is parsed again."""
    return TextBlock(source.replace("\n", newline), 0)


def _recorded(block: MetadataBlock, prompt: Prompt, record: dict[str, Any]) -> MetadataBlock:
    prompt = waiting_prompt(block, prompt)
    body = metadata.set_key(block.body, EDIT, record, newline=block.newline, before=prompt.start)
    return without_prompt(block.with_body(body), prompt)


def _new_id(*parts: str) -> str:
    """A short id that does not occur in the document."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return next(digest[i : i + 6] for i in range(len(digest) - 6) if digest[i : i + 6] not in parts[-1])


def unwrapped(reply: str) -> str:
    """A reply without the code fence that models like to put around markdown.

    >>> unwrapped("```markdown\\nA leaf.\\n```")
    'A leaf.'
    """
    match = _WRAPPED.match(reply)
    return match["text"] if match else reply


def closed(text: str) -> str:
    """`text` with a fence, equation or comment that it leaves open closed: else it would swallow the end mark."""
    opened = unclosed_construct(text)
    if opened is None:
        return text
    return text.rstrip("\n") + "\n" + ("-->" if opened[1] == "<!--" else opened[1])


# -- resolving -----------------------------------------------------------------------------------


Verdict = Literal["accept", "reject"]


def resolve(blocks: Sequence[Block], verdict: Verdict, *, line: int | None = None) -> tuple[list[Block], int]:
    """The document with its waiting edits accepted or rejected, and how many there were.

    With `line`, only the edit that covers it (the innermost, if one contains another). Rejecting restores
    the old text byte for byte. Accepting keeps the new text with whatever the author made of it; metadata
    blocks of the old text move to the same headings and paragraphs of the new.

    Raises:
        LmmError: an edit's marks are damaged, or no edit covers `line`.
    """
    result, count = list(blocks), 0
    while True:
        edits = [e for e in find_edits(result) if line is None or _covers(result, e, line)]
        if not edits:
            break
        edit = edits[-1]  # innermost and last first: the positions of the others stay right
        result = (_accepted if verdict == "accept" else _rejected)(result, edit)
        count += 1
        if line is not None:
            break
    if damaged := damaged_edits(result):
        raise LmmError(
            f"the edit in the block at line {damaged[0]} has lost its marks",
            hint="restore '<!-- lmm:new … -->' and '<!-- lmm:end … -->', or mend the text and delete '~edit_'",
        )
    if line is not None and not count:
        lines = ", ".join(str(e.line) for e in find_edits(result))
        raise LmmError(f"no edit waits at line {line}", hint=f"edits wait at {lines}" if lines else "none waits")
    return result, count


def _covers(blocks: Sequence[Block], edit: Edit, line: int) -> bool:
    after = blocks[edit.end].line if edit.end < len(blocks) else float("inf")
    return edit.line <= line < after


def _rejected(blocks: list[Block], edit: Edit) -> list[Block]:
    if not edit.old and edit.tail is not None:  # what stood before the empty place ended otherwise
        blocks = [*_with_tail(blocks[: edit.start], edit.tail), *blocks[edit.start :]]
    return _resolved(blocks, edit, _with_tail(list(edit.old), edit.tail))


def _accepted(blocks: list[Block], edit: Edit) -> list[Block]:
    old, _ = resolve(edit.old, "reject")
    new = _with_metadata(old, list(edit.new))
    tail = edit.tail
    if tail is None and edit.old:
        tail = edit.old[-1].trailing
    return _resolved(blocks, edit, _with_tail(new, tail if edit.old else None))


def _with_tail(blocks: list[Block], tail: str | None) -> list[Block]:
    """`blocks` whose last one ends as the text did before the edit."""
    if tail is not None and blocks:
        last = blocks[-1]
        content = last.source[: len(last.source) - len(last.trailing)]
        blocks[-1] = last.with_source(content + tail)
    return blocks


def _resolved(blocks: list[Block], edit: Edit, text: list[Block]) -> list[Block]:
    """`blocks` with the edit's region replaced by `text` and its record taken out of the metadata."""
    block = blocks[edit.block]
    assert isinstance(block, MetadataBlock)
    after = [*blocks[edit.block + 1 : edit.start], *text, *blocks[edit.end :]]
    kept = unless_emptied(block.without_key(EDIT), after[0] if after else None)
    return [*blocks[: edit.block], *kept, *after]


def _with_metadata(old: list[Block], new: list[Block]) -> list[Block]:
    """`new` with the metadata blocks of `old` before the blocks that correspond to those they annotated."""
    carried = [(i, b) for i, b in enumerate(old) if isinstance(b, MetadataBlock)]
    if not carried:
        return new
    targets = [b for b in old if not isinstance(b, MetadataBlock)]
    place = _correspondence([b.content for b in targets], [b.content for b in new])
    at: dict[int, list[Block]] = {}
    for i, block in carried:
        before = sum(1 for b in old[:i] if not isinstance(b, MetadataBlock))
        at.setdefault(place[before], []).append(block)
    result: list[Block] = []
    for position in range(len(new) + 1):
        result += at.get(position, [])
        result += new[position : position + 1]
    return result


def _correspondence(old: list[str], new: list[str]) -> list[int]:
    """For each old text, and for the end, the position among the new texts that stands for it."""
    place, lowest = [], 0
    for text in old:
        scores = {j: SequenceMatcher(None, text, new[j]).ratio() for j in range(lowest, len(new))}
        best = max(scores, key=lambda j: (scores[j], -j), default=lowest)
        lowest = best if scores.get(best, 0) > 0.5 else lowest
        place.append(min(lowest, len(new)))
    return [*place, len(new)]


# -- reporting -----------------------------------------------------------------------------------


def code_notices(edit: Edit) -> list[str]:
    """What an author should know before knitting: chunks that the new text adds, changes or repeats."""
    old, new = _chunks(serialize(edit.old)), _chunks(serialize(edit.new))
    notices = []
    labels = sorted(label for label in new if label in old and label)
    if labels:
        notices.append(f"chunk labels stand twice until the edit is resolved, and knitr stops: {', '.join(labels)}")
    if any(code not in old.values() for code in new.values()):
        notices.append("the new text adds or changes code that knitr will run")
    return notices


def _chunks(text: str) -> dict[str, str]:
    """The executable chunks of a text, by label (or by header, where there is none)."""
    found = {}
    for block in parse_markdown_text(text):
        match = _CHUNK.search(block.content)
        if match:
            label = _LABEL.match(match[1])
            found[label[1] if label else ""] = block.content
    return found
