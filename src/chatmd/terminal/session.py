"""A conversation in the terminal: a run of a file, and the screen that shows it and reads messages.

Both are on the background loop, so that each sees the other's state. Whatever changes the whole file (taking a message
back, compacting, an editor) ends the run and begins another one, within what remains of the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from prompt_toolkit.data_structures import Size
from rich.table import Table
from rich.text import Text

from chatmd.call_texts import AGREE, CHOICES, Approvals, CallDecision, call_in_words, read_answer
from chatmd.compaction.compact import estimate
from chatmd.context import Run, model_settings
from chatmd.language.agent import AgentConfig, AgentSpec, Tool, read_agent
from chatmd.language.nodes import Element
from chatmd.language.syntax import parse
from chatmd.runtime import transcript_file
from chatmd.runtime.runner import Runner, open_run, write_copy
from chatmd.sidecar import FOLDER
from chatmd.terminal.screen import KEYS, Screen
from chatmd.terminal.view import ChatView, exchange_in, remember, used_for
from chatmd.tools.calling import ToolCaller, open_tools
from chatmd.tools.command import scrubber
from chatmd.tools.consent import consent
from chatmd.tools.text_files import cut
from lmm import loop, terminal
from lmm.disk.files import read_document
from lmm.disk.watching import signature
from lmm.errors import ConfigError, LmmError, Place, nearest
from lmm.messages import Event, Ready, Reply, ToolCall, ToolResult, YourTurn
from lmm.models.budget import parse_budget
from lmm.models.tokens import window_of
from lmm.terminal import usage_text
from lmm.terminal_markdown import clean

_SHELL = Tool(kind="command", name="!", command="sh -c", description="what is typed after !")
_WIDEST_NAME = 20  # columns
_SHOWN = 600  # characters of the last message, when a conversation is continued
_TICK = 0.2  # seconds between two checks of the file
_TWICE = 3.0  # seconds in which a second Ctrl-C leaves

Action = Callable[[], Coroutine[None, None, object]]
"""Something to be done with the file between two runs."""


class _Question(NamedTuple):
    """A question; `read` returns the answer in a typed line, or None if there is none."""

    read: Callable[[str], Any]
    answer: asyncio.Future[Any]


class TerminalSession:
    """The conversation in the file `path`, whose first run is opened by `begin`, and later ones from the file."""

    def __init__(self, path: Path, run: Run, begin: Callable[[Run], Runner], *, ask: bool = False) -> None:
        self.path, self.tally = path, run.tally
        self._begin: Callable[[Run], Runner] | None = begin  # of a file that was not run here before
        self.before = used_for(self.path)
        self.turns_allowed = self.tally.limits.turns
        self.runner: Runner | None = None
        self.screen: Screen = Screen(self, {f"/{row.name}": row.help for row in COMMANDS}, self.path.resolve().parent)
        self.view = ChatView(self.screen.size)
        self.context = replace(run, goes_on=True).with_options(
            approve=Approvals(self._approve) if ask else None, confirm=self._confirm,
            ask_user=self._ask_user,
            listener=lambda *event: self._loop.call_soon_threadsafe(self._on_event, *event) if self._loop else None,
        )  # fmt: skip
        self.model = ""
        self.used = self.window = 0  # tokens of the last request and its reply, and that the model reads at once
        self.markup = False  # the draft is ChatMD, not text
        self.question: _Question | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: deque[str | Action] = deque()  # of the user: messages, "" to continue as it is, actions
        self._has_items = asyncio.Event()  # something is in it
        self._is_users_turn = False
        self._is_stuck = False  # the user has to correct something
        self._pending = False  # the model has something to do
        self._next_action: Action | None = None  # when the run has ended
        self._action: asyncio.Task[object] | None = None  # that is being carried out
        self._interrupted = -_TWICE
        self._seen: object = None
        self._bytes = b""

    # -- runs --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the conversation until the user leaves."""
        self._loop = asyncio.get_running_loop()
        conversation, screen = asyncio.create_task(self._talk()), asyncio.create_task(self.screen.run())
        try:
            await asyncio.wait((screen, conversation), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # A window that is closed ends the input, then sends a signal, which must not end what the first began.
            await loop.to_its_end(self._leave(conversation, screen))
        if not conversation.cancelled():
            conversation.result()

    async def _leave(self, conversation: asyncio.Task[None], screen: asyncio.Task[None]) -> None:
        """End the run, which completes the file, then the screen."""
        self._cancel_question()
        conversation.cancel()
        await asyncio.wait((conversation,))
        if self.tally.turns:
            done = f"{terminal.count(self.tally.turns, 'request')}, {usage_text(self.tally.usage)}"
            self.note(f"{self.path}: {done}; lmm run -i {self.path.name} continues from there")
        self.screen.close()
        await screen

    async def _talk(self) -> None:
        """Run the file again and again; between two runs, do something with it."""
        user_first = False
        while True:
            self._next_action = None
            try:
                if self._begin is None:
                    self.runner = await asyncio.to_thread(open_run, self.path, self.context)
                else:
                    self.runner = await asyncio.to_thread(self._begin, self.context)
                    self.context, self._begin = self.runner.context.with_options(say="", inputs={}), None
                    message, answer = exchange_in(await asyncio.to_thread(read_document, self.path))
                    shown = self.view.user_message(cut(message, _SHOWN)) if message else []
                    self.screen.print(shown + self.view.replied(answer))
                await self.runner.run(user_first=user_first)
            except LmmError as error:
                self._print_error(error)
                self._is_stuck = True
                item = await self._dequeue()
                if callable(item):
                    self._next_action = item
                else:
                    self.screen.draft(item)
            self.runner, self._is_stuck, user_first = None, False, self._begin is None or user_first
            if self._next_action is not None:
                await self._perform(self._next_action)

    async def _dequeue(self) -> str | Action:
        """Return what the user wants next; a change of the file is read by another run."""
        self._changed()
        self._is_users_turn = True
        try:
            while not self._queue:
                self._has_items.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        await self._has_items.wait()
                if self._changed():
                    return partial(self._remark, "the file was changed, and is read again", "yellow")
            return self._queue.popleft()
        finally:
            self._is_users_turn = False

    def _enqueue(self, item: str | Action) -> None:
        self._queue.append(item)
        self._has_items.set()

    async def _perform(self, action: Action) -> None:
        """Do something, which Ctrl-C cancels."""
        self._action = task = asyncio.create_task(action())
        try:
            await asyncio.wait((task,))
        finally:
            self._action = None
            task.cancel()
        if task.cancelled():
            self.note("cancelled", "yellow")
        elif isinstance(error := task.exception(), LmmError):
            self._print_error(error)
        elif error is not None:
            raise error

    # -- what the run asks and tells ---------------------------------------------------------------------------

    async def _ask_user(self) -> str | Element | None:
        """Return the user's next message; None to end the run, so that something can be done with the file."""
        await asyncio.sleep(0)  # events that were told before are shown first
        if self.runner is not None and (notes := self.runner.take_notes()):  # of a turn that was cancelled, or failed
            self.screen.draft("\n\n".join(notes))
        self.view.pending_notes.clear()
        while True:
            item = await self._dequeue()
            if callable(item):
                self._next_action = item
                return None
            if (message := self._element(item)) is not None:
                break
        self.markup = False
        if self.turns_allowed is not None:  # the user sees what happens, so the limit counts for each turn
            self.tally.limits = replace(self.tally.limits, turns=self.tally.turns + self.turns_allowed)
        self.view.begin_turn(time.monotonic())
        return message

    def _element(self, text: str) -> str | Element | None:
        """Return a message with the files that it names; None if that fails and it stays in the prompt."""
        if not text:
            return text
        try:
            files = () if self.markup else transcript_file.attached_files(text, self.context)
            element = transcript_file.message_element(transcript_file.Draft(text, self.markup), files)
        except LmmError as error:
            self._print_error(error)
            self.screen.draft(text)
            return None
        self.screen.print(self.view.user_message(self.screen.refolded(text), f"[{', '.join(files)}]" if files else ""))
        return element

    def _on_event(self, event: Event, place: Place) -> None:
        if isinstance(event, Ready):
            self.model = event.model
            self._measuring = asyncio.create_task(self._measure())
        elif isinstance(event, YourTurn):
            self._pending = event.pending
            remember(self.path, self.before + self.tally.usage)
        elif isinstance(event, Reply) and not place.path:
            self.used = event.usage.input_tokens + event.usage.output_tokens
        self.view.size = self.screen.size
        self.screen.print(self.view.happened(event, place, time.monotonic()))

    async def _approve(self, call: ToolCall) -> CallDecision:
        name, _, arguments = call_in_words(call).partition("\n")
        text = Text.assemble((name, "bold"), f"\n{arguments}\n" if arguments else "\n", (CHOICES, "dim"))
        answer: CallDecision = await self._ask(text, "y/n/a/q › ", read_answer)
        return answer

    def _confirm(self, text: str) -> bool:
        """Ask whether the user agrees to what tools can do; this blocks, and is called in a thread that may wait."""
        assert self._loop is not None
        asked = Text.assemble(f"{clean(text)}\n", (AGREE, "dim"))
        question = self._ask(asked, "y/N › ", lambda line: line.strip().lower() in ("y", "yes"))
        try:
            return bool(asyncio.run_coroutine_threadsafe(question, self._loop).result())
        except CancelledError:
            return False

    async def _ask(self, text: Text, label: str, read: Callable[[str], Any]) -> Any:
        """Ask a question in the prompt, and return the answer."""
        self.question = _Question(read, asyncio.Future())
        self.screen.print(self.view.block(text))
        self.screen.ask(label)
        try:
            return await self.question.answer
        finally:
            self.question = None
            self.screen.ask("")

    def _cancel_question(self) -> None:
        if self.question is not None:
            self.question.answer.cancel()

    # -- called by the screen (`chatmd.terminal.screen.User`) ------------------------------------------------

    def live(self, now: float, size: Size) -> list[str]:
        """Return the changing lines."""
        self.view.size = size
        return self.view.live(now)

    def hint(self) -> str:
        """Return what can be done now."""
        if self.question is not None:
            return "Enter answers; Ctrl-C cancels"
        if time.monotonic() - self._interrupted < _TWICE:
            return "Ctrl-C again leaves"
        if self._is_stuck:
            return "Enter tries again"
        if not self._is_users_turn:
            return "Enter adds a note; Ctrl-C cancels" if self.model else "opening the tools …"
        return "Enter continues; /edit takes back your message" if self._pending else "/help"

    def status(self) -> str:
        """Return the model, how much of its window is used, and the cost of the conversation."""
        share = f"{self.used:,} of {self.window:,} tokens ({self.used * 100 // self.window} %)" if self.window else ""
        cost = (self.before + self.tally.usage).cost
        return " · ".join(filter(None, (self.model, share, f"${cost:.4f}" if cost else "")))

    def submitted(self, text: str) -> bool:
        """Handle Enter; return whether `text` goes into the history."""
        if self.question is not None:
            answer = self.question.read(text)
            if answer is None:
                self.note(f"{text.strip()!r} is not an answer: y, n, a or q", "yellow")
            elif not self.question.answer.done():
                self.screen.print(self.view.user_message(text.strip() or "no"))
                self.question.answer.set_result(answer)
            return False
        if not text.strip():
            if self._is_users_turn and (self._pending or self._is_stuck):
                self._enqueue("")
            return False
        if self._is_command(text):
            return True
        if self._is_users_turn:
            self._enqueue(text)
        else:
            self.view.pending_notes.append(text)
            if self.runner is not None and self._next_action is None:
                self.runner.steer(text)
            else:
                self._enqueue(text)
        return True

    def interrupted(self) -> None:
        """Handle Ctrl-C; in an editor, it is the editor's."""
        if self.screen.is_editing:
            return
        if self._action is not None or (self.question is not None and self.runner is None):
            self._cancel_question()
            if self._action is not None:
                self._action.cancel()
        elif self.runner is not None and self.model and not self._is_users_turn:
            self.runner.cancel()
        elif self.screen.buffer.text:
            self.screen.buffer.reset()
            self.markup = False
        else:
            if time.monotonic() - self._interrupted < _TWICE or self.runner is None or not self.model:
                self.screen.close()
            self._interrupted = time.monotonic()

    def on_sigint(self, *_: object) -> None:
        """Handle SIGINT, in the main thread: Ctrl-C while the keyboard is not the prompt's."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.interrupted)

    # -- the file ------------------------------------------------------------------------------------------------

    def _changed(self) -> bool:
        """Return whether the file has another content than at the last look; a touch changes nothing."""
        if (now := signature(self.path)) == self._seen:
            return False
        before, self._seen, self._bytes = self._bytes, now, b""
        with contextlib.suppress(OSError):
            self._bytes = self.path.read_bytes()
        return before != self._bytes

    async def _remark(self, text: str, style: str = "dim") -> None:
        """Print a remark between two runs; the next run begins with the change."""
        self.note(text, style)

    async def _measure(self) -> None:
        """Find out how much of the model's window the conversation takes."""
        with contextlib.suppress(LmmError):
            text = await asyncio.to_thread(read_document, self.path)
            spec = read_agent(self.context.rules.imported(parse(text, file=str(self.path))))
            model = model_settings(spec.config, self.context.configuration)
            self.used = await asyncio.to_thread(estimate, text)
            self.window = (await window_of(model)).tokens

    # -- commands ----------------------------------------------------------------------------------------------

    def _is_command(self, text: str) -> bool:
        """Carry out a text if it is a command; return whether it is one, or was meant to be one."""
        if self.markup:  # the text comes from /edit
            return False
        if text.startswith("!") and text[1:].strip():
            if self._action is None:
                self._shelling = asyncio.create_task(self._perform(partial(self._shell, text[1:].strip())))
            else:
                self.note("another command is at work; Ctrl-C cancels it")
            return True
        try:
            if (found := read_command(text)) is None:
                return False
        except LmmError as error:
            self._print_error(error)
            return True  # the history has it, to be corrected
        command, argument = found
        self.screen.print(self.view.user_message(text.strip(), style="dim"))
        try:
            command.do(self, argument)
        except LmmError as error:
            if isinstance(error, ConfigError):  # which names an option of the command line
                error.where = f"/{command.name}"
            self._print_error(error)
        return True

    def note(self, text: str, style: str = "dim") -> None:
        """Print a remark."""
        self.screen.print(self.view.note(text, style))

    def _print_error(self, error: LmmError) -> None:
        self.note(error.at_prompt, "red")

    def show_table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print rows of names and descriptions."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", overflow="fold", max_width=_WIDEST_NAME)
        for row in rows:
            table.add_row(*map(clean, row))
        self.screen.print(self.view.block(table))

    def show_help(self) -> None:
        """Print the commands and keys."""
        self.show_table([(f"/{row.name} {row.argument}".rstrip(), row.help) for row in COMMANDS] + list(KEYS))

    def set_budget(self, amount: str) -> None:
        """Set the budget from now on."""
        more = parse_budget(amount)
        limits, usage = self.tally.limits, self.tally.usage
        if more.tokens is not None:
            limits = replace(limits, tokens=usage.input_tokens + usage.output_tokens + more.tokens)
        if more.dollars is not None:
            limits = replace(limits, dollars=(usage.cost or 0.0) + more.dollars)
        self.tally.limits = limits
        self.note(f"{amount} more from now on")

    # -- commands that change the file ---------------------------------------------------------------------------

    def change_file(self, name: str, action: Action) -> None:
        """Do something with the file once the run has ended."""
        if not self._is_users_turn:
            self.note(f"/{name} comes once the model is done; Ctrl-C cancels what it does")
        self._enqueue(action)

    async def undo(self) -> transcript_file.Draft | None:
        """Remove the last message from the file, and return it; None if there is none."""
        with transcript_file.open_transcript(self.path) as transcript:
            rewound = transcript_file.rewind_transcript(transcript)
        if rewound is None:
            self.note("there is no message of yours that could be taken back")
            return None
        self.note(f"taken back; the original is kept in {FOLDER}/{rewound.original.name}")
        if rewound.changed:
            names = ", ".join(os.path.relpath(file, self.path.resolve().parent) for file in rewound.changed)
            self.note(f"the changes in {names} stay; to take them back too: lmm undo {self.path}", "yellow")
        self.markup = rewound.draft.markup
        return rewound.draft

    async def edit(self) -> None:
        """Move the last message into the prompt."""
        if (draft := await self.undo()) is not None:
            if draft.markup:
                self.note("it is ChatMD: its tags count")
            self.screen.draft(draft.text)

    async def retry(self) -> None:
        """Send the last message again."""
        if (draft := await self.undo()) is not None:
            self._queue.appendleft(draft.text)

    async def compact(self) -> None:
        """Replace the older part of the conversation with a summary."""
        self.note("writing a summary …")
        with transcript_file.open_transcript(self.path) as transcript:
            done = await transcript_file.compact_transcript(transcript, self.context)
        original = f"; the original is kept in {FOLDER}/{done.original.name}" if done.original else ""
        paid = f"{done.model}: {usage_text(done.usage)}"
        self.note(f"{done.before:,} tokens became {done.after:,}{original} ({paid})")

    def ask_model(self, name: str) -> None:
        """Ask another model from now on."""
        configuration = replace(self.context.configuration, model=name)
        model = model_settings(AgentConfig(), configuration)
        self.context = replace(self.context, configuration=configuration)  # of the next run
        self.change_file("model", partial(self._remark, f"{model.model} is asked from now on"))

    async def fork(self, number: str) -> None:
        """Continue in a new file with the conversation before a message, and put that message into the prompt."""
        text = await asyncio.to_thread(read_document, self.path)
        branch = transcript_file.fork(text, int(number) if number.isdecimal() else 0, str(self.path))
        names = (self.path.with_stem(f"{self.path.stem}-{n}") for n in range(2, 1000))
        output = next(path for path in names if not path.exists())
        await asyncio.to_thread(write_copy, self.path, branch.text, output)
        self.note(f"{output.name} goes another way; {self.path.name} stays as it is")
        self.path, self._begin = output, lambda run: open_run(output, run, output)
        self.screen.draft(branch.draft.text)

    # -- a shell ---------------------------------------------------------------------------------------------

    async def _shell(self, command: str) -> None:
        """Run a command like a tool: with consent, in the prompt's folder, without keys, within the limits."""
        self.screen.print(self.view.user_message(f"!{command}", style="dim"))
        spec = AgentSpec(tools=(_SHELL,))
        run = replace(self.context, functions=())
        await asyncio.to_thread(consent, spec, run)
        call = ToolCall("!", _SHELL.name, json.dumps({"arguments": [command]}))
        results: dict[int, ToolResult] = {}
        async with AsyncExitStack() as stack:
            tools = await open_tools(spec.tools, run, stack)
            await ToolCaller(tools, scrub=scrubber(spec, run), approve=run.options.approve).call([call], results)
        output = results[0].text.strip()
        self.screen.print(self.view.block(Text(clean(output))))
        self.screen.draft(self.screen.folded(f"$ {command}\n{output}\n\n", f"!{command}") + " ")


