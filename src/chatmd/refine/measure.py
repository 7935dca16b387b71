"""Who is asked while a prompt is measured: the agent, the judge, the proposer; each of them once for the same."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from chatmd.context import Run
from chatmd.errors import LimitReached, RefineError
from chatmd.language.agent import CallItem, Item, Tool, read_agent
from chatmd.language.syntax import parse
from chatmd.language.transcript import gap, user_text
from chatmd.refine.cases import Case, Check, CheckResult, RunOutcome, apply_score, verdict
from chatmd.refine.versions import CaseResult, Version, read_versions
from chatmd.runtime.prepare import agree
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.tools.consent import declared_by
from lmm.config import ModelSettings
from lmm.disk import journal
from lmm.errors import EmptyReply, LmmError, ModelRejected
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, ToolCall
from lmm.models.budget import SharedBudget
from lmm.models.port import ChatModel, ask, is_journaled
from lmm.models.structured import NoJson, Schema, object_of, read_json, with_schema
from lmm.models.tokens import count_tokens, price
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
    """What a judge replies with; the reason comes first, so that the score follows from it. Whole numbers: grammars
    of local servers keep those within bounds, and no others."""
    return object_of(reason={"type": "string"}, score={"type": "integer", "minimum": 0, "maximum": 10})


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


# -- Who is asked ---------------------------------------------------------------------------------------


Ask = Callable[[str, Case], Awaitable[RunOutcome]]
"""Run an agent, given as the text of its file, on what its user says in a case."""

_ATTEMPTS = 2
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class JournaledModel:
    """A model that is not asked again what it was asked before: the journal has its replies, with what they used.

    `about` tells equal requests apart that are meant to be made several times.
    """

    model: ChatModel
    about: str

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """The reply in the journal, else the model's, which is kept there."""
        journaled = is_journaled(self.model)
        key = journal.key_of("refine", self.name, self.about, repr((request.messages, request.tools)))
        known = await asyncio.to_thread(journal.get, key) if journaled else None
        if known is not None:
            yield msgspec.convert(known, Reply)
            return
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply) and journaled:
                    with contextlib.suppress(LmmError, OSError):  # a full disk must not cost the reply
                        await asyncio.to_thread(journal.put, key, msgspec.to_builtins(event))
                yield event


@dataclass(slots=True)
class Evaluator:
    """Who answers while a prompt is measured: `ask` runs the agent, a `judge` scores, a `proposer` writes versions.

    A model that nothing is asked of may be None.
    """

    ask: Ask
    judge: ChatModel | None
    proposer: ChatModel | None
    prompts: Prompts
    budget: SharedBudget = field(default_factory=SharedBudget)
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def result(self, agent: str, case: Case) -> CaseResult:
        """What comes of one case.

        Raises:
            LimitReached: the budget does not cover it.
            ModelError, RefineError: a model did not answer, or the judge in a form that nobody can read.
        """
        async with self._at_once:
            async with self.budget.paying("run") as paid:
                outcome = await self.ask(agent, case)
                paid(outcome.usage)
            verdicts = [await self._verdict(case, check, outcome) for check in case.checks]
        return CaseResult(outcome, tuple(verdicts))

    async def versions(
        self, best: Version, failures: Sequence[tuple[Case, CaseResult]], tools: Sequence[str],
        tried: Sequence[tuple[str, str]], count: int,
    ) -> list[str]:  # fmt: skip
        """New instructions that a model proposes: at most `count`, none if it proposes none that can be read."""
        message = proposal_message(best.text, failures, tools, tried, count, self.prompts)
        for attempt in range(_ATTEMPTS):
            reply = await self._chat("propose", self.proposer, message, attempt)
            if versions := read_versions(reply):
                return versions[:count]
        return []

    async def _verdict(self, case: Case, check: Check, outcome: RunOutcome) -> CheckResult:
        if check.kind != "judge":
            return verdict(check, outcome)
        if outcome.error:
            return CheckResult(check, False, f"{check.words}; there is nothing to judge: {outcome.error}", 0.0)
        message = judge_message(case.input, outcome.text, check.value.text, self.prompts)
        for attempt in range(_ATTEMPTS):
            found = read_judgement(await self._chat("judge", self.judge, message, attempt))
            if found is not None:
                return apply_score(check, *found)
        raise RefineError(
            "the judge's reply has no score that can be read", hint="set another model under [minor] in config.toml"
        )

    async def _chat(self, kind: str, model: ChatModel | None, message: Message, attempt: int) -> str:
        assert model is not None, f"no model is set to {kind}"
        async with self.budget.paying(kind) as paid:
            request = ChatRequest((message,))
            request = with_schema(request, judgement_schema()) if kind == "judge" else request
            reply = await ask(JournaledModel(model, f"{kind} {attempt}"), request)
            cost = price(reply.model, reply.usage) if reply.usage.cost is None else reply.usage.cost
            paid(replace(reply.usage, cost=cost))
        return reply.text


