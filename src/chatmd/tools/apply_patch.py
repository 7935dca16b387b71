"""`apply_patch`: change, add, move and remove several files at once, or none of them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatmd.context import Run
from chatmd.errors import FileRefused, PatchError
from chatmd.language.agent import Tool
from chatmd.tools.changes import Change, apply_changes, lock_files, read_content
from chatmd.tools.patch import FORMAT, AddFile, DeleteFile, Section, UpdateFile, parse_patch, text_of, update_text
from chatmd.tools.registry import FunctionTool, OpenTools
from chatmd.tools.roots import ToolRoots, roots_of
from chatmd.tools.text_lines import decode_text, encode_text
from lmm.messages import ToolDefinition, object_schema
from lmm.terminal import count

_DESCRIPTION = """\
Change, add, move and delete text files with one patch; if any of it does not fit, nothing is changed. {roots} A patch \
looks like this:

{format}

After '*** Update File' may come '*** Move to: PATH'. Give about three lines of context around each change, exactly as \
they are in the file. If these lines occur more than once, put '@@ ' and the heading or definition above them before \
the hunk. A second hunk in the same file begins with '@@'. '*** End of File' after a hunk says that it is at the end."""


def open_apply_patch(declared: Tool, run: Run) -> OpenTools:
    """The tool, for the roots of its declaration."""
    roots, most = roots_of(declared, run), declared.max_output or run.rules.max_output
    described = {"type": "string", "description": "the patch, from '*** Begin Patch' to '*** End Patch'"}
    text = _DESCRIPTION.format(roots=roots.described(), format=FORMAT)
    definition = ToolDefinition("apply_patch", text, object_schema(("patch",), patch=described))
    tool = FunctionTool(definition, lambda patch: apply_patch(patch, roots, most), patch_arguments)
    return contextlib.nullcontext([tool])


def patch_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as models write them: JSON with `patch` or `input`, a JSON string, or the bare patch.

    >>> patch_arguments('{"input": "*** Begin Patch"}') == patch_arguments("*** Begin Patch")
    True
    """
    try:
        given = json.loads(text, strict=False)
    except ValueError:
        return {"patch": text}
    if isinstance(given, str):
        return {"patch": given}
    if isinstance(given, dict) and "patch" not in given and isinstance(given.get("input"), str):
        return {"patch": given["input"], **{key: value for key, value in given.items() if key != "input"}}
    return given if isinstance(given, dict) else {"patch": text}


def apply_patch(text: str, roots: ToolRoots, max_output: int = 30_000) -> str:
    """Apply a patch and say what was done, in at most `max_output` characters.

    Raises:
        PatchError: it is no patch, or does not fit.
        FileRefused: it names a file that may not be changed.
        DocumentError: a file cannot be read or written; nothing was changed, unless the message says what was.
    """
    sections = parse_patch(text)
    paths = [section.path for section in sections]
    paths += [section.move_to for section in sections if isinstance(section, UpdateFile) and section.move_to]
    with lock_files([roots.writable(path) for path in paths]):
        plan = _Plan(roots)
        for section in sections:
            plan.add(section)
        apply_changes([change for change in plan.changes.values() if change.old != change.new])
    return _cut("\n".join(plan.report), max_output)


@dataclass(slots=True)
class _Plan:
    """What the files will be like, one section after the other, by their real paths; and a report for the model."""

    roots: ToolRoots
    changes: dict[Path, Change] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)

    def add(self, section: Section) -> None:
        """Take account of one section."""
        change = self._file(section.path, section)
        name = change.target.name
        if isinstance(section, AddFile):
            if change.new is not None:
                raise PatchError(
                    f"line {section.line} of the patch adds this file, but it exists already",
                    where=name,
                    hint="use '*** Update File: …'; to replace all of it, delete it before, in the same patch",
                )
            change.new = encode_text(text_of(section.lines), name)
            self.report.append(f"A {name} ({count(len(section.lines), 'line')})")
        elif change.new is None:
            verb = "deletes" if isinstance(section, DeleteFile) else "updates"
            raise PatchError(
                f"line {section.line} of the patch {verb} this file, but there is no such file",
                where=name,
                hint=self.roots.missing(change.target).hint,
            )
        elif isinstance(section, DeleteFile):
            change.new = None
            self.report.append(f"D {name}")
        else:
            self._update(section, change, change.new)

    def _update(self, section: UpdateFile, change: Change, content: bytes) -> None:
        name = change.target.name
        called = f"{name}, as the sections before leave it" if content != change.old else name
        updated = update_text(decode_text(content, name), section.hunks, called)
        change.new, moved = encode_text(updated.text, name), ""
        if section.move_to and (goal := self._file(section.move_to, section)) is not change:
            if goal.new is not None:
                raise PatchError(
                    f"line {section.line} of the patch moves a file here, but there is one already",
                    where=goal.target.name,
                )
            change.new, goal.new, goal.like = None, change.new, change.like or change.target
            moved = f" -> {goal.target.name}"
        self.report += [f"M {name}{moved}", *updated.report]

    def _file(self, path: str, section: Section) -> Change:
        """A file, as it is at this point of the patch."""
        target = self.roots.writable(path)
        if target.is_link and (
            isinstance(section, DeleteFile) or (isinstance(section, UpdateFile) and section.move_to)
        ):
            raise FileRefused("this is a link; delete or move the file it leads to", where=path, hint=target.name)
        if target.real not in self.changes:
            content = read_content(target)
            self.changes[target.real] = Change(target, content, content)
        return self.changes[target.real]


def _cut(report: str, limit: int) -> str:
    done = "Done. What was changed:\n" + report
    note = "\n… the rest of the report is left out; all of the patch was applied."
    return done if len(done) <= limit else done[: max(limit - len(note), 0)] + note
