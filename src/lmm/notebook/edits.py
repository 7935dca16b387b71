"""Pending edits: the old text and the new one, side by side in the document.

A ``=:`` prompt asks for another version of the text that its block annotates. The answer stays in the
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

The heading of an edited section stays above both. The two comments contain the edit's id, so that neither
level-6 headings, nor another edit, nor the text below can be mistaken for a part of it; knitr, Pandoc and
readers do not see them. If there was no text, there is only the new text.

The record also contains ``~remark``, what the model said about its text, if anything, ``~~old``, which reveals a later
change of the old text, and ``~~warning``, doubts whether the reply is the whole text and only the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Literal

from lmm.disk import digest
from lmm.disk.diff import Hunk, hunks
from lmm.errors import EditError, LmmError
from lmm.markdown import Block, HeadingBlock, MetadataBlock, TextBlock, serialize
from lmm.markdown.blocks import ended, insert_blocks
from lmm.markdown.metadata import Prompt, add_prompt, mask_prompts
from lmm.markdown.parse_markdown import misread, parse_markdown_text, unclosed_construct
from lmm.markdown.sentences import sentence_ends
from lmm.markdown.spans import spans
from lmm.markdown.units import ITEM, kind_of
from lmm.messages import Reply
from lmm.notebook.chat_log import WARNING, unless_emptied, waiting_prompt, without_prompt
from lmm.notebook.edit_reply import DOUBTS, EditReply, as_metadata, is_mark
from lmm.notebook.edit_warnings import (
    CUT,
    MODELS_METADATA,
    RUNS,
    code_notices,
    excerpt,
    losses,
    marks_of,
    metadata_notices,
    oddities,
)

EDIT = "~edit_"
REMARK = "~remark"
OLD_HEADING = HeadingBlock.make(6, "old text").source
NEW_HEADING = HeadingBlock.make(6, "new text").source


@dataclass(frozen=True, slots=True)
class WaitingEdit:
    """A pending edit, by positions in the document's block list.

    `block` is its metadata block; `start` to `end` (exclusive) everything between the annotated heading
    and the end marker, marker included; `old` and `new` are the blocks of the two texts; `heading` is the
    title of the annotated heading, if there is one; `remark` is what the model said about its text; `doubts` are the
    warnings that no change of the text settles; `seen` is a hash of the old text that the model saw; `unanswered` are
    requests for a second round.
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
    heading: str = ""
    remark: str = ""
    doubts: tuple[str, ...] = ()
    seen: str = ""
    unanswered: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[str, ...]:
        """What accepting it now would lose, and doubts whether the new text is one."""
        return (*self.doubts, *_losses(self.old, self.new, self.prompt))

    @property
    def warnings(self) -> tuple[str, ...]:
        """`losses`, a change of the old text, and other peculiarities of the new text."""
        old, new = visible_text(self.old), visible_text(self.new)
        changed = (OLD_CHANGED,) if self.old_changed else ()
        return (*self.losses, *changed, *oddities(old, new, heading=self.heading), *code_notices(old, new))

    @property
    def old_changed(self) -> bool:
        """Whether the author changed the old text after the model saw it."""
        return bool(self.seen) and _mark_of(_visible(self.old)) != self.seen.split()[0]

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages for an author who accepts the edit."""
        old, new = visible_text(self.old), visible_text(self.new)
        asked = (f"'+: {prompt}' is not answered, and asks about the accepted text now" for prompt in self.unanswered)
        return (*asked, *metadata_notices(new), *(each for each in code_notices(old, new) if each == RUNS))


OLD_CHANGED = "you changed the old text after the model saw it"


def _losses(old: Sequence[Block], new: Sequence[Block], prompt: str) -> tuple[str, ...]:
    found = losses(visible_text(old), visible_text(new), prompt)
    for block, below in _with_metadata_of(old, new)[1]:
        where = f"before {excerpt(below)}" if below else "at the end of the old text"
        found += (f"the new text has no place for the metadata {where}: {excerpt(block.body)}",)
    return found


def _mark_of(blocks: Sequence[Block]) -> str:
    """Return a hash of a text, ignoring white space."""
    return marks_of(block.content for block in blocks).split()[0]


def _visible(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a text that readers see, without metadata and other pending edits."""
    return [block for block in old_view(blocks) if not isinstance(block, MetadataBlock)]


