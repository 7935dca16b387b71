"""Blocks: the pieces a markdown document is made of, each holding its exact source.

The sources of a document's blocks, joined, are the document: `serialize` is a join. What a block
*means* (a heading's title, a paragraph's text, metadata values) is derived from its source when asked
for. Blocks are immutable values; a changed block is a new block.

Line ends are LF or CRLF. Form feeds, U+0085, U+2028 and lone carriage returns are characters like any
other, as in CommonMark and Pandoc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from lmm.markdown import metadata, yaml_core
from lmm.markdown.foreign_headers import foreign_values, form_of
from lmm.markdown.inline import Attributes, read_attributes
from lmm.markdown.metadata import Prompt, find_prompts
from lmm.markdown.spans import WORDS, replace_spans

_TRAILING_BLANKS = re.compile(r"(?:\r?\n[ \t]*)+\Z")
_HEADING = re.compile(metadata.PREFIX.pattern + r" {0,3}(#{1,6})[ \t]*([^\n]*)")
_SHOWN = ("link", "image", "code", "math")  # as what is in them


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document: its exact `source`, and the 1-based `line` on which its content begins."""

    kind: ClassVar[str]

    source: str
    line: int

    @property
    def content(self) -> str:
        """The source without the blank lines around it (and without a byte order mark)."""
        return self.around()[1]

    @property
    def newline(self) -> str:
        """The line end this block uses: LF or CRLF."""
        end = self.source.find("\n")
        return "\r\n" if end > 0 and self.source[end - 1] == "\r" else "\n"

    @property
    def trailing(self) -> str:
        """What follows the content in the source: the last line's end and blank lines."""
        return self.around()[2]

    def with_source(self, source: str) -> Self:
        """Return the block with another source, at the same line."""
        return replace(self, source=source)

    def around(self) -> tuple[str, str, str]:
        """Split the source into what precedes the content, the content, and what follows it."""
        source = self.source
        start = metadata.prefix_end(source)
        # From the last visible character on, or a fence full of blank lines would take quadratic time.
        blanks = _TRAILING_BLANKS.search(source, max(start, len(source.rstrip(" \t\r\n"))))
        end = blanks.start() if blanks else len(source)
        return source[:start], source[start:end], source[end:]


@dataclass(frozen=True, slots=True)
class MetadataBlock(Block):
    """A metadata block: ``---``, a YAML mapping and prompt lines, ``---`` or ``...``."""

    kind = "metadata"

    @classmethod
    def make(cls, values: Mapping[str, Any], *, newline: str = "\n", line: int = 0) -> Self:
        """Make a block from values.

        >>> MetadataBlock.make({"type": "exercise"}).source
        '---\\ntype: exercise\\n---\\n'
        """
        body = "".join(yaml_core.entry(key, value) for key, value in values.items())
        return cls(f"---\n{body}---\n".replace("\n", newline), line)

    @property
    def body(self) -> str:
        """The lines between the markers."""
        start, end = self._span()
        return self.source[start:end]

    @property
    def body_line(self) -> int:
        """The 1-based line of the document on which the body begins."""
        return self.line + 1

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The pending prompt lines, in order; one that stands in a flat ``~chat``, with a reply after it, is answered.

        >>> [p.text for p in MetadataBlock("---\\nquery: a\\n+: b\\n~chat: [a, Yes.]\\n---\\n", 1).prompts]
        ['b']
        """
        found = find_prompts(self.body)
        chat = self.values().get("~chat") if "~chat:" in self.body else None
        answered = {str(each).strip() for each in chat[:-1]} if isinstance(chat, list) else set()
        return tuple(prompt for prompt in found if prompt.text not in answered)

    def values(self) -> dict[str, Any]:
        """Return the metadata as a new dictionary, without pending prompts.

        >>> MetadataBlock("---\\ndate: 2025-05-21\\nok: yes\\n---\\n", 1).values()
        {'date': '2025-05-21', 'ok': 'yes'}
        """
        return metadata.read(self.body)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the effective value of `key`, the author's or a model's (see `lmm.markdown.metadata.lookup`)."""
        return metadata.lookup(self.values(), key, default)

    def with_body(self, body: str) -> Self:
        """Return the block with another body between the same markers."""
        start, end = self._span()
        if body and not body.endswith("\n"):
            body += self.newline
        return replace(self, source=self.source[:start] + body + self.source[end:])

    def with_key(self, key: str, value: Any, *, before: int | None = None) -> Self:
        """Return the block with one key set; a new key goes before the offset `before`. Other lines stay byte for byte.

        Raises:
            MetadataError: the key cannot be set without touching other keys.
        """
        return self.with_body(metadata.set_key(self.body, key, value, newline=self.newline, before=before))

    def without_key(self, key: str) -> Self:
        """Return the block without one key; every other line stays byte for byte."""
        return self.with_body(metadata.remove_key(self.body, key))

    def _span(self) -> tuple[int, int]:
        start = self.source.find("\n", metadata.prefix_end(self.source)) + 1
        closing = metadata.CLOSE.search(self.source, start)
        return start, closing.start() if closing else len(self.source)


