"""Run an agent on the input of a case: in memory, with its tools, from its own folder or a copy of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from chatmd.context import AgentRequest, Workplace, settings_of
from chatmd.errors import ChatmdError, LimitReached, RefineError
from chatmd.language.agent import AgentSpec, CallItem, Item, Tool, read_agent
from chatmd.language.imports import resolve_imports
from chatmd.language.syntax import parse
from chatmd.language.transcript import gap, user_text
from chatmd.refine.checks import Outcome
from chatmd.refine.purse import Purse
from chatmd.runtime.agents import Hooks, RunOptions, agreed, tree_for
from chatmd.runtime.live_text import TextTranscript
from chatmd.runtime.turns import Conversation, Tree
from chatmd.tools.consent import declared_by
from lmm.errors import EmptyReply, ModelRejected
from lmm.messages import ToolCall
from lmm.models.budget import Tally
from lmm.models.tokens import count_tokens

_MOST_FILES, _MOST_BYTES = 5000, 100_000_000


@dataclass(slots=True)
class Runs:
    """Runs of one file's agent, whatever its instructions. `ask` is an `Ask`.

    If its tools could change something, each run has a copy of the file's folder; or, `in_place`, they work in the
    folder itself, one after the other.
    """

    path: Path
    tree: Tree
    options: RunOptions
    purse: Purse
    copies: bool = False
    in_place: bool = False
    _alone: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def ask(self, agent: str, given: str) -> Outcome:
        """What comes of an input.

        Raises:
            ModelError: the model does not answer.
            LimitReached: the budget of all runs together is used up. Other limits are what came of it.
            ChatmdError, ConfigError: the agent cannot be run.
        """
        text = agent + gap(agent) + user_text(given)
        async with self._folder(agent) as (folder, tree):
            file = folder / self.path.name
            conversation = Conversation(tree, TextTranscript(text), folder, (str(file),), user_turn="")
            error = await self._run(conversation, tree.tally)
        answer = conversation.answer if not error else ""
        return Outcome(answer, _calls(conversation.items), count_tokens(answer), tree.tally.usage, error)

    async def _run(self, conversation: Conversation, tally: Tally) -> str:
        """Run to the end; what kept it from getting there, if something of its own did."""
        try:
            async with asyncio.timeout(self.options.timeout), AsyncExitStack() as stack:
                await conversation.open(stack)
                if conversation.waits_for_user:
                    raise RefineError("this agent was asked nothing", where=str(self.path))
                await conversation.turn()
        except TimeoutError:
            return f"it took longer than {self.options.timeout:g} s"
        except LimitReached as reached:
            if _is_used_up(tally):
                self.purse.count("run", tally.usage)
                raise
            return reached.message
        except (EmptyReply, ModelRejected) as error:  # which may be so for this input only
            return error.message
        return ""

    @asynccontextmanager
    async def _folder(self, agent: str) -> AsyncIterator[tuple[Path, Tree]]:
        """Where a run works, and what it shares with the agents that it asks."""
        folder = self.path.resolve().parent
        limits = replace(self.purse.left(), turns=self.tree.tally.limits.turns)
        tree = replace(self.tree, tally=Tally(limits))
        if not self.copies:
            yield folder, tree
        elif self.in_place:
            async with self._alone:
                yield folder, tree
        else:
            with tempfile.TemporaryDirectory(prefix="lmm-refine-", ignore_cleanup_errors=True) as name:
                copy = Path(name).resolve() / folder.name
                await asyncio.to_thread(shutil.copytree, folder, copy, symlinks=True)
                file = copy / self.path.name
                tree = replace(tree, protected=(*tree.protected, file))
                # It was agreed to for the original.
                yield copy, agreed(tree, agent, str(file), copy, replace(self.options, yes=True), Hooks())


def open_runs(
    path: Path, text: str, options: RunOptions, hooks: Hooks, purse: Purse, *, in_place: bool = False
) -> Runs:
    """Runs of the agent in a file, once somebody has agreed to what its tools can do.

    Raises:
        InvalidDocument: the file has errors.
        ConsentNeeded: nobody agreed.
        RefineError: its tools change things, and a copy of its folder would not be what they work in.
    """
    folder = path.resolve().parent
    tree = tree_for(path, folder, options, hooks)
    tree = agreed(tree, text, str(path), folder, options, hooks)
    spec = _spec(text, path, tree)
    settings = settings_of(spec.config, tree.configuration)
    place = Workplace(folder, settings, _nobody, tree.rules, tree.environment)
    copies = any(file.asking for file in declared_by(spec, place))
    if copies and not in_place:
        _check_copy(folder, spec.tools)
    return Runs(path, tree, options, purse, copies, in_place)


def tool_lines(text: str, path: Path, roots: Sequence[Path] = ()) -> tuple[str, ...]:
    """A file's tools, as the proposer reads them."""
    spec = read_agent(resolve_imports(parse(text, file=str(path)), roots=roots))
    return tuple(
        f"{tool.name or tool.server}: {tool.description or tool.command or f'{tool.kind} tool'}" for tool in spec.tools
    )


def _spec(text: str, path: Path, tree: Tree) -> AgentSpec:
    return read_agent(tree.rules.imported(parse(text, file=str(path))))


async def _nobody(request: AgentRequest) -> str:
    raise ChatmdError("no agent is asked before the run")


def _is_used_up(tally: Tally) -> bool:
    """Whether a run took all that was left of the budget."""
    used, limits = tally.usage, tally.limits
    tokens = limits.tokens is not None and used.input_tokens + used.output_tokens >= limits.tokens
    return tokens or (limits.dollars is not None and (used.cost or 0.0) >= limits.dollars)


def _calls(items: Sequence[Item]) -> tuple[ToolCall, ...]:
    """The calls that a run made: those after the last thing that the user said."""
    begin = max((n for n, item in enumerate(items) if getattr(item, "role", "") == "user"), default=-1)
    return tuple(
        ToolCall(item.call, item.name, "".join(part for part in item.arguments if isinstance(part, str)))
        for item in items[begin + 1 :] if isinstance(item, CallItem)
    )  # fmt: skip


def _check_copy(folder: Path, tools: Sequence[Tool]) -> None:
    """See to it that a copy of the folder is as good as the folder, and not too large."""
    in_place = "run the cases in the folder itself, one after the other: --in-place"
    for tool in tools:
        for written in (*tool.roots, tool.cwd, tool.agent if tool.local else ""):
            if not (folder / written).resolve().is_relative_to(folder):
                raise RefineError(
                    f"the tool '{tool.name}' works outside of the prompt's folder, in '{written}': runs would disturb "
                    "each other", where=tool.span.where, hint=in_place,
                )  # fmt: skip
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.lstat().st_size for file in files)
    if len(files) > _MOST_FILES or size > _MOST_BYTES:
        raise RefineError(
            f"its tools change things, and the folder is too large to be copied for every run ({len(files):,} files)",
            where=str(folder), hint=f"put the prompt in a small folder of its own, or {in_place}",
        )  # fmt: skip
