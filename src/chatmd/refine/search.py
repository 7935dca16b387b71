"""Search for better instructions: measure them, propose versions, measure these, and apply the best.

Equal requests to the agent, the judge and the proposer are made only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from chatmd.context import Run
from chatmd.errors import LimitReached, RefineError
from chatmd.language.agent import AgentSpec, CallItem, Tool, read_agent, text_of
from chatmd.language.nodes import BLANK, Element, SyntaxTree, Text, joined
from chatmd.language.syntax import errors_of, parse, parse_body, write
from chatmd.language.transcript import gap, storable, user_text
from chatmd.prompts.templates import chatmd_prompts
from chatmd.refine.cases import PASS_MARK, Case, RunOutcome
from chatmd.runtime.runner import agree
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.tools.consent import declared_by
from lmm.config import ModelSettings
from lmm.disk import digest, files, journal
from lmm.disk.files import check_writable, document_lock
from lmm.errors import Changed, DocumentBusy, EmptyReply, LmmError, ModelRejected
from lmm.messages import Attachment, ChatEvent, ChatRequest, Message, Reply, ToolCall, Usage
from lmm.models.budget import SharedBudget
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel, ask, is_journaled
from lmm.models.structured import NoJson, object_of, read_json, with_schema
from lmm.models.tokens import count_tokens, price

# -- Ask the agent, the judge and the proposer -----------------------------------------------------------------


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
        copies = any(file.needing_consent for file in declared_by(spec, run))
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
                    failure = f"{check.words}; judged {score:g} of 10, {PASS_MARK:g} are needed: {reason}"
                    fault = failure if score < PASS_MARK else ""
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
                if tally.refused:
                    self.budget.count("run", tally.usage)
                    raise
                error = reached.message
            except (EmptyReply, ModelRejected) as rejected:  # may be due to this input
                error = rejected.message
            items = conversation.spec.items  # the calls of this run are after the last user message
            begin = max((n for n, item in enumerate(items) if getattr(item, "role", "") == "user"), default=-1)
            made = [item for item in items[begin + 1 :] if isinstance(item, CallItem)]
            calls = tuple(ToolCall(item.call, item.name, text_of(item.arguments)) for item in made)
            return RunOutcome(answer, calls, count_tokens(answer), tally.usage, error)

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


ROUNDS = 4
"""The default number of rounds in which versions are proposed."""
VARIANTS = 3
"""The number of versions that are proposed in a round."""
SAMPLE = 4
"""The number of failed cases on which they are tried first; only the best version is run on the others."""
FEWEST_TO_SPLIT = 4
_NOISE = 0.5  # points: smaller differences between mean scores count as chance
Progress = Callable[[str], None]


# -- Find and replace the instructions in a file -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Instructions:
    """The inside of a file's system or developer message: `start` up to `end` of the file's text.

    `text` is what a model gets of it, without comments and the white space `before` and `after`. If it contains
    documents and imports (`parts`), it is written in ChatMD; otherwise it is plain text.
    """

    text: str
    start: int
    end: int
    before: str
    after: str
    parts: tuple[str, ...]

    def put(self, text: str, source: str) -> str:
        """Replace the instructions in the text of their file; nothing else changes.

        Raises:
            ValueError: the new ones are empty or not valid, lack a part of the old ones, or add one.

        >>> from chatmd.language.syntax import parse
        >>> source = "<system>\\nBe brief.\\n</system>"
        >>> find_instructions(parse(source)).put("Close with </system>.", source)
        '<system>RAW|\\nClose with </system>.\\n|RAW</system>'
        """
        if text == self.text:
            return source
        text = storable(text).strip(BLANK)
        if not text:
            raise ValueError("it is empty")
        whole = f"{self.before}{text}{self.after}"
        if self.parts:
            body = parse_body(whole)
            if errors_of(body.problems):
                raise ValueError(body.problems[0].message)
            if sorted(write([node]) for node in body.children if isinstance(node, Element)) != sorted(self.parts):
                raise ValueError(f"it must keep {', '.join(self.parts)}, once each, and add no other")
        return source[: self.start] + (whole if self.parts else write([Text(whole)])) + source[self.end :]


def find_instructions(document: SyntaxTree) -> Instructions:
    """Find the first system message of a file, or else its first developer message.

    Raises:
        RefineError: there is none, or it is empty.

    >>> from chatmd.language.syntax import parse
    >>> find_instructions(parse("<system>\\nBe brief.\\n</system><user/>")).text
    'Be brief.'
    """
    roles = [
        (one, one.tag if one.tag != "msg" else (one.get("role") or "").strip().lower()) for one in document.elements
    ]
    message = next((one for role_name in ("system", "developer") for one, role in roles if role == role_name), None)
    if message is None or message.closing is None:
        raise RefineError(
            "there is no <system> or <developer> message in this file", where=document.file or "the file",
            hint="its instructions must be in the file itself, not in an import at its top",
        )  # fmt: skip
    children = joined(message.children)
    parts = tuple(write([node]) for node in children if isinstance(node, Element))
    source = write(children) if parts else "".join(node.value for node in children if isinstance(node, Text))
    text = source.strip(BLANK)
    if not text:
        raise RefineError("the message is empty", where=message.span.where, hint="write a first version of it")
    before, _, after = source.partition(text)
    return Instructions(text, message.opening.end, message.closing.start, before, after, parts)


# -- Compare versions on the same cases, some of which are held out from the proposals ------------------


@dataclass(slots=True)
class Version:
    """A version of the instructions, with its results. `id` is ``0`` for the original, or round and number: ``1.2``."""

    id: str
    text: str
    results: dict[str, CaseResult] = field(default_factory=dict)

    def of(self, names: Iterable[str]) -> list[CaseResult]:
        """Return its results on those of the cases that were measured."""
        return [self.results[name] for name in names if name in self.results]

    def passed(self, names: Iterable[str]) -> int:
        """Return how many of the cases it passes."""
        return sum(result.passed for result in self.of(names))

    def score(self, names: Iterable[str]) -> float | None:
        """Return the mean of a judge's scores on the cases; None if none was judged."""
        scores = [result.score for result in self.of(names) if result.score is not None]
        return sum(scores) / len(scores) if scores else None

    def advantage(self, other: Version, names: Collection[str]) -> float:
        """Return how many more of the cases it passes than another; if as many, by how much better it is judged.

        A difference of scores that is small enough to be chance is none.
        """
        better = (self.score(names) or 0.0) - (other.score(names) or 0.0)
        return self.passed(names) - other.passed(names) or (better if abs(better) > _NOISE else 0.0)


