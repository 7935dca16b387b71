"""Find the problems of a file that can be found without asking a model, a server or a program.

For a transcript, also find where a run today would differ from the recorded one (`differences`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from chatmd.content.documents import plain_text, strip_markup
from chatmd.content.expand import locate, read_doc, read_img, read_raw, read_stored, shown_part, with_place
from chatmd.context import Run, ask_nobody, model_settings, model_warnings, settings_of
from chatmd.errors import LimitReached, ToolNotAvailable
from chatmd.language.agent import (
    AgentSpec,
    CallItem,
    Content,
    Doc,
    Expandable,
    Img,
    MessageItem,
    OutputItem,
    SubAgent,
    Tool,
    answers_in,
    interpret,
    parts_in,
    read_agent,
)
from chatmd.language.lint import check
from chatmd.language.nodes import Problem, SourceRange
from chatmd.language.syntax import errors_of, parse
from chatmd.language.transcript import answer_of, parse_cached, repair
from chatmd.runtime.runner import check_depth
from chatmd.runtime.turns import schema_of, value_in
from chatmd.sidecar import ExpansionRecord, Payloads, occurrences, places
from chatmd.tools.calling import ToolCaller, agent_in, fit_arguments, open_tools, read_arguments
from chatmd.tools.command import (
    check_variables,
    command_folder,
    find_program,
    minimal_environment,
    scrubber,
    split_command,
)
from chatmd.tools.consent import own_declarations, sent_files, why_asked
from chatmd.tools.mcp import check_sdk, read_address
from chatmd.tools.registry import kind_of
from chatmd.tools.roots import roots_of
from lmm import loop
from lmm.errors import ConfigError, LmmError
from lmm.messages import ToolCall, ToolResult
from lmm.models.structured import Mismatch, NoJson

# -- References of a document that are not available: its model, tools, documents, images and agents ----------
#
# Errors come from the code that a run uses. No program is started, nothing is fetched, no model is asked.


Severity = Literal["error", "warning"]


_NAME, _ID = re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[!-~]{1,64}")


def _unsendable(spec: AgentSpec) -> Iterator[Problem]:
    """Report messages that no model's server takes, so that the conversation could never go on."""
    for number, call in enumerate(spec.items):
        if not isinstance(call, CallItem):
            continue
        if not _NAME.fullmatch(call.name):
            hint = "a name has at most 64 letters, digits, _ and -: correct it here and in the result"
            yield Problem(call.span, f"no model's server takes a function named '{call.name}'", hint)
        if not _ID.fullmatch(call.call):
            hint = "an id has at most 64 characters, without white space: correct it here and in the result"
            yield Problem(call.span, f"no model's server takes a call with the id '{call.call}'", hint)
        answer = answers_in(spec.items).get(number, number)
        for item in spec.items[number:answer]:
            if isinstance(item, MessageItem) and not item.is_blank:
                message = (
                    f"this message stands between the call '{call.call}' and its result, which no model's server takes"
                )
                yield Problem(item.span, message, "move it below the result")


def _problem(span: SourceRange, error: LmmError, severity: Severity = "error") -> Problem:
    return Problem(span, error.message, error.hint, severity)


# -- model and tools -------------------------------------------------------------------------------


def _model(spec: AgentSpec, run: Run, *, own: bool) -> Iterator[Problem]:
    try:
        settings = model_settings(spec.config, run.configuration, own=own)
    except ConfigError as error:
        if error.where != spec.config.span.where:
            raise
        yield _problem(spec.config.span, error)
        return
    for span, message in model_warnings(settings, spec, run):
        yield Problem(span, message, 'choose another model: --model, config.toml, <config model="…"/>', "warning")


def _tools(spec: AgentSpec, run: Run) -> Iterator[Problem]:
    for tool in spec.tools:
        for severity, run_check in _tool_checks(tool, run):
            try:
                run_check()
            except LmmError as error:
                yield _problem(tool.span, error, "warning" if isinstance(error, ToolNotAvailable) else severity)
                break


