"""Render the request that `lmm run` would send for a file, without sending it."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from chatmd.call_texts import call_in_words
from chatmd.content.documents import describe_image
from chatmd.content.expand import expansions, shown_part
from chatmd.context import AgentRequest, AskAgent, Run, model_settings, model_warnings, settings_of
from chatmd.language.agent import MessageItem, SubAgent, fill, read_agent
from chatmd.language.lint import UNSEEN, find_unseen, problem_line
from chatmd.language.nodes import Element, Node, Text
from chatmd.language.syntax import parse, serialize
from chatmd.language.transcript import image_element, messages_of, repair
from chatmd.runtime.runner import agree
from chatmd.runtime.turns import schema_of, with_inputs, with_shown
from chatmd.sidecar import ExpansionRecord, Payloads
from chatmd.tools.calling import offered_by
from lmm.messages import Image, Message, ToolDefinition, message_parts, message_texts
from lmm.models.tokens import count_tokens, window_of

# -- A request for a model: as values, as text for people, and as data for programs ---------------------------


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message, and the tokens of its texts; the tokens of images depend on the provider, and are not counted."""

    message: Message
    tokens: int


@dataclass(frozen=True, slots=True)
class RenderedTool:
    """A tool as models get it, and the tokens of its name, description and schema."""

    definition: ToolDefinition
    tokens: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """The next request of `lmm run` to `model`, whose context window has `window` tokens.

    `notes` name differences from the real request, and what is not known.
    """

    model: str
    messages: tuple[RenderedMessage, ...] = field(repr=False)
    tools: tuple[RenderedTool, ...] = field(default=(), repr=False)
    window: int = 0
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The tokens of messages and tools together."""
        return sum(one.tokens for one in self.messages) + sum(one.tokens for one in self.tools)


# -- as text -----------------------------------------------------------------------------------------------


def as_text(rendered: Rendered) -> str:
    """Show all messages, each after a line with its role and the number of its tokens.

    >>> print(as_text(Rendered("A/b", (RenderedMessage(Message("user", "Hello"), 1),), window=8)), end="")
    ── user ── 1 token
    Hello
    ── A/b ── 1 token of 8
    """
    lines: list[str] = []
    for one in rendered.messages:
        lines.append(f"── {one.message.role} ── {_tokens(one.tokens)}")
        lines += _body(one.message)
    if rendered.tools:
        lines.append(f"── tools ── {_tokens(sum(tool.tokens for tool in rendered.tools))}")
        lines.append(", ".join(tool.definition.name for tool in rendered.tools))
    lines.append(_total(rendered))
    return "".join(f"{line}\n" for line in lines)


def _total(rendered: Rendered) -> str:
    window = f" of {rendered.window:,}" if rendered.window else ""
    return f"── {rendered.model} ── {_tokens(rendered.tokens)}{window}"


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def _body(message: Message) -> Iterator[str]:
    for thought in message.reasoning:
        whose = f" of {thought.provider}" if thought.provider else ""
        yield f"[thought{whose}, which only its own provider gets] {thought.text}"
    for part in message_parts(message):
        yield part if isinstance(part, str) else f"[{describe_image(part)}]"
    for call in message.calls:
        words = call_in_words(call) if "\\n" in call.arguments else f"{call.name} {call.arguments}"
        yield f"[call {call.id}] {words}"
    for result in message.results:
        yield f"[{'failure' if result.failed else 'result'} of {result.call}] {result.name}"
        yield result.text
        yield from (f"[{describe_image(image)}]" for image in result.images)


# -- as data -----------------------------------------------------------------------------------------------


def as_data(rendered: Rendered) -> dict[str, Any]:
    """Return all of it as values for JSON, with images in base64."""
    messages, tools = list[dict[str, Any]](), list[dict[str, Any]]()
    for message, tokens in ((one.message, one.tokens) for one in rendered.messages):
        more = {"reasoning": message.reasoning, "calls": message.calls, "results": message.results}
        content = {} if message.role == "tool" else {"content": list(message_parts(message))}
        parts = {name: values for name, values in more.items() if values}
        messages.append({"role": message.role, "tokens": tokens, **content, **parts})
    for tool in rendered.tools:
        parameters = dict(tool.definition.parameters)
        about = {"name": tool.definition.name, "description": tool.definition.description, "parameters": parameters}
        tools.append({"tokens": tool.tokens, **about})
    whole = {"model": rendered.model, "tokens": rendered.tokens, "window": rendered.window}
    values: dict[str, Any] = msgspec.to_builtins(
        whole | {"messages": messages, "tools": tools, "notes": rendered.notes}
    )
    return values


# -- from a text ------------------------------------------------------------------------------------------------


async def render_text(text: str, path: Path, run: Run, *, run_agents: bool = False, servers: bool = False) -> Rendered:
    """Render the next request for a text that is, or could be, in `path`; see `chatmd.Chat.render`."""
    text = with_inputs(text, run)
    if run_agents or servers or run.with_outside(text).outside:
        run = await asyncio.to_thread(agree, run, text)
    whole, notes, _ = repair(text)
    document = run.rules.imported(parse(whole, file=run.chain[-1]))
    spec = read_agent(document)
    notes = (*notes, *(problem_line(one, UNSEEN) for one in find_unseen(document)), *map(problem_line, spec.unset))
    settings, unasked = model_settings(spec.config, run.configuration), list[str]()
    notes = (*notes, *(message for _, message in model_warnings(settings, spec, run)))
    ask = run.ask if run_agents else _unasked(unasked)
    run = replace(run, settings=settings_of(spec.config, run.configuration), ask=ask)
    recorded = ExpansionRecord(path, only=run.options.replay, writable=False)
    known = await expansions(spec.sent, run, recorded, Payloads(run.folder, inline=True))
    messages = [
        RenderedMessage(one, sum(map(count_tokens, message_texts(one))))
        for one in with_shown(messages_of(spec.sent, expand=known.__getitem__), schema_of(spec, run))
    ]
    offers = await offered_by(spec, run, servers=servers)
    tools = [one for offer in offers for one in offer.definitions]
    if spec.waits_for_user:
        notes = (*notes, "it is the user's turn: lmm run would send nothing")
    agents = (part for item in spec.items if isinstance(item, MessageItem) for part in item.content)
    missing = (part for part in agents if isinstance(part, SubAgent) and part.src in unasked)
    reason = "was not asked yet (--run-agents asks it)"
    notes = (*notes, *(f"{part.span.where}: {shown_part(part)} {reason}" for part in missing))
    notes += tuple(f"{offer.declared.span.where}: {offer.problem}" for offer in offers if offer.problem)
    uncounted = "the tools of this server are not counted (use --servers)"
    notes += tuple(f"{offer.declared.span.where}: {uncounted}" for offer in offers if not offer.opened)
    schemas = [(one, json.dumps(one.parameters, ensure_ascii=False)) for one in tools]
    counted = [RenderedTool(one, count_tokens(f"{one.name}\n{one.description}\n{schema}")) for one, schema in schemas]
    window = (await window_of(settings)).tokens
    return Rendered(str(settings.model), tuple(messages), tuple(counted), window, notes)


def _unasked(sources: list[str]) -> AskAgent:
    """Return a function that replaces the answers of agents by a note, and adds them to `sources`."""

    async def ask(run: Run, request: AgentRequest) -> str:
        sources.append(request.src)
        return f"[the answer of the agent {request.src}, which was not asked yet]"

    return ask


# -- a transcript in one file ----------------------------------------------------------------------------------


async def self_contained(text: str, path: Path, run: Run) -> str:
    """Return a transcript that contains all its messages refer to or import, so that it can be continued elsewhere.

    Agents in messages that were not asked yet stay as they are, and so do the files that tools and `<output>` name.

    Raises: as `render_text`.
    """
    text = with_inputs(text, run)
    if run.with_outside(text).outside:
        run = await asyncio.to_thread(agree, run, text)
    document = run.rules.imported(parse(repair(text).text, file=run.chain[-1]))
    spec, unasked = read_agent(document), list[str]()
    run = replace(run, settings=settings_of(spec.config, run.configuration), ask=_unasked(unasked))
    recorded = ExpansionRecord(path, only=run.options.replay, writable=False)
    known = await expansions(spec.items, run, recorded, Payloads(run.folder, inline=True))
    values = {
        (part.span.file, part.span.start): known[part]
        for part in known
        if not (isinstance(part, SubAgent) and part.src in unasked)
    }
    inputs = {one.name: one.value for one in spec.inputs if one.value is not None}
    return serialize(_with_contents(node, values, inputs) for node in document.children)


def _with_contents(node: Node, values: Mapping[tuple[str, int], str | Image], inputs: Mapping[str, str]) -> Node:
    """Replace references in a node by their contents."""
    if not isinstance(node, Element):
        return node
    value = values.get((node.span.file, node.span.start))
    if isinstance(value, str):
        return Text(value, raw=True)
    if value is not None:
        return image_element(value)
    children = tuple(_with_contents(child, values, inputs) for child in node.children)
    if all(map(operator.is_, children, node.children)):
        return node
    merged: list[Node] = []
    for child in children:
        if isinstance(child, Text):
            last = merged.pop() if merged and isinstance(merged[-1], Text) else Text("")
            child = Text(getattr(last, "value", "") + fill(child, inputs).value, raw=True)
        merged.append(child)
    return Element(node.tag, tuple(one for one in node.attributes if one.name != "record"), tuple(merged))
