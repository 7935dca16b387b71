"""Ask the agent, the judge and the proposer while a prompt is measured; equal requests are made only once."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from chatmd.context import Run
from chatmd.errors import LimitReached, RefineError
from chatmd.language.agent import AgentSpec, CallItem, Item, Tool, read_agent, text_of
from chatmd.language.nodes import BLANK
from chatmd.language.syntax import parse
from chatmd.language.transcript import gap, user_text
from chatmd.prompts.templates import chatmd_prompts
from chatmd.refine.cases import PASS_MARK, Case, RunOutcome
from chatmd.runtime.runner import agree
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.tools.consent import declared_by
from lmm.config import ModelSettings
from lmm.disk import journal
from lmm.errors import EmptyReply, LmmError, ModelRejected
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, ToolCall
from lmm.models.budget import SharedBudget
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel, ask, is_journaled
from lmm.models.structured import NoJson, object_of, read_json, with_schema
from lmm.models.tokens import count_tokens, price

_MOST_FAILURES, _MOST_TRIED = 8, 6  # that the proposer gets
_LONGEST = 2000  # characters of an input or a reply that it gets
_ATTEMPTS = 2
_AT_ONCE = 8
_MOST_FILES, _MOST_BYTES = 5000, 100_000_000  # of a folder that is copied for each run
_VERSION = re.compile(r"<version(?:\s[^>]*)?>(.*?)</version>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case: why it failed, and the mean of a judge's scores, from 0 to 10, if there are any."""

    outcome: RunOutcome
    faults: tuple[str, ...] = ()
    score: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the outcome passes all checks."""
        return not self.faults


Failures = Sequence[tuple[Case, CaseResult]]


def read_judgement(reply: str) -> tuple[float, str] | None:
    """Return the score, from 0 to 10, and the reason in a judge's reply; None if there is no score.

    >>> read_judgement('{"reason": "No formula.", "score": 4}'), read_judgement("Fine!")
    ((4.0, 'No formula.'), None)
    """
    with contextlib.suppress(NoJson):
        for value in read_json(reply):
            score = value.get("score") if isinstance(value, dict) else None
            if isinstance(score, (int, float)) and not isinstance(score, bool) and 0 <= score <= 10:
                return float(score), " ".join(str(value.get("reason", "")).split())
    return None


def read_versions(reply: str) -> list[str]:
    """Return the versions in a model's reply, each once.

    >>> read_versions("<version>\\nBe brief.\\n</version>\\n<version>Be brief.</version><version>Be kind.</version>")
    ['Be brief.', 'Be kind.']
    """
    texts = (match[1].strip(BLANK) for match in _VERSION.finditer(reply))
    return list(dict.fromkeys(text for text in texts if text))


def _failure(case: Case, result: CaseResult) -> str:
    """Describe a failed case for the proposer."""
    outcome = result.outcome
    called = ", ".join(f"{call.name}({_short(call.arguments, 200)})" for call in outcome.calls)
    reply = _short(outcome.text, _LONGEST) if not outcome.error else f"(none: {outcome.error})"
    lines = [f"Input: {_short(case.input, _LONGEST)}", *([f"Tools called: {called}"] if called else []),
             f"Reply: {reply}", "What is wrong:", *(f"- {fault}" for fault in result.faults)]  # fmt: skip
    return "\n".join(lines)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} […]"


@dataclass(frozen=True, slots=True)
class JournaledModel:
    """A model that takes replies to repeated requests, and their usage, from the journal.

    `about` distinguishes equal requests that are intentionally made several times; with `again`, all are made again.
    """

    model: ChatModel
    about: str
    again: bool = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent]:
        """Stream the reply from the journal, or ask the model and store its reply."""
        journaled = is_journaled(self.model)
        key = journal.key_of("refine", self.name, self.about, repr((request.messages, request.tools)))
        known = await asyncio.to_thread(journal.get, key) if journaled and not self.again else None
        if known is not None:
            yield msgspec.convert(known, Reply)
            return
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply) and journaled:
                    with contextlib.suppress(LmmError, OSError):  # a full disk must not lose the reply
                        await asyncio.to_thread(journal.put, key, msgspec.to_builtins(event))
                yield event


@dataclass(slots=True)
class Evaluator:
    """Runs the agent in a file, with any instructions, in memory and with its tools; asks a judge and a proposer.

    If its tools could change something (`copies`), each run gets a copy of the file's folder. The judge and the
    proposer are None if they are not needed. With `again`, earlier replies do not count.
    """

    path: Path
    run: Run
    budget: SharedBudget
    tools: tuple[Tool, ...] = ()
    copies: bool = False
    judge: ChatModel | None = None
    proposer: ChatModel | None = None
    again: bool = False
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @classmethod
    def open(cls, path: Path, text: str, run: Run, budget: SharedBudget, *, judges: bool, proposes: bool) -> Evaluator:
        """Return an evaluator of the agent in a file, after the user agreed to its tools.

        Raises:
            InvalidDocument: the file has errors.
            ConsentNeeded: the user did not agree.
            RefineError: its tools change files outside of its folder, which copies cannot separate, or the folder is
                too large to copy; or there is no model to judge, or to propose.
        """
        run = agree(run, text)
        spec = read_agent(run.rules.imported(parse(text, file=str(path))))
        copies = any(file.asking for file in declared_by(spec, run))
        if copies:
            _check_copy(path.resolve().parent, spec)
        judge = _model(run.settings.minor, "judge", budget) if judges else None
        proposer = _model(run.settings.major, "write prompts", budget) if proposes else None
        return cls(path, run, budget, spec.tools, copies, judge, proposer)

    async def result(self, agent: str, case: Case) -> CaseResult:
        """Run one case with the agent in the text of a file, and check its outcome.

        Raises:
            LimitReached: the budget does not cover it.
            ModelError, RefineError: a model did not answer, or the judge's reply has no score.
            ChatmdError, ConfigError: the agent cannot be run.
        """
        async with self._at_once:
            async with self.budget.paying("run") as paid:
                outcome = await self._outcome(agent, case)
                paid(outcome.usage)
            if outcome.error:
                return CaseResult(outcome, (f"the run ended without an answer: {outcome.error}",))
            faults, scores = list[str](), list[float]()
            for check in case.checks:
                fault = check.fault(outcome)
                if check.kind == "judge":
                    score, reason = await self._judgement(case, check.value, outcome.text)
                    scores.append(score)
                    told = f"{check.words}; judged {score:g} of 10, {PASS_MARK:g} are needed: {reason}"
                    fault = told if score < PASS_MARK else ""
                faults += [fault] if fault else []
        return CaseResult(outcome, tuple(dict.fromkeys(faults)), sum(scores) / len(scores) if scores else None)

    async def versions(self, text: str, failures: Failures, tried: Sequence[tuple[str, str]], count: int) -> list[str]:
        """Ask a model for at most `count` versions of the instructions `text`; empty if its replies have none.

        `tried` are other versions with their results.
        """
        documents = [Attachment(text, "instructions")]
        if self.tools:
            lines = [f"{one.name or one.server}: {one.description or one.command or one.kind}" for one in self.tools]
            documents.append(Attachment("\n".join(lines), "tools"))
        documents += [Attachment(_failure(*one), "failed-case") for one in failures[:_MOST_FAILURES]]
        documents += [Attachment(f"{one}\n\n({came})", "earlier-attempt") for one, came in tried[-_MOST_TRIED:]]
        message = Message("user", self._filled("refine", count=str(count)), tuple(documents))
        for attempt in range(_ATTEMPTS):
            if versions := read_versions(await self._reply("propose", self.proposer, ChatRequest((message,)), attempt)):
                return versions[:count]
        return []

    async def _judgement(self, case: Case, criteria: str, reply: str) -> tuple[float, str]:
        """Ask the judge for score and reason; the reason comes first, so that the score follows from it.

        Scores are whole numbers, as the grammars of local servers limit the range only of these."""
        documents = (Attachment(case.input, "input"), Attachment(reply, "reply"))
        schema = object_of(reason={"type": "string"}, score={"type": "integer", "minimum": 0, "maximum": 10})
        message = Message("user", self._filled("judge", criteria=criteria), documents)
        request = with_schema(ChatRequest((message,)), schema)
        for attempt in range(_ATTEMPTS):
            if found := read_judgement(await self._reply("judge", self.judge, request, attempt)):
                return found
        hint = "set another model under [minor] in config.toml"
        raise RefineError("the judge's reply has no score that can be read", hint=hint)

    def _filled(self, name: str, **slots: str) -> str:
        return chatmd_prompts(self.run.settings.prompts.folder).fill(name, **slots)

    async def _reply(self, kind: str, model: ChatModel | None, request: ChatRequest, attempt: int) -> str:
        assert model is not None, f"no model is set to {kind}"
        async with self.budget.paying(kind) as paid:
            reply = await ask(JournaledModel(model, f"{kind} {attempt}", self.again), request)
            cost = price(reply.model, reply.usage) if reply.usage.cost is None else reply.usage.cost
            paid(replace(reply.usage, cost=cost))
        return reply.text

    # -- the agent -----------------------------------------------------------------------------------

    async def _outcome(self, agent: str, case: Case) -> RunOutcome:
        """Run the agent; return its answer, or the error if it is due to the agent or the input."""
        async with self._folder(agent) as run:

            def journaled(settings: ModelSettings) -> ChatModel:
                return JournaledModel(run.open_model(settings), f"{case.name} {settings.base_url}".strip(), self.again)

            text, tally = agent + gap(agent) + user_text(case.input), run.tally
            conversation = Conversation(replace(run, open_model=journaled), Transcript(text), user_turn="")
            answer = error = ""
            try:
                async with self.run.in_time():
                    answer = await conversation.answered()
            except LimitReached as reached:
                if tally.is_used_up:
                    self.budget.count("run", tally.usage)
                    raise
                error = reached.message
            except (EmptyReply, ModelRejected) as rejected:  # may be due to this input
                error = rejected.message
            return RunOutcome(answer, _calls(conversation.spec.items), count_tokens(answer), tally.usage, error)

    @asynccontextmanager
    async def _folder(self, agent: str) -> AsyncIterator[Run]:
        """Yield the context of one run, in a copy of the folder if its tools could change something."""
        run = replace(self.run, tally=SharedBudget(replace(self.budget.left(), turns=self.run.tally.limits.turns)))
        if not self.copies:
            yield run
            return
        folder = self.path.resolve().parent
        with tempfile.TemporaryDirectory(prefix="lmm-refine-", ignore_cleanup_errors=True) as name:
            copy = Path(name).resolve() / folder.name
            await asyncio.to_thread(shutil.copytree, folder, copy, symlinks=True)
            file = copy / self.path.name
            run = replace(run, folder=copy, chain=(str(file),), protected=(*run.protected, file))
            yield agree(run.with_options(yes=True), agent)  # as for the original


def _model(settings: ModelSettings, what: str, budget: SharedBudget) -> ChatModel:
    model = shared_chat(settings)
    if model.name.startswith("Builtin/"):
        hint = "set a key (export OPENAI_API_KEY=…), or name a language model in config.toml"
        raise RefineError(f"{model.name} cannot {what}", hint=hint)
    budget.limits.check_price(str(settings.model))
    return model


def _calls(items: Sequence[Item]) -> tuple[ToolCall, ...]:
    """Return the calls that a run made: those after the last user message."""
    begin = max((n for n, item in enumerate(items) if getattr(item, "role", "") == "user"), default=-1)
    return tuple(
        ToolCall(item.call, item.name, text_of(item.arguments))
        for item in items[begin + 1 :] if isinstance(item, CallItem)
    )  # fmt: skip


def _check_copy(folder: Path, spec: AgentSpec) -> None:
    """Raise an error if tools work outside of the folder, so that a copy would not do, or if it is too large."""
    for tool in spec.tools:
        for written in (*tool.roots, tool.cwd, tool.agent if tool.local else ""):
            if not (folder / written).resolve().is_relative_to(folder):
                raise RefineError(
                    f"the tool '{tool.name}' works outside of the prompt's folder, in '{written}': runs would "
                    "interfere with each other", where=tool.span.where, hint="give it a folder beside the prompt",
                )  # fmt: skip
    files = [file for file in folder.rglob("*") if file.is_file()]
    if len(files) > _MOST_FILES or sum(file.lstat().st_size for file in files) > _MOST_BYTES:
        raise RefineError(
            f"its tools change files, and the folder is too large to be copied for every run ({len(files):,} files)",
            where=str(folder), hint="put the prompt in a small folder of its own",
        )  # fmt: skip
