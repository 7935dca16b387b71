"""Refine a file, measure it, or make the results of a record again. Each function has a twin with an a."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from chatmd.context import configuration_for, settings_for_text
from chatmd.errors import InvalidCases, RefineError
from chatmd.language.syntax import errors_of, parse
from chatmd.prompts.templates import SLOTS
from chatmd.refine.asking import open_runs, tool_lines
from chatmd.refine.cases import READERS, Case, parse_cases, read_case
from chatmd.refine.oracle import Oracle, Sources
from chatmd.refine.purse import Purse
from chatmd.refine.record import Record, open_record, read_record
from chatmd.refine.results import Refined, RefineOptions, Task
from chatmd.refine.run import Progress, refined
from chatmd.refine.selection import Version
from chatmd.refine.versions import find_instructions
from chatmd.runtime.agents import Hooks, RunOptions
from chatmd.sidecar import FOLDER
from lmm.config import ModelSettings, Settings
from lmm.disk import files
from lmm.disk.files import check_writable, document_lock, read_document
from lmm.errors import Changed, DocumentBusy, LmmError
from lmm.loop import run, run_async
from lmm.messages import Usage
from lmm.models.budget import Limits, Tally, parse_budget
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel
from lmm.prompts.load import load_prompts


@dataclass(frozen=True, slots=True)
class RefineRequest:
    """What is refined, and by whom.

    `cases` is a file of cases. `role` chooses the message, ``system`` or ``developer``; `proposer` and `judge` name
    models instead of the major and the minor one. `budget` is for everything together. The `record` is written there,
    or gone on with; by default beside the file. `in_place` lets tools work in the file's own folder.
    """

    path: Path
    cases: Path
    options: RefineOptions = field(default_factory=RefineOptions)
    role: str = ""
    proposer: str = ""
    judge: str = ""
    budget: str = ""
    record: Path | None = None
    in_place: bool = False
    run: RunOptions = field(default_factory=RunOptions)


@dataclass(frozen=True, slots=True)
class Refinement:
    """What came of it: `usage` is that of everything, `record` the file that tells all of it, if one was written."""

    done: Refined
    task: Task
    path: Path
    usage: Usage
    record: Path | None

    @property
    def winner(self) -> Version | None:
        """The version that is better than the file's; None if there is none, and `done.reason` says why."""
        return self.done.winner

    def apply(self, path: Path | None = None) -> None:
        """Write the winner into the file, see `apply`."""
        apply(self, path)


def refine(request: RefineRequest, hooks: Hooks = Hooks(), progress: Progress = lambda text: None) -> Refinement:
    """Measure the instructions in a file on cases, and look for better ones; the file stays as it is (see `apply`).

    An interruption, an error of a model or an empty purse end it early: what was found so far is in what comes back.

    Raises:
        InvalidDocument, InvalidCases, RefineError: the file, the cases or the record cannot be used.
        ConsentNeeded: nobody agreed to what the file's tools can do.
        ConfigError, ModelError: the models that are needed cannot be asked at all.
    """
    task, cases, record, oracle = _prepared(request, hooks)
    done = run(refined(task, cases, request.options, oracle, progress))
    return Refinement(done, task, request.path, oracle.purse.usage, record)


async def arefine(request: RefineRequest, hooks: Hooks = Hooks(), progress: Progress = lambda text: None) -> Refinement:
    """`refine` for callers with an event loop."""
    task, cases, record, oracle = _prepared(request, hooks)
    done = await run_async(refined(task, cases, request.options, oracle, progress))
    return Refinement(done, task, request.path, oracle.purse.usage, record)


def replay(record: Path) -> Refinement:
    """What a record tells, computed anew, without any model.

    Raises:
        RefineError: it is no record.
    """
    read = read_record(record)
    start = read.start
    try:
        options = RefineOptions(start["rounds"], start["variants"], start["repeat"], start["seed"])
        path, text, role = Path(start["file"]), str(start["text"]), str(start["role"])
        cases = tuple(read_case(row, "", str(record)) for row in start["cases"])
    except (LookupError, TypeError) as error:
        raise RefineError("this record lacks its beginning", where=str(record), hint="name another file") from error
    task = Task(text, find_instructions(parse(text, file=str(path)), role))
    oracle = Oracle(read, Purse(), None)
    done = run(refined(task, cases, options, oracle))
    return Refinement(done, task, path, oracle.purse.usage, record)


