"""The loop of model and tools over one transcript.

What the model gets is always read from the transcript's text, never from memory beside it: so a run that goes on
later sends the same messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chatmd.content.expand import Expansions, expansions
from chatmd.content.recorded import Recorded
from chatmd.errors import StoppedByUser
from chatmd.language.agent import read_agent
from chatmd.language.imports import resolve_imports
from chatmd.language.items import AgentSpec, CallItem, Doc, Img, Item, MessageItem, OutputItem, SubAgent
from chatmd.language.nodes import Element
from chatmd.language.parser import parse
from chatmd.language.transcript import element_text, messages_of
from chatmd.runtime import events
from chatmd.runtime.models import model_settings
from chatmd.runtime.opening import open_tools
from chatmd.runtime.payloads import Payloads
from chatmd.runtime.remote import confined, refuse_imports
from chatmd.runtime.step import USER_TURN, ReplyWriter, answer_of, gap, items_of, lines_of, user_text
from chatmd.runtime.transcript_file import Mark, Transcript
from chatmd.runtime.tree import Tree, scrubber
from chatmd.tools.calling import CANCELLED, Caller, with_notes
from chatmd.workplace import Workplace
from lmm.config import Settings
from lmm.models.port import (
    ChatModel,
    ChatRequest,
    Image,
    Message,
    ReasoningDelta,
    Reply,
    Retrying,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResult,
)


@dataclass(slots=True)
class Conversation:
    """One transcript that a model and its tools go on with (`open` it first). `chain` names its file, last.

    `notes` are what the user said while the model was at work; `user_turn` is what a finished turn ends with.
    """

    tree: Tree
    transcript: Transcript
    folder: Path
    chain: tuple[str, ...]
    notes: deque[str] = field(default_factory=deque)
    recorded: Recorded | None = None
    remote: bool = False
    user_turn: str = USER_TURN
    spec: AgentSpec = field(default_factory=AgentSpec)
    items: list[Item] = field(default_factory=list)
    _model: ChatModel | None = None
    _caller: Caller = field(default_factory=lambda: Caller({}))
    _payloads: Payloads = field(default_factory=lambda: Payloads(None, inline=True))
    _stored: dict[Doc | Img | SubAgent, str | Image] = field(default_factory=dict)
    _expanded: Expansions = field(default_factory=Expansions)
    _place: Workplace | None = None

    # -- before the first turn -----------------------------------------------------------------------

    async def open(self, stack: AsyncExitStack, *, though_waiting: bool = False) -> bool:
        """Read the agent and open its tools, which stay open as long as `stack`; whether there is something to do.

        If it is the user's turn, nothing is opened, unless `though_waiting`.

        Raises:
            InvalidDocument: the text has errors.
            ConfigError, ModelError: its model cannot be asked.
            ConsentNeeded: nobody agreed to its tools.
            ChatmdError: a tool cannot be had.
        """
        self._read()
        if self.waits_for_user and not though_waiting:
            self._leave_turn()
            return False
        settings = model_settings(self.spec.config, self.tree.configuration, own=len(self.chain) == 1)
        everything = self.tree.configuration.settings()
        self._place = place = self._workplace(everything)
        self._payloads = Payloads(self.transcript.folder, self.spec.config.show_tool_call)
        self.tree.consent.check(self.spec, place)
        self.tree.tally.check_price(str(settings.model))
        self._model = self.tree.open_model(settings)
        tools = await open_tools(self.spec.tools, place, stack)
        scrub = scrubber(everything, self.spec, self.tree.environment)
        self._caller = Caller(tools, self.tree.rules.max_parallel, scrub, self.tree.approve, self._began, self._ended)
        return True

    def _workplace(self, settings: Settings) -> Workplace:
        tree = self.tree
        ask = partial(tree.ask, tree, self.chain)
        return Workplace(self.folder, settings, ask, tree.rules, tree.environment, tree.protected)

    def _leave_turn(self) -> None:
        """Leave a place for the user to write, if there is none."""
        last = self.items[-1] if self.items else None
        if self.user_turn and not (isinstance(last, MessageItem) and last.role == "user"):
            self._add(self.user_turn)

    @property
    def model(self) -> str:
        """The model that is asked; empty before `open`."""
        return self._model.name if self._model else ""

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """What the model is offered."""
        return tuple(tool.tool.definition for tool in self._caller.tools.values())

    @property
    def waits_for_user(self) -> bool:
        """Whether there is nothing for the model to do."""
        return AgentSpec(items=tuple(self.items)).waits_for_user

    @property
    def answer(self) -> str:
        """What the model said last."""
        return answer_of(self.items)

    def say(self, said: str | Element) -> None:
        """What the user says, in the place that waits for it: a text, or a ``<user>`` element."""
        self.transcript.drop_blank_turn()
        self._add(user_text(said) if isinstance(said, str) else f"{element_text(said)}\n")

    # -- turns ---------------------------------------------------------------------------------------

    async def turn(self, *, once: bool = False) -> None:
        """Ask the model, and carry out its calls, until it is the user's turn; with `once`, one request.

        If it is cancelled or fails, the transcript holds what was said and done so far, and can be gone on with.

        Raises:
            ModelError: the model did not answer.
            LimitReached: the run has used up what it may.
            FileWriteError: the transcript cannot be written.
        """
        while not self.waits_for_user:
            calls = await self._ask()
            if calls and not await self._carry_out(calls):
                return
            if once:
                return

    async def _ask(self) -> tuple[ToolCall, ...]:
        """One request, and its reply in the transcript; the calls that the model asks for."""
        assert self._model is not None
        messages = await self._messages()
        self.tree.tally.begin(self._model.name)
        self._tell(events.Asking(self._model.name, self.tree.tally.turns))
        request = ChatRequest(messages, tools=self.tools)
        mark, before = self.transcript.mark(), gap(self.transcript.end)
        writer = ReplyWriter(before)
        try:
            async with aclosing(self._model.stream(request)) as stream:
                async for event in stream:
                    if isinstance(event, Retrying):
                        self.transcript.take_back(mark)
                        writer = ReplyWriter(before)
                        self._tell(events.Again(event.reason, event.wait))
                    elif isinstance(event, Reply):
                        self._finish(event, writer, mark)
                        return event.calls
                    else:
                        self.transcript.append(writer.feed(event))
                        self._tell_piece(event)
        except asyncio.CancelledError:
            self._cut(writer, mark)
            raise
        except BaseException:
            self.transcript.take_back(mark)
            raise
        raise RuntimeError(f"{self._model.name} ended its stream without a reply")

    def _finish(self, reply: Reply, writer: ReplyWriter, mark: Mark) -> None:
        """The end of a reply: the calls, or whose turn it is, in one piece with the closing tag."""
        calls = [self._payloads.call(call) for call in reply.calls]
        notes = () if reply.calls else self._take_notes()
        then = "" if reply.calls else self._after_reply(notes)
        rest = writer.end(reply, calls)
        if rest is None:  # the pieces were not the reply
            self.transcript.take_back(mark)
            rest = ReplyWriter(writer.before).whole(reply, calls)
        self.transcript.append(rest + then)
        self._reread(mark)
        self._tell(events.Replied(reply, self.tree.tally.add(reply.model, reply.usage)))
        if notes:
            self._tell(events.Delivered(notes, with_result=False))
        if reply.cut:
            self._tell(events.Notice("the reply was cut off at the model's output limit (allow more: max_tokens)"))

    def _cut(self, writer: ReplyWriter, mark: Mark) -> None:
        """A reply that the user cancelled: what it said stays."""
        if writer.text.strip():
            self.transcript.append(writer.cut() + self._after_reply(()))
        else:
            self.transcript.take_back(mark)
        self._reread(mark)

    async def _carry_out(self, calls: Sequence[ToolCall]) -> bool:
        """Carry out calls, and write their results; False if the user stopped the run meanwhile."""
        results: dict[int, ToolResult] = {}
        stopped = False
        try:
            await self._caller.call(calls, results)
        except StoppedByUser:
            stopped = True
        finally:  # also if this is cancelled
            notes = self._take_notes()
            complete = [
                results.get(n, ToolResult(call.id, call.name, CANCELLED, failed=True)) for n, call in enumerate(calls)
            ]
            if notes:
                complete[-1] = with_notes(complete[-1], notes)
            written = lines_of([self._payloads.result(result) for result in complete])
            self._add(written + (f"\n{self.user_turn}" if stopped and self.user_turn else ""))
            if notes:
                self._tell(events.Delivered(notes, with_result=True))
        return not stopped

    def _take_notes(self) -> tuple[str, ...]:
        notes = tuple(self.notes)
        self.notes.clear()
        return notes

    def _after_reply(self, notes: Sequence[str]) -> str:
        """What follows a reply without calls: what the user said meanwhile, or a place to say something."""
        if notes:
            return "".join(f"\n{user_text(note)}" for note in notes)
        return f"\n{self.user_turn}" if self.user_turn and not self.transcript.tail else ""

    # -- text and messages -----------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        """Append what is complete."""
        mark = self.transcript.mark()
        self.transcript.append(gap(self.transcript.end) + text)
        self._reread(mark)

    def _reread(self, mark: Mark) -> None:
        """The items of what was appended since `mark`; of all, if others changed the text."""
        if self.transcript.settle():
            self._tell(events.Notice("the file was changed meanwhile, and is read again"))
            self._read()
        else:
            self.items += items_of(self.transcript.since(mark))

    def _read(self) -> None:
        """Agent and items of the whole text."""
        document = parse(self.transcript.text, file=self.chain[-1])
        if self.remote:
            refuse_imports(document)
            self.spec = confined(read_agent(document), tools=self.tree.rules.remote_tools)
        else:
            self.spec = read_agent(resolve_imports(document, roots=self.tree.rules.roots))
        self.items = list(self.spec.items)

    async def _messages(self) -> tuple[Message, ...]:
        """What the model gets."""
        items = [item for item in self.items if not (isinstance(item, MessageItem) and item.is_blank)]
        await self._expand(items)
        return messages_of(items, expand=self._meaning)

    async def _expand(self, items: Sequence[Item]) -> None:
        """See to it that everything that messages refer to is known."""
        assert self._place is not None
        parts = [part for item in items for part in references(item)]
        self._stored |= self._payloads.read(part for part in parts if part not in self._stored)
        if any(part not in self._stored and part not in self._expanded for part in parts):
            self._expanded = await expansions(items, self._place, self.recorded, self._stored, self._expanded)

    def _meaning(self, part: Doc | Img | SubAgent) -> str | Image:
        return self._stored[part] if part in self._stored else self._expanded[part]

    # -- what happens ----------------------------------------------------------------------------------

    def _tell(self, event: events.RunEvent) -> None:
        self.tree.listener(event)

    def _tell_piece(self, event: object) -> None:
        if isinstance(event, TextDelta) and event.text:
            self._tell(events.Piece(event.text))
        elif isinstance(event, ReasoningDelta):
            self._tell(events.Thought(event.text))

    def _began(self, call: ToolCall) -> None:
        self._tell(events.Calling(call))

    def _ended(self, result: ToolResult, seconds: float) -> None:
        self._tell(events.Called(result, seconds))


def references(item: Item) -> Iterator[Doc | Img | SubAgent]:
    """What an item refers to and does not hold itself."""
    if isinstance(item, CallItem):
        content = item.arguments
    else:
        content = item.content if isinstance(item, MessageItem | OutputItem) else ()
    for part in content:
        if not isinstance(part, str) and not (isinstance(part, Img) and (not part.local or is_inline(part))):
            yield part


def is_inline(img: Img) -> bool:
    """Whether an image stands in the text itself."""
    return img.src[:5].lower() == "data:"
