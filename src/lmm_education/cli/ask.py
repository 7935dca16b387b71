"""`lmm ask`: answer a question from the course."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmm import terminal
from lmm.cli import options
from lmm.event_printer import MarkdownWriter
from lmm.messages import Retrying, Usage
from lmm.terminal import DONE, FAILED, usage_text
from lmm_education.cli import course_options
from lmm_education.options import AskOptions

if TYPE_CHECKING:
    from lmm_education.answer.answer import Answer, AnswerEvent


@options.command()
@options.argument("question", "QUESTION", "Your question; *type* and @document narrow it.")
@course_options.of(AskOptions, "types", "documents", "where", "here")
@click.option("--history", metavar="FILE", type=options.PATH, help="The conversation that this question continues.")
@course_options.of(AskOptions, "mode", "agent", "expand", "reranker", "context_tokens")
@options.budget()
@options.model
@course_options.of(AskOptions, "temperature")
@options.flag("--show-context", help="Print the material that the model gets.")
@options.flag("--show-prompt", help="Print everything that is sent to the model: instructions, conversation, material.")
@options.as_json
@course_options.course
@options.config
def ask(
    *,
    history: Path | None,
    model: str | None,
    show_context: bool,
    show_prompt: bool,
    as_json: bool,
    course: str | None,
    config: Path | None,
    **asked: Any,
) -> int:
    """Answer a question from the course's material, with numbered sources.

    Exit code 1: nothing relevant was found, or the model did not answer.
    """
    from lmm_education.answer.answer import append_history, read_history
    from lmm_education.course import Course

    if asked["budget"].isdigit() and asked["context_tokens"] is None:
        hint = f"--context-tokens {asked['budget']}"
        terminal.note(f"--budget limits the cost; for the size of the context, use {hint}")
    earlier = [(each.question, each.answer) for each in (read_history(history) if history else [])]
    printer = AnswerPrinter(show_context, show_prompt, silent=as_json)
    with Course.open(config=config, course=course, model=model) as opened:
        answer = opened.ask(history=earlier, listener=printer, **asked)
    if as_json:
        terminal.say_json(answer.as_json())
    else:
        printer.end(answer)
    if show_prompt and not answer.usage.requests:
        terminal.note("nothing was sent to a language model")
    if history and answer.found:
        append_history(history, answer)
    return DONE if answer.found else FAILED


@dataclass
class AnswerPrinter:
    """Prints an answer while it arrives: the text on standard output, everything else on standard error."""

    context: bool = False
    prompt: bool = False
    silent: bool = False
    started: bool = False
    text: MarkdownWriter = field(default_factory=MarkdownWriter)

    def __call__(self, event: AnswerEvent) -> None:
        """Print an event."""
        from lmm.messages import dialogue_text
        from lmm_education.answer.answer import AnswerBlock, Called, Found, Prompted
        from lmm_education.answer.sources import shown
        from lmm_education.answer.verification import mark_of, marked

        match event:
            case Found(sources=sources) if self.context:
                self._aside("\n\n".join(map(shown, sources)) + "\n\n")
            case Prompted(messages) if self.prompt:
                self._break()
                self._aside(dialogue_text(messages) + "\n\n")
            case Called(call):
                self._break()
                self._aside(terminal.styled(f"{call.name} {call.arguments}\n", "dim", err=True))
            case Retrying():
                self._break()
                self._aside(terminal.styled(f"{event.reason}; again in {event.wait:.1f} s\n", "yellow", err=True))
            case AnswerBlock(text, failures) if not self.silent:
                self.text.write(marked(text, failures, lambda failure: f"[{mark_of(failure)}]"))
                self.started = True

    def end(self, answer: Answer) -> None:
        """Print the sources, and notices about the answer."""
        from lmm_education.answer.answer import basis_notice
        from lmm_education.answer.verification import failure_text

        if not answer.found:
            terminal.say(answer.text)
        self._break()
        for source in answer.sources if answer.found else ():
            number, place = terminal.styled(f"[{source.number}]", "bold"), terminal.styled(str(source.place), "cyan")
            terminal.say(f"{number} {place}  {source.path}  {source.place.link}".rstrip())
        if answer.offered and not answer.found:
            self._aside("nearest:\n" + "".join(f"  {each.place}  {each.path}\n" for each in answer.offered))
        failures = (failure_text(each) for each in answer.verification.claims if each.problem)
        notices = [*answer.notices, *failures, *basis_notice(answer)]
        if answer.cut:
            notices.append("the model stopped at its output limit: set a larger 'max_tokens'")
        if answer.stopped:
            notices.append("the model wanted to search further; [answer] turns allows more")
        for notice in notices:
            self._aside(terminal.styled(f"{notice}\n", "yellow", err=True))
        if answer.usage != Usage():
            self._aside(terminal.styled(f"{answer.model}: {usage_text(answer.usage)}\n", "dim", err=True))

    def _break(self) -> None:
        if self.started:
            self.text.end()
            terminal.say()
            self.started = False

    def _aside(self, text: str) -> None:
        terminal.say(text, err=True, end="")