@dataclass(frozen=True, slots=True)
class HeaderBlock(MetadataBlock):
    """The metadata block at the start of a document; it annotates the whole document."""

    kind = "header"


@dataclass(frozen=True, slots=True)
class HeadingBlock(Block):
    """An ATX heading of level 1 to 6.

    >>> h = HeadingBlock("## Least squares {#ols .key} \\n\\n", 1)
    >>> h.level, h.title, h.attributes
    (2, 'Least squares', '{#ols .key}')
    """

    kind = "heading"

    @classmethod
    def make(cls, level: int, title: str, *, newline: str = "\n", line: int = 0) -> Self:
        """Make a heading with a blank line after it."""
        return cls(f"{'#' * level} {title}{newline}{newline}", line)

    @property
    def level(self) -> int:
        """The level, 1 to 6."""
        return len(self._match()[1])

    @property
    def title(self) -> str:
        """The heading's text, without closing hashes and a trailing attribute group."""
        return self._parts()[1]

    @property
    def attributes(self) -> str:
        """A trailing attribute group such as ``{#id .class}`` or ``{-}``, or the empty string."""
        return self._parts()[2]

    @property
    def group(self) -> Attributes:
        """The attribute group, parsed."""
        return read_attributes(self.attributes) or Attributes()

    @property
    def anchor(self) -> str:
        """The id in the heading's attributes, or else the one that Pandoc makes from its title.

        >>> HeadingBlock("# What is `R`, really?\\n", 1).anchor, HeadingBlock("# B {#b .x}\\n", 1).anchor
        ('what-is-r-really', 'b')
        """
        if written := self.group.id:
            return written
        plain = replace_spans(self.title, lambda span: WORDS if span.kind in _SHOWN else None)
        letters = re.sub(r"[^\w\s.-]", "", plain).lower()
        return re.sub(r"\A[^a-z\u00df-\U0010ffff]+", "", re.sub(r"\s+", "-", letters.strip())) or "section"

    def with_title(self, title: str) -> Self:
        """Return the heading with another title; level, attributes and blank lines stay."""
        match = self._match()
        old = self.title  # it begins where the text after the hashes begins
        before, after = self.source[: match.start(2)], self.source[match.start(2) + len(old) :]
        lead = " " if before.endswith("#") else ""
        gap = " " if after.strip(" \t\r\n") and not old else ""  # "## ##" or "## {#id}"
        return self.with_source(before + lead + title + gap + after)

    def _match(self) -> re.Match[str]:
        match = _HEADING.match(self.source)
        if match is None:
            raise ValueError(f"not a heading: {self.source!r}")
        return match

    def _parts(self) -> tuple[str, str, str]:
        match = self._match()
        text = match[2].rstrip(" \t\r")
        attributes = text[text.rfind("{") :] if "{" in text else ""
        attributes = attributes if read_attributes(attributes) is not None else ""
        text = text.removesuffix(attributes).rstrip(" \t")
        bare = text.rstrip("#")
        if bare[-1:] in {"", " ", "\t"}:  # closing hashes, unlike the one in "C#"
            text = bare.rstrip(" \t")
        return match[1], text, attributes


