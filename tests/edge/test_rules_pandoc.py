"""`lmm scan` warns where Pandoc takes a rule for metadata, and nowhere else; the judge is Pandoc."""

from __future__ import annotations

import random

from pandoc_trees import trees

from lmm.markdown import MetadataBlock, parse_markdown_text
from lmm.notebook.problems import find_problems

_TEXTS = (
    *("A leaf is green.", "**Bold** words", "# A heading", "Note: see: this", "- one\n- two", "License: MIT"),
    *("*a* b", "a b"),
    *("`x` is code", "@ann said so", "> quoted", "12", "[a](b) and c", "![p](q.png)", "| a |\n|---|\n| 1 |"),
    *("```\ncode\n```", "```\n---\nSignif: 0\n```", '"a" b', "% x", "key: value", "{x}", "Text\n---"),
)  # fmt: skip
_RULES = ("---", "---\n", "***\n", "---\n?: why?\n---", "---\ntype: exercise\n---", "- - -\n")


def _documents(count: int) -> list[str]:
    draw = random.Random(47)
    found = list[str]()
    for _ in range(count):
        parts = [draw.choice(_RULES if draw.random() < 0.4 else _TEXTS) for _ in range(draw.randrange(2, 8))]
        found.append("# T\n\n" + "".join(part + ("\n" if part == "---" else "\n\n") for part in parts))
    return found


def test_where_pandoc_stops() -> None:
    """Of 1,000 documents of rules, texts and questions: those that Pandoc refuses have a warning or an error."""
    texts = _documents(1000)
    refused = [tree is None for tree in trees(texts)]
    assert sum(refused) > 20
    for text, stops in zip(texts, refused, strict=True):
        blocks = parse_markdown_text(text)
        told = [one.message for one in find_problems(blocks)]
        if stops:
            assert told, text
        elif not any(isinstance(block, MetadataBlock) and block.prompts for block in blocks):
            assert not any("stops" in each for each in told), (text, told)
