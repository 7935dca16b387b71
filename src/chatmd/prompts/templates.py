"""The prompts of ChatMD, and the slots that each may use (see `lmm.prompts.templates`)."""

from __future__ import annotations

from pathlib import Path

from lmm.prompts.templates import Prompts, load_prompts

SLOTS: dict[str, tuple[str, ...]] = {"compact": ("words",), "judge": ("criteria",), "refine": ("count",)}


def chatmd_prompts(folder: Path | None) -> Prompts:
    """Load the prompts; those in a project's `folder` replace ours of the same names.

    Raises:
        ConfigError: there is no such folder, or a prompt in it is not valid.
    """
    return load_prompts(folder, package="chatmd.prompts", slots=SLOTS)
