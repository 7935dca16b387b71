"""Load the prompts: ours are markdown files in this package; a project may override each.

A folder named in ``config.toml`` (``[prompts] folder``) may hold files of the same names; those it lacks are
ours.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from lmm.errors import ConfigError
from lmm.files import read_document
from lmm.prompts.templates import SLOTS, Prompts


def load_prompts(folder: Path | None = None) -> Prompts:
    """Our prompts, replaced by those of `folder` where it has files of the same name.

    Raises:
        ConfigError: the folder is missing, holds a prompt we do not know, or one without its slots.
    """
    package = resources.files("lmm.prompts")
    texts = {name: package.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in SLOTS}
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError("there is no such folder of prompts", where=str(folder), hint="check [prompts] folder")
        for file in sorted(folder.glob("*.md")):
            texts[file.stem] = _own_prompt(file)
    return Prompts(texts)


def _own_prompt(file: Path) -> str:
    """A project's prompt, checked: a known name, and the slots that this prompt has."""
    where = str(file)
    if file.stem not in SLOTS:
        raise ConfigError(f"there is no prompt '{file.stem}'", where=where, hint=f"known: {', '.join(SLOTS)}")
    text = read_document(file)
    for slot in SLOTS[file.stem]:
        if f"{{{slot}}}" not in text:
            raise ConfigError(f"the prompt lacks {{{slot}}}", where=where, hint="put it where the value is to go")
    return text
