"""`lmm scan` and `lmm clear`."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import each
from lmm.cli.options import change
from lmm.errors import ConfigError, LmmError
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from lmm.notebook.problem import Finding


@options.command()
@options.files
@options.flag("--check", help="Report only; write nothing.")
@options.flag("--fix", help="Correct what is certain: misspelt prompts, replies in which knitr would run code.")
@options.flag("--quotes", help="Also compare quotations, including those in a log, with the lines that they name.")
@options.flag("--authors", help="Only list who wrote the text: you, and the models whose text you accepted.")
@options.json_lines
def scan(*, files: tuple[Path, ...], check: bool, fix: bool, quotes: bool, authors: bool, as_json: bool) -> int:
    """Add title and docid to headers that lack them, and report problems as path:line:col: message.

    The exit code is 1 if there is an error; warnings alone leave it 0.
    """
    if check and fix:
        raise ConfigError("--check and --fix cannot be used together", hint="choose one of them")
    if authors:
        return each(files, lambda path: _list_authors(path, as_json=as_json))
    found = 0

    def act(path: Path) -> int:
        nonlocal found
        is_log = quotes and _is_log(path)
        problems, done = ((), "") if is_log else _scan(path, check=check, fix=fix)
        problems += _misquotations(path, is_log=is_log) if quotes else ()
        found += len(problems)
        for problem in problems:
            if as_json:
                told = {name: getattr(problem, name) for name in ("line", "column", "severity", "message", "hint")}
                terminal.say_json({"path": str(path), **told})
            else:
                terminal.say(_line(path, problem))
        if done and not as_json:
            terminal.say(f"{terminal.path_text(path)}: {done}")
        return FAILED if any(problem.severity == "error" for problem in problems) else DONE

    code = each(files, act)
    if not as_json and not found and code == DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code


def _list_authors(path: Path, *, as_json: bool) -> int:
    from lmm import Document

    authors = Document.open(path).authors
    if as_json:
        terminal.say_json({"path": str(path), "authors": [asdict(author) for author in authors]})
        return DONE
    total = sum(author.words for author in authors)
    for author in authors:
        words = f"{terminal.count(author.words, 'word')} ({author.words / (total or 1):.0%})"
        terminal.say(f"{terminal.path_text(path)}: {words} {author}")
    return DONE


def _scan(path: Path, *, check: bool, fix: bool) -> tuple[tuple[Finding, ...], str]:
    """Scan a file; return its problems, and what was corrected or completed."""
    from lmm import Document
    from lmm.disk.files import read_document
    from lmm.disk.folder import SUFFIXES

    if not check and path.suffix.lower() not in SUFFIXES:
        read_document(path)  # reports a missing file as such
        hint = f"lmm scan writes headers into {', '.join(SUFFIXES)} only; lmm scan --check reads any file"
        raise LmmError("this is not a markdown file", where=str(path), hint=hint)
    document = Document.open(path, listener=options.show_progress)
    with contextlib.nullcontext() if check else document:
        document.reload()
        completed = not check and document.complete()
        fixed = document.fix() if fix else 0
        document.save()
    done = f"corrected {terminal.count(fixed, 'problem')}" if fixed else ""
    return document.problems(gaps=check), done or ("completed the header" if completed else "")


def _is_log(path: Path) -> bool:
    """Return whether a file is a log of lmm serve, judging only by its being a database."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
    return False


def _misquotations(path: Path, *, is_log: bool) -> tuple[Finding, ...]:
    """Find quotations in a document, or in the answers of a log, that are not in the files beside it that they name."""
    from lmm import Document
    from lmm.disk.files import decode_document
    from lmm.disk.folder import Folder
    from lmm.notebook.quoted_sources import problems_in, quotation_problems

    folder = Folder(path.parent)

    @functools.cache
    def read(name: str) -> str:
        return decode_document(folder.read(name), name)

    if not is_log:
        return tuple(quotation_problems(Document.open(path).blocks, read))
    answers = import_module("lmm_education.exchange_log.log_file").linked_answers(path)
    found = ((id, problem) for id, text in answers for problem in problems_in(0, text, read))
    return tuple(replace(problem, line=0, message=f"answer {id}: {problem.message}") for id, problem in found)


def _line(path: Path, problem: Finding) -> str:
    warning = "warning: " if problem.severity == "warning" else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    place = f":{problem.line}:{problem.column}" if problem.line else ""
    return f"{terminal.path_text(path)}{place}: {warning}{problem.message}{hint}"


@options.command()
@options.files
@options.flag("--pending", help="Remove unanswered prompts too.")
def clear(*, files: tuple[Path, ...], pending: bool) -> int:
    """Remove the chats from files, and metadata blocks that contain nothing else."""
    for path in files:
        changed = change(path, lambda document: document.clear(pending=pending))
        terminal.say(f"{terminal.path_text(path)}: {'removed the chats' if changed else 'there are no chats'}")
    return DONE
