"""Answering the pending questions and edits of a document: asking, and placing the replies.

Everything but the asking is pure: blocks of a document go in, and blocks come out; `lmm.pipeline` does the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from lmm.config import ModelSettings, Settings
from lmm.errors import EmptyReply, Failure, Interrupted, LmmError, ModelError, Place, TooLong
from lmm.markdown.blocks import Block, MetadataBlock, TextBlock, serialize
from lmm.markdown.parse_markdown import misread, unclosed_construct
from lmm.markdown.tree import HeaderNode, HeadingNode
from lmm.messages import Failed, Notice, Reply, render
from lmm.models.client import Client
from lmm.models.port import Ask, Flow
from lmm.models.tokens import (
    ASSUMED,
    CHARACTERS_PER_TOKEN,
    ContextWindow,
    check_fits,
    count_tokens,
    learn,
    surely_fits,
    window_of,
)
from lmm.notebook.chat_log import ChatExchange, current_chat, log_exchange, logged, read_log
from lmm.notebook.context import DocumentView, outline_of, unknown_names
from lmm.notebook.edit_reply import EditReply, new_text
from lmm.notebook.edit_warnings import CUT, says_nothing
from lmm.notebook.edits import EDIT, check_edit, find_edits, ids_for, place_edit, place_revision
from lmm.notebook.mentions import Mentions, no_mentions
from lmm.notebook.patches import PutResults, Target
from lmm.notebook.pending_prompts import (
    AskedAnew,
    PendingPrompt,
    PromptThread,
    covers,
    plan,
    split_shared,
    stale_replies,
)
from lmm.notebook.references import citation_warning, unknown_references
from lmm.notebook.requests import request_for
from lmm.pipeline import ParsedDocument, Patch, Report
from lmm.prompts.templates import Prompts

NOTICE = "*(Answered from summaries of the sections: the text is longer than the model can read at once.)*"
_SHARE = 0.75  # of a model's window that a text may take; the rest is for instructions, chat and reply
# Words in the errors of servers whose model does not accept pictures.
_NO_PICTURES = ("image", "picture", "vision", "multimodal", "mmproj", "modalit")


def put_replies(blocks: Sequence[Block], answered: Sequence[AnsweredPrompt]) -> list[Block]:
    """Place all replies in a document, in the order of `_turn`.

    Raises:
        LmmError: one of them cannot be placed.
    """
    shared = sorted({one.prompt.block for one in answered if one.prompt.shares})
    blocks = split_shared(blocks, shared) if shared else blocks
    moved = list[AnsweredPrompt]()
    for one in answered:
        ask = one.prompt
        start, end = (i + bisect_left(shared, i - ask.shares) for i in ask.extent)
        placed = replace(ask, block=ask.block + bisect_left(shared, ask.block), extent=(start, end))
        moved.append(AnsweredPrompt(placed, one.reply))
    moved.sort(key=lambda one: _turn(one.prompt))
    result = _with_chats(blocks, [one for one in moved if not one.prompt.is_edit])
    edits = [one for one in moved if one.prompt.is_edit]
    whole = "\0".join([serialize(result), *(one.reply.text for one in moved)]) if edits else ""
    return _with_edits(result, edits, ids_for(whole)) if edits else result


def _turn(ask: PendingPrompt) -> tuple[bool, int, int]:
    """Return a prompt's turn: chats are placed first, as they move no blocks; then edits, the last one first."""
    return ask.is_edit, -ask.block if ask.is_edit else ask.block, ask.prompt.start


def _refusals(blocks: Sequence[Block], prompts: Sequence[PendingPrompt]) -> dict[int, LmmError]:
    """Return the errors of the prompts whose reply could not be placed, whatever it is, by their ids."""
    errors, asked = dict[int, LmmError](), set[int]()
    pending = find_edits(blocks) if any(ask.is_edit for ask in prompts) else []
    for ask in sorted(prompts, key=_turn):
        block = blocks[ask.block]
        assert isinstance(block, MetadataBlock)
        try:
            if block.values():
                log_exchange(block, ChatExchange(ask.word, ask.text, ""), None if ask.again else ask.prompt)
            if ask.is_edit and ask.revises is None:
                check_edit(blocks, ask.block, ask.extent, pending, asked)
                asked.add(ask.block)
        except LmmError as error:
            errors[id(ask)] = error
    return errors


