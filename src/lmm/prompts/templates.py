"""The prompts we send: named texts with slots. A slot is a name in braces; other braces are text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Each prompt and the slots it may use.
SLOTS: dict[str, tuple[str, ...]] = {
    "edit": ("prompt",),
    "write": ("prompt",),
    "summary": ("words", "language"),
    "questions": ("language",),
    "keywords": ("language",),
    "extract": ("schema",),
    "extract_again": ("error",),
}

# Prompts of the other packages, which load them themselves: a project's folder may hold versions of these too.
OTHER_PROMPTS = (
    "answer", "answer_agent", "cards", "expand", "rerank", "reword", "history_summary", "history_extraction",
    "history_rewrite", "compact", "refine", "judge", "feedback", "topic_answer", "topic_question",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts in force, by name."""

    texts: Mapping[str, str]

    def fill(self, name: str, **slots: str) -> str:
        """The prompt `name` with its slots filled, each value as it is, braces included.

        >>> Prompts({"edit": "{prompt}! {x}"}).fill("edit", prompt="shorten {prompt}")
        'shorten {prompt}! {x}'
        """
        pattern = "|".join(re.escape(f"{{{slot}}}") for slot in slots)
        return re.sub(pattern, lambda match: slots[match[0][1:-1]], self.texts[name].strip())
