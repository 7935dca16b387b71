"""Programs as tools: ``<tool name="search" command="rg -n"/>``. A model's arguments never reach a shell."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import AgentSpec, Tool
from chatmd.sidecar import store
from chatmd.tools.process import Program, bubblewrap, run_program, sandboxed
from chatmd.tools.registry import CURRENT_CALL_ID, IN_ORDER, FunctionTool, OpenTools
from chatmd.tools.roots import roots_of
from lmm.config import Settings
from lmm.config_tables import TIERS
from lmm.disk.folder import Folder
from lmm.disk.names import is_secret_variable
from lmm.errors import LmmError
from lmm.messages import ToolDefinition, ToolOutput, ToolProgress, object_schema
from lmm.providers import PROVIDER_KEYS

# -- The environment of programs: common variables, and those that a prompt names; never a key of a model provider
#
# The question for consent lists the named variables; the values of secret ones are removed from texts for the model.


PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""Variables that every program gets if they are set, besides those that begin with ``LC_``."""
ALWAYS = {"TERM": "dumb", "NO_COLOR": "1"}
"""Variables that every program gets, as its output is not shown in a terminal."""


SHORTEST_SECRET = 8
"""The length of the shortest secret that is removed; shorter ones could occur in any text."""


def environment_for(declared: Tool, run: Run) -> dict[str, str]:
    """Return the environment of a declared program: common variables, and those that the declaration names.

    Raises:
        ChatmdError: as `check_variables`.
    """
    check_variables(declared, run)
    return minimal_environment(run.environment, variables_of(declared))


def variables_of(declared: Tool) -> dict[str, str]:
    """Map the variables that a declaration names to the attribute that names them."""
    variables = dict.fromkeys(declared.env, "env")
    variables |= {declared.client_id_env: "client_id_env", declared.client_secret_env: "client_secret_env"}
    return {name: attribute for name, attribute in variables.items() if name}


def check_variables(declared: Tool, run: Run) -> None:
    """Raise an error unless the variables that a declaration names are set and may be passed to programs and servers.

    Raises:
        ChatmdError: a variable is not set, or contains a key of a model provider.
    """
    keys = keys_of(run.settings)
    for name, attribute in variables_of(declared).items():
        if name in keys:
            problem = f'{attribute}="{name}": a key of a model provider is not given to programs or servers'
            hint = "take it out; what needs such a key gets one of its own, from a file or by another name"
            raise ChatmdError(problem, where=declared.span.where, hint=hint)
        if name not in run.environment:
            hint = f"export {name}=…"
            raise ChatmdError(f"the environment variable {name} is not set", where=declared.span.where, hint=hint)


