"""How a file is run, and what a run asks and tells those who started it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.errors import ChatmdError
from chatmd.language.agent import read_agent
from chatmd.language.nodes import Element
from chatmd.runtime.agents import ask_agent
from chatmd.runtime.limits import Limits, Tally, parse_budget
from chatmd.runtime.models import configuration_for, open_model, settings_of
from chatmd.runtime.repair import repair
from chatmd.runtime.settings import read_rules
from chatmd.runtime.step import parsed
from chatmd.runtime.tree import Tree
from chatmd.tools.consent import Approve, Confirm, consent
from chatmd.workplace import AgentRequest, Workplace
from lmm.messages import Listener, ignore
from lmm.models.port import ChatModel

AskUser = Callable[[], Awaitable[str | Element | None]]
"""Ask the user for the next message, a text or a ``<user>`` element; an empty text goes on from the file as it is (a
turn that failed is tried again); None ends the run."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a file is run.

    `model` counts more than the file's; `config` names a configuration file. With `output`, the file stays as it is,
    and a copy of it there is run. `once` stops after one reply and its
    calls. `max_turns` bounds the requests to models, `budget` tokens (``20000``) or money (``0.50$``), of this run and
    all agents that it asks; `timeout` is in seconds, for a turn. `yes` agrees to what the tools can do. `roots` are
    further folders that files may be imported from. With `replay`, documents and agents in messages are taken as
    they were recorded.
    """

    model: str = ""
    config: Path | None = None
    output: Path | None = None
    once: bool = False
    max_turns: int | None = None
    budget: str = ""
    timeout: float | None = None
    yes: bool = False
    replay: bool = False
    roots: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a run asks and tells.

    `model` is used instead of any configured one. `confirm` is asked whether tools may do what they can, `approve`
    about each call, `ask_user` for the next message (without it, a run ends when it is the user's turn); `listener`
    is told what happens, and where (`chatmd.runtime.events`). With `goes_on`, a turn that fails does not end the run:
    it is told, and the user is asked.
    """

    model: ChatModel | None = None
    confirm: Confirm | None = None
    approve: Approve | None = None
    ask_user: AskUser | None = None
    listener: Listener = ignore
    goes_on: bool = False


def tree_for(file: Path | None, folder: Path, options: RunOptions, hooks: Hooks) -> Tree:
    """What the run of a file, or of a text that belongs into `folder`, works with.

    Raises:
        ConfigError: config.toml or an option asks for something that we do not know.
    """
    environment = dict(os.environ)
    configuration = configuration_for(file or folder / "text", options.config, environment, options.model)
    rules = read_rules(configuration.file.text, config_file=configuration.file.path, own=configuration.file.own)
    rules = replace(rules, roots=(*rules.roots, *options.roots))
    budget = parse_budget(options.budget) if options.budget else Limits()
    limits = replace(budget, turns=rules.max_turns if options.max_turns is None else options.max_turns)
    model = hooks.model
    return Tree(
        ask_agent,
        configuration,
        rules,
        Tally(limits),
        environment,
        approve=hooks.approve,
        listener=hooks.listener,
        open_model=open_model if model is None else lambda settings: model,
        replay=options.replay,
        protected=tuple(path.resolve() for path in (file, configuration.file.path) if path is not None),
    )


def agreed(tree: Tree, text: str, name: str, folder: Path, options: RunOptions, hooks: Hooks) -> Tree:
    """The tree, once somebody has agreed to what the tools of a text and of the agents that it asks can do.

    Raises:
        InvalidDocument: the text has errors.
        ConsentNeeded: nobody agreed.
    """
    document = tree.rules.imported(parsed(repair(text).text, name))
    spec = read_agent(document)
    settings = settings_of(spec.config, tree.configuration)
    place = Workplace(folder, settings, _ask_nobody, tree.rules, tree.environment)
    return replace(tree, consent=consent(spec, place, yes=options.yes, confirm=hooks.confirm))


async def _ask_nobody(request: AgentRequest) -> str:
    raise ChatmdError("no agent is asked before the run")
