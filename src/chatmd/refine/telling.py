"""What the judge and the proposer are told, and what is read out of a judge's reply."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from chatmd.refine.cases import Case
from chatmd.refine.selection import CaseResult
from lmm.messages import Attachment, Message
from lmm.models.structured import NoJson, Schema, object_of, read_json
from lmm.prompts.templates import Prompts

MOST_FAILURES = 8
MOST_TRIED = 6
_LONGEST = 2000  # characters of an input or a reply that the proposer reads


def judge_message(given: str, reply: str, criteria: str, prompts: Prompts) -> Message:
    """What the judge is asked about a reply."""
    documents = (Attachment(given, "input"), Attachment(reply, "reply"))
    return Message("user", prompts.fill("judge", criteria=criteria), documents)


@functools.cache
def judgement_schema() -> Schema:
    """What a judge replies with; the reason comes first, so that the score follows from it."""
    return object_of(reason={"type": "string"}, score={"type": "number", "minimum": 0, "maximum": 10})


def read_judgement(reply: str) -> tuple[float, str] | None:
    """Score, from 0 to 10, and reason, if the reply has them.

    >>> read_judgement('{"reason": "No formula.", "score": 4}'), read_judgement("Fine!")
    ((4.0, 'No formula.'), None)
    """
    try:
        values = read_json(reply)
    except NoJson:
        return None
    for value in values:
        score = value.get("score") if isinstance(value, dict) else None
        if isinstance(score, (int, float)) and not isinstance(score, bool) and 0 <= score <= 10:
            return float(score), " ".join(str(value.get("reason", "")).split())
    return None


def proposal_message(
    text: str,
    failures: Sequence[tuple[Case, CaseResult]],
    tools: Sequence[str],
    tried: Sequence[tuple[str, str]],
    count: int,
    prompts: Prompts,
) -> Message:
    """What the proposer is asked; `tools` are lines, `tried` other versions with what came of them."""
    documents = [Attachment(text, "instructions")]
    documents += [Attachment("\n".join(tools), "tools")] if tools else []
    for case, result in failures[:MOST_FAILURES]:
        documents.append(Attachment(_failure(case, result), "failed-case"))
    documents += [Attachment(f"{version}\n\n({came})", "earlier-attempt") for version, came in tried[-MOST_TRIED:]]
    return Message("user", prompts.fill("refine", count=str(count)), tuple(documents))


def _failure(case: Case, result: CaseResult) -> str:
    outcome = result.outcome
    called = ", ".join(f"{call.name}({_short(call.arguments, 200)})" for call in outcome.calls)
    reply = _short(outcome.text, _LONGEST) if not outcome.error else f"(none: {outcome.error})"
    lines = [f"Input: {_short(case.input, _LONGEST)}", *([f"Tools called: {called}"] if called else []),
             f"Reply: {reply}", "What is wrong:", *(f"- {fault}" for fault in result.faults)]  # fmt: skip
    return "\n".join(lines)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} […]"