def visible_text(blocks: Sequence[Block]) -> str:
    """Return what readers see of `blocks`: no metadata, no pending edits."""
    return serialize(_visible(blocks))


def marker(kind: Literal["new", "end"], edit_id: str) -> str:
    """Return the comment that marks the beginning or end of the new text."""
    return f"<!-- lmm:{kind} {edit_id} -->"


# -- reading -------------------------------------------------------------------------------------


def find_edits(blocks: Sequence[Block]) -> list[WaitingEdit]:
    """Return the pending edits of a document, in order; those with damaged marks are left out.

    `damaged_edits` returns these.
    """
    return _read(blocks)[0]


def damaged_edits(blocks: Sequence[Block]) -> list[int]:
    """Return the lines of metadata blocks with an edit whose old and new text can no longer be told apart."""
    return _read(blocks)[1]


def orphaned_marks(blocks: Sequence[Block]) -> list[int]:
    """Return the lines of ``lmm:new`` and ``lmm:end`` comments that belong to no pending edit."""
    marks = [i for positions in _marks(blocks).values() for i in positions]
    if not marks:
        return []
    inside = {i for edit in find_edits(blocks) for i in range(edit.start, edit.end)}
    return sorted(blocks[i].line for i in marks if i not in inside)


def _read(blocks: Sequence[Block]) -> tuple[list[WaitingEdit], list[int]]:
    """Return the pending edits, and the lines of damaged ones; what is inside an edit is a part of its texts."""
    marks, found, damaged = _marks(blocks), list[WaitingEdit](), list[int]()
    for index, block in enumerate(blocks):
        if (record := _record(block)) is None or (found and index < found[-1].end):
            continue
        assert isinstance(block, MetadataBlock)
        edit_id, start, heading = str(record["~~id"]), index + 1, ""
        above = blocks[start] if start < len(blocks) else None
        if isinstance(above, HeadingBlock) and not _is_mark(above, "old text"):
            start, heading = start + 1, above.title
        new, end = (marks.get(marker(kind, edit_id), []) for kind in ("new", "end"))
        new_mark = next((at for at in new if at >= start), -1)
        end_mark = next((at for at in end if at > new_mark), -1)
        has_old = new_mark > start
        if min(new_mark, end_mark) < 0 or not _is_mark(blocks[new_mark + 1], "new text"):
            damaged.append(block.line)
            continue
        if has_old and not _is_mark(blocks[start], "old text"):
            damaged.append(block.line)
            continue
        tail, warnings = record.get("~~tail"), str(record.get(WARNING, "")).split("; ")
        edit = WaitingEdit(
            block=index,
            id=edit_id,
            line=block.line,
            prompt="\n".join([str(record.get("edit", "")), *_rounds(record)]),
            model=str(record.get("~~model", "")),
            start=start,
            end=end_mark + 1,
            old=tuple(blocks[start + 1 : new_mark]) if has_old else (),
            new=tuple(blocks[new_mark + 2 : end_mark]),
            tail=tail if isinstance(tail, str) else None,
            heading=heading,
            remark=str(record.get(REMARK, "")),
            doubts=tuple(one for one in warnings if one.startswith((CUT, *DOUBTS))),
            seen=str(record.get("~~old", "")),
            unanswered=tuple(prompt.text for prompt in block.prompts if prompt.word == "message"),
        )
        found.append(edit)
    return found, damaged


def _marks(blocks: Sequence[Block]) -> dict[str, list[int]]:
    """Return the positions of our comments, by comment."""
    found: dict[str, list[int]] = {}
    for i, block in enumerate(blocks):
        if is_mark(block):
            found.setdefault(block.content, []).append(i)
    return found


def _record(block: Block) -> dict[str, Any] | None:
    """Return the ``~edit_`` entry of a block, or None."""
    if not isinstance(block, MetadataBlock) or EDIT not in block.source:
        return None
    record = block.values().get(EDIT)
    return record if isinstance(record, dict) and record.get("~~id") else None


def _rounds(record: Mapping[str, Any]) -> list[str]:
    """Return the later requests about a new text, which ``+:`` asked for."""
    later = record.get("message", [])
    return [str(one) for one in (later if isinstance(later, list) else [later])]


