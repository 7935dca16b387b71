"""The run of one file: prepare it, get consent, then take turns, and ask the user between them if there is one.

An agent that the file asks runs to its end in memory (`ask_agent`).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from chatmd.config import ChatmdSettings
from chatmd.content.documents import SourceDocument, plain_text
from chatmd.content.expand import locate
from chatmd.context import AgentRequest, Configuration, Run, RunOptions, log_notices, open_model, settings_of
from chatmd.errors import InvalidDocument, LimitReached
from chatmd.language.agent import check_values, read_agent
from chatmd.language.transcript import cut_torn, gap, parse_cached, repair, user_element_text, user_text
from chatmd.runtime.transcript_file import Transcript, fork, open_transcript, without_blank_turn
from chatmd.runtime.turns import Conversation, with_inputs
from chatmd.sidecar import ExpansionRecord, adopt_record, keep_record
from chatmd.tools.consent import consent
from chatmd.tools.registry import function_tool
from lmm import loop
from lmm.config_files import CONFIG, config_folders, find_config
from lmm.disk import files
from lmm.disk.files import read_document
from lmm.disk.folder import Folder, check_named
from lmm.errors import FileWriteError, LmmError, Place
from lmm.fetch import fetch, name_of
from lmm.messages import Delivered, Event, Failed, Notice, RunResult, RunStopped, YourTurn
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget
from lmm.models.port import given_model

# -- Another agent that is asked ---------------------------------------------------------------------------------


async def ask_agent(run: Run, request: AgentRequest) -> str:
    """Return an agent's answer to a request; nothing is written to its file, its transcript is stored as another.

    Raises:
        LimitReached: agents ask agents too deep, or the whole run reached a limit.
        LmmError: the file cannot be read or has errors, nobody agreed to its tools, or its model does not answer.
    """
    if request.local:
        path = locate(request.src, replace(run, folder=request.folder))
        text, name, folder = await asyncio.to_thread(read_document, path), str(path), path.parent
    else:
        came = await fetch(request.src, run.rules.fetching)
        text, name, folder = plain_text(SourceDocument.of(came)), request.src, request.folder
    below = replace(run, folder=folder, chain=(*run.chain, name), ask=ask_agent, functions=()).with_options(
        once=False, inputs=request.values, schema=None, check=None, retries=None
    )
    check_depth(below.chain, run.rules.max_depth)
    text = with_inputs(text, below)
    if any(not isinstance(part, str) or part.strip() for part in request.input):
        text += gap(text) + user_element_text(request.input)
    records, unfinished = Folder(run.records) if run.records is not None else None, request.unfinished
    if records is not None and (earlier := adopt_record(records.root, unfinished, name_of(name))):
        run.emit(Notice(f"{earlier} contains what {name_of(name)} did in a run that was killed"))

    def save(text: str) -> None:
        if records is not None:
            records.write(unfinished, text.encode("utf-8"), private=True)

    save(text)
    transcript = Transcript(text, saved=save)
    recorded = ExpansionRecord(Path(name), only=True) if run.options.replay and request.local else None
    conversation = Conversation(
        below, transcript, recorded=recorded, remote=not request.local, user_turn="", owner=unfinished
    )
    try:
        return await conversation.answered()
    finally:  # also what came before an error
        if records is not None:
            if transcript.text != text:
                request.on_stored(keep_record(records.root, name_of(name), transcript.text))
            records.remove(unfinished, missing_ok=True)


def check_depth(chain: tuple[str, ...], most: int) -> None:
    """Check that agents do not ask agents without end; the first file does not count.

    >>> check_depth(("/notes/a.md", "/notes/b.md", "/notes/a.md"), 1)
    Traceback (most recent call last):
    lmm.errors.LimitReached: agents ask each other in a circle: a.md → b.md → a.md (at most 1: max_depth in [chatmd])
    """
    if len(chain) - 1 <= most:
        return
    names = " → ".join(file if "://" in file else Path(file).name for file in chain)
    what = "in a circle" if len(set(chain)) < len(chain) else "too deep"
    raise LimitReached(f"agents ask each other {what}: {names}", hint=f"at most {most}: max_depth in [chatmd]")


# -- Preparing a run, and consent ----------------------------------------------------------------------------------


def prepare(file: Path | None, options: RunOptions = RunOptions(), *, folder: Path | None = None) -> Run:
    """Prepare the run of a file, or of a text that belongs into `folder`.

    Raises:
        ConfigError: config.toml or an option has an unknown or invalid value.
    """
    folder, environment = folder or (file or Path("text")).resolve().parent, dict(os.environ)
    named, chosen_model = given_model(options.model)
    place, config = file or folder / "text", Path(options.config) if options.config is not None else None
    configuration = Configuration(find_config(config, place, environment), environment, named, str(place))
    rules = ChatmdSettings.of(configuration.file)
    places = (where / CONFIG for where in config_folders(place))  # also of a file that does not exist yet
    limits = parse_budget(options.budget) if options.budget else UsageLimits()
    turns = rules.max_turns if options.max_turns is None else options.max_turns
    return Run(
        folder,
        configuration.settings(),
        rules.replace(roots=(*rules.roots, *map(Path, options.roots))),
        environment,
        protected=tuple(path.resolve() for path in (file, configuration.file.path, *places) if path is not None),
        chain=(str(file or ""),),
        configuration=configuration,
        tally=SharedBudget(replace(limits, turns=turns)),
        open_model=open_model if chosen_model is None else lambda settings: chosen_model,
        ask=ask_agent,
        working=Path.cwd(),
        functions=tuple(map(function_tool, options.tools)),
        options=options,
    )


def agree(run: Run, text: str) -> Run:
    """Return the run once the user has agreed to what the tools of a text, and of the agents that it asks, can do.

    Raises:
        InvalidDocument: the text has errors.
        ChatmdError: an input has no value, or one of the wrong type.
        ConsentNeeded: nobody agreed.
    """
    name, run = run.chain[-1], run.with_outside(text)
    try:
        whole = repair(with_inputs(text, run), name, goes_on=False).text
        spec = read_agent(run.rules.imported(parse_cached(whole, name)))
    except InvalidDocument as error:
        if cut_torn(text) != text:
            error.hint = "an earlier run was interrupted here: lmm check --fix cuts off what is incomplete"
        raise
    check_values(spec.inputs)
    run = replace(run, settings=settings_of(spec.config, run.configuration))
    return replace(run, check_agreement=consent(spec, run).check)


# -- Running it ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Runner:
    """Runs a file on the background loop. `steer` and `cancel` may be called from any thread.

    Without a `path`, the transcript in `memory` is run.
    """

    path: Path | None
    context: Run
    memory: Transcript | None = None
    _notes: deque[str] = field(default_factory=deque)
    _turn: asyncio.Task[None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _cancelled: bool = False

    def steer(self, text: str) -> None:
        """Send a note while the model is at work; it gets it with the next result of a tool, else as a message."""
        self._notes.append(text)

    def take_notes(self) -> tuple[str, ...]:
        """Return and remove the notes of `steer` that were not delivered; the caller must deliver them."""
        return tuple(self._notes.popleft() for _ in range(len(self._notes)))  # another thread may add one meanwhile

    def cancel(self) -> None:
        """Cancel the turn, if there is one; everything so far stays in the transcript."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._turn is not None and self._turn.cancel())

    async def stream(self) -> AsyncGenerator[tuple[Event, Place]]:
        """Run, and yield each event with its place; the last is the `RunResult`. Closing the stream cancels the run.

        Raises: as `run`.
        """
        mine = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[Event, Place] | None] = asyncio.Queue()
        listener = self.context.options.listener

        def forward(event: Event, place: Place) -> None:
            if listener is not log_notices:  # the caller gets them
                listener(event, place)
            mine.call_soon_threadsafe(arrived.put_nowait, (event, place))

        self.context = self.context.with_options(listener=forward)
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
        """Run the file; see `chatmd.Chat.run`. With `user_first`, the user is asked before anything is sent."""
        self._loop = asyncio.get_running_loop()
        has_user = self.context.options.ask_user is not None  # who decides about a reply that was cancelled
        say = self.context.options.say
        async with AsyncExitStack() as stack:
            if self.memory is not None:
                conversation = Conversation(self.context, self.memory, self.take_notes)
            else:  # the file stays open and locked until the end
                assert self.path is not None
                opened = open_transcript(self.path, goes_on=has_user or bool(say))
                transcript = stack.enter_context(opened)
                recorded = ExpansionRecord(self.path, only=self.context.options.replay)
                run = replace(self.context, records=self.context.folder)
                conversation = Conversation(run, transcript, self.take_notes, recorded=recorded)
            if say and not conversation.is_last_message(say):
                conversation.say(say)
            stack.callback(self._send_notes, conversation)  # whatever ends the run
            ready = await conversation.open(stack, though_waiting=has_user)
            if ready is not None:
                self.context.emit(ready)
            while ready is not None:
                done = user_first or await self._turn_done(conversation)
                user_first = False
                if not (done and self._send_notes(conversation)) and not await self._ask_user(conversation):
                    break
            result = RunResult(
                conversation.answer if self.context.tally.turns else "",
                conversation.transcript.text,
                path=self.path,
                usage=self.context.tally.usage,
                turns=self.context.tally.turns,
                turn_of="user" if conversation.spec.waits_for_user else "model",
                cancelled=self._cancelled,
                cut=conversation.is_cut,
            )
        self.context.emit(result)
        return result

    async def _turn_done(self, conversation: Conversation) -> bool:
        """Take one turn, and return whether it was completed."""
        self._turn = asyncio.create_task(conversation.turn())
        self._cancelled = False
        try:
            async with self.context.in_time():
                await self._turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._cancelled = True
            self.context.emit(RunStopped())
        except LmmError as error:
            if not self.context.goes_on:
                raise
            self.context.emit(Failed(error))
            return False
        finally:
            self._turn = None
        return not self._cancelled

    def _send_notes(self, conversation: Conversation) -> bool:
        """Turn notes that came too late for the turn into messages; return whether there were any."""
        notes = self.take_notes()
        for note in notes:
            conversation.say(note)
        if notes:
            self.context.emit(Delivered(notes, with_result=False))
        return bool(notes)

    async def _ask_user(self, conversation: Conversation) -> bool:
        """Ask the user, and return whether another turn begins."""
        ask = self.context.options.ask_user
        if ask is None:
            return False
        conversation.transcript.accept_changes()
        self.context.emit(YourTurn(pending=not conversation.spec.waits_for_user))
        message = await ask()
        if message is None:
            return False
        if message:
            conversation.say(message)
        return True


