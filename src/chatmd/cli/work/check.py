"""What is done by `lmm check`."""

from __future__ import annotations

from pathlib import Path

from chatmd.checking.check_file import check_file
from chatmd.language.nodes import Problem
from chatmd.runtime.options import RunOptions
from lmm import terminal
from lmm.cli import console
from lmm.errors import LmmError


def check(files: list[Path], strict: bool, roots: list[Path], as_json: bool, config: Path | None) -> int:
    """Report the problems of ChatMD files, of the files that they import, and of what they refer to."""
    options = RunOptions(config=config, roots=tuple(roots))
    code, found = console.DONE, 0
    for path in files:
        try:
            problems = check_file(path, options, strict=strict)
        except LmmError as error:
            terminal.tell_error(error)
            code = console.FAILED
            continue
        for problem in problems:
            found += 1
            if as_json:
                terminal.say_json(_as_values(problem))
            else:
                terminal.say(_line(problem))
            if problem.severity == "error":
                code = console.FAILED
    if not as_json and not found and code == console.DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code


def _line(problem: Problem) -> str:
    warning = "warning: " if problem.severity == "warning" else ""
    return f"{problem.span.where}: {warning}{problem.message} ({problem.hint})"


def _as_values(problem: Problem) -> dict[str, object]:
    return {
        "path": problem.span.file,
        "line": problem.span.line,
        "column": problem.span.column,
        "severity": problem.severity,
        "message": problem.message,
        "hint": problem.hint,
    }