def _tool_checks(tool: Tool, run: Run) -> Iterator[tuple[Severity, Callable[[], object]]]:
    """Iterate over the checks of a tool, with their severity: programs and variables may be there when it is run."""
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
    if tool.kind == "agent" and "://" in tool.agent:
        yield "warning", lambda: run.rules.fetching.check(tool.agent)
    if tool.kind == "mcp":
        if tool.server:
            yield "error", lambda: read_address(tool.server)
        yield "warning", lambda: check_variables(tool, run)
        yield "warning", check_sdk
        if tool.server and (command := read_address(tool.server).command):
            yield "error", lambda: command_folder(tool, run)
            yield "warning", lambda: _find(command[0], run)


def _find(name: str, run: Run) -> None:
    """Raise an error unless a program exists and is executable."""
    found = Path(find_program(name, run.folder, minimal_environment(run.environment)["PATH"]))
    if not found.is_file():
        raise LmmError(f"there is no program '{name}'", hint=f"it would be {found}")
    if not os.access(found, os.X_OK):
        raise LmmError(f"'{name}' is not executable", hint=f"chmod u+x {found}")


# -- documents and images --------------------------------------------------------------------------


def _open(spec: AgentSpec, recorded: ExpansionRecord | None) -> Iterator[tuple[Expandable, bool]]:
    """Iterate over the parts that the next run would read, and whether a run stored them; recorded ones are skipped."""
    for one in occurrences(spec.sent):
        if not (recorded and one.key and one.answered and recorded.find(one.key) is not None):
            yield from ((part, not one.key) for part in parts_in((one.part,)))


def _contents(spec: AgentSpec, run: Run, recorded: ExpansionRecord | None = None) -> Iterator[Problem]:
    """Report documents and images that cannot be read, and URLs that would not be fetched."""
    done: set[tuple[Expandable, bool]] = set()
    for part, stored in _open(spec, recorded):
        if isinstance(part, SubAgent if part.local else Img) or (part, stored) in done:
            continue
        done.add((part, stored))
        try:
            if not part.local or isinstance(part, SubAgent):
                if "://" in part.src:
                    run.rules.fetching.check(part.src)
            elif Payloads(run.folder, inline=True).read(part) is not None:
                pass
            elif isinstance(part, Img):
                loop.run(read_img(part, run))
            elif stored:
                read_stored(part, run)
            else:  # as a run reads it, but not converted to markdown
                raw = read_raw(part, run)
                if part.strip or not part.markdown:
                    (strip_markup if part.strip else plain_text)(raw)
        except LmmError as error:
            yield _problem(part.span, with_place(error, part))


# -- agents ----------------------------------------------------------------------------------------


class _Edge(NamedTuple):
    """An agent that a file names, and where; and whether it is always asked, not only if a model calls it."""

    src: str
    span: SourceRange
    certain: bool


def _agents_of(spec: AgentSpec, recorded: ExpansionRecord | None = None) -> Iterator[_Edge]:
    for part, _ in _open(spec, recorded):
        if isinstance(part, SubAgent) and part.local:
            yield _Edge(part.src, part.span, True)
    yield from (_Edge(tool.agent, tool.span, False) for tool in spec.tools if tool.kind == "agent" and tool.local)


