"""Real documents: every markdown file of the corpus and of the evaluation set comes back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmm.markdown.blocks import ErrorBlock, MetadataBlock, serialize
from lmm.markdown.parse_markdown import parse_markdown_text

_SHARED = Path(__file__).parents[5] / "shared"


def _files(folder: str) -> list[Path]:
    return sorted((_SHARED / folder).rglob("*.md"))


@pytest.mark.parametrize("folder", ["corpus", "eval"])
def test_real_documents_round_trip(folder: str) -> None:
    """Nothing of a real document is lost, its metadata reads, and none of it is taken for broken."""
    files = _files(folder)
    if not files:
        pytest.skip(f"no {folder} folder beside the project")
    for path in files:
        text = path.read_bytes().decode("utf-8")
        blocks = parse_markdown_text(text)
        assert serialize(blocks) == text, path
        assert not [block for block in blocks if isinstance(block, ErrorBlock)], path
        assert all(isinstance(block.values(), dict) for block in blocks if isinstance(block, MetadataBlock)), path
