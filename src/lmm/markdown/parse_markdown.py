"""Text to blocks: lossless, linear in the text, and never raising.

The parser jumps from one line that can matter to the next (a regular expression finds blank lines and
the openings of opaque constructs), so that prose costs next to nothing. What a block start means is
decided by the rules in `_Parser._block`, in this order: metadata, heading, fence of a div, text.

The dialect is Pandoc's markdown as the seed restricts it; docs/formats.md has the rules with examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from lmm.errors import Finding
from lmm.markdown import blocks, metadata
from lmm.markdown.blocks import Block, ErrorBlock, ForeignHeader, HeaderBlock, HeadingBlock, MetadataBlock, TextBlock
from lmm.markdown.foreign_headers import foreign_header_end
from lmm.markdown.inline import closing_fence

serialize = blocks.serialize  # as the seed calls it

_BLANKS = r"(?:[ \t]*\r?\n)*(?:[ \t]+\Z)?"
_BLANK_LINES = re.compile(rf"[ \t]*(?:\r?\n)?{_BLANKS}")
_HASHES = r" {0,3}#{1,6}(?:[ \t]|\r?(?:\n|\Z))"
_HEADING = re.compile(rf" {{0,3}}#{{1,6}}(?:[ \t][^\n]*|\r?(?=\n|\Z))(?:\n|\Z){_BLANKS}")
METADATA_OPEN = re.compile(r"---[ \t]*(?:#[^\n]*)?\r?\n(?![ \t]*(?:\r?\n|\Z))")
# Begins with the line end before the marker: a literal first character is what the search jumps to. No metadata goes
# on over a comment of HTML: it would make of an author's rule and a model's words below it one block that asks.
_METADATA_CLOSE = re.compile(rf"\n(?:(?P<comment><!--)|(?:---|\.\.\.)[ \t]*(?:#[^\n]*)?(?:\r?\n{_BLANKS}|\r?\Z))")
# Where a broken block ends at the latest: after blank lines that no indented line continues. (It starts
# at a visible character, so that a run of blank lines is read once and not once from each of them.)
_RECOVERY = re.compile(r"[^ \t\r\n][ \t\r]*\n(?:[ \t]*\r?\n)++(?![ \t])")
_HEADING_AHEAD = re.compile(rf"\n(?={_HASHES})")

_LIST_ITEM = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_OPAQUE = rf"[ \t]*{_LIST_ITEM}(?P<mark>`{{3,}}|~{{3,}}|\$\$|<!--)"
# A line of a fenced div is a block; other dialects write a title behind its name. One that opens it stands where a
# block may begin; one that closes it ends any text.
FENCE = re.compile(rf" {{0,3}}:{{3,}}[ \t]*(?P<opens>(?:\{{[^}}\n]*\}}|[^\s:{{}}]+)[^\n]*)?[ \t]*\r?(?:\n{_BLANKS}|\Z)")
_TEXT_STOP = re.compile(rf"\n(?:[ \t]*\r?\n{_BLANKS}|(?P<fence> {{0,3}}:{{3,}}[ \t]*\r?(?:\n|\Z))|{_OPAQUE})")
_OPAQUE_START = re.compile(_OPAQUE)
# The rest of a line after which a block may start without a blank line, and which one.
_BEFORE = re.compile(
    rf"[ \t]*\r?\n(?:(?P<metadata>(?=---[ \t]*(?:#[^\n]*)?\r?\n))|(?P<block>(?={_HASHES}| {{0,3}}(?::::|```|~~~)))"
    r"|(?P<text>(?=[ \t]*[^ \t\r\n])))"
)
_TARGETS = re.compile(rf"(?:\([^()\s][^()\n]*\)=[ \t]*\r?\n)++(?={_HASHES})")  # of MyST, above what they name
_OUR_MARK = "<!-- lmm:"
# An item of a list: what is indented as far as its text, belongs to it.
_ITEM = re.compile(r" {0,3}(?:[-*+]|\(?(?:\d{1,9}|#)[.)])[ \t]+(?=\S)")


def parse_markdown_text(text: str) -> list[Block]:
    """Parse a markdown document into blocks, in order; their joined sources always equal `text`.

    The empty string gives the empty list.

    >>> [b.kind for b in parse_markdown_text("---\\ntitle: T\\n---\\n# A\\n\\n---\\n?: why?\\n---\\nBecause.\\n")]
    ['header', 'heading', 'metadata', 'text']
    """
    return list(iter_blocks(text))


def iter_blocks(text: str) -> Iterator[Block]:
    """Iterate over the blocks of a document, parsing each on demand: to get the header, the rest is not parsed.

    >>> next(iter_blocks("---\\ntitle: x\\n---\\n# A\\n")).kind
    'header'
    """
    return _Parser(text).blocks()


@lru_cache(maxsize=2)
def first_block(text: str) -> Block | None:
    """Return the first block of a document; cached for the last ones, because several functions ask for it."""
    return next(iter_blocks(text), None)


def header_of(blocks: Iterable[Block]) -> HeaderBlock | None:
    """Return the header if a document begins with a valid one; only the first block is parsed."""
    first = next(iter(blocks), None)
    return first if isinstance(first, HeaderBlock) else None


def header_values(text: str) -> dict[str, Any]:
    """Return the metadata of a text's header, in any notation; empty if it has none.

    >>> header_values("---\\ntitle: x\\n---\\n# A\\n"), header_values("% x\\n\\n# A\\n"), header_values("# A\\n")
    ({'title': 'x'}, {'title': 'x'}, {})
    """
    first = first_block(text)
    if isinstance(first, ForeignHeader):
        return first.values
    return first.values() if isinstance(first, HeaderBlock) else {}


def misread(blocks: Sequence[Block]) -> list[Block]:
    """Return those of `blocks` that would be parsed as something else if all were written one after the other.

    >>> [block.source for block in misread([HeadingBlock("# A\\n", 1), TextBlock("one\\n", 2), TextBlock("two\\n", 3)])]
    ['one\\n', 'two\\n']
    """
    found = dict(_with_places(iter_blocks("".join(block.source for block in blocks))))
    return [
        block
        for at, block in _with_places(blocks)
        if not isinstance(read := found.get(at), type(block)) or read.content != block.content
    ]


def _with_places(blocks: Iterable[Block]) -> Iterator[tuple[int, Block]]:
    """Iterate over the blocks with content, each with the offset at which its content begins."""
    at = 0
    for block in blocks:
        if block.content:
            yield at + len(block.around()[0]), block
        at += len(block.source)


Texts = Sequence[str | None]
"""The sources of text blocks, and None for others."""


def div_ends(texts: Texts) -> dict[int, int]:
    """Map the position of each fenced div's opening fence to its closing one; unmatched fences are left out.

    >>> div_ends(["::: {.note}\\n", "A leaf.\\n", None, "::: a\\n", "Green.\\n", ":::\\n", ":::\\n", ":::\\n"])
    {3: 5, 0: 6}
    """
    ends, opened = dict[int, int](), list[int]()
    for position, text in enumerate(texts):
        if text is None or ":::" not in text[:40]:
            continue
        fence = FENCE.match(text, metadata.prefix_end(text))
        if fence is not None and fence["opens"]:
            opened.append(position)
        elif opened and fence is not None:
            ends[opened.pop()] = position
    return ends


class _Parser:
    """One pass over one text: knows which closers are missing, to stay linear, how many divs are open, and the list."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.missing: set[str] = set()
        self.divs = 0  # open ones
        self.item = ""  # the marker of the current list item, up to its text

    def blocks(self) -> Iterator[Block]:
        """Iterate over the blocks, parsing each on demand."""
        text, size = self.text, len(self.text)
        at = metadata.prefix_end(text)
        start, line = 0, 1 + text.count("\n", 0, at)
        while start < size:
            block = self._block(start, at, line)
            yield block
            start += len(block.source)
            line += text.count("\n", at, start)
            at = start

    def _block(self, start: int, at: int, line: int) -> Block:
        """Parse the block whose source begins at `start` and whose content begins at `at`."""
        text = self.text
        if not start and (end := foreign_header_end(text, at)):
            blanks = _BLANK_LINES.match(text, end)
            return ForeignHeader(text[: blanks.end() if blanks else end], line)
        if self.item and not text.startswith((" ", "\t"), at):
            self.item = ""
        if text[at : at + 1].isalpha():  # prose, mostly: no other rule begins with a letter
            return TextBlock(text[start : self._text_end(at)], line)
        if text.startswith("---", at):
            block = self._metadata(start, at, line)
            if block is not None:
                return block
            rule = _BEFORE.match(text, at + 3)
            if rule is not None and rule.lastgroup != "text":
                return TextBlock(text[start : rule.end()], line)
        elif (heading := _HEADING.match(text, at)) is not None and not self._in_item(at):
            return HeadingBlock(text[start : heading.end()], line)
        elif (fence := FENCE.match(text, at)) is not None:
            self.divs += 1 if fence["opens"] else -1 if self.divs else 0
            return TextBlock(text[start : fence.end()], line)
        elif (targets := _TARGETS.match(text, at)) is not None:
            return TextBlock(text[start : targets.end()], line)
        if (item := _ITEM.match(text, at)) is not None and not self._in_item(at):
            self.item = item[0]
        return TextBlock(text[start : self._text_end(at, _OPAQUE_START.match(text, at))], line)

    def _in_item(self, at: int) -> bool:
        """Return whether the text at `at`, after blank lines, is indented as part of the list's last item."""
        return bool(self.item) and self.text.startswith(" " * len(self.item.expandtabs(4)), at)

    # -- metadata --------------------------------------------------------------------------------

    def _metadata(self, start: int, at: int, line: int) -> Block | None:
        """Parse a metadata or error block; return None if the ``---`` is a horizontal rule."""
        text = self.text
        opening = METADATA_OPEN.match(text, at)
        if opening is None:
            return None
        closing = None if "---" in self.missing else _METADATA_CLOSE.search(text, opening.end() - 1)
        if closing is None:
            self.missing.add("---")
        if closing is None or closing["comment"]:
            if not metadata.is_meant(text[opening.end() : opening.end() + 1000].split("\n\n", 1)[0], header=start == 0):
                return None
            end = "end the block with a line '---', above any HTML comment,"
            hint = f"{end} or put a blank line after this one if it is a horizontal rule"
            return self._error(start, at, line, Finding(0, 1, "this metadata block never closes", hint))
        body = text[opening.end() : closing.start() + 1]
        if metadata.check(body) is None:
            kind = HeaderBlock if start == 0 else MetadataBlock
            return kind(text[start : closing.end()], line)
        if not metadata.is_meant(body, header=start == 0):
            return None
        return self._error(start, at, line, metadata.explain(body))

    def _error(self, start: int, at: int, line: int, problem: Finding) -> ErrorBlock:
        """Make an error block up to its closing marker, or without one up to the next heading or blank line.

        The marker counts only before a blank line, and lines like ``# note`` before it are comments.
        """
        text = self.text
        recovery = _RECOVERY.search(text, at)
        end = recovery.end() if recovery else len(text)
        marks = _METADATA_CLOSE.finditer(text, text.index("\n", at), end)
        closing = next((mark for mark in marks if not mark["comment"]), None)
        nearest = closing or _HEADING_AHEAD.search(text, at, end)
        end = nearest.end() if nearest else end
        return ErrorBlock(text[start:end], line, problem.message, problem.hint, line + problem.line, problem.column)

    # -- text ------------------------------------------------------------------------------------

    def _text_end(self, at: int, opening: re.Match[str] | None = None) -> int:
        """Return the end of the text block that continues at `at`, including the blank lines after it.

        `opening` matches the opaque construct with which the block begins.
        """
        text = self.text
        begins = True  # a block of Pandoc's: no paragraph goes on here
        while True:
            if opening is None:
                stop = _TEXT_STOP.search(text, at)
                if stop is None:
                    return len(text)
                if stop["fence"] is not None:
                    if self.divs:
                        return stop.start() + 1
                    at, begins = stop.end("fence") - 1, False
                    continue
                if stop["mark"] is None:
                    return stop.end()
                begins = begins and not text[at : stop.start()].strip()
                opening = stop
            closer, mark = self._closer(opening), opening["mark"]
            # Pandoc's block, below which a heading may follow: code, except in a list item; a comment at the margin.
            margin = text[opening.start() : opening.start("mark")].lstrip("\r\n")
            is_code = mark[0] in "`~" and margin in ("", " ", "  ", "   ")
            begins = closer is not None and (is_code or (mark == "<!--" and begins and not margin))
            at = opening.end() if closer is None else closer
            after = _BEFORE.match(text, at) if closer is not None else None
            # The author may write right below a mark of ours.
            may_be_text = text.startswith(_OUR_MARK, opening.start("mark"))
            if after and (after.lastgroup == "metadata" or (begins and (after.lastgroup == "block" or may_be_text))):
                return after.end()
            opening = None

    def _closer(self, opening: re.Match[str]) -> int | None:
        """Return the end of the construct that `opening` opens, or None."""
        text, mark = self.text, opening["mark"]
        if mark[0] in "`~":
            line_end = text.find("\n", opening.end())
            if line_end < 0 or (mark[0] == "`" and "`" in text[opening.end() : line_end]):
                return None
            indented = opening.start("mark") - (text.rfind("\n", 0, opening.start("mark")) + 1) > 3
            if any(f"{mark[0]}{length}{indented}" in self.missing for length in range(3, len(mark) + 1)):
                return None
            fence = closing_fence("[ \t]*" if indented else " {0,3}", mark[0], len(mark)).search(text, line_end)
            if fence is None:
                self.missing.add(f"{mark[0]}{len(mark)}{indented}")
            return fence and fence.end()
        closer = "-->" if mark == "<!--" else mark
        if closer in self.missing:
            return None
        found = text.find(closer, opening.end())
        if found < 0:
            self.missing.add(closer)
            return None
        end = found + len(closer)
        while mark == "<!--" and (following := _OPAQUE_START.match(text, end)) and following["mark"] == mark:
            found = text.find(closer, following.end())
            if found < 0:
                break
            end = found + len(closer)
        return end


def unclosed_construct(text: str) -> tuple[int, str] | None:
    """Find a fence, display equation or comment that never closes, and return its offset and mark.

    >>> unclosed_construct("text\\n```r\\nx <- 1")
    (5, '```')
    >>> unclosed_construct("text\\n\\n```r\\nx <- 1\\n```\\n\\ntext") is None
    True
    >>> unclosed_construct("<!-- a `mark`")
    (0, '<!--')
    """
    parser, at = _Parser(text), 0
    while True:
        # A construct opens where a line begins: here, after the last stop, or after the next line end.
        opening = _OPAQUE_START.match(text, at) if at == 0 or text[at - 1] == "\n" else None
        opening = opening or _TEXT_STOP.search(text, at)
        if opening is None:
            return None
        at = opening.end()
        if opening["mark"] is not None:
            closer, line_end = parser._closer(opening), text.find("\n", at)
            line = text[at : line_end if line_end >= 0 else len(text)]
            if closer is None and not (opening["mark"][0] == "`" and "`" in line):  # which would be code in a line
                return opening.start("mark"), opening["mark"]
            at = at if closer is None else closer
