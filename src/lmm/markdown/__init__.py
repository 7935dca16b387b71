"""Markdown documents as blocks and as section trees, without losing a byte.

>>> text = "# Cells\\n\\nCells divide.\\n"
>>> serialize(parse_markdown_text(text)) == text
True
"""

from lmm.markdown.blocks import (
    Block,
    ErrorBlock,
    HeaderBlock,
    HeadingBlock,
    MetadataBlock,
    TextBlock,
    serialize,
)
from lmm.markdown.inline import Attributes, Span, read_attributes
from lmm.markdown.ioutils import load_markdown, load_text, load_tree, save_markdown, save_tree
from lmm.markdown.parse_markdown import parse_markdown_text
from lmm.markdown.spans import WORDS, prose_of, replace_spans, spans, without
from lmm.markdown.tree import (
    HeaderNode,
    HeadingNode,
    MarkdownTree,
    Node,
    TextNode,
    blocks_to_tree,
    tree_to_blocks,
)

__all__ = [
    "WORDS",
    "Attributes",
    "Block",
    "ErrorBlock",
    "HeaderBlock",
    "HeaderNode",
    "HeadingBlock",
    "HeadingNode",
    "MarkdownTree",
    "MetadataBlock",
    "Node",
    "Span",
    "TextBlock",
    "TextNode",
    "blocks_to_tree",
    "load_markdown",
    "load_text",
    "load_tree",
    "parse_markdown_text",
    "prose_of",
    "read_attributes",
    "replace_spans",
    "save_markdown",
    "save_tree",
    "serialize",
    "spans",
    "tree_to_blocks",
    "without",
]
