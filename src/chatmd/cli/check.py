"""`lmm check`: problems of ChatMD files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lmm import terminal
from lmm.cli import options
from lmm.cli.main import each
from lmm.terminal import DONE, FAILED

if TYPE_CHECKING:
    from chatmd.language.nodes import Problem


@options.command()
@options.argument("files", "FILE", "ChatMD files, whatever their extension.", many=True, type=options.PATH)
@options.flag("--fix", help="Cut off what a run of an earlier version left incomplete at the end.")
@options.flag("--replay", help="Also report where a run today would differ from the transcript.")
@options.roots
@options.json_lines
@options.config
def check(
    *, files: tuple[Path, ...], fix: bool, roots: tuple[Path, ...], as_json: bool, config: Path | None, **how: bool
) -> int:
    """Report problems of ChatMD files, as path:line:col: message.

    Files, programs and agents that they refer to are checked; nothing is fetched, asked or run, except, with --replay,
    tools that only read. The exit code is 1 if there is an error, which would stop lmm run, 0 with warnings alone,
    and 2 if a config.toml is wrong or not approved.
    """
    from chatmd.chat import Chat
    from chatmd.language.lint import problem_line
    from chatmd.runtime.transcript_file import fix_torn

    found: list[Problem] = []

    def check_file(path: Path) -> int:
        if fix and fix_torn(path):
            terminal.note(f"{path}: what an interrupted run left incomplete is cut off; lmm undo brings it back")
        problems = Chat.open(path, config=config, roots=roots).problems(**how)
        found.extend(problems)
        for problem in problems:
            span = problem.span
            if as_json:
                place = {"path": span.file, "line": span.line, "column": span.column}
                about = {"severity": problem.severity, "message": problem.message, "hint": problem.hint}
                terminal.say_json(place | about, line=True)
            else:
                terminal.say(problem_line(problem, "warning: " if problem.severity == "warning" else ""))
        return FAILED if any(problem.severity == "error" for problem in problems) else DONE

    code = each(files, check_file)
    if not as_json and not found and code == DONE:
        terminal.say(f"{terminal.count(len(files), 'file')}: no problems")
    return code
