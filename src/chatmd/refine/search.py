"""The search for better instructions: measure, propose, measure, choose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chatmd.errors import LimitReached
from chatmd.refine.cases import Case
from chatmd.refine.measure import Evaluator
from chatmd.refine.versions import Instructions, Version, best_of, compare, split, with_instructions
from lmm.errors import LmmError

ROUNDS = 4
"""How often versions are proposed, if nobody says otherwise."""
VARIANTS = 3
"""How many versions are proposed in a round."""
SAMPLE = 4
"""On how many cases that failed they are tried first: only the best of them is run on the others."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is refined: the text of a file, where its instructions stand, its tools as lines."""

    source: str
    instructions: Instructions
    tools: tuple[str, ...] = ()

    def agent(self, text: str) -> str:
        """The file with these instructions.

        Raises:
            ValueError: they cannot stand there.
        """
        if text == self.instructions.text:
            return self.source
        return with_instructions(self.source, self.instructions, text)


@dataclass(slots=True)
class SearchOutcome:
    """What came of it. `winner` is None if nothing is better than what there was; `reason` says why in words.

    `stopped` says what ended it early, `error` is the error that did.
    """

    cases: tuple[Case, ...]
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    versions: list[Version] = field(default_factory=list)
    winner: Version | None = None
    reason: str = ""
    stopped: str = ""
    error: LmmError | None = None
    interrupted: bool = False

    @property
    def baseline(self) -> Version:
        """The instructions as they are."""
        return self.versions[0]


def decide(done: SearchOutcome, rounds: int) -> None:
    """Say who won: a version that is better where proposals were made from, and no worse where they were not."""
    if not rounds:
        done.reason = ""
        return
    base, best = done.baseline, best_of(done.versions, done.train)
    before, after = base.tally(done.train), best.tally(done.train)
    if best is base:
        all_pass = before.is_perfect and before.total == len(done.train)
        done.reason = "all of these cases pass as it is" if all_pass else "no version does better than the original"
        return
    better = f"version {best.id} passes {after.passed} of {after.total}, and {before.passed} passed as it is"
    if before.passed == after.passed:
        better = f"version {best.id} is judged {after.score or 0:.1f}, and {before.score or 0:.1f} as it is"
    if any(name not in best.results or name not in base.results for name in done.held_out):
        done.reason = f"best so far: {better}; it was not yet measured on the cases that were held out"
        return
    held = compare(best.results, base.results, done.held_out)
    after, before = best.tally(done.held_out), base.tally(done.held_out)
    on_held = f"of those held out {after.passed} of {after.total}, and {before.passed} as it is"
    if held.is_worse:
        done.reason = f"{better}; but {on_held}: it fits these cases, not the task"
        return
    done.winner = best
    done.reason = f"{better}; {on_held}" if done.held_out else f"{better}; no case was held out"


# -- The search: measure, propose, measure, choose ------------------------------------------------------


Progress = Callable[[str], None]


async def search_versions(
    task: Task,
    cases: Sequence[Case],
    rounds: int,
    evaluator: Evaluator,
    progress: Progress = lambda text: None,
) -> SearchOutcome:
    """Measure the instructions on the cases, and look for better ones in so many rounds of proposals.

    In each, the best of the versions on some cases that failed is measured on all but those held out.

    It always comes back, with what was found so far: cancelling, errors and an empty budget only end it early.
    """
    train, held = split(cases) if rounds else (tuple(case.name for case in cases), ())
    done = SearchOutcome(tuple(cases), train, held, [Version("0", task.instructions.text)])
    search = _Search(task, rounds, evaluator, progress, done)
    try:
        await search.run()
    except LimitReached as error:
        done.stopped = error.message
    except LmmError as error:
        done.stopped, done.error = error.message, error
    except asyncio.CancelledError:
        done.stopped, done.interrupted = "interrupted", True
    decide(done, rounds)
    return done


class _Search:
    """One refinement under way; what it finds is in `done`."""

    def __init__(self, task: Task, rounds: int, evaluator: Evaluator, progress: Progress, done: SearchOutcome) -> None:
        self.task, self.rounds, self.evaluator, self.progress, self.done = task, rounds, evaluator, progress, done
        self.by_name = {case.name: case for case in done.cases}

    async def run(self) -> None:
        done = self.done
        await self._measure(done.versions, tuple(self.by_name), "as it is")
        for round_ in range(1, self.rounds + 1):
            best = best_of(done.versions, done.train)
            if best.tally(done.train).is_perfect:
                break
            new = await self._proposed(round_, best)
            done.versions += new
            failed = [name for name in done.train if not best.results[name].passed][:SAMPLE]
            await self._measure(new, failed, f"round {round_}")
            better = best_of([best, *new], failed)
            await self._measure([better], done.train, f"version {better.id}")
        best = best_of(done.versions, done.train)
        if best is not done.baseline:
            await self._measure([best], done.held_out, f"version {best.id}, held out")

    async def _proposed(self, round_: int, best: Version) -> list[Version]:
        """New versions, those that are none or were tried already left out."""
        done = self.done
        failures = [(self.by_name[n], best.results[n]) for n in done.train if not best.results[n].passed]
        tried = [(version.text, self._came(version)) for version in done.versions[1:] if version is not best]
        texts = await self.evaluator.versions(best, failures, self.task.tools, tried, VARIANTS)
        known, new = {version.text for version in done.versions}, list[Version]()
        for text in texts:
            try:
                self.task.agent(text)
            except ValueError as error:
                self.progress(f"round {round_}: a proposal was left out: {error}")
                continue
            if text not in known:
                known.add(text)
                new.append(Version(f"{round_}.{len(new) + 1}", text))
        if not new:
            self.progress(f"round {round_}: no new version was proposed")
        return new

    def _came(self, version: Version) -> str:
        came = version.tally(self.done.train)
        return f"{came.passed} of {came.total} cases passed"

    async def _measure(self, versions: Iterable[Version], names: Sequence[str], what: str) -> None:
        """Run versions on cases, side by side. The first error keeps others from beginning, not from ending."""
        todo = [(version, name) for version in versions for name in names if name not in version.results]
        if not todo:
            return
        self.progress(f"{what}: {len(todo)} to run")
        failed: list[LmmError] = []

        async def one(version: Version, name: str) -> None:
            if failed:
                return
            try:
                agent = self.task.agent(version.text)
                version.results[name] = await self.evaluator.result(agent, self.by_name[name])
            except LmmError as error:
                failed.append(error)

        tasks = [asyncio.create_task(one(*each)) for each in todo]
        try:
            await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            raise next((error for error in failed if not isinstance(error, LimitReached)), failed[0])
