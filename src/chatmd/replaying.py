"""A transcript as a test: where today's documents, tools and results are not those that it tells of.

No model is asked, no server called, no program run: the model's replies are the transcript's. Tools that only read,
and that nobody has to agree to, are called again; what others returned is taken from the transcript.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

from chatmd.content.expand import read_doc, read_img, read_stored
from chatmd.context import Run, ask_nobody, settings_of
from chatmd.language.agent import AgentSpec, CallItem, Content, Doc, OutputItem, SubAgent, read_agent
from chatmd.language.nodes import Problem
from chatmd.language.repair import repair
from chatmd.language.transcript import answer_of, parse_cached
from chatmd.runtime.output import schema_of, value_in
from chatmd.sidecar import ExpansionRecord, Payloads, occurrences
from chatmd.tools.calling import OpenTool, ToolCaller, misfit, open_tools
from chatmd.tools.command import scrubber
from chatmd.tools.consent import own_declarations
from chatmd.tools.registry import kind_of
from lmm.errors import LmmError
from lmm.messages import ToolCall, ToolResult
from lmm.models.structured import Mismatch, NoJson

_SHOWN = 60  # characters of a line that differs
_ACCEPT = "if this is intended, rewind the conversation and run it again"
_OWN = "a call of this conversation may have changed it"


async def differences(text: str, path: Path, run: Run) -> list[Problem]:
    """Where a run today would not be the one that a transcript tells of.

    Raises:
        InvalidDocument: it has errors.
    """
    name = run.chain[-1]
    spec = read_agent(run.rules.imported(parse_cached(repair(text, name).text, name)))
    run = replace(run, settings=settings_of(spec.config, run.configuration), ask=ask_nobody, skip_missing_tools=True)
    found = [one async for one in _documents(spec, run, ExpansionRecord(path, keeps=False))]
    async with AsyncExitStack() as stack:
        found += [one async for one in _calls(spec, run, stack)]
    with contextlib.suppress(LmmError):  # lmm check tells
        schema = schema_of(spec, run)
        try:
            if schema is not None and (answer := answer_of(spec.sent)):
                value_in(answer, schema)
        except (Mismatch, NoJson) as error:
            assert spec.output is not None
            found.append(Problem(spec.output.span, f"the last reply no longer fits the schema: {error}", _ACCEPT))
    return found


async def _documents(spec: AgentSpec, run: Run, recorded: ExpansionRecord) -> AsyncIterator[Problem]:
    """Local documents and images that were recorded, and hold something else now."""
    for one in occurrences(spec.sent):
        part = one.part
        was = recorded.find(one.key) if one.key and one.answered and part.local else None
        if was is None or isinstance(part, SubAgent):
            continue
        try:
            now = await (read_doc(part, run) if isinstance(part, Doc) else read_img(part, run))
        except LmmError as error:
            yield Problem(part.span, f"'{part.src}' is no longer available: {error.message}", error.hint)
            continue
        if now != was:
            shown = _first_difference(was, now) if isinstance(was, str) and isinstance(now, str) else ""
            yield Problem(part.span, f"'{part.src}' has changed{shown}", _ACCEPT)


async def _calls(spec: AgentSpec, run: Run, stack: AsyncExitStack) -> AsyncIterator[Problem]:
    """Tools that cannot be had, but for servers, and what calls would be refused today, or return something else."""
    opened = await open_tools([], run, stack)  # Python's: what they do is not known
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
        if tools and kind_of(tool).powers == {"read"} and not declaration.asks:
            reads |= tools.keys()
    calls = [item for item in spec.items if isinstance(item, CallItem)]
    outputs = {item.call: item for item in spec.items if isinstance(item, OutputItem)}
    # What was changed meanwhile, by a tool of this very run, reads otherwise.
    severity: Literal["error", "warning"] = "warning" if {one.name for one in calls} - reads else "error"
    servers = any(tool.kind == "mcp" for tool in spec.tools)
    caller = ToolCaller(opened, scrub=scrubber(spec, run))
    for call in calls:
        output = outputs.get(call.call)
        if output is None or (call.name not in opened and servers):
            continue
        arguments = _text(call.arguments, run)
        if not output.failed and (problem := _refusal(call, opened.get(call.name), arguments)):
            yield problem
        elif call.name in reads:
            results: dict[int, ToolResult] = {}
            await caller.call([ToolCall(call.call, call.name, arguments)], results)
            was, now = _text(output.content, run), results[0].text
            if now != was:
                message = f"{call.name} returns something else today{_first_difference(was, now)}"
                yield Problem(output.span, message, _ACCEPT if severity == "error" else _OWN, severity)


def _refusal(call: CallItem, known: OpenTool | None, text: str) -> Problem | None:
    """Why a call that was made would be refused today."""
    if known is None:
        hint = "declare it, or in Python pass the function: tools=[…]"
        return Problem(call.span, f"there is no longer a tool '{call.name}'", hint)
    try:
        arguments = getattr(known.tool, "read_arguments", json.loads)(text.strip() or "{}")
    except (ValueError, RecursionError):
        arguments = None
    wrong = misfit(known.tool, arguments) if isinstance(arguments, Mapping) else "they are not JSON"
    message = f"{call.name} now refuses these arguments: {wrong}"
    return Problem(call.span, message, "its schema has changed") if wrong else None


def _text(content: Content, run: Run) -> str:
    stored = Payloads(run.folder, inline=True)
    texts = []
    for part in content:
        value = part if isinstance(part, str) else stored.read(part)
        value = read_stored(part, run) if value is None and isinstance(part, Doc) else value
        texts.append(value if isinstance(value, str) else "")
    return "".join(texts)


def _first_difference(was: str, now: str) -> str:
    """Where two texts differ first.

    >>> _first_difference("a\\nb", "a\\nc")
    ": 'c', not 'b', on line 2"
    """
    before, after = was.splitlines(), now.splitlines()
    at = next((n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return f": {len(after)} lines, not {len(before)}"
    return f": '{after[at][:_SHOWN]}', not '{before[at][:_SHOWN]}', on line {at + 1}"
