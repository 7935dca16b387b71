"""What is done by `lmm scan` and `lmm clear`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lmm import terminal
from lmm.cli import console
from lmm.disk.files import read_document
from lmm.disk.folder import SUFFIXES
from lmm.document import Document
from lmm.errors import ConfigError, LmmError
from lmm.notebook.problems import Problem


def scan(files: list[Path], check: bool, fix: bool, as_json: bool) -> int:
    """Add title and docid to headers that lack them, and report problems as path:line:col: message."""
    if check and fix:
        raise ConfigError("--check writes nothing, --fix does", hint="choose one of them")
    found = 0

    def work(path: Path) -> int:
        nonlocal found
        problems, done = _scan(path, check, fix)
        found += len(problems)
        for problem in problems:
            if as_json:
                terminal.say_json(_as_values(path, problem))
            else:
                terminal.say(_line(path, problem))
        if done and not as_json:
            terminal.say(f"{path}: {done}")
        return console.FAILED if any(problem.severity == "error" for problem in problems) else console.DONE

    code = console.each(files, work)
    if not as_json and not found and code == console.DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code


def _scan(path: Path, check: bool, fix: bool) -> tuple[tuple[Problem, ...], str]:
    """The problems of a file, and what was done about it."""
    if not check and path.suffix.lower() not in SUFFIXES:
        read_document(path)  # a file that is missing is told as such
        hint = f"a header is written into {', '.join(SUFFIXES)} only; lmm scan --check reads any file"
        raise LmmError("this is no markdown file", where=str(path), hint=hint)
    document = Document.open(path)
    with contextlib.nullcontext() if check else document:
        document.reload()
        completed = not check and document.complete()
        fixed = document.fix() if fix else 0
        document.save().check()
    done = f"wrote {terminal.count(fixed, 'value')} so that knitr does not run code in it" if fixed else ""
    return document.problems(gaps=check), done or ("completed the header" if completed else "")


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
        with Document.open(path, listener=terminal.EventPrinter()) as document:
            changed = document.clear(pending=pending)
            document.save().check()
        terminal.say(f"{path}: {'removed the chats' if changed else 'there are no chats'}")
    return console.DONE
