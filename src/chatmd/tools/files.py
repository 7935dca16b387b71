"""The tools for files and folders, but for patches: to read and change files, list folders, find text, see images."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from chatmd.content.documents import describe_image, image_from
from chatmd.context import Run
from chatmd.errors import ChatmdError
from chatmd.language.agent import Tool
from chatmd.tools.patch import as_typed, line_numbers, nearest
from chatmd.tools.registry import IN_ORDER, OpenTools, offer, renaming
from chatmd.tools.roots import LOOK, RootedPath, ToolRoots, roots_of
from chatmd.tools.text_files import (
    READ,
    Change,
    TextLines,
    apply_changes,
    are_numbered,
    decode_text,
    encode_text,
    lock_files,
    read_content,
    read_excerpt,
    with_newline,
)
from lmm import terminal
from lmm.disk.files import read_document
from lmm.disk.folder import FolderEntry, Unreadable, walk
from lmm.disk.names import Glob, is_secret_file
from lmm.disk.opened import open_folder, read_errors
from lmm.errors import FileReadError, LmmError
from lmm.markdown.parse_markdown import header_values
from lmm.messages import ToolOutput
from lmm.terminal import count, megabytes, visible

# -- The tools for single files: `read_file`, `write_file`, `append_to_file`, `find_and_replace` --------------


PATH: dict[str, Any] = {"type": "string", "description": "the file's path", "minLength": 1}
OFFSET = {"type": "integer", "minimum": 0, "description": "the number of the first line to read; 1 if left out"}
_CONTENT = {"type": "string"}
_AROUND_TEXT = 300  # characters of a result around the file's text
_MOST_PLACES = 20  # that a report lists


def open_read_file(declared: Tool, run: Run) -> OpenTools:
    """Open `read_file` for the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output

    def call(path: str, offset: int = 1, line_count: int | None = None) -> str:
        return read_file(roots, path, int(offset), line_count and int(line_count), limit)

    return offer(
        "read_file",
        call,
        f"Read a text file, or some of its lines. {roots.described()} First comes a line PATH:FIRST-LAST: and one with "
        "[total_lines=N], then each line after its number and a tab; what is left out is said at the end.",
        ("path",),
        path=PATH,
        offset=OFFSET,
        line_count={
            "type": "integer",
            "minimum": 1,
            "description": f"how many lines to read; as many as fit into {limit:,} characters if left out",
        },
        read=renaming(file="path", file_path="path", limit="line_count"),
    )


def read_file(roots: ToolRoots, path: str, offset: int, count: int | None, limit: int) -> str:
    """Return the lines from `offset`, 1 or 0 for the first, with a header and, if there are more, a footer.

    They have at most `limit` characters.

    Raises:
        FileRefused: the file is not in the roots.
        DocumentError: it cannot be read, or is not text.
        ChatmdError: it has no such lines.
    """
    target, skipped = roots.readable(path), max(offset - 1, 0)
    if not os.path.lexists(target.real):
        raise roots.missing(target)
    budget = max(limit - _AROUND_TEXT - len(target.name), 100)
    real = target.real
    with read_errors(target.name, look=LOOK), open_folder(real.parent) as folder, folder.open(real.name) as file:
        found = read_excerpt(file, target.name, offset=skipped, count=count, budget=budget)
    if not found.total:
        return f"{target.name} is empty."
    if skipped >= found.total:
        looked_at = "" if found.exact else f"only its first {READ // 1_000_000} MB are looked at"
        raise ChatmdError(
            f"it has {found.total} lines only, so that there is no line {offset}", where=target.name, hint=looked_at
        )
    last = skipped + len(found.lines)
    total = f"{found.total}" if found.exact else f"more than {found.total}"
    notes = f"[total_lines={total}]" + (" [line ends: CRLF]" if found.crlf else "")
    text = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(found.lines, skipped + 1))
    footer = ""
    if found.cut:
        footer = f"\n[line {last} is too long to be shown; these are its first {len(found.lines[0])} characters]"
    if last < found.total:
        footer += f"\n[{terminal.count(found.total - last, 'more line')}; read on with offset={last + 1}]"
    return f"{target.name}:{skipped + 1}-{last}:\n{notes}\n{text}{footer}"