def _is_mark(block: Block, title: str) -> bool:
    return isinstance(block, HeadingBlock) and (block.level, block.title) == (6, title)


def old_view(blocks: Sequence[Block]) -> list[Block]:
    """Return the document without pending edits: the same block objects, except new texts and marks."""
    if not any(EDIT in block.source for block in blocks):
        return list(blocks)
    hidden: set[int] = set()
    for edit in find_edits(blocks):
        first_new = edit.start + (len(edit.old) + 1 if edit.old else 0)
        hidden |= {edit.start} if edit.old else set()
        hidden |= set(range(first_new, edit.end))
    return [block for i, block in enumerate(blocks) if i not in hidden]


# -- asking --------------------------------------------------------------------------------------


def ids_for(document: str) -> Callable[..., str]:
    """Return a function that makes unique short ids that do not occur in `document`; equal parts give equal ids."""
    used: set[str] = set()

    def new_id(*parts: str) -> str:
        digits = digest(*parts)
        pieces = (digits[i : i + 6] for i in range(len(digits) - 6))
        found = next(piece for piece in pieces if piece not in used and piece not in document)
        used.add(found)
        return found

    return new_id


def check_edit(
    blocks: Sequence[Block],
    index: int,
    extent: tuple[int, int],
    pending: Sequence[WaitingEdit],
    asked: Collection[int] = (),
) -> None:
    """Check that an edit of the blocks `extent` (start, end) can be placed beside them, for the metadata block `index`.

    `pending` are the edits of the document, `asked` the positions of the blocks in which others are asked for.

    Raises:
        LmmError: an edit is pending there, in the text, or around it; or the text leaves something open.
    """
    if inside := [i for i in (index, *range(*extent)) if i in asked or _record(blocks[i]) is not None]:
        where = "of" if inside[0] == index else "inside"
        hint = "lmm accept or lmm reject it first, or continue it: +: in its block"
        raise LmmError(f"an edit {where} this text is pending", hint=hint)
    if any(edit.block < index < edit.end for edit in pending):
        raise LmmError("an edit of the text around it is pending", hint="lmm accept or lmm reject it first")
    texts = (block.content for block in blocks[slice(*extent)] if isinstance(block, TextBlock))
    if blocks[max(extent[1], 1) - 1].source.endswith("\r"):  # with a line end below it would be another one
        raise LmmError("the text ends with half a line end", hint="end its last line as the others")
    for opened in filter(None, map(unclosed_construct, texts)):
        raise LmmError(f"'{opened[1]}' in the text is never closed: close it first")


def place_edit(
    blocks: Sequence[Block],
    index: int,
    extent: tuple[int, int],
    prompt: Prompt,
    reply: Reply,
    new: EditReply,
    edit_id: str,
    *,
    seen: Sequence[Block],
    pending: Sequence[WaitingEdit],
) -> list[Block]:
    """Place an answered edit beside the text that it is about.

    `index` is the metadata block with the prompt; `extent` the blocks (start, end) of the text to be replaced,
    empty if there is none; `new` is what `reply` contains; `seen` the blocks that the model saw, as the author may have
    changed them since; `pending` are the edits above it.

    Raises:
        MetadataError: nothing can be added to the block in its form.
        LmmError: it cannot be placed there (`check_edit`).
    """
    check_edit(blocks, index, extent, pending)
    block, (start, end) = blocks[index], extent
    assert isinstance(block, MetadataBlock)
    old, newline = list(blocks[start:end]), block.newline
    above = blocks[start - 1]
    added: list[Block] = [_text(source, newline) for source in (marker("new", edit_id) + "\n", NEW_HEADING)]
    added += [TextBlock(new.text.replace("\n", newline).rstrip("\r\n") + newline * 2, 0)]
    added += [_text(marker("end", edit_id) + "\n\n", newline)]
    record = {"edit": prompt.text} | ({REMARK: new.remark} if new.remark else {})
    record |= {"~~id": edit_id, "~~model": reply.model}
    record |= {"~~old": _mark_of(seen)} if old else {}
    record |= _warnings(new, reply)
    tail = None
    if old:
        # A blank line must precede the heading; if one is added, it is removed again later (`~~tail`).
        spaced = insert_blocks(old, len(old), added)
        if spaced[len(old) - 1].source != old[-1].source:
            tail = old[-1].trailing
        added = [_text(OLD_HEADING, newline), *spaced]
    elif insert_blocks([above], 1, added)[0].source != above.source:
        tail = above.trailing
    if tail is not None:
        record["~~tail"] = tail
    prompt = waiting_prompt(block, prompt)
    block = without_prompt(block.with_key(EDIT, record, before=prompt.start), prompt)
    before = [*blocks[:index], block, *blocks[index + 1 : start]]
    return [*before[:-1], *insert_blocks(before[-1:], 1, [*added, *blocks[end:]])]


