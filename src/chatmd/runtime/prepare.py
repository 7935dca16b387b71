"""What a run is made of: how a file is to be run, what holds for that, and who agreed to it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chatmd.context import Approve, Confirm, Rules, Run, configuration_for, open_model, settings_of
from chatmd.language.agent import read_agent
from chatmd.language.nodes import Element
from chatmd.language.repair import repair
from chatmd.language.transcript import parse_cached
from chatmd.runtime.agents import ask_agent
from chatmd.tools.consent import consent
from lmm.messages import Listener, ignore
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget
from lmm.models.port import ChatModel

AskUser = Callable[[], Awaitable[str | Element | None]]
"""Ask the user for the next message, a text or a ``<user>`` element; an empty text goes on from the file as it is (a
turn that failed is tried again); None ends the run."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a file is run, whom the run asks, and who is told.

    `model` is a name, or a model; it counts more than the file's. `config` names a configuration file. With `output`,
    the file stays as it is, and a copy of it there is run. `once` stops after one reply and its calls. `max_turns`
    bounds the requests to models, `budget` tokens (``20000``) or money (``0.50$``), of this run and all agents that it
    asks; `timeout` is in seconds, for a turn. `roots` are further folders that files may be imported from. With
    `replay`, documents and agents in messages are taken as they were recorded.

    `yes` agrees to what the tools can do, else `confirm` is asked; `approve` is asked about each call, `ask_user` for
    the next message (without it, a run ends when it is the user's turn); `listener` is told what happens, and where
    (`chatmd.runtime.events`). With `goes_on`, a failed turn does not end the run: it is told, and the user asked.
    """

    model: str | ChatModel = ""
    config: Path | None = None
    output: Path | None = None
    once: bool = False
    max_turns: int | None = None
    budget: str = ""
    timeout: float | None = None
    roots: tuple[Path, ...] = ()
    replay: bool = False
    yes: bool = False
    confirm: Confirm | None = None
    approve: Approve | None = None
    ask_user: AskUser | None = None
    listener: Listener = ignore
    goes_on: bool = False


def prepare(file: Path | None, folder: Path, options: RunOptions = RunOptions()) -> Run:
    """What the run of a file, or of a text that belongs into `folder`, works with.

    Raises:
        ConfigError: config.toml or an option asks for something that we do not know.
    """
    environment, model = dict(os.environ), options.model
    named = model if isinstance(model, str) else ""
    configuration = configuration_for(file or folder / "text", options.config, environment, named)
    rules = Rules.of(configuration.file)
    rules = rules.replace(roots=(*rules.roots, *options.roots))
    budget = parse_budget(options.budget) if options.budget else UsageLimits()
    limits = replace(budget, turns=rules.max_turns if options.max_turns is None else options.max_turns)
    return Run(
        folder,
        configuration.settings(),
        rules,
        environment,
        protected=tuple(path.resolve() for path in (file, configuration.file.path) if path is not None),
        chain=(str(file or ""),),
        configuration=configuration,
        tally=SharedBudget(limits),
        approve=options.approve,
        listener=options.listener,
        open_model=open_model if isinstance(model, str) else lambda settings: model,
        ask=ask_agent,
        replay=options.replay,
    )


def agree(run: Run, text: str, options: RunOptions) -> Run:
    """The run, once somebody has agreed to what the tools of a text and of the agents that it asks can do.

    Raises:
        InvalidDocument: the text has errors.
        ConsentNeeded: nobody agreed.
    """
    spec = read_agent(run.rules.imported(parse_cached(repair(text, run.chain[-1]).text, run.chain[-1])))
    run = replace(run, settings=settings_of(spec.config, run.configuration))
    return replace(run, agreement=consent(spec, run, yes=options.yes, confirm=options.confirm))