def open_write_file(declared: Tool, run: Run) -> OpenTools:
    """Open `write_file` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def write_file(path: str, content: str, overwrite: bool = False) -> str:
        def written(old: str | None, target: RootedPath) -> tuple[str, str]:
            if old is not None and not overwrite:
                raise ChatmdError("this file exists already", where=target.name, hint="overwrite=true replaces it")
            new = content if old is None else with_newline(content, TextLines.of(old).newline)
            return new, f"{'Made' if old is None else 'Replaced'} {target.name}: {_lines(new)}."

        return edit_file(roots, path, written)

    return offer(
        "write_file",
        write_file,
        f"Make a text file, or replace all of one. {roots.described()} Folders are made as needed. To change a part of "
        f"a file, use another tool. {IN_ORDER}",
        ("path", "content"),
        path=PATH,
        content=_CONTENT | {"description": "all of the new text"},
        overwrite={"type": "boolean", "description": "true to replace a file that exists; false if left out"},
        read=renaming(file_path="path"),
    )


def open_append_to_file(declared: Tool, run: Run) -> OpenTools:
    """Open `append_to_file` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def append_to_file(path: str, content: str) -> str:
        def appended(old: str | None, target: RootedPath) -> tuple[str, str]:
            newline = TextLines.of(old or "").newline
            before = old if not old or old.endswith("\n") else old + newline
            new = (before or "") + (content if old is None else with_newline(content, newline))
            return new, f"Added {_lines(content)} to {target.name}, which now has {_lines(new)}."

        return edit_file(roots, path, appended)

    return offer(
        "append_to_file",
        append_to_file,
        f"Add text at the end of a text file; a file that does not exist is made. {roots.described()} The text begins "
        f"on a line of its own. {IN_ORDER}",
        ("path", "content"),
        path=PATH,
        content=_CONTENT | {"description": "the text to add"},
        read=renaming(file_path="path"),
    )


def open_find_and_replace(declared: Tool, run: Run) -> OpenTools:
    """Open `find_and_replace` for the roots of its declaration."""
    roots = roots_of(declared, run)

    def find_and_replace(path: str, find: str, replace: str, all: bool = False) -> str:
        def replaced(old: str | None, target: RootedPath) -> tuple[str, str]:
            if old is None:
                raise roots.missing(target)
            return replace_text(old, find, replace, target.name, every=all)

        return edit_file(roots, path, replaced)

    return offer(
        "find_and_replace",
        find_and_replace,
        "Replace a piece of a text file by another. The piece must be there exactly as given, white space included, "
        f"and only once, unless 'all' is true. {roots.described()} {IN_ORDER}",
        ("path", "find", "replace"),
        path=PATH,
        find=_CONTENT | {"minLength": 1, "description": "the text to find; it may have several lines"},
        replace=_CONTENT | {"description": "the text to put in its place"},
        all={"type": "boolean", "description": "true to replace every occurrence; false if left out"},
        read=renaming(file_path="path"),
    )


def replace_text(text: str, find: str, replace: str, name: str, *, every: bool = False) -> tuple[str, str]:
    """Replace one piece of a text, or every such piece; return the new text and a report.

    Line ends in `find` and `replace` are converted to those of the text.

    >>> replace_text("a\\r\\nb\\r\\n", "a\\nb", "c\\nd", "f")
    ('c\\r\\nd\\r\\n', 'Replaced 1 occurrence in f, line 1.')

    Raises:
        ChatmdError: the piece does not occur, or occurs several times.
    """
    if find == replace:
        raise ChatmdError("what is to be found and what is to replace it are the same", where=name)
    newline = TextLines.of(text).newline
    searched = find if find in text else with_newline(find, newline)
    count = text.count(searched) if searched else 0
    if not count:
        raise _not_found(text, find, name)
    found = islice(re.finditer(re.escape(searched), text), _MOST_PLACES)
    places = list(dict.fromkeys(text.count("\n", 0, match.start()) for match in found))
    if count > 1 and not every:
        hint = "give more of the text around the one that is meant, or all=true"
        raise ChatmdError(f"the text occurs {count} times, {line_numbers(places)}", where=name, hint=hint)
    done = text.replace(searched, with_newline(replace, newline))
    return done, f"Replaced {terminal.count(count, 'occurrence')} in {name}, {line_numbers(places)}."


