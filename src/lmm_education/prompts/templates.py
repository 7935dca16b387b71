"""The prompts of this package, and the slots each may use (see `lmm.prompts.templates`)."""

from __future__ import annotations

SLOTS: dict[str, tuple[str, ...]] = {
    "answer": ("language",),
    "answer_agent": ("language",),
    "cards": ("count", "language"),
    "feedback": ("language",),
    "expand": ("contents", "count", "question"),
    "history_extraction": ("question",),
    "history_rewrite": ("question",),
    "history_summary": ("words",),
    "rerank": ("question",),
    "reword": ("question", "words"),
    "topic_answer": ("allowed",),
    "topic_question": ("allowed",),
}
