"""An answer that arrives in pieces, split into finished blocks, which are verified, rendered and sent once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace

from lmm.errors import LmmError
from lmm.markdown.parse_markdown import unclosed_construct
from lmm.markdown.sentences import sentence_ends
from lmm.messages import Retrying, TextDelta
from lmm_education.answer.answer import Answer, AnswerBlock, AnswerEvent, Called
from lmm_education.answer.verification import checked_quotations, verify
from lmm_education.material import Passage

_FENCE = re.compile(r"\n* {0,3}(?P<marks>`{3,}|~{3,})(?:(?<=~)[^\n]*|[^`\n]*)\n")
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_CLOSERS = {"\\[": "\\]", "\\begin{": "\\end{"}
# One answer after the other: more threads that compute would keep the event loop, and so all words, waiting.
_VERIFYING = ThreadPoolExecutor(1, "verify")
_BEGINNING = 12  # characters of a line in which a new item of a list begins
_MARKUP = frozenset('`$<>\\|"“”„«»')  # what may go on after a sentence: code, formulas, tags, tables, quotations
_LONGEST = 1000  # characters that are searched for the end of a sentence


class BlockStream:
    """Splits a text that arrives in pieces wherever a block has certainly ended, or in it a line of code, an item of a
    list, or a sentence of plain text.

    >>> stream = BlockStream()
    >>> pieces = "One.\\n\\n- Tw", "o\\n- Three\\n- Fo", "ur\\n\\n```r\\nx\\n", "y\\n```\\n\\nEnd"
    >>> [(block.text, block.ends) for piece in pieces if (block := stream.feed(piece))]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('One.\\n\\n', True), ('- Two\\n- Three\\n', False), ('- Four\\n\\n', True), ('```r\\nx\\ny\\n```\\n', True)]
    >>> stream.rest().text
    '\\nEnd'
    >>> [block and block.text for block in map(BlockStream().feed, ("Leaves are", " green [1]. Th", "ey [see"))]
    [None, 'Leaves are green [1]. ', None]
    """

    def __init__(self) -> None:
        self._tail, self._emitted, self._read = "", 0, 0  # of the tail, how much was returned, and searched for an end

    def feed(self, piece: str) -> AnswerBlock | None:
        """Add a piece; return what it completes, if anything."""
        self._tail += piece
        if fence := _FENCE.match(self._tail):
            closing = re.compile(rf"\n {{0,3}}{fence['marks']}{fence['marks'][0]}*[ \t]*\n")
            if closed := closing.search(self._tail, max(fence.end(), self._emitted) - 1):
                return self._until(closed.end(), is_code=True)
            return self._part(self._tail.rfind("\n") + 1, is_code=True)
        end = self._tail.rfind("\n\n", self._read) + 2
        if end >= 2 and _is_whole(self._tail[:end]):
            return self._until(end)
        if end >= 2:
            self._read = end + end // 16  # a long block is not checked again after every line
        if len(self._tail) - self._tail.rfind("\n") < _BEGINNING and _ITEM.match(self._tail):
            *_, item = (match.start() for match in _ITEM.finditer(self._tail))
            return self._part(0 if unclosed_construct(self._tail[:item]) else item)
        return None if _ITEM.match(self._tail) else self._part(self._sentences())

    def rest(self) -> AnswerBlock | None:
        """Return what is left at the end, if anything."""
        is_code = _FENCE.match(self._tail) is not None
        return self._until(len(self._tail), is_code=is_code) if self._tail else None

    def _sentences(self) -> int:
        """Return the end of the sentences of plain text after what was returned; 0 if there is none."""
        text = self._tail[self._emitted :]
        if len(text) > _LONGEST:
            return 0
        *_, end = (0, *(begin for _, begin in sentence_ends(text)))
        found = text[:end]
        is_plain = _MARKUP.isdisjoint(found) and all(found.count(a) == found.count(b) for a, b in ("[]", "()"))
        return self._emitted + end if end and is_plain else 0

    def _part(self, end: int, *, is_code: bool = False) -> AnswerBlock | None:
        part, self._emitted = self._tail[self._emitted : end], max(self._emitted, end)
        return AnswerBlock(part, ends=False, is_code=is_code) if part else None

    def _until(self, end: int, *, is_code: bool = False) -> AnswerBlock:
        block = AnswerBlock(self._tail[self._emitted : end], is_code=is_code)
        self._tail, self._emitted, self._read = self._tail[end:], 0, 0
        return block


def _is_whole(text: str) -> bool:
    """Return whether a text ends outside of code and formulas."""
    lines = f"\n{text}"
    closed = (lines.count(f"\n{mark}") <= text.count(closer) for mark, closer in _CLOSERS.items())
    return unclosed_construct(text) is None and all(closed)


async def verified(
    events: AsyncGenerator[AnswerEvent], sources: Iterable[Passage], dialogue: str
) -> AsyncGenerator[AnswerEvent]:
    """Iterate over the same events and the blocks of the text, with the quotations that are neither in the sources nor
    in the `dialogue` before, and add the verification to the answer."""

    def checked(block: AnswerBlock) -> AnswerBlock:
        found = [] if block.is_code else checked_quotations(block.text, sources, dialogue)
        return replace(block, failures=tuple(each for each in found if each.found != "exact"))

    blocks = BlockStream()
    try:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Retrying | Called):
                    blocks = BlockStream()
                elif isinstance(event, Answer):
                    if rest := blocks.rest():
                        yield checked(rest)
                    turn = asyncio.get_running_loop().run_in_executor(
                        _VERIFYING, verify, event.text, event.offered, dialogue
                    )
                    event = replace(event, verification=await turn)
                yield event
                if isinstance(event, TextDelta) and (block := blocks.feed(event.text)):
                    yield checked(block)
    except LmmError:
        if rest := blocks.rest():
            yield checked(rest)
        raise
