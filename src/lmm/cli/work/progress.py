"""Show a scan as it happens. Prompts of different blocks are answered side by side; they are shown one
after the other, each reply streaming when its turn has come."""

from __future__ import annotations

from collections import defaultdict

from lmm import terminal
from lmm.messages import Usage
from lmm.scan import events
from lmm.scan.messages import Ask

_Key = tuple[int, int]


class Progress:
    """Prints the events of one document; with `err`, on standard error."""

    def __init__(self, document: str, *, err: bool = False) -> None:
        self.document, self.err = document, err
        self.turn: _Key | None = None
        self.waiting: dict[_Key, list[events.Event]] = defaultdict(list)

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.Waiting):
            terminal.say(f"{self.document}: another lmm is working on it; waiting", err=True)
            return
        key = _key(event.ask)
        if self.turn is None:
            self.turn = key
        if key != self.turn:
            self.waiting[key].append(event)
            return
        self._show(event)
        while isinstance(event, (events.Answered, events.Failed)) and self.waiting:
            self.turn = min(self.waiting)
            for event in self.waiting.pop(self.turn):
                self._show(event)
        if isinstance(event, (events.Answered, events.Failed)):
            self.turn = None

    def _show(self, event: events.Event) -> None:
        if isinstance(event, events.Asking):
            self._question(event.ask)
        elif isinstance(event, events.Piece):
            self._say(event.text)
        elif isinstance(event, events.Again):
            self._say(terminal.styled(f"\n  {event.reason}; again in {event.wait:.1f} s\n", "yellow", err=self.err))
        elif isinstance(event, events.Answered):
            self._answered(event)
        elif isinstance(event, events.Failed):
            self._say("\n")
            terminal.say(
                f"{terminal.styled('lmm:', 'red', err=True)} {self.document}:{event.ask.line}: {event.error}", err=True
            )

    def _question(self, ask: Ask) -> None:
        place = terminal.styled(f"{self.document}:{ask.line}", "cyan", err=self.err)
        about = terminal.styled(f"({ask.subject}, {len(ask.subject.text):,} characters)", "dim", err=self.err)
        self._say(
            f"{place} {terminal.styled(f'{ask.prompt.spelling}: {ask.prompt.text}', 'bold', err=self.err)} {about}\n"
        )

    def _answered(self, event: events.Answered) -> None:
        if event.source == "journal":
            self._question(event.ask)
            self._say(f"{event.reply.text}\n")
            note = f"{event.reply.model}, remembered from an earlier run; --again asks anew"
        else:
            note = f"{event.reply.model}, {usage_text(event.reply.usage)}"
        cut = "; cut off at the model's output limit" if event.reply.cut else ""
        end = "" if event.source == "journal" or event.reply.text.endswith("\n") else "\n"
        self._say(f"{end}{terminal.styled(f'  [{note}{cut}]', 'dim', err=self.err)}\n\n")

    def _say(self, text: str) -> None:
        terminal.say(text, err=self.err, end="")


def _key(ask: Ask) -> _Key:
    return ask.line, ask.prompt.start


def usage_text(usage: Usage) -> str:
    """Tokens and cost in words.

    >>> usage_text(Usage(1200, 34, 0.00012, 1))
    '1,200 tokens in, 34 out, $0.0001'
    """
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
