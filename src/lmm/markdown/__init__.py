"""Markdown documents as blocks and as section trees, without losing a byte.

>>> text = "# Cells\\n\\nCells divide.\\n"
>>> serialize(parse_markdown_text(text)) == text
True
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmm.disk import files
from lmm.errors import DocumentError
from lmm.markdown.blocks import (
    Block as Block,
    ErrorBlock as ErrorBlock,
    HeaderBlock as HeaderBlock,
    HeadingBlock as HeadingBlock,
    MetadataBlock as MetadataBlock,
    TextBlock as TextBlock,
    serialize as serialize,
)
from lmm.markdown.inline import Attributes as Attributes, Span as Span, read_attributes as read_attributes
from lmm.markdown.parse_markdown import parse_markdown_text as parse_markdown_text
from lmm.markdown.spans import (
    WORDS as WORDS,
    prose_of as prose_of,
    replace_spans as replace_spans,
    spans as spans,
    without as without,
)
from lmm.markdown.tree import (
    HeaderNode as HeaderNode,
    HeadingNode as HeadingNode,
    MarkdownTree as MarkdownTree,
    Node as Node,
    TextNode as TextNode,
    blocks_to_tree as blocks_to_tree,
    tree_to_blocks as tree_to_blocks,
)
from lmm.terminal import say

Logger = Callable[[DocumentError], None]


def print_error(error: DocumentError) -> None:
    """Print an error on standard error, in one line. This is the default logger."""
    say(str(error), err=True)


def load_markdown(path: str | Path, logger: Logger = print_error) -> str | None:
    """Return the text of a UTF-8 markdown file, unchanged; on an error, call `logger` and return None."""
    try:
        return files.read_document(Path(path))
    except DocumentError as error:
        logger(error)
        return None


def save_markdown(path: str | Path, text: str, logger: Logger = print_error) -> bool:
    """Replace a markdown file in one step; on an error, call `logger` and return False."""
    try:
        files.replace(Path(path), text)
    except DocumentError as error:
        logger(error)
        return False
    return True


def load_text(text: str, *, title: str = "") -> HeaderNode:
    """Parse a markdown string into a tree; the empty string gives an empty root."""
    return blocks_to_tree(parse_markdown_text(text), title=title) or HeaderNode(title=title)


def load_tree(path: str | Path, logger: Logger = print_error) -> HeaderNode | None:
    """Parse a markdown file into a tree, titled by its name if it has no title; return None if it cannot be read."""
    text = load_markdown(path, logger)
    return None if text is None else load_text(text, title=files.title_of(Path(path)))


def save_tree(path: str | Path, tree: HeadingNode, logger: Logger = print_error) -> bool:
    """Write a tree to a markdown file; on an error, call `logger` and return False."""
    return save_markdown(path, serialize(tree_to_blocks(tree)), logger)