_MOST_FILES, _MOST_BYTES = 5000, 100_000_000


# -- The agent, run in memory, with its tools, in its own folder or a copy of it ------------------------


@dataclass(slots=True)
class Runs:
    """Runs of one file's agent, whatever its instructions. `ask` is an `Ask`.

    `tools` are its tools, as the proposer reads them. If they could change something, each run has a copy of the file's
    folder.
    """

    path: Path
    run: Run
    budget: SharedBudget
    tools: tuple[str, ...] = ()
    copies: bool = False

    async def ask(self, agent: str, case: Case) -> RunOutcome:
        """What comes of the input of a case.

        Raises:
            ModelError: the model does not answer.
            LimitReached: the budget of all runs together is used up. Other limits are what came of it.
            ChatmdError, ConfigError: the agent cannot be run.
        """
        text = agent + gap(agent) + user_text(case.input)
        async with self._folder(agent) as shared:

            def journaled(one: ModelSettings) -> ChatModel:
                return JournaledModel(shared.open_model(one), f"{case.name} {one.base_url}".strip())

            run = replace(shared, open_model=journaled)
            conversation = Conversation(run, Transcript(text), user_turn="")
            answer, error = await self._answer(conversation, run.tally)
        return RunOutcome(answer, _calls(conversation.items), count_tokens(answer), run.tally.usage, error)

    async def _answer(self, conversation: Conversation, tally: SharedBudget) -> tuple[str, str]:
        """The answer; else what kept it from coming, if something of its own did."""
        try:
            async with self.run.in_time():
                return await conversation.answered(), ""
        except LimitReached as reached:
            if tally.is_used_up:
                self.budget.count("run", tally.usage)
                raise
            return "", reached.message
        except (EmptyReply, ModelRejected) as error:  # which may be so for this input only
            return "", error.message

    @asynccontextmanager
    async def _folder(self, agent: str) -> AsyncIterator[Run]:
        """What one run works with, and where."""
        folder = self.path.resolve().parent
        run = replace(self.run, tally=SharedBudget(replace(self.budget.left(), turns=self.run.tally.limits.turns)))
        if not self.copies:
            yield run
        else:
            with tempfile.TemporaryDirectory(prefix="lmm-refine-", ignore_cleanup_errors=True) as name:
                copy = Path(name).resolve() / folder.name
                await asyncio.to_thread(shutil.copytree, folder, copy, symlinks=True)
                file = copy / self.path.name
                run = replace(run, folder=copy, chain=(str(file),), protected=(*run.protected, file), yes=True)
                yield agree(run, agent)  # as for the original


def open_runs(path: Path, text: str, run: Run, budget: SharedBudget) -> Runs:
    """Runs of the agent in a file, once somebody has agreed to what its tools can do.

    Raises:
        InvalidDocument: the file has errors.
        ConsentNeeded: nobody agreed.
        RefineError: its tools change things, and a copy of its folder would not be what they work in.
    """
    folder = path.resolve().parent
    run = agree(run, text)
    spec = read_agent(run.rules.imported(parse(text, file=str(path))))
    copies = any(file.asking for file in declared_by(spec, run))
    if copies:
        _check_copy(folder, spec.tools)
    return Runs(path, run, budget, tuple(map(_line, spec.tools)), copies=copies)


def _line(tool: Tool) -> str:
    """A tool, as the proposer reads it."""
    return f"{tool.name or tool.server}: {tool.description or tool.command or f'{tool.kind} tool'}"


def _calls(items: Sequence[Item]) -> tuple[ToolCall, ...]:
    """The calls that a run made: those after the last thing that the user said."""
    begin = max((n for n, item in enumerate(items) if getattr(item, "role", "") == "user"), default=-1)
    return tuple(
        ToolCall(item.call, item.name, "".join(part for part in item.arguments if isinstance(part, str)))
        for item in items[begin + 1 :] if isinstance(item, CallItem)
    )  # fmt: skip


def _check_copy(folder: Path, tools: Sequence[Tool]) -> None:
    """See to it that a copy of the folder is as good as the folder, and not too large."""
    for tool in tools:
        for written in (*tool.roots, tool.cwd, tool.agent if tool.local else ""):
            if not (folder / written).resolve().is_relative_to(folder):
                raise RefineError(
                    f"the tool '{tool.name}' works outside of the prompt's folder, in '{written}': runs would "
                    "interfere with each other", where=tool.span.where, hint="give it a folder beside the prompt",
                )  # fmt: skip
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.lstat().st_size for file in files)
    if len(files) > _MOST_FILES or size > _MOST_BYTES:
        raise RefineError(
            f"its tools change files, and the folder is too large to be copied for every run ({len(files):,} files)",
            where=str(folder), hint="put the prompt in a small folder of its own",
        )  # fmt: skip
