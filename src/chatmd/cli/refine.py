"""`lmm refine`: measure a prompt on cases, and find a better one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmm import terminal
from lmm.cli import options
from lmm.errors import LmmError
from lmm.messages import Usage
from lmm.terminal import DONE, FAILED, INTERRUPTED, usage_text

if TYPE_CHECKING:
    from chatmd.refine.api import Refinement


@options.command()
@options.argument("file", "FILE", "A ChatMD file; its system message is refined.", type=options.PATH)
@click.option(
    "--cases",
    metavar="CASES",
    type=options.PATH,
    required=True,
    help="YAML, JSON or JSONL: inputs, and what replies to them have to fulfil.",
)
@options.flag("--check", help="Only measure it as it is; the exit code is 1 if a case fails.")
@click.option(
    "--rounds", metavar="N", type=click.IntRange(min=0), default=2, help="Rounds of proposals; 0 only measures."
)
@click.option("--variants", metavar="N", type=click.IntRange(min=1, max=20), default=3, help="New versions in a round.")
@click.option("--repeat", metavar="N", type=click.IntRange(min=1), default=1, help="Run each case so many times.")
@click.option("--seed", metavar="N", type=int, default=0, help="Draws the cases that are held out.")
@click.option("--role", type=click.Choice(["system", "developer"]), help="Refine the first message of this role.")
@options.budget("At most so many tokens (20000), or so much money (0.50$), in all.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0.001), help="A case fails that takes longer.")
@click.option("--max-turns", metavar="N", type=click.IntRange(min=1), help="A case fails that takes more requests.")
@click.option(
    "--model", metavar="NAME", default="", show_default=False, help="The model of the file, instead of its own."
)
@click.option(
    "--proposer",
    metavar="NAME",
    default="",
    show_default=False,
    help="The model that proposes versions, instead of the file's own.",
)
@click.option(
    "--judge",
    metavar="NAME",
    default="",
    show_default=False,
    help="The judge, instead of the minor model or the file's own.",
)
@options.config
@options.flag("--again", help="Ask anew what was asked before, and is in the journal.")
@options.flag("--apply", help="Write the better version into FILE.")
@options.flag("--in-place", help="Let tools work in the file's folder, not in copies of it.")
@options.yes("Agree to what the file's tools can do.")
@options.roots("Another folder that files may be imported from.")
@options.flag("--json", "as_json", help="Report as JSON.")
def refine(
    *,
    file: Path,
    cases: Path,
    check: bool,
    rounds: int,
    variants: int,
    repeat: int,
    seed: int,
    role: str | None,
    budget: str,
    timeout: float | None,
    max_turns: int | None,
    model: str,
    proposer: str,
    judge: str,
    config: Path | None,
    again: bool,
    apply: bool,
    in_place: bool,
    yes: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Measure a prompt on cases, and look for a better one.

    A model reads how the prompt failed and proposes other versions. The best of them is shown as a diff, if it does
    better on the cases, and no worse on those that were held out. With --check, this tests a prompt, as in CI.
    """
    from chatmd.chat import Chat
    from chatmd.cli.asking import confirm_on_terminal

    found = Chat.open(file, config=config, roots=roots).refine(
        cases, rounds=0 if check else rounds, variants=variants, repeat=repeat, seed=seed, role=role or "",
        proposer=proposer, judge=judge, in_place=in_place, again=again, progress=_progress, max_turns=max_turns,
        timeout=timeout, model=model, budget=budget, yes=yes, confirm=confirm_on_terminal(),
    )  # fmt: skip
    return _end(found, apply, check, as_json)


def _progress(text: str) -> None:
    terminal.say(terminal.styled(text, "dim", err=True), err=True)


def _end(found: Refinement, apply: bool, check: bool, as_json: bool) -> int:
    done, file = found.done, found.path
    if done.error is not None and not done.baseline.results:  # there is nothing to show
        raise done.error
    failed = _applied(found) if apply and done.winner is not None else None
    from chatmd.refine.report import as_values

    if as_json:
        values = as_values(done, found.task, file.name) | _usage(found.usage)
        terminal.say_json(values)
    else:
        terminal.say(_text(found, apply, written=failed is None), end="")
    if failed is not None:
        raise failed
    if done.interrupted:
        return INTERRUPTED
    if done.error is not None:
        terminal.tell_error(done.error)
        return FAILED
    incomplete = len(done.baseline.results) < len(done.cases)
    if check and (incomplete or not all(result.passed for result in done.baseline.results.values())):
        return FAILED
    return DONE


def _applied(found: Refinement) -> LmmError | None:
    """Write the winner; why that could not be done. What was found is to be shown all the same."""
    try:
        found.apply()
    except LmmError as error:
        return error
    return None


def _usage(usage: Usage) -> dict[str, object]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": usage.cost}


def _text(found: Refinement, apply: bool, *, written: bool) -> str:
    from chatmd.refine.report import difference, faults, table

    done, file = found.done, found.path
    parts = [table(done)]
    shown = done.winner or done.baseline
    if lines := faults(done, shown):
        which = "as it is" if shown is done.baseline else f"with version {shown.id}"
        parts.append(f"what fails {which}:\n{_indented(lines)}")
    if done.winner is not None:
        parts.append(difference(found.task, done.winner, file.name).rstrip("\n"))
    ending = [f"stopped: {done.stopped}"] if done.stopped else []
    ending += [done.reason] if done.reason else []
    ending += [f"{usage_text(found.usage)} in all"]
    ending += [_next(found, apply, written=written)]
    parts.append("\n".join(line for line in ending if line))
    return "\n\n".join(parts) + "\n"


def _next(found: Refinement, apply: bool, *, written: bool) -> str:
    done = found.done
    if apply and done.winner is not None:
        return f"{found.path}: written" if written else ""
    if done.winner is not None:
        return "to write it: the same command with --apply, which asks nobody again"
    if done.stopped:
        return "to go on: the same command; what was asked is not asked again"
    return f"{found.path}: nothing to write" if apply else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
