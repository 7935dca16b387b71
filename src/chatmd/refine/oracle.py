"""Who is asked during a refinement: the agent, the judge, the proposer; or the record, which knows what they said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chatmd.errors import RefineError
from chatmd.refine.cases import Case
from chatmd.refine.checks import Check, Outcome, Verdict, judged, verdict
from chatmd.refine.purse import Purse
from chatmd.refine.record import Record, key_of
from chatmd.refine.selection import CaseResult, Version
from chatmd.refine.telling import judge_message, judgement_schema, proposal_message, read_judgement
from chatmd.refine.versions import read_versions
from lmm.messages import ChatRequest, Message, ToolCall, Usage, render
from lmm.models.port import ChatModel, ask
from lmm.models.structured import with_schema
from lmm.models.tokens import price
from lmm.prompts.templates import Prompts

Ask = Callable[[str, str], Awaitable[Outcome]]
"""Run an agent, given as the text of its file, on what its user says."""

_ATTEMPTS = 2
_AT_ONCE = 8


class NotRecorded(Exception):
    """The record ends here."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Who answers; without them, only the record does. A model that nothing is asked of may be None."""

    ask: Ask
    judge: ChatModel | None
    proposer: ChatModel | None
    prompts: Prompts


class Oracle:
    """Answers from the record, else from the sources; what they say is recorded as it arrives."""

    def __init__(self, record: Record, purse: Purse, sources: Sources | None) -> None:
        self.record, self.purse, self.sources = record, purse, sources
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def result(self, agent: str, case: Case) -> CaseResult:
        """What comes of one case.

        Raises:
            NotRecorded: there are no sources.
            LimitReached: the budget does not cover it.
            ModelError, RefineError: a model did not answer, or the judge in a form that nobody can read.
        """
        async with self._at_once:
            outcome = await self._outcome(agent, case)
            verdicts = [await self._verdict(case, check, outcome) for check in case.checks]
        return CaseResult(outcome, tuple(verdicts))

    async def versions(
        self, round_: int, best: Version, failures: Sequence[tuple[Case, CaseResult]], tools: Sequence[str],
        tried: Sequence[tuple[str, str]], count: int,
    ) -> list[str]:  # fmt: skip
        """New instructions that a model proposes: at most `count`, none if it proposes none that can be read."""
        for attempt in range(_ATTEMPTS):
            prompt = partial(proposal_message, best.text, failures, tools, tried, count)
            key = key_of("propose", str(round_), best.text, str(count), str(attempt))
            reply = await self._chat("propose", key, prompt)
            if versions := read_versions(reply):
                return versions[:count]
        return []

    async def _outcome(self, agent: str, case: Case) -> Outcome:
        key = key_of("run", agent, case.name, case.input)
        entry = self.record.find(key)
        if entry is None:
            if self.sources is None:
                raise NotRecorded
            async with self.purse.paying("run") as paid:
                outcome = await self.sources.ask(agent, case.input)
                paid(outcome.usage)
            self.record.add("run", key, case=case.name, input=case.input, **_outcome_values(outcome))
            return outcome
        outcome = _read_outcome(entry)
        self.purse.count("run", outcome.usage)
        return outcome

    async def _verdict(self, case: Case, check: Check, outcome: Outcome) -> Verdict:
        if check.kind != "judge":
            return verdict(check, outcome)
        if outcome.error:
            return Verdict(check, False, f"{check.words}; there is nothing to judge: {outcome.error}", 0.0)
        return await self._judged(case, check, outcome)

    async def _judged(self, case: Case, check: Check, outcome: Outcome) -> Verdict:
        for attempt in range(_ATTEMPTS):
            prompt = partial(judge_message, case.input, outcome.text, check.value.criteria)
            key = key_of("judge", check.value.criteria, case.input, outcome.text, str(attempt))
            found = read_judgement(await self._chat("judge", key, prompt))
            if found is not None:
                return judged(check, *found)
        raise RefineError(
            "the judge's reply has no score that can be read", hint="name another model: --judge Provider/model"
        )

    async def _chat(self, kind: str, key: str, prompt: Callable[[Prompts], Message]) -> str:
        """A model's reply. The key says what is asked, not how, so that prompts may be worded anew."""
        entry = self.record.find(key)
        if entry is None:
            if self.sources is None:
                raise NotRecorded
            model = self.sources.judge if kind == "judge" else self.sources.proposer
            assert model is not None, f"nobody was named to {kind}"
            message = prompt(self.sources.prompts)
            async with self.purse.paying(kind) as paid:
                request = ChatRequest((message,))
                request = with_schema(request, judgement_schema()) if kind == "judge" else request
                reply = await ask(model, request)
                cost = price(reply.model, reply.usage) if reply.usage.cost is None else reply.usage.cost
                usage = Usage(reply.usage.input_tokens, reply.usage.output_tokens, cost, reply.usage.requests)
                paid(usage)
            self.record.add(kind, key, model=reply.model, request=render(request.messages[0]), reply=reply.text,
                            usage=_usage_values(usage))  # fmt: skip
            return reply.text
        self.purse.count(kind, _read_usage(entry["usage"]))
        return str(entry["reply"])


# -- as JSON -------------------------------------------------------------------------------------


def _usage_values(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
        "requests": usage.requests,
    }


def _read_usage(values: Mapping[str, Any]) -> Usage:
    return Usage(**values)


def _outcome_values(outcome: Outcome) -> dict[str, Any]:
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in outcome.calls]
    return {
        "reply": outcome.text,
        "calls": calls,
        "tokens": outcome.tokens,
        "error": outcome.error,
        "usage": _usage_values(outcome.usage),
    }


def _read_outcome(values: Mapping[str, Any]) -> Outcome:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in values["calls"])
    return Outcome(values["reply"], calls, values["tokens"], _read_usage(values["usage"]), values["error"])
