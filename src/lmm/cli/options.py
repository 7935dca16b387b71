"""Shared by commands: click decorators with explained arguments, common options, and work on documents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from lmm import terminal
from lmm.errors import ConfigError, Failure, FileReadError, LmmError, Place
from lmm.event_printer import EventPrinter
from lmm.messages import Event, Notice, Progress, Retrying, Usage, Waiting
from lmm.terminal import DONE, FAILED, INTERRUPTED

if TYPE_CHECKING:
    from lmm.document import Document
    from lmm.models.budget import SharedBudget
    from lmm.pipeline import Report

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """A decorator that declares an option or argument of a command, and returns its function."""

    def __call__(self, function: F, /) -> F:
        """Declare the option or argument."""
        ...


PATH = click.Path(path_type=Path, readable=False)
"""A path as it was typed. Click does not check whether it is readable: our own message has a better hint."""

FOLDER = click.Path(path_type=Path, file_okay=False)
SETTINGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 80}


# -- commands --------------------------------------------------------------------------------------


class Argument(click.Argument):
    """An argument with a line of help."""

    def __init__(self, *args: Any, help: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.help = help


class _Helping(click.Command):
    """A command whose help is written as all other output is."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option that shows the help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


def _show_help(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        terminal.say(context.get_help())
        context.exit()


class ExplainedCommand(_Helping):
    """A command whose help explains its arguments, above its options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of arguments and options."""
        rows = [(p.make_metavar(ctx), p.help) for p in self.get_params(ctx) if isinstance(p, Argument) and p.help]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class Group(_Helping, click.Group):
    """A group of commands, listed in the order of their declaration."""

    def command(  # type: ignore[override]  # click's may also be used without being called
        self, name: str | None = None, *, hidden: bool = False
    ) -> Callable[[Callable[..., int]], click.Command]:
        """Declare a command of the group, as `command` does."""
        return super().command(name, cls=ExplainedCommand, context_settings=SETTINGS, hidden=hidden)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, for the help."""
        return list(self.commands)


def command(name: str | None = None) -> Callable[[Callable[..., int]], ExplainedCommand]:
    """Declare a command: a function of keywords that returns the exit code, and whose docstring is its help."""
    return click.command(name, cls=ExplainedCommand, context_settings=SETTINGS)


def group(name: str | None = None, *, cls: type[Group] = Group) -> Callable[[Callable[..., object]], Group]:
    """Declare a group of commands; the function does nothing, and its docstring is the help."""
    return click.group(name, cls=cls, context_settings=SETTINGS, no_args_is_help=False)


def argument(name: str, metavar: str, help: str = "", *, many: bool = False, **attributes: Any) -> Decorator:
    """Declare an argument; with `many`, any number of them, as a tuple."""
    attributes = {"nargs": -1, "required": True, **attributes} if many else attributes
    metavar += "..." if many else ""
    return click.argument(name, metavar=metavar, cls=Argument, help=help, **attributes)


def flag(*names: str, help: str) -> Decorator:
    """Declare a switch that is off unless it is given."""
    return click.option(*names, is_flag=True, help=help)


def check_given(*paths: Path) -> None:
    """Check that files are there without which a command cannot begin: else it is used wrongly (exit code 2).

    Raises:
        ConfigError: one is not there.
    """
    if missing := [path for path in paths if not os.path.exists(path)]:  # noqa: PTH110  # pathlib's raises for long names
        raise ConfigError("there is no such file", where=str(missing[0]), hint="check the path")


# -- options of several commands -------------------------------------------------------------------

verbose = flag("--verbose", help="Print every line, also where many are alike.")


def _with_documents(context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the named files, and the documents in named folders but those that R Markdown or Quarto made."""
    from lmm.disk.folder import SUFFIXES, documents_below, without_knitted

    found: list[Path] = []
    knitted = 0
    for path in paths:
        is_folder = os.path.isdir(path)  # noqa: PTH112  # pathlib's raises for a name that is too long
        inside = list(documents_below(path, on_skip=terminal.tell_error)) if is_folder else [path]
        if not inside:
            raise FileReadError(f"this folder has no {', '.join(SUFFIXES)} files", where=str(path))
        own = without_knitted(inside) if is_folder else inside
        knitted += len(inside) - len(own)
        found += own
    if knitted:
        terminal.note(f"left out {terminal.count(knitted, 'rendered file')}, made from .Rmd or .qmd beside it")
    return tuple(found)


def _with_originals(context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the named files, and the documents in named folders but those that `lmm ingest --save-files` made."""
    found = _with_documents(context, parameter, paths)
    named = tuple(path for path in found if path in paths or not _is_prepared(path))
    if len(named) < len(found):
        left = terminal.count(len(found) - len(named), "prepared file")
        terminal.note(f"left out {left} of lmm ingest; to use one, name it")
    return named


def _is_prepared(path: Path) -> bool:
    from lmm.disk.files import read_document

    if "." not in path.stem:  # as in leaves.pooled.md: for others, the courses' part need not be loaded
        return False
    with contextlib.suppress(LmmError):  # reported where the command opens it
        text = read_document(path)
        return bool(import_module("lmm_education.ingestion.source_files").is_own_output(text))
    return False


def documents(help: str, *, callback: Callable[..., tuple[Path, ...]] = _with_documents) -> Decorator:
    """Declare the documents that a command works on; folders are replaced by the documents in them."""
    return argument("files", "PATH", help, many=True, type=PATH, callback=callback)


files = documents("Markdown, R Markdown or Quarto files, or folders with such files.", callback=_with_originals)
roots = click.option(
    "--root", "roots", metavar="DIR", multiple=True, type=FOLDER, help="Also allow files from this folder."
)
config = click.option("--config", metavar="FILE", type=PATH, help="Use this config.toml.")


def model_option(help: str, *, default: str | None = None) -> Decorator:
    """Declare ``--model``; its value is `default` unless it is given."""
    return click.option("--model", metavar="NAME", default=default, show_default=False, callback=_not_empty, help=help)


def _not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "" and context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE:
        raise click.BadParameter("it is empty: is a variable not set?")
    return value


model = model_option("Ask this model, such as Ollama/llama3.2, or a tier: minor.")
again = flag("--again", help="Ask again, even if an earlier run already has the reply.")
as_json = flag("--json", "as_json", help="Print JSON.")
json_lines = flag("--json", "as_json", help="Report as JSON lines.")


def budget(help: str = "Send no request that exceeds this: tokens (20000) or money (0.50$).") -> Decorator:
    """Declare ``--budget``; empty unless it is given."""
    return click.option("--budget", metavar="AMOUNT", default="", show_default=False, callback=_not_empty, help=help)


def print_excess(budget: str | SharedBudget, usage: Usage = Usage()) -> None:
    """Print by how much a budget is exceeded, if it is: one as users write it, of which `usage` was spent."""
    from lmm.models.budget import SharedBudget

    spent = SharedBudget.of(budget)
    spent.usage += usage
    if spent.excess:
        terminal.note(spent.excess)


def together(*decorators: Decorator) -> Decorator:
    """Combine several decorators into one, in the order of the help."""

    def declare(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return declare


# -- work ------------------------------------------------------------------------------------------


T = TypeVar("T")


def work(document: Document, verb: Callable[[Document], Report[T]], *, save: bool = True) -> Report[T]:
    """Apply a method to a document, save it, and return its report, even if Ctrl-C or user code ended it."""
    from lmm.document import BatchFailed, saved
    from lmm.loop import Stopped

    try:
        return saved(document, verb) if save else verb(document)
    except (Stopped, BatchFailed) as ended:
        report: Report[T] = ended.report
        return report
    finally:
        terminal.erase_bar()


def change(path: Path, verb: Callable[[Document], T], *, save: bool = True, err: bool = False) -> T:
    """Apply a method that asks no model to the document in a file, save it, and return the method's result."""
    from lmm import Document

    with Document.open(path, listener=EventPrinter(err=err)) as document:
        document.reload()
        done = verb(document)
        if save:
            document.save()
    return done


def exit_code(report: Report[Any]) -> int:
    """Return the exit code for a report."""
    return INTERRUPTED if report.interrupted else FAILED if report.failures or report.error else DONE


def show_progress(event: Event, place: Place) -> None:
    """Print notices, and draw a progress bar; a `lmm.messages.Listener`."""
    match event:
        case Waiting() | Notice():
            terminal.tell_notice(event, place, err=True)
        case Retrying():
            terminal.erase_bar()
            terminal.say(terminal.styled(f"{event}", "yellow", err=True), err=True)
        case Progress(done=done, total=total) if total:
            terminal.show_bar(done, total, before=f"{place} " if str(place) else "")


def print_failures(report: Report[Any]) -> None:
    """Print each kind of failure once, at its first place: if a server is down, all sections fail in the same way."""
    alike: dict[str, list[Failure]] = {}
    for failure in report.failures:
        alike.setdefault(str(failure.error), []).append(failure)
    for first, *others in alike.values():
        terminal.say(f"{first}{f'; {len(others)} more of the same kind' if others else ''}", err=True)


def print_hints(report: Report[Any], printed: dict[str, None]) -> None:
    """Print the hints of a report that are not among those `told`, and add them to these."""
    for hint in report.hints:
        if hint not in printed:
            terminal.say(hint, err=True)
    printed.update(dict.fromkeys(report.hints))


def cost_text(usage: Usage, model: str) -> str:
    """Describe the estimated cost of calls to a model, with the price if it is known."""
    from lmm.models.tokens import price

    if not usage.requests:
        return "no calls"
    dollars = price(model, usage)
    known = ", price unknown" if dollars is None else f", about ${dollars:.4f}" if dollars else ""
    return f"{terminal.count(usage.requests, 'call')} to {model}, about {terminal.usage_text(usage)}{known}"
