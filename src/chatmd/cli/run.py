"""`lmm run`: run a ChatMD file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chatmd.call_texts import call_line
from chatmd.errors import WITHOUT
from lmm import terminal
from lmm.cli import options
from lmm.errors import ConfigError, FileMissing, LmmError, Place
from lmm.extras import check_installed
from lmm.messages import (
    Event,
    Failed,
    Image,
    Notice,
    Reply,
    Retrying,
    RunResult,
    RunStopped,
    TextDelta,
    ToolCall,
    ToolProgress,
    ToolResult,
    Usage,
    Waiting,
)
from lmm.terminal import DONE, FAILED, INTERRUPTED, usage_text

if TYPE_CHECKING:
    from chatmd.context import Run
    from chatmd.runtime.runner import Runner

_FILE = click.Path(path_type=Path, readable=False, allow_dash=True)
_NOT_TOGETHER = {
    "--acp": ("FILE -", "-i", "--say", "--json", "--output", "--fork-at", "--replay"),
    "-i": ("FILE -", "--say -", "--json"),
    "FILE -": ("--say -", "--output"),
}


_Command = TypeVar("_Command", bound=Callable[..., object])


def input_values(command: _Command) -> _Command:
    """Declare the option ``--set NAME=VALUE``, as `inputs`."""
    return click.option(
        "--set", "inputs", metavar="NAME=VALUE", multiple=True, callback=_read_values,
        help="Set an input that the file declares; the value is written into the file.",
    )(command)  # fmt: skip


def _read_values(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in values]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise click.BadParameter(f"write it as --set {name or 'NAME'}=VALUE", context, option)
    return {name.strip(): value for name, _, value in pairs}


@options.command()
@options.argument(
    "file",
    "[FILE]",
    "A ChatMD file, whatever its extension; - reads one from standard input. -i without one lists conversations.",
    type=_FILE,
    required=False,
)
@click.option(
    "--output", "-o", metavar="FILE", type=options.PATH, help="Leave FILE unchanged, and write this new file."
)
@click.option(
    "--fork-at",
    metavar="N",
    type=click.IntRange(min=1),
    help="With -o: end the copy before your Nth message, to continue it differently.",
)
@click.option("--say", metavar="TEXT", help="Send this message first, literally; - reads standard input.")
@options.flag("--json", "as_json", help="Print each event as a JSON line, including failures.")
@options.flag("--acp", help="Act as an agent for an editor (Zed, JetBrains, Neovim), by the Agent Client Protocol.")
@options.flag("--interactive", "-i", help="Keep asking for messages.")
@options.flag("--once", help="Stop after one reply and its calls, without asking again for what <output> declares.")
@click.option(
    "--max-turns",
    metavar="N",
    type=click.IntRange(min=1),
    help="Make at most this many requests, including those of agents.",
)
@options.budget()
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0.001), help="Cancel a turn after this time.")
@options.flag("--yes", "-y", help="Agree to what the file's tools can do, without being asked.")
@options.flag("--ask", help="Show each call and ask before making it.")
@options.flag("--replay", help="Use recorded documents and agents; lmm check --replay reports what has changed.")
@input_values
@options.flag("--skip-missing-tools", help="Continue without programs and MCP servers that cannot be started.")
@options.model_option("Ask this model, such as Ollama/llama3.2, instead of the file's.", default="")
@options.config
@options.roots
def run(
    *,
    file: Path | None,
    output: Path | None,
    fork_at: int | None,
    say: str | None,
    as_json: bool,
    acp: bool,
    interactive: bool,
    ask: bool,
    replay: bool,
    inputs: dict[str, str],
    **how: Any,
) -> int:
    """Run a ChatMD file, and append the model's replies, its calls and their results to it.

    The run ends at an empty <user>, where you write your next message. Ctrl-C cancels it; everything so
    far stays, and lmm run continues from there. With -i, a missing file is created, as a conversation
    without a prompt or tools.
    """
    from chatmd.call_texts import approve_on_terminal, confirm_on_terminal
    from chatmd.context import RunOptions
    from chatmd.runtime.runner import open_run, open_text, prepare

    from_input = str(file) == "-"
    used = {"FILE -": from_input, "--say -": say == "-", "--say": say is not None, "-i": interactive, "--acp": acp,
             "--json": as_json, "--output": output, "--fork-at": fork_at, "--replay": replay}  # fmt: skip
    for one, others in _NOT_TOGETHER.items():
        if used[one] and (wrong := [other for other in others if used[other]]):
            raise click.UsageError(f"{one} and {wrong[0]} cannot be used together")
    if interactive:
        _check_screen()
    file = file or _choose_conversation(interactive)
    if acp:
        check_installed("acp", "lmm run --acp needs", "acp")
        from chatmd.acp_server import serve

        return serve(file, RunOptions(**how, inputs=inputs), ask=ask)
    if fork_at is not None and output is None:
        raise click.UsageError("--fork-at needs a name for the copy: -o FILE")
    printer = RunPrinter(only_answer=from_input)
    with reported(as_json=as_json, from_input=from_input):
        if not from_input and not os.path.lexists(file):
            _create_conversation(file, interactive)
        approve = approve_on_terminal() if ask else None
        listener = print_event if as_json else printer
        chosen = RunOptions(
            **how,
            replay=replay,
            confirm=confirm_on_terminal(),
            approve=approve,
            listener=listener,
            inputs=inputs,
            say=_message(say),
        )
        prepared = prepare(None if from_input else file, chosen)
        if from_input:
            return _run(open_text(_standard_input(), prepared), printer)

        def begin(run: Run) -> Runner:
            return open_run(file, run, output, fork_at=fork_at)

        if interactive:
            from chatmd.terminal.session import converse

            return converse(output or file, prepared, begin, ask=ask)
        return _run(begin(prepared), printer)


def _choose_conversation(interactive: bool) -> Path:
    """Let the user choose one of the latest conversations.

    Raises:
        UsageError: this is not interactive.
        ConfigError: there are no conversations, or the choice is invalid.
    """
    if not interactive:
        raise click.UsageError("Name a file. lmm run -i without one lists your latest conversations.")
    from chatmd.terminal.view import described, latest

    found = latest()
    if not found:
        hint = "name a file, which is made: lmm run -i FILE"
        raise ConfigError("no conversation was begun yet", where="-i", hint=hint)
    for number, path in enumerate(found, 1):
        head, last = described(path, terminal.width() - 4)
        terminal.say(f"{number:2}  {terminal.styled(head, 'bold')}\n    {last}")
    chosen = terminal.ask("Which one?", "1")
    if not (chosen.isdecimal() and 1 <= int(chosen) <= len(found)):
        raise ConfigError(f"there is not a number {chosen}", where="-i", hint=f"choose one from 1 to {len(found)}")
    return found[int(chosen) - 1]


def _message(say: str | None) -> str:
    """Return what ``--say`` gives, empty without it.

    Raises:
        ConfigError: it is given, and empty.
    """
    text = _standard_input() if say == "-" else say or ""
    if say is not None and not text.strip():
        raise ConfigError("the message is empty", where="--say")
    return text


def _standard_input() -> str:
    from lmm.disk.files import decode_document

    return decode_document(sys.stdin.buffer.read(), "-")


def _run(runner: Runner, printer: RunPrinter) -> int:
    from lmm import loop

    try:
        result = loop.run(runner.run())
    except KeyboardInterrupt:
        printer.interrupted(runner.path, runner.context.tally.turns, runner.context.tally.usage)
        return INTERRUPTED
    except LmmError:
        printer.end_line()
        raise
    return FAILED if result.cut else DONE


def _create_conversation(file: Path, interactive: bool) -> None:
    from lmm.disk import files

    if not interactive:
        raise FileMissing("there is no such file", where=str(file), hint="check the path, or create one with -i")
    files.replace(file, "<user>\n\n</user>\n")
    terminal.say(f"{terminal.path_text(file)}: a new conversation", err=True)


def _check_screen() -> None:
    """Check that there is a terminal that can do more than print lines.

    Raises:
        ConfigError: there is none.
    """
    dumb = os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    if dumb or sys.platform == "win32" or not (sys.stdin.isatty() and terminal.is_terminal()):
        hint = "use --say TEXT to send one message"
        raise ConfigError("this needs a Unix terminal other than 'dumb'", where="-i", hint=hint)


# -- what is printed --------------------------------------------------------------------------------------------

_WIDTH, _CALL, _SHOWN = 100, 50, 500  # columns where there is no terminal; characters of a call, of a result


class RunPrinter:
    """A listener that prints. Into a file or a pipe, only complete replies are printed, as text there is final.

    With `only_answer`, nothing is printed to standard output but the last one, once it is accepted.
    """

    def __init__(self, *, only_answer: bool = False) -> None:
        self.only_answer = only_answer
        self.in_line = False  # the model's text has not ended its line
        self.live = terminal.is_terminal()
        self.missing: dict[str, None] = {}  # tools
        self.calls: dict[tuple[tuple[str, ...], str], ToolCall] = {}  # that have no result yet

    def __call__(self, event: Event, place: Place) -> None:
        """Print an event."""
        if isinstance(event, Notice) and event.text.startswith(WITHOUT):
            self.missing[event.text.removeprefix(WITHOUT).partition(":")[0]] = None
        if place.path:
            self._print_event(event, place.path)
        elif isinstance(event, TextDelta):
            self._print(event.text if self.live and not self.only_answer else "")
        elif isinstance(event, Reply):
            self._print("" if self.live or self.only_answer else event.text)
            self.end_line()
        elif isinstance(event, RunResult):
            self._end(event)
        else:
            self._print_event(event)

    def _print_event(self, event: Event, chain: tuple[str, ...] = ()) -> None:
        """Print an event that is not the model's text, indented by the number of agents in `chain`."""
        indent = "  " * len(chain)
        if isinstance(event, ToolCall):
            self.calls[chain, event.id] = event
            self._note(f"{indent}→ {call_line(event)}")
        elif isinstance(event, ToolProgress) and self.live:
            self._note(f"{indent}  {event.text.rpartition(chr(10))[2]}")
        elif isinstance(event, ToolResult):
            sign, first = "✗" if event.failed else "←", " ".join(event.text[:_SHOWN].split())
            call = self.calls.pop((chain, event.call), None)
            alike = call is not None and any(one.name == call.name for one in self.calls.values())
            name = terminal.clipped(call_line(call), _CALL) if call is not None and alike else event.name
            self._note(f"{indent}{sign} {name} ({event.seconds:.1f} s): {first}")
        elif isinstance(event, Retrying):
            self._note(f"{indent}{event}", "yellow")
        elif isinstance(event, Notice | Waiting):
            self._note(f"{indent}{event.text if isinstance(event, Notice) else event.reason}", "yellow")
        elif isinstance(event, RunStopped):
            self._note("cancelled", "yellow")

    def _print(self, text: str) -> None:
        if text:
            self.in_line = not text.endswith("\n")
            terminal.say(text, end="")

    def interrupted(self, path: Path | None, turns: int, usage: Usage) -> None:
        """Print that the user ended the run."""
        self.end_line()
        used = f" ({terminal.count(turns, 'request')}, {usage_text(usage)})" if turns else ""
        saved = f"; everything so far is in {path}, and lmm run continues from there" if path else ""
        terminal.say(f"lmm: cancelled{used}{saved}", err=True)

    def _end(self, result: RunResult) -> None:
        """Print a summary of the finished run."""
        self._print(result.answer if self.only_answer else "")
        self.end_line()
        requests = terminal.count(result.turns, "request")
        used = f"{requests}, {usage_text(result.usage)}; " if result.turns else ""
        used += f"without {', '.join(self.missing)}; " if self.missing else ""
        next_ = "your turn" if result.turn_of == "user" else "lmm run continues"
        next_ = "the reply is cut off at the model's output limit" if result.cut else next_
        text = terminal.visible(f"{result.path or '-'}: {used}{next_}", line=True)
        terminal.say(terminal.styled(text, "dim", err=True), err=True)

    def _note(self, text: str, style: str = "dim") -> None:
        """Print a line, cut to the width if it is a tool's, but not if it is ours."""
        self.end_line()
        line = terminal.visible(" ".join(text.splitlines()), line=True)  # a server's message may have several
        width = terminal.width() if self.live else _WIDTH
        terminal.say(
            terminal.styled(terminal.clipped(line, width) if style == "dim" else line, style, err=True), err=True
        )

    def end_line(self) -> None:
        """End the line of the model's text, if there is one."""
        if self.in_line:
            terminal.say()
        self.in_line = False


