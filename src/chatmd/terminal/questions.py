"""Questions of a run to the user, one at a time.

The background loop asks them and waits for the answer; the screen's loop shows and answers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from chatmd.call_texts import AGREE, CHOICES, Approvals, CallDecision, call_in_words, read_answer
from chatmd.terminal.screen import Screen
from chatmd.terminal.view import ChatView, clean
from lmm.messages import ToolCall


@dataclass(slots=True)
class _Question:
    """A question; `read` returns the answer in a typed line, or None if there is none."""

    text: Text
    label: str
    read: Callable[[str], Any]
    answer: Future[Any] = field(default_factory=Future)


class Questions:
    """The current question, if there is one; `approve` and `confirm` are passed to a run."""

    def __init__(self, screen: Screen, view: ChatView) -> None:
        self.screen, self.view = screen, view
        self.waiting: _Question | None = None
        self.approve = Approvals(self._decide)
        self._loop = asyncio.get_running_loop()

    # -- from the run ------------------------------------------------------------------------------------

    async def _decide(self, call: ToolCall) -> CallDecision:
        name, _, arguments = call_in_words(call).partition("\n")
        text = Text.assemble((name, "bold"), f"\n{arguments}\n" if arguments else "\n", (CHOICES, "dim"))
        question = _Question(text, "y/n/a/q ›", read_answer)
        self._loop.call_soon_threadsafe(self._show, question)
        try:
            answer: CallDecision = await asyncio.wrap_future(question.answer)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self._show, None)
            raise
        return answer

    def confirm(self, text: str) -> bool:
        """Ask whether the user agrees to what tools can do; this blocks, and is called in a thread that may wait."""
        shown = Text.assemble(f"{clean(text)}\n", (AGREE, "dim"))
        question = _Question(shown, "y/N ›", lambda line: line.strip().lower() in ("y", "yes"))
        self._loop.call_soon_threadsafe(self._show, question)
        return bool(question.answer.result())

    # -- from the screen ---------------------------------------------------------------------------------

    def answered(self, line: str) -> bool:
        """Take a typed line as the answer to the current question; return whether there was a question."""
        question = self.waiting
        if question is None:
            return False
        answer = question.read(line)
        if answer is None:
            self.screen.print(self.view.note(f"{line.strip()!r} is not an answer: y, n, a or q", "yellow"))
            return True
        self.screen.print(self.view.said(line.strip() or "no"))
        self._show(None)
        question.answer.set_result(answer)
        return True

    def withdraw(self) -> None:
        """Stop waiting for an answer."""
        if self.waiting is not None:
            self.waiting.answer.cancel()
        self._show(None)

    def _show(self, question: _Question | None) -> None:
        self.waiting = question
        self.screen.asked()
        if question is not None:
            self.screen.print(self.view.shown(question.text))
            self.screen.ask(question.label)
