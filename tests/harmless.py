"""What of a document must be there after whatever we do to it."""

from __future__ import annotations

from lmm.markdown import metadata
from lmm.markdown.blocks import Block, MetadataBlock
from lmm.markdown.parse_markdown import parse_markdown_text


def others(text: str) -> list[tuple[str, str]]:
    """What is no metadata."""
    blocks = (block for block in parse_markdown_text(text) if not isinstance(block, MetadataBlock) and block.content)
    return [(block.kind, block.content.replace("\r\n", "\n")) for block in blocks]


def authors_keys(text: str) -> list[dict[str, object]]:
    """What the author wrote in each metadata block: its keys but prompts, and those that begin with a tilde."""
    return [keys for block in parse_markdown_text(text) if (keys := _own_keys(block))]


def _own_keys(block: Block) -> dict[str, object]:
    return (
        {k: v for k, v in metadata.read(block.body).items() if k[:1] != "~"} if isinstance(block, MetadataBlock) else {}
    )
