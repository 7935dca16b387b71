"""Ask another agent: read its file, run it to its end in memory, and return its answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from chatmd.content.documents import Raw, plain_text
from chatmd.content.expand import locate
from chatmd.context import AgentRequest, Approve, Confirm, Rules, Run, configuration_for, open_model, settings_of
from chatmd.errors import ChatmdError, LimitReached
from chatmd.language.agent import read_agent
from chatmd.language.nodes import Element
from chatmd.language.repair import repair
from chatmd.language.transcript import gap, parsed, said
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.sidecar import Recorded, keep_record
from chatmd.tools.consent import consent
from lmm.disk.files import read_document
from lmm.fetch import fetch, name_of
from lmm.messages import Listener, ignore
from lmm.models.budget import UsageLimits, UsageTally, parse_budget
from lmm.models.port import ChatModel


class _Found(NamedTuple):
    """An agent's text, its name (a real path, or a URL), and the folder that what it names is relative to."""

    text: str
    name: str
    folder: Path
    remote: bool


async def ask_agent(run: Run, request: AgentRequest) -> str:
    """The answer of the agent that is asked for; nothing is written to its file, and all is kept in one of its own.

    Raises:
        LimitReached: agents ask agents too deep, or the whole run has used up what it may.
        LmmError: its file cannot be read or has errors, its tools were not agreed to, its model does not answer.
    """
    found = await _find(run, request)
    below = replace(run, folder=found.folder, chain=(*run.chain, found.name), ask=ask_agent)
    check_depth(below.chain, run.rules.max_depth)
    text = found.text
    if any(not isinstance(part, str) or part.strip() for part in request.input):
        text += gap(text) + said(request.input)
    transcript = Transcript(text)
    recorded = Recorded(Path(found.name), only=True) if run.replay and not found.remote else None
    conversation = Conversation(below, transcript, recorded=recorded, remote=found.remote, user_turn="")
    try:
        async with AsyncExitStack() as stack:
            if not await conversation.open(stack):
                raise ChatmdError("this agent was asked nothing", where=found.name, hint="give it an input")
            await conversation.turn()
    finally:  # also what came before an error
        if run.records is not None and transcript.text != text:
            request.kept(keep_record(run.records, name_of(found.name), transcript.text))
    return conversation.answer


async def _find(run: Run, request: AgentRequest) -> _Found:
    if request.local:
        path = locate(request.src, replace(run, folder=request.folder))
        return _Found(await asyncio.to_thread(read_document, path), str(path), path.parent, remote=False)
    came = await fetch(request.src, run.rules.fetching)
    text = plain_text(Raw(came.data, name_of(came.url), came.media_type, came.charset, came.url))
    return _Found(text, request.src, request.folder, remote=True)


def check_depth(chain: tuple[str, ...], most: int) -> None:
    """See to it that agents do not ask agents without end; the first file counts as none.

    >>> check_depth(("/notes/a.md", "/notes/b.md", "/notes/a.md"), 1)
    Traceback (most recent call last):
    lmm.errors.LimitReached: agents ask each other in a circle: a.md → b.md → a.md (at most 1: max_depth in [chatmd])
    """
    if len(chain) - 1 <= most:
        return
    names = " → ".join(file if "://" in file else Path(file).name for file in chain)
    what = "in a circle" if len(set(chain)) < len(chain) else "too deep"
    raise LimitReached(f"agents ask each other {what}: {names}", hint=f"at most {most}: max_depth in [chatmd]")


# -- How a file is run, and what a run asks and tells those who started it ------------------------------------


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


def prepared(
    file: Path | None,
    folder: Path,
    options: RunOptions = RunOptions(),
    hooks: Hooks = Hooks(),
    *,
    name: str | None = None,
) -> Run:
    """What the run of a file, or of a text that belongs into `folder`, works with; `name` is what the file is called.

    Raises:
        ConfigError: config.toml or an option asks for something that we do not know.
    """
    environment = dict(os.environ)
    configuration = configuration_for(file or folder / "text", options.config, environment, options.model)
    rules = Rules.of(configuration.file)
    rules = rules.replace(roots=(*rules.roots, *options.roots))
    budget = parse_budget(options.budget) if options.budget else UsageLimits()
    limits = replace(budget, turns=rules.max_turns if options.max_turns is None else options.max_turns)
    model = hooks.model
    return Run(
        folder,
        configuration.settings(),
        rules,
        environment,
        protected=tuple(path.resolve() for path in (file, configuration.file.path) if path is not None),
        chain=(str(file or "") if name is None else name,),
        configuration=configuration,
        tally=UsageTally(limits),
        approve=hooks.approve,
        listener=hooks.listener,
        open_model=open_model if model is None else lambda settings: model,
        ask=ask_agent,
        replay=options.replay,
    )


def agreed(run: Run, text: str, options: RunOptions, hooks: Hooks) -> Run:
    """The run, once somebody has agreed to what the tools of a text and of the agents that it asks can do.

    Raises:
        InvalidDocument: the text has errors.
        ConsentNeeded: nobody agreed.
    """
    spec = read_agent(run.rules.imported(parsed(repair(text).text, run.chain[-1])))
    run = replace(run, settings=settings_of(spec.config, run.configuration))
    return replace(run, agreement=consent(spec, run, yes=options.yes, confirm=hooks.confirm))
