"""`lmm refine` beside gepa (``pip install gepa``), with as many runs of the agent: how much of what can be is found.

``python -m benchmarks.refine`` measures a scripted task: an agent passes a case if its instructions hold the rules that
the case needs; whoever proposes sees what failed, adds some rules, and now and then loses one. What counts is the share
of 200 other cases that pass. ``python -m benchmarks.refine URL`` does the same with a model behind an OpenAI-compatible
server, which is agent and proposer.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx2

from benchmarks.measure import Row, show
from chatmd.language.syntax import parse
from chatmd.refine.cases import Case, Check, RunOutcome
from chatmd.refine.search import CaseResult, Evaluator, Refinement, find_instructions, search_versions, split
from lmm import terminal
from lmm.errors import LmmError
from lmm.models.budget import SharedBudget

SOURCE = "<system>\n{}\n</system>\n<user/>\n"
RULES, CASES = 12, 12
SEEDS = range(40)


class World(Protocol):
    """Who is asked: the agent, which gets instructions and a case, and whoever proposes from what failed."""

    first: str
    cases: Sequence[Case]
    others: Sequence[Case]

    async def reply(self, text: str, case: Case) -> str:
        """What the agent says."""
        ...

    async def propose(self, text: str, failed: Sequence[tuple[Case, CaseResult]], count: int) -> list[str]:
        """Other instructions."""
        ...


class Scripted:
    """The scripted task: a case needs one to three rules of twelve."""

    first = "Answer."

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random.sample
        names = [f"r{number}" for number in range(RULES)]
        cases = [sorted(draw(names, self.random.randint(1, 3))) for _ in range(CASES + 200)]
        made = [Case(str(number), " ".join(needs), (Check("equals", "yes"),)) for number, needs in enumerate(cases)]
        self.cases: Sequence[Case] = made[:CASES]
        self.others: Sequence[Case] = made[CASES:]

    async def reply(self, text: str, case: Case) -> str:
        return "yes" if set(case.input.split()) <= set(text.split()) else "no"

    async def propose(self, text: str, failed: Sequence[tuple[Case, CaseResult]], count: int) -> list[str]:
        """Each version mends one or two of the failures, and one in four forgets a rule that was there."""
        versions = []
        for _ in range(count):
            rules = set(text.split())
            for case, _ in self.random.sample(failed, min(len(failed), self.random.randint(1, 2))):
                rules |= {rule for rule in case.input.split() if self.random.random() < 0.6}
            if self.random.random() < 0.25:
                rules.discard(self.random.choice(sorted(rules)))
            versions.append(" ".join(sorted(rules)))
        return versions


class RealModel:
    """A model that only continues texts: it names the kind of a word after a few examples, and writes further ones."""

    first = "cat: animal\noak: plant\nred: colour"
    KINDS = (
        ("animal", "dog horse eagle salmon tiger whale"),
        ("plant", "rose tulip fern moss birch lily"),
        ("colour", "blue green yellow pink black white"),
    )

    def __init__(self, url: str, seed: int) -> None:
        self.url, self.random = url, random.Random(seed)
        words = [(word, kind) for kind, some in self.KINDS for word in some.split()]
        self.random.shuffle(words)
        made = [Case(word, f"{word}:", (Check("equals", kind),)) for word, kind in words]
        self.cases: Sequence[Case] = made[:CASES]
        self.others: Sequence[Case] = made[CASES:]

    async def reply(self, text: str, case: Case) -> str:
        return self._continued(f"{text}\n{case.input}", 4, 0.0).strip().partition("\n")[0]

    async def propose(self, text: str, failed: Sequence[tuple[Case, CaseResult]], count: int) -> list[str]:
        """Each version begins another example with a word of a failure, and lets the model go on for some lines."""
        begun = [f"{text}\n{self.random.choice(failed)[0].input}" for _ in range(count)]
        return [f"{one}{self._continued(one, 16, 1.0).rpartition(chr(10))[0]}" for one in begun]

    def _continued(self, prompt: str, most: int, temperature: float) -> str:
        asked = {"prompt": prompt, "max_tokens": most, "temperature": temperature, "seed": self.random.randrange(9999)}
        reply = httpx2.post(f"{self.url}/completions", json=asked, timeout=900).raise_for_status().json()
        return str(reply["choices"][0]["text"])


async def result(world: World, text: str, case: Case) -> CaseResult:
    """What comes of a case."""
    outcome = RunOutcome(await world.reply(text, case))
    return CaseResult(outcome, tuple(fault for check in case.checks if (fault := check.fault(outcome))))


async def quality(world: World, text: str) -> float:
    """The share of other cases that pass."""
    passed = [(await result(world, text, case)).passed for case in world.others]
    return sum(passed) / len(passed)


@dataclass
class Found:
    """What a search came to: instructions, and how often the agent was run and the proposer asked."""

    text: str
    runs: int = 0
    proposals: int = 0


class _Counting(Evaluator):
    """An evaluator of a world."""

    def __init__(self, world: World, found: Found) -> None:
        super().__init__(Path(), None, SharedBudget())  # type: ignore[arg-type]
        self.world, self.found = world, found

    async def result(self, agent: str, case: Case) -> CaseResult:
        self.found.runs += 1
        return await result(self.world, find_instructions(parse(agent)).text, case)

    async def versions(self, text: str, failures: Any, tried: Any, count: int) -> list[str]:
        self.found.proposals += 1
        return await self.world.propose(text, failures, count)


async def with_ours(world: World, rounds: int) -> Found:
    """Our search, in at most so many rounds."""
    done = Refinement.of(Path(), SOURCE.format(world.first), world.cases, rounds)
    found = Found(world.first)
    await search_versions(done, rounds, _Counting(world, found))
    done.decide()
    found.text = done.winner.text if done.winner else world.first
    return found


class _Adapter:
    """A world as gepa sees it."""

    def __init__(self, world: World, found: Found, module: Any) -> None:
        self.world, self.found, self.module = world, found, module

    def evaluate(self, batch: list[Case], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        self.found.runs += len(batch)
        results = asyncio.run(_all(self.world, candidate["system"], batch))
        traces = list(zip(batch, results, strict=True)) if capture_traces else None
        return self.module.EvaluationBatch(results, [float(one.passed) for one in results], traces)

    def make_reflective_dataset(self, candidate: dict[str, str], batch: Any, names: list[str]) -> dict[str, list[Any]]:
        return {"system": [{"case": case, "result": one} for case, one in batch.trajectories]}

    def propose_new_texts(self, candidate: dict[str, str], dataset: Any, names: list[str]) -> dict[str, str]:
        self.found.proposals += 1
        failed = [(row["case"], row["result"]) for row in dataset["system"] if not row["result"].passed]
        texts = asyncio.run(self.world.propose(candidate["system"], failed, 1)) if failed else []
        return {"system": texts[0] if texts else candidate["system"]}


async def _all(world: World, text: str, batch: Sequence[Case]) -> list[CaseResult]:
    return [await result(world, text, case) for case in batch]


def with_gepa(world: World, runs: int) -> Found:
    """gepa's search with its defaults, on the cases that ours proposes from; those held out decide as with ours."""
    gepa, adapter = importlib.import_module("gepa"), importlib.import_module("gepa.core.adapter")
    stop = importlib.import_module("gepa.utils.stop_condition")
    found = Found(world.first)
    train, held = (tuple(case for case in world.cases if case.name in names) for names in split(world.cases))
    cases, one = list(train), _Adapter(world, found, adapter)
    done = gepa.optimize(
        seed_candidate={"system": world.first},
        trainset=cases,
        valset=cases,
        adapter=one,
        max_metric_calls=runs - 2 * len(held),
        stop_callbacks=[stop.ScoreThresholdStopper(1.0)],
        logger=_Quiet(),
        seed=0,
    )
    before, after = (sum(one.evaluate(list(held), {"system": text}).scores)
                     for text in (world.first, done.best_candidate["system"]))  # fmt: skip
    found.text = done.best_candidate["system"] if after >= before else world.first
    return found


