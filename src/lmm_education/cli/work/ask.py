"""What is done by `lmm ask`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError
from lmm.messages import Retrying, TextDelta, Usage
from lmm.terminal import usage_text
from lmm_education.answer.answers import Answer, AnswerEvent, Called, Found, History
from lmm_education.answer.context import shown
from lmm_education.answer.history_file import append_history, read_history
from lmm_education.answer.sources import Source
from lmm_education.course import Course
from lmm_education.search.query import read_where


def ask(
    question: str,
    types: list[str],
    documents: list[str],
    where: list[str],
    history: Path | None,
    mode: str | None,
    agent: bool,
    budget: int | None,
    model: str | None,
    show_context: bool,
    as_json: bool,
    course: str | None,
    config: Path | None,
) -> int:
    """Answer a question from the course's own material, with numbered sources."""
    earlier = read_history(history) if history else []
    show = Show(show_context, silent=as_json)
    with Course.open(config=config, course=course, model=model) as opened:
        answer = opened.ask(
            question,
            history=[(each.question, each.answer) for each in earlier],
            mode=_mode(mode),
            types=types,
            documents=documents,
            where=read_where(where),
            agent=agent,
            context_tokens=budget,
            listener=show,
        )
    if as_json:
        terminal.say_json(answer.as_json(), indent=2)
    else:
        show.end(answer)
    if history and answer.found:
        append_history(history, answer)
    return console.DONE if answer.found else console.FAILED


def _mode(mode: str | None) -> History | None:
    known: tuple[History, ...] = get_args(History)
    for name in known:
        if mode == name:
            return name
    if mode is None:
        return None
    raise ConfigError(f"unknown history mode '{mode}'", where="--mode", hint="one of " + ", ".join(known))


class Show:
    """Prints an answer while it arrives: the text on standard output, everything else on standard error."""

    def __init__(self, context: bool = False, *, silent: bool = False) -> None:
        self.context, self.silent = context, silent
        self.started = False

    def __call__(self, event: AnswerEvent) -> None:
        if isinstance(event, Found) and self.context:
            self._aside("\n\n".join(map(shown, event.sources)) + "\n\n")
        elif isinstance(event, Called):
            self._break()
            self._aside(terminal.styled(f"{event.call.name} {event.call.arguments}\n", "dim", err=True))
        elif isinstance(event, Retrying):
            self._break()
            self._aside(terminal.styled(f"{event.reason}; again in {event.wait:.1f} s\n", "yellow", err=True))
        elif isinstance(event, TextDelta) and not self.silent:
            terminal.say(event.text, end="")
            self.started = True

    def end(self, answer: Answer) -> None:
        """The sources, and what the reader should know of the answer."""
        if not answer.found:
            terminal.say(answer.text)
        self._break()
        for source in answer.cited:
            terminal.say(_line(source))
        for notice in (*answer.notices, *_notices(answer)):
            self._aside(terminal.styled(f"{notice}\n", "yellow", err=True))
        if answer.usage != Usage():
            self._aside(terminal.styled(f"{answer.model}: {usage_text(answer.usage)}\n", "dim", err=True))

    def _break(self) -> None:
        if self.started:
            terminal.say("\n")
            self.started = False

    def _aside(self, text: str) -> None:
        terminal.say(text, err=True, end="")


def _line(source: Source) -> str:
    place = terminal.styled(str(source.place), "cyan")
    return f"{terminal.styled(f'[{source.number}]', 'bold')} {place}  {source.path}"


def _notices(answer: Answer) -> list[str]:
    notices = []
    if answer.removed:
        numbers = ", ".join(map(str, answer.removed))
        notices.append(f"the model cited {numbers}, which it was not shown; taken out")
    if answer.found and not answer.cited:
        notices.append("the answer cites no source")
    if answer.cut:
        notices.append("the model stopped at its output limit: set a larger 'max_tokens'")
    if answer.stopped:
        notices.append("the model wanted to go on looking; [answer] turns allows more")
    return notices
