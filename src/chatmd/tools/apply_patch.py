"""`apply_patch`: change, add, move and remove several files at once, or none of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatmd.context import Run
from chatmd.errors import FileRefused, PatchError
from chatmd.language.agent import Tool
from chatmd.tools.changes import Change, apply_changes, lock_files, read_content
from chatmd.tools.patch import FORMAT, FilePatch, parse_patch, update_text
from chatmd.tools.registry import OpenTools, offer
from chatmd.tools.roots import ToolRoots, roots_of
from chatmd.tools.text_lines import decode_text, encode_text
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
    return offer("apply_patch", lambda patch: apply_patch(patch, roots, most), text, ("patch",), read=patch_arguments,
                 patch=described)  # fmt: skip


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
    paths = [path for section in sections for path in (section.path, section.move_to) if path]
    with lock_files([roots.writable(path) for path in paths]):
        plan = _Plan(roots)
        report = [line for section in sections for line in plan.add(section)]
        apply_changes([change for change in plan.changes.values() if change.old != change.new])
    done = "\n".join(["Done. What was changed:", *report])
    note = "\n… the rest of the report is left out; all of the patch was applied."
    return done if len(done) <= max_output else done[: max(max_output - len(note), 0)] + note


@dataclass(slots=True)
class _Plan:
    """What the files will be like, one section after the other, by their real paths."""

    roots: ToolRoots
    changes: dict[Path, Change] = field(default_factory=dict)

    def add(self, section: FilePatch) -> list[str]:
        """Take account of one section; lines of a report for the model."""
        change = self._change(section.path, section)
        name = change.target.name
        if section.kind == "Add":
            lines = [line for hunk in section.hunks for line in hunk.lines]
            if change.new is not None:
                hint = "use '*** Update File: …'; to replace all of it, delete it before, in the same patch"
                raise _wrong(section, "adds this file, but it exists already", name, hint)
            change.new = encode_text("".join(line.text + "\n" * line.ends for line in lines), name)
            return [f"A {name} ({count(len(lines), 'line')})"]
        if change.new is None:
            hint = self.roots.missing(change.target).hint
            raise _wrong(section, f"{section.kind.lower()}s this file, but there is no such file", name, hint)
        if section.kind == "Delete":
            change.new = None
            return [f"D {name}"]
        return self._update(section, change)

    def _update(self, section: FilePatch, change: Change) -> list[str]:
        content, name = change.new or b"", change.target.name
        called = name if content == change.old else f"{name}, as the sections before leave it"
        text, report = update_text(decode_text(content, name), section.hunks, called)
        change.new, moved = encode_text(text, name), ""
        if section.move_to and (goal := self._change(section.move_to, section)) is not change:
            if goal.new is not None:
                raise _wrong(section, "moves a file here, but there is one already", goal.target.name)
            change.new, goal.new, goal.like = None, change.new, change.like or change.target
            moved = f" -> {goal.target.name}"
        return [f"M {name}{moved}", *report]

    def _change(self, path: str, section: FilePatch) -> Change:
        """A file, as it is at this point of the patch."""
        target = self.roots.writable(path)
        if target.is_link and (section.kind == "Delete" or section.move_to):
            raise FileRefused("this is a link; delete or move the file it leads to", where=path, hint=target.name)
        if target.real not in self.changes:
            content = read_content(target)
            self.changes[target.real] = Change(target, content, content)
        return self.changes[target.real]


def _wrong(section: FilePatch, what: str, name: str, hint: str = "") -> PatchError:
    return PatchError(f"line {section.line} of the patch {what}", where=name, hint=hint)
