"""A run of one file: turns, with the user between them if there is one to ask."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from chatmd.context import Run
from chatmd.language.transcript import gap, user_text
from chatmd.runtime import events
from chatmd.runtime.events import RunResult
from chatmd.runtime.prepare import agree, with_inputs
from chatmd.runtime.rewind import fork
from chatmd.runtime.transcript_file import Transcript, open_transcript, read_transcript, without_blank_turn
from chatmd.runtime.turns import Conversation
from chatmd.sidecar import ExpansionRecord
from lmm import loop
from lmm.disk import files
from lmm.disk.folder import check_named
from lmm.errors import FileWriteError, LmmError, Place
from lmm.messages import Event, Failed, Notice


class Runner:
    """Runs a file on the background loop. `steer` and `cancel` may be called from any thread there is.

    With `memory`, that is run instead, as if it stood beside `path`. `locked` says that the caller has the file's lock.
    """

    def __init__(self, path: Path, context: Run, memory: Transcript | None = None, *, locked: bool = False) -> None:
        self.path, self.context, self.memory, self.locked = path, context, memory, locked
        self._notes: deque[str] = deque()
        self._turn: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = False

    def steer(self, text: str) -> None:
        """Say something while the model is at work: it comes with the next result of a tool, else as a message."""
        self._notes.append(text)

    def take_notes(self) -> tuple[str, ...]:
        """What was said with `steer` and has not been delivered; it will not be."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    def cancel(self) -> None:
        """End the turn; what was said and done so far stays. Without a turn, nothing happens."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._turn is not None and self._turn.cancel())

    async def stream(self) -> AsyncGenerator[tuple[Event, Place]]:
        """What happens and where, as it happens; the last event is the `RunResult`. Closing the stream cancels the run.

        Raises: as `run`.
        """
        mine = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[Event, Place] | None] = asyncio.Queue()
        listener = self.context.listener

        def tell(event: Event, place: Place) -> None:
            listener(event, place)
            mine.call_soon_threadsafe(arrived.put_nowait, (event, place))

        self.context = replace(self.context, listener=tell)
        task = asyncio.create_task(loop.run_async(self.run()))
        task.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (happened := await arrived.get()) is not None:
                yield happened
            await task
        finally:
            task.cancel()
            await loop.ended(task)

    async def run(self, *, user_first: bool = False) -> RunResult:
        """Run the file; see `chatmd.Chat.run`. With `user_first`, nothing is sent before the user was asked."""
        self._loop = asyncio.get_running_loop()
        has_user = self.context.ask_user is not None  # who says what becomes of a reply that was cancelled
        async with AsyncExitStack() as stack:
            conversation = self._conversation(stack, goes_on=has_user or bool(self.context.say))
            if self.context.say:
                conversation.say(self.context.say)
            stack.callback(self._say_notes, conversation)  # whatever ends the run
            ready = await conversation.open(stack, though_waiting=has_user)
            if ready:
                self.context.tell(events.Ready(conversation.model, conversation.tools))
            while ready:
                done = user_first or await self._turn_done(conversation)
                user_first = False
                if not (done and self._say_notes(conversation)) and not await self._user_says(conversation):
                    break
            result = RunResult(
                conversation.answer,
                conversation.transcript.text,
                path=None if self.memory else self.path,
                usage=self.context.tally.usage,
                turns=self.context.tally.turns,
                turn_of="user" if conversation.waits_for_user else "model",
                cancelled=self._cancelled,
            )
        self.context.tell(result)
        return result

    def _conversation(self, stack: AsyncExitStack, *, goes_on: bool) -> Conversation:
        """The conversation, whose file is open and locked as long as `stack`."""
        if self.memory is not None:
            return Conversation(self.context, self.memory, self._notes)
        transcript = stack.enter_context(open_transcript(self.path, locked=self.locked, goes_on=goes_on))
        for note in transcript.notes:
            self.context.tell(Notice(note))
        recorded = ExpansionRecord(self.path, only=self.context.replay)
        run = replace(self.context, records=self.context.folder)
        return Conversation(run, transcript, self._notes, recorded=recorded)

    async def _turn_done(self, conversation: Conversation) -> bool:
        """One turn; whether it came to its end."""
        self._turn = asyncio.create_task(conversation.turn(once=self.context.once))
        self._cancelled = False
        try:
            async with self.context.in_time():
                await self._turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._cancelled = True
            self.context.tell(events.RunStopped())
        except LmmError as error:
            if not self.context.goes_on:
                raise
            self.context.tell(Failed(error))
            return False
        finally:
            self._turn = None
        return not self._cancelled

    def _say_notes(self, conversation: Conversation) -> bool:
        """Whether there are notes that came too late for the turn: they are messages now."""
        notes = self.take_notes()
        for note in notes:
            conversation.say(note)
        if notes:
            self.context.tell(events.Delivered(notes, with_result=False))
        return bool(notes)

    async def _user_says(self, conversation: Conversation) -> bool:
        """Whether the user says something, so that another turn begins."""
        ask = self.context.ask_user
        if ask is None:
            return False
        conversation.transcript.hand_over()
        self.context.tell(events.YourTurn(pending=not conversation.waits_for_user))
        said = await ask()
        if said is None:
            return False
        if said:
            conversation.say(said)
        return True


def open_run(
    path: Path, run: Run, output: Path | None = None, *, fork_at: int | None = None, locked: bool = False
) -> Runner:
    """What runs a ChatMD file, to steer or cancel it; ``run.confirm`` is asked here.

    With `output`, the file stays as it is, and a copy of it that is made there is run; with `fork_at`, the copy ends
    before the user's message of that number. Values of inputs are written into the file. `locked` says that the caller
    has its lock.

    Raises: as `chatmd.Chat.run`, before anything is sent.
    """
    read = read_transcript(path)
    text = with_inputs(read, run)
    if output is not None and fork_at is not None:
        text = fork(text, fork_at, str(path)).text
    agreed = agree(run, text)
    if output is None:
        if text != read:
            with open_transcript(path, locked=locked) as transcript:
                transcript.restart(transcript.text, with_inputs(transcript.text, run))
        return Runner(path, agreed, locked=locked)
    write_copy(path, text, output)
    # Its tools are those that were agreed to a moment ago, under another name.
    run = replace(run, protected=(*run.protected, output.resolve()), chain=(str(output),))
    return Runner(output, replace(agree(replace(run, yes=True), text), yes=run.yes))


def open_text(text: str, run: Run) -> Runner:
    """`open_run` for a text that is in no file: nothing is written."""
    text = with_inputs(text, run)
    return Runner(run.folder / "text", agree(run, text), Transcript(text))


def write_copy(path: Path, text: str, output: Path) -> None:
    """Write the text of the file in `path` to `output` beside it.

    Raises:
        LinkOutside: `output` is a link out of its folder.
        FileWriteError: there is such a file, or its folder is another one: what the text names by paths would be
            something else there.
    """
    check_named(output)
    if output.exists():
        raise FileWriteError(
            "this file exists already", where=str(output), hint=f"to continue it: lmm run {output}; or delete it"
        )
    folder = path.resolve().parent
    if output.resolve().parent != folder:
        hint = f"choose a file there, or copy what the file needs and run it there: {folder / output.name}"
        raise FileWriteError(
            "a copy must be in the folder of the file, because of its relative paths", where=str(output), hint=hint
        )
    files.replace(output, text)


async def reply_to(text: str, input: str, run: Run) -> tuple[str, str]:
    """What the agent in a text answers to an input, and the text that holds all that was said and done.

    Nothing is written. Without an input, it answers what the text itself asks.
    """
    text = with_inputs(without_blank_turn(text), run)
    text += gap(text) + user_text(input) if input.strip() else ""
    run, transcript = await asyncio.to_thread(agree, run, text), Transcript(text)
    conversation = Conversation(run, transcript, user_turn="")
    async with run.in_time():
        answer = await conversation.answered(once=run.once)
    return answer, transcript.text