class _Quiet:
    def log(self, message: str) -> None:
        """Say nothing."""


def _row(what: str, worlds: Callable[[int], World], seeds: Iterable[int], rounds: int) -> Row:
    """Our search, and gepa's with as many runs of the agent."""
    shares: list[list[tuple[float, int, int]]] = []
    for seed in seeds:
        first, second = worlds(seed), worlds(seed)
        ours = asyncio.run(with_ours(first, rounds))
        theirs = with_gepa(second, ours.runs)
        shares.append([(asyncio.run(quality(world, found.text)), found.runs, found.proposals)
                       for world, found in ((first, ours), (second, theirs))])  # fmt: skip
    means = [[statistics.mean(row[who][n] for row in shares) for n in range(3)] for who in (0, 1)]
    ours_told, theirs_told = (f"{share:.0%} ({runs:.0f} runs, {asked:.0f} proposals)" for share, runs, asked in means)
    title = f"refine, {what}, {terminal.count(rounds, 'round')}: share of other cases that pass"
    return Row(title, f"gepa {theirs_told}", ours_told, f"{means[0][0] - means[1][0]:+.0%}")


def rows() -> Iterator[Row]:
    """The scripted task."""
    for rounds in (2, 4, 8):
        yield _row("a scripted task", Scripted, SEEDS, rounds)


def _real(url: str) -> Iterator[Row]:
    yield _row("a real model", partial(RealModel, url), (0, 1), 3)


if __name__ == "__main__":
    try:
        show(_real(sys.argv[1]) if len(sys.argv) > 1 else rows())
    except LmmError as error:
        sys.exit(str(error))
