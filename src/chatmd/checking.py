"""Everything that is wrong with a file and can be found without asking a model, a server or a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from chatmd.content.documents import plain_text, strip_markup
from chatmd.content.expand import locate, read_img, read_raw, read_stored, shown_part, with_place
from chatmd.context import Configuration, Run, model_settings
from chatmd.errors import LimitReached, ToolNotAvailable
from chatmd.language.agent import AgentSpec, Doc, Img, SubAgent, Tool, interpret
from chatmd.language.lint import check, letter
from chatmd.language.nodes import Problem, SourceRange, SyntaxTree
from chatmd.language.repair import repair
from chatmd.language.syntax import errors_of, parse
from chatmd.language.transcript import image_of
from chatmd.runtime.output import schema_of
from chatmd.runtime.prepare import check_depth
from chatmd.sidecar import Expandable, ExpansionRecord, Occurrence, Payloads, occurrences
from chatmd.tools.calling import agent_in
from chatmd.tools.command import check_variables, command_folder, find_program, minimal_environment, split_command
from chatmd.tools.consent import sent_files, why_asked
from chatmd.tools.mcp_connection import check_installed, read_address
from chatmd.tools.registry import kind_of
from chatmd.tools.roots import roots_of
from lmm import loop
from lmm.errors import ConfigError, LmmError

# -- What a document refers to and cannot be had: its model, its tools, documents, images, agents -------------
#
# The code that a run uses says so, in the same words. No program is started, nothing is fetched, no model is asked.


Severity = Literal["error", "warning"]


def surroundings(spec: AgentSpec, path: Path, run: Run) -> Iterator[Problem]:
    """What is wrong around the document in `path`. Errors are what a run would stop at.

    Raises:
        ConfigError: it is config.toml that is wrong.
    """
    recorded = ExpansionRecord(path, keeps=False)
    yield from _model(spec, run.configuration, own=True)
    yield from _tools(spec, run)
    yield from _output(spec, run)
    yield from _contents(spec, run, recorded)
    for part in sent_files(spec, run).values():
        message = f"{shown_part(part)} {why_asked(part, run)}, and is sent to the model"
        yield Problem(part.span, message, "lmm run asks for your consent", "warning")
    for edge in _agents_of(spec, recorded):
        for problem, certain in _below(edge, run, (str(path.resolve()),), edge.certain, set()):
            yield _report(problem, edge, certain)


def _problem(span: SourceRange, error: LmmError, severity: Severity = "error") -> Problem:
    return Problem(span, error.message, error.hint, severity)


# -- model and tools -------------------------------------------------------------------------------


def _model(spec: AgentSpec, configuration: Configuration, *, own: bool) -> Iterator[Problem]:
    try:
        model_settings(spec.config, configuration, own=own)
    except ConfigError as error:
        if error.where != spec.config.span.where:
            raise
        yield _problem(spec.config.span, error)


def _tools(spec: AgentSpec, run: Run) -> Iterator[Problem]:
    for tool in spec.tools:
        for severity, look in _looks(tool, run):
            try:
                look()
            except LmmError as error:
                yield _problem(tool.span, error, "warning" if isinstance(error, ToolNotAvailable) else severity)
                break


def _looks(tool: Tool, run: Run) -> Iterator[tuple[Severity, Callable[[], object]]]:
    """What is looked at, in order, and how bad it is: programs and variables may be there when it is run."""
    if tool.kind == "builtin" and tool.name:
        yield "error", lambda: kind_of(tool)
    if tool.kind == "builtin" and tool.roots:
        yield "error", lambda: roots_of(tool, run)
    if tool.kind == "command":
        if tool.command:
            yield "error", lambda: split_command(tool.command)
        yield "error", lambda: command_folder(tool, run)
        yield "warning", lambda: check_variables(tool, run)
        if tool.command:
            yield "warning", lambda: _find(split_command(tool.command)[0], run)
    if tool.kind == "mcp":
        if tool.server:
            yield "error", lambda: read_address(tool.server)
        yield "warning", lambda: check_variables(tool, run)
        yield "warning", check_installed
        if tool.server and (command := read_address(tool.server).command):
            yield "warning", lambda: _find(command[0], run)


def _find(name: str, run: Run) -> None:
    """See to it that a program is there, and may be run."""
    found = Path(find_program(name, run.folder, minimal_environment(run.environment)["PATH"]))
    if not found.is_file():
        raise LmmError(f"there is no program '{name}'", hint=f"it would be {found}")
    if not os.access(found, os.X_OK):
        raise LmmError(f"'{name}' is not executable", hint=f"chmod u+x {found}")


def _output(spec: AgentSpec, run: Run) -> Iterator[Problem]:
    if spec.output is not None:
        try:
            schema_of(spec, run)
            if spec.output.tool.command:
                split_command(spec.output.tool.command)
        except LmmError as error:
            yield _problem(spec.output.span, error)


# -- documents and images --------------------------------------------------------------------------


def _open(spec: AgentSpec, recorded: ExpansionRecord | None) -> Iterator[Occurrence]:
    """What the next run would read: of what was answered, only that which was not recorded."""
    for one in occurrences(spec.sent):
        if not (recorded and one.key and one.answered and recorded.find(one.key) is not None):
            yield one


def _contents(spec: AgentSpec, run: Run, recorded: ExpansionRecord | None = None) -> Iterator[Problem]:
    """Documents and images that cannot be had."""
    done: set[tuple[Expandable, bool]] = set()
    for one in _open(spec, recorded):
        for part in _inside(one.part):
            if not part.local or isinstance(part, SubAgent) or (part, bool(one.key)) in done:
                continue
            done.add((part, bool(one.key)))
            try:
                _read(part, run, stored=not one.key)
            except LmmError as error:
                yield _problem(part.span, with_place(error, part))


def _inside(part: Expandable) -> Iterator[Expandable]:
    """A part, and those in it that are read with it."""
    if not (isinstance(part, Img) and image_of(part) is not None):
        yield part
    if isinstance(part, SubAgent):
        for child in part.content:
            if not isinstance(child, str):
                yield from _inside(child)


def _read(part: Doc | Img, run: Run, *, stored: bool) -> None:
    """Read a part as a run does, short of turning it into markdown."""
    if Payloads(run.folder, inline=True).read(part) is not None:
        return
    if isinstance(part, Img):
        loop.run(read_img(part, run))
    elif stored:
        read_stored(part, run)
    else:
        raw = read_raw(part, run)
        if part.strip:
            strip_markup(raw)
        elif not part.markdown:
            plain_text(raw)


# -- agents ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Edge:
    """An agent that a file names; `certain` if it is asked in any case, not only if a model wants to."""

    src: str
    span: SourceRange
    certain: bool


def _agents_of(spec: AgentSpec, recorded: ExpansionRecord | None = None) -> Iterator[_Edge]:
    for one in _open(spec, recorded):
        for part in _inside(one.part):
            if isinstance(part, SubAgent) and part.local:
                yield _Edge(part.src, part.span, True)
    yield from (_Edge(tool.agent, tool.span, False) for tool in spec.tools if tool.kind == "agent" and tool.local)


def _below(
    edge: _Edge, run: Run, chain: tuple[str, ...], certain: bool, seen: set[str]
) -> Iterator[tuple[Problem, bool]]:
    """Why an agent, or one that it asks, cannot answer: with the place in its own file, and whether a run stops.

    Those in `seen` were looked at before.
    """
    try:
        path = locate(edge.src, run)
        if str(path) in chain:
            check_depth((*chain[chain.index(str(path)) :], str(path)), 0)
        if str(path) in seen:
            return
        spec = agent_in(edge.src, run)
    except LimitReached as error:
        hint = f"at most {run.rules.max_depth} deep: max_depth in [chatmd]"
        yield Problem(edge.span, error.message, hint), certain
    except LmmError as error:
        told = f"{error.where}: {error.message}" if error.where else error.message
        yield Problem(edge.span, told, error.hint), certain
    else:
        seen.add(str(path))
        inside = replace(run, folder=path.parent)
        own = (*_model(spec, run.configuration, own=False), *_tools(spec, inside), *_contents(spec, inside))
        yield from ((problem, certain) for problem in own if problem.severity == "error")
        for further in _agents_of(spec):
            yield from _below(further, inside, (*chain, str(path)), certain and further.certain, seen)


def _report(problem: Problem, edge: _Edge, certain: bool) -> Problem:
    """What is wrong below, told where the file itself names the agent."""
    message = problem.message
    if problem.span is not edge.span:
        message = f"{problem.span.where}: {message}"
    if not message.startswith(f"'{edge.src}'"):
        message = f"'{edge.src}': {message}"
    return Problem(edge.span, message, problem.hint, "error" if certain else "warning")


# -- all of it -----------------------------------------------------------------------------------------------


def check_text(text: str, path: Path, run: Run, *, strict: bool = False) -> list[Problem]:
    """`chatmd.check` for a text in `path`, its imports, and what it refers to: files, programs, agents, its model.

    Errors would keep `lmm run` from going on; the rest are warnings. What a run that broke off has left, the next one
    mends: that is a warning, and the mended text is what is checked.

    Raises:
        ConfigError: config.toml asks for something that we do not know.
    """
    name = run.chain[-1]
    document, torn = _mend(text, name)
    found = [*torn, *letter(document)] if strict else torn
    document = run.rules.imported(document)
    found += [*check(document), *surroundings(interpret(document)[0], path, run)]
    return sorted(found, key=lambda problem: (problem.span.file != name, problem.span.file, problem.span.start))


def _mend(text: str, name: str) -> tuple[SyntaxTree, list[Problem]]:
    """The document as the next run reads it, and what that run would say of it."""
    document = parse(text, file=name)
    repaired = repair(text) if (errors := _errors(document)) else None
    if repaired is None or _errors(mended := parse(repaired.text, file=name)) >= errors:
        return document, []
    pairs = enumerate(zip(text, repaired.text, strict=False))
    at = next((n for n, (was, is_now) in pairs if was != is_now), min(len(text), len(repaired.text)))
    span = SourceRange(document.source, at, len(text))
    note = Problem(span, f"a run was interrupted here: {repaired.notes[0]}", "by the next lmm run", "warning")
    return mended, [note]


def _errors(document: SyntaxTree) -> int:
    return len(errors_of((*document.problems, *interpret(document)[1])))