def _warnings(new: EditReply, reply: Reply) -> dict[str, str]:
    wrong = [*((CUT,) if reply.cut else ()), *new.doubts]
    return {WARNING: "; ".join(wrong)} if wrong else {}


def place_revision(
    blocks: Sequence[Block], edit: WaitingEdit, prompt: Prompt, reply: Reply, new: EditReply
) -> list[Block]:
    """Replace the new text of a pending edit by that of a later round; the old text stays.

    Raises:
        MetadataError: nothing can be added to the block in its form.
    """
    block = blocks[edit.block]
    assert isinstance(block, MetadataBlock)
    record = dict(_record(block) or {})
    requests = [*_rounds(record), prompt.text]
    other_values = {
        key: value for key, value in record.items() if key not in ("edit", "message", REMARK, WARNING, "~~model")
    }
    record = {"edit": record.get("edit", ""), "message": requests} | ({REMARK: new.remark} if new.remark else {})
    record |= other_values | {"~~model": reply.model} | _warnings(new, reply)
    changed = without_prompt(block.with_key(EDIT, record), waiting_prompt(block, prompt))
    first = edit.end - 1 - len(edit.new)
    text = TextBlock(new.text.replace("\n", block.newline).rstrip("\r\n") + block.newline * 2, 0)
    return [*blocks[: edit.block], changed, *blocks[edit.block + 1 : first], text, *blocks[edit.end - 1 :]]


def _text(source: str, newline: str) -> TextBlock:
    """Return text for the new document; its kind of block is determined when the document is parsed again."""
    return TextBlock(source.replace("\n", newline), 0)


# -- resolving -----------------------------------------------------------------------------------


Verdict = Literal["accept", "reject", "again"]
Signature = Callable[..., MetadataBlock]
Refusals = list[tuple[int, str]]
"""The lines of edits that were not accepted, and why."""
_ADVICE = "--force accepts a loss; lmm reject --again --line {line} restores the old text and the question"
_CHANGED_ADVICE = "lmm reject --again --line {line} keeps your text and asks about it again"


def resolve(
    blocks: Sequence[Block],
    verdict: Verdict,
    *,
    line: int | None = None,
    force: bool = False,
    with_metadata: bool = False,
    sign: Signature | None = None,
) -> tuple[list[Block], list[WaitingEdit], Refusals]:
    """Accept or reject the pending edits of a document, or ask for them again.

    Return its blocks, the edits that were resolved, and why the others were not. With `line`, only the edit that covers
    it. Rejecting restores the old text byte for byte; ``again`` does so, too, and restores the
    prompt. Accepting keeps the new text with the author's changes to it; metadata in the old text stays before the
    heading or the paragraph before which it was. With `with_metadata`, the model's metadata becomes effective; `sign`
    records the model and the accepted paragraphs in a block. An edit that would lose text is accepted only by `force`,
    and none whose old text the author has changed.

    Raises:
        LmmError: an edit's marks are damaged, or no edit covers `line`.
    """
    edits = find_edits(blocks)
    chosen = edits if line is None else [edit for edit in edits if _covers(blocks, edit, line)][-1:]
    refused = Refusals()
    for edit in chosen if verdict == "accept" else ():
        found = (*((OLD_CHANGED,) * edit.old_changed), *(() if force else edit.losses))
        refused += [(edit.line, loss) for loss in found]
    lines = {at for at, _ in refused}
    chosen = [edit for edit in chosen if edit.line not in lines]
    resolved = chosen
    if with_metadata:
        inside = {i for edit in chosen for i in range(edit.start, edit.end)}
        blocks = [as_metadata(block) if i in inside else block for i, block in enumerate(blocks)]
        resolved = [edit for edit in find_edits(blocks) if edit.id in {other.id for other in chosen}]
    result = _resolve_edits(blocks, resolved, verdict, sign)
    if damaged := damaged_edits(result):
        hint = "restore '<!-- lmm:new … -->' and '<!-- lmm:end … -->', or correct the text and delete '~edit_'"
        raise LmmError(f"the edit in the block at line {damaged[0]} lacks its marks", hint=hint)
    if line is not None and not chosen and not refused:
        raise LmmError(f"no edit is pending at line {line}", hint=_where_pending(edits))
    return result, chosen, refused