def minimal_environment(environment: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of an environment that a program gets, including the variables `names` if they are set.

    Relative folders in ``PATH`` are left out, as their meaning depends on where a program runs.

    >>> minimal_environment({"PATH": "/bin:.", "LANG": "de_DE.UTF-8", "OPENAI_API_KEY": "sk", "CI": "1"}, ["CI"])
    {'PATH': '/bin', 'LANG': 'de_DE.UTF-8', 'CI': '1', 'TERM': 'dumb', 'NO_COLOR': '1'}
    """
    passed = {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}
    folders = [folder for folder in passed.get("PATH", os.path.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    named = {name: environment[name] for name in names if name in environment}
    language = {} if any(name == "LANG" or name.startswith("LC_") for name in passed) else {"LANG": "C.UTF-8"}
    return {**passed, "PATH": os.pathsep.join(folders), **language, **named, **ALWAYS}


def keys_of(settings: Settings) -> frozenset[str]:
    """Return the variables that contain keys of model providers, by default and in these settings.

    >>> from lmm.config import load_settings
    >>> "OPENAI_API_KEY" in keys_of(load_settings(env={}))
    True
    """
    configured = (getattr(settings, tier).api_key for tier in TIERS)
    return PROVIDER_KEYS | {key.variable for key in configured if key}


MOST_SHOWN = 8_000
"""The number of characters of a program's output that a model is sent, unless its declaration says otherwise."""
OPERATORS = frozenset(("|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "|&", "&>"))
"""Words that only a shell interprets, if they are unquoted."""


def open_command(declared: Tool, run: Run) -> OpenTools:
    """Open the tool of a declaration with ``command``.

    Raises:
        ChatmdError: the command cannot be split, its program or folder is missing, or it names a variable that is not
            set or contains a key of a model provider.
    """
    where = declared.span.where
    words = split_command(declared.command, where)
    folder = command_folder(declared, run)
    environment = environment_for(declared, run)
    program = find_program(words[0], run.folder, environment["PATH"], where)
    timeout = declared.timeout or run.rules.tool_timeout
    limit = declared.max_output or min(run.rules.max_output, MOST_SHOWN)
    scrub = scrubber(AgentSpec(tools=(declared,)), run)

    def store_output(text: str) -> str:
        with suppress(LmmError, OSError):  # the folder cannot be written: the report is all there is
            return store(Folder(run.folder), scrub(text).encode("utf-8", "replace"), ".txt") if run.chain[0] else ""
        return ""

    started = Program((program, *words[1:]), folder, environment, timeout, limit, store_output)
    if declared.sandbox:
        if not bubblewrap():
            what = "needs bubblewrap for its sandbox, which is not installed or not permitted here"
            hint = "pip install 'lmmarkdown[sandbox]', or apt install bubblewrap"
            raise ChatmdError(f"{declared.name} {what}", where=where, hint=hint)
        roots = roots_of(declared, run)
        started = sandboxed(started, [root.real for root in roots.roots], roots.protected)

    async def call(arguments: Sequence[str] = (), stdin: str | None = None) -> ToolOutput:
        if any("\0" in argument for argument in arguments):
            hint = "leave it out"
            raise ChatmdError("an argument contains a NUL character, which no program can be given", hint=hint)
        for argument in arguments:
            _encoded(argument)
        present = CURRENT_CALL_ID.get()

        def report_progress(text: str) -> None:
            run.emit(ToolProgress(present, declared.name, scrub(text)))

        with_arguments = replace(started, argv=(*started.argv, *arguments), on_progress=report_progress)
        return await run_program(with_arguments, _encoded(stdin))

    return nullcontext((FunctionTool(_definition(declared, timeout, declared.sandbox), call),))


def split_command(command: str, where: str = "") -> tuple[str, ...]:
    """Split a command into words like a POSIX shell; nothing is expanded.

    Raises:
        ChatmdError: there is no word, a quote is not closed, or it uses an operator of the shell.

    >>> split_command("rg -n --glob '*.md' -e \\"a b\\"")
    ('rg', '-n', '--glob', '*.md', '-e', 'a b')
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ChatmdError(
            f'command="{command}" cannot be split: {str(error).lower()}', where=where, hint="close the quotes"
        ) from None
    if not words or "\0" in command:
        raise ChatmdError(f'command="{command}" contains no program', where=where, hint='as in command="rg -n"')
    # Quotes are kept here, so that only unquoted words equal an operator.
    found = OPERATORS.intersection(shlex.split(command, posix=False))
    if found:
        hint = "put it into a script, or quote it if it is an argument"
        raise ChatmdError(f"command=\"{command}\" uses '{min(found)}', but there is no shell", where=where, hint=hint)
    return words


def command_folder(declared: Tool, run: Run) -> Path:
    """Return the folder that a command runs in.

    Raises:
        ChatmdError: there is no such folder.
    """
    folder = (run.folder / (declared.cwd or ".")).resolve()
    if not folder.is_dir():
        hint = f"it is relative to {run.folder}"
        raise ChatmdError(f'cwd="{declared.cwd}" is not a folder', where=declared.span.where, hint=hint)
    return folder


def find_program(name: str, folder: Path, path: str, where: str = "") -> str:
    """Return the file of a program, found on `path`; a name with a slash is relative to `folder`.

    A file that is named with a slash may be missing, as another tool may build it first.

    Raises:
        ChatmdError: it is not on the path.
    """
    if "/" in name or os.sep in name:
        return str(folder / name)
    if found := shutil.which(name, path=path):
        return found
    beside = folder / name
    hint = f'the file beside the prompt is command="./{name}"' if beside.is_file() else "install it, or name its file"
    raise ChatmdError(f"there is no program '{name}' on the PATH", where=where, hint=hint)


def _definition(declared: Tool, timeout: float, confined: bool) -> ToolDefinition:
    folder = "the working folder" if declared.cwd in ("", ".", "./") else f"the folder `{declared.cwd}`"
    does = (
        f"Runs `{declared.command}` with your arguments after it, in {folder}. "
        "There is no shell: every argument arrives as it is, without quotes, and | > $ * mean nothing. "
        f"Returns the exit code, stdout and stderr; it is stopped after {timeout:g} s. {IN_ORDER}"
        + (f" There is no network, and it writes only below {', '.join(declared.roots) or '.'}." if confined else "")
    )
    schema = object_schema(
        (),
        arguments={
            "type": "array",
            "items": {"type": "string"},
            "description": "What follows the command above, a word each; none if left out.",
        },
        stdin={"type": "string", "description": "What the program reads from its standard input; nothing by default."},
    )
    own = declared.description.strip()
    own += "" if not own or own.endswith((".", "!", "?", ":")) else "."
    return ToolDefinition(declared.name, f"{own} {does}".strip(), schema)


def _encoded(text: str | None) -> bytes | None:
    try:
        return text.encode() if text is not None else None
    except UnicodeEncodeError:
        raise ChatmdError("a text contains half of a surrogate pair", hint="leave it out") from None


def scrubber(spec: AgentSpec, run: Run) -> Callable[[str], str]:
    """Return a function that removes the keys and secrets that a file's tools could know from a text."""
    names = keys_of(run.settings) | {one for tool in spec.tools for one in (tool.client_id_env, tool.client_secret_env)}
    names |= {name for tool in spec.tools for name in tool.env if is_secret_variable(name)}
    values = sorted((run.environment.get(name, "") for name in names), key=len, reverse=True)
    secrets = [value for value in values if len(value) >= SHORTEST_SECRET]

    def scrub(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "…")
        return text

    return scrub