def split(cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the names of cases into those for proposals, and a third, chosen by hash of the name, that is held out.

    If there are fewer than four, none is held out.
    """
    names = [case.name for case in cases]
    held_out = set(sorted(names, key=digest)[: len(names) // 3 if len(names) >= FEWEST_TO_SPLIT else 0])
    return tuple(n for n in names if n not in held_out), tuple(n for n in names if n in held_out)


def best_of(versions: Sequence[Version], names: Sequence[str]) -> Version:
    """Return the best version, or the first of equals. Versions not measured on all of these cases do not count."""
    best, *others = [one for one in versions if len(one.of(names)) == len(names)] or versions[:1]
    for version in others:
        best = version if version.advantage(best, names) > 0 else best
    return best


@dataclass(slots=True)
class Refinement:
    """The result of a refinement: all `versions`, the `winner`, if one is better, and the `reason`, in words.

    `error` is what ended it early: an error, a limit, or a cancellation; `usage` is the total.
    """

    path: Path
    source: str = field(repr=False)
    instructions: Instructions | None = field(repr=False)  # None if they are only measured
    cases: tuple[Case, ...] = field(repr=False)
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    versions: list[Version] = field(repr=False)
    winner: Version | None = None
    reason: str = ""
    error: LmmError | asyncio.CancelledError | None = None
    usage: Usage = Usage()  # noqa: RUF009  # a frozen value

    @classmethod
    def of(cls, path: Path, source: str, cases: Sequence[Case], rounds: int) -> Refinement:
        """Start a refinement of a file's text; nothing is measured yet.

        Raises:
            RefineError: the text has errors, or, with `rounds`, no instructions.
        """
        document = parse(source, file=str(path))
        if problems := errors_of(document.problems):
            raise RefineError(problems[0].message, where=problems[0].span.where, hint=problems[0].hint)
        if not rounds:
            return cls(path, source, None, tuple(cases), tuple(case.name for case in cases), (), [Version("0", "")])
        instructions = find_instructions(document)
        return cls(path, source, instructions, tuple(cases), *split(cases), [Version("0", instructions.text)])

    @property
    def baseline(self) -> Version:
        """The original instructions."""
        return self.versions[0]

    @property
    def stopped(self) -> str:
        """What ended it early, in words."""
        return self.error.message if isinstance(self.error, LmmError) else "interrupted" if self.error else ""

    def agent(self, version: Version) -> str:
        """Return the text of the file with a version's instructions."""
        return self.instructions.put(version.text, self.source) if self.instructions else self.source

    def apply(self) -> None:
        """Write the winner to the file, which must not have changed since it was measured.

        Raises:
            RefineError: there is no winner.
            DocumentError: the file was changed in the meantime, or cannot be written.
        """
        if self.winner is None:
            raise RefineError("there is nothing to apply: no version is better", where=str(self.path))
        check_writable(self.path)
        with document_lock(self.path, timeout=0):
            try:
                files.replace(self.path, self.agent(self.winner), expected=self.source.encode("utf-8"))
            except Changed as error:
                hint = "refine it again, or copy what you want from the diff"
                raise DocumentBusy(
                    "the file has changed since it was measured; nothing was written", where=str(self.path), hint=hint
                ) from error

    def decide(self) -> None:
        """Choose the winner: a version that is better on the cases for proposals, and not worse on those held out."""
        base, best, held_out = self.baseline, best_of(self.versions, self.train), self.held_out
        passed, before = best.passed(self.train), base.passed(self.train)
        if best is base:
            all_pass = before == len(self.train)
            self.reason = "all of these cases pass as it is" if all_pass else "no version does better than the original"
            return
        better = f"version {best.id} passes {passed} of {len(self.train)}, and {before} passed as it is"
        if passed == before:
            scores = f"{best.score(self.train) or 0:.1f}, and {base.score(self.train) or 0:.1f}"
            better = f"version {best.id} is judged {scores} as it is"
        on_held = f"of those held out {best.passed(held_out)} of {len(held_out)}, and {base.passed(held_out)} as it is"
        if len(best.of(held_out)) + len(base.of(held_out)) < 2 * len(held_out):
            self.reason = f"best so far: {better}; it was not yet measured on the cases that were held out"
        elif best.advantage(base, held_out) < 0:
            self.reason = f"{better}; but {on_held}: it fits these cases, not the task"
        else:
            self.winner, self.reason = best, f"{better}; {on_held if held_out else 'no case was held out'}"


# -- The search: measure, propose, measure, choose ------------------------------------------------------


async def refine(
    text: str,
    path: Path,
    cases: Sequence[Case],
    run: Run,
    *,
    rounds: int = ROUNDS,
    again: bool = False,
    progress: Progress = lambda text: None,
) -> Refinement:
    """Measure the instructions in the text of a file on cases, and search for better ones; the file is not changed.

    In each round, new versions are tried on some failed cases, and the best is measured on all but those held out.

    The budget of `run` is for everything together. An interruption, an error of a model or an empty budget end the
    search early: the results so far are returned, and a repeated search does not ask for them again.

    Raises:
        InvalidDocument, RefineError: the file cannot be used.
        ConsentNeeded: the user did not agree to the file's tools.
        ConfigError, ModelError: the required models are not available.
    """
    budget = SharedBudget(dataclasses.replace(run.tally.limits, turns=None))
    done = await asyncio.to_thread(Refinement.of, path, text, cases, rounds)
    judges = any(check.kind == "judge" for case in cases for check in case.checks)
    evaluator = await asyncio.to_thread(Evaluator.open, path, text, run, budget, judges=judges, proposes=rounds > 0)
    evaluator.again = again
    try:
        await search_versions(done, rounds, evaluator, progress)
    except (LmmError, asyncio.CancelledError) as error:
        done.error = error
    if rounds:
        done.decide()
    done.usage = budget.usage
    return done


async def search_versions(
    done: Refinement, rounds: int, evaluator: Evaluator, progress: Progress = lambda text: None
) -> None:
    """Measure the instructions on the cases, and search for better ones in rounds of proposals, as `refine`."""

    by_name = {case.name: case for case in done.cases}

    async def measure(versions: Sequence[Version], names: Iterable[str], what: str) -> None:
        """Run versions on cases in parallel. After the first error, no other runs start, but running ones finish."""
        failed = list[LmmError]()

        async def one(version: Version, name: str) -> None:
            if not failed:
                try:
                    version.results[name] = await evaluator.result(done.agent(version), by_name[name])
                except LmmError as error:
                    failed.append(error)

        todo = [(version, name) for version in versions for name in names if name not in version.results]
        if todo:
            progress(f"{what}: {len(todo)} to run")
        async with asyncio.TaskGroup() as group:
            for each in todo:
                group.create_task(one(*each))
        if failed:
            raise next((error for error in failed if not isinstance(error, LimitReached)), failed[0])

    await measure(done.versions, [case.name for case in done.cases], "as it is")
    for number in range(1, rounds + 1):
        best = best_of(done.versions, done.train)
        failed = [name for name in done.train if not best.results[name].passed]
        if not failed:
            break
        new = await _propose(done, number, best, failed, evaluator, progress)
        done.versions += new
        await measure(new, failed[:SAMPLE], f"round {number}")
        better = best_of([best, *new], failed[:SAMPLE])
        await measure([better], done.train, f"version {better.id}")
    best = best_of(done.versions, done.train)
    await measure([best], done.held_out, f"version {best.id}, held out")


async def _propose(
    done: Refinement, number: int, best: Version, failed: Sequence[str], evaluator: Evaluator, progress: Progress
) -> list[Version]:
    """Ask for new versions; invalid ones and those that were already tried are left out."""
    failures = [(case, best.results[case.name]) for case in done.cases if case.name in failed]
    tried = [
        (one.text, f"{one.passed(done.train)} of {len(one.of(done.train))} cases passed")
        for one in done.versions[1:] if one is not best
    ]  # fmt: skip
    known, new = {version.text for version in done.versions}, list[Version]()
    for text in await evaluator.versions(best.text, failures, tried, VARIANTS):
        version = Version(f"{number}.{len(new) + 1}", text)
        try:
            done.agent(version)
        except ValueError as error:
            progress(f"round {number}: a proposal was left out: {error}")
            continue
        new += [version] if text not in known else []
        known.add(text)
    if not new:
        progress(f"round {number}: no new version was proposed")
    return new
