"""Refine the instructions in a text, or measure them; and write what was found."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatmd.context import Run
from chatmd.errors import InvalidCases, RefineError
from chatmd.language.syntax import errors_of, parse
from chatmd.prompts.templates import chatmd_prompts
from chatmd.refine.cases import READERS, Case, parse_cases
from chatmd.refine.measure import Evaluator, open_runs
from chatmd.refine.search import ROUNDS, Progress, SearchOutcome, Task, search_versions
from chatmd.refine.versions import Version, find_instructions
from lmm.config import ModelSettings
from lmm.disk import files
from lmm.disk.files import check_writable, document_lock, read_document
from lmm.errors import Changed, DocumentBusy, LmmError
from lmm.messages import Usage
from lmm.models.budget import SharedBudget, UsageLimits
from lmm.models.chat import shared_chat
from lmm.models.port import ChatModel


@dataclass(frozen=True, slots=True)
class Refinement:
    """What came of it: all versions in `done`, and in `usage` what everything took together."""

    done: SearchOutcome
    task: Task
    path: Path
    usage: Usage

    @property
    def winner(self) -> Version | None:
        """The version that is better than the file's; None if there is none, and `done.reason` says why."""
        return self.done.winner

    def apply(self) -> None:
        """Write the winner into the file, which must be as it was when it was measured.

        Raises:
            RefineError: there is no winner.
            DocumentError: the file was changed meanwhile, or cannot be written.
        """
        if self.winner is None:
            raise RefineError("there is nothing to apply: no version is better", where=str(self.path))
        check_writable(self.path)
        with document_lock(self.path, timeout=0):
            try:
                measured = self.task.source.encode("utf-8")
                files.replace(self.path, self.task.agent(self.winner.text), expected=measured)
            except Changed as error:
                raise DocumentBusy(
                    "the file has changed since it was measured; nothing was written",
                    where=str(self.path),
                    hint="refine it again, or copy what you want from the diff",
                ) from error


async def refine(
    text: str,
    path: Path,
    cases: tuple[Case, ...],
    run: Run,
    *,
    rounds: int = ROUNDS,
    progress: Progress = lambda text: None,
) -> Refinement:
    """Measure the instructions in the text of a file on cases, and look for better ones; the file stays as it is.

    The budget of `run` is for everything together. An interruption, an error of a model or an empty budget end it
    early: what was found so far is in what comes back, and is not asked for again.

    Raises:
        InvalidDocument, RefineError: the file cannot be used.
        ConsentNeeded: what the file's tools can do was not agreed to.
        ConfigError, ModelError: the models that are needed cannot be asked at all.
    """
    budget = SharedBudget(dataclasses.replace(run.tally.limits, turns=None))
    task, evaluator = await asyncio.to_thread(_prepared, text, path, cases, run, budget, rounds > 0)
    done = await search_versions(task, cases, rounds, evaluator, progress)
    return Refinement(done, task, path, budget.usage)


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases in a file; schemas that they name are read from files beside it.

    Raises:
        InvalidCases: it is no such file, or a case cannot be used.
        FileReadError: it cannot be read.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        raise InvalidCases("this is not a file of cases", where=str(path), hint=f"use {', '.join(READERS)}")

    def load(name: str) -> Any:
        try:
            return json.loads(read_document(path.parent / name))
        except (LmmError, ValueError) as error:
            raise ValueError(f"names a file that is not JSON: {error}") from error

    return parse_cases(read_document(path), kind, name=str(path), load=load)


def _prepared(
    text: str,
    path: Path,
    cases: tuple[Case, ...],
    run: Run,
    budget: SharedBudget,
    proposes: bool,
) -> tuple[Task, Evaluator]:
    """Everything that can go wrong before anything is paid."""
    document = parse(text, file=str(path))
    if problems := errors_of(document.problems):
        raise RefineError(problems[0].message, where=problems[0].span.where, hint=problems[0].hint)
    instructions = find_instructions(document)
    runs = open_runs(path, text, run, budget)
    task, settings = Task(text, instructions, runs.tools), runs.run.settings
    judges = any(case.is_judged for case in cases)
    judge = _model(settings.minor, "judge", budget.limits) if judges else None
    proposer = _model(settings.major, "write prompts", budget.limits) if proposes else None
    prompts = chatmd_prompts(settings.prompts_folder)
    return task, Evaluator(runs.ask, judge, proposer, prompts, budget=budget)


def _model(settings: ModelSettings, what: str, limits: UsageLimits) -> ChatModel:
    model = shared_chat(settings)
    if model.name.startswith("Builtin/"):
        raise RefineError(
            f"{model.name} cannot {what}",
            hint="set a key (export OPENAI_API_KEY=…), or name a language model in config.toml",
        )
    limits.check_price(str(settings.model))
    return model