@dataclass(frozen=True, slots=True)
class TextBlock(Block):
    """A paragraph, list, table, code fence, display equation, comment: anything up to a blank line."""

    kind = "text"

    @classmethod
    def make(cls, text: str, *, newline: str = "\n", line: int = 0) -> Self:
        """Make a text block with a blank line after it."""
        return cls(f"{text}{newline}{newline}", line)

    @property
    def text(self) -> str:
        """The text as written, without the blank lines after it."""
        return self.content

    def with_text(self, text: str) -> Self:
        """Return the block with another text; the blank lines around it stay."""
        before, _, after = self.around()
        return self.with_source(before + text + after)


@dataclass(frozen=True, slots=True)
class ForeignHeader(TextBlock):
    """A header in another notation (see `lmm.markdown.foreign_headers`): never changed, and not sent to a model."""

    @property
    def form(self) -> str:
        """The name of its notation."""
        return form_of(self.content)

    @property
    def values(self) -> dict[str, Any]:
        """Its values, as a new dictionary."""
        return foreign_values(self.content)


@dataclass(frozen=True, slots=True)
class ErrorBlock(Block):
    """A block that was meant as metadata and cannot be read as such.

    `error_line` and `error_column` are 1-based positions in the document; `hint` says how to fix it.
    """

    kind = "error"

    reason: str = ""
    hint: str = ""
    error_line: int = 0
    error_column: int = 1


def serialize(blocks: Iterable[Block] | None) -> str:
    """Join blocks, or those of a tree (None is the empty one): the inverse of `parse_markdown_text`."""
    return "".join(block.source for block in blocks or ())


# -- joining blocks --------------------------------------------------------------------------------


def insert_blocks(blocks: Sequence[Block], index: int, new: Sequence[Block]) -> list[Block]:
    """Return `blocks` with `new` inserted before position `index`, separated by a blank line where one is needed.

    >>> from lmm.markdown.blocks import TextBlock, serialize
    >>> serialize(insert_blocks([TextBlock("one", 1)], 1, [TextBlock("two", 0)]))
    'one\\n\\ntwo'
    """
    result = list(blocks)
    if new and index > 0:
        result[index - 1] = ended(result[index - 1], new[0].newline)
    if new and index < len(result):
        new = [*new[:-1], ended(new[-1], result[index].newline)]
    result[index:index] = new
    return result


def ended(block: Block, newline: str) -> Block:
    """Return `block` ending in a line end, and in a blank line if it is text; `newline` is used if it has none."""
    source = block.source
    if "\n" in source:
        newline = block.newline
    if not source.endswith("\n"):
        source += newline
    if not isinstance(block, (MetadataBlock, HeadingBlock)) and block.trailing.count("\n") < 2:
        source += newline
    return block if source == block.source else block.with_source(source)


def apart(before: Block, block: Block) -> Block:
    """Return `before` so that `block` can follow it; unchanged if the two were parsed one after the other."""
    # Blocks made in memory are on line 0; a document's first block is on the line after the blank ones in its source.
    known = before.line and block.line and before.source.endswith("\n")
    lines = {before.source.count("\n"), (before.content + before.trailing).count("\n")} if known else ()
    together = before.source.endswith(("\n\n", "\n\r\n")) or block.line - before.line in lines
    return before if together else ended(before, block.newline)


# -- code ------------------------------------------------------------------------------------------


def fenced(code: str, language: str = "") -> str:
    """Return code as a fenced code block; its fence is longer than any in the code.

    >>> print(fenced("x = 1", "python"))
    ```python
    x = 1
    ```
    """
    mark = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", code))])
    word = "".join(re.findall(r"[\w+#.-]", language))[:40]  # no braces: knitr runs code with them
    return f"{mark}{word}\n{code}\n{mark}"
