"""What a new text has lost, or writes otherwise than its document, and is put back where there is only one way."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from lmm.errors import EmptyReply
from lmm.markdown.blocks import (
    Block,
    ErrorBlock,
    HeaderBlock,
    HeadingBlock,
    MetadataBlock,
    TextBlock,
    insert_blocks,
    serialize,
)
from lmm.markdown.parse_markdown import parse_markdown_text, unclosed_construct
from lmm.markdown.spans import spans
from lmm.markdown.units import kind_of
from lmm.notebook.edit_reply import EditReply, no_edit, read_edit_reply
from lmm.notebook.edit_warnings import MODELS_METADATA, asks_for, leaves_comment_open, says_nothing, without_heading

MARKS = ("<!-- lmm:new ", "<!-- lmm:end ")
_NOTE = re.compile(r"\[\^([^\[\]\s]+)\]")
_FENCE = re.compile(r"^[ ]{0,3}(:{3,})[ \t]*(\S?)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EditRequest:
    """What an edit was asked of: the `old` text, the author's `prompt`, its section's `heading`, the header.

    `latest` is the new text that the author wants to be changed once more.
    """

    old: str
    prompt: str = ""
    latest: str = ""
    heading: HeadingBlock | None = None
    header: Mapping[str, Any] = field(default_factory=dict)


def new_text(reply: str, request: EditRequest) -> EditReply:
    """Read a reply to a request for an edit, and return it with its text as it can take the place of the old one.

    Raises:
        NoEdit: the model refused, changed nothing, or sent something else than one text.
        EmptyReply: the new text is empty, but for comments.
    """
    found = read_edit_reply(reply, request.old, request.prompt)
    text = restored(found.text, request)
    if says_nothing(text):
        raise EmptyReply("the reply is empty", hint="try again, or rephrase the prompt")
    if _lines(text) == _lines(request.latest or request.old):
        raise no_edit("the model changed nothing", found.remark)
    return replace(found, text=text)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def restored(new: str, request: EditRequest) -> str:
    r"""Return a new text as it can take the place of the old one.

    The repeated heading and front matter go, headings get the level of their section, formulas the document's dollars;
    a lost footnote label, table caption or the fences around a div come back. The model's metadata becomes a comment.

    >>> restored("Mind \\(x\\).\n", EditRequest("::: {.note}\nMind $x$!\n:::\n"))
    '::: {.note}\nMind $x$.\n:::\n'
    """
    old = request.old.replace("\r\n", "\n")
    text = _without_front_matter(new, request.header)
    text = without_heading(text, request.heading.title if request.heading else "")
    text = _with_levels(text, old, request.heading)
    text = _with_dollars(text, old)
    text = _with_note_label(text, old)
    text = _with_caption(text, old)
    if not asks_for(request.prompt, "div"):
        text = _with_div(text, old)
    return without_marks(text, old)


def without_marks(text: str, old: str = "") -> str:
    """Close what a text leaves open, and disarm metadata and marks of ours in it, unless the author wrote them so."""
    text = closed(text)
    if "---" in text:
        blocks = parse_markdown_text(text)
        text = closed(serialize(b if b.content in old else _as_comment(b) for b in blocks))
    if "<!-- lmm:" not in text:
        return text
    # After accepting, these marks would belong to no edit.
    return serialize([block for block in parse_markdown_text(text) if not is_mark(block)])


def is_mark(block: Block) -> bool:
    """Return whether a block is one of our comments about edits."""
    return "<!-- lmm:" in block.source and block.content.startswith(MARKS) and len(block.content.split()) == 4


def _without_front_matter(text: str, header: Mapping[str, Any]) -> str:
    """Remove a front matter that repeats the author's."""
    if not text.lstrip().startswith("---"):
        return text
    first, *rest = parse_markdown_text(text.lstrip())
    values = first.values() if isinstance(first, HeaderBlock) else {}
    repeats = values and rest and all(header.get(key) == value for key, value in values.items())
    return serialize(rest) if repeats else text


def _with_levels(text: str, old: str, heading: HeadingBlock | None) -> str:
    """Move all headings by as many levels as puts them under the section's, or to the levels that they had."""
    blocks = parse_markdown_text(text)
    levels = [block.level for block in blocks if isinstance(block, HeadingBlock)]
    before = [block.level for block in parse_markdown_text(old) if isinstance(block, HeadingBlock)]
    if not levels:
        return text
    shifts = {was - now for was, now in zip(before, levels, strict=False)}
    shift = next(iter(shifts)) if len(before) == len(levels) and len(shifts) == 1 else 0
    if heading is not None and not shift and min(levels) <= heading.level:
        shift = heading.level + 1 - min(levels)
    if not shift or max(levels) + shift > 6:
        return text
    return serialize(
        b.with_source(b.source.replace("#" * b.level, "#" * (b.level + shift), 1)) if isinstance(b, HeadingBlock) else b
        for b in blocks
    )


def _outside_code(text: str, pattern: str, new: Callable[[re.Match[str]], str]) -> str:
    """Replace matches of a pattern that are not in code, comments or formulas."""
    inside = _within(text, "code", "code_block", "comment", "math")
    return re.sub(pattern, lambda match: match[0] if inside(match.start()) else new(match), text, flags=re.DOTALL)


