"""What is refined, what came of it, and who won."""

from __future__ import annotations

from dataclasses import dataclass, field

from chatmd.refine.cases import Case
from chatmd.refine.selection import Version, best_of, compare
from chatmd.refine.versions import Instructions, with_instructions
from lmm.errors import LmmError


@dataclass(frozen=True, slots=True)
class RefineOptions:
    """`rounds` of proposals, each of so many `variants`; each case is run `repeat` times; `seed` draws who is held out.

    No rounds only measure.
    """

    rounds: int = 2
    variants: int = 3
    repeat: int = 1
    seed: int = 0


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
class Refined:
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


def decide(done: Refined, options: RefineOptions) -> None:
    """Say who won: a version that is better where proposals were made from, and no worse where they were not."""
    if not options.rounds:
        done.reason = ""
        return
    base, best = done.baseline, best_of(done.versions, done.train)
    before, after = base.tally(done.train), best.tally(done.train)
    if best is base:
        all_pass = before.is_perfect and before.total == len(done.train)
        done.reason = "all of these cases pass as it is" if all_pass else "no version does better than what there is"
        return
    better = f"version {best.id} passes {after.passed} of {after.total}, and {before.passed} passed as it is"
    if before.passed == after.passed:
        better = f"version {best.id} is judged {after.score or 0:.1f}, and {before.score or 0:.1f} as it is"
    if any(name not in best.results or name not in base.results for name in done.held_out):
        done.reason = f"best so far: {better}; it has yet to be held against the cases that were held out"
        return
    held = compare(best.results, base.results, done.held_out)
    after, before = best.tally(done.held_out), base.tally(done.held_out)
    on_held = f"of those held out {after.passed} of {after.total}, and {before.passed} as it is"
    if held.is_worse:
        done.reason = f"{better}; but {on_held}: it fits these cases, not the task"
        return
    done.winner = best
    done.reason = f"{better}; {on_held}" if done.held_out else f"{better}; no case was held out"
