"""The loop of model and tools over one transcript.

The messages for the model are always read from the transcript's text, never from other memory, so that a run that
continues later sends the same messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chatmd.compaction.compact import LOOK_BACK, Compactor, cut_to_tokens, look_back_in
from chatmd.content.expand import Expansions, expansions, locate
from chatmd.context import AgentRequest, AskAgent, Run, model_settings, settings_of
from chatmd.errors import AnswerRejected, ChatmdError, NothingToCompact, StoppedByUser
from chatmd.language.agent import (
    AgentSpec,
    MessageItem,
    OutputItem,
    check_values,
    interpret,
    parts_in,
    read_agent,
    set_inputs,
    text_of,
)
from chatmd.language.imports import imports_in
from chatmd.language.lint import UNSEEN, find_unseen, problem_line
from chatmd.language.nodes import Element, SyntaxTree
from chatmd.language.syntax import errors_of, write
from chatmd.language.transcript import (
    NOTE_TAG,
    USER_TURN,
    ReceivedReply,
    answer_of,
    items_of,
    lines_of,
    messages_of,
    notes_in,
    parse_cached,
    user_text,
    with_notes,
)
from chatmd.runtime.transcript_file import Transcript, last_message
from chatmd.sidecar import ExpansionRecord, Payloads, unfinished_record
from chatmd.tools.calling import CANCELLED, OpenTool, ToolCaller, open_tools
from chatmd.tools.command import open_command, scrubber
from chatmd.tools.consent import Consent
from chatmd.tools.registry import CURRENT_CALL_ID
from lmm.disk.undo import as_one_change, forget_undone, undone_files
from lmm.errors import LmmError, TooLong
from lmm.messages import (
    Asked,
    ChatRequest,
    Delivered,
    Message,
    Notice,
    Ready,
    ReasoningDelta,
    Reply,
    Retrying,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResult,
    message_texts,
)
from lmm.models.port import ChatModel, RunnableTool, connected
from lmm.models.replies import check_called
from lmm.models.structured import Mismatch, NoJson, Schema, load_schema, make_schema, shown_schema, valid_records
from lmm.models.tokens import check_fits, count_tokens, surely_fits, window_of

# -- Checks of the last reply: a schema, a program, a function; if one fails, the model is asked again ---------


AGAIN = "This reply is not what was asked for:\n\n{}\n\nReply again, with nothing but the corrected reply."
"""The message sent to the model about a reply that has a problem."""
UNDONE = "I have undone your last changes in these files (lmm undo), so they are as they were before: {}"
"""The message sent to the model about files in which the user has undone its changes."""
_RETRIES = 2  # how often the model is asked again, by default


def value_in(answer: str, schema: Schema) -> Any:
    """Return the data in a reply.

    Raises:
        Mismatch, NoJson: no data in it fits the schema.
    """
    records = valid_records(answer, schema)
    return records if schema.many else records[0]


def schema_of(spec: AgentSpec, run: Run) -> Schema | None:
    """Return the schema that replies must fit: the caller's, else the file's.

    Raises:
        LmmError: the schema is not a JSON file, or cannot be read.
    """
    if run.options.schema is not None:
        return make_schema(run.options.schema)
    if spec.output is None or not spec.output.schema:
        return None
    where = spec.output.span.where
    if not spec.output.schema.lower().endswith(".json"):
        raise ChatmdError(f'schema="{spec.output.schema}" is not a JSON file', where=where, hint="use a JSON schema")
    try:
        return load_schema(str(locate(spec.output.schema, run)))
    except LmmError as error:
        raise ChatmdError(error.message, where=where, hint=error.hint) from error


ABOUT_NOTES = (
    f"A tool's result may end in <{NOTE_TAG}>: the user sent that message while you were at work, and it counts like "
    "any other message of the user."
)


def with_shown(messages: Sequence[Message], schema: Schema | None) -> tuple[Message, ...]:
    """Return messages with the schema after the first instructions, and with what notes in results are, if there are.

    They stay there in every request.
    """
    more = [shown_schema(schema)] if schema is not None else []
    more += [ABOUT_NOTES] if any(notes_in(result.text) for one in messages for result in one.results) else []
    first = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    return (*messages[:first], *(Message("system", text) for text in more), *messages[first:])


# -- Agents from a URL, which may only answer ------------------------------------------------------------------


def restrict(document: SyntaxTree) -> AgentSpec:
    """Return the agent in a document without its tools.

    Raises:
        ChatmdError: it imports files on this machine, or refers to some.

    >>> from chatmd.language.syntax import parse
    >>> restrict(parse('<tool name="read_file"/><user>Hi</user>')).tools
    ()
    """
    named = [(element.get("src") or "", element.span) for element in imports_in(document.children)]
    spec = interpret(document)[0] if named else read_agent(document)
    for src, span in (*named, *((part.src, part.span) for part in spec.parts if part.local)):
        hint = "save it to a file, if you trust it"
        raise ChatmdError(f"an agent from a URL may not read '{src}' on this machine", where=span.where, hint=hint)
    return replace(spec, tools=())


def with_inputs(text: str, run: Run) -> str:
    """Return the text with the values of the run's inputs written into it.

    Raises:
        ChatmdError: the text has no such input, or a value is of the wrong type.
    """
    if not run.options.inputs:
        return text
    declared = interpret(run.rules.imported(parse_cached(text, run.chain[-1])))[0].inputs
    return set_inputs(text, run.options.inputs, declared, file=run.chain[-1])


# -- one transcript, turn after turn ----------------------------------------------------------------------------


_TIMES_TOO_LONG = 4  # how often a request that is too long is made shorter
_SHORTEST_RESULT = 50  # tokens
_LARGER = "choose a model with a larger window"
_CUT = "\n[This answer was cut off at the model's output limit.]"


_AT_ONCE = 0.1  # seconds that a user who wants to write waits at most for a model
_PATIENCE, _POLL = 5.0, 0.1  # seconds: how long another program may take to write the file, and between checks


@dataclass(slots=True)
class Conversation:
    """One transcript that a model and its tools continue (`open` it first).

    `notes` returns and removes what the user said while the model was at work; `user_turn` ends a finished turn.
    `owner` names the transcript for the records of agents that it asks, unless it is in a file.
    """

    run: Run
    transcript: Transcript
    notes: Callable[[], tuple[str, ...]] = tuple
    recorded: ExpansionRecord | None = None
    remote: bool = False
    user_turn: str = USER_TURN
    owner: str = ""
    spec: AgentSpec = field(default_factory=AgentSpec)
    _model: ChatModel | None = None
    _records: dict[str, list[str]] = field(default_factory=dict)
    _expanded: Expansions = field(default_factory=Expansions)
    is_cut: bool = False  # the answer, at the model's output limit
    _is_compact: bool = False  # nothing of it can be summarised
    _room: int | None = None  # tokens for the results of these calls
    _longest: int | None = None  # tokens of a result that is sent whole
    _results: Sequence[str] = ()  # of the last request
    _unanswered: list[ToolCall] = field(default_factory=list)  # the calls of the last reply without a result
    # What `open` opens:
    _stack: AsyncExitStack = field(init=False)
    _opening: asyncio.Task[ChatModel] = field(init=False)
    _caller: ToolCaller = field(init=False)
    _payloads: Payloads = field(init=False)
    _compactor: Compactor = field(init=False)
    _schema: Schema | None = None  # of the last reply
    _program: RunnableTool | None = None  # that checks it

    # -- before the first turn -----------------------------------------------------------------------

    async def open(self, stack: AsyncExitStack, *, though_waiting: bool = False) -> Ready | None:
        """Read the agent and open its tools, until `stack` is closed; return None if there is nothing to do.

        Values of inputs are written into the text. On the user's turn, nothing is opened, unless `though_waiting`.

        Raises:
            InvalidDocument: the text has errors.
            ConfigError, ModelError: its model cannot be asked.
            ConsentNeeded: nobody agreed to its tools.
            ChatmdError: a tool cannot be opened.
        """
        self._emit_notes()
        text = self.transcript.text
        if (filled := with_inputs(text, self.run)) != text:
            self.transcript.restart(text, filled)
        document = self._read()
        if self.spec.waits_for_user and not though_waiting:
            last = self.spec.items[-1] if self.spec.items else None
            if self.user_turn and not (isinstance(last, MessageItem) and last.role == "user"):  # a place to write
                self._add(self._turn.removeprefix(self.transcript.newline))
            return None
        if self.remote and (withheld := interpret(document)[0].tools):
            lost = ", ".join(tool.name or tool.kind for tool in withheld)
            self.run.emit(Notice(f"an agent from a URL gets no tools: {self.run.chain[-1]} goes without {lost}"))
        config, configuration, own = self.spec.config, self.run.configuration, len(self.run.chain) == 1
        model = model_settings(config, configuration, own=own)
        ask = self._with_records(self.run.ask)
        self.run = run = replace(self.run, settings=settings_of(config, configuration, own=own), ask=ask)
        if model.model.provider == "Recorded":  # its file has all prompts, and a search would find them there
            self.run = run = replace(run, protected=(*run.protected, Path(model.model.model).resolve()))
        self._payloads = Payloads(self.transcript.folder, config.show_tool_call)
        self._compactor = Compactor(model, run, self.transcript.path)
        for problem in find_unseen(document):
            run.emit(Notice(problem_line(problem, UNSEEN)))
        for problem in self.spec.unset:
            run.emit(Notice(problem_line(problem)))
        check_values(self.spec.inputs)
        (run.check_agreement or Consent().check)(self.spec, run)
        run.tally.limits.check_price(str(model.model))
        self._stack = stack
        self._opening = asyncio.create_task(asyncio.to_thread(run.open_model, model))
        self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
        tools = await open_tools(self.spec.tools, run, stack)
        self._schema, output = schema_of(self.spec, run), self.spec.output
        if output is not None and output.check:
            (self._program,) = await stack.enter_async_context(open_command(output.tool, run))
        self._caller = ToolCaller(
            tools,
            run.rules.max_parallel,
            scrubber(self.spec, run),
            run.options.approve,
            began=run.emit,
            ended=lambda result: self._add_result(result, is_news=True),
        )
        self._offer_look_back()
        done, _ = await asyncio.wait([self._opening], timeout=_AT_ONCE)
        known = (await self._connect()).name if done or not self.spec.waits_for_user else str(model.model)
        return Ready(known, self.tools)

    def _offer_look_back(self) -> None:
        """Offer the tool that searches what a summary replaced, if the original is kept."""
        tool = look_back_in(self.spec.items, self.transcript.folder)
        if tool is not None:
            self._caller.tools = {
                LOOK_BACK: OpenTool(tool, self.run.rules.tool_timeout, may_write=False),
                **self._caller.tools,
            }

    async def _connect(self) -> ChatModel:
        """Return the model once it can be asked; its vendor's library loads while the user writes.

        Raises:
            ModelError: the model cannot be opened.
        """
        if self._model is None:
            model = await asyncio.shield(self._opening)
            await self._stack.enter_async_context(connected(model))
            self._model = model
        return self._model

    def _with_records(self, ask: AskAgent) -> AskAgent:
        """Return `ask` such that the result of a call names the stored transcripts of the agents asked for it."""

        async def asking(run: Run, request: AgentRequest) -> str:
            records = self._records.setdefault(call := CURRENT_CALL_ID.get(), [])
            owner = self.owner or (self.transcript.path.name if self.transcript.path is not None else "")
            inline = () if call else (request.src, text_of(request.input))
            path = unfinished_record(owner, call, *inline)
            return await ask(run, replace(request, unfinished=path, on_stored=records.append))

        return asking

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model is offered."""
        return tuple(tool.tool.definition for tool in self._caller.tools.values())

    @property
    def answer(self) -> str:
        """The last reply of the model."""
        return answer_of(self.spec.items)

    def is_last_message(self, message: str | Element) -> bool:
        """Return whether the last message is this text of the user, which an earlier run wrote and could not send."""
        items = items_of(self.transcript.text)
        last = items[-1] if items else None
        if not (isinstance(message, str) and isinstance(last, MessageItem) and last.role == "user"):
            return False
        return not any(parts_in(last.content)) and text_of(last.content).strip() == message.strip()

    def say(self, message: str | Element) -> None:
        """Append a message of the user, a text or a ``<user>`` element, in place of an empty one.

        Raises:
            ChatmdError: it is another element, or contains a tag that has no meaning there.
        """
        self._note_undone()
        if isinstance(message, str):
            text = self._user_text(message)
        else:
            if message.tag != "user":
                hint = 'put it into one: Element("user", (), (…,))'
                raise ChatmdError(f"only a <user> element can be said, not <{message.tag}>", hint=hint)
            try:
                write([message])
            except ValueError as error:
                raise ChatmdError(f"this cannot be said: {error}", hint="say it as text") from error
            text = lines_of([message], self.transcript.newline)
        self.transcript.say(text)
        self._take(text)

    def _note_undone(self) -> None:
        """Append a message that names the files in which the user has undone changes of earlier turns, if any."""
        if (path := self.transcript.path) is not None and (files := undone_files(path)):
            names = ", ".join(os.path.relpath(file, self.transcript.folder) for file in files)
            text = self._user_text(UNDONE.format(names))
            self.transcript.say(text)
            self._take(text)
            forget_undone(path)

    async def answered(self) -> str:
        """Return the answer to the question in the text, once it is the user's turn; then the tools are closed.

        An answer that was cut off at the model's output limit says so at its end.

        Raises:
            ChatmdError: the text asks nothing.
            LmmError: as `open` and `turn`.
        """
        async with AsyncExitStack() as stack:
            if await self.open(stack) is None:
                raise ChatmdError("this agent was asked nothing", where=self.run.chain[-1], hint="give it an input")
            await self.turn()
        return self.answer + (_CUT if self.is_cut else "")

    # -- turns ---------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Ask the model and make its calls until it is the user's turn; with ``run.options.once``, make one request.

        If the turn is cancelled or fails, the transcript contains everything so far, and can be continued.

        Raises:
            ModelError: the model did not answer.
            LimitReached: the run reached a limit.
            AnswerRejected: no reply passed the checks of `<output>` or of the caller.
            FileWriteError: the transcript cannot be written.
        """
        file, asked, options = self.run.chain[0], not self.spec.waits_for_user, self.run.options
        if asked:  # by what the user wrote into the file
            self._note_undone()
        retries = self.spec.output.retries if self.spec.output is not None else _RETRIES
        retries = retries if options.retries is None else options.retries
        retries = 0 if options.once else retries
        message = last_message(self.transcript.text, self.run.chain[-1])
        with as_one_change(Path(file), message) if file else contextlib.nullcontext():
            done = await self._exchange()
            while asked and done and self.spec.waits_for_user and (problem := await self._problem(self.answer)):
                if not retries:
                    allow = "run without --once" if options.once else "allow more retries"
                    saved = "it is in the transcript; say what is wrong with it, or "
                    hint = saved + allow if self.transcript.path is not None else allow
                    raise AnswerRejected(f"the reply is not what was asked for: {problem}", hint=hint)
                retries -= 1
                self.run.emit(Notice(f"the reply is not what was asked for, so the model is asked again: {problem}"))
                self.say(AGAIN.format(problem))
                done = await self._exchange()

    async def _problem(self, answer: str) -> str:
        """Return what is wrong with a reply, in words for the model; empty if it is accepted."""
        try:
            if self._schema is not None:
                value_in(answer, self._schema)
        except (Mismatch, NoJson) as error:
            return str(error)
        if self._program is not None:
            output = await self._program.call({"arguments": [], "stdin": answer})
            if not output.text.startswith("exit code 0"):
                return output.text
        if (check := self.run.options.check) is None:
            return ""
        try:
            verdict = await asyncio.to_thread(check, answer)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
        except (ValueError, AssertionError) as error:
            return str(error) or f"{type(error).__name__} in the check"
        return "" if verdict in (None, True, "") else "The check failed." if verdict is False else str(verdict)

    async def _exchange(self) -> bool:
        """Ask the model and make its calls until it is the user's turn; return False if the user stopped that."""
        await self._refresh()
        while not self.spec.waits_for_user:
            if await self._compactor.is_due(self.transcript.text):
                await self._make_room()
                await self._refresh()  # what others write from now on goes after the reply
                if self.spec.waits_for_user:
                    break
            for attempt in range(_TIMES_TOO_LONG + 1):
                try:
                    calls = await self._ask()
                    break
                except TooLong as refusal:
                    if attempt == _TIMES_TOO_LONG:
                        raise
                    await self._after(refusal)
            if calls and not await self._carry_out(calls):
                return False
            await self._refresh()
            if self.run.options.once:
                break
        return True

    async def _after(self, refusal: TooLong) -> None:
        """Make room after a request was too long.

        Raises:
            TooLong: there is no room to be made.
        """
        before = self.transcript.text
        if self._compactor.can_make_room(refusal, before):
            await self._make_room()
        if self.transcript.text != before:
            await self._refresh()
            return
        # Results that came while the window was unknown are sent shortened; the transcript has them whole.
        window = (await window_of(self._compactor.model)).tokens
        longest = window // 4 if self._longest is None else self._longest // 2
        if longest >= _SHORTEST_RESULT and any(count_tokens(text) > longest for text in self._results):
            self._longest = longest
            notice = f"the request was too long: results of more than {longest:,} tokens are sent shortened"
            self.run.emit(Notice(notice))
            return
        if self._is_compact:
            refusal.hint = f"nothing of it can be summarised: shorten the last message or its documents, or {_LARGER}"
        elif self.transcript.path is not None:
            refusal.hint = f"lmm compact {self.transcript.path.name} makes room; or {_LARGER}"
        raise refusal

    async def _make_room(self) -> None:
        """Replace the older part by a summary, because the conversation outgrows its model."""
        if self.run.options.replay:
            return
        text = self.transcript.text
        try:
            done = await self._compactor.compact(text)
        except LmmError as error:
            self._is_compact = isinstance(error, NothingToCompact)
            what = "the conversation takes most of its model's window, but could not be compacted"
            self.run.emit(Notice(f"{what}: {self._caller.scrub(str(error))}"))
            return
        if not self.transcript.restart(text, done.text):
            self.run.emit(Notice("the file was changed while its summary was made; it is not compacted"))
            return
        if self.recorded is not None:
            self.recorded.carry_over(done.was, done.items)
        self._read()
        self._offer_look_back()
        where = f"; the original: {done.original}" if done.original else ""
        self.run.emit(Notice(f"compacted by {done.model}: {done.before:,} tokens became {done.after:,}{where}"))

    async def _ask(self) -> tuple[ToolCall, ...]:
        """Make one request, write its reply to the transcript, and return its calls."""
        model, items, schema = await self._connect(), self.spec.sent, self._schema
        self._expanded = await expansions(items, self.run, self.recorded, self._payloads, self._expanded)
        messages = with_shown(messages_of(items, expand=self._expanded.__getitem__), schema)
        if (longest := self._longest) is not None:
            messages = tuple(
                replace(one, results=tuple(replace(r, text=cut_to_tokens(r.text, longest)) for r in one.results))
                for one in messages
            )
        self._results = [result.text for one in messages for result in one.results]
        await asyncio.to_thread(self.transcript.check_room)
        settings, text = self._compactor.model, "\n".join(text for one in messages for text in message_texts(one))
        if model.name == str(settings.model) and not surely_fits(settings, text):
            check_fits(text, await window_of(settings), model.name, hint=_LARGER)
        request = ChatRequest(messages, tools=self.tools, schema=schema.sent if schema is not None else None)
        reserved = self.run.tally.begin(model.name, request)
        self.run.emit(Asked(request, model.name))
        received, reply = ReceivedReply(), None
        try:
            async with aclosing(self.run.tally.counted(model, request, reserved)) as stream:
                async for event in stream:
                    if isinstance(event, Reply):
                        reply = event  # it is paid for, so from here on it stays
                        self._add_reply(event, received)
                        break
                    received.add(event)
                    if isinstance(event, Retrying):
                        received = ReceivedReply()
                    if isinstance(event, Retrying | ReasoningDelta | Notice | TextDelta) and event != TextDelta(""):
                        self.run.emit(event)
        except asyncio.CancelledError:
            if reply is None and (incomplete := received.incomplete()):
                self._add(lines_of(incomplete, self.transcript.newline), turn=self._turn)
            elif reply is not None:
                self._unanswered = list(reply.calls)
                self._end_calls({})
            raise
        except LmmError as error:
            error.message = self._caller.scrub(error.message)
            raise
        assert reply is not None, f"{model.name} ended its stream without a reply"
        check_called(reply)
        return reply.calls

    def _add_reply(self, reply: Reply, received: ReceivedReply) -> None:
        """Write a reply with its calls, or with what the user has said in the meantime."""
        calls = [self._payloads.call(call) for call in reply.calls]
        notes = () if reply.calls else self.notes()
        messages = "".join(f"{self.transcript.newline}{self._user_text(note)}" for note in notes)
        text = lines_of((*received.elements(reply), *calls), self.transcript.newline) + messages
        self._add(text, turn="" if reply.calls or notes else self._turn)
        self.run.emit(reply)
        self._compactor.used = reply.usage.input_tokens + reply.usage.output_tokens
        if notes:
            self.run.emit(Delivered(notes, with_result=False))
        self.is_cut = reply.cut
        if reply.cut:
            self.run.emit(Notice("the reply was cut off at the model's output limit (allow more: max_tokens)"))

    async def _carry_out(self, calls: Sequence[ToolCall]) -> bool:
        """Make calls, and write each result when it arrives; return False if the user stopped the run."""
        results: dict[int, ToolResult] = {}
        self._unanswered, stopped = list(calls), False
        try:
            self._room = await self._compactor.room_for_results()
            await self._caller.call(calls, results)
        except StoppedByUser:
            stopped = True
        finally:  # also if this is cancelled
            self._end_calls(results, self._turn if stopped else "")
        return not stopped

    def _end_calls(self, results: Mapping[int, ToolResult], turn: str = "") -> None:
        """Write the results of calls that were not made; the others without one were cancelled."""
        not_made = {one.call: one for one in results.values()}
        while self._unanswered:
            call = self._unanswered[0]
            self._add_result(not_made.get(call.id) or ToolResult(call.id, call.name, CANCELLED, failed=True), turn)

    def _add_result(self, result: ToolResult, turn: str = "", *, is_news: bool = False) -> None:
        """Write the result of a call, and tell it; the last one has what the user has said in the meantime."""
        whole = result
        self._unanswered.pop(next(n for n, call in enumerate(self._unanswered) if call.id == result.call))
        if self._room is not None:  # they share the room that is left
            result = replace(result, text=cut_to_tokens(result.text, self._room // (len(self._unanswered) + 1)))
            self._room -= count_tokens(result.text)
        notes = () if self._unanswered else self.notes()
        noted = replace(result, text=with_notes(result.text, notes)) if notes else result
        element = self._payloads.result(noted, self._records.pop(result.call, ()))
        is_first = not (self.spec.items and isinstance(self.spec.items[-1], OutputItem))
        turn = "" if self._unanswered else turn
        self._add(lines_of([element], self.transcript.newline), turn, apart=is_first)
        if is_news:
            self.run.emit(whole)
        if notes:
            self.run.emit(Delivered(notes, with_result=True))

    @property
    def _turn(self) -> str:
        """A blank line and an empty user message, if a turn ends with one."""
        return f"\n{self.user_turn}".replace("\n", self.transcript.newline) if self.user_turn else ""

    def _user_text(self, message: str) -> str:
        return user_text(message).removesuffix("\n") + self.transcript.newline

    # -- text and messages -----------------------------------------------------------------------------

    def _add(self, text: str, turn: str = "", *, apart: bool = True) -> None:
        """Write whole elements, and add their items to the agent's, unless all of the text is to be read again."""
        self.transcript.append(text, turn=turn, apart=apart)
        self._take(text + turn)

    def _take(self, text: str) -> None:
        if not self.transcript.changed:
            self.spec = replace(self.spec, items=(*self.spec.items, *items_of(text)))

    async def _refresh(self) -> None:
        """Read what others have written; wait up to 5 s while it has errors, as somebody may be typing."""
        self.transcript.refresh()
        self._emit_notes()
        if self.transcript.changed:
            end = time.monotonic() + _PATIENCE
            while time.monotonic() < end:
                document = parse_cached(self.transcript.text, self.run.chain[-1])
                if not errors_of((*document.problems, *interpret(document)[1])):
                    break
                await asyncio.sleep(_POLL)
                self.transcript.refresh()
            self.transcript.changed = False
            self.run.emit(Notice("the file was changed, and is read again"))
            self._read()
        self.transcript.settle()

    def _emit_notes(self) -> None:
        while self.transcript.notes:
            self.run.emit(Notice(self.transcript.notes.pop(0)))

    def _read(self) -> SyntaxTree:
        """Read the agent from the whole text, and return the document with its imports in place."""
        document = parse_cached(self.transcript.text, self.run.chain[-1])
        if self.remote:
            self.spec = restrict(document)
        else:
            document = self.run.rules.imported(document)
            self.spec = read_agent(document)
        return document
