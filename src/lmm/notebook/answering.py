"""Questions and edits that wait in a document, as a planner of `lmm.pipeline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmm.config import Settings
from lmm.errors import Interrupted, LmmError, Place
from lmm.markdown.blocks import Block
from lmm.markdown.tree import HeadingNode
from lmm.messages import Failed, Reply
from lmm.models.client import Ask, Client, Flow
from lmm.notebook.batch import Batch
from lmm.notebook.chat_log import Exchange
from lmm.notebook.condense import NOTICE, condensed, fits, room
from lmm.notebook.messages import Pending, Thread, chat_before, plan, request_for, threads_at, with_replies
from lmm.pipeline import Applied, Failure, Parsed
from lmm.prompts.templates import Prompts


@dataclass(frozen=True, slots=True)
class Answered:
    """A prompt that was pending, and the reply to it."""

    prompt: Pending
    reply: Reply


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """The threads to be answered, and all that it takes to ask."""

    document: Parsed
    threads: tuple[Thread, ...]
    settings: Settings
    refused: Mapping[int, LmmError]  # by the prompt's id: what could take no reply, and is not asked


Outcomes = list[Answered | Failure]


@dataclass(frozen=True, slots=True)
class AnswerPlanner:
    """Answers pending prompts: all of them, or those of the metadata block that covers the line `at`.

    Threads are answered side by side, the prompts of one in order; what follows a failure in a block may continue what
    just failed, and waits.
    """

    prompts: Prompts
    at: int | None = None
    tier: str = "major"

    def plan(self, document: Parsed, settings: Settings) -> AnswerPlan:
        """The threads that wait.

        Raises:
            LmmError: `at` names a line without a pending prompt; the error lists the lines that have one.
        """
        threads = plan(document.blocks, title=document.name, context_limit=settings.context_limit)
        if self.at is not None:
            threads = _at(threads, document.blocks, self.at)
        empty = Reply("", str(settings.major.model))
        _, refused = with_replies(document.blocks, [(ask, empty) for thread in threads for ask in thread.asks])
        return AnswerPlan(document, tuple(threads), settings, {id(pending): error for pending, error in refused})

    async def ask(self, plan: AnswerPlan, client: Client) -> Outcomes:
        """Ask about every thread; replies and failures, in document order."""
        found = await client.gather(self._answers(thread, plan, client) for thread in plan.threads)
        return [outcome for outcomes in found if not isinstance(outcomes, LmmError) for outcome in outcomes]

    async def _answers(self, thread: Thread, plan: AnswerPlan, client: Client) -> Outcomes:
        fitted, outcomes = [], Outcomes()
        for pending in thread.asks:
            try:
                known = id(pending) in plan.refused
                fitted.append(pending if known else await self._fitting(pending, client))
            except LmmError as error:
                outcomes.append(_failure(plan.document, pending, error))
                break
        done = await client.run(self.thread(replace(thread, asks=tuple(fitted)), plan))
        outcomes = [*done, *(outcomes if not any(isinstance(o, Failure) for o in done) else [])]
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                client.tell(Failed(outcome.error), outcome.place)
        return outcomes

    async def _fitting(self, pending: Pending, client: Client) -> Pending:
        """`pending` with summaries in place of a text that is too long for the model."""
        window = client.tier.context_window
        if fits(pending.subject.text, window) or pending.is_edit or not isinstance(pending.node, HeadingNode):
            return pending
        language = str(pending.node.root.own("lang") or "en")
        batch = Batch(pending.node, client.other("minor"), language=language)
        text = await condensed(pending.node, batch, self.prompts, room(window))
        return replace(pending, subject=replace(pending.subject, text=text), condensed=True)

    def thread(self, thread: Thread, plan: AnswerPlan) -> Flow[Outcomes]:
        """The prompts of one metadata block, in order."""
        log, done = thread.log, Outcomes()
        for pending in thread.asks:
            try:
                if (refused := plan.refused.get(id(pending))) is not None:
                    raise refused
                reply = yield self._request(pending, plan, chat_before(pending, log))
            except Interrupted:
                break
            except LmmError as error:
                done.append(_failure(plan.document, pending, error))
                break
            if pending.condensed and not reply.text.endswith(NOTICE):
                reply = replace(reply, text=f"{reply.text.rstrip()}\n\n{NOTICE}")
            done.append(Answered(pending, reply))
            if not pending.is_edit:
                log = (*log, Exchange(pending.prompt.word, pending.prompt.text, reply.text, reply.model))
        return done

    def requests(self, plan: AnswerPlan) -> list[Ask]:
        """What would be asked first about every thread, and what would follow it."""
        found = []
        for thread in plan.threads:
            flow = self.thread(thread, plan)
            try:
                ask = next(flow)
                while True:
                    found.append(ask)
                    ask = flow.send(Reply("(the reply to this)", ""))
            except StopIteration:
                continue
        return found

    def _request(self, pending: Pending, plan: AnswerPlan, chat: tuple[Exchange, ...]) -> Ask:
        system = plan.settings.system
        request = request_for(pending, chat, system, self.prompts)
        earlier = [(exchange.prompt, exchange.reply) for exchange in chat]
        return Ask(
            request,
            place_of(plan.document, pending),
            text=f"{pending.prompt.spelling}: {pending.prompt.text}",
            about=f"{pending.subject}, {len(pending.subject.text):,} characters",
            key=(request.task, system, earlier, pending.prompt.text, pending.subject.text),
        )

    def apply(self, document: Parsed, plan: AnswerPlan, result: Outcomes) -> Applied:
        """The document with the replies placed; the journal has those that could not be."""
        answered = [outcome for outcome in result if isinstance(outcome, Answered)]
        blocks, refused = with_replies(document.blocks, [(a.prompt, a.reply) for a in answered])
        failures = [outcome for outcome in result if isinstance(outcome, Failure)]
        failures += [_failure(document, pending, error) for pending, error in refused]
        gone = [pending for pending, _ in refused]
        return Applied(blocks, [a for a in answered if not any(a.prompt is p for p in gone)], failures)


def _at(threads: Sequence[Thread], blocks: Sequence[Block], line: int) -> list[Thread]:
    found = threads_at(threads, blocks, line)
    if not found:
        lines = ", ".join(str(pending.line) for thread in threads for pending in thread.asks)
        raise LmmError(f"no prompt waits at line {line}", hint=f"prompts wait at {lines}" if lines else "none waits")
    return found


def place_of(document: Parsed, pending: Pending) -> Place:
    """Where a prompt stands."""
    return Place(document.file, pending.line, path=pending.subject.path)


def _failure(document: Parsed, pending: Pending, error: LmmError) -> Failure:
    return Failure(place_of(document, pending), error)
