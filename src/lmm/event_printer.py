"""What is printed while models are asked: on a terminal, replies as rich shows Markdown; elsewhere, as they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lmm import terminal
from lmm.errors import Place
from lmm.messages import Asked, Event, Failed, Notice, Reply, Retrying, TextDelta, Waiting

if TYPE_CHECKING:
    from lmm.terminal_markdown import Arriving


_TAG = re.compile(r"<new\d*>[ \t]*\n?|</(?:new\d*|none)>|<none ?/?>", re.IGNORECASE)
_BEGUN = re.compile(r"<(?:/?\w*(?: ?/?>[ \t]*)?)?\Z")


class MarkdownWriter:
    """Prints a text that arrives in pieces; on a terminal with styles, each block once it is complete."""

    def __init__(self, *, err: bool = False) -> None:
        self.err, self._last = err, "\n"
        self._arriving: Arriving | None = None
        if terminal.has_styles(err=err):
            from lmm.terminal_markdown import Arriving

            self._arriving = Arriving()

    def write(self, text: str) -> None:
        """Print the next piece."""
        if self._arriving is None:
            terminal.say(text, err=self.err, end="")
            self._last = text[-1:] or self._last
        else:
            self._arriving.feed(text)
            self._show(self._arriving.final())

    def end(self) -> None:
        """Print the rest, and end its line."""
        if self._arriving is not None:
            self._show(self._arriving.end())
        elif self._last != "\n":
            self.write("\n")

    def _show(self, text: str) -> None:
        from lmm.terminal_markdown import markdown_lines

        for line in markdown_lines(text, terminal.width()) if text.strip() else ():
            terminal.say(terminal.with_styles(line), err=self.err)
        if text.endswith("\n\n"):
            terminal.say(err=self.err)


class EventPrinter:
    """Prints events while models are asked; a `lmm.messages.Listener`.

    Events of different places arrive interleaved; they are shown one place after the other, and each reply is streamed
    when its turn has come. Notices wait until the reply that is shown has ended.
    """

    def __init__(self, *, err: bool = False) -> None:
        self.err = err
        self._text = MarkdownWriter(err=err)
        self._unfinished: str | None = None  # of a reply with tags around a new text: the end, where a tag may begin
        self._begun = False  # whether a part of a reply is printed
        self._turn: Place | None = None
        self._waiting: dict[Place, list[Event]] = {}
        self._notices: list[tuple[Waiting | Notice, Place]] = []

    def __call__(self, event: Event, place: Place) -> None:
        """Show an event, or keep it until the turn of its place has come."""
        if isinstance(event, (Waiting, Notice)):
            self._notices.append((event, place))
            if not self._begun:
                self._tell_notices()
            return
        if not isinstance(event, (Asked, TextDelta, Retrying, Reply, Failed)):
            return
        if self._turn is None:
            self._turn = place
        if place != self._turn:
            self._waiting.setdefault(place, []).append(event)
            return
        self._show(event, place)
        ended = isinstance(event, (Reply, Failed))
        if ended:
            self._tell_notices()
        while ended and self._waiting:
            self._turn = min(self._waiting, key=lambda waiting: (waiting.file, waiting.line))
            for event in self._waiting.pop(self._turn):
                self._show(event, self._turn)
            ended = isinstance(event, (Reply, Failed))
        if ended:
            self._turn = None

    def _tell_notices(self) -> None:
        """Print the notices that came while a reply was shown."""
        for event, place in self._notices:
            terminal.tell_notice(event, place, err=self.err)
        self._notices.clear()

    def _show(self, event: Event, place: Place) -> None:
        match event:
            case Asked(text=text, about=about, request=request):
                parts = (str(place), "cyan"), (text, "bold"), (f"({about})", "dim")
                terminal.say(" ".join(terminal.styled(*part, err=self.err) for part in parts), err=self.err)
                self._unfinished = "" if request.task == "edit" else None
            case TextDelta(text=text):
                self._write(text)
            case Retrying():
                self._end()
                terminal.say(terminal.styled(f"  {event}", "yellow", err=self.err), err=self.err)
            case Reply(text=text):
                self._write(text if event.remembered else "")
                self._end()
                note = terminal.styled(f"  [{terminal.reply_note(event)}]", "dim", err=self.err)
                terminal.say(f"{note}\n", err=self.err)
            case Failed(error=error, what=what):
                self._end()
                terminal.tell_failed(error, what, place)

    def _write(self, text: str) -> None:
        """Print the next piece of a reply, of an edit without the tags around the new text."""
        if self._unfinished is not None:
            text = self._unfinished + text
            begun = _BEGUN.search(text)
            self._unfinished = begun[0] if begun else ""
            text = _TAG.sub("", text.removesuffix(self._unfinished))
        self._begun = self._begun or bool(text)
        self._text.write(text)

    def _end(self) -> None:
        """Print the rest of a reply."""
        if self._unfinished is not None:
            self._text.write(_TAG.sub("", self._unfinished))
            self._unfinished = ""
        self._text.end()
        self._begun = False
