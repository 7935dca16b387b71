"""What is done by `lmm scan` and `lmm clear`."""

from __future__ import annotations

from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.disk.files import read_document
from lmm.disk.folder import SUFFIXES
from lmm.errors import ConfigError, LmmError
from lmm.scan import Problem, ScanReport, clear_messages
from lmm.scan import scan as scan_file


def scan(files: list[Path], check: bool, fix: bool, as_json: bool) -> int:
    """Add title and docid to headers that lack them, and report problems as path:line:col: message."""
    if check and fix:
        raise ConfigError("--check writes nothing, --fix does", hint="choose one of them")
    code, found = console.DONE, 0
    for path in files:
        try:
            if not check and path.suffix.lower() not in SUFFIXES:
                read_document(path)  # a file that is missing is told as such
                hint = f"a header is written into {', '.join(SUFFIXES)} only; lmm scan --check reads any file"
                raise LmmError("this is no markdown file", where=str(path), hint=hint)
            report = scan_file(path, check=check, fix=fix)
        except LmmError as error:
            terminal.tell_error(error)
            code = console.FAILED
            continue
        found += len(report.problems)
        for problem in report.problems:
            if as_json:
                terminal.say_json(_as_values(path, problem))
            else:
                terminal.say(_line(path, problem))
        if report.changed and not as_json:
            terminal.say(f"{path}: {_done(report)}")
        if any(problem.severity == "error" for problem in report.problems):
            code = console.FAILED
    if not as_json and not found and code == console.DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code


def _done(report: ScanReport) -> str:
    if not report.fixed:
        return "completed the header"
    return f"wrote {terminal.count(report.fixed, 'value')} so that knitr does not run code in it"


def _as_values(path: Path, problem: Problem) -> dict[str, object]:
    return {
        "path": str(path),
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity,
        "message": problem.message,
        "hint": problem.hint,
    }


def _line(path: Path, problem: Problem) -> str:
    warning = "warning: " if problem.severity == "warning" else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{path}:{problem.line}:{problem.column}: {warning}{problem.message}{hint}"


def clear(files: list[Path], pending: bool) -> int:
    """Remove the chats from files; metadata blocks that held nothing else go with them."""
    for path in files:
        changed = clear_messages(path, pending=pending)
        terminal.say(f"{path}: {'removed the chats' if changed else 'there are no chats'}")
    return console.DONE
