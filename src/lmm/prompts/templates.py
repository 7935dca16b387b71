"""Prompt templates: named texts with slots. A slot is a name in braces; other braces are text.

They are markdown files in this package; a folder named in ``config.toml`` (``[prompts] folder``) may contain files of
the same names that replace them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from lmm.disk.files import read_document
from lmm.errors import ConfigError

# Each prompt and the slots it may use.
SLOTS: dict[str, tuple[str, ...]] = {
    "edit": ("prompt",),
    "edit_again": ("prompt",),
    "write": ("prompt",),
    "summary": ("words", "language"),
    "questions": ("language",),
    "keywords": ("language",),
    "extract": ("schema",),
    "extract_again": ("error",),
}

# Prompts of the other packages, which load them themselves: a project's folder may contain versions of these, too.
OTHER_PROMPTS = (
    "answer", "answer_agent", "cards", "expand", "rerank", "history_summary", "history_extraction",
    "history_rewrite", "compact", "refine", "judge", "feedback", "topic_answer", "topic_question", "explain", "hints",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompt texts in effect, by name."""

    texts: Mapping[str, str]

    def fill(self, name: str, **slots: str) -> str:
        """Return the prompt `name` with its slots filled, each value as it is, braces included.

        >>> Prompts({"edit": "{prompt}! {x}"}).fill("edit", prompt="shorten {prompt}")
        'shorten {prompt}! {x}'
        >>> Prompts({"write": "Write."}).fill("write")
        'Write.'
        """
        return re.sub(r"\{(\w+)\}", lambda match: slots.get(match[1], match[0]), self.texts[name].strip())


# -- reading ---------------------------------------------------------------------------------------

Slots = Mapping[str, tuple[str, ...]]


def load_prompts(folder: Path | None = None, *, package: str = "lmm.prompts", slots: Slots = SLOTS) -> Prompts:
    """Load the prompts named in `slots`: those of a package, replaced by files of the same name in `folder`.

    Raises:
        ConfigError: the folder is missing, contains a prompt that no package has, or one without its slots.
    """
    texts = {name: packaged_prompt(name, package) for name in slots}
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError("there is no such folder of prompts", where=str(folder), hint="check [prompts] folder")
        known = (*SLOTS, *OTHER_PROMPTS)
        for file in sorted(folder.glob("*.md")):
            if file.stem not in (*known, *slots):
                hint = f"known: {', '.join(known)}"
                raise ConfigError(f"there is no prompt '{file.stem}'", where=str(file), hint=hint)
            if file.stem in slots:
                texts[file.stem] = read_document(file)
            for slot in slots.get(file.stem, ()):
                if f"{{{slot}}}" not in texts[file.stem]:
                    hint = "put it where the value is to go"
                    raise ConfigError(f"the prompt lacks {{{slot}}}", where=str(file), hint=hint)
    return Prompts(texts)


@cache
def packaged_prompt(name: str, package: str = "lmm.prompts") -> str:
    """Return the text of a packaged prompt; cached, because a server would otherwise read it for every question."""
    return resources.files(package).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
