"""What a run is made of: how a file is to be run, what holds for that, and who agreed to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatmd.context import AnswerRule, Configuration, Rules, Run, open_model, settings_of
from chatmd.language.agent import interpret, read_agent
from chatmd.language.inputs import check_values, set_inputs
from chatmd.language.repair import repair
from chatmd.language.transcript import parse_cached
from chatmd.runtime.agents import ask_agent
from chatmd.tools.consent import consent
from chatmd.tools.functions import PythonTool, function_tool
from lmm.config_files import find_config
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget
from lmm.models.port import ChatModel
from lmm.models.structured import make_schema


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