def edit_file(roots: ToolRoots, path: str, edit: Callable[[str | None, RootedPath], tuple[str, str]]) -> str:
    """Change one file in one step: `edit` gets its text, None if there is no file, and returns a new one and a report.

    Raises:
        FileRefused: the file may not be changed.
        DocumentError: it cannot be read or written, or is not text; it was not changed.
    """
    target = roots.writable(path)
    with lock_files([target]):
        old = read_content(target)
        text = None if old is None else decode_text(old, target.name)
        new, report = edit(text, target)
        data = encode_text(new, target.name)
        if data != old:
            apply_changes([Change(target, old, data)])
    return report


def _not_found(text: str, find: str, name: str) -> ChatmdError:
    lines = TextLines.of(text).texts
    searched = find.strip("\n").split("\n")
    guess = nearest(searched, [as_typed(line) for line in lines])
    suggestion = ""
    if guess is not None:
        excerpt = "\n".join(lines[guess : guess + min(len(searched), 20)])
        suggestion = f".\nDid you mean line {guess + 1}? It says:\n{excerpt}\n"
    hint = "give it without the line numbers" if are_numbered(searched) else "copy it exactly as the file has it"
    return ChatmdError(f"the text is not in the file{suggestion}", where=name, hint=hint)


def _lines(text: str) -> str:
    return terminal.count(len(TextLines.of(text).texts), "line")


# -- The tool that shows images to the model: `import_image` --------------------------------------------------


def open_import_image(declared: Tool, run: Run) -> OpenTools:
    """Open `import_image` for the roots of its declaration."""
    roots, limit = roots_of(declared, run), run.rules.fetch_limit

    def import_image(path: str) -> ToolOutput:
        target = roots.readable(path)
        real = target.real
        with read_errors(target.name, look=LOOK), open_folder(real.parent) as folder, folder.open(real.name) as file:
            data = file.read(limit + 1)
        try:
            image = image_from(data, limit=limit)
        except ChatmdError as error:
            raise ChatmdError(error.message, where=target.name, hint=error.hint) from error
        return ToolOutput(f"{target.name}: {describe_image(image)}", (image,))

    return offer(
        "import_image",
        import_image,
        f"Look at an image file: PNG, JPEG, GIF or WebP. {roots.described()}",
        ("path",),
        path={"type": "string", "minLength": 1, "description": "the image's path"},
    )


# -- `read_skill`: folders with a `SKILL.md`; the model gets their names and descriptions ---------------------


SKILL = "SKILL.md"
_LONGEST = 1024  # characters of a description


def open_read_skill(declared: Tool, run: Run) -> OpenTools:
    """Open `read_skill` for the skills in the roots of its declaration."""
    roots, limit = roots_of(declared, run), declared.max_output or run.rules.max_output
    paths = (path for root in roots.roots for path in (root.real / SKILL, *sorted(root.real.glob(f"*/{SKILL}"))))
    found = (roots.readable(str(path)).real for path in paths if path.is_file())
    skills, listed = {path.parent.name: path for path in found}, ""
    if not skills:
        hint = f"a skill is a folder with a {SKILL} below one of roots; looked in {roots.names}"
        raise ChatmdError("there are no skills", where=declared.span.where, hint=hint)
    for name, path in skills.items():
        about = " ".join(str(header_values(read_document(path)).get("description") or "").split())
        if not about:
            hint = "begin it with the lines '---', 'name: …', 'description: …', '---'"
            raise ChatmdError("this skill does not say what it is for", where=str(path), hint=hint)
        listed += f"\n- {name}: {about[:_LONGEST]}"

    def read_skill(skill: str, path: str = SKILL, offset: int = 1) -> str:
        return read_file(roots, str(skills[skill].parent / path), int(offset), None, limit)

    return offer(
        "read_skill",
        read_skill,
        f"Read how a kind of task is done, before you begin with one of that kind. There are:{listed}",
        ("skill",),
        skill={"type": "string", "enum": list(skills)},
        path=PATH | {"description": f"another file of that skill, as its text names it; {SKILL} if left out"},
        offset=OFFSET,
    )


# -- `read_directory`, which lists files, and `search_files`, which finds text in them -------------------------


