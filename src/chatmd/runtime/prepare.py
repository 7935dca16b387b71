"""What a run is made of: how a file is to be run, what holds for that, and who agreed to it.

An agent that it asks is run to its end in memory (`ask_agent`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatmd.content.documents import SourceDocument, plain_text
from chatmd.content.expand import locate
from chatmd.context import AgentRequest, AnswerRule, Configuration, Rules, Run, open_model, settings_of
from chatmd.errors import LimitReached
from chatmd.language.agent import interpret, read_agent
from chatmd.language.inputs import check_values, set_inputs
from chatmd.language.repair import repair
from chatmd.language.syntax import parse
from chatmd.language.transcript import gap, parse_cached, user_element_text
from chatmd.runtime.transcript_file import Transcript
from chatmd.runtime.turns import Conversation
from chatmd.sidecar import ExpansionRecord, keep_record
from chatmd.tools.consent import consent
from chatmd.tools.registry import PythonTool, function_tool
from lmm.config_files import find_config
from lmm.disk.files import read_document
from lmm.fetch import fetch
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget
from lmm.models.port import ChatModel
from lmm.models.structured import make_schema
from lmm.urls import name_of


async def ask_agent(run: Run, request: AgentRequest) -> str:
    """The answer of the agent that is asked for; nothing is written to its file, and all is kept in one of its own.

    Raises:
        LimitReached: agents ask agents too deep, or the whole run has used up what it may.
        LmmError: its file cannot be read or has errors, its tools were not agreed to, its model does not answer.
    """
    if request.local:
        path = locate(request.src, replace(run, folder=request.folder))
        text, name, folder = await asyncio.to_thread(read_document, path), str(path), path.parent
    else:
        came = await fetch(request.src, run.rules.fetching)
        text, name, folder = plain_text(SourceDocument.of(came)), request.src, request.folder
    below = replace(run, folder=folder, chain=(*run.chain, name), ask=ask_agent, functions=(), expects=None)
    check_depth(below.chain, run.rules.max_depth)
    if request.values:
        declared = interpret(run.rules.imported(parse(text, file=name)))[0].inputs
        text = set_inputs(text, request.values, declared, file=name)
    if any(not isinstance(part, str) or part.strip() for part in request.input):
        text += gap(text) + user_element_text(request.input)
    transcript = Transcript(text)
    recorded = ExpansionRecord(Path(name), only=True) if run.replay and request.local else None
    conversation = Conversation(below, transcript, recorded=recorded, remote=not request.local, user_turn="")
    try:
        return await conversation.answered()
    finally:  # also what came before an error
        if run.records is not None and transcript.text != text:
            request.kept(keep_record(run.records, name_of(name), transcript.text))


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


def prepare(
    file: Path | None,
    folder: Path | None = None,
    *,
    model: str | ChatModel = "",
    config: Path | None = None,
    roots: Sequence[Path] = (),
    max_turns: int | None = None,
    budget: str = "",
    tools: Sequence[PythonTool] = (),
    schema: Any = None,
    check: Callable[[str], object] | None = None,
    retries: int | None = None,
    **fields: Any,
) -> Run:
    """What the run of a file, or of a text that belongs into `folder`, works with; further `fields` are those of `Run`.

    `model` is a name, or a model; it counts more than the file's. `config` names a configuration file. `max_turns`
    bounds the requests to models, `budget` tokens (``20000``) or money (``0.50$``), of this run and all agents that it
    asks. `roots` are further folders that files may be imported from, `tools` Python functions that the model may call
    besides what the file declares. The last reply fits `schema` (a type, or a JSON schema) and passes `check`, or the
    model is asked again, `retries` times (`AnswerRule`).

    Raises:
        ConfigError: config.toml or an option asks for something that we do not know.
    """
    folder, environment = folder or (file or Path("text")).resolve().parent, dict(os.environ)
    named = model if isinstance(model, str) else ""
    place = file or folder / "text"
    configuration = Configuration(find_config(config, place, environment), environment, named, str(place))
    rules = Rules.of(configuration.file)
    rules = rules.replace(roots=(*rules.roots, *roots))
    limits = parse_budget(budget) if budget else UsageLimits()
    return Run(
        folder,
        configuration.settings(),
        rules,
        environment,
        protected=tuple(path.resolve() for path in (file, configuration.file.path) if path is not None),
        chain=(str(file or ""),),
        configuration=configuration,
        tally=SharedBudget(replace(limits, turns=rules.max_turns if max_turns is None else max_turns)),
        open_model=open_model if isinstance(model, str) else lambda settings: model,
        ask=ask_agent,
        working=Path.cwd(),
        functions=tuple(map(function_tool, tools)),
        expects=None if schema is check is None else AnswerRule(schema and make_schema(schema), check, retries),
        **fields,
    )


def with_inputs(text: str, run: Run) -> str:
    """The text with the values that its inputs were given.

    Raises:
        ChatmdError: it has no such input, or the value is none of its type.
    """
    if not run.inputs:
        return text
    declared = interpret(run.rules.imported(parse_cached(text, run.chain[-1])))[0].inputs
    return set_inputs(text, run.inputs, declared, file=run.chain[-1])


def agree(run: Run, text: str) -> Run:
    """The run, once somebody has agreed to what the tools of a text and of the agents that it asks can do.

    Raises:
        InvalidDocument: the text has errors.
        ChatmdError: an input has no value.
        ConsentNeeded: nobody agreed.
    """
    name = run.chain[-1]
    spec = read_agent(run.rules.imported(parse_cached(repair(text, name).text, name)))
    check_values(spec.inputs)
    run = replace(run, settings=settings_of(spec.config, run.configuration))
    return replace(run, agreement=consent(spec, run))
