"""What `lmm run` would send for a file, without sending it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chatmd.content.expand import expansions, shown_part
from chatmd.content.occurrences import occurrences
from chatmd.content.recorded import Recorded
from chatmd.language.agent import read_agent
from chatmd.language.items import AgentSpec, MessageItem, SubAgent
from chatmd.language.parser import parse
from chatmd.language.transcript import messages_of
from chatmd.rendering.rendered import Rendered, RenderedMessage, RenderedTool, texts_of
from chatmd.runtime.models import model_settings, settings_of
from chatmd.runtime.options import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.payloads import Payloads
from chatmd.runtime.repair import repair
from chatmd.tools.offered import offered_by
from chatmd.workplace import AgentRequest, Workplace
from lmm import loop
from lmm.disk.files import read_document
from lmm.messages import ToolDefinition
from lmm.models.tokens import count_tokens


def render(
    path: str | Path,
    options: RunOptions = RunOptions(),
    hooks: Hooks = Hooks(),
    *,
    run_agents: bool = False,
    servers: bool = False,
) -> Rendered:
    """What a model would get next for a ChatMD file; nothing is sent to it, and nothing is written.

    Documents are read, or fetched, as for a run; what was recorded is not. Agents whose answers were not recorded are
    asked only with `run_agents`, the tools of MCP servers only with `servers`; else the notes tell what is missing.

    Raises:
        InvalidDocument: the file has errors.
        ChatmdError: something that a message refers to cannot be had.
        ConsentNeeded: agents or servers should be asked, and nobody agreed to what tools can do.
        DocumentError, ConfigError: the file cannot be read; its model or a setting is unknown.
    """
    text = read_document(Path(path))
    return loop.run(render_text(text, Path(path), options, hooks, run_agents=run_agents, servers=servers))


async def arender(
    path: str | Path,
    options: RunOptions = RunOptions(),
    hooks: Hooks = Hooks(),
    *,
    run_agents: bool = False,
    servers: bool = False,
) -> Rendered:
    """`render` for callers with an event loop."""
    text = await asyncio.to_thread(read_document, Path(path))
    return await loop.run_async(render_text(text, Path(path), options, hooks, run_agents=run_agents, servers=servers))


async def render_text(
    text: str, path: Path, options: RunOptions, hooks: Hooks, *, run_agents: bool = False, servers: bool = False
) -> Rendered:
    """`render` for a text that stands, or could stand, in `path`."""
    folder = path.resolve().parent
    tree = tree_for(path, folder, options, hooks)
    if run_agents or servers:
        tree = await asyncio.to_thread(agreed, tree, text, str(path), folder, options, hooks)
    whole, notes = repair(text)
    spec = read_agent(tree.rules.imported(parse(whole, file=str(path))))
    settings = model_settings(spec.config, tree.configuration)
    unasked = _Unasked()
    ask = partial(tree.ask, tree, (str(path),)) if run_agents else unasked.ask
    everything = settings_of(spec.config, tree.configuration)
    place = Workplace(folder, everything, ask, tree.rules, tree.environment, tree.protected)
    messages = await _messages(spec, place, Recorded(path, only=options.replay, keeps=False))
    tools, missing = await _tools(spec, place, servers)
    if spec.waits_for_user:
        notes = (*notes, "it is the user's turn: lmm run would send nothing")
    return Rendered(
        str(settings.model), messages, tools, settings.context_window, (*notes, *unasked.notes(spec), *missing)
    )


async def _messages(spec: AgentSpec, place: Workplace, recorded: Recorded) -> tuple[RenderedMessage, ...]:
    items = [item for item in spec.items if not (isinstance(item, MessageItem) and item.is_blank)]
    parts = [found.part for found in occurrences(items)]
    stored = await asyncio.to_thread(Payloads(place.folder, inline=True).read, parts)
    known = await expansions(items, place, recorded, stored)
    messages = messages_of(items, expand=known.__getitem__)
    return tuple(RenderedMessage(one, sum(count_tokens(text) for text in texts_of(one))) for one in messages)


async def _tools(spec: AgentSpec, place: Workplace, servers: bool) -> tuple[tuple[RenderedTool, ...], tuple[str, ...]]:
    """The tools, and notes about those that are not known."""
    offers = await offered_by(spec, place, servers=servers)
    tools = tuple(RenderedTool(one, _tokens(one)) for offer in offers for one in offer.definitions)
    notes = [f"{offer.declared.span.where}: {offer.problem}" for offer in offers if offer.problem]
    notes += [
        f"{offer.declared.span.where}: the tools of this server are not counted (--servers asks it for them)"
        for offer in offers
        if not offer.opened
    ]
    return tools, tuple(notes)


def _tokens(tool: ToolDefinition) -> int:
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return count_tokens(f"{tool.name}\n{tool.description}\n{schema}")


@dataclass(slots=True)
class _Unasked:
    """Stands in for agents that are not asked: it says so where their answer would be."""

    sources: list[str] = field(default_factory=list)

    async def ask(self, request: AgentRequest) -> str:
        self.sources.append(request.src)
        return f"[here would be the answer of the agent {request.src}, which was not asked yet]"

    def notes(self, spec: AgentSpec) -> tuple[str, ...]:
        """Where answers are missing."""
        places = [
            part
            for item in spec.items
            if isinstance(item, MessageItem)
            for part in item.content
            if isinstance(part, SubAgent) and part.src in self.sources
        ]
        return tuple(
            f"{part.span.where}: {shown_part(part)} was not asked yet (--run-agents asks it)" for part in places
        )
