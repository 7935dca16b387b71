"""A conversation in the terminal: a run of a file, and the screen where it is shown and spoken to.

The screen has the main thread and an event loop of its own, the run has the background loop; each tells the other
by `call_soon_threadsafe` and futures. Whatever changes the file as a whole (taking a message back, compacting, an
editor) ends the run, and begins another one with what it may still use.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from prompt_toolkit.data_structures import Size
from rich.table import Table
from rich.text import Text

from chatmd.chat import Chat
from chatmd.errors import ChatmdError
from chatmd.language.nodes import Element
from chatmd.runtime import events
from chatmd.runtime.rewind import Draft, mentions, message_element, rewind_file
from chatmd.runtime.runner import Runner, open_run
from chatmd.sidecar import FOLDER
from chatmd.terminal.call_texts import AGREE, CHOICES, approval, call_in_words, read_answer
from chatmd.terminal.screen import Screen, help_rows, read_command
from chatmd.terminal.styled import clean
from chatmd.terminal.view import ChatView
from lmm import loop, terminal
from lmm.disk.watching import signature
from lmm.errors import LmmError, Place
from lmm.messages import Event, Failed, ToolCall, ToolDefinition
from lmm.models.budget import parse_budget
from lmm.terminal import usage_text

# -- Files that a message names with ``@`` --------------------------------------------------------------------


_PUNCTUATION = ".,;:!?)]}'\""


def attached_files(text: str, folder: Path) -> tuple[str, ...]:
    """The files that are named, relative to `folder`; a name that no file has is text.

    Raises:
        ChatmdError: one of them lies outside of the folder.
    """
    folder = folder.resolve()
    found: dict[str, None] = {}
    for name in mentions(text):
        path = next((path for part in (name, name.rstrip(_PUNCTUATION)) if (path := _file(folder, part))), None)
        if path is None:
            continue
        if not path.resolve().is_relative_to(folder) or not path.is_relative_to(folder):
            raise ChatmdError(
                f"@{name} lies outside of the folder of the conversation",
                hint=f"copy it to {folder}, or write it without @",
            )
        found[path.relative_to(folder).as_posix()] = None
    return tuple(found)


def _file(folder: Path, name: str) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return Path(*path.parts) if name and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


# -- Questions that a run has for the user, one at a time -----------------------------------------------------
#
# They come from the background loop, and wait there; they are shown and answered in the screen's.


@dataclass(slots=True)
class _Question:
    text: Text
    label: str
    understood: Callable[[str], bool]
    answer: Future[str] = field(default_factory=Future)


class Questions:
    """The question that waits, if one does; `approve` and `confirm` are what a run is given."""

    def __init__(self, screen: Screen, view: ChatView) -> None:
        self.screen, self.view = screen, view
        self.waiting: _Question | None = None
        self.always: set[str] = set()
        self._approving = asyncio.Lock()
        self._loop = asyncio.get_running_loop()

    # -- from the run ------------------------------------------------------------------------------------

    async def approve(self, call: ToolCall) -> bool | str:
        """Whether a call may be made (`chatmd.context.Approve`)."""
        async with self._approving:  # agents that are asked side by side have calls of their own
            if call.name in self.always:
                return True
            name, _, arguments = call_in_words(call).partition("\n")
            text = Text.assemble((name, "bold"), f"\n{arguments}\n" if arguments else "\n", (CHOICES, "dim"))
            question = _Question(text, "y/n/a/q ›", lambda line: bool(read_answer(line)))
            self._loop.call_soon_threadsafe(self._show, question)
            try:
                answer = read_answer(await asyncio.wrap_future(question.answer))
            except asyncio.CancelledError:
                self._loop.call_soon_threadsafe(self._show, None)
                raise
            assert answer is not None
            return approval(answer, call, self.always)

    def confirm(self, text: str) -> bool:
        """Whether the user agrees to what tools can do; called in a thread that may wait."""
        question = _Question(Text.assemble(f"{clean(text)}\n", (AGREE, "dim")), "y/N ›", lambda line: True)
        self._loop.call_soon_threadsafe(self._show, question)
        return question.answer.result().strip().lower() in ("y", "yes")

    # -- from the screen ---------------------------------------------------------------------------------

    def answered(self, line: str) -> bool:
        """Whether a line that was typed is the answer to a question, or meant to be."""
        question = self.waiting
        if question is None:
            return False
        if not question.understood(line):
            self.screen.print(self.view.note(f"{line.strip()!r} is no answer: y, n, a or q", "yellow"))
            return True
        self.screen.print(self.view.said(line.strip() or "no"))
        self._show(None)
        question.answer.set_result(line)
        return True

    def withdraw(self) -> None:
        """Nobody waits for an answer any more."""
        if self.waiting is not None:
            self.waiting.answer.cancel()
        self._show(None)

    def _show(self, question: _Question | None) -> None:
        self.waiting = question
        self.screen.asked()
        if question is not None:
            self.screen.print(self.view.shown(question.text))
            self.screen.ask(question.label)


_WIDEST_NAME = 20  # columns
_TICK = 0.2  # seconds between two drawings while something is at work, else between two looks at the file
_TWICE = 3.0  # seconds in which a second Ctrl-C leaves

Act = Callable[[], Coroutine[None, None, None]]


class TerminalSession:
    """One conversation; `start` is the run that it begins with, opened before there is a screen."""

    def __init__(self, start: Runner, *, ask: bool) -> None:
        self.path, self.tally = start.path, start.context.tally
        self.turns_allowed = self.tally.limits.turns
        self.runner: Runner | None = start
        self.view = ChatView()
        self.screen = Screen(self, self.path.resolve().parent)
        self.view.size = self.screen.size
        self.questions = Questions(self.screen, self.view)
        start.context = self.context = replace(
            start.context, approve=self.questions.approve if ask else None, ask_user=self._ask_user,
            listener=self._listen, goes_on=True,
        )  # fmt: skip
        self.tools: tuple[ToolDefinition, ...] = ()
        self.model = ""
        self.markup = False  # the draft is ChatMD, not text
        self.killed = False
        self._said: Future[str | Element | None] | None = None  # the run waits for the user
        self._next: Act | None = None  # what is done once the run has ended
        self._acting: asyncio.Task[None] | None = None  # that, while it is done
        self._broken = False  # the last turn failed or was cancelled
        self._pending = False  # the model has something to do
        self._cancelling = False
        self._interrupted = -_TWICE
        self._seen: object = None
        self._retry = asyncio.Event()
        self._main = asyncio.get_running_loop()

    # -- runs --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Converse until the user leaves.

        Raises:
            LmmError: the first run could not begin.
            KeyboardInterrupt: a signal ended it.
        """
        for name in ("SIGTERM", "SIGHUP"):
            self._main.add_signal_handler(getattr(signal, name), self._kill)
        self._main.add_signal_handler(signal.SIGINT, self.interrupted)
        shown, talking = asyncio.create_task(self.screen.run()), asyncio.create_task(self._talk())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((shown, talking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            self.questions.withdraw()
            talking.cancel()
            await asyncio.wait((talking,))
            self._take_leave()
            self.screen.close()
            await shown
        if self.killed:
            raise KeyboardInterrupt
        if not talking.cancelled() and (error := talking.exception()):
            raise error

    async def _talk(self) -> None:
        """Run after run, until one ends and nothing is to be done."""
        runner, user_first = self.runner, False
        while runner is not None:
            self.runner, self._next = runner, None
            try:
                await loop.run_async(runner.run(user_first=user_first))
            except LmmError as error:
                if not self.tools and not self.model:  # it has never begun
                    raise
                self._tell(error)
                self._next = self._trouble
            self.runner = None
            if self._next is None:
                return
            await self._act(self._next)
            runner, user_first = await self._reopened(), True

    async def _act(self, act: Act) -> None:
        """Do something with the file; Ctrl-C cancels it."""
        self._acting = task = asyncio.create_task(act())
        try:
            await asyncio.wait((task,))
        finally:
            self._acting = None
            task.cancel()
        if task.cancelled():
            self.print(self.view.note("cancelled", "yellow"))
        elif isinstance(error := task.exception(), LmmError):
            self._tell(error)
        elif error is not None:
            raise error

    async def _trouble(self) -> None:
        """Wait until the user has mended something: then the file changes, or Enter is pressed."""
        self._seen = signature(self.path)
        self._retry.clear()
        await self._retry.wait()

    async def _reopened(self) -> Runner:
        while True:
            context = replace(self.context, confirm=self.questions.confirm)
            try:
                return await asyncio.to_thread(open_run, self.path, context)
            except LmmError as error:
                self._tell(error)
                await self._trouble()

    def end_run(self, then: Act) -> bool:
        """End the run, do something with the file, and begin anew; False if the model is at work."""
        if self._said is None:
            return False
        self._next = then
        self._answer(None)
        return True

    def _answer(self, said: str | Element | None) -> None:
        if self._said is not None:
            self._said.set_result(said)
            self._said = None

    # -- what the run tells, on the background loop ----------------------------------------------------------

    def _listen(self, event: Event, place: Place) -> None:
        self._main.call_soon_threadsafe(self._happened, event, place)

    async def _ask_user(self) -> str | Element | None:
        said: Future[str | Element | None] = Future()
        self._main.call_soon_threadsafe(self._asked, said)
        return await asyncio.wrap_future(said)

    # -- what it tells, here -----------------------------------------------------------------------------------

    def _happened(self, event: Event, place: Place) -> None:
        if isinstance(event, events.Ready):
            self.model, self.tools = event.model, event.tools
        elif isinstance(event, events.Stopped | Failed):
            self._broken, self._cancelling = True, False
        elif isinstance(event, events.YourTurn):
            self._pending = event.pending
        elif self._cancelling and self.runner is not None:
            self.runner.cancel()  # the turn had not begun when it was cancelled
        self.print(self.view.happened(event, place, time.monotonic()))

    def _asked(self, said: Future[str | Element | None]) -> None:
        """It is the user's turn. What was typed too late for the last one is a message, unless that was cancelled."""
        self._said, self._cancelling = said, False
        self._seen = signature(self.path)
        notes = self.runner.take_notes() if self.runner else ()
        self.view.waiting.clear()
        if notes and self._broken:
            self.screen.draft("\n\n".join(notes))
        elif notes:
            self.say("\n\n".join(notes))
        self.screen.redraw()

    # -- what the user does ------------------------------------------------------------------------------------

    def say(self, text: str) -> bool:
        """Send a message, with the files that it names; False if it cannot be, and stays in the prompt."""
        try:
            draft = Draft(text, self.markup)
            files = () if self.markup else attached_files(text, self.path.resolve().parent)
            element = message_element(draft, files)
        except LmmError as error:
            self._tell(error)
            self.screen.draft(text)
            return False
        self.print(self.view.said(text, f"[{', '.join(files)}]" if files else ""))
        self.go_on(element)
        return True

    def go_on(self, said: str | Element = "") -> None:
        """Begin a turn."""
        self.markup = self._broken = False
        if self.turns_allowed is not None:  # somebody is there to see what happens: it is a limit for each turn
            self.tally.limits = replace(self.tally.limits, turns=self.tally.turns + self.turns_allowed)
        self.view.begin_turn(time.monotonic())
        self._answer(said)

    def steer(self, text: str) -> None:
        """Say something while the model is at work."""
        if self.runner is not None:
            self.runner.steer(text)
            self.view.waiting.append(text)
        else:
            self._retry.set()
            self.screen.draft(text)

    # -- the screen's user -----------------------------------------------------------------------------------

    def live(self, now: float, size: Size) -> list[str]:
        """The lines that change."""
        self.view.size = size
        return self.view.live(now)

    def hint(self) -> str:
        """What can be done now."""
        if self.questions.waiting:
            return "Enter answers; Ctrl-C cancels"
        if time.monotonic() - self._interrupted < _TWICE:
            return "Ctrl-C again leaves"
        if self.runner is None and self._acting is None:
            return "Enter tries again"
        if self._said is None:
            return "Enter adds a note; Ctrl-C cancels" if self.model else "the tools are being opened …"
        return "Enter goes on; /edit takes back what you said" if self._pending else "/help"

    def submitted(self, text: str) -> bool:
        """Enter was pressed."""
        if self.questions.answered(text):
            return False
        if not text.strip():
            self._retry.set()
            if self._said is not None and self._pending:
                self.go_on()
            return False
        return self.command(text) or self._speak(text)

    def _speak(self, text: str) -> bool:
        if self._said is not None:
            return self.say(text)
        self.steer(text)
        return True

    def interrupted(self) -> None:
        """Ctrl-C."""
        if self._acting is not None:
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
            self.left()
        self._interrupted = time.monotonic()
        self._main.call_later(_TWICE, self.screen.redraw)

    def left(self) -> None:
        """Ctrl-D, or /quit."""
        self.screen.close()

    def _take_leave(self) -> None:
        if self.tally.turns:
            done = f"{terminal.count(self.tally.turns, 'request')}, {usage_text(self.tally.usage)}"
            text = f"{self.path}: {done}; lmm run -i goes on from there"
            self.print(self.view.note(text))

    def _kill(self) -> None:
        self.killed = True
        self.screen.close()

    def print(self, lines: list[str]) -> None:
        """Lines that stay."""
        self.screen.print(lines)
        self.screen.redraw()

    def _tell(self, error: LmmError) -> None:
        self.print(self.view.note(str(error), "red"))

    # -- the file ------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Show how time goes by, and notice that somebody changed the file while the prompt waits."""
        while True:
            await asyncio.sleep(_TICK)
            if self._said is None:
                self.screen.redraw()
            if (self._said is not None or self.runner is None) and (now := signature(self.path)) != self._seen:
                self._seen = now
                self._retry.set()
                self.end_run(self._changed)

    async def _changed(self) -> None:
        self.print(self.view.note("the file was changed, and is read again", "yellow"))

    # -- commands ----------------------------------------------------------------------------------------------

    def command(self, text: str) -> bool:
        """Whether a text is a command, or meant to be one; then it is done."""
        if self.markup:  # /edit has put it there
            return False
        try:
            found = read_command(text)
        except LmmError as error:
            self._tell(error)
            self.screen.draft(text)
            return True
        if found is None:
            return False
        done: dict[str, Callable[[str], None]] = {
            "help": lambda _: self._table(help_rows()),
            "tools": lambda _: self._show_tools(),
            "cost": lambda _: self._show_cost(),
            "budget": self._allow,
            "edit": lambda _: self._with_the_file("edit", self._take_back),
            "undo": lambda _: self._with_the_file("undo", self._undo),
            "compact": lambda _: self._with_the_file("compact", self._compact),
            "quit": lambda _: self.left(),
        }
        command, argument = found
        self.print(self.view.said(text.strip(), style="dim"))
        done[command.name](argument)
        return True

    # -- what is shown ---------------------------------------------------------------------------------------

    def _table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names, and what is behind them."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", overflow="fold", max_width=_WIDEST_NAME)
        for row in rows:
            table.add_row(*map(clean, row))
        self.print(self.view.shown(table))

    def _show_tools(self) -> None:
        if not self.tools:
            self.print(self.view.note("the file declares no tools"))
            return
        self._table([(tool.name, _first_sentence(tool.description)) for tool in self.tools])

    def _show_cost(self) -> None:
        limits, usage = self.tally.limits, self.tally.usage
        tokens = "" if limits.tokens is None else f"{limits.tokens - usage.input_tokens - usage.output_tokens:,} tokens"
        money = "" if limits.dollars is None else f"${limits.dollars - (usage.cost or 0.0):.4f}"
        left = " and ".join(part for part in (tokens, money) if part)
        text = f"{self.model}: {terminal.count(self.tally.turns, 'request')}, {usage_text(usage)}"
        self.print(self.view.note(f"{text}; {left} left" if left else text))

    def _allow(self, amount: str) -> None:
        try:
            more = parse_budget(amount)
        except LmmError as error:
            self._tell(error)
            return
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
            self.print(self.view.note(f"/{name} has to wait until the model is done; Ctrl-C cancels what it does"))

    async def _take_back(self) -> None:
        """The last message is in the prompt again, and no more in the file."""
        taken = await asyncio.to_thread(rewind_file, self.path)
        if taken is None:
            self.print(self.view.note("there is no message of yours that could be taken back"))
            return
        self.markup = taken.draft.markup
        count = "; it is ChatMD: its tags count" if self.markup else ""
        self.print(self.view.note(f"taken back; all of it is kept in {FOLDER}/{taken.original.name}{count}"))
        self.screen.draft(taken.draft.text)

    async def _undo(self) -> None:
        before = self.screen.buffer.document
        await self._take_back()
        self.markup, self.screen.buffer.document = False, before

    def _chat(self) -> Chat:
        return Chat.open(self.path, config=self.context.configuration.file.path, roots=self.context.rules.roots)

    async def _compact(self) -> None:
        self.print(self.view.note("a summary is being made …"))
        chat = await asyncio.to_thread(self._chat)
        done = await chat.acompact()
        compaction, kept = done.compaction, f"{FOLDER}/{done.original.name}" if done.original else ""
        self.tally.add(compaction.model, compaction.usage)
        self.print(
            self.view.note(
                f"{compaction.before:,} tokens became {compaction.after:,}; the original is kept in {kept} "
                f"({compaction.model}: {usage_text(compaction.usage)})"
            )
        )


def converse(start: Runner, *, ask: bool = False) -> int:
    """Converse in the terminal until the user leaves, and return 0; with `ask`, about each call.

    Raises:
        LmmError: the run could not begin.
        KeyboardInterrupt: SIGTERM or SIGHUP ended it; the file is whole, and nothing is left running.
    """

    async def main() -> None:
        await TerminalSession(start, ask=ask).run()

    asyncio.run(main())
    return 0


def _first_sentence(text: str) -> str:
    """The beginning of a description.

    >>> _first_sentence("Reads a file. Or\\nseveral.")
    'Reads a file.'
    """
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0]
