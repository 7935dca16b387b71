"""Questions that a run has for the user: each is shown when those before it are answered.

They come from the background loop, and wait there; they are shown and answered in the screen's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from chatmd.terminal.call_texts import CHOICES, approval, call_in_words, read_answer
from chatmd.terminal.screen import Screen
from chatmd.terminal.styled import Line, Span, clean, wrapped
from chatmd.terminal.view import View
from lmm.messages import ToolCall

_AGREE = "Agree? It is asked again only if this changes."


@dataclass(slots=True)
class _Question:
    lines: list[Line]
    label: str
    understood: Callable[[str], bool]
    answer: Future[str] = field(default_factory=Future)


class Questions:
    """The questions that wait; `approve` and `confirm` are what a run is given."""

    def __init__(self, screen: Screen, view: View) -> None:
        self.screen, self.view = screen, view
        self.waiting: deque[_Question] = deque()
        self.always: set[str] = set()
        self._loop = asyncio.get_running_loop()

    # -- from the run ------------------------------------------------------------------------------------

    async def approve(self, call: ToolCall) -> bool | str:
        """Whether a call may be made (`chatmd.tools.consent.Approve`)."""
        if call.name in self.always:
            return True
        name, _, arguments = call_in_words(call).partition("\n")
        text = (Span(name, "bold"), Span(f"\n{arguments}\n" if arguments else "\n"), Span(CHOICES, "dim"))
        lines = wrapped(text, self.view.size.columns)
        question = _Question(lines, "y/n/a/q ›", lambda line: bool(read_answer(line)))
        self._loop.call_soon_threadsafe(self._show, question)
        try:
            answer = read_answer(await asyncio.wrap_future(question.answer))
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self._withdraw, question)
            raise
        assert answer is not None
        return approval(answer, call, self.always)

    def confirm(self, text: str) -> bool:
        """Whether the user agrees to what tools can do; called in a thread that may wait."""
        spans = (Span(f"{clean(text)}\n"), Span(_AGREE, "dim"))
        question = _Question(wrapped(spans, self.view.size.columns), "y/N ›", lambda line: True)
        self._loop.call_soon_threadsafe(self._show, question)
        return question.answer.result().strip().lower() in ("y", "yes")

    # -- from the screen ---------------------------------------------------------------------------------

    def answered(self, line: str) -> bool:
        """Whether a line that was typed is the answer to a question, or meant to be."""
        if not self.waiting:
            return False
        question = self.waiting[0]
        if not question.understood(line):
            self.screen.print(self.view.note(f"{line.strip()!r} is no answer: y, n, a or q", "yellow"))
            return True
        self.waiting.popleft()
        self.screen.print(self.view.said(line.strip() or "no"))
        question.answer.set_result(line)
        self._next()
        return True

    def withdraw_all(self) -> None:
        """Nobody waits for an answer any more."""
        while self.waiting:
            self.waiting.popleft().answer.cancel()
        self._next()

    def _show(self, question: _Question) -> None:
        self.waiting.append(question)
        if len(self.waiting) == 1:
            self._next()

    def _withdraw(self, question: _Question) -> None:
        if question in self.waiting:
            self.waiting.remove(question)
            self._next()

    def _next(self) -> None:
        self.screen.asked()
        if self.waiting:
            self.screen.print(self.view.lines(self.waiting[0].lines))
            self.screen.ask(self.waiting[0].label)
