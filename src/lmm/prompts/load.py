"""Load the prompts: ours are markdown files in this package; a project may override each.

A folder named in ``config.toml`` (``[prompts] folder``) may hold files of the same names; those it lacks are
ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from lmm.disk.files import read_document
from lmm.errors import ConfigError
from lmm.prompts.templates import OTHER_PROMPTS, SLOTS, Prompts

Slots = Mapping[str, tuple[str, ...]]


def load_prompts(folder: Path | None = None, *, package: str = "lmm.prompts", slots: Slots = SLOTS) -> Prompts:
    """The prompts named in `slots`: a package's own, replaced by those of `folder` where it has files of the same name.

    Raises:
        ConfigError: the folder is missing, holds a prompt that no package knows, or one without its slots.
    """
    texts = {name: _packaged(package, name) for name in slots}
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError("there is no such folder of prompts", where=str(folder), hint="check [prompts] folder")
        known = (*SLOTS, *OTHER_PROMPTS)
        for file in sorted(folder.glob("*.md")):
            if file.stem not in (*known, *slots):
                raise ConfigError(
                    f"there is no prompt '{file.stem}'", where=str(file), hint=f"known: {', '.join(known)}"
                )
            if file.stem in slots:
                texts[file.stem] = _own_prompt(file, slots[file.stem])
    return Prompts(texts)


@cache
def _packaged(package: str, name: str) -> str:
    """A prompt of ours; a server would read them for every question."""
    return resources.files(package).joinpath(f"{name}.md").read_text(encoding="utf-8")


def _own_prompt(file: Path, slots: tuple[str, ...]) -> str:
    """A project's prompt, checked: it has the slots that this prompt needs."""
    where = str(file)
    text = read_document(file)
    for slot in slots:
        if f"{{{slot}}}" not in text:
            raise ConfigError(f"the prompt lacks {{{slot}}}", where=where, hint="put it where the value is to go")
    return text