# -- The commands of the prompt, one row of a table each --------------------------------------------------------


class SlashCommand(NamedTuple):
    """A command; `argument` is its argument's name in the help, if it has one."""

    name: str
    argument: str
    help: str
    do: Callable[[TerminalSession, str], object]


COMMANDS = (
    SlashCommand("help", "", "this list", lambda chat, _: chat.show_help()),
    SlashCommand(
        "budget", "AMOUNT", "allow this much from now on: tokens (20000) or money (0.50$)", TerminalSession.set_budget
    ),
    SlashCommand(
        "model", "NAME", "ask this model from now on, whatever the file says", TerminalSession.ask_model
    ),
    SlashCommand("retry", "", "ask for the last reply again", lambda chat, _: chat.change_file("retry", chat.retry)),
    SlashCommand("edit", "", "take back your last message, and change it",
                 lambda chat, _: chat.change_file("edit", chat.edit)),
    SlashCommand("undo", "", "take back your last message and everything after it",
                 lambda chat, _: chat.change_file("undo", chat.undo)),
    SlashCommand("fork", "N", "continue differently from your message N on, in a new file",
                 lambda chat, number: chat.change_file("fork", partial(chat.fork, number))),
    SlashCommand("compact", "", "replace the older part of the conversation with a summary",
                 lambda chat, _: chat.change_file("compact", chat.compact)),
    SlashCommand("quit", "", "leave; lmm run FILE continues from there", lambda chat, _: chat.screen.close()),
)  # fmt: skip
_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


