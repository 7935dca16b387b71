"""What is done by `lmm refine`."""

from __future__ import annotations

from pathlib import Path

from chatmd.cli.work.asking import confirm_on_terminal
from chatmd.refine import api
from chatmd.refine.api import Refinement, RefineRequest
from chatmd.refine.report import as_values, difference, faults, table
from chatmd.refine.results import RefineOptions
from chatmd.runtime.options import Hooks, RunOptions
from lmm import terminal
from lmm.cli import console
from lmm.errors import ConfigError, LmmError
from lmm.messages import Usage
from lmm.terminal import usage_text


def run_options(
    model: str, config: Path | None, max_turns: int | None, timeout: float | None, yes: bool, roots: list[Path]
) -> RunOptions:
    """How the file is run on each case."""
    return RunOptions(model=model, config=config, max_turns=max_turns, timeout=timeout, yes=yes, roots=tuple(roots))


def refine_options(rounds: int, variants: int, repeat: int, seed: int) -> RefineOptions:
    """How long is searched."""
    return RefineOptions(rounds, variants, repeat, seed)


def request(
    file: Path | None,
    cases: Path | None,
    options: RefineOptions,
    role: str,
    proposer: str,
    judge: str,
    budget: str,
    record: Path | None,
    in_place: bool,
    run: RunOptions,
) -> RefineRequest:
    """What is refined.

    Raises:
        ConfigError: the file or its cases are not named.
    """
    if file is None or cases is None:
        raise ConfigError(
            "name a file and its cases", hint="lmm refine FILE --cases CASES, or lmm refine --from-record RECORD"
        )
    return RefineRequest(file, cases, options, role, proposer, judge, budget, record, in_place, run)


def refine(request: RefineRequest, apply: bool, check: bool, as_json: bool) -> int:
    """Refine, and show what came of it."""
    found = api.refine(request, Hooks(confirm=confirm_on_terminal()), _progress)
    return _end(found, request.path, apply, check, as_json)


def replay(record: Path, file: Path | None, apply: bool, check: bool, as_json: bool) -> int:
    """Show what a record tells."""
    found = api.replay(record)
    return _end(found, file or found.path, apply, check, as_json)


def _progress(text: str) -> None:
    terminal.say(terminal.styled(text, "dim", err=True), err=True)


def _end(found: Refinement, file: Path, apply: bool, check: bool, as_json: bool) -> int:
    done = found.done
    if done.error is not None and not done.baseline.results:  # there is nothing to show
        raise done.error
    failed = _applied(found, file) if apply and done.winner is not None else None
    if as_json:
        values = as_values(done, found.task, file.name) | {"record": str(found.record or ""), **_usage(found.usage)}
        terminal.say_json(values)
    else:
        terminal.say(_text(found, file, apply, written=failed is None), end="")
    if failed is not None:
        raise failed
    if done.interrupted:
        return console.INTERRUPTED
    if done.error is not None:
        terminal.tell_error(done.error)
        return console.FAILED
    incomplete = len(done.baseline.results) < len(done.cases)
    if check and (incomplete or not all(result.passed for result in done.baseline.results.values())):
        return console.FAILED
    return console.DONE


def _applied(found: Refinement, file: Path) -> LmmError | None:
    """Write the winner; why that could not be done. What was found is to be shown all the same."""
    try:
        api.apply(found, file)
    except LmmError as error:
        return error
    return None


def _usage(usage: Usage) -> dict[str, object]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": usage.cost}


def _text(found: Refinement, file: Path, apply: bool, *, written: bool) -> str:
    done = found.done
    parts = [table(done)]
    shown = done.winner or done.baseline
    if lines := faults(done, shown):
        which = "as it is" if shown is done.baseline else f"with version {shown.id}"
        parts.append(f"what fails {which}:\n{_indented(lines)}")
    if done.winner is not None:
        parts.append(difference(found.task, done.winner, file.name).rstrip("\n"))
    ending = [f"stopped: {done.stopped}"] if done.stopped else []
    ending += [done.reason] if done.reason else []
    record = f"; record: {found.record}" if found.record else ""
    ending += [f"{usage_text(found.usage)} in all{record}"]
    ending += [_next(found, file, apply, written=written)]
    parts.append("\n".join(line for line in ending if line))
    return "\n\n".join(parts) + "\n"


def _next(found: Refinement, file: Path, apply: bool, *, written: bool) -> str:
    done = found.done
    if apply and done.winner is not None:
        return f"{file}: written" if written else ""
    if done.winner is not None:
        return f"to write it: lmm refine --from-record {found.record} --apply"
    if done.stopped and found.record:
        return f"to go on: the same command with --record {found.record}"
    return f"{file}: nothing to write" if apply else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