# -- For programs: each event as one JSON line, failures too -----------------------------------------------


_LEFT_OUT = {"run_result": ("text",), "asked": ("request",)}  # the whole transcript


def print_event(event: Event, place: Place) -> None:
    """Print an event as JSON; `agent` names the agents from the first that was asked down to the event's."""
    terminal.say_json(event_values(event) | ({"agent": list(place.path)} if place.path else {}), line=True)


@contextlib.contextmanager
def reported(*, as_json: bool, from_input: bool) -> Iterator[None]:
    """Name standard input in an error that ends the run, print it as an event with `as_json`, and raise it again."""
    try:
        yield
    except LmmError as error:
        if from_input and error.where[:1].isdigit():  # a line of a text without a name
            error.where = f"-:{error.where}"
        if as_json:
            print_event(Failed(error), Place())
        raise


def event_values(event: Event) -> dict[str, Any]:
    """Return an event as values for JSON; `event` is its kind.

    >>> from lmm.messages import TextDelta
    >>> event_values(TextDelta("Oak"))
    {'event': 'text_delta', 'text': 'Oak', 'item': ''}
    """
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(event).__name__)[1:]
    if isinstance(event, Failed):
        error = event.error
        values = {"error": type(error).__name__, "message": error.message, "where": error.where, "hint": error.hint}
        return {"event": name, **values}
    left_out = _LEFT_OUT.get(name, ())
    return {"event": name, **{key: value for key, value in _plain(event).items() if key not in left_out}}


def _plain(value: Any) -> Any:
    if isinstance(value, Image):
        return value.url or f"{value.media_type}, {len(value.data)} bytes"
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
