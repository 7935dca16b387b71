"""Search for better instructions: measure them, propose versions, measure these, and apply the best."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chatmd.context import Run
from chatmd.errors import LimitReached, RefineError
from chatmd.language.nodes import BLANK, Element, SyntaxTree, Text, joined
from chatmd.language.syntax import errors_of, parse, parse_body, write
from chatmd.language.transcript import storable
from chatmd.refine.cases import Case
from chatmd.refine.measure import CaseResult, Evaluator
from lmm.disk import digest, files
from lmm.disk.files import check_writable, document_lock
from lmm.errors import Changed, DocumentBusy, LmmError
from lmm.messages import Usage
from lmm.models.budget import SharedBudget

ROUNDS = 4
"""The default number of rounds in which versions are proposed."""
VARIANTS = 3
"""The number of versions that are proposed in a round."""
SAMPLE = 4
"""The number of failed cases on which they are tried first; only the best version is run on the others."""
FEWEST_TO_SPLIT = 4
_NOISE = 0.5  # points: smaller differences between mean scores count as chance
Progress = Callable[[str], None]
Results = Mapping[str, CaseResult]


# -- Find and replace the instructions in a file -----------------------------------------------------------


ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Instructions:
    """The inside of a file's system or developer message: `start` up to `end` of the file's text.

    `text` is what a model gets of it, without comments and the white space around it. If it contains documents and
    imports (`parts`), it is written in ChatMD; otherwise it is plain text.
    """

    text: str
    start: int
    end: int
    before: str
    after: str
    raw: bool
    parts: tuple[Element, ...]

    def put(self, text: str, source: str) -> str:
        """Replace the instructions in the text of their file; nothing else changes.

        Raises:
            ValueError: the new ones are empty or not valid, lack a part of the old ones, or add one.

        >>> from chatmd.language.syntax import parse
        >>> source = "<system>\\nBe brief.\\n</system>"
        >>> find_instructions(parse(source)).put("Close with </system>.", source)
        '<system>RAW|\\nClose with </system>.\\n|RAW</system>'
        """
        return source if text == self.text else source[: self.start] + self._written(text) + source[self.end :]

    def _written(self, text: str) -> str:
        text = storable(text).strip(BLANK)
        if not text:
            raise ValueError("it is empty")
        whole = f"{self.before}{text}{self.after}"
        if not self.parts:
            return write([Text(whole, self.raw)])
        body = parse_body(whole)
        if errors_of(body.problems):
            raise ValueError(body.problems[0].message)
        expected = [write([part]) for part in self.parts]
        if sorted(write([node]) for node in body.children if isinstance(node, Element)) != sorted(expected):
            raise ValueError(f"it must keep {', '.join(expected)}, once each, and add no other")
        return whole


def find_instructions(document: SyntaxTree) -> Instructions:
    """Find the first system message of a file, or else its first developer message.

    Raises:
        RefineError: there is none, or it is empty.

    >>> from chatmd.language.syntax import parse
    >>> find_instructions(parse("<system>\\nBe brief.\\n</system><user/>")).text
    'Be brief.'
    """
    fits = next((element for role in ROLES for element in document.elements if _role(element) == role), None)
    if fits is None or fits.closing is None:
        raise RefineError(
            "there is no <system> or <developer> message in this file", where=document.file or "the file",
            hint="its instructions must be in the file itself, not in an import at its top",
        )  # fmt: skip
    children = joined(fits.children)
    parts = tuple(node for node in children if isinstance(node, Element))
    texts = [node for node in children if isinstance(node, Text)]
    shown = write(children) if parts else "".join(node.value for node in texts)
    text = shown.strip(BLANK)
    if not text:
        raise RefineError("the message is empty", where=fits.span.where, hint="write a first version of it")
    before, _, after = shown.partition(text)
    raw = any(node.raw for node in texts)
    return Instructions(text, fits.opening.end, fits.closing.start, before, after, raw, parts)


def _role(element: Element) -> str:
    return (element.get("role") or "").strip().lower() if element.tag == "msg" else element.tag


# -- Compare versions on the same cases, some of which are held out from the proposals ------------------


@dataclass(frozen=True, slots=True)
class CaseTally:
    """A total of results: the cases that passed, all cases, the mean score from 0 to 10, and the usage of the runs."""

    passed: int
    total: int
    score: float | None
    usage: Usage


@dataclass(slots=True)
class Version:
    """A version of the instructions, with its results. `id` is ``0`` for the original, or round and number: ``1.2``."""

    id: str
    text: str
    results: dict[str, CaseResult] = field(default_factory=dict)

    def tally(self, names: Iterable[str]) -> CaseTally:
        """Sum up its results on those of the cases that were measured."""
        results = [self.results[name] for name in names if name in self.results]
        scores = [result.score for result in results if result.score is not None]
        usage = sum((result.outcome.usage for result in results), Usage())
        score = sum(scores) / len(scores) if scores else None
        return CaseTally(sum(result.passed for result in results), len(results), score, usage)


def split(cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the names of cases into those for proposals, and a third, chosen by hash of the name, that is held out.

    If there are fewer than four, none is held out.
    """
    names = [case.name for case in cases]
    held = set(sorted(names, key=digest)[: len(names) // 3 if len(names) >= FEWEST_TO_SPLIT else 0])
    return tuple(n for n in names if n not in held), tuple(n for n in names if n in held)


def advantage(first: Results, second: Results, names: Iterable[str]) -> float:
    """Return how many more cases the first passes than the second, of those that both were measured on.

    If both pass as many, return the difference of their mean scores, if it is large enough to be more than chance.
    """
    pairs = [(first[name], second[name]) for name in names if name in first and name in second]
    scores = [a.score - b.score for a, b in pairs if a.score is not None and b.score is not None]
    mean = sum(scores) / len(scores) if scores else 0.0
    return sum(a.passed - b.passed for a, b in pairs) or (mean if abs(mean) > _NOISE else 0.0)


def best_of(versions: Sequence[Version], names: Sequence[str]) -> Version:
    """Return the best version, or the first of equals. Versions not measured on all of these cases do not count."""
    complete = [version for version in versions if all(name in version.results for name in names)]
    best = complete[0] if complete else versions[0]
    for version in complete[1:]:
        if advantage(version.results, best.results, names) > 0:
            best = version
    return best


@dataclass(slots=True)
class Refinement:
    """The result of a refinement: all `versions`, the `winner`, if one is better, and the `reason`, in words.

    `stopped` says what ended it early, `error` is the error that did; `usage` is the total.
    """

    path: Path
    source: str
    instructions: Instructions
    cases: tuple[Case, ...]
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    versions: list[Version]
    winner: Version | None = None
    reason: str = ""
    stopped: str = ""
    error: LmmError | None = None
    cancelled: bool = False
    usage: Usage = Usage()  # noqa: RUF009  # a frozen value

    @classmethod
    def of(cls, path: Path, source: str, cases: Sequence[Case], rounds: int) -> Refinement:
        """Start a refinement of a file's text; nothing is measured yet.

        Raises:
            RefineError: the text has errors, or no instructions.
        """
        document = parse(source, file=str(path))
        if problems := errors_of(document.problems):
            raise RefineError(problems[0].message, where=problems[0].span.where, hint=problems[0].hint)
        instructions = find_instructions(document)
        train, held = split(cases) if rounds else (tuple(case.name for case in cases), ())
        return cls(path, source, instructions, tuple(cases), train, held, [Version("0", instructions.text)])

    @property
    def baseline(self) -> Version:
        """The original instructions."""
        return self.versions[0]

    def agent(self, version: Version) -> str:
        """Return the text of the file with a version's instructions."""
        return self.instructions.put(version.text, self.source)

    def apply(self) -> None:
        """Write the winner to the file, which must not have changed since it was measured.

        Raises:
            RefineError: there is no winner.
            DocumentError: the file was changed in the meantime, or cannot be written.
        """
        if self.winner is None:
            raise RefineError("there is nothing to apply: no version is better", where=str(self.path))
        check_writable(self.path)
        with document_lock(self.path, timeout=0):
            try:
                files.replace(self.path, self.agent(self.winner), expected=self.source.encode("utf-8"))
            except Changed as error:
                raise DocumentBusy(
                    "the file has changed since it was measured; nothing was written",
                    where=str(self.path),
                    hint="refine it again, or copy what you want from the diff",
                ) from error

    def decide(self) -> None:
        """Choose the winner: a version that is better on the cases for proposals, and not worse on those held out."""
        base, best = self.baseline, best_of(self.versions, self.train)
        before, after = base.tally(self.train), best.tally(self.train)
        if best is base:
            all_pass = before.passed == len(self.train)
            self.reason = "all of these cases pass as it is" if all_pass else "no version does better than the original"
            return
        better = f"version {best.id} passes {after.passed} of {after.total}, and {before.passed} passed as it is"
        if before.passed == after.passed:
            better = f"version {best.id} is judged {after.score or 0:.1f}, and {before.score or 0:.1f} as it is"
        if any(name not in version.results for version in (base, best) for name in self.held_out):
            self.reason = f"best so far: {better}; it was not yet measured on the cases that were held out"
            return
        after, before = best.tally(self.held_out), base.tally(self.held_out)
        on_held = f"of those held out {after.passed} of {after.total}, and {before.passed} as it is"
        if advantage(best.results, base.results, self.held_out) < 0:
            self.reason = f"{better}; but {on_held}: it fits these cases, not the task"
            return
        self.winner = best
        self.reason = f"{better}; {on_held}" if self.held_out else f"{better}; no case was held out"


# -- The search: measure, propose, measure, choose ------------------------------------------------------


async def refine(
    text: str,
    path: Path,
    cases: Sequence[Case],
    run: Run,
    *,
    rounds: int = ROUNDS,
    again: bool = False,
    progress: Progress = lambda text: None,
) -> Refinement:
    """Measure the instructions in the text of a file on cases, and search for better ones; the file is not changed.

    The budget of `run` is for everything together. An interruption, an error of a model or an empty budget end the
    search early: the results so far are returned, and a repeated search does not ask for them again.

    Raises:
        InvalidDocument, RefineError: the file cannot be used.
        ConsentNeeded: the user did not agree to the file's tools.
        ConfigError, ModelError: the required models are not available.
    """
    budget = SharedBudget(dataclasses.replace(run.tally.limits, turns=None))
    done = await asyncio.to_thread(Refinement.of, path, text, cases, rounds)
    judges = any(check.kind == "judge" for case in cases for check in case.checks)
    evaluator = await asyncio.to_thread(Evaluator.open, path, text, run, budget, judges=judges, proposes=rounds > 0)
    evaluator.again = again
    await search_versions(done, rounds, evaluator, progress)
    done.usage = budget.usage
    return done


async def search_versions(
    done: Refinement, rounds: int, evaluator: Evaluator, progress: Progress = lambda text: None
) -> None:
    """Measure the instructions on the cases, and search for better ones in rounds of proposals.

    In each round, new versions are tried on some failed cases, and the best is measured on all but those held out.

    Cancellation, errors and an empty budget only end the search early; the results so far are in `done`.
    """
    try:
        await _Search(done, evaluator, progress).run(rounds)
    except LimitReached as error:
        done.stopped = error.message
    except LmmError as error:
        done.stopped, done.error = error.message, error
    except asyncio.CancelledError:
        done.stopped, done.cancelled = "interrupted", True
    if rounds:
        done.decide()


@dataclass(slots=True)
class _Search:
    """A running search; its results are in `done`."""

    done: Refinement
    evaluator: Evaluator
    progress: Progress

    async def run(self, rounds: int) -> None:
        done = self.done
        await self._measure(done.versions, [case.name for case in done.cases], "as it is")
        for round_ in range(1, rounds + 1):
            best = best_of(done.versions, done.train)
            failed = [name for name in done.train if not best.results[name].passed]
            if not failed:
                break
            new = await self._propose(round_, best, failed)
            done.versions += new
            await self._measure(new, failed[:SAMPLE], f"round {round_}")
            better = best_of([best, *new], failed[:SAMPLE])
            await self._measure([better], done.train, f"version {better.id}")
        best = best_of(done.versions, done.train)
        if best is not done.baseline:
            await self._measure([best], done.held_out, f"version {best.id}, held out")

    async def _propose(self, round_: int, best: Version, failed: Sequence[str]) -> list[Version]:
        """Ask for new versions; invalid ones and those that were already tried are left out."""
        done = self.done
        failures = [(case, best.results[case.name]) for case in done.cases if case.name in failed]
        tried = [
            (version.text, f"{came.passed} of {came.total} cases passed")
            for version in done.versions[1:] if version is not best and (came := version.tally(done.train))
        ]  # fmt: skip
        known, new = {version.text for version in done.versions}, list[Version]()
        for text in await self.evaluator.versions(best.text, failures, tried, VARIANTS):
            version = Version(f"{round_}.{len(new) + 1}", text)
            try:
                done.agent(version)
            except ValueError as error:
                self.progress(f"round {round_}: a proposal was left out: {error}")
                continue
            new += [version] if text not in known else []
            known.add(text)
        if not new:
            self.progress(f"round {round_}: no new version was proposed")
        return new

    async def _measure(self, versions: Iterable[Version], names: Iterable[str], what: str) -> None:
        """Run versions on cases in parallel. After the first error, no other runs start, but running ones finish."""
        todo = [(version, name) for version in versions for name in names if name not in version.results]
        if not todo:
            return
        self.progress(f"{what}: {len(todo)} to run")
        by_name, failed = {case.name: case for case in self.done.cases}, list[LmmError]()

        async def one(version: Version, name: str) -> None:
            if failed:
                return
            try:
                version.results[name] = await self.evaluator.result(self.done.agent(version), by_name[name])
            except LmmError as error:
                failed.append(error)

        async with asyncio.TaskGroup() as group:
            for each in todo:
                group.create_task(one(*each))
        if failed:
            raise next((error for error in failed if not isinstance(error, LimitReached)), failed[0])
