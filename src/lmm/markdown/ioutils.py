"""Load and save markdown files, with a logger for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmm.disk import files
from lmm.errors import DocumentError
from lmm.markdown.blocks import serialize
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.tree import HeaderNode, HeadingNode, blocks_to_tree, tree_to_blocks
from lmm.terminal import say

Logger = Callable[[DocumentError], None]


def print_error(error: DocumentError) -> None:
    """The default logger: one line on standard error."""
    say(str(error), err=True)


def load_markdown(path: str | Path, logger: Logger = print_error) -> str | None:
    """The text of a UTF-8 markdown file, unchanged; None after `logger` was told why not."""
    try:
        return files.read_document(Path(path))
    except DocumentError as error:
        logger(error)
        return None


def save_markdown(path: str | Path, text: str, logger: Logger = print_error) -> bool:
    """Replace a markdown file in one step; False after `logger` was told why not."""
    try:
        files.replace(Path(path), text)
    except DocumentError as error:
        logger(error)
        return False
    return True


def load_text(text: str, *, title: str = "") -> HeaderNode:
    """The tree of a markdown string; the empty string gives an empty root."""
    return blocks_to_tree(parse_markdown_text(text), title=title) or HeaderNode(title=title)


def load_tree(path: str | Path, logger: Logger = print_error) -> HeaderNode | None:
    """The tree of a markdown file, titled by its name if it has no title; None if it cannot be read."""
    text = load_markdown(path, logger)
    return None if text is None else load_text(text, title=files.title_of(Path(path)))


def save_tree(path: str | Path, tree: HeadingNode, logger: Logger = print_error) -> bool:
    """Write a tree to a markdown file; False after `logger` was told why not."""
    return save_markdown(path, serialize(tree_to_blocks(tree)), logger)