DEEPEST = 20
_LARGEST = 20_000_000  # bytes of the largest file that is searched
_LONGEST_LINE = 200  # characters that are shown of a line
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
    size = len(target.name) + _LONGEST_LINE

    def skip(place: tuple[str, ...], error: OSError) -> None:
        unread.append(error)

    with read_errors(target.name, look=LOOK):
        for entry in walk(target.real, target.root.real, depth=depth, on_unreadable=skip):
            if glob and (entry.kind == "folder" or entry.excluded or not glob.fits(entry.parts)):
                continue
            line = _entry_line(entry, roots, target)
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


def _entry_line(entry: FolderEntry, roots: ToolRoots, target: RootedPath) -> str:
    name = visible("/".join(entry.parts), line=True)
    if entry.kind == "folder":
        return f"{name}/{' (not looked into)' if entry.closed else ''}"
    if entry.kind == "link":
        end = "outside of what the tool may use"
        with contextlib.suppress(LmmError):
            end = roots.locate(str(target.real.joinpath(*entry.parts))).name
        return f"{name} -> {end}"
    if entry.kind == "other":
        return f"{name} (no ordinary file)"
    secret = "; keys or passwords, cannot be read" if is_secret_file(PurePath(*target.inside, *entry.parts)) else ""
    return f"{name} ({megabytes(entry.size)}{secret})"


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
    arguments = renaming(query="text")(written)
    if not isinstance(arguments, dict) or (arguments.get("pattern") and arguments.get("text")):
        return arguments
    literal = {"pattern": text, "literal": True} if (text := arguments.pop("text", None)) else {}
    return arguments | literal


Finder = Callable[[str], int | None]
"""Returns where a line has what is looked for; None if it does not."""


def finder(pattern: str, *, literal: bool, ignore_case: bool) -> Finder:
    """Return a function that finds a text, or a regular expression of RE2, which takes linear time for any line.

    >>> finder("t.o$", literal=False, ignore_case=False)("one two")
    4

    Raises:
        ChatmdError: the pattern is not valid, or a text of several lines.
    """
    if "\n" in pattern:
        raise ChatmdError("what is found is on one line, and the pattern has several", hint="search for one of them")
    if literal:
        searched = pattern.casefold() if ignore_case else pattern
        return lambda line: at if (at := (line.casefold() if ignore_case else line).find(searched)) >= 0 else None
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

    def run(self, roots: ToolRoots, target: RootedPath, glob: Glob | None) -> str:
        """Search a file or folder, and return the lines found with a summary."""
        one, late = not target.real.is_dir(), False
        with read_errors(target.name, look=LOOK):
            if one:
                self._search(target)
            for file in () if one else _files(roots, target, glob, self._skip):
                try:
                    self._search(file)
                except (OSError, FileReadError) as error:
                    self._skip((file.name,), error)
                if late := time.monotonic() > self.deadline:
                    break
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
        if late:
            notes.append("[the time was over before all files were searched; give a path or a glob]")
        return "\n".join([*self.lines, *notes])

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
            if self.size <= self.limit - 2 * _LONGEST_LINE:
                self.lines.append(found)
        self.files += self.found > before


def _around(line: str, at: int) -> str:
    """Return a line, or the part around `at` if it is long."""
    if len(line) <= _LONGEST_LINE:
        return line
    start = max(at - _LONGEST_LINE // 4, 0)
    return (
        f"{'…' if start else ''}{line[start : start + _LONGEST_LINE]}{'…' if start + _LONGEST_LINE < len(line) else ''}"
    )


def _files(roots: ToolRoots, target: RootedPath, glob: Glob | None, on_unreadable: Unreadable) -> Iterator[RootedPath]:
    """The files below a folder that nobody hides; without the transcript, which holds whatever is looked for."""
    own = _own(roots)
    for entry in walk(target.real, target.root.real, depth=DEEPEST, on_unreadable=on_unreadable):
        secret = is_secret_file(PurePath(*target.inside, *entry.parts))
        if entry.kind == "file" and not entry.excluded and not secret and (not glob or glob.fits(entry.parts)):
            real = target.real.joinpath(*entry.parts)
            if real not in own:
                yield RootedPath("/".join((target.name, *entry.parts)).removeprefix("./"), real, target.root)


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