def _within(text: str, *kinds: str) -> Callable[[int], bool]:
    """Return a function that tells whether an offset is within a span of these kinds."""
    found = [span for span in spans(text, in_list=True) if span.kind in kinds]
    starts, ends = [span.start for span in found], [0, *accumulate((span.end for span in found), max)]
    return lambda at: at < ends[bisect_right(starts, at)]


def _with_dollars(text: str, old: str) -> str:
    if "\\(" not in old:
        text = _outside_code(text, r"(?<!\\)\\\([ \t]*([^\n]+?)[ \t]*(?<!\\)\\\)", lambda match: f"${match[1]}$")
    if "\\[" not in old:
        text = _outside_code(
            text,
            r"(?<!\\)\\\[((?:(?!\n[ \t]*\n|\\\]).)*[\\=^_+<>](?:(?!\n[ \t]*\n|\\\]).)*)\\\]",
            lambda match: f"$${match[1]}$$",
        )
    return text


def _with_note_label(text: str, old: str) -> str:
    """Give a footnote its label back, if exactly one label has gone and one has come."""
    was, now = dict.fromkeys(_NOTE.findall(old)), dict.fromkeys(_NOTE.findall(text))
    gone, come = [one for one in was if one not in now], [one for one in now if one not in was]
    if len(gone) != 1 or len(come) != 1:
        return text
    return _outside_code(text, re.escape(f"[^{come[0]}]"), lambda match: f"[^{gone[0]}]")


def _with_caption(text: str, old: str) -> str:
    """Put a table's caption, or its id, back, if there is one table with a caption, and one without."""
    was, now = parse_markdown_text(old), parse_markdown_text(text)
    tables, captions = ([b for b in was if _is(b, kind)] for kind in ("table", "caption"))
    here = [i for i, block in enumerate(now) if _is(block, "table")]
    written = [i for i, block in enumerate(now) if _is(block, "caption")]
    if not len(tables) == len(captions) == len(here) == 1:
        return text
    caption = captions[0].content
    if not written:
        above = was.index(captions[0]) < was.index(tables[0])
        return serialize(insert_blocks(now, here[0] + (not above), [TextBlock.make(caption)]))
    group = re.search(r"[ \t]*\{#[^{}\n]*\}\s*\Z", caption)
    block = now[written[0]]
    if len(written) == 1 and group and "{" not in block.content:
        now[written[0]] = block.with_source(block.content + group[0].rstrip() + block.trailing)
    return serialize(now)


def _is(block: Block, kind: str) -> bool:
    return isinstance(block, TextBlock) and kind_of(block.source) == kind


def _with_div(text: str, old: str) -> str:
    """Put the fences of a div back around the text, if the old text was one div."""
    first, _, rest = old.strip().partition("\n")
    last = rest.rpartition("\n")[2]
    opened, ends = _div_lines(old.strip()), _div_lines(text)
    if not (_FENCE.match(first) and opened and opened[-1] == (0, last.strip())) or first.strip(": \t") == "":
        return text
    lost = len(opened) - len(ends)
    whole = [depth for depth, _ in opened].count(0) == 2  # one div, whose fences are the first line and the last
    if lost != 2 or not whole or first.strip() in text:
        return text
    return f"{first}\n{text.strip(chr(10))}\n{last}\n"


def _div_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that open or close a div outside of code, with the depth at which they do."""
    inside = _within(text, "code_block", "comment")
    found, depth = [], 0
    for match in _FENCE.finditer(text):
        if inside(match.start()):
            continue
        depth -= not match[2]
        found.append((depth, match[0].strip()))
        depth += bool(match[2])
    return found


# -- what is open --------------------------------------------------------------------------------------


def closed(text: str) -> str:
    """Close constructs left open in `text`, which would swallow the end mark; remove fences that close other divs.

    >>> closed("::: {.note}\\nA leaf.\\n"), closed("A leaf.\\n\\n:::\\n")
    ('::: {.note}\\nA leaf.\\n:::\\n', 'A leaf.\\n\\n')
    """
    opened = unclosed_construct(text)
    if opened is not None:
        text = text.rstrip("\n") + "\n" + ("-->" if opened[1] == "<!--" else opened[1])
    if leaves_comment_open(text):
        text = text.rstrip("\n") + "\n-->"
    return _with_whole_divs(text) if ":::" in text else text


def _with_whole_divs(text: str) -> str:
    """Add a fence for each div that `text` leaves open, and remove fences that would close a div around it."""
    lines, depth, kept = text.split("\n"), 0, list[str]()
    inside = _within(text, "code_block", "comment", "math")
    at = 0
    for line in lines:
        fence = None if inside(at) else _FENCE.match(line)
        at += len(line) + 1
        if fence is not None and not fence[2] and not depth:
            continue
        depth += 0 if fence is None else 1 if fence[2] else -1
        kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n:::" * depth + "\n" if depth else "\n".join(kept)


def _as_comment(block: Block) -> Block:
    if not isinstance(block, MetadataBlock | ErrorBlock):
        return block
    lines = MetadataBlock(block.source, block.line).body.replace("-->", "--\\>").rstrip("\n")
    return TextBlock(f"{MODELS_METADATA}\n{lines}\n-->\n\n", block.line)


def as_metadata(block: Block) -> Block:
    """Turn a comment with the model's metadata back into the metadata block that the model wrote."""
    if not block.content.startswith(MODELS_METADATA):
        return block
    body = block.content.removeprefix(MODELS_METADATA).removesuffix("-->").replace("--\\>", "-->")
    return TextBlock.make(f"---{body}---", newline=block.newline, line=block.line)