def _below(edge: _Edge, run: Run, chain: tuple[str, ...], certain: bool, seen: set[str]) -> Iterator[Problem]:
    """Report why an agent, or one that it asks, cannot answer, at the place in its file; errors would stop a run.

    Agents in `seen` were already checked.
    """
    severity: Severity = "error" if certain else "warning"
    src, span, _ = edge
    try:
        path = locate(src, run)
        if str(path) in chain:
            check_depth((*chain[chain.index(str(path)) :], str(path)), 0)
        if str(path) in seen:
            return
        spec = agent_in(src, run)
    except LimitReached as error:
        hint = f"at most {run.rules.max_depth} deep: max_depth in [chatmd]"
        yield Problem(span, error.message, hint, severity)
    except LmmError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        yield Problem(span, message, error.hint, severity)
    else:
        seen.add(str(path))
        inside = replace(run, folder=path.parent)
        model = list(_model(spec, run, own=False))
        yield from (problem for problem in model if problem.severity == "warning")
        own = (*model, *_tools(spec, inside), *_contents(spec, inside))
        yield from (replace(problem, severity=severity) for problem in errors_of(own))
        for further in _agents_of(spec):
            yield from _below(further, inside, (*chain, str(path)), certain and further.certain, seen)


# -- all checks of a text ------------------------------------------------------------------------------------


def check_text(text: str, path: Path, run: Run) -> list[Problem]:
    """`chatmd.check` for a text in `path`, its imports, and what it refers to: files, programs, agents, its model.

    Errors would stop `lmm run`; all other problems are warnings.

    Raises:
        ConfigError: config.toml contains an unknown value.
    """
    name, recorded = run.chain[-1], ExpansionRecord(path, writable=False)
    document = run.rules.imported(parse(text, file=name))
    spec, _ = interpret(document)
    found = [*check(document), *_unsendable(spec), *_model(spec, run, own=True), *_tools(spec, run)]
    if spec.output is not None:
        try:
            schema_of(spec, run)
            if spec.output.tool.command:
                split_command(spec.output.tool.command)
        except LmmError as error:
            found.append(_problem(spec.output.span, error))
    found += _contents(spec, run, recorded)
    for part in sent_files(spec, run).values():
        message = f"{shown_part(part)} {why_asked(part, run)}, and is sent to the model"
        found.append(Problem(part.span, message, "lmm run asks for your consent", "warning"))
    for edge in _agents_of(spec, recorded):
        for problem in _below(edge, run, (str(path.resolve()),), edge.certain, set()):
            message = problem.message if problem.span is edge.span else f"{problem.span.where}: {problem.message}"
            if not message.startswith(f"'{edge.src}'"):
                message = f"'{edge.src}': {message}"
            found.append(Problem(edge.span, message, problem.hint, problem.severity))
    return sorted(found, key=lambda problem: (problem.span.file != name, problem.span.file, problem.span.start))


# -- A transcript as a test: compare today's documents, tools and results with the recorded ones -----------


_SHOWN = 60  # characters that are shown of a line that differs
_ACCEPT = "if this is intended, rewind the conversation and run it again"
_OWN = "a call of this conversation may have changed it"


async def differences(text: str, path: Path, run: Run) -> list[Problem]:
    """Report where a run today would differ from the transcript.

    No model is asked, no server called, no program run: the model's replies are the transcript's. Tools that only
    read and need no consent are called again; the results of others are taken from the transcript.

    Raises:
        InvalidDocument: the transcript has errors.
    """
    name = run.chain[-1]
    spec = read_agent(run.rules.imported(parse_cached(repair(text, name).text, name)))
    run = replace(run, settings=settings_of(spec.config, run.configuration), ask=ask_nobody)
    run = run.with_options(skip_missing_tools=True)
    found = [one async for one in _documents(spec, run, ExpansionRecord(path, writable=False))]
    async with AsyncExitStack() as stack:
        found += [one async for one in _calls(spec, run, stack)]
    with contextlib.suppress(LmmError):  # lmm check reports it
        schema = schema_of(spec, run)
        try:
            if schema is not None and (answer := answer_of(spec.sent)):
                value_in(answer, schema)
        except (Mismatch, NoJson) as error:
            assert spec.output is not None
            found.append(Problem(spec.output.span, f"the last reply no longer fits the schema: {error}", _ACCEPT))
    return found


