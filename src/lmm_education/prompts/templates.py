"""The prompts of a course, and the slots of each (see `lmm.prompts.templates`)."""

from __future__ import annotations

from pathlib import Path

from lmm.prompts.templates import Prompts, load_prompts

SLOTS: dict[str, tuple[str, ...]] = {
    "answer": ("language",),
    "answer_agent": ("language",),
    "cards": ("count", "language"),
    "feedback": ("language",),
    "explain": ("language",),
    "follow_up": ("count",),
    "expand": ("contents", "count", "language", "question"),
    "hints": ("language",),
    "history_extraction": ("question",),
    "history_rewrite": ("question",),
    "history_summary": ("words",),
    "rerank": ("question",),
    "topic_answer": ("allowed",),
    "topic_question": ("allowed",),
}


def course_prompts(folder: Path | None) -> Prompts:
    """Return the built-in prompts, replaced by those of the same names in a project's `folder`.

    Raises:
        ConfigError: the folder does not exist, or a prompt in it is invalid.
    """
    return load_prompts(folder, package="lmm_education.prompts", slots=SLOTS)
