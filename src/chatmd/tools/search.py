"""The tools `read_directory`, which lists files, and `search_files`, which finds text in them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.registry import OpenTools, offer, renaming
from chatmd.tools.roots import LOOK, RootedPath, ToolRoots, roots_of
from lmm.disk.folder import FolderEntry, Unreadable, walk
from lmm.disk.names import Glob, is_secret_file
from lmm.disk.opened import open_folder, read_errors
from lmm.errors import FileReadError, LmmError
from lmm.terminal import count, megabytes, visible

DEEPEST = 20
_LARGEST = 20_000_000  # bytes of the largest file that is searched
_LONGEST = 200  # characters that are shown of a line
_PATH: dict[str, Any] = {"type": "string", "description": "the folder; the working folder if left out"}
_GLOB: dict[str, Any] = {
    "type": "string",
    "description": "only files whose path fits, in all folders below: *.md, src/**/*.{py,toml}",
}


def open_read_directory(declared: Tool, run: Run) -> OpenTools:
    """Open `read_directory` for the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output

    def read_directory(path: str = "", depth: int | None = None, glob: str = "") -> str:
        target = _folder(roots, path)
        pattern = Glob.of(glob) if glob else None
        return list_folder(roots, target, int(depth or (DEEPEST if glob else 1)), pattern, limit)

    return offer(
        "read_directory",
        read_directory,
        f"List a folder: names in order, folders with '/' at the end, files with their size. {roots.described()}",
        (),
        path=_PATH,
        depth={
            "type": "integer",
            "minimum": 1,
            "maximum": DEEPEST,
            "description": "how deep; 1 if left out. Hidden and ignored files further down are left out",
        },
        glob=_GLOB,
    )


def list_folder(roots: ToolRoots, target: RootedPath, depth: int, glob: Glob | None, limit: int) -> str:
    """List the entries of a folder, one per line, in at most `limit` characters.

    Raises:
        FileReadError: it is not a folder, or cannot be read.
    """
    lines: list[str] = []
    unread: list[OSError] = []
    size = len(target.name) + _LONGEST

    def skip(place: tuple[str, ...], error: OSError) -> None:
        unread.append(error)

    with read_errors(target.name, look=LOOK):
        for entry in walk(target.real, target.root.real, depth=depth, on_unreadable=skip):
            if glob and (entry.kind == "folder" or entry.aside or not glob.fits(entry.parts)):
                continue
            line = _listed(entry, roots, target)
            size += len(line) + 1
            if size > limit:
                lines.append("[there is more than can be shown; list one of the folders, or give a glob]")
                break
            lines.append(line)
    if lines:
        lines.insert(0, f"{target.name.removesuffix('/')}/:")
    else:
        lines.append(f"Nothing in {target.name} fits." if glob else f"{target.name} is empty.")
    if unread:
        lines.append(f"[{count(len(unread), 'folder')} below cannot be read]")
    return "\n".join(lines)


def _listed(entry: FolderEntry, roots: ToolRoots, target: RootedPath) -> str:
    name = visible("/".join(entry.parts), line=True)
    if entry.kind == "folder":
        return f"{name}/{' (not looked into)' if entry.closed else ''}"
    if entry.kind == "link":
        return f"{name} -> {_end_of_link(entry, roots, target)}"
    if entry.kind == "other":
        return f"{name} (no ordinary file)"
    secret = "; keys or passwords, cannot be read" if is_secret_file(PurePath(*target.inside, *entry.parts)) else ""
    return f"{name} ({megabytes(entry.size)}{secret})"


def _end_of_link(entry: FolderEntry, roots: ToolRoots, target: RootedPath) -> str:
    try:
        return roots.locate(str(target.real.joinpath(*entry.parts))).name
    except LmmError:
        return "outside of what the tool may use"


def open_search_files(declared: Tool, run: Run) -> OpenTools:
    """Open `search_files` for the roots of its declaration."""
    roots, rules = roots_of(declared, run), run.rules
    limit, seconds = declared.max_output or rules.max_output, 0.9 * (declared.timeout or rules.tool_timeout)

    def search_files(
        pattern: str, literal: bool = False, path: str = "", glob: str = "", ignore_case: bool = False
    ) -> str:
        find = finder(pattern, literal=literal, ignore_case=ignore_case)
        target = _folder(roots, path)
        if not target.real.is_dir():
            target = roots.readable(path)
            if target.real in _own(roots):
                raise ChatmdError("this file belongs to the conversation, and is not searched", where=target.name)
        search = _Search(find, limit, time.monotonic() + seconds)
        return search.run(roots, target, Glob.of(glob) if glob else None)

    return offer(
        "search_files",
        search_files,
        "Find lines by a regular expression or a text, in all text files of a folder and those below, or in one file. "
        "Hidden files, those that .gitignore names, and this conversation's own transcript and settings are passed "
        f"over. {roots.described()} Results are PATH:LINE: TEXT.",
        ("pattern",),
        pattern={
            "type": "string",
            "minLength": 1,
            "description": "a regular expression for a part of one line, in the syntax of RE2: no backreferences, "
            "no looking ahead or behind",
        },
        literal={"type": "boolean", "description": "true if the pattern is a text to be found letter for letter"},
        path={"type": "string", "description": "a folder or a file; the working folder if left out"},
        glob=_GLOB,
        ignore_case={"type": "boolean", "description": "true if A and a are the same; false if left out"},
        read=search_arguments,
    )


def search_arguments(written: str) -> Any:
    """Parse the arguments of a call: `text` or `query`, the names in other programs, mean a literal `pattern`.

    >>> search_arguments('{"text": "f(x)"}'), search_arguments('{"pattern": "a.b", "text": null}')
    ({'pattern': 'f(x)', 'literal': True}, {'pattern': 'a.b'})
    """
    given = renaming(query="text")(written)
    if not isinstance(given, dict) or (given.get("pattern") and given.get("text")):
        return given
    literal = {"pattern": text, "literal": True} if (text := given.pop("text", None)) else {}
    return given | literal


