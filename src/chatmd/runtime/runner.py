"""A run of one file: turns, with the user between them if there is one to ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

from chatmd.errors import LimitReached
from chatmd.runtime import events
from chatmd.runtime.agents import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.events import RunResult
from chatmd.runtime.live_text import TextTranscript, open_transcript
from chatmd.runtime.turns import Conversation, Tree
from chatmd.sidecar import Recorded
from lmm import loop
from lmm.disk import files
from lmm.disk.files import read_document
from lmm.errors import FileWriteError, LmmError, Place
from lmm.messages import Event, Failed, Notice


class Runner:
    """Runs a file on the background loop. `steer` and `cancel` may be called from any thread there is.

    With `memory`, that is run instead, as if it stood beside `path`. `locked` says that the caller has the file's lock.
    """

    def __init__(
        self, path: Path, tree: Tree, options: RunOptions, hooks: Hooks, memory: TextTranscript | None = None
    ) -> None:
        self.path, self.tree, self.options, self.hooks, self.memory = path, tree, options, hooks, memory
        self.locked = False
        self._notes: deque[str] = deque()
        self._turn: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = False

    @property
    def in_turn(self) -> bool:
        """Whether the model or its tools are at work."""
        return self._turn is not None

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
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    async def stream(self) -> AsyncGenerator[tuple[Event, Place]]:
        """What happens and where, as it happens; the last event is the `RunResult`. Closing the stream cancels the run.

        Raises: as `run`.
        """
        mine = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[Event, Place] | None] = asyncio.Queue()
        listener = self.tree.listener

        def tell(event: Event, place: Place) -> None:
            listener(event, place)
            mine.call_soon_threadsafe(arrived.put_nowait, (event, place))

        self.tree = replace(self.tree, listener=tell)
        task = asyncio.create_task(loop.run_async(self.run()))
        task.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (happened := await arrived.get()) is not None:
                yield happened
            await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, LmmError):
                await task

    async def run(self, *, user_first: bool = False) -> RunResult:
        """Run the file; see `chatmd.run`. With `user_first`, nothing is sent before the user was asked."""
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            conversation = self._conversation(stack)
            ready = await conversation.open(stack, though_waiting=self.hooks.ask_user is not None)
            if ready:
                self._tell(events.Ready(conversation.model, conversation.tools))
            while ready:
                done = user_first or await self._turn_done(conversation)
                user_first = False
                if not (done and self._say_notes(conversation)) and not await self._user_says(conversation):
                    break
            result = RunResult(
                conversation.answer,
                conversation.transcript.text,
                None if self.memory else self.path,
                self.tree.tally.usage,
                self.tree.tally.turns,
                "user" if conversation.waits_for_user else "model",
                self._cancelled,
            )
        self._tell(result)
        return result

    def _conversation(self, stack: AsyncExitStack) -> Conversation:
        """The conversation, whose file is open and locked as long as `stack`."""
        folder = self.path.resolve().parent
        if self.memory is not None:
            return Conversation(self.tree, self.memory, folder, ("",), self._notes)
        transcript = stack.enter_context(open_transcript(self.path, locked=self.locked))
        for note in transcript.notes:
            self._tell(Notice(note))
        tree, record = replace(self.tree, records=folder), Recorded(self.path, only=self.tree.replay)
        return Conversation(tree, transcript, folder, (str(self.path),), self._notes, recorded=record)

    @property
    def _name(self) -> str:
        return "" if self.memory else str(self.path)

    def _tell(self, event: Event) -> None:
        self.tree.listener(event, Place(self._name))

    async def _turn_done(self, conversation: Conversation) -> bool:
        """One turn; whether it came to its end."""
        try:
            await self._one_turn(conversation)
        except LmmError as error:
            if not self.hooks.goes_on:
                raise
            self._tell(Failed(error))
            return False
        return not self._cancelled

    def _say_notes(self, conversation: Conversation) -> bool:
        """Whether there are notes that came too late for the turn: they are messages now."""
        notes = self.take_notes()
        for note in notes:
            conversation.say(note)
        if notes:
            self._tell(events.Delivered(notes, with_result=False))
        return bool(notes)

    async def _one_turn(self, conversation: Conversation) -> None:
        self._turn = asyncio.create_task(conversation.turn(once=self.options.once))
        self._cancelled = False
        try:
            async with asyncio.timeout(self.options.timeout) as limit:
                await self._turn
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise LimitReached(
                f"the turn took longer than {self.options.timeout:g} s", where=self._name,
                hint="allow more: --timeout",
            ) from error  # fmt: skip
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._cancelled = True
            self._tell(events.Stopped())
        finally:
            self._turn = None

    async def _user_says(self, conversation: Conversation) -> bool:
        """Whether the user says something, so that another turn begins."""
        ask = self.hooks.ask_user
        if ask is None:
            return False
        conversation.transcript.hand_over()
        self._tell(events.YourTurn(pending=not conversation.waits_for_user))
        said = await ask()
        if said is None:
            return False
        if said:
            conversation.say(said)
        return True


# -- Run files from Python: to the end of a turn, or as a stream of what happens. Each function has a twin with an a


def run(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> RunResult:
    """Run a ChatMD file to the next empty ``<user>``; everything is appended to it as it happens.

    Raises:
        InvalidDocument: the file has errors.
        ConsentNeeded: its tools can do more than read in its folder, and nobody agreed to that.
        ModelError, LimitReached: the model did not answer, or the run has used up what it may. What was said and
            done before is in the file, and running it again goes on from there.
        DocumentError: the file cannot be read or written, or another process runs it.
    """
    return loop.run(open_run(path, options, hooks).run())


async def arun(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> RunResult:
    """`run` for callers with an event loop."""
    runner = await asyncio.to_thread(open_run, path, options, hooks)
    return await loop.run_async(runner.run())


async def stream(
    path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()
) -> AsyncGenerator[tuple[Event, Place]]:
    """`run` as a stream of what happens, and where; it ends with the `RunResult`. Closing it cancels the run."""
    runner = await asyncio.to_thread(open_run, path, options, hooks)
    async with aclosing(runner.stream()) as events:
        async for event in events:
            yield event


def open_run(path: str | Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> Runner:
    """What `run` runs, for those who want to steer or cancel it; `hooks.confirm` is asked here.

    With ``options.output``, the copy is made here.

    Raises: as `run`, before anything is sent.
    """
    path = Path(path)
    text, folder = read_document(path), path.resolve().parent
    tree = agreed(tree_for(path, folder, options, hooks), text, str(path), folder, options, hooks)
    if options.output is None:
        return Runner(path, tree, options, hooks)
    return Runner(options.output, _copied(path, text, tree, options), options, hooks)


def open_text(text: str, folder: Path, options: RunOptions = RunOptions(), hooks: Hooks = Hooks()) -> Runner:
    """`open_run` for a text that is in no file; what it names is relative to `folder`, and nothing is written."""
    folder = folder.resolve()
    tree = agreed(tree_for(None, folder, options, hooks), text, "", folder, options, hooks)
    return Runner(folder / "text", tree, options, hooks, TextTranscript(text))


def _copied(path: Path, text: str, tree: Tree, options: RunOptions) -> Tree:
    """Write the file that is to be run in place of `path`; the tree that it is run with."""
    output = options.output
    assert output is not None
    write_copy(path, text, output)
    tree = replace(tree, protected=(*tree.protected, output.resolve()))
    # Its tools are those that were agreed to a moment ago, under another name.
    return agreed(tree, text, str(output), output.resolve().parent, replace(options, yes=True), Hooks())


def write_copy(path: Path, text: str, output: Path) -> None:
    """Write the text of the file in `path` to `output` beside it.

    Raises:
        FileWriteError: there is such a file, or its folder is another one: what the text names by paths would be
            something else there.
    """
    if output.exists():
        raise FileWriteError(
            "there is such a file already", where=str(output), hint=f"to go on with it: lmm run {output}; or delete it"
        )
    folder = path.resolve().parent
    if output.resolve().parent != folder:
        hint = f"name a file there, or copy what the file needs and run it there: {folder / output.name}"
        raise FileWriteError(
            "a copy stands in the folder of the file, whose paths it keeps", where=str(output), hint=hint
        )
    files.replace(output, text)