def apply(refinement: Refinement, path: Path | None = None) -> None:
    """Write the winner into the file, which must be as it was when it was measured.

    Raises:
        RefineError: there is no winner.
        DocumentError: the file was changed meanwhile, or cannot be written.
    """
    winner, target = refinement.done.winner, path or refinement.path
    if winner is None:
        raise RefineError("there is nothing to apply: no version is better", where=str(target))
    check_writable(target)
    with document_lock(target, timeout=0):
        try:
            measured = refinement.task.source.encode("utf-8")
            files.replace(target, refinement.task.agent(winner.text), expected=measured)
        except Changed as error:
            raise DocumentBusy(
                "the file is not what was measured; nothing was written", where=str(target),
                hint="refine it again, or take what you want from the diff",
            ) from error  # fmt: skip


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases in a file; schemas that they name are read from files beside it.

    Raises:
        InvalidCases: it is no such file, or a case cannot be used.
        FileReadError: it cannot be read.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        raise InvalidCases("this is no file of cases", where=str(path), hint=f"use {', '.join(READERS)}")

    def load(name: str) -> Any:
        try:
            return json.loads(read_document(path.parent / name))
        except (LmmError, ValueError) as error:
            raise ValueError(f"names a file that is no JSON: {error}") from error

    return parse_cases(read_document(path), kind, name=str(path), load=load)


# -- beginning -----------------------------------------------------------------------------------


def _prepared(request: RefineRequest, hooks: Hooks) -> tuple[Task, tuple[Case, ...], Path | None, Oracle]:
    """Everything that can go wrong before anything is paid."""
    path, options = request.path, request.options
    text, cases = read_document(path), read_cases(request.cases)
    document = parse(text, file=str(path))
    problems = errors_of(document.problems)
    if problems:
        raise RefineError(problems[0].message, where=problems[0].span.where, hint=problems[0].hint)
    lines = tool_lines(text, path, request.run.roots)
    task = Task(text, find_instructions(document, request.role), lines)
    configuration = configuration_for(path, request.run.config, model=request.run.model)
    settings = settings_for_text(text, path, configuration, roots=request.run.roots, overrides=_overrides(request))
    limits = parse_budget(request.budget) if request.budget else Limits()
    purse = Purse(limits)
    judge = _model(settings.minor, "judge", "--judge", limits) if any(case.is_judged for case in cases) else None
    proposer = _model(settings.major, "write prompts", "--proposer", limits) if options.rounds else None
    runs = open_runs(path, text, request.run, hooks, purse, in_place=request.in_place)
    start = _start(request, text, cases, settings)
    target = request.record or (_record_path(path) if options.rounds else None)
    record = open_record(target, start) if target else Record(None, start, {})
    prompts = load_prompts(settings.prompts_folder, package="chatmd.prompts", slots=SLOTS)
    oracle = Oracle(record, purse, Sources(runs.ask, judge, proposer, prompts))
    return task, cases, record.path, oracle


def _overrides(request: RefineRequest) -> dict[str, str]:
    given = {"major": request.proposer, "minor": request.judge}
    return {tier: name for tier, name in given.items() if name}


def _model(settings: ModelSettings, what: str, option: str, limits: Limits) -> ChatModel:
    model = shared_chat(settings)
    if model.name.startswith("Builtin/"):
        raise RefineError(
            f"{model.name} cannot {what}",
            hint=f"set a key (export OPENAI_API_KEY=…), or name a language model in config.toml or with {option}",
        )
    Tally(replace(limits, turns=None)).check_price(str(settings.model))
    return model


def _record_path(path: Path) -> Path:
    folder = path.resolve().parent / FOLDER
    return folder / f"{path.stem}.refine-{datetime.now():%Y-%m-%dT%H-%M-%S}.jsonl"


def _start(request: RefineRequest, text: str, cases: Sequence[Case], settings: Settings) -> Mapping[str, Any]:
    options = request.options
    return {
        "created": datetime.now().isoformat(timespec="seconds"),
        "file": str(request.path),
        "text": text,
        "role": request.role,
        "cases": [{**(case.row or {}), "name": case.name} for case in cases],
        "rounds": options.rounds,
        "variants": options.variants,
        "repeat": options.repeat,
        "seed": options.seed,
        "model": request.run.model,
        "proposer": str(settings.major.model),
        "judge": str(settings.minor.model),
        "budget": request.budget,
    }