Finder = Callable[[str], int | None]
"""Returns where a line has what is looked for; None if it does not."""


def finder(pattern: str, *, literal: bool, ignore_case: bool) -> Finder:
    """Return a function that finds a text, or a regular expression of RE2, which takes linear time for any line.

    >>> finder("t.o$", literal=False, ignore_case=False)("one two")
    4

    Raises:
        ChatmdError: the pattern is not valid, or a text of several lines.
    """
    if literal:
        if "\n" in pattern:
            raise ChatmdError("the text to be found is on one line", hint="search for its first line")
        wanted = pattern.casefold() if ignore_case else pattern
        return lambda line: at if (at := (line.casefold() if ignore_case else line).find(wanted)) >= 0 else None
    import re2

    options = re2.Options()
    options.log_errors, options.case_sensitive = False, not ignore_case
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "it is not valid"
        raise ChatmdError(f"the pattern is no regular expression of RE2: {why}",
                          hint="for the text itself, letter for letter: literal=true") from None  # fmt: skip
    return lambda line: found.start() if (found := compiled.search(line)) else None


@dataclass(slots=True)
class _Search:
    """One search and its results, in at most `limit` characters and until `deadline`."""

    find: Finder
    limit: int
    deadline: float
    lines: list[str] = field(default_factory=list)
    size: int = 0
    found: int = 0
    files: int = 0
    too_large: int = 0
    unread: int = 0
    late: bool = False

    def run(self, roots: ToolRoots, target: RootedPath, glob: Glob | None) -> str:
        """Search a file or folder, and return the lines found with a summary."""
        one = not target.real.is_dir()
        with read_errors(target.name, look=LOOK):
            if one:
                self._search(target)
            else:
                self._search_all(_files(roots, target, glob, self._skip))
        large = f"more than {megabytes(_LARGEST)}"
        if one and self.too_large:
            hint = "read some of its lines"
            raise ChatmdError(f"it has {large}, and is not searched", where=target.name, hint=hint)
        what = f"{count(self.found, 'line')} in {count(self.files, 'file')}"
        notes = [f"[{what} fit]" if self.found else f"No line in {target.name} fits."]
        if self.found > len(self.lines):
            notes.append(f"[{self.found - len(self.lines)} of them are left out; give a path or a glob]")
        if self.too_large:
            notes.append(f"[not searched: {count(self.too_large, 'file')} of {large}]")
        if self.unread:
            notes.append(f"[not searched: {self.unread} files or folders that cannot be read]")
        if self.late:
            notes.append("[the time was over before all files were searched; give a path or a glob]")
        return "\n".join([*self.lines, *notes])

    def _search_all(self, files: Iterable[RootedPath]) -> None:
        """Add the lines of files, until the time is over."""
        for file in files:
            try:
                self._search(file)
            except (OSError, FileReadError) as error:
                self._skip((file.name,), error)
            self.late = time.monotonic() > self.deadline
            if self.late:
                break

    def _skip(self, place: tuple[str, ...], error: Exception) -> None:
        """Count what cannot be read; what is no text, or has disappeared, has no lines."""
        self.unread += not isinstance(error, FileReadError | FileNotFoundError)

    def _search(self, file: RootedPath) -> None:
        """Add the lines of one file; one that is very large is counted instead.

        Raises:
            FileReadError: it is no text.
        """
        with open_folder(file.real.parent) as folder, folder.open(file.real.name) as opened:
            data = opened.read(_LARGEST + 1)
        if b"\0" in data[:8192]:
            raise FileReadError("this is not a text file", where=file.name)
        if len(data) > _LARGEST:
            self.too_large += 1
            return
        before = self.found
        for number, line in enumerate(data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n"), 1):
            if (at := self.find(line)) is None:
                continue
            found = f"{file.name}:{number}: {_around(line, at)}"
            self.found += 1
            self.size += len(found) + 1
            if self.size <= self.limit - 2 * _LONGEST:
                self.lines.append(found)
        self.files += self.found > before


def _around(line: str, at: int) -> str:
    """Return a line, or the part around `at` if it is long."""
    if len(line) <= _LONGEST:
        return line
    start = max(at - _LONGEST // 4, 0)
    return f"{'…' if start else ''}{line[start : start + _LONGEST]}{'…' if start + _LONGEST < len(line) else ''}"


def _files(roots: ToolRoots, target: RootedPath, glob: Glob | None, on_unreadable: Unreadable) -> Iterator[RootedPath]:
    """The files below a folder that nobody hides; without the transcript, which holds whatever is looked for."""
    own = _own(roots)
    for entry in walk(target.real, target.root.real, depth=DEEPEST, on_unreadable=on_unreadable):
        inside = PurePath(*target.inside, *entry.parts)
        if (
            entry.kind == "file"
            and not entry.aside
            and not is_secret_file(inside)
            and (not glob or glob.fits(entry.parts))
        ):
            name = "/".join((target.name, *entry.parts)).removeprefix("./")
            real = target.real.joinpath(*entry.parts)
            if real not in own:
                yield RootedPath(name, real, target.root)


def _own(roots: ToolRoots) -> set[Path]:
    return {Path(os.path.realpath(file)) for file in roots.protected}


def _folder(roots: ToolRoots, path: str) -> RootedPath:
    """Return the folder of a path; without one, the working folder, or the first root if that is outside of them."""
    if path:
        return roots.locate(path)
    try:
        return roots.locate(".")
    except LmmError:
        first = roots.roots[0]
        return RootedPath(first.name, first.real, first)
