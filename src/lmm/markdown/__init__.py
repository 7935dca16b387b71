"""Markdown documents as blocks and as section trees, without losing a byte.

>>> text = "# Cells\\n\\nCells divide.\\n"
>>> serialize(parse_markdown_text(text)) == text
True
"""

from __future__ import annotations

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
from lmm.markdown.ioutils import (
    Logger as Logger,
    load_markdown as load_markdown,
    print_error as print_error,
    save_markdown as save_markdown,
)
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
    load_text as load_text,
    load_tree as load_tree,
    save_tree as save_tree,
    tree_to_blocks as tree_to_blocks,
)
