"""A conversation in the terminal: a run of a file, and the screen that shows it and reads messages.

The screen has the main thread and an event loop of its own, the run has the background loop; they communicate by
`call_soon_threadsafe` and futures. Whatever changes the whole file (taking a message back, compacting, an editor)
ends the run and begins another one, within what remains of the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from prompt_toolkit.data_structures import Size
from rich.table import Table
from rich.text import Text

from chatmd.compaction.compact import estimate
from chatmd.compaction.summary import cut
from chatmd.context import model_settings
from chatmd.language.agent import AgentConfig, AgentSpec, Tool, read_agent
from chatmd.language.nodes import Element
from chatmd.language.syntax import parse
from chatmd.runtime import events
from chatmd.runtime.rewind import Draft, compact_transcript, fork, forks, message_element, rewind_transcript
from chatmd.runtime.runner import Runner, open_run, write_copy
from chatmd.runtime.transcript_file import open_transcript
from chatmd.sidecar import FOLDER
from chatmd.terminal import conversations
from chatmd.terminal.questions import Questions
from chatmd.terminal.screen import Screen, attached_files, help_rows, read_command
from chatmd.terminal.view import ChatView, clean
from chatmd.tools.calling import ToolCaller, open_tools
from chatmd.tools.command import scrubber
from chatmd.tools.consent import consent
from lmm import loop, terminal
from lmm.disk.files import read_document
from lmm.disk.watching import signature
from lmm.errors import ConfigError, FileReadError, LmmError, Place
from lmm.messages import Event, Failed, Reply, ToolCall, ToolDefinition, ToolResult
from lmm.models.budget import parse_budget
from lmm.models.tokens import window_of
from lmm.terminal import clipped, usage_text

_SHELL = Tool(kind="command", name="!", command="sh -c", description="what is typed after !")
_WIDEST_NAME = 20  # columns
_SHOWN = 600  # characters of the last message, when a conversation is continued
_TICK = 0.2  # seconds between two drawings while something is at work, else between two checks of the file
_TWICE = 3.0  # seconds in which a second Ctrl-C leaves

Act = Callable[[], Coroutine[None, None, object]]


class TerminalSession:
    """One conversation; `start` is its first run, which is opened before there is a screen.

    `goes_to` is the file of the conversation that the user switches to, and `draft` the text in its prompt then.
    """

    def __init__(self, start: Runner, *, ask: bool) -> None:
        self._main = asyncio.get_running_loop()
        assert start.path is not None, "a conversation is in a file"
        self.path, self.tally = start.path, start.context.tally
        self.before = conversations.used_for(self.path)
        self.goes_to: Path | None = None
        self.draft = ""
        self.turns_allowed = self.tally.limits.turns
        self.runner: Runner | None = start
        self.view = ChatView()
        self.screen = Screen(self, self.path.resolve().parent)
        self.view.size = self.screen.size
        self.questions = Questions(self.screen, self.view)
        start.context = self.context = replace(start.context, goes_on=True).with_options(
            approve=self.questions.approve if ask else None, confirm=self.questions.confirm,
            ask_user=self._ask_user, listener=self._listen,
        )  # fmt: skip
        self.tools: tuple[ToolDefinition, ...] = ()
        self.model = ""
        self.used = self.window = 0  # tokens of the last request and its reply, and that the model reads at once
        self.markup = False  # the draft is ChatMD, not text
        self.killed = False
        self._said: Future[str | Element | None] | None = None  # set while the run waits for the user
        self._next: Act | None = None  # what to do once the run has ended
        self._acting: asyncio.Task[object] | None = None  # the task that does it
        self._broken = False  # the last turn failed or was cancelled
        self._pending = False  # the model has something to do
        self._cancelling = False
        self._stuck = False  # the user has to correct something
        self._queue: list[str] = []  # messages sent while the file was being changed
        self._then: Act | None = None  # what to do with the file as soon as possible
        self._measuring: asyncio.Task[None] | None = None
        self._shelling: asyncio.Task[None] | None = None
        self._interrupted = -_TWICE
        self._seen: object = None
        self._bytes = b""
        self._retry = asyncio.Event()

    # -- runs --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the conversation until the user leaves.

        Raises:
            LmmError: the first run could not begin.
            KeyboardInterrupt: a signal ended it.
        """
        for name in ("SIGTERM", "SIGHUP"):
            self._main.add_signal_handler(getattr(signal, name), self._kill)
        self._main.add_signal_handler(signal.SIGINT, self.interrupted)
        self._show_last()
        shown, talking = asyncio.create_task(self.screen.run()), asyncio.create_task(self._talk())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((shown, talking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            self.questions.withdraw()
            talking.cancel()
            await asyncio.wait((talking,))
            if self.tally.turns:
                done = f"{terminal.count(self.tally.turns, 'request')}, {usage_text(self.tally.usage)}"
                text = f"{self.path}: {done}; lmm run -i {self.path.name} continues from there"
                self.screen.print(self.view.note(text))
            self.screen.close()
            await shown
        if self.killed:
            raise KeyboardInterrupt
        if not talking.cancelled() and (error := talking.exception()):
            raise error

    async def _talk(self) -> None:
        """Run the file again and again, until a run ends and there is nothing to do next."""
        runner, user_first = self.runner, False
        while runner is not None:
            self.runner, self._next = runner, None
            try:
                await loop.run_async(runner.run(user_first=user_first))
            except LmmError as error:
                if not self.tools and not self.model:  # the first run could not begin
                    raise
                self._tell(error)
                self._next = self._trouble
            self.runner = None
            if self._next is None:
                return
            await self._act(self._next)
            runner, user_first = await self._reopened(), True

    async def _act(self, act: Act) -> None:
        """Do something with the file, which Ctrl-C cancels."""
        self._acting = task = asyncio.create_task(act())
        try:
            await asyncio.wait((task,))
        finally:
            self._acting = None
            task.cancel()
        if task.cancelled():
            self.screen.print(self.view.note("cancelled", "yellow"))
        elif isinstance(error := task.exception(), LmmError):
            self._tell(error)
        elif error is not None:
            raise error

    async def _trouble(self) -> None:
        """Wait until the user has corrected something: the file changes, or Enter is pressed."""
        self._changed()
        self._stuck = True
        self._retry.clear()
        try:
            await self._retry.wait()
        finally:
            self._stuck = False

    async def _reopened(self) -> Runner:
        while True:
            try:
                return await asyncio.to_thread(open_run, self.path, self.context)
            except LmmError as error:
                self._tell(error)
                await self._trouble()

    def end_run(self, then: Act) -> bool:
        """End the run, call `then`, and begin another run; return False if the model is at work."""
        if self._said is None:
            return False
        self._next = then
        self._answer(None)
        return True

    def _answer(self, said: str | Element | None) -> None:
        if self._said is not None:
            self._said.set_result(said)
            self._said = None

    # -- called by the run, on the background loop -----------------------------------------------------------

    def _listen(self, event: Event, place: Place) -> None:
        self._main.call_soon_threadsafe(self._happened, event, place)

    async def _ask_user(self) -> str | Element | None:
        said: Future[str | Element | None] = Future()
        self._main.call_soon_threadsafe(self._asked, said)
        return await asyncio.wrap_future(said)

    # -- events of the run, on this loop -----------------------------------------------------------------------

    def _happened(self, event: Event, place: Place) -> None:
        if isinstance(event, events.Ready):
            self.model, self.tools = event.model, event.tools
            self._measuring = asyncio.create_task(self._measure())
        elif isinstance(event, events.RunStopped | Failed):
            self._broken, self._cancelling = True, False
        elif isinstance(event, events.YourTurn):
            self._pending = event.pending
            conversations.remember(self.path, self.before + self.tally.usage)
        elif isinstance(event, Reply) and not place.path:
            self.used = event.usage.input_tokens + event.usage.output_tokens
        elif self._cancelling and self.runner is not None:
            self.runner.cancel()  # the turn had not begun when it was cancelled
        self.screen.print(self.view.happened(event, place, time.monotonic()))

    def _asked(self, answer: Future[str | Element | None]) -> None:
        """Begin the user's turn. Notes that were too late for the last turn are sent, unless it was cancelled."""
        self._said, self._cancelling = answer, False
        self._changed()
        notes = self.runner.take_notes() if self.runner else ()
        self.view.waiting.clear()
        if notes and self._broken:
            self.screen.draft("\n\n".join(notes))
        else:
            self._queue = [*notes, *self._queue]
        if self._then is not None:
            act, self._then = self._then, None
            self.end_run(act)
        elif self._queue:
            said, self._queue = self._queue, []
            self.say("\n\n".join(said))
        self.screen.redraw()

    # -- what the user does ------------------------------------------------------------------------------------

    def say(self, text: str, shown: str = "") -> bool:
        """Send a message with the files that it names; return False if that fails and it stays in the prompt."""
        try:
            draft = Draft(text, self.markup)
            files = () if self.markup else attached_files(text, self.screen.folder)
            element = message_element(draft, files)
        except LmmError as error:
            self._tell(error)
            self.screen.draft(text)
            return False
        self.screen.print(self.view.said(shown or text, f"[{', '.join(files)}]" if files else ""))
        self.go_on(element)
        return True

    def go_on(self, said: str | Element = "") -> None:
        """Begin a turn."""
        self.markup = self._broken = False
        if self.turns_allowed is not None:  # the user sees what happens, so the limit counts for each turn
            self.tally.limits = replace(self.tally.limits, turns=self.tally.turns + self.turns_allowed)
        self.view.begin_turn(time.monotonic())
        self._answer(said)

    def steer(self, text: str) -> None:
        """Send a note while the model is at work, or something is done with the file."""
        if self._stuck:
            self._retry.set()
            self.screen.draft(text)
            return
        self.view.waiting.append(text)
        if self.runner is not None and self._next is None:
            self.runner.steer(text)
        else:
            self._queue.append(text)

    # -- called by the screen (`chatmd.terminal.screen.User`) ------------------------------------------------

    def live(self, now: float, size: Size) -> list[str]:
        """Return the changing lines."""
        self.view.size = size
        return self.view.live(now)

    def hint(self) -> str:
        """Return what can be done now."""
        if self.questions.waiting:
            return "Enter answers; Ctrl-C cancels"
        if time.monotonic() - self._interrupted < _TWICE:
            return "Ctrl-C again leaves"
        if self._stuck:
            return "Enter tries again"
        if self._said is None:
            return "Enter adds a note; Ctrl-C cancels" if self.model else "opening the tools …"
        return "Enter continues; /edit takes back your message" if self._pending else "/help"

    def status(self) -> str:
        """Return the model, how much of its window is used, and the cost of the conversation."""
        share = f"{self.used:,} of {self.window:,} tokens ({self.used * 100 // self.window} %)" if self.window else ""
        cost = (self.before + self.tally.usage).cost
        return " · ".join(filter(None, (self.model, share, f"${cost:.4f}" if cost else "")))

    def submitted(self, text: str, shown: str) -> bool:
        """Handle Enter; return whether `text`, which appeared as `shown`, goes into the history."""
        if self.questions.answered(text):
            return False
        if not text.strip():
            self._retry.set()
            if self._said is not None and self._pending:
                self.go_on()
            return False
        if self.command(text):
            return True
        if self._said is not None:
            return self.say(text, shown)
        self.steer(text)
        return True

    def interrupted(self) -> None:
        """Handle Ctrl-C."""
        if self._acting is not None:
            self.questions.withdraw()
            self._acting.cancel()
            return
        if self._said is None and self.runner is not None and (self.model or self.tools):
            self._cancelling = True
            self.runner.cancel()
            return
        if self.screen.buffer.text:
            self.screen.buffer.reset()
            self.markup = False
            return
        if time.monotonic() - self._interrupted < _TWICE or self.runner is None or not self.model:
            self.screen.close()
        self._interrupted = time.monotonic()
        self._main.call_later(_TWICE, self.screen.redraw)

    def _kill(self) -> None:
        self.killed = True
        self.screen.close()

    def _tell(self, error: LmmError) -> None:
        self.screen.print(self.view.note(str(error), "red"))

    # -- the file ------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Redraw times while something is at work, and notice changes of the file while the prompt waits."""
        while True:
            await asyncio.sleep(_TICK)
            if self._said is None:
                self.screen.redraw()
            if (self._said is not None or self.runner is None) and self._changed():
                self._retry.set()
                self.end_run(partial(self._remark, "the file was changed, and is read again", "yellow"))

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
        self.screen.print(self.view.note(text, style))

    # -- commands ----------------------------------------------------------------------------------------------

    def command(self, text: str) -> bool:
        """Carry out a text if it is a command; return whether it is one, or was meant to be one."""
        if self.markup:  # the text comes from /edit
            return False
        if text.startswith("!") and text[1:].strip():
            if self._acting is None:
                self._shelling = asyncio.create_task(self._act(partial(self._shell, text[1:].strip())))
            else:
                self.screen.print(self.view.note("another command is at work; Ctrl-C cancels it"))
            return True
        try:
            found = read_command(text)
        except LmmError as error:
            self._tell(error)
            return True  # the history has it, to be corrected
        if found is None:
            return False
        done: dict[str, Callable[[str], None]] = {
            "help": lambda _: self._table(help_rows()),
            "tools": lambda _: self._show_tools(),
            "cost": lambda _: self._show_cost(),
            "budget": self._allow,
            "model": self._ask_model,
            "retry": lambda _: self._with_the_file("retry", self._again),
            "edit": lambda _: self._with_the_file("edit", self._edit),
            "undo": lambda _: self._with_the_file("undo", self._taken_back),
            "fork": self._fork_at,
            "compact": lambda _: self._with_the_file("compact", self._compact),
            "resume": self._resume,
            "quit": lambda _: self.screen.close(),
        }
        command, argument = found
        self.screen.print(self.view.said(text.strip(), style="dim"))
        try:
            done[command.name](argument)
        except LmmError as error:
            if isinstance(error, ConfigError):  # which names an option of the command line
                error.where = f"/{command.name}"
            self._tell(error)
        return True

    # -- what is shown ---------------------------------------------------------------------------------------

    def _table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print rows of names and descriptions."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", overflow="fold", max_width=_WIDEST_NAME)
        for row in rows:
            table.add_row(*map(clean, row))
        self.screen.print(self.view.shown(table))

    def _show_last(self) -> None:
        """Show the last exchange of the conversation."""
        with contextlib.suppress(LmmError):
            said, answer = conversations.exchange_in(read_document(self.path))
            self.screen.print((self.view.said(cut(said, _SHOWN)) if said else []) + self.view.replied(answer))

    async def _measure(self) -> None:
        """Find out how much of the model's window the conversation takes."""
        with contextlib.suppress(LmmError):
            text = await asyncio.to_thread(read_document, self.path)
            spec = read_agent(self.context.rules.imported(parse(text, file=str(self.path))))
            model = model_settings(spec.config, self.context.configuration)
            self.used = await asyncio.to_thread(estimate, text)
            self.window = (await window_of(model)).tokens
            self.screen.redraw()

    def _show_tools(self) -> None:
        if not self.tools:
            self.screen.print(self.view.note("the file declares no tools"))
            return
        self._table([(tool.name, _first_sentence(tool.description)) for tool in self.tools])

    def _show_cost(self) -> None:
        may = self.tally.left()
        tokens = "" if may.tokens is None else f"{may.tokens:,} tokens"
        left = " and ".join(filter(None, (tokens, "" if may.dollars is None else f"${may.dollars:.4f}")))
        text = f"{self.model}: {terminal.count(self.tally.turns, 'request')}, {usage_text(self.tally.usage)}"
        self.screen.print(self.view.note(f"{text}; {left} left" if left else text))

    def _allow(self, amount: str) -> None:
        more = parse_budget(amount)
        limits, usage = self.tally.limits, self.tally.usage
        if more.tokens is not None:
            limits = replace(limits, tokens=usage.input_tokens + usage.output_tokens + more.tokens)
        if more.dollars is not None:
            limits = replace(limits, dollars=(usage.cost or 0.0) + more.dollars)
        self.tally.limits = limits
        self._show_cost()

    # -- what changes the file ---------------------------------------------------------------------------------

    def _with_the_file(self, name: str, act: Act) -> None:
        if not self.end_run(act):
            self._then = act
            self.screen.print(self.view.note(f"/{name} comes once the model is done; Ctrl-C cancels what it does"))

    async def _taken_back(self) -> Draft | None:
        """Remove the last message from the file, and return it; None if there is none."""
        with open_transcript(self.path) as transcript:
            taken = rewind_transcript(transcript)
        if taken is None:
            self.screen.print(self.view.note("there is no message of yours that could be taken back"))
            return None
        self.screen.print(self.view.note(f"taken back; the original is kept in {FOLDER}/{taken.original.name}"))
        return taken.draft

    async def _edit(self) -> None:
        """Move the last message into the prompt."""
        if (draft := await self._taken_back()) is not None:
            self.markup = draft.markup
            if draft.markup:
                self.screen.print(self.view.note("it is ChatMD: its tags count"))
            self.screen.draft(draft.text)

    async def _again(self) -> None:
        """Send the last message again."""
        if (draft := await self._taken_back()) is not None:
            self.markup = draft.markup
            self._queue.append(draft.text)

    async def _compact(self) -> None:
        self.screen.print(self.view.note("writing a summary …"))
        with open_transcript(self.path) as transcript:
            done = await loop.run_async(compact_transcript(transcript, self.context))
        kept = f"; the original is kept in {FOLDER}/{done.original.name}" if done.original else ""
        paid = f"{done.model}: {usage_text(done.usage)}"
        self.screen.print(self.view.note(f"{done.before:,} tokens became {done.after:,}{kept} ({paid})"))

    def _fork_at(self, number: str) -> None:
        if number:
            self._with_the_file("fork", partial(self._fork, number))
            return
        said = enumerate(forks(read_document(self.path), str(self.path)), 1)
        self._table([(str(n), clipped(one.draft.text, self.view.size.columns - 6)) for n, one in said])

    async def _fork(self, number: str) -> None:
        """Switch to a new file with the conversation before a message, and put that message into its prompt."""
        text = await asyncio.to_thread(read_document, self.path)
        taken = fork(text, int(number) if number.isdecimal() else 0, str(self.path))
        names = (self.path.with_stem(f"{self.path.stem}-{n}") for n in range(2, 1000))
        output = next(path for path in names if not path.exists())
        await asyncio.to_thread(write_copy, self.path, taken.text, output)
        self.screen.print(self.view.note(f"{output.name} goes another way; {self.path.name} stays as it is"))
        self._go_to(output, taken.draft.text)

    # -- other models and conversations -------------------------------------------------------------------------

    def _ask_model(self, name: str) -> None:
        configuration = replace(self.context.configuration, model=name)
        model = model_settings(AgentConfig(), configuration)
        self.context = replace(self.context, configuration=configuration)  # of the next run
        told = f"{model.model} is asked from now on"
        if self._stuck:
            self.screen.print(self.view.note(told))
            self._retry.set()
        else:
            self._with_the_file("model", partial(self._remark, told))

    def _resume(self, name: str) -> None:
        path = Path(name).expanduser()
        if name and not path.is_file():
            raise FileReadError("there is no such file", where=name, hint="/resume lists the latest ones")
        if name:
            self._go_to(path)
        else:
            others = [path for path in conversations.latest() if path != self.path.resolve()]
            for path in others:
                head, last = conversations.described(path, self.view.size.columns)
                self.screen.print(self.view.shown(Text.assemble((head, "bold"), f"\n{last}")))
            if not others:
                self.screen.print(self.view.note("there is no other conversation yet"))

    def _go_to(self, path: Path, draft: str = "") -> None:
        self.goes_to, self.draft = path, draft
        self.screen.close()

    # -- a shell ---------------------------------------------------------------------------------------------

    async def _shell(self, command: str) -> None:
        """Run a command like a tool: with consent, in the prompt's folder, without keys, within the limits."""
        self.screen.print(self.view.said(f"!{command}", style="dim"))
        spec = AgentSpec(tools=(_SHELL,))
        run = replace(self.context, functions=())
        await asyncio.to_thread(consent, spec, run)
        call = ToolCall("!", _SHELL.name, json.dumps({"arguments": [command]}))
        results: dict[int, ToolResult] = {}

        async def called() -> None:
            async with AsyncExitStack() as stack:
                tools = await open_tools(spec.tools, run, stack)
                await ToolCaller(tools, scrub=scrubber(spec, run), approve=run.options.approve).call([call], results)

        await loop.run_async(called())
        output = results[0].text.strip()
        self.screen.print(self.view.shown(Text(clean(output))))
        self.screen.draft(self.screen.folded(f"$ {command}\n{output}\n\n", f"!{command}") + " ")


def converse(start: Runner, opened: Callable[[Path], Runner], *, ask: bool = False) -> int:
    """Show a conversation in the terminal until the user leaves, and return 0; `ask` asks before each call.

    `opened` opens another conversation that the user switches to.

    Raises:
        LmmError: a run could not begin.
        KeyboardInterrupt: SIGTERM or SIGHUP ended it; the file is complete, and nothing is left running.
    """

    async def main(runner: Runner, draft: str) -> TerminalSession:
        session = TerminalSession(runner, ask=ask)
        session.screen.draft(draft)
        await session.run()
        return session

    session = asyncio.run(main(start, ""))
    while session.goes_to is not None:
        session = asyncio.run(main(opened(session.goes_to), session.draft))
    return 0


def _first_sentence(text: str) -> str:
    """Return the first sentence, or line, of a description.

    >>> _first_sentence("Reads a file. Or\\nseveral.")
    'Reads a file.'
    """
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0]
