"""`lmm scan` and `lmm clear`."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
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
    from lmm.errors import Finding

# Keys that mean nothing to a course, and marks of what its readers may not see, or must not (parts of the names of
# solutions in several languages); without others it is not asked.
_PLAIN = frozenset({"title", "docid", "author", "date"})
_MARKS = ("{{", "{%", "8<-", "`r ", "`{", "\nimport ", "\nexport ",
          "oluti", "oluci", "oluzi", "oluç", "ösung", "orrigé", "plossing", "nswer", "ntwort")  # fmt: skip


@options.command()
@options.files
@options.flag("--check", help="Report only; write nothing.")
@options.flag("--fix", help="Correct misspelt prompts on their line, and replies in which knitr would run code.")
@options.flag("--results", help="Also report numbers that differ from what the code printed when it was last knitted.")
@options.flag("--authors", help="Only list who wrote the text: you, and the models whose text you accepted.")
@options.verbose
@options.json_lines
def scan(
    *, files: tuple[Path, ...], check: bool, fix: bool, results: bool, authors: bool, verbose: bool, as_json: bool
) -> int:
    """Add title and docid to headers that lack them, and report problems as path:line:col: message.

    The exit code is 1 if there is an error; warnings alone leave it 0.
    """
    if check and fix:
        raise ConfigError("--check and --fix cannot be used together", hint="choose one of them")
    if authors:
        return each(files, lambda path: _list_authors(path, as_json=as_json))
    found, lines = 0, terminal.SimilarLines(verbose=verbose)

    def act(path: Path) -> int:
        nonlocal found
        problems, done = _scan(path, check=check, fix=fix, results=results)
        found += len(problems)
        for problem in problems:
            if as_json:
                values = {name: getattr(problem, name) for name in ("line", "column", "severity", "message", "hint")}
                terminal.say_json({"path": str(path), **values}, line=True)
            else:
                warning = "warning: " if problem.severity == "warning" else ""
                hint = f" ({problem.hint})" if problem.hint else ""
                where = f"{terminal.path_text(path)}:{problem.line}:{problem.column}"
                (lines.say if warning else terminal.say)(f"{where}: {warning}{problem.message}{hint}")
        if done and not as_json:
            lines.say(f"{terminal.path_text(path)}: {done}")
        return FAILED if any(problem.severity == "error" for problem in problems) else DONE

    code = each(files, act)
    lines.end()
    if not as_json and not found and code == DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code


def _list_authors(path: Path, *, as_json: bool) -> int:
    from lmm import Document

    authors = Document.open(path).authors
    if as_json:
        terminal.say_json({"path": str(path), "authors": [asdict(author) for author in authors]}, line=True)
        return DONE
    total = sum(author.words for author in authors)
    for author in authors:
        words = f"{terminal.count(author.words, 'word')} ({author.words / (total or 1):.0%})"
        terminal.say(f"{terminal.path_text(path)}: {words} {author}")
    if not any(author.model for author in authors):
        terminal.note("a model is listed where its text was accepted with authorship = true under [notebook]")
    return DONE


def _scan(path: Path, *, check: bool, fix: bool, results: bool) -> tuple[tuple[Finding, ...], str]:
    """Scan a file; return its problems, and what was corrected or completed."""
    from lmm import Document
    from lmm.disk.files import read_document
    from lmm.disk.folder import SUFFIXES
    from lmm.markdown.parse_markdown import header_of
    from lmm.notebook.outputs import printed

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
    problems = document.problems(gaps=check, results=results)
    if results and not any(printed(path, document.text)):
        terminal.note(f"{terminal.path_text(path)}: no output of its code was found; knit it first, with keep_md: true")
    header = header_of(document.blocks)
    if header is not None and (not _PLAIN.issuperset(header.values()) or any(mark in document.text for mark in _MARKS)):
        course = import_module("lmm_education.study.scan_findings")
        more = course.findings(path, document.text, header)
        misspelt = {known.line for known in problems if known.hint.startswith("did you mean")}
        problems += tuple(
            one
            for one in more
            if not any(known.message in one.message for known in problems)
            and not (one.line in misspelt and " is taken for " in one.message)
        )
    problems = tuple(sorted(problems, key=lambda one: (one.line, one.column)))
    return problems, done or ("completed the header" if completed else "")


@options.command()
@options.files
@options.flag("--pending", help="Remove unanswered prompts too.")
def clear(*, files: tuple[Path, ...], pending: bool) -> int:
    """Remove the chats from files, and metadata blocks that contain nothing else."""
    for path in files:
        changed = change(path, lambda document: document.clear(pending=pending))
        terminal.say(f"{terminal.path_text(path)}: {'removed the chats' if changed else 'there are no chats'}")
    return DONE
