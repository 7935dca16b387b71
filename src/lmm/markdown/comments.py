"""Comments: HTML's, and Obsidian's ``%% … %%``, in a line or over several. They are neither sent to a model nor
published."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.spans import replace_spans, spans

_MARK = re.compile(r"(?<!%)%%(?!%)")
_OPERAND = re.compile(r"(?:\b\w|\d|\))([ ]?)\Z")  # before an operator, as in 5 %% 3
_SECOND = re.compile(r"%%[ ]?(?:\d|[^\W\d]\b|\w+\(|\()")
_VERBATIM = ("code", "code_block", "math", "comment")


def percent_comments(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over where Obsidian's comments begin and end: those that are closed, outside code and formulas.

    >>> list(percent_comments("In 1 %% later %% b, `%% c %%`, 5 %% 3, 7 %% 3, %% open"))
    [(5, 16)]
    """
    marks, begun = [match.start() for match in _MARK.finditer(text)], -1
    blank = replace_spans(text, lambda span: " " * (span.end - span.start) if span.kind in _VERBATIM else None)
    for at in marks:
        if blank[at] != "%":
            continue
        if begun >= 0:
            yield begun, at + 2
            begun = -1
        else:
            operand = _OPERAND.search(text, max(0, at - 3), at)
            begun = at if operand is None or (operand[1] and not _SECOND.match(text, at)) else -1


def without_percent_comments(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks without Obsidian's comments, which may reach over several. Lines and metadata stay where they are.

    >>> from lmm.markdown import parse_markdown_text, serialize
    >>> serialize(without_percent_comments(parse_markdown_text("See %% b\\n\\nc %% d.\\n")))
    'See \\n\\n d.\\n'
    """
    if not any("%%" in block.source for block in blocks):
        return list(blocks)
    masked = (re.sub(r"[^\n]", " ", b.source) if isinstance(b, MetadataBlock) else b.source for b in blocks)
    cuts, at, result = deque(percent_comments("".join(masked))), 0, list[Block]()
    for block in blocks:
        source, pieces, begins = block.source, list[str](), 0
        while cuts and cuts[0][0] < at + len(source):
            start, end = max(cuts[0][0] - at, 0), min(cuts[0][1] - at, len(source))
            if not isinstance(block, MetadataBlock):
                pieces += [source[begins:start], "\n" * source.count("\n", start, end)]
                begins = end
            if cuts[0][1] > at + len(source):
                break  # it goes on in the next block
            cuts.popleft()
        result.append(block.with_source("".join([*pieces, source[begins:]])) if begins else block)
        at += len(source)
    return result


def is_comment(text: str) -> bool:
    """Return whether a block is nothing but an HTML comment.

    >>> is_comment("<!-- later -->"), is_comment("<!-- a --> text")
    (True, False)
    """
    if not text.lstrip().startswith("<!--"):
        return False
    found = next(iter(spans(text)), None)
    is_first = found is not None and found.kind == "comment" and not text[: found.start].strip()
    return is_first and found is not None and not text[found.end :].strip()
