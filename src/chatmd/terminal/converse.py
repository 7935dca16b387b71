"""A session with its commands, and the way into it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from chatmd.compaction.compact_file import acompact
from chatmd.runtime.compacting import summarising
from chatmd.runtime.limits import parse_budget
from chatmd.runtime.options import Hooks, RunOptions
from chatmd.runtime.rewind import rewind_file
from chatmd.runtime.runner import Runner
from chatmd.terminal.session import Act, Session
from chatmd.terminal.slash_commands import help_rows, read_command
from chatmd.terminal.styled import Line, Span, clean, columns, indented, wrapped
from chatmd.terminal.view import requests, used
from chatmd.workplace import FOLDER
from lmm.disk.files import read_document
from lmm.errors import LmmError

_WIDEST_NAME = 20


def converse(start: Runner, options: RunOptions, hooks: Hooks, *, ask: bool = False) -> int:
    """Converse in the terminal until the user leaves, and return 0; with `ask`, about each call.

    Raises:
        LmmError: the run could not begin.
        KeyboardInterrupt: SIGTERM or SIGHUP ended it; the file is whole, and nothing is left running.
    """

    async def main() -> None:
        await Conversation(start, options, hooks, ask=ask).run()

    asyncio.run(main())
    return 0


class Conversation(Session):
    """What the commands do."""

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
        """Names, and what is behind them: beside each other, or in a narrow terminal below."""
        width = self.view.size.columns
        names = max((min(columns(name), _WIDEST_NAME) for name, _ in rows), default=0) + 2
        lines: list[Line] = []
        for name, text in rows:
            head = Span(clean(name), "bold")
            if width < 3 * names or columns(name) > _WIDEST_NAME:
                below = wrapped((Span(clean(text)),), width - 4)
                lines += [(head,), *indented(below, (Span("    "),), (Span("    "),))]
            else:
                before = (head, Span(" " * (names - columns(name))))
                lines += indented(wrapped((Span(clean(text)),), width - names), before, (Span(" " * names),))
        self.print(self.view.lines(lines))

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
        text = f"{self.model}: {requests(self.tally.turns)}, {used(usage)}"
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
        self.print(self.view.note(f"taken back; all of it is kept in {FOLDER}/{taken.original.name}"))
        self.screen.draft(taken.draft.text)

    async def _undo(self) -> None:
        before = self.screen.buffer.document
        await self._take_back()
        self.markup, self.screen.buffer.document = False, before

    async def _compact(self) -> None:
        self.print(self.view.note("a summary is being made …"))
        roots, text = self.tree.rules.roots, await asyncio.to_thread(read_document, self.path)
        settings = summarising(text, self.path, self.tree.configuration, roots=roots)
        done = await acompact(self.path, settings, roots=roots)
        compaction, kept = done.compaction, f"{FOLDER}/{done.original.name}" if done.original else ""
        self.tally.add(compaction.model, compaction.usage)
        self.print(
            self.view.note(
                f"{compaction.before:,} tokens became {compaction.after:,}; the original is kept in {kept} "
                f"({compaction.model}: {used(compaction.usage)})"
            )
        )


def _first_sentence(text: str) -> str:
    """The beginning of a description.

    >>> _first_sentence("Reads a file. Or\\nseveral.")
    'Reads a file.'
    """
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0]
