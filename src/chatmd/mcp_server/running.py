"""Run the prompt files that a server publishes; they stay as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chatmd.content.expand import expansions
from chatmd.errors import ChatmdError
from chatmd.language.agent import read_agent
from chatmd.language.items import Item, MessageItem
from chatmd.language.parser import parse
from chatmd.language.transcript import messages_of
from chatmd.mcp_server.library import LONGEST_INPUT
from chatmd.runtime.models import settings_of
from chatmd.runtime.options import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.step import gap, user_text
from chatmd.runtime.tree import Tree
from chatmd.workplace import AgentRequest, Workplace
from lmm.disk.files import read_document
from lmm.messages import Message


@dataclass(frozen=True, slots=True)
class PromptRunner:
    """Runs prompt files under `options`: each call is a run of its own, with all its limits. Nobody can be asked about
    what they do: without ``options.yes``, what their user agreed to before counts, whichever way they are called."""

    options: RunOptions = field(default_factory=RunOptions)
    hooks: Hooks = field(default_factory=Hooks)

    async def run(self, path: Path, input: str) -> str:
        """The answer to `input`; see `chatmd.mcp_server.library.Runner`."""
        tree, _ = await asyncio.to_thread(self._agreed, path, input)
        async with asyncio.timeout(self.options.timeout):
            return await tree.ask(tree, (), AgentRequest(path.name, True, path.parent, (input,)))

    async def messages(self, path: Path, input: str) -> Sequence[Message]:
        """What its model would get, documents and images in place; see `chatmd.mcp_server.library.Runner`."""
        tree, text = await asyncio.to_thread(self._agreed, path, input)
        text += gap(text) + user_text(input) if input.strip() else ""
        spec = read_agent(tree.rules.imported(parse(text, file=str(path))))
        items = [item for item in spec.items if not _is_blank(item)]
        ask = partial(tree.ask, tree, (str(path),))
        settings = settings_of(spec.config, tree.configuration)
        place = Workplace(path.parent, settings, ask, tree.rules, tree.environment)
        async with asyncio.timeout(self.options.timeout):
            mapping = await expansions(items, place, None)
        return messages_of(items, expand=mapping.__getitem__)

    def _agreed(self, path: Path, input: str) -> tuple[Tree, str]:
        """The one gate: what a call works with, and the file's text, once its user has agreed to what it does."""
        if len(input) > LONGEST_INPUT:
            raise ChatmdError(f"the input has more than {LONGEST_INPUT:,} characters", where=path.name)
        text = read_document(path)
        tree = tree_for(path, path.parent, self.options, self.hooks)
        return agreed(tree, text, str(path), path.parent, self.options, self.hooks), text


def _is_blank(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.is_blank