def _with_chats(blocks: Sequence[Block], answered: Sequence[AnsweredPrompt]) -> list[Block]:
    """Log the replies, unless the marks of equations or code in them would close a construct that is open above."""
    result = list(blocks)
    for ask, reply in ((one.prompt, one.reply) for one in answered):
        block = result[ask.block]
        assert isinstance(block, MetadataBlock)
        warning = "; ".join(filter(None, (CUT * reply.cut, ask.doubt)))
        exchange = ChatExchange(ask.word, ask.text, reply.text, reply.model, warning=warning, about=ask.subject.hash)
        result[ask.block] = log_exchange(block, exchange, None if ask.again else ask.prompt)
    swallowed = misread(result) if answered else []
    index = next((i for i in sorted(one.prompt.block for one in answered) if result[i] in swallowed), None)
    if index is None:
        return result
    opened = [
        (b, found) for b in blocks[:index] if isinstance(b, TextBlock) and (found := unclosed_construct(b.content))
    ]
    where = [f"'{mark}' on line {b.line + b.content.count(chr(10), 0, at)}" for b, (at, mark) in opened]
    what = f"the reply would close {where[-1] if where else 'a block above'}, which is open"
    raise LmmError(what, hint="close it, then run this again: the reply is kept")


def _with_edits(blocks: Sequence[Block], answered: Sequence[AnsweredPrompt], new_id: Callable[..., str]) -> list[Block]:
    result = list(blocks)
    pending = find_edits(blocks)  # once: the last edit is placed first, so nothing moves above the next one
    for ask, reply in ((one.prompt, one.reply) for one in answered):
        new = ask.new or new_text(reply.text, ask.request)
        new = replace(new, doubts=(*new.doubts, ask.doubt)) if ask.doubt else new
        if ask.revises is not None:
            result = place_revision(result, ask.revises, ask.prompt, reply, new)
        else:
            place = (ask.block, ask.extent, ask.prompt)
            edit_id = new_id(ask.prompt.text, serialize(ask.seen), reply.text)
            result = place_edit(result, *place, reply, new, edit_id, seen=ask.seen, pending=pending)
    if any(isinstance(block, MetadataBlock) and EDIT in block.source for block in misread(result)):
        hint = "ask for an edit of a paragraph outside of it"
        raise LmmError("an edit of this text would be read as part of a list, a comment or code", hint=hint)
    return result


# -- the planner -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A prompt that was pending, and the reply to it."""

    prompt: PendingPrompt
    reply: Reply

    @property
    def text(self) -> str:
        """The reply, as the model sent it."""
        return self.reply.text

    def as_json(self) -> dict[str, Any]:
        """Return the prompt, its place and the reply as JSON values."""
        prompt, reply = self.prompt, self.reply
        asked = {"line": prompt.line, "kind": prompt.prompt.word, "prompt": prompt.prompt.text}
        return asked | {"reply": reply.text, "model": reply.model, "cut": reply.cut, "remembered": reply.remembered}

    def at(self, place: PendingPrompt) -> AnsweredPrompt:
        """Return the reply to the same prompt of another version; what the model has seen stays."""
        was = self.prompt
        placed = replace(place, seen=was.seen, subject=was.subject, doubt=was.doubt, new=was.new)
        return AnsweredPrompt(placed, self.reply)

    def failure(self, version: ParsedDocument, error: LmmError | None) -> Failure | None:
        """Return the failure of a reply that could not be placed; None if it is in the document already."""
        if error is None:
            prompt, reply = self.prompt.text, self.reply.text
            if any((exchange.prompt, exchange.reply) == (prompt, reply) for _, exchange in logged(version.blocks)):
                return None
            what = "the file was changed meanwhile and no longer contains this question, so the reply was not saved"
            error = LmmError(f"{what}: {' '.join(prompt.split())}", hint="if you ask it again, the reply costs nothing")
        return Failure(place_of(version, self.prompt), error, unsaved=True)


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """The threads to be answered, with the document, the settings, and what the model may see."""

    document: ParsedDocument
    threads: tuple[PromptThread, ...]
    settings: Settings
    view: DocumentView
    prompts: tuple[PendingPrompt, ...] = ()  # all of the document, and those to be asked again


Outcomes = list[AnsweredPrompt | Failure]
PromptKey = tuple[tuple[str, ...], str, str]


