"""The search for better instructions: measure, propose, measure, choose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from chatmd.errors import LimitReached
from chatmd.refine.cases import Case, repeated
from chatmd.refine.oracle import NotRecorded, Oracle
from chatmd.refine.results import Refined, RefineOptions, Task, decide
from chatmd.refine.selection import Version, best_of, split
from lmm.errors import LmmError

Progress = Callable[[str], None]


async def refined(
    task: Task, cases: Sequence[Case], options: RefineOptions, oracle: Oracle, progress: Progress = lambda text: None
) -> Refined:
    """Measure the instructions on the cases, and look for better ones.

    It always comes back, with what was found so far: cancelling, errors and an empty purse only end it early.
    """
    held = split(cases, options.seed)[1] if options.rounds else ()
    marked = repeated(tuple(replace(case, held_out=case.name in held) for case in cases), options.repeat)
    done = Refined(marked, *split(marked, 0), [Version("0", task.instructions.text)])
    search = _Search(task, options, oracle, progress, done)
    try:
        await search.run()
    except NotRecorded:
        done.stopped = "the record ends here"
    except LimitReached as error:
        done.stopped = error.message
    except LmmError as error:
        done.stopped, done.error = error.message, error
    except asyncio.CancelledError:
        done.stopped, done.interrupted = "interrupted", True
    decide(done, options)
    return done


class _Search:
    """One refinement under way; what it finds is in `done`."""

    def __init__(self, task: Task, options: RefineOptions, oracle: Oracle, progress: Progress, done: Refined) -> None:
        self.task, self.options, self.oracle, self.progress, self.done = task, options, oracle, progress, done
        self.by_name = {case.name: case for case in done.cases}

    async def run(self) -> None:
        done = self.done
        await self._measure(done.versions, tuple(self.by_name), "as it is")
        for round_ in range(1, self.options.rounds + 1):
            best = best_of(done.versions, done.train)
            if best.tally(done.train).is_perfect:
                break
            new = await self._proposed(round_, best)
            done.versions += new
            await self._measure(new, done.train, f"round {round_}")
        best = best_of(done.versions, done.train)
        if best is not done.baseline:
            await self._measure([best], done.held_out, f"version {best.id}, held out")

    async def _proposed(self, round_: int, best: Version) -> list[Version]:
        """New versions, those that are none or were tried already left out."""
        done = self.done
        failures = [(self.by_name[n], best.results[n]) for n in done.train if not best.results[n].passed]
        tried = [(version.text, self._came(version)) for version in done.versions[1:] if version is not best]
        texts = await self.oracle.versions(round_, best, failures, self.task.tools, tried, self.options.variants)
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
        failed: list[Exception] = []

        async def one(version: Version, name: str) -> None:
            if failed and not isinstance(failed[0], NotRecorded):
                return
            try:
                agent = self.task.agent(version.text)
                version.results[name] = await self.oracle.result(agent, self.by_name[name])
            except (LmmError, NotRecorded) as error:
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
