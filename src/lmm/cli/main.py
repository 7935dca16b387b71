"""The command `lmm`: the table of commands, and the only place where errors become a line and an exit code.

Other packages' commands are in the table, too; only the module of the command that is used is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from lmm import terminal
from lmm.errors import LmmError, nearest
from lmm.terminal import DONE, FAILED, INTERRUPTED, USAGE

if TYPE_CHECKING:
    import click

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class CommandRow(NamedTuple):
    """One row of the table: the click command is `function` in `file` of the folder ``cli`` of `package`; both default
    to the command's name."""

    name: str
    package: str
    help: str
    file: str = ""
    function: str = ""


COMMANDS = (
    CommandRow("demo", "lmm", "show what it does on an example course, offline, on one screen"),
    CommandRow("init", "lmm", "choose a model, and write config.toml", file="setup"),
    CommandRow("status", "lmm", "show which models are used, and where each setting comes from", file="setup"),
    CommandRow("trust", "lmm", "allow a config.toml to use other servers or folders", file="setup"),
    CommandRow("scan", "lmm", "complete the header, report problems"),
    CommandRow("messages", "lmm", "answer the pending questions of a document"),
    CommandRow("watch", "lmm", "answer on every save", file="messages"),
    CommandRow("accept", "lmm", "keep the new text of pending edits", file="messages"),
    CommandRow("reject", "lmm", "restore the old text of pending edits", file="messages"),
    CommandRow("undo", "lmm", "take back our last change to a document", file="messages"),
    CommandRow("annotate", "lmm", "add titles, questions, keywords, summaries to sections", file="batch"),
    CommandRow("batch", "lmm", "run your own batch model"),
    CommandRow("extract", "lmm", "extract data from sections, by a Pydantic model or JSON schema"),
    CommandRow(
        "import", "lmm", "turn PDF, Word, slides, web pages, books and more into markdown", "import_", "import_"
    ),
    CommandRow("clear", "lmm", "remove the chats from a document", file="scan"),
    CommandRow("completion", "lmm", "print the completion script of a shell: bash, zsh, fish"),
    CommandRow("ingest", "lmm_education", "prepare documents and store them, so that they can be searched"),
    CommandRow("search", "lmm_education", "find passages in what was ingested"),
    CommandRow("ask", "lmm_education", "answer a question from the course, with sources"),
    CommandRow("serve", "lmm_education", "serve the course as a web chat, and as an API for OpenAI clients"),
    CommandRow("log", "lmm_education", "show, export or delete what students asked"),
    CommandRow("eval", "lmm_education", "measure how often your questions find the right text", function="evaluate"),
    CommandRow("toc", "lmm_education", "print the headings of documents, with their lines", file="study"),
    CommandRow(
        "plan", "lmm_education", "print a study plan: sections in order, with summaries and reading times", "study"
    ),
    CommandRow("cards", "lmm_education", "make study cards, as CSV or for Anki", file="study"),
    CommandRow("exercises", "lmm_education", "print the exercises, with or without solutions", file="study"),
    CommandRow("export", "lmm_education", "write clean notes for students, without metadata, chats and exercises"),
    CommandRow("store", "lmm_education", "inspect, check, repair and copy the store"),
    CommandRow("help", "lmm_education", "find in the manual what answers a question", function="help_"),
    CommandRow("run", "chatmd", "run a ChatMD file: model and tools, everything appended to the file"),
    CommandRow("agents", "chatmd", "list ready-made agents, or copy one to start from"),
    CommandRow("check", "chatmd", "report problems of ChatMD files"),
    CommandRow("render", "chatmd", "print what a ChatMD file would send to the model, in tokens"),
    CommandRow("tools", "chatmd", "show the tools of a ChatMD file, and what they can do"),
    CommandRow("compact", "chatmd", "replace the older part of a long conversation with a summary"),
    CommandRow("refine", "chatmd", "test a prompt on cases, and find a better one"),
    CommandRow("lsp", "lmm_editor", "run the language server for your editor"),
    CommandRow("mcp", "chatmd", "publish the course and prompt files over MCP"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    0: done, 1: something failed or was found, 2: wrong usage or missing agreement, 130: interrupted.
    """
    terminal.open_closed_streams()
    code = _main(arguments)
    return FAILED if code == DONE and terminal.is_output_lost() else code


def _main(arguments: Sequence[str] | None) -> int:
    if instruction := os.environ.get("_LMM_COMPLETE"):
        complete: Callable[[str], int] = importlib.import_module("lmm.cli.completion").complete  # it uses COMMANDS
        return complete(instruction)
    words = list(sys.argv[1:] if arguments is None else arguments)
    asked = [word for word in " ".join(words[1:]).split() if not word.startswith("-")]
    if words[:1] == ["help"] and words[1:2] not in (["-h"], ["--help"]) and asked and _is_command(asked):
        words = [*asked, "--help"]
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        terminal.say(help_text(), end="")
        return DONE if words else USAGE
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        terminal.say(f"lmm {version('lmmarkdown')}")
        return DONE
    row = next((row for row in COMMANDS if row.name == words[0]), None)
    if row is None:
        terminal.say(f"lmm: there is no command '{terminal.clipped(words[0], 60)}'{_meant(words[0])}", err=True)
        return USAGE
    try:
        command = load(row)
    except KeyboardInterrupt:  # before anything was started
        return INTERRUPTED
    terminal.spell_out_unwritable()
    return run(command, row.name, words[1:])


def _is_command(words: Sequence[str]) -> bool:
    """Return whether words name a command, also a misspelt one, or one of a group; else they are a question.

    >>> _is_command(["store", "pull"]), _is_command(["mesages"]), _is_command(["export", "to", "Moodle"])
    (True, True, False)
    """
    name, *more = words
    row = next((row for row in COMMANDS if row.name == name), None)
    if row is None or not more:
        misspelt = nearest(name, [row.name for row in COMMANDS]).startswith("did you mean")
        return not more and (row is not None or misspelt)
    return len(more) == 1 and more[0] in getattr(load(row), "commands", ())


_GROUPS = {"Documents": ("lmm", "lmm_editor"), "Courses": ("lmm_education",), "Agents": ("chatmd",)}


def _meant(word: str) -> str:
    """Return what to type for a word that is no command: a question, a file, a folder, or a misspelt command.

    >>> _meant("notes.md")
    '; to answer its questions: lmm messages notes.md'
    >>> _meant("What is a leaf?")
    "; to ask the course: lmm ask 'What is a leaf?'; the manual: lmm help 'What is a leaf?'"
    """
    path, quoted = Path(word), shlex.quote(word)
    if path.suffix.lower() in (".md", ".rmd", ".qmd", ".markdown"):
        return f"; to answer its questions: lmm messages {quoted}"
    if path.suffix.lower() == ".chatmd":
        return f"; to run it: lmm run {quoted}"
    if " " in word:
        return f"; to ask the course: lmm ask {quoted}; the manual: lmm help {quoted}"
    hint = nearest(word, [row.name for row in COMMANDS])
    if hint.startswith("did you mean"):
        return f"; {hint}"
    if path.is_dir():
        return f"; to store its documents as a course: lmm ingest {quoted}"
    return f"; to turn it into markdown: lmm import {quoted}" if path.is_file() else " (lmm --help lists them)"


def help_text() -> str:
    """Return the list of commands for the help, in groups."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "\n".join(
        f"{title}\n" + "".join(f"  {row.name:<{width}}  {row.help}\n" for row in COMMANDS if row.package in packages)
        for title, packages in _GROUPS.items()
    )
    return (
        "Usage: lmm COMMAND [OPTIONS] [FILES]…\n\n"
        f"Markdown in which people and language models work together.\n\n{rows}\n"
        "lmm COMMAND --help explains a command, lmm help QUESTION searches the manual; start with: lmm demo\n"
    )


def load(row: CommandRow) -> click.Command:
    """Import the module of a command."""
    module = importlib.import_module(f"{row.package}.cli.{row.file or row.name}")
    command: click.Command = getattr(module, row.function or row.name)
    return command


def run(command: click.Command, name: str, words: Sequence[str]) -> int:
    """Run a command and return its exit code; our errors and wrong usage are printed as one line."""
    import click

    try:
        # Not click's own `main`, which has its own messages and exit codes for Ctrl-C and closed pipes.
        with ended_by_signals(), command.make_context(f"lmm {name}", list(words)) as context:
            code = command.invoke(context)
        return code if isinstance(code, int) else DONE
    except LmmError as error:
        return _report(error)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, EOFError, click.Abort):
        terminal.say("\nlmm: interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        terminal.say(usage.getvalue().removesuffix("\n"), err=True)
        file = next((word for word in words if word.startswith("-") and os.path.lexists(word)), "")
        if file and isinstance(error, click.NoSuchOption):
            terminal.say(f"if the file is meant, write ./{terminal.path_text(file)}", err=True)
        return error.exit_code


def _report(error: LmmError) -> int:
    terminal.tell_error(error)
    return code_of([error])


def code_of(errors: Iterable[LmmError]) -> int:
    """Return the exit code for errors."""
    return max((USAGE if error.is_usage else FAILED for error in errors), default=DONE)


def each(paths: Sequence[Path], act: Callable[[Path], int]) -> int:
    """Act on all files, continuing after errors; return the highest exit code. An error without a place is
    printed once.

    Raises:
        LmmError: it failed, and there is only one file.
    """
    codes, reported = [DONE], set[str]()
    for path in paths:
        try:
            codes.append(act(path))
        except LmmError as error:
            if len(paths) == 1:
                raise
            if str(error) not in reported:
                codes.append(_report(error))
                reported.add(str(error))
        if codes[-1] == INTERRUPTED:
            break
    return max(codes)


# -- signals ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within this context, the first of these signals raises `KeyboardInterrupt`; further ones do not disturb cleanup.

    A signal that the parent process ignores (``nohup``) stays ignored.
    """
    interrupted = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            if number != signal.SIGTERM:
                _leave_terminal()
            raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()  # Python allows handlers only there
    before = {number: signal.getsignal(number) for number in SIGNALS} if in_main_thread else {}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_terminal() -> None:
    """Redirect output to the null device after the terminal has gone, so that writing does not fail."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if os.isatty(stream.fileno()):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