def _key(ask: PendingPrompt) -> PromptKey:
    """Return what identifies a prompt while its author changes the document."""
    return ask.subject.path, ask.word, ask.text


@dataclass(frozen=True, slots=True)
class AnswerPlanner:
    """Answers pending prompts: all of them, or those of the metadata block that covers the line `at`.

    With `again`, the last exchange at that line is asked again if no prompt is pending there; with `stale`, every
    exchange whose text has changed since the answer. The old reply stays in the log.

    Threads are answered concurrently, the prompts of each in order; prompts after a failure in a block stay pending,
    because they may continue the failed one. A thread with a prompt that is `in_flight` is left out.
    """

    prompts: Prompts
    at: int | None = None
    again: bool = False
    stale: bool = False
    load_mentions: Callable[[str, str, Settings], Awaitable[Mentions]] = no_mentions
    window: Callable[[ModelSettings], Awaitable[ContextWindow]] = window_of
    known_references: Callable[[], frozenset[str] | None] = lambda: None
    in_flight: set[PromptKey] = field(default_factory=set)

    def plan(self, document: ParsedDocument, settings: Settings) -> AnswerPlan:
        """Plan the threads to be answered.

        Raises:
            LmmError: nothing is pending at the line `at`, or could be asked again; the error lists pending prompts.
        """
        blocks, line = document.blocks, self.at
        anew = list[AskedAnew]()
        if self.stale:
            anew = [one for one in stale_replies(blocks) if line is None or covers(blocks[one[0]], line)]
        elif self.again and line is not None:
            logs = ((i, read_log(b.values())) for i, b in enumerate(blocks) if isinstance(b, MetadataBlock))
            anew = [(i, log[-1]) for i, log in logs if log and covers(blocks[i], line)]
        every = plan(blocks, title=document.name, anew=anew)
        found = [thread for thread in every if self.in_flight.isdisjoint(map(_key, thread.prompts))]
        threads = found
        if line is not None:
            pending_threads = [thread for thread in found if not thread.prompts[0].again]
            threads = [thread for thread in pending_threads if covers(blocks[thread.prompts[0].block], line)]
            threads = threads or [thread for thread in found if thread.prompts[0].again]
            if not threads:
                lines = ", ".join(str(pending.line) for thread in pending_threads for pending in thread.prompts)
                hint = f"prompts are pending at {lines}" if lines else "none is pending"
                state = "pending"
                if self.again and not self.stale:
                    state, answered = "pending or answered", dict.fromkeys(blocks[at].line for at, _ in logged(blocks))
                    hint += f"; answered prompts are at {', '.join(map(str, answered))}" if answered else ""
                raise LmmError(f"no prompt is {state} at line {line}", hint=hint)
        errors = _refusals(blocks, [ask for thread in threads for ask in thread.prompts])
        checked = [tuple(replace(ask, refused=errors.get(id(ask))) for ask in thread.prompts) for thread in threads]
        threads = [replace(thread, prompts=some) for thread, some in zip(threads, checked, strict=True)]
        prompts = tuple(ask for thread in every for ask in thread.prompts)
        return AnswerPlan(document, tuple(threads), settings, DocumentView.of(blocks), prompts)

    async def ask(self, plan: AnswerPlan, client: Client) -> tuple[Patch, Report[AnsweredPrompt]]:
        """Ask the prompts of all threads; return the patch with the replies, and the failures, in document order."""
        asked = {_key(ask) for thread in plan.threads for ask in thread.prompts}
        self.in_flight.update(asked)
        try:
            found = await client.gather(self._answers(thread, plan, client) for thread in plan.threads)
        finally:
            self.in_flight.difference_update(asked)
        outcomes = [outcome for some in found if not isinstance(some, LmmError) for outcome in some]
        failures = tuple(outcome for outcome in outcomes if isinstance(outcome, Failure))
        return _patch(plan, [one for one in outcomes if isinstance(one, AnsweredPrompt)]), Report((), failures)

    async def _answers(self, thread: PromptThread, plan: AnswerPlan, client: Client) -> Outcomes:
        prepared, missing = await self._prepare(thread, plan)
        done = await client.run(self.thread(prepared, plan))
        refusal = done[-1].error if done and isinstance(done[-1], Failure) else None
        if isinstance(refusal, TooLong) and len(done) <= len(prepared.prompts):
            refused = self._request(prepared.prompts[len(done) - 1], plan, prepared.log).request
            learn(client.tier, refusal, sum(count_tokens(render(message)) for message in refused.messages))
            shorter, failed = await self._prepare(thread, plan)
            if shorter.prompts != prepared.prompts and not failed:
                done = await client.run(self.thread(shorter, plan))
        outcomes = done if any(isinstance(outcome, Failure) for outcome in done) else [*done, *missing]
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                client.tell(Failed(outcome.error), outcome.place)
                continue
            pending = outcome.prompt
            notes = [*pending.mentions.notes, *pending.unknown]
            notes += filter(None, [NOTICE * pending.condensed, f"warning: {pending.doubt}" * bool(pending.doubt)])
            notes += [f"{client.name} does not accept pictures; they were left out"] if pending.blind else []
            for note in notes:
                client.tell(Notice(note), place_of(plan.document, pending))
        return outcomes

    async def _prepare(self, thread: PromptThread, plan: AnswerPlan) -> tuple[PromptThread, Outcomes]:
        """Complete the prompts of a thread: what they mention, the pictures in their texts, the context that fits.

        Return the thread up to the first prompt for which something cannot be loaded, and that failure.
        """
        prepared, tier = list[PendingPrompt](), plan.settings.major
        window = ASSUMED if surely_fits(tier, plan.document.text) else await self.window(tier)
        for pending in thread.prompts:
            try:
                if pending.refused is None:
                    text = "" if pending.is_edit else pending.subject.text
                    found = await self.load_mentions(pending.text, text, plan.settings)
                    blind = bool(found.pictures) and plan.settings.major.model.provider == "Builtin"
                    pending = replace(_fitted(pending, plan, window), mentions=found, blind=blind)
            except LmmError as error:
                return replace(thread, prompts=tuple(prepared)), [Failure(place_of(plan.document, pending), error)]
            prepared.append(pending)
        return replace(thread, prompts=tuple(prepared)), []

    def thread(self, thread: PromptThread, plan: AnswerPlan) -> Flow[Outcomes]:
        """Ask the prompts of one metadata block, in order."""
        log, done = thread.log, Outcomes()
        for pending in thread.prompts:
            try:
                pending, reply = yield from self._reply(pending, plan, log)
            except Interrupted:
                break
            except LmmError as error:
                done.append(Failure(place_of(plan.document, pending), error))
                break
            if pending.condensed and not reply.text.endswith(NOTICE):
                reply = replace(reply, text=f"{reply.text.rstrip()}\n\n{NOTICE}")
            if "@" in reply.text:
                keys = unknown_references(reply.text, self.known_references(), around=pending.subject.text)
                pending = replace(pending, doubt=citation_warning(keys))
            done.append(AnsweredPrompt(pending, reply))
            if not pending.is_edit:
                log = (*log, ChatExchange(pending.prompt.word, pending.prompt.text, reply.text, reply.model))
        return done

    def _reply(
        self, pending: PendingPrompt, plan: AnswerPlan, log: tuple[ChatExchange, ...]
    ) -> Flow[tuple[PendingPrompt, Reply]]:
        """Ask one prompt; return it as sent (without pictures if the model does not accept them), and the reply."""
        if pending.refused is not None:
            raise pending.refused
        ask = self._request(pending, plan, log)
        try:
            reply = yield ask
        except ModelError as error:
            about_pictures = any(word in str(error).lower() for word in _NO_PICTURES)
            if not pending.mentions.pictures or pending.blind or not about_pictures:
                raise
            return (yield from self._reply(replace(pending, blind=True), plan, log))
        try:
            new = _text_in(reply, pending)
        except EmptyReply:
            if not reply.remembered:
                raise
            reply = yield replace(ask, again=True)
            new = _text_in(reply, pending)
        return replace(pending, new=new), reply

    async def requests(self, plan: AnswerPlan) -> Report[Ask]:
        """Return the requests that would be sent for all threads, with failures where something cannot be loaded."""
        found, failures = list[Ask](), list[Failure]()
        for thread in plan.threads:
            thread, missing = await self._prepare(thread, plan)
            flow, reply = self.thread(thread, plan), None
            try:
                while True:
                    found.append(flow.send(reply))  # type: ignore[arg-type]  # None begins it
                    reply = Reply("(the reply to this)", "")
            except StopIteration as ended:
                outcomes: Outcomes = [*missing, *ended.value]
                failures += [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        return Report(tuple(found), tuple(failures))

    def _request(self, pending: PendingPrompt, plan: AnswerPlan, log: tuple[ChatExchange, ...]) -> Ask:
        system, chat = plan.settings.messages.system, current_chat(log) if pending.word == "message" else ()
        request = request_for(pending, chat, system, self.prompts)
        earlier = [(exchange.prompt, exchange.reply) for exchange in chat]
        return Ask(
            request,
            place_of(plan.document, pending),
            text=f"{pending.prompt.spelling}: {pending.prompt.text}",
            about=f"{pending.subject}, {len(pending.subject.text):,} characters",
            key=(
                request.task,
                system,
                earlier if pending.revises is None else [[pending.revises.prompt, serialize(pending.revises.new)]],
                pending.prompt.text,
                pending.subject.text,
                *pending.mentions.key,
            ),
        )


def _patch(planned: AnswerPlan, answered: Sequence[AnsweredPrompt]) -> PutResults[PendingPrompt, AnsweredPrompt]:
    """Return the patch that places replies to prompts of a document in any version of it.

    The same question has the same words in the same section; if that is not exactly one, the same words and the same
    annotated text anywhere.
    """
    again = {(one.prompt.word, one.prompt.text) for one in answered if one.prompt.again}

    def places(version: ParsedDocument) -> list[tuple[Target, PendingPrompt]]:
        prompts = planned.prompts
        if again or version is not planned.document:
            logs = logged(version.blocks) if again else ()
            anew = [(at, exchange) for at, exchange in logs if (exchange.word, exchange.prompt) in again]
            prompts = tuple(
                ask for thread in plan(version.blocks, title=version.name, anew=anew) for ask in thread.prompts
            )
        return [(Target((ask.word, ask.text, ask.again), ask.subject.path, ask.subject.hash), ask) for ask in prompts]

    first = places(planned.document)
    position = {(ask.block, ask.prompt, ask.again): i for i, (_, ask) in enumerate(first)}
    prompts = ((one.prompt, one) for one in sorted(answered, key=lambda one: _turn(one.prompt)))
    results = {position[ask.block, ask.prompt, ask.again]: one for ask, one in prompts}
    return PutResults([target for target, _ in first], results, places, put_replies)


def _fitted(pending: PendingPrompt, plan: AnswerPlan, window: ContextWindow) -> PendingPrompt:
    """Return a prompt with as much context as fits; the outline of its text if that is too long for the model.

    Raises:
        TooLong: the text cannot be sent, and so no request is worth sending.
    """
    subject, node, model = pending.subject, pending.node, str(plan.settings.major.model)
    room, condensed = int(window.tokens * _SHARE * CHARACTERS_PER_TOKEN), False
    if pending.is_edit or not isinstance(node, HeadingNode):
        check_fits(subject.text, window, model, hint="choose a smaller part: a blank line divides a paragraph")
    elif len(subject.text) > room:
        subject, condensed = replace(subject, text=outline_of(node, room, model, window.tokens)), True
    if not isinstance(node, HeaderNode):
        start, end = pending.extent
        heading = isinstance(node, HeadingNode) and not pending.is_edit  # it is part of the text
        most = min(plan.settings.messages.context_limit, window.tokens)  # a quarter, by characters
        context = plan.view.context(pending.block, start - heading, end, pending.text, most)
        subject = replace(subject, context=context)
    unknown = tuple(unknown_names(plan.view.blocks, pending.text))
    return replace(pending, subject=subject, condensed=condensed, unknown=unknown)


def _text_in(reply: Reply, pending: PendingPrompt) -> EditReply | None:
    """Return the new text in a reply to an edit, None for a chat.

    Raises:
        EmptyReply: there is none, or nothing but a comment.
        NoEdit: the model proposed none.
    """
    with suppress(EmptyReply):
        if not says_nothing(reply.text):
            return new_text(reply.text, pending.request) if pending.is_edit else None
    raise EmptyReply(f"{reply.model} sent an empty reply", hint="try again, or rephrase the prompt")


def place_of(document: ParsedDocument, pending: PendingPrompt) -> Place:
    """Return the place of a prompt."""
    return Place(document.file, pending.line, path=pending.subject.path)