def edit_error(refused: Refusals, accepted: int = 0) -> EditError:
    """Return the error for edits that were not accepted."""
    advice = _CHANGED_ADVICE if refused[0][1] == OLD_CHANGED else _ADVICE
    return EditError(refused, hint=advice.format(line=refused[0][0]), accepted=accepted)


def _where_pending(edits: Sequence[WaitingEdit]) -> str:
    return f"edits are pending at {', '.join(str(edit.line) for edit in edits)}" if edits else "none is pending"


@dataclass(frozen=True, slots=True)
class EditHunk:
    """Lines that an edit changes; `line` is the position of the new ones in the document."""

    line: int
    old: str
    new: str


def hunks_of(edit: WaitingEdit) -> list[EditHunk]:
    """Return the changes of an edit, in order, ignoring blank lines below both texts."""
    old, new = _pieces(edit.old), _pieces(_with_metadata_of(edit.old, edit.new)[0])
    first = edit.new[0].line if edit.new else edit.line
    lines = [first, *(first + done.count("\n") for done in accumulate(new))]
    return [EditHunk(lines[c], "".join(old[a:b]), "".join(new[c:d])) for a, b, c, d in _changes(old, new)]


def _pieces(blocks: Sequence[Block]) -> list[str]:
    """Split a text into what a change may consist of: sentences in prose, else lines."""
    text = serialize(blocks).rstrip()
    found = list[str]()
    for block in parse_markdown_text(text + "\n") if text else ():
        source = block.source
        if (
            isinstance(block, TextBlock)
            and kind_of(source) == "prose"
            and source[0].isalnum()
            and "\n    " not in source
        ):
            ends = [start for _, start in sentence_ends(source)]
            found += [source[a:b] for a, b in pairwise([0, *ends, len(source)])]
        else:
            found += source.splitlines(keepends=True)
    return found


