"""`lmm refine`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from lmm.cli import console

app = console.make_app()
work = console.Later("chatmd.cli.work.refine")


class Role(StrEnum):
    """Whose message is refined."""

    system = "system"
    developer = "developer"


@app.command()
def refine(
    file: Annotated[
        Optional[Path],
        typer.Argument(metavar="[FILE]", help="A ChatMD file; its system message is refined.", readable=False),
    ] = None,
    cases: Annotated[
        Optional[Path],
        typer.Option(metavar="CASES", help="YAML, JSON or JSONL: inputs, and what replies to them have to fulfil."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only measure it as it is; the exit code is 1 if a case fails.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=0, metavar="N", help="Rounds of proposals; 0 only measures.")] = 2,
    variants: Annotated[int, typer.Option(min=1, max=20, metavar="N", help="New versions in a round.")] = 3,
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Run each case so many times.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws the cases that are held out.")] = 0,
    role: Annotated[
        Optional[Role], typer.Option(help="Refine the first message of this role.", show_default=False)
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="AMOUNT", help="At most so many tokens (20000), or so much money (0.50$), in all.")
    ] = "",
    timeout: Annotated[
        Optional[float], typer.Option(metavar="SECONDS", min=0.001, help="A case fails that takes longer.")
    ] = None,
    max_turns: Annotated[
        Optional[int], typer.Option(metavar="N", min=1, help="A case fails that takes more requests.")
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="The model of the file, instead of its own.")] = "",
    proposer: Annotated[
        str, typer.Option(metavar="NAME", help="The model that proposes versions, instead of the file's own.")
    ] = "",
    judge: Annotated[
        str, typer.Option(metavar="NAME", help="The judge, instead of the minor model or the file's own.")
    ] = "",
    config: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Use this config.toml.")] = None,
    record: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Where all requests and replies go; if it is there, go on with it."),
    ] = None,
    from_record: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Show the results of a record again; no model is asked."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write the better version into FILE.")] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Let tools work in the file's folder, not in copies of it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to what the file's tools can do.")] = False,
    roots: Annotated[
        Optional[list[Path]],
        typer.Option("--root", metavar="DIR", help="Another folder that files may be imported from.", file_okay=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> int:
    """Measure a prompt on cases, and look for a better one.

    A model reads how the prompt failed and proposes other versions. The best of them is shown as a diff, if it does
    better on the cases, and no worse on those that were held out. With --check, this tests a prompt, as in CI.
    """
    if from_record is not None:
        return work.replay(from_record, file, apply, check, as_json)
    run = work.run_options(model, config, max_turns, timeout, yes, roots or [])
    options = work.refine_options(0 if check else rounds, variants, repeat, seed)
    request = work.request(file, cases, options, str(role or ""), proposer, judge, budget, record, in_place, run)
    return work.refine(request, apply, check, as_json)