def open_run(path: Path, run: Run, output: Path | None = None, *, fork_at: int | None = None) -> Runner:
    """Return the runner of a ChatMD file; ``run.options.confirm`` is called here if consent is missing.

    With `output`, the file stays unchanged, and a copy at that path is run; with `fork_at`, the copy ends before the
    user's message of that number. If `output` is `path`, an existing copy continues with a `run` that was prepared for
    the original, whose consent counts.

    Raises: as `chatmd.Chat.run`, before anything is sent.
    """
    text = read_document(path)
    if output is not None and fork_at is not None:
        text = fork(text, fork_at, str(path)).text
    agreed = agree(run, text)
    if output is None:
        return Runner(path, agreed)
    if output != path:
        write_copy(path, text, output)
    # Its tools are the same, to which the user has just agreed for the original.
    run = replace(run, protected=(*run.protected, output.resolve()), chain=(str(output),))
    agreed = agree(run.with_options(confirm=lambda _: True), text)
    return Runner(output, replace(agreed, options=run.options))


def open_text(text: str, run: Run) -> Runner:
    """Return the runner of a text without a file, as `open_run`; nothing is written."""
    return Runner(None, agree(run, text), Transcript(text))


def write_copy(path: Path, text: str, output: Path) -> None:
    """Write the text of the file in `path` to `output` beside it.

    Raises:
        LinkOutside: `output` is a link out of its folder.
        FileWriteError: the file exists, or is in another folder, where the relative paths in the text would name
            other files.
    """
    check_named(output)
    if output.exists():
        hint = f"to continue it: lmm run {output}; or delete it"
        raise FileWriteError("this file exists already", where=str(output), hint=hint)
    folder = path.resolve().parent
    if output.resolve().parent != folder:
        hint = f"choose a file there, or copy what the file needs and run it there: {folder / output.name}"
        raise FileWriteError(
            "a copy must be in the folder of the file, because of its relative paths", where=str(output), hint=hint
        )
    files.replace(output, text)


async def reply_to(text: str, input: str, run: Run) -> tuple[str, str]:
    """Return the answer of the agent in a text to an input, and the text with the whole exchange.

    Nothing is written. Without an input, the question in the text itself is answered.
    """
    text = without_blank_turn(text)
    text += gap(text) + user_text(input) if input.strip() else ""
    run, transcript = await asyncio.to_thread(agree, run, text), Transcript(text)
    conversation = Conversation(run, transcript, user_turn="")
    async with run.in_time():
        answer = await conversation.answered()
    return answer, transcript.text