def read_command(text: str) -> tuple[SlashCommand, str] | None:
    """Return the command in a line, with its argument; None if the line is a message, such as ``/etc/hosts?``.

    Raises:
        ConfigError: there is no such command, or its argument is missing or superfluous.

    >>> read_command("/budget 1$")[1], read_command(" /budget 1$"), read_command("/etc/hosts")
    ('1$', None, None)
    >>> read_command("/hlep")
    Traceback (most recent call last):
    lmm.errors.ConfigError: there is no command /hlep (did you mean '/help'?; ...)
    """
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), (found[2] or "").strip()
    command = next((row for row in COMMANDS if row.name == name), None)
    if command is None:
        hint = nearest(f"/{name}", [f"/{row.name}" for row in COMMANDS])
        hint = f"{hint}; to send it as a message, begin with a space"
        raise ConfigError(f"there is no command /{found[1]}", hint=hint)
    if bool(argument) != bool(command.argument):
        how = f"write: /{name} {command.argument}".rstrip()
        raise ConfigError(f"/{name} takes {'an' if command.argument else 'no'} argument", hint=how)
    return command, argument


def converse(path: Path, run: Run, begin: Callable[[Run], Runner], *, ask: bool = False) -> int:
    """Show the conversation in a file until the user leaves, and return 0; `ask` asks before each call.

    `begin` opens its first run.

    Raises:
        KeyboardInterrupt: SIGTERM or SIGHUP ended it; the file is complete, and nothing is left running.
    """
    session = TerminalSession(path, run, begin, ask=ask)
    before = signal.signal(signal.SIGINT, session.on_sigint)
    try:
        loop.run(session.run())
    finally:
        signal.signal(signal.SIGINT, before)
    return 0