async def _documents(spec: AgentSpec, run: Run, recorded: ExpansionRecord) -> AsyncIterator[Problem]:
    """Report recorded local documents and images that have changed."""
    answered = (one for one in occurrences(spec.sent) if one.key and one.answered)
    for part, key in (place for one in answered for place in places(one.part, one.key)):
        was = recorded.find(key) if part.local else None
        if was is None or isinstance(part, SubAgent):
            continue
        try:
            now = await (read_doc(part, run) if isinstance(part, Doc) else read_img(part, run))
        except LmmError as error:
            yield Problem(part.span, f"'{part.src}' is no longer available: {error.message}", error.hint)
            continue
        if now != was:
            difference = _first_difference(was, now) if isinstance(was, str) and isinstance(now, str) else ""
            yield Problem(part.span, f"'{part.src}' has changed{difference}", _ACCEPT)


async def _calls(spec: AgentSpec, run: Run, stack: AsyncExitStack) -> AsyncIterator[Problem]:
    """Report unavailable tools, except servers, and calls that would be refused today or return something else."""
    opened = await open_tools([], run, stack)  # Python functions: their effects are not known
    reads, alone = set[str](), replace(run, functions=())
    for tool, declaration in zip(spec.tools, own_declarations(spec, run).declarations, strict=False):
        if tool.kind == "mcp":
            continue
        try:
            tools = await open_tools([tool], alone, stack)
        except LmmError as error:
            yield Problem(tool.span, error.message, error.hint)
            continue
        opened |= tools
        if tools and kind_of(tool).powers == {"read"} and not declaration.needs_consent:
            reads |= tools.keys()
    calls = [item for item in spec.items if isinstance(item, CallItem)]
    # Files that a tool of the recorded run itself changed later differ now.
    severity: Literal["error", "warning"] = "warning" if {one.name for one in calls} - reads else "error"
    servers = any(tool.kind == "mcp" for tool in spec.tools)
    caller = ToolCaller(opened, scrub=scrubber(spec, run))
    for number, answer in sorted(answers_in(spec.items).items()):
        call, output = spec.items[number], spec.items[answer]
        assert isinstance(call, CallItem)
        assert isinstance(output, OutputItem)
        if call.name not in opened and servers:
            continue
        arguments, known, problem = _text(call.arguments, run), opened.get(call.name), None
        if known is None:
            hint = "declare it, or in Python pass the function: tools=[…]"
            problem = Problem(call.span, f"there is no longer a tool '{call.name}'", hint)
        else:
            wrong = "They are not JSON."
            with contextlib.suppress(ValueError, RecursionError):
                parsed = read_arguments(known.tool, arguments.strip())
                wrong = fit_arguments(known.tool, parsed)[1] if isinstance(parsed, Mapping) else wrong
            if wrong:
                problem = Problem(call.span, f"{call.name} now refuses this call: {wrong}", "its schema has changed")
        if problem and not output.failed:
            yield problem
        elif call.name in reads:
            results: dict[int, ToolResult] = {}
            await caller.call([ToolCall(call.call, call.name, arguments)], results)
            was, now = _text(output.content, run), results[0].text
            if now != was:
                message = f"{call.name} returns something else today{_first_difference(was, now)}"
                yield Problem(output.span, message, _ACCEPT if severity == "error" else _OWN, severity)


def _text(content: Content, run: Run) -> str:
    stored, texts = Payloads(run.folder, inline=True), []
    for part in content:
        value = part if isinstance(part, str) else stored.read(part)
        value = read_stored(part, run) if value is None and isinstance(part, Doc) else value
        texts.append(value if isinstance(value, str) else "")
    return "".join(texts)


def _first_difference(was: str, now: str) -> str:
    """Describe the first difference between two texts.

    >>> _first_difference("a\\nb", "a\\nc")
    ": 'c', not 'b', on line 2"
    """
    before, after = was.splitlines(), now.splitlines()
    at = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return f": {len(after)} lines, not {len(before)}"
    return f": '{after[at][:_SHOWN]}', not '{before[at][:_SHOWN]}', on line {at + 1}"