def _changes(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return where two texts differ; what opens and what closes the same thing is one change. Lines that break
    elsewhere in a sentence are no change."""
    found = list(hunks([*map(_on_one_line, old)], [*map(_on_one_line, new)]))
    kinds = ("code_block", "math", "div", "comment", "raw", "html")
    for side, pieces in ((0, old), (2, new)):
        ends = [*accumulate(map(len, pieces))]
        for span in (span for span in spans("".join(pieces)) if span.kind in kinds):
            first, last = bisect_right(ends, span.start), bisect_right(ends, span.end - 1)
            touched = [i for i, h in enumerate(found) if any(h[side] <= at < h[side + 1] for at in (first, last))]
            if len(touched) > 1:
                (a, _, c, _), (_, b, _, d) = found[touched[0]], found[touched[-1]]
                found[touched[0] : touched[-1] + 1] = [(a, b, c, d)]
    return found


def _on_one_line(piece: str) -> str:
    """Return a sentence on one line, without the space or line end below it; hard breaks and blank lines stay."""
    return re.sub(r"(?<=\S)(?: |\r?\n)\Z", "", re.sub(r"(?<=\S)\r?\n(?=\S)", " ", piece))


def _joined(before: Sequence[str], last: Sequence[str], *others: Sequence[str]) -> str:
    """Join pieces; where `before` ends without white space, it gets that of its counterpart, which is in `last`."""
    gap = last[-1][len(last[-1].rstrip()) :] if before and last and before[-1] == before[-1].rstrip() else ""
    text = "".join(before) + (gap if any(others) else "")
    return "".join([text, *(piece for some in others for piece in some)])


def resolve_hunk(
    blocks: Sequence[Block],
    verdict: Verdict,
    number: int,
    line: int | None = None,
    force: bool = False,
    sign: Signature | None = None,
) -> list[Block]:
    """Accept or reject one change, numbered from 1, of the edit that covers `line`, or of the only one.

    Accepting applies it to the old text, too; rejecting removes it from the new text. The others stay pending; the last
    one ends the edit. `sign` records the paragraphs with an accepted change (see `resolve`).

    Raises:
        EditError: accepting it would lose something that the whole edit loses, and `force` is not set; or the author
            changed the old text.
        LmmError: there is no such change, or several edits are pending without `line`.
    """
    pending = find_edits(blocks)
    edits = [edit for edit in pending if line is None or _covers(blocks, edit, line)]
    if not pending:
        raise LmmError("no edit is pending", hint="ask for one with =: and lmm messages")
    if not edits or (len(edits) > 1 and line is None):
        raise LmmError("choose an edit by its line", hint=_where_pending(pending))
    edit = edits[-1]
    # Metadata that stays is no change.
    old, new = _pieces(edit.old), _pieces(_with_metadata_of(edit.old, edit.new)[0])
    found = _changes(old, new)
    if not 0 < number <= len(found):
        raise LmmError(f"this edit has no change number {number}", hint=f"it has {len(found)}")
    if edit.old_changed:
        raise edit_error([(edit.line, OLD_CHANGED)])
    sign = sign and partial(sign, before=[one.content for one in _visible(edit.old)])
    if len(found) == 1:
        result, _, refused = resolve(blocks, verdict, line=edit.line, force=force, sign=sign)
        if refused:
            raise edit_error(refused)
        return result
    a, b, c, d = found[number - 1]
    if verdict == "accept":
        text = _joined(old[:a], new[:c], new[c:d], old[b:])
        now = _losses(edit.old, parse_markdown_text(text), edit.prompt)
        lost = [loss for loss in now if not force and loss in edit.losses]
        if lost:
            raise edit_error([(edit.line, loss) for loss in lost])
        return _with_old(blocks, edit, text, sign)
    first = blocks.index(edit.new[0])
    text = _joined(new[:c], old[:a], old[a:b], new[d:])
    return _put(blocks, first, first + len(edit.new), text)


def _with_old(blocks: Sequence[Block], edit: WaitingEdit, text: str, sign: Signature | None) -> list[Block]:
    """Replace the old text of an edit, as if the model had seen the new one."""
    first = edit.start + 1
    placed = _put(blocks, first, first + len(edit.old), text)
    changed = next(other for other in find_edits(placed) if other.id == edit.id)
    block = placed[changed.block]
    record = _record(block)
    assert isinstance(block, MetadataBlock)
    assert record is not None
    texts = _visible(changed.old)
    block = block.with_key(EDIT, record | {"~~old": _mark_of(texts)})
    placed[changed.block] = sign(block, edit.model, [one.content for one in texts]) if sign else block
    return placed


def _put(blocks: Sequence[Block], start: int, end: int, text: str) -> list[Block]:
    """Replace blocks by a text, keeping the blank lines at their end."""
    was = serialize(blocks[start:end])
    text = text.rstrip() + was[len(was.rstrip()) :]
    return parse_markdown_text(serialize(blocks[:start]) + text + serialize(blocks[end:]))


def _resolve_edits(
    blocks: Sequence[Block],
    edits: Sequence[WaitingEdit],
    verdict: Verdict,
    sign: Signature | None = None,
) -> list[Block]:
    """Accept or reject the given edits, which are in the order of the document; return all blocks."""
    result, last = list(blocks), list[Block]()
    for edit in reversed(edits):  # last first: the positions of the others stay valid
        above, text = result[edit.block : edit.start], _with_tail(list(edit.old), edit.tail)
        if verdict == "accept":
            text, tail = _with_metadata_of(edit.old, edit.new)[0], edit.tail
            text = _with_tail(text, edit.old[-1].trailing if tail is None else tail) if edit.old else text
        elif not edit.old:  # the block above the empty place ended differently
            above = _with_tail(above, edit.tail)
        block = above[0]
        assert isinstance(block, MetadataBlock)
        block = block.without_key(EDIT)
        if verdict == "again":
            block = block.with_body(add_prompt(block.body, "edit", edit.prompt, newline=block.newline))
        if sign is not None and verdict == "accept":
            block = sign(block, edit.model, [new.content for new in _visible(edit.new)])
        after = [*above[1:], *text]
        following = next(iter([*after, *result[edit.end : edit.end + 1]]), None)
        result[edit.block : edit.end] = placed = [*unless_emptied(block, following), *after]
        last += placed[-1:] or result[max(edit.block - 1, 0) : edit.block]
    # A blank line after those that would otherwise continue in the block below, which the author may have written
    # since; a new list or quotation would continue in the fence of a div.
    touched, wrong = {id(block) for block in last}, {id(block) for block in misread(result)}
    for i, (block, below) in enumerate(pairwise(result)):
        inner = verdict == "accept" and (ITEM.match(block.content) or block.content.startswith((" ", "\t", ">")))
        runs_on = (inner and below.content.startswith(":::")) or not wrong.isdisjoint((id(block), id(below)))
        result[i] = ended(block, block.newline) if id(block) in touched and runs_on else block
    return result


def _covers(blocks: Sequence[Block], edit: WaitingEdit, line: int) -> bool:
    last = blocks[edit.end - 1]
    after = blocks[edit.end].line if edit.end < len(blocks) else last.line + last.source.count("\n") + 1
    return edit.line <= line < after


def _with_tail(blocks: list[Block], tail: str | None) -> list[Block]:
    """Make the last of `blocks` end as the text did before the edit."""
    if tail is not None and blocks:
        last = blocks[-1]
        content = last.source[: len(last.source) - len(last.trailing)]
        blocks[-1] = last.with_source(content + tail)
    return blocks


def _with_metadata_of(
    old: Sequence[Block], new: Sequence[Block]
) -> tuple[list[Block], list[tuple[MetadataBlock, str]]]:
    """Add the metadata in an old text to a new one, before the heading, or the same paragraph, that it stands before.

    Also return the metadata for which the new text has no place, or several, and what it stands before. Metadata that
    the author has put into the new text is there.
    """
    result, homeless = list(new), list[tuple[MetadataBlock, str]]()
    new_bodies = {block.body for block in new if isinstance(block, MetadataBlock)}
    below: Block | None = None
    for block in reversed(old):
        if not isinstance(block, MetadataBlock):
            below = block
        elif block.body in new_bodies or not block.body.strip():
            continue
        elif below is None:
            result.append(block)
        else:
            same = [i for i, one in enumerate(result) if _signs(one) == _signs(below)]
            if len(same) == 1:
                result.insert(same[0], block)
            else:
                homeless.insert(0, (block, below.content))
    return result, homeless


def _signs(block: Block) -> tuple[object, ...]:
    """Return what a heading, or a paragraph, has in common with the same one in another text."""
    if isinstance(block, HeadingBlock):
        return block.kind, block.level, block.title
    return block.kind, block.content


# -- what may be saved --------------------------------------------------------------------------------


def is_sound(before: str, after: str, *, fixed: bool = False) -> bool:
    """Return whether a change has no side effects on how the rest of the document is read.

    Side effects are lines of metadata that have become text or headings, or the reverse, and damaged edits.
    If a prompt was `fixed`, the heading below it may have been text, and the metadata around it unreadable.

    >>> is_sound("---\\n?: why?\\n\\ntitle: T\\n---\\n", "---\\n\\ntitle: T\\n---\\n")
    False
    """
    one, two = parse_markdown_text(before), parse_markdown_text(after)
    if len(damaged_edits(two) + orphaned_marks(two)) > len(damaged_edits(one) + orphaned_marks(one)):
        return False
    # A line that occurs less often in blocks of one kind, and more often in those of another, is read differently.
    lines, lines_now = _lines_by_kind(one), _lines_by_kind(two)
    more = lines_now - lines
    by_fix = {("text", "heading"), ("error", "metadata")} if fixed else set()
    kinds = {kind for kind, _ in more}
    fewer = lines - lines_now
    return not any((new, line) in more and (old, new) not in by_fix for old, line in fewer for new in kinds)


def _lines_by_kind(blocks: list[Block]) -> Counter[tuple[str, str]]:
    """Count lines by kind of block, except those of prompts and models' metadata, which may change their kind."""
    found = Counter[tuple[str, str]]()
    for block in blocks:
        kind, source = block.kind, block.content
        if isinstance(block, MetadataBlock):
            kind, source = "metadata", mask_prompts(block.body, block.prompts)
        if not block.content.startswith(MODELS_METADATA):
            found.update((kind, line) for line in map(str.strip, source.splitlines()) if line.strip("-.#"))
    return found
